"""Rights of principals: what they see, what they change, and what gives them no more than they have."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import mangrove
from mangrove.effects import Effects
from mangrove.errors import AccessDeniedError, AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import TableLocator
from mangrove.model.objects import TableEntry
from mangrove.storage.counting import CountingStore
from mangrove.wiring import LocalEngines

SCHEMA = "id bigint not null, amount bigint"
ROWS = [{"id": 1, "amount": 5}]


@pytest.fixture
def lake(effects: Effects, layout: str, strict: bool | None) -> Lakehouse:
    """Return a lakehouse with two tables in two namespaces and the principal ana without rights."""
    lake = create_on_store(effects, layout=layout, strict=strict, engines=LocalEngines)
    for name in ("sales", "staff"):
        lake.create_namespace(name)
    for name in ("sales.orders", "staff.salaries"):
        lake.create_table(name, SCHEMA, keys=["id"]).append(ROWS)
    lake.access.create_principal("ana")
    return lake


def list_names(lake: Lakehouse) -> list[str]:
    return [str(table) for namespace in lake.namespaces() for table in lake.tables(namespace.locator)]


def test_a_principal_without_grants_sees_nothing(lake: Lakehouse) -> None:
    ana = lake.as_principal("ana")
    assert list_names(ana) == []
    assert list(ana.namespaces()) == []
    with pytest.raises(NotFoundError):
        ana.table("sales.orders")


def test_a_grant_on_a_table_shows_this_table_only(lake: Lakehouse) -> None:
    lake.create_table("sales.returns", SCHEMA)
    lake.access.grant("read", "sales.orders", to="ana")
    ana = lake.as_principal("ana")
    assert list_names(ana) == ["sales.orders"]
    assert ana.table("sales.orders").to_arrow().to_pylist() == ROWS
    with pytest.raises(AccessDeniedError, match=r"ana lacks the privilege write on table sales\.orders"):
        ana.table("sales.orders").append(ROWS)
    assert lake.table("sales.orders").to_arrow().num_rows == 1


def test_a_table_of_a_grant_is_named_by_its_ids(lake: Lakehouse) -> None:
    table = lake.table("sales.orders")
    lake.access.grant("read", str(table.identity), to="ana")
    assert [str(one) for one in lake.access.grants("sales.orders")] == [
        str(one) for one in lake.access.grants(str(table.identity))
    ]
    assert list_names(lake.as_principal("ana")) == ["sales.orders"]
    with pytest.raises(InvalidInputError, match="names a table version; expected a namespace, table or view"):
        lake.access.grant("read", str(table.opened().version_locator), to="ana")
    other = str(lake.table("staff.salaries").identity)
    with pytest.raises(NotFoundError):
        lake.as_principal("ana").access.grants(other)


def test_a_grant_on_a_namespace_holds_for_what_is_in_it(lake: Lakehouse) -> None:
    lake.access.grant("write", "sales", to="ana")
    ana = lake.as_principal("ana")
    ana.table("sales.orders").upsert([{"id": 2, "amount": 7}])
    ana.create_table("sales.returns", SCHEMA, keys=["id"]).append(ROWS)
    assert list_names(ana) == ["sales.orders", "sales.returns"]
    for refused in (
        lambda: ana.drop_table("sales.orders"),
        lambda: ana.rename_table("sales.orders", "sales.bills"),
        lambda: ana.create_namespace("other"),
        lambda: ana.drop_namespace("sales", cascade=True),
    ):
        with pytest.raises(AccessDeniedError):
            refused()
    assert list_names(lake) == ["sales.orders", "sales.returns", "staff.salaries"]


def test_manage_on_a_namespace_includes_renames_and_drops_of_what_is_in_it(lake: Lakehouse) -> None:
    lake.access.grant("manage", "sales", to="ana")
    ana = lake.as_principal("ana")
    ana.rename_table("sales.orders", "sales.bills")
    ana.create_view("sales.all", "select * from sales.bills", reads=["sales.bills"])
    ana.drop_view("sales.all")
    ana.drop_table("sales.bills")
    ana.drop_namespace("sales")
    assert [namespace.name for namespace in lake.namespaces()] == ["staff"]


def test_a_role_gives_its_grants_to_its_principals(lake: Lakehouse) -> None:
    lake.access.create_role("analyst")
    lake.access.grant("read", "staff.salaries", to="analyst")
    lake.access.grant_role("analyst", to="ana")
    assert list_names(lake.as_principal("ana")) == ["staff.salaries"]
    lake.access.revoke_role("analyst", from_="ana")
    assert list_names(lake.as_principal("ana")) == []


def test_a_grant_follows_a_rename_and_not_the_name(lake: Lakehouse) -> None:
    lake.access.grant("read", "sales.orders", to="ana")
    lake.rename_table("sales.orders", "sales.bills")
    lake.create_table("sales.orders", SCHEMA)
    assert list_names(lake.as_principal("ana")) == ["sales.bills"]
    assert [str(one) for one in lake.access.grants()] == ["read on table sales.bills to ana"]


def test_a_new_table_with_the_name_of_a_dropped_one_has_no_grants(lake: Lakehouse) -> None:
    lake.access.grant("read", "sales.orders", to="ana")
    lake.drop_table("sales.orders")
    lake.create_table("sales.orders", SCHEMA)
    assert list_names(lake.as_principal("ana")) == []
    assert [one.name for one in lake.access.grants()] == ["(dropped)"]


def test_a_principal_cannot_move_a_table_to_a_namespace_that_it_manages(lake: Lakehouse) -> None:
    lake.access.grant("manage", "staff", to="ana")
    lake.access.grant("write", "sales.orders", to="ana")
    ana = lake.as_principal("ana")
    with pytest.raises(AccessDeniedError, match=r"manage on table sales\.orders"):
        ana.rename_table("sales.orders", "staff.orders")
    lake.access.grant("manage", "sales.orders", to="ana")
    with pytest.raises(AccessDeniedError, match="write on namespace sales"):
        lake.as_principal("ana").rename_table("sales.orders", "sales.bills")
    lake.as_principal("ana").rename_table("sales.orders", "staff.orders")


def test_an_alias_shows_no_table_that_may_not_be_read(lake: Lakehouse) -> None:
    lake.create_alias("sales.pay", "staff.salaries")
    lake.access.grant("manage", "sales", to="ana")
    ana = lake.as_principal("ana")
    assert list(ana.aliases()) == []
    with pytest.raises(NotFoundError):
        ana.table("sales.pay")
    with pytest.raises(NotFoundError):
        ana.create_alias("sales.mine", "staff.salaries")
    lake.access.grant("read", "staff.salaries", to="ana")
    ana = lake.as_principal("ana")
    assert [alias.name for alias in ana.aliases()] == ["sales.pay"]
    with pytest.raises(AccessDeniedError, match="write on namespace staff"):
        ana.create_alias("staff.mine", "sales.orders")
    ana.create_alias("sales.mine", "sales.orders")
    ana.rename_table("sales.orders", "sales.bills")
    assert str(ana.table("sales.mine")) == "sales.bills"
    ana.drop_alias("sales.mine")


def test_a_refused_create_or_rename_does_not_tell_hidden_names_from_free_ones(lake: Lakehouse) -> None:
    lake.create_table("sales.returns", SCHEMA)
    lake.access.grant("manage", "sales.orders", to="ana")
    ana = lake.as_principal("ana")
    messages = set()
    for name in ("sales.returns", "sales.free"):
        with pytest.raises(AccessDeniedError) as refused:
            ana.create_table(name, SCHEMA)
        messages.add(str(refused.value).replace(name, "…"))
        with pytest.raises(AccessDeniedError) as refused:
            ana.rename_table("sales.orders", name)
        messages.add(str(refused.value).replace(name, "…"))
    for name in ("staff", "free"):
        with pytest.raises(AccessDeniedError) as refused:
            ana.create_namespace(name)
        messages.add(str(refused.value).replace(name, "…"))
    assert len(messages) == 2


def test_a_name_that_a_hidden_alias_has_is_taken(lake: Lakehouse) -> None:
    lake.create_alias("sales.pay", "staff.salaries")
    lake.access.grant("manage", "sales", to="ana")
    with pytest.raises(AccessDeniedError, match=r"the alias sales\.pay"):
        lake.as_principal("ana").create_table("sales.pay", SCHEMA)


def test_the_id_of_a_hidden_table_is_taken(lake: Lakehouse) -> None:
    lake.access.grant("manage", "sales", to="ana")
    ana = lake.as_principal("ana")
    hidden = lake._reading().get(TableLocator("staff", "salaries"))
    assert isinstance(hidden, TableEntry)
    changes = Changes("t1", puts={TableLocator("sales", "copy"): replace(hidden, name="copy")})
    with pytest.raises(AccessDeniedError, match="the object with the id"):
        ana.metastore.commit(ana._reading(), changes, Isolation.SNAPSHOT)


def test_a_namespace_that_is_visible_for_one_table_shows_only_its_name(lake: Lakehouse) -> None:
    lake.namespace("sales").alter(description="of the spy", put={"owner": "spy"})
    lake.access.grant("read", "sales.orders", to="ana")
    ana = lake.as_principal("ana")
    for namespace in (ana.namespace("sales"), *ana.namespaces()):
        assert (namespace.name, namespace.description, dict(namespace.properties)) == ("sales", None, {})
    assert "spy" not in repr(ana.diff(1, ana.version))


def test_rights_in_earlier_versions_are_those_of_now(lake: Lakehouse) -> None:
    lake.access.grant("read", "staff.salaries", to="ana")
    granted = lake.version
    assert lake.as_principal("ana").at(granted).table("staff.salaries").to_arrow().num_rows == 1
    lake.access.revoke("read", "staff.salaries", from_="ana")
    with pytest.raises(NotFoundError):
        lake.as_principal("ana").at(granted).table("staff.salaries")


def test_a_table_that_was_moved_out_of_reach_is_not_readable_in_earlier_versions(lake: Lakehouse) -> None:
    lake.access.grant("read", "sales", to="ana")
    before = lake.version
    ana = lake.as_principal("ana")
    assert [str(table) for table in ana.at(before).tables("sales")] == ["sales.orders"]
    lake.rename_table("sales.orders", "staff.orders")
    with pytest.raises(NotFoundError):
        ana.at(before).table("sales.orders")
    lake.create_table("sales.orders", SCHEMA)
    with pytest.raises(NotFoundError):
        ana.at(before).table("sales.orders")


def test_a_dropped_table_is_readable_in_earlier_versions_of_its_namespace(lake: Lakehouse) -> None:
    lake.access.grant("read", "sales", to="ana")
    before = lake.version
    lake.drop_table("sales.orders")
    assert lake.as_principal("ana").at(before).table("sales.orders").to_arrow().num_rows == 1


def test_a_rollback_does_not_give_revoked_rights_back(lake: Lakehouse) -> None:
    lake.access.grant("read", "sales", to="ana")
    before = lake.version
    lake.access.revoke("read", "sales", from_="ana")
    lake.drop_table("sales.orders")
    lake.rollback(before)
    assert "sales.orders" in list_names(lake)
    assert list_names(lake.as_principal("ana")) == []


def test_a_rollback_keeps_rights_that_were_granted_since(lake: Lakehouse) -> None:
    before = lake.version
    lake.access.create_principal("bob")
    lake.access.grant("read", "sales", to="bob")
    lake.rollback(before)
    assert list_names(lake.as_principal("bob")) == ["sales.orders"]


@pytest.mark.parametrize("privilege", ["read", "write"])
def test_only_managers_of_the_lakehouse_roll_back_and_maintain(lake: Lakehouse, privilege: str) -> None:
    lake.access.grant(privilege, None, to="ana")
    ana, before = lake.as_principal("ana"), lake.version
    lake.create_namespace("other")
    for refused in (
        lambda: ana.rollback(before),
        lambda: ana.maintenance.vacuum(),
        lambda: ana.alter({"owner": "ana"}),
        lambda: ana.tag("mine"),
    ):
        with pytest.raises(AccessDeniedError, match="manage on the lakehouse"):
            refused()
    lake.access.grant("manage", None, to="ana")
    lake.as_principal("ana").rollback(before)
    assert lake.history()[0].author == "ana"


def test_one_forbidden_table_in_a_transaction_refuses_all_of_it(lake: Lakehouse) -> None:
    lake.access.grant("write", "sales", to="ana")
    lake.access.grant("read", "staff", to="ana")
    before = lake.version
    transaction = lake.as_principal("ana").transaction()
    transaction.table("sales.orders").append(ROWS)
    transaction.table("staff.salaries").alter({"owner": "ana"})
    with pytest.raises(AccessDeniedError):
        transaction.commit()
    assert lake.version == before


def test_a_revoke_holds_for_the_commit_of_rows_that_were_staged_before(lake: Lakehouse) -> None:
    lake.access.grant("write", "sales", to="ana")
    transaction = lake.as_principal("ana").transaction()
    transaction.table("sales.orders").append(ROWS)
    lake.access.revoke("write", "sales", from_="ana")
    with pytest.raises(AccessDeniedError):
        transaction.commit()


def test_a_refused_write_leaves_no_files(lake: Lakehouse, store: CountingStore) -> None:
    orders = lake.table("sales.orders")
    orders.alter({"write.inline-rows-max-bytes": "0"})
    for number in range(3):
        orders.append([{"id": number, "amount": 1}])
    lake.create_table("sales.raw", schemaless=True)
    lake.access.grant("read", "sales", to="ana")
    ana = lake.as_principal("ana")
    readable = ana.table("sales.orders")
    before = {entry.path for entry in store.list()}
    for refused in (
        lambda: readable.append(ROWS),
        lambda: readable.append([{"id": 1, "more": 2}], evolve=True),
        lambda: readable.upsert(ROWS),
        lambda: readable.delete("id = 1"),
        lambda: readable.overwrite(ROWS),
        lambda: readable.compact(full=True),
        lambda: ana.table("sales.raw").add_files({"a.txt": b"text"}),
        lambda: ana.create_table("sales.copy", SCHEMA, as_=ROWS, properties={"write.inline-rows-max-bytes": "0"}),
        lambda: ana.transaction().table("sales.orders").append(ROWS),
    ):
        with pytest.raises(AccessDeniedError):
            refused()
        assert {entry.path for entry in store.list()} == before


def test_a_table_that_a_transaction_created_or_renamed_is_written_in_it(lake: Lakehouse) -> None:
    lake.access.grant("manage", "sales", to="ana")
    with lake.as_principal("ana").transaction() as transaction:
        transaction.create_table("sales.returns", SCHEMA, keys=["id"]).append(ROWS)
        transaction.rename_table("sales.orders", "sales.bills").upsert([{"id": 2, "amount": 7}])
    assert lake.table("sales.returns").count() == 1
    assert lake.table("sales.bills").count() == 2


def test_a_revoke_holds_for_the_commits_of_a_handle_from_before(lake: Lakehouse) -> None:
    lake.access.grant("write", "sales", to="ana")
    orders = lake.as_principal("ana").table("sales.orders")
    lake.access.revoke("write", "sales", from_="ana")
    with pytest.raises(AccessDeniedError):
        orders.append(ROWS)


def test_the_author_of_a_commit_is_the_principal(lake: Lakehouse) -> None:
    lake.access.grant("write", "sales", to="ana")
    with lake.as_principal("ana").transaction(author="somebody else") as transaction:
        transaction.table("sales.orders").upsert(ROWS)
    assert lake.history()[0].author == "ana"


def test_messages_of_versions_are_for_readers_of_the_whole_lakehouse(lake: Lakehouse) -> None:
    lake.access.grant("read", "sales", to="ana")
    assert {entry.message for entry in lake.as_principal("ana").history()} == {""}
    lake.access.grant("read", None, to="ana")
    assert "grant read on the lakehouse to ana" in {entry.message for entry in lake.as_principal("ana").history()}


def test_shared_transactions_are_for_writers_of_the_whole_lakehouse(lake: Lakehouse) -> None:
    lake.begin_shared("load").table("staff.salaries").append(ROWS)
    lake.access.grant("manage", "sales", to="ana")
    ana = lake.as_principal("ana")
    assert ana.shared_transactions() == []
    with pytest.raises(NotFoundError):
        ana.join_shared("load")
    with pytest.raises(AccessDeniedError):
        ana.begin_shared("mine")


def test_a_manager_of_a_namespace_grants_on_it_and_nowhere_else(lake: Lakehouse) -> None:
    lake.access.create_principal("bob")
    lake.access.grant("manage", "sales", to="ana")
    ana = lake.as_principal("ana")
    ana.access.grant("read", "sales.orders", to="bob")
    assert list_names(lake.as_principal("bob")) == ["sales.orders"]
    for refused in (
        lambda: ana.access.grant("read", "staff", to="ana"),
        lambda: ana.access.grant("read", None, to="ana"),
        lambda: ana.access.create_principal("eve"),
        lambda: ana.access.rotate_token("bob"),
        lambda: ana.access.create_role("admin"),
    ):
        with pytest.raises((AccessDeniedError, NotFoundError)):
            refused()
    assert {one.name for one in ana.access.principals()} == {"ana"}
    assert {one.grantee for one in ana.access.grants()} == {"ana"}


def test_grants_on_what_a_principal_may_not_read_are_answered_as_if_it_was_dropped(lake: Lakehouse) -> None:
    lake.create_alias("sales.pay", "staff.salaries")
    lake.create_table("sales.secret", SCHEMA)
    lake.access.grant("read", "sales.orders", to="ana")
    access = lake.as_principal("ana").access

    def list_answers() -> list[str]:
        answers = []
        for name in ("staff", "staff.salaries", "sales.secret", "sales.pay"):
            for call in (
                access.grants,
                partial(access.grant, "read", to="ana"),
                partial(access.revoke, "read", from_="ana"),
            ):
                with pytest.raises(NotFoundError) as raised:
                    call(name)
                answers.append(str(raised.value))
        return answers

    before = list_answers()
    assert [str(one) for one in access.grants("sales.orders")] == ["read on table sales.orders to ana"]
    lake.drop_alias("sales.pay")
    lake.drop_table("sales.secret")
    lake.drop_namespace("staff", cascade=True)
    assert list_answers() == before


def test_a_token_is_stored_as_a_hash_and_rotated(lake: Lakehouse) -> None:
    token = lake.access.create_principal("bob")
    assert token not in str(lake.settings)
    found = lake.access.rules().find_by_token(token)
    assert found is not None
    assert found.name == "bob"
    rotated = lake.access.rotate_token("bob")
    assert lake.access.rules().find_by_token(token) is None
    assert lake.access.rules().find_by_token(rotated) is not None
    lake.access.drop_principal("bob")
    assert lake.access.rules().find_by_token(rotated) is None


def test_the_rules_are_hidden_from_principals_and_changed_only_by_grants(lake: Lakehouse) -> None:
    lake.access.grant("write", "sales", to="ana")
    assert "mangrove.access" not in lake.as_principal("ana").settings.properties
    with pytest.raises(InvalidInputError, match="access rules"):
        lake.alter({"mangrove.access": "{}"})
    with pytest.raises(InvalidInputError, match="access rules"):
        lake.alter(remove=["mangrove.access"])


def test_names_of_principals_and_roles_are_unique_and_plain(lake: Lakehouse) -> None:
    with pytest.raises(AlreadyExistsError):
        lake.access.create_role("ana")
    for name in ("", "a b", "a'; drop", "ä", "-"):
        with pytest.raises(InvalidInputError, match="invalid name"):
            lake.access.create_principal(name)
    with pytest.raises(NotFoundError, match="bob"):
        lake.access.grant("read", "sales", to="bob")
    with pytest.raises(InvalidInputError, match="unknown privilege 'own'"):
        lake.access.grant("own", "sales", to="ana")


def test_a_revoke_takes_the_privilege_and_those_that_include_it(lake: Lakehouse) -> None:
    for privilege in ("read", "manage"):
        lake.access.grant(privilege, "sales", to="ana")
    lake.access.revoke("write", "sales", from_="ana")
    assert [str(one) for one in lake.access.grants("sales")] == ["read on namespace sales to ana"]
    with pytest.raises(InvalidInputError, match="no grant of manage"):
        lake.access.revoke("manage", "sales", from_="ana")


def test_rules_are_in_the_history(lake: Lakehouse, opened_again: Callable[[], Lakehouse]) -> None:
    lake.access.grant("read", "sales", to="ana")
    assert opened_again().history()[0].message == "grant read on sales to ana"
    assert list_names(opened_again().as_principal("ana")) == ["sales.orders"]


def test_a_conversion_and_an_export_keep_the_rules(lake: Lakehouse, tmp_path: Path) -> None:
    lake.access.grant("read", "sales.orders", to="ana")
    lake.maintenance.convert(tmp_path / "converted")
    lake.maintenance.export(tmp_path / "exported", "copy")
    for copy in ("converted", "exported"):
        assert list_names(mangrove.open(tmp_path / copy).as_principal("ana")) == ["sales.orders"]

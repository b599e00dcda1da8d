"""What a conflict says: the object, the rival transaction with what it said about itself, the version, what to do."""

import pytest

from mangrove.errors import ConflictError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.transaction import Transaction
from mangrove.metastore import Isolation
from mangrove.model.objects import Delta, DeltaType
from mangrove.transaction.group_commit import GroupCommitRequest, merge_changes, select_group


@pytest.fixture
def sales(lake: Lakehouse) -> Lakehouse:
    lake.create_namespace("sales")
    for name in ("orders", "items", "parts"):
        lake.create_table(f"sales.{name}", "id int")
    return lake


def commit_together(lake: Lakehouse, *transactions: Transaction) -> int:
    """Commit the transactions as one version, as threads do that commit at the same time."""
    requests = []
    for one in transactions:
        core = one.core
        changes = core.workspace.changes(core.id, core.message, core.author, core.properties)
        requests.append(GroupCommitRequest(core.workspace.snapshot, changes, core.isolation))
    members, others = select_group(requests)
    assert not others
    merged = merge_changes(members, lake._new_id())
    return lake.metastore.commit(requests[0].base, merged, Isolation.SNAPSHOT).snapshot.version


def test_the_error_names_message_and_author_of_the_concurrent_commit(sales: Lakehouse) -> None:
    loser = sales.transaction()
    loser.alter_table("sales.orders", {"by": "loser"})
    with sales.transaction(message="mark orders", author="ana") as winner:
        winner.alter_table("sales.orders", {"by": "rival"})
    with pytest.raises(
        ConflictError,
        match=rf"^table sales\.orders: transaction {winner.id} \('mark orders' by ana\) changed it first, in version "
        rf"{winner.version}\. Nothing was committed; repeat the transaction on version {winner.version} or later",
    ):
        loser.commit()


def test_the_error_names_the_conflicting_member_of_a_group_commit(sales: Lakehouse) -> None:
    losers = {name: sales.transaction(isolation="serializable") for name in ("orders", "items", "parts")}
    for name, loser in losers.items():
        list(loser.table(f"sales.{name}").deltas())
        loser.create_namespace(f"seen_{name}")
    orders = sales.transaction(message="mark", author="ana")
    orders.alter_table("sales.orders", {"by": "ana"})
    items = sales.transaction(message="fill", author="ben")
    items.add_delta("sales.items", (), Delta(DeltaType.APPEND))
    version = commit_together(sales, orders, items)
    with pytest.raises(ConflictError, match=rf"sales\.orders.*: transaction {orders.id} \('mark' by ana\) changed it"):
        losers["orders"].commit()
    with pytest.raises(
        ConflictError, match=rf"sales\.items.*: transaction {items.id} \('fill' by ben\) .*in version {version}\."
    ):
        losers["items"].commit()
    losers["parts"].commit()


def test_the_error_of_a_shared_transaction_names_the_conflicting_group_member(sales: Lakehouse) -> None:
    with sales.begin_shared("load") as begun:
        begun.alter_table("sales.orders", {"by": "shared"})
    orders, items = sales.transaction(), sales.transaction()
    orders.alter_table("sales.orders", {"by": "rival"})
    items.alter_table("sales.items", {"by": "another"})
    commit_together(sales, orders, items)
    with pytest.raises(ConflictError, match=rf"table sales\.orders: transaction {orders.id} changed it first"):
        begun.publish()


def test_the_error_after_a_rollback_names_its_author(sales: Lakehouse) -> None:
    loser = sales.transaction()
    loser.create_namespace("more")
    sales.rollback(to=1, author="ana")
    with pytest.raises(ConflictError, match=r"rolled back by transaction .* \('roll back to version 1' by ana\)"):
        loser.commit()

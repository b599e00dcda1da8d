"""What a transaction sees of its own writes, checked against plain dictionaries."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.lakehouse.layout_detection import create_layout, open_layout
from mangrove.metastore import Changes, Isolation, Metastore, MetastoreSnapshot, ObjectRange, RowRange
from mangrove.model.locators import AliasLocator, Kind, NamespaceLocator, StreamLocator, TableLocator, ViewLocator
from mangrove.model.objects import NamespaceEntry, TableEntry, ViewEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.transaction.catalog import (
    NewTable,
    create_namespace,
    create_table,
    create_view,
    drop_namespace,
    drop_table,
    rename_namespace,
    rename_table,
)
from mangrove.transaction.workspace import Workspace

Model = dict[str, dict[str, str]]
"""The ids of the tables by namespace and name."""

NAMESPACES = ("a", "b", "c")
TABLES = ("t", "u")

statements = st.one_of(
    st.tuples(st.just("create namespace"), st.sampled_from(NAMESPACES)),
    st.tuples(st.just("drop namespace"), st.sampled_from(NAMESPACES)),
    st.tuples(st.just("rename namespace"), st.sampled_from(NAMESPACES), st.sampled_from(NAMESPACES)),
    st.tuples(st.just("create table"), st.sampled_from(NAMESPACES), st.sampled_from(TABLES)),
    st.tuples(st.just("drop table"), st.sampled_from(NAMESPACES), st.sampled_from(TABLES)),
    st.tuples(
        st.just("rename table"),
        st.sampled_from(NAMESPACES),
        st.sampled_from(TABLES),
        st.sampled_from(NAMESPACES),
        st.sampled_from(TABLES),
    ),
)


def made(effects: Effects, layout: str = "tree") -> Metastore:
    return create_layout(effects, layout, LakehouseSettings(order=4), Changes("made")).metastore


def seen(reading: MetastoreSnapshot | Workspace) -> Model:
    """Read everything, by listing and by asking, which must agree."""
    found: Model = {}
    for space, _ in reading.children(Kind.NAMESPACE, None):
        assert isinstance(space, NamespaceLocator)
        tables = {}
        for locator, value in reading.children(Kind.TABLE, space):
            assert isinstance(locator, TableLocator)
            assert isinstance(value, TableEntry)
            assert reading.get(locator) == value
            assert locator.name == value.name
            tables[locator.name] = value.id
        assert list(tables) == sorted(tables)
        found[space.name] = tables
    return found


def apply(workspace: Workspace, new_id: Callable[[], str], statement: tuple[str, ...]) -> None:
    match statement:
        case ("create namespace", name):
            create_namespace(workspace, NamespaceLocator(name), NamespaceEntry(new_id(), name))
        case ("drop namespace", name):
            drop_namespace(workspace, NamespaceLocator(name), cascade=True)
        case ("rename namespace", old, new):
            rename_namespace(workspace, NamespaceLocator(old), NamespaceLocator(new))
        case ("create table", space, name):
            create_table(workspace, TableLocator(space, name), NewTable(TableEntry(new_id(), "home", name)))
        case ("drop table", space, name):
            drop_table(workspace, TableLocator(space, name))
        case ("rename table", space, name, to_space, to_name):
            rename_table(workspace, TableLocator(space, name), TableLocator(to_space, to_name))


def expect(model: Model, statement: tuple[str, ...]) -> Model | None:
    """Return what the statement makes of the model, except for new ids; None where it must be refused."""
    after = {space: dict(tables) for space, tables in model.items()}
    match statement:
        case ("create namespace", name) if name not in model:
            after[name] = {}
        case ("drop namespace", name) if name in model:
            del after[name]
        case ("rename namespace", old, new) if old in model and (new not in model or new == old):
            after[new] = after.pop(old)
        case ("create table", space, name) if space in model and name not in model[space]:
            after[space][name] = "new"
        case ("drop table", space, name) if name in model.get(space, {}):
            del after[space][name]
        case ("rename table", space, name, to_space, to_name) if name in model.get(space, {}) and (
            (to_space in model and to_name not in model[to_space]) or (space, name) == (to_space, to_name)
        ):
            after[to_space][to_name] = after[space].pop(name)
        case _:
            return None
    return after


def matches(found: Model, expected: Model) -> bool:
    return found.keys() == expected.keys() and all(
        found[space].keys() == expected[space].keys()
        and all(one in ("new", found[space][name]) for name, one in expected[space].items())
        for space in found
    )


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
@given(transactions=st.lists(st.lists(statements, max_size=12), max_size=4))
def test_a_workspace_reads_and_commits_like_a_dictionary(
    layout: str, transactions: list[list[tuple[str, ...]]]
) -> None:
    effects = build_deterministic_effects(MemoryStore())
    metastore = made(effects, layout)
    model: Model = {}
    for number, transaction in enumerate(transactions):
        workspace = Workspace(metastore.latest())
        staged = model
        for statement in transaction:
            expected = expect(staged, statement)
            if expected is None:
                with pytest.raises((NotFoundError, AlreadyExistsError)):
                    apply(workspace, effects.new_id, statement)
            else:
                apply(workspace, effects.new_id, statement)
                assert matches(seen(workspace), expected)
                staged = seen(workspace)
        try:
            changes = workspace.changes(f"transaction-{number}")
        except InvalidInputError as refusal:
            if "use two transactions" in str(refusal):
                continue
            raise
        metastore.commit(workspace.snapshot, changes, Isolation.SERIALIZABLE)
        model = staged
        assert seen(open_layout(effects).metastore.latest()) == model


@pytest.fixture
def workspace() -> Workspace:
    metastore = made(build_deterministic_effects(MemoryStore()))
    before = Workspace(metastore.latest())
    create_namespace(before, NamespaceLocator("sales"), NamespaceEntry("sales-id", "sales"))
    create_table(before, TableLocator("sales", "orders"), NewTable(TableEntry("orders-id", "sales-id", "orders")))
    committed = metastore.commit(before.snapshot, before.changes("before"), Isolation.SNAPSHOT)
    return Workspace(committed.snapshot)


def test_reads_of_the_base_version_are_recorded_under_its_original_names(workspace: Workspace) -> None:
    rename_namespace(workspace, NamespaceLocator("sales"), NamespaceLocator("shop"))
    workspace.reads.clear()
    workspace.scans.clear()
    assert workspace.get(TableLocator("shop", "orders")) is not None
    assert workspace.reads == {TableLocator("sales", "orders")}
    assert [str(found) for found, _ in workspace.children(Kind.TABLE, NamespaceLocator("shop"), prefix="o")] == [
        "shop.orders"
    ]
    assert workspace.scans == {ObjectRange(Kind.TABLE, NamespaceLocator("sales"), "o")}


def test_reads_of_own_writes_are_not_recorded(workspace: Workspace) -> None:
    workspace.put(TableLocator("sales", "new"), TableEntry("new-id", "sales-id", "new"))
    assert workspace.get(TableLocator("sales", "new")) is not None
    assert workspace.reads == set()


def test_creating_a_table_guards_its_namespace_and_the_view_and_alias_of_that_name(workspace: Workspace) -> None:
    create_table(workspace, TableLocator("sales", "new"), NewTable(TableEntry("new-id", "sales-id", "new")))
    assert workspace.changes("t").guards == {
        NamespaceLocator("sales"),
        ViewLocator("sales", "new"),
        AliasLocator("sales|new"),
    }


def test_a_namespace_of_the_transactions_own_guards_only_the_aliases_of_its_names(
    workspace: Workspace,
) -> None:
    create_namespace(workspace, NamespaceLocator("mine"), NamespaceEntry("mine-id", "mine"))
    create_view(workspace, ViewLocator("mine", "daily"), ViewEntry("daily-id", "daily", "select 1"))
    assert workspace.changes("t").guards == {AliasLocator("mine"), AliasLocator("mine|daily")}


def test_dropping_a_namespace_guards_against_new_tables_and_views(workspace: Workspace) -> None:
    drop_namespace(workspace, NamespaceLocator("sales"), cascade=True)
    sales = NamespaceLocator("sales")
    assert {ObjectRange(Kind.TABLE, sales), ObjectRange(Kind.VIEW, sales)} <= workspace.changes("t").guards


def test_a_refused_statement_leaves_nothing_staged(workspace: Workspace) -> None:
    with pytest.raises(InvalidInputError, match=r"contains table sales\.orders"):
        drop_namespace(workspace, NamespaceLocator("sales"))
    with pytest.raises(AlreadyExistsError, match=r"table sales\.orders"):
        create_view(workspace, ViewLocator("sales", "orders"), ViewEntry("v", "orders", "select 1"))
    with pytest.raises(NotFoundError, match=r"did you mean sales\.orders\?"):
        drop_table(workspace, TableLocator("sales", "order"))
    with pytest.raises(InvalidInputError, match="100"):
        create_namespace(workspace, NamespaceLocator("n" * 101), NamespaceEntry("n", "n" * 101))
    assert workspace.is_empty


@given(before=st.lists(statements, max_size=8), after=st.lists(statements, max_size=8))
def test_restoring_a_savepoint_reverts_all_later_changes(
    before: list[tuple[str, ...]], after: list[tuple[str, ...]]
) -> None:
    effects = build_deterministic_effects(MemoryStore())
    workspace = Workspace(made(effects).latest())

    def attempt(statement: tuple[str, ...]) -> None:
        with contextlib.suppress(NotFoundError, AlreadyExistsError):
            apply(workspace, effects.new_id, statement)

    for statement in before:
        attempt(statement)
    was, changes, savepoint = seen(workspace), workspace.changes("one"), workspace.savepoint()
    for _ in range(2):
        for statement in after:
            attempt(statement)
        workspace.restore(savepoint)
        assert seen(workspace) == was
        restored = workspace.changes("one")
        assert (restored.puts, restored.deletes, restored.guards) == (changes.puts, changes.deletes, changes.guards)


def test_restoring_a_savepoint_keeps_rows_that_were_guarded_before_it(workspace: Workspace) -> None:
    before, after = (RowRange(StreamLocator("home", table, 1, "stream")) for table in ("before", "after"))
    workspace.guard_rows(before)
    savepoint = workspace.savepoint()
    workspace.guard_rows(after)
    workspace.restore(savepoint)
    assert workspace.rows_guarded == {before}

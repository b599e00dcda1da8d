"""Whatever is handed in, the answer is a result or one of our errors, and an error leaves storage as it was."""

import datetime
import itertools
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.model.objects import Delta, DeltaType
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects

LONE = "\ud800"
INVALID_ARGUMENTS: list[object] = [
    None, 0, -1, 10**30, 1.5, float("nan"), True, b"x", "", " ", LONE, "x\0y", "a" * 5000, "9" * 500, "n", "n.t", "n.v",
    [], [None], [1], [LONE], {}, {1: 2}, {"a": None}, {LONE: "x"}, {"a": LONE}, (), set(), object(), print,
    datetime.timedelta(0), datetime.timedelta.max, datetime.datetime.min, datetime.datetime.max,
]  # fmt: skip

Call = Callable[[Any, Any], object]


def given_as(method: str, name: str | None = None, *before: object, **fixed: object) -> Call:
    """Return the call of a method with one argument that is nonsense, by its name or else the first one."""

    def call(lake: Any, nonsense: object) -> object:
        if name is None:
            return _taken(attrgetter(method)(lake)(nonsense, *before, **fixed))
        return _taken(attrgetter(method)(lake)(*before, **{**fixed, name: nonsense}))

    return call


def _taken(answer: object) -> object:
    return list(answer) if isinstance(answer, Iterator) else answer


def _all(method: str, names: str, *before: object, **fixed: object) -> dict[str, Call]:
    return {f"{method}({name})": given_as(method, name, *before, **fixed) for name in names.split()}


def _of_table(method: str, name: str) -> Call:
    def call(lake: Any, nonsense: object) -> object:
        return _taken(getattr(lake.table("n.t"), method)(**{name: nonsense}))

    return call


def _exporting(name: str) -> Call:
    def call(lake: Any, nonsense: object) -> object:
        arguments: dict[str, object] = {"name": "copy", name: nonsense}
        return lake.maintenance.export(f"memory://copy-{next(COPIES)}/", **arguments)

    return call


ONE_ARGUMENT = [
    "at",
    "rollback",
    "undo",
    "diff",
    "join_shared",
    "maintenance.drop_export",
    "maintenance.compact",
    "begin_shared",
    "run",
]
COPIES = itertools.count()
FIRST_ONLY = (
    "namespace create_namespace alter_namespace drop_namespace tables table create_table alter_table drop_table views "
    "view drop_view alter_view"
)
CATALOG: Mapping[str, Call] = {
    **{method: given_as(method) for method in FIRST_ONLY.split()},
    **_all("namespaces", "prefix after limit"),
    **_all("tables", "prefix after limit", "n"),
    **_all("views", "prefix after limit", "n"),
    **_all("create_namespace", "properties description if_not_exists", "new"),
    **_all(
        "create_table",
        "keys partition_by sort_by table_type table_format location format_properties properties description "
        "version stream_id",
        "n.new",
        "id int, s string",
    ),
    **_all("create_table", "schema", "n.new"),
    **_all("table", "version", "n.t"),
    **{
        f"table.{method}({name})": _of_table(method, name)
        for method, names in {
            "version": "number",
            "stream": "stream_id",
            "drop_version": "number",
            "create_version": "schema keys partition_by sort_by properties description checks version state stream_id",
            "create_stream": "stream_id stream_format",
        }.items()
        for name in names.split()
    },
    **_all("create_view", "reads dialect properties description or_replace", "n.new", "select 1"),
    **_all("create_view", "sql", "n.new"),
    **_all("alter_namespace", "put remove description", "n"),
    **_all("alter_table", "put remove description", "n.t"),
    **_all("alter_view", "put remove description", "n.v"),
    "rename_namespace": given_as("rename_namespace", None, "other"),
    "rename_table": given_as("rename_table", None, "n.other"),
    "rename_view": given_as("rename_view", None, "n.other"),
    **_all("rename_namespace", "to", "n"),
    **_all("rename_table", "to", "n.t"),
    **_all("rename_view", "to", "n.v"),
}
LAKEHOUSE: Mapping[str, Call] = {
    **{method: given_as(method) for method in ONE_ARGUMENT},
    **_all("transaction", "isolation message author properties time_limit"),
    **_all("begin_shared", "ttl isolation message author properties", "shared"),
    **_all("history", "before limit"),
    **_all("rollback", "message author", 1),
    **_all("undo", "message author", 3),
    **_all("diff", "after", 1),
    **_all("maintenance.vacuum", "grace"),
    **_all("maintenance.check", "sample"),
    **{f"export({name})": _exporting(name) for name in ["name", "mode", "at", "tables", "storage_options"]},
    **_all("run", "attempts", lambda _: None),
    **_all("alter", "put remove maximum_version_age_millis minimum_versions_to_keep order"),
}


class Tried:
    """A lakehouse on which calls are tried; a new one wherever a call succeeded."""

    def __init__(self, layout: str) -> None:
        self.layout = layout
        self.make()

    def make(self) -> None:
        self.store = MemoryStore("memory://nonsense/")
        self.lake: Lakehouse = create_on_store(build_deterministic_effects(self.store), layout=self.layout)
        self.lake.create_namespace("n")
        self.lake.create_table("n.t", "id int not null, s string", keys=["id"])
        self.lake.create_view("n.v", "select 1", reads=["n.t"])
        self.before = self.contents()

    def contents(self) -> dict[str, bytes]:
        return {entry.path: self.store.read(entry.path) for entry in self.store.list()}

    def try_out(self, call: Call, nonsense: object, on: Callable[[Lakehouse], Catalog] = lambda lake: lake) -> None:
        try:
            call(on(self.lake), nonsense)
        except MangroveError:
            assert self.contents() == self.before
        if self.contents() != self.before:
            self.make()


@pytest.mark.parametrize("what", [*CATALOG, *LAKEHOUSE])
@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_invalid_arguments_raise_mangrove_errors_and_change_nothing(layout: str, what: str) -> None:
    tried = Tried(layout)
    for nonsense in INVALID_ARGUMENTS:
        tried.try_out((CATALOG | LAKEHOUSE)[what], nonsense)  # type: ignore[operator]


@pytest.mark.parametrize("what", CATALOG)
def test_a_transaction_rejects_invalid_arguments_and_stages_nothing(what: str) -> None:
    tried = Tried("tree")
    for nonsense in INVALID_ARGUMENTS:
        tried.try_out(CATALOG[what], nonsense, lambda lake: lake.transaction())
    transaction = tried.lake.transaction()
    for nonsense in INVALID_ARGUMENTS:
        try:
            CATALOG[what](transaction, nonsense)
        except MangroveError:
            continue
        transaction = tried.lake.transaction()
    assert transaction._reading().is_empty


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=5) | st.text(max_size=9)
    | st.sampled_from([LONE, "n", "n.t", "n.v", "1", "2026-11-01", "6h"]) | st.datetimes() | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


@given(what=st.sampled_from([*CATALOG, *LAKEHOUSE]), nonsense=ANYTHING)
def test_arbitrary_arguments_raise_only_mangrove_errors(what: str, nonsense: object) -> None:
    Tried("tree").try_out((CATALOG | LAKEHOUSE)[what], nonsense)  # type: ignore[operator]


@pytest.mark.parametrize(
    "call",
    [
        lambda lake: lake.undo(None),
        lambda lake: lake.undo("x"),
        lambda lake: lake.rollback(to=None),
        lambda lake: lake.maintenance.vacuum(grace=5),
        lambda lake: lake.begin_shared("load", ttl=None),
        lambda lake: lake.create_table("n.new", "id int", keys=[None]),
        lambda lake: lake.create_table("n.new", "id int", keys=[1]),
        lambda lake: lake.create_namespace(LONE),
        lambda lake: lake.create_namespace("new", properties={"a": LONE}),
        lambda lake: lake.create_namespace("new", description=LONE),
        lambda lake: lake.transaction(message=LONE),
    ],
)
def test_invalid_arguments_raise_invalid_input_error(call: Callable[[Lakehouse], object]) -> None:
    with pytest.raises(InvalidInputError):
        call(Tried("tree").lake)


def test_a_single_string_is_accepted_as_a_list_of_one() -> None:
    tried = Tried("tree")
    table = tried.lake.create_table("n.new", "id int, s string", keys="id", partition_by="id", sort_by="s")
    assert table.keys == ("id",)
    with tried.lake.transaction() as transaction:
        assert transaction.add_delta("n.new", (1,), Delta(DeltaType.APPEND)).position == 1

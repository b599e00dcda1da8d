"""Random histories of a lakehouse, made through the public API, and what that API then returns."""

import datetime
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.independent_readers.table_rows import Json, Key, Objects

from mangrove import expr
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.lakehouse.table import Table
from mangrove.model.json_codec import to_json
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import TableType
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import LocalEngines

_NAMES = ("a", "b", "ä.b")
_SETTINGS = (
    LakehouseSettings(),
    LakehouseSettings(
        name="small",
        order=3,
        namespace_name_max_size_bytes=8,
        table_name_max_size_bytes=6,
        node_file_max_size_bytes=1200,
        properties={"tree.node-compression": "zstd"},
    ),
    LakehouseSettings(order=4, node_file_max_size_bytes=2500, properties={"tree.inline-definition-max-bytes": "0"}),
)
_COLUMNS = (
    "id bigint not null, day date not null, name string, weight double, "
    "place struct<city: string, at: int comment 'x'>, tags array<string>, scores map<string, decimal(6,2)>"
)
_TYPES = (
    "boolean",
    "smallint",
    "float",
    "decimal(5,1)",
    "char(3)",
    "varchar(4)",
    "fixed(2)",
    "binary",
    "time",
    "timestamp",
    "timestamp_ntz",
    "struct<x: int not null, y: array<bigint>>",
)
_WIDER = {
    "smallint": "bigint",
    "int": "bigint",
    "float": "double",
    "decimal(5,1)": "decimal(9,1)",
    "varchar(4)": "string",
}
_DESIGNS: tuple[dict[str, Any], ...] = (
    {"keys": ["id"]},
    {"keys": ["id", "day"], "partition_by": ["months(day)"]},
    {"keys": ["id"], "partition_by": ["months(day)", "truncate(1, name)"], "sort_by": ["name desc", "id"]},
    {},
    {"partition_by": ["day", "bucket(2, id)"]},
    {"properties": {"write.delete-mode": "position"}},
    {"keys": ["id"], "properties": {"write.delete-mode": "position", "é": ""}, "description": "ünï\n"},
    {"keys": ["id", "day"], "partition_by": ["day"], "checks": {"small": "id < 100"}, "defaults": {"name": "'new'"}},
)
_WHERE = ("id < 3", "id in (1, 4) and day is not null", "day >= '2026-01-15'", "true", "id = 99")
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "smallint": st.sampled_from([-32768, 0, 7]),
    "int": st.sampled_from([-(2**31), 0, 2]),
    "bigint": st.integers(0, 5),
    "float": st.sampled_from([0.5, -1.25, float("inf")]),
    "double": st.sampled_from([0.1, -0.0, float("nan")]),
    "string": st.sampled_from(["", "a", "ab", "β"]),
    "char(3)": st.sampled_from(["", "abc"]),
    "varchar(4)": st.sampled_from(["", "four"]),
    "fixed(2)": st.just(b"\x00\xff"),
    "binary": st.sampled_from([b"", b"\xff"]),
    "date": st.sampled_from([datetime.date(2026, 1, 1), datetime.date(2026, 2, 1), datetime.date(1969, 12, 31)]),
    "time": st.sampled_from([datetime.time(0), datetime.time(23, 59, 59, 999_999)]),
    "timestamp": st.just(datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)),
    "timestamp_ntz": st.just(datetime.datetime(1969, 1, 1, 12, 0, 0, 1)),
}


@dataclass
class MemoryLake:
    """A lakehouse in memory."""

    lake: Lakehouse
    store: MemoryStore

    @property
    def files(self) -> dict[str, bytes]:
        """All files of the lakehouse."""
        return {entry.path: self.store.read(entry.path) for entry in self.store.list()}


@dataclass
class History(MemoryLake):
    """A lakehouse in memory, to which random commits are made."""

    draw: Callable[[st.SearchStrategy[Any]], Any]

    def choose(self, options: Any) -> Any:
        """Return one of some options."""
        return self.draw(st.sampled_from(list(options)))

    def run(self, steps_max: int, without: Sequence[Callable[["History"], None]] = ()) -> None:
        """Make up to so many random commits after a table was created, without some kinds of them."""
        self.create_namespace()
        self.create_table()
        steps = st.sampled_from([step for step in _STEPS if step not in without])
        for step in self.draw(st.lists(steps, min_size=steps_max // 2, max_size=steps_max)):
            step(self)

    def choose_namespace(self) -> str | None:
        names = [one.name for one in self.lake.namespaces()]
        return self.choose(names) if names else None

    def choose_table(self) -> Table | None:
        tables = [table for space in self.lake.namespaces() for table in self.lake.tables(space.locator)]
        managed = [table for table in tables if table.table_type is TableType.MANAGED]
        return self.choose(managed) if managed else None

    def choose_free_name(self, make: type[TableLocator] | type[ViewLocator]) -> Any:
        """Return the locator of a table or view that does not exist, or None."""
        namespace = self.choose_namespace()
        if namespace is None:
            return None
        used = {table.name for table in self.lake.tables(NamespaceLocator(namespace))}
        used |= {view.name for view in self.lake.views(NamespaceLocator(namespace))}
        free = [name for name in (*_NAMES, "v") if name not in used]
        return make(namespace, self.choose(free)) if free else None

    def draw_rows(self, table: Table, *, distinct: bool = False) -> list[dict[str, Any]]:
        """Return rows for the current columns of a table."""
        schema: Any = to_json(table.opened().version.schema)
        row = st.fixed_dictionaries({column["name"]: _values(column) for column in schema["columns"]})
        rows = self.draw(st.lists(row, min_size=1, max_size=4))
        return list({tuple(one[key] for key in table.keys): one for one in rows}.values()) if distinct else rows

    def create_namespace(self) -> None:
        free = [name for name in _NAMES if name not in {one.name for one in self.lake.namespaces()}]
        if free:
            properties = self.choose([{}, {"owner": "änn", "empty": ""}])
            self.lake.create_namespace(NamespaceLocator(self.choose(free)), properties=properties, description="d")

    def create_table(self) -> None:
        locator = self.choose_free_name(TableLocator)
        if locator is not None:
            table = self.lake.create_table(locator, _COLUMNS, **self.choose(_DESIGNS))
            table.append(self.draw_rows(table))

    def create_external_table(self) -> None:
        locator = self.choose_free_name(TableLocator)
        if locator is not None:
            self.lake.create_table(
                locator, "x int", keys=["x"], table_type="external", table_format="CSV", location="s3://b/x",
                format_properties={"header": "true"},
            )  # fmt: skip

    def append(self) -> None:
        if table := self.choose_table():
            table.append(self.draw_rows(table), ordered=self.draw(st.booleans()))

    def upsert(self) -> None:
        if (table := self.choose_table()) and table.keys:
            table.upsert(self.draw_rows(table, distinct=True))

    def delete_keys(self) -> None:
        if (table := self.choose_table()) and table.keys:
            table.delete_keys([{key: row[key] for key in table.keys} for row in self.draw_rows(table)])

    def delete_where(self) -> None:
        if table := self.choose_table():
            table.delete(self.choose(_WHERE))

    def update(self) -> None:
        if table := self.choose_table():
            table.update({"weight": expr("coalesce(weight, 1.0) * 2")}, self.choose(_WHERE))

    def overwrite(self) -> None:
        if table := self.choose_table():
            table.overwrite(self.draw_rows(table, distinct=bool(table.keys)))

    def compact(self) -> None:
        if table := self.choose_table():
            table.compact(full=self.draw(st.booleans()))

    def change_columns(self) -> None:
        if not (table := self.choose_table()):
            return
        schema: Any = to_json(table.opened().version.schema)
        extra = [column for column in schema["columns"] if column["name"].startswith("c")]
        with table.update_schema() as update:
            match self.choose(["add", "rename", "drop", "widen", "move", "comment"]):
                case "rename" if extra:
                    update.rename_column(extra[0]["name"], f"{extra[0]['name']}'")
                case "drop" if extra:
                    update.drop_column(extra[0]["name"])
                case "widen" if wider := [one for one in extra if str(one["type"]) in _WIDER]:
                    update.widen(wider[0]["name"], _WIDER[wider[0]["type"]])
                case "move":
                    update.move_column("tags", after=self.choose([None, "id"]))
                case "comment":
                    update.rename_column("place.city", self.choose(["city", "town"])) if _has_city(schema) else None
                    update.set_comment("id", self.choose(["ä", None]))
                case _:
                    update.add_column(f"c{schema['last_column_id']}", self.choose(_TYPES))

    def write_two_tables(self) -> None:
        if (first := self.choose_table()) and (second := self.choose_table()):
            with self.lake.transaction(message="two\ntables", author="ana", properties={"k": "v"}) as transaction:
                for handle in (first, second):
                    table = transaction.table(handle.locator)
                    if table.keys and self.draw(st.booleans()):
                        table.upsert(self.draw_rows(handle, distinct=True))
                    else:
                        table.append(self.draw_rows(handle))

    def rename_table(self) -> None:
        table, to = self.choose_table(), self.choose_free_name(TableLocator)
        if table is not None and to is not None:
            table.rename(to)

    def rename_namespace(self) -> None:
        name = self.choose_namespace()
        free = [one for one in (*_NAMES, "c") if one not in {space.name for space in self.lake.namespaces()}]
        if name is not None and free:
            self.lake.rename_namespace(NamespaceLocator(name), NamespaceLocator(self.choose(free)))

    def drop_table(self) -> None:
        if table := self.choose_table():
            table.drop()

    def drop_namespace(self) -> None:
        if (name := self.choose_namespace()) is not None:
            try:
                self.lake.drop_namespace(NamespaceLocator(name), cascade=True)
            except InvalidInputError:
                return  # a view elsewhere reads a table in it

    def create_view(self) -> None:
        locator = self.choose_free_name(ViewLocator)
        if locator is not None:
            self.lake.create_view(locator, "select 1 as x", reads=["other.t"], properties={"p": "q"}, description="one")

    def change_view(self) -> None:
        views = [view for space in self.lake.namespaces() for view in self.lake.views(space.locator)]
        if views:
            view, to = self.choose(views), self.choose_free_name(ViewLocator)
            match self.choose(["alter", "rename", "drop"]):
                case "rename" if to is not None:
                    view.rename(to)
                case "drop":
                    view.drop()
                case _:
                    view.alter({"altered": "yes"})

    def alter(self) -> None:
        self.lake.alter({"set": self.choose(["x", "y"])}, minimum_versions_to_keep=self.choose([3, 5]))
        if table := self.choose_table():
            table.alter({"owner": self.choose(["ana", "ben"])}, description=self.choose([None, "new"]))
        if (name := self.choose_namespace()) is not None:
            self.lake.alter_namespace(NamespaceLocator(name), {"more": "yes"})

    def begin_shared(self) -> None:
        name = self.choose(["load", "löad"])
        if name not in self.lake.shared_transactions():
            self.lake.begin_shared(name, "2h")

    def roll_back(self) -> None:
        self.lake.rollback(self.draw(st.integers(0, self.lake.version)))


_STEPS: tuple[Callable[[History], None], ...] = (
    History.create_namespace,
    History.create_table,
    History.create_external_table,
    History.append,
    History.upsert,
    History.upsert,
    History.delete_keys,
    History.delete_where,
    History.update,
    History.overwrite,
    History.compact,
    History.change_columns,
    History.change_columns,
    History.write_two_tables,
    History.rename_table,
    History.rename_namespace,
    History.drop_table,
    History.drop_namespace,
    History.create_view,
    History.change_view,
    History.alter,
    History.begin_shared,
    History.roll_back,
)


def begin_history(draw: Callable[[st.SearchStrategy[Any]], Any], layout: str) -> History:
    """Return the history of a new lakehouse in memory."""
    new = create_in_memory(layout, draw(st.sampled_from(_SETTINGS)))
    return History(new.lake, new.store, draw)


def create_in_memory(layout: str, settings: LakehouseSettings) -> MemoryLake:
    """Return a new lakehouse in memory."""
    store = MemoryStore()
    effects = build_deterministic_effects(store)
    return MemoryLake(create_on_store(effects, layout=layout, settings=settings, engines=LocalEngines), store)


def describe_objects(lake: Lakehouse, version: int) -> Objects:
    """Return all objects of a version as the API returns them, in JSON form."""
    at = lake.at(version)
    objects: dict[Key, Json] = {}
    for space in at.namespaces():
        objects["namespace", space.name] = to_json(space.value)
        objects |= {("table", space.name, table.name): to_json(table.value) for table in at.tables(space.locator)}
        objects |= {("view", space.name, view.name): to_json(view.value) for view in at.views(space.locator)}
    metastore: Any = lake.metastore
    for kind in (Kind.SHARED_TRANSACTION, Kind.TABLE_VERSION, Kind.STREAM, Kind.PARTITION, Kind.DELTA):
        parts_from = 0 if kind is Kind.SHARED_TRANSACTION else 1
        for locator, value in metastore.objects(at.snapshot, kind):
            objects[kind.word, *locator.parts[parts_from:]] = to_json(value)
    return objects


def _has_city(schema: Json) -> bool:
    place = next((column for column in schema["columns"] if column["name"] == "place"), None)
    return place is not None and any(column["name"] == "city" for column in place["type"]["struct"])


def _values(column: Json) -> st.SearchStrategy[Any]:
    type_ = column["type"]
    strategy: st.SearchStrategy[Any]
    match type_:
        case {"struct": columns}:
            strategy = st.fixed_dictionaries({inner["name"]: _values(inner) for inner in columns})
        case {"list": element}:
            strategy = st.lists(_values(element), max_size=2)
        case {"map": {"key": key, "value": value}}:
            strategy = st.dictionaries(_values(key), _values(value), max_size=2)
        case str() if type_.startswith("decimal"):
            strategy = st.sampled_from([decimal.Decimal("-12.5"), decimal.Decimal(0)])
        case _:
            strategy = _PLAIN[type_]
    return st.none() | strategy if column["nullable"] else strategy

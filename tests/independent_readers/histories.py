"""Random histories of a lakehouse, made through the public API, and what that API then returns."""

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from tests.independent_readers.table_rows import Json, Key, Objects

from mangrove import expr
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.model.json_codec import to_json
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.names import split_name
from mangrove.model.objects import TableType
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import LocalEngines

_NAMES = ("a", "b", "ä.b")
_TABLE_NAMES = (*_NAMES, *"cdefgh")
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
    {"properties": {"write.inline-rows-max-bytes": "2000"}},
    {"keys": ["id"], "partition_by": ["months(day)"], "properties": {"write.inline-rows-max-bytes": "3000"}},
    {"keys": ["id", "day"], "partition_by": ["day"], "checks": {"small": "id < 100"}, "defaults": {"name": "'new'"}},
)
_WHERE = ("id < 3", "id in (1, 4) and day is not null", "day >= '2026-01-15'", "true", "id = 99")
_PLAIN: dict[str, tuple[Any, ...]] = {
    "boolean": (False, True),
    "smallint": (-32768, 0, 7),
    "int": (-(2**31), 0, 2),
    "bigint": (0, 1, 2, 3, 4, 5),
    "float": (0.5, -1.25, float("inf")),
    "double": (0.1, -0.0, float("nan")),
    "string": ("", "a", "ab", "β"),
    "char(3)": ("", "abc"),
    "varchar(4)": ("", "four"),
    "fixed(2)": (b"\x00\xff",),
    "binary": (b"", b"\xff"),
    "date": (datetime.date(2026, 1, 1), datetime.date(2026, 2, 1), datetime.date(1969, 12, 31)),
    "time": (datetime.time(0), datetime.time(23, 59, 59, 999_999)),
    "timestamp": (datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC),),
    "timestamp_ntz": (datetime.datetime(1969, 1, 1, 12, 0, 0, 1),),
    "decimal(5,1)": (decimal.Decimal("-12.5"), decimal.Decimal(0)),
    "decimal(6,2)": (decimal.Decimal("-12.75"), decimal.Decimal(0)),
    "decimal(9,1)": (decimal.Decimal("-12345678.5"),),
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

    random: Random
    first_design: int

    def choose(self, options: Sequence[Any]) -> Any:
        """Return one of some options."""
        return self.random.choice(options)

    def run(self, rounds: int, without: Sequence[Callable[["History"], None]] = ()) -> None:
        """Create a table, and make changes of every kind in random order, so many times, without some kinds."""
        self.create_namespace()
        self.create_table(_DESIGNS[self.first_design % len(_DESIGNS)])
        possible = [step for step in _STEPS if step not in without]
        for _ in range(rounds):
            for step in self.random.sample(possible, len(possible)):
                step(self)

    def choose_namespace(self) -> NamespaceLocator:
        """Return a namespace, created if there is none."""
        if not (names := [space.locator for space in self.lake.namespaces()]):
            self.create_namespace()
            return self.choose_namespace()
        return cast(NamespaceLocator, self.choose(names))

    def choose_table(self, *, keyed: bool = False) -> Table:
        """Return a managed table, or one with keys, created if there is none."""
        managed = [table for table in self.list_tables() if is_readable(table) and (table.keys or not keyed)]
        if not managed:
            self.create_table(_DESIGNS[0])
            return self.choose_table(keyed=keyed)
        return cast(Table, self.choose(managed))

    def list_tables(self) -> list[Table]:
        """Return the managed tables that have or had a schema, in random order."""
        tables = [table for space in self.lake.namespaces() for table in self.lake.tables(space.locator)]
        managed = [table for table in tables if table.table_type is TableType.MANAGED and table.versions()[0].schema]
        return self.random.sample(managed, len(managed))

    def choose_free_name(self, make: type[TableLocator] | type[ViewLocator]) -> Any:
        """Return the locator of a table or view that does not exist."""
        namespace = self.choose_namespace()
        used = {table.name for table in self.lake.tables(namespace)} | {
            view.name for view in self.lake.views(namespace)
        }
        used |= {alias[1] for alias in self.list_aliases() if alias[0] == namespace.name and len(alias) == 2}
        return make(namespace.name, self.choose([name for name in _TABLE_NAMES if name not in used]))

    def draw_rows(self, table: Table, *, distinct: bool = False) -> list[dict[str, Any]]:
        """Return rows for the current columns of a table."""
        columns = describe_schema(table)["columns"]
        rows = [
            {column["name"]: self.draw_value(column) for column in columns} for _ in range(self.random.randint(1, 4))
        ]
        return list({tuple(one[key] for key in table.keys): one for one in rows}.values()) if distinct else rows

    def draw_value(self, column: Json) -> Any:
        """Return a value for a column, null now and then."""
        if column["nullable"] and self.random.random() < 0.2:
            return None
        match column["type"]:
            case {"struct": columns}:
                return {inner["name"]: self.draw_value(inner) for inner in columns}
            case {"list": element}:
                return [self.draw_value(element) for _ in range(self.random.randint(0, 2))]
            case {"map": {"key": key, "value": value}}:
                return {self.draw_value(key): self.draw_value(value) for _ in range(self.random.randint(0, 2))}
            case type_:
                return self.choose(_PLAIN[type_])

    def create_namespace(self) -> None:
        if free := self.list_free_namespaces(_NAMES):
            properties = self.choose([{}, {"owner": "änn", "empty": ""}])
            self.lake.create_namespace(NamespaceLocator(self.choose(free)), properties=properties, description="d")

    def create_table(self, design: Mapping[str, Any] | None = None) -> None:
        locator = self.choose_free_name(TableLocator)
        table = self.lake.create_table(locator, _COLUMNS, **(design or self.choose(_DESIGNS)))
        table.append(self.draw_rows(table))

    def replace_table(self) -> None:
        table = self.choose_table()
        self.lake.create_table(table.locator, _COLUMNS, as_=self.draw_rows(table)[:0], replace=True)

    def create_external_table(self) -> None:
        self.lake.create_table(
            self.choose_free_name(TableLocator), "x int", keys=["x"], table_type="external", table_format="CSV",
            location="s3://b/x", format_properties={"header": "true"},
        )  # fmt: skip

    def append(self) -> None:
        table = self.choose_table()
        table.append(self.draw_rows(table), ordered=self.choose([False, True]))

    def upsert(self) -> None:
        table = self.choose_table(keyed=True)
        table.upsert(self.draw_rows(table, distinct=True))

    def delete_keys(self) -> None:
        table = self.choose_table(keyed=True)
        table.delete_keys([{key: row[key] for key in table.keys} for row in self.draw_rows(table)])

    def delete_where(self) -> None:
        self.choose_table().delete(self.choose(_WHERE))

    def update(self) -> None:
        self.choose_table().update({"weight": expr("coalesce(weight, 1.0) * 2")}, self.choose(_WHERE))

    def merge(self) -> None:
        table = self.choose_table(keyed=True)
        on = " and ".join(f"t.{key} = s.{key}" for key in table.keys)
        merge = table.merge(self.draw_rows(table, distinct=True), on).when_matched_delete("s.id = 1")
        merge.when_matched_update({"name": expr("s.name")}).when_not_matched_insert().execute()

    def evolve(self) -> None:
        table = self.choose_table()
        name = f"c{describe_schema(table)['last_column_id']}"
        table.append([row | {name: 7} for row in self.draw_rows(table)], evolve=True)

    def overwrite(self) -> None:
        table = self.choose_table()
        table.overwrite(self.draw_rows(table, distinct=bool(table.keys)))

    def compact(self) -> None:
        self.choose_table().compact(full=self.choose([False, True]))

    def change_columns(self) -> None:
        table = self.choose_table()
        schema = describe_schema(table)
        extra = [column for column in schema["columns"] if column["name"].startswith("c")]
        with table.update_schema() as update:
            match self.choose(["add", "add", "rename", "drop", "widen", "move", "comment"]):
                case "rename" if extra:
                    update.rename_column(extra[0]["name"], f"{extra[0]['name']}'")
                case "drop" if extra:
                    update.drop_column(extra[0]["name"])
                case "widen" if wider := [column for column in extra if str(column["type"]) in _WIDER]:
                    update.widen(wider[0]["name"], _WIDER[wider[0]["type"]])
                case "move":
                    update.move_column("tags", after=self.choose([None, "id"]))
                case "comment":
                    update.set_comment("id", self.choose(["ä", None]))
                case "rename":
                    place = next(column for column in schema["columns"] if column["name"] == "place")
                    city = place["type"]["struct"][0]["name"]
                    update.rename_column(f"place.{city}", f"{city}'")
                case _:
                    update.add_column(f"c{schema['last_column_id']}", self.choose(_TYPES))

    def write_two_tables(self) -> None:
        handles = (self.choose_table(keyed=True), self.choose_table())
        with self.lake.transaction(message="two\ntables", author="ana", properties={"k": "v"}) as transaction:
            for handle in handles:
                table = transaction.table(handle.locator)
                if handle.keys:
                    table.upsert(self.draw_rows(handle, distinct=True))
                else:
                    table.append(self.draw_rows(handle))

    def write_beside_another(self) -> None:
        """Rewrite a table in a transaction, and write to it before the transaction commits."""
        table = self.choose_table()
        transaction = self.lake.transaction()
        if self.choose([False, True]):
            transaction.table(table.locator).compact(full=True)
        else:
            transaction.table(table.locator).overwrite(self.draw_rows(table, distinct=bool(table.keys)))
        if table.keys:
            table.upsert(self.draw_rows(table, distinct=True))
        else:
            table.append(self.draw_rows(table))
        with suppress(ConflictError):
            transaction.commit()

    def rename_table(self) -> None:
        self.choose_table().rename(self.choose_free_name(TableLocator))

    def rename_namespace(self) -> None:
        free = self.list_free_namespaces((*_NAMES, "c", "d", "e"))
        self.lake.rename_namespace(self.choose_namespace(), NamespaceLocator(self.choose(free)))

    def list_free_namespaces(self, names: Sequence[str]) -> list[str]:
        """Return those of the names that no namespace and no alias of one has."""
        used = {(space.name,) for space in self.lake.namespaces()} | {*self.list_aliases()}
        return [name for name in names if (name,) not in used]

    def list_aliases(self) -> list[tuple[str, ...]]:
        """Return the names of the aliases."""
        return [split_name(one.name) for one in self.lake.aliases()]

    def create_alias(self) -> None:
        if self.choose([False, True]):
            name = self.choose(self.list_free_namespaces((*_NAMES, "c", "d", "e")))
            self.lake.create_alias(NamespaceLocator(name), self.choose_namespace())
        else:
            target = self.choose_table()
            self.lake.create_alias(self.choose_free_name(TableLocator), target.locator)

    def drop_alias(self) -> None:
        if aliases := self.lake.aliases():
            self.lake.drop_alias(self.choose(list(aliases)).name)

    def create_version(self) -> None:
        table, options = self.choose_table(), self.choose(_DESIGNS)
        if self.choose([False, True]):
            options = {"schema": _COLUMNS, "keys": [], "partition_by": [], "sort_by": [], **options}
            options = {name: value for name, value in options.items() if name not in ("checks", "defaults")}
        else:
            options = {"version": table.versions()[-1].version + 7, "stream_id": "chosen"}
        try:
            new = table.create_version(**options, state=self.choose(["unreleased", "active"]))
        except NotFoundError:  # columns of an inherited check
            return
        new.append(self.draw_rows(new), author="ana", properties={"source": "x"}, position=40)

    def set_state(self) -> None:
        for table in self.list_tables()[:2]:
            number = self.choose(table.versions()).version
            table.version(number).set_state(self.choose(["unreleased", "beta", "active", "deprecated", "deleted"]))

    def drop_version(self) -> None:
        for table in self.list_tables():
            with suppress(InvalidInputError):
                table.drop_version(self.choose(table.versions()).version)

    def reload(self) -> None:
        """Fill a staged stream, and commit it, drop it or leave it."""
        table = self.choose_table()
        table = table.version(table.opened().version.version)
        staged = table.create_stream(self.choose([None, f"reload-{self.lake.version}"]))
        staged.append(self.draw_rows(staged))
        match self.choose(["commit", "drop", "leave"]):
            case "commit":
                staged.commit_stream()
            case "drop":
                staged.drop_stream()

    def create_partition(self) -> None:
        table = self.choose_table()
        if not table.opened().partition_scheme.fields:
            with suppress(AlreadyExistsError):
                table.create_partition((), f"chosen-{self.lake.version}")
        table.append(self.draw_rows(table))

    def add_files(self) -> None:
        table = self.lake.create_table(self.choose_free_name(TableLocator), schemaless=True)
        table.add_files({"a.csv": b"id\n1\n", "b.bin": b"\x00\xff"})
        table.add_files({"c.txt": b""}, author="ana", position=9)
        table.remove_files(table.files()[:1])

    def drop_table(self) -> None:
        self.choose_table().drop()

    def drop_namespace(self) -> None:
        self.lake.drop_namespace(self.choose_namespace(), cascade=True)

    def create_view(self) -> None:
        locator = self.choose_free_name(ViewLocator)
        self.lake.create_view(locator, "select 1 as x", reads=["other.t"], properties={"p": "q"}, description="one")

    def change_view(self) -> None:
        views = [view for space in self.lake.namespaces() for view in self.lake.views(space.locator)]
        if views:
            view = self.choose(views)
            match self.choose(["alter", "rename", "drop"]):
                case "rename":
                    view.rename(self.choose_free_name(ViewLocator))
                case "drop":
                    view.drop()
                case _:
                    view.alter({"altered": "yes"})

    def alter(self) -> None:
        self.lake.alter({"set": self.choose(["x", "y"])}, minimum_versions_to_keep=self.choose([3, 5]))
        self.choose_table().alter({"owner": self.choose(["ana", "ben"])}, description=self.choose([None, "new"]))
        self.lake.alter_namespace(self.choose_namespace(), {"more": "yes"})

    def begin_shared(self) -> None:
        name_bytes_max = self.lake.settings.table_name_max_size_bytes
        for name in sorted({"löad", "l" * min(40, name_bytes_max)} - {*self.lake.shared_transactions()}):
            self.lake.begin_shared(name, "2h")

    def publish_shared(self) -> None:
        table = self.choose_table()
        shared = self.lake.begin_shared(f"s{self.lake.version}", "2h")
        with shared:
            shared.table(table.locator).append(self.draw_rows(table))
        shared.publish()

    def undo(self) -> None:
        with suppress(InvalidInputError, ConflictError):
            self.lake.undo(self.lake.version)

    def roll_back(self) -> None:
        self.lake.rollback(self.random.randint(self.lake.version // 2, self.lake.version))


_OF_ROWS = (
    History.append,
    History.upsert,
    History.delete_keys,
    History.merge,
    History.evolve,
    History.delete_where,
    History.update,
    History.overwrite,
    History.compact,
    History.change_columns,
    History.write_two_tables,
    History.write_beside_another,
)
_OF_OBJECTS = (
    History.create_namespace,
    History.create_table,
    History.replace_table,
    History.create_external_table,
    History.rename_table,
    History.rename_namespace,
    History.create_alias,
    History.create_alias,
    History.drop_alias,
    History.create_version,
    History.create_version,
    History.set_state,
    History.drop_version,
    History.reload,
    History.create_partition,
    History.add_files,
    History.drop_table,
    History.drop_namespace,
    History.create_view,
    History.change_view,
    History.alter,
    History.begin_shared,
    History.publish_shared,
    History.undo,
    History.roll_back,
)
_STEPS: tuple[Callable[[History], None], ...] = (*_OF_ROWS, *_OF_ROWS, *_OF_OBJECTS)


def begin_history(layout: str, seed: int, *, strict: bool | None = None) -> History:
    """Return the history of a new lakehouse in memory, which the seed determines."""
    new = create_in_memory(layout, _SETTINGS[seed % len(_SETTINGS)], strict=strict)
    return History(new.lake, new.store, Random(seed), seed)


def create_in_memory(layout: str, settings: LakehouseSettings, *, strict: bool | None = None) -> MemoryLake:
    """Return a new lakehouse in memory."""
    store = MemoryStore()
    effects = build_deterministic_effects(store)
    lake = create_on_store(effects, layout=layout, strict=strict, settings=settings, engines=LocalEngines)
    return MemoryLake(lake, store)


def describe_objects(lake: Lakehouse, version: int) -> Objects:
    """Return all objects of a version as the API returns them, in JSON form."""
    at = lake.at(version)
    objects: dict[Key, Json] = {}
    for space in at.namespaces():
        objects["namespace", space.name] = to_json(space.value)
        objects |= {("table", space.name, table.name): to_json(table.value) for table in at.tables(space.locator)}
        objects |= {("view", space.name, view.name): to_json(view.value) for view in at.views(space.locator)}
    metastore: Any = lake.metastore
    for kind in (Kind.SHARED_TRANSACTION, Kind.ALIAS, Kind.TABLE_VERSION, Kind.STREAM, Kind.PARTITION, Kind.DELTA):
        parts_from = 1 if kind.is_below_table else 0
        for locator, value in metastore.objects(at.snapshot, kind):
            objects[kind.word, *locator.parts[parts_from:]] = to_json(value)
    return objects


def is_readable(table: TableSnapshot) -> bool:
    """Return whether the name of a table opens a version with a schema."""
    return any(one.is_default and one.schema is not None for one in table.versions())


def describe_schema(table: Table) -> Json:
    """Return the current schema of a table in JSON form."""
    return to_json(table.opened().version.schema)

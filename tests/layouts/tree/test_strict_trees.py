"""Strict trees: nothing but what the format documents describe, read here with Arrow and protobuf only."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

import mangrove
from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, MangroveError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.layouts.tree.definition_files import append_checksum, verify_and_strip_checksum
from mangrove.layouts.tree.definitions import encode_definition
from mangrove.layouts.tree.metastore import TreeMetastore
from mangrove.layouts.tree.proto import mangrove_tree_pb2 as pb
from mangrove.model.locators import Kind, TableLocator
from mangrove.model.settings import STRICT_TREE, LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.wiring import LocalEngines

NAME_BYTES = 12
SETTINGS = LakehouseSettings(
    order=4, namespace_name_max_size_bytes=NAME_BYTES, table_name_max_size_bytes=NAME_BYTES, minimum_versions_to_keep=20
)
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
HASH = "(?:[01]{4}/){3}[01]{8}-"
ROOT = re.compile("_[01]{32}\\.ipc")
LAKEHOUSE = re.compile(f"_lakehouse_def_{UUID}\\.binpb")
DEFINITION = re.compile(
    f"{HASH}(namespace|table|view|txn|tableversion|stream|partition|delta|alias)-(?:.+-)?{UUID}\\.binpb"
)
DATA = re.compile(f"data/{UUID}/.+")
SYSTEM_ROWS = {
    "created_at_millis", "n_keys", "previous_root", "rollback_from_root", "transaction", "commit_message",
    "commit_author", "commit_properties", "rewritten_messages",
}  # fmt: skip


@dataclass(frozen=True)
class Format:
    """What the documents of one revision say."""

    layout: str
    columns: list[str]
    system_rows: set[str]
    hint: str
    node: re.Pattern[str]
    kinds: dict[str, str]
    """The kind of an object by the four characters in its key."""
    id_at_end: bool


NEWER = Format(
    "tree",
    ["key", "value", "pnode", "txn"],
    SYSTEM_ROWS | {"lakehouse_def"},
    "_latest_hint.txt",
    re.compile(f"{HASH}node-{UUID}\\.ipc"),
    {"B===": "namespace", "C===": "table", "D===": "view", "E===": "txn", "F===": "tableversion", "G===": "stream"}
    | {"H===": "partition", "I===": "delta", "J===": "alias"},
    id_at_end=False,
)
OLDER = Format(
    "tree-older",
    ["key", "pvalue", "pnode"],
    SYSTEM_ROWS | {"lakehouse", "last_transaction", "n_messages"},
    "_latest_hint",
    re.compile(f"{HASH}[A-Za-z0-9_-]{{22}}\\.ipc"),
    {"B===": "namespace", "D===": "table", "J===": "view", "E===": "txn", "F===": "tableversion", "G===": "stream"}
    | {"H===": "partition", "I===": "delta", "K===": "alias"},
    id_at_end=True,
)


@pytest.fixture(params=[NEWER, OLDER], ids=lambda one: one.layout)
def form(request: pytest.FixtureRequest) -> Format:
    assert isinstance(request.param, Format)
    return request.param


@pytest.fixture
def effects() -> Effects:
    return build_deterministic_effects(MemoryStore("memory://strict/"), Clock())


@pytest.fixture
def lake(effects: Effects, form: Format) -> Lakehouse:
    return create_on_store(effects, layout=form.layout, strict=True, settings=SETTINGS, engines=LocalEngines)


class Reader:
    """Reads one version by the format documents, and refuses what they do not describe."""

    def __init__(self, store: MemoryStore, form: Format, version: int) -> None:
        self._store = store
        self._form = form
        self.names: dict[tuple[str, ...], str] = {}
        """The pointer of each namespace, table and view, by its names."""
        path = f"_{version:032b}"[::-1]
        for key, pointer in self._entries(f"_{path[:-1]}.ipc", is_root=True).items():
            kind = form.kinds[key[-4:] if form.id_at_end else key[:4]]
            match = DEFINITION.fullmatch(pointer)
            assert match is not None
            assert match[1] == kind
            assert store.exists(pointer)
            if kind in ("namespace", "table", "view"):
                self.names[(kind, *self._names(key, kind))] = pointer

    def listed(self, kind: str) -> set[str]:
        return {".".join(name[1:]) for name in self.names if name[0] == kind}

    def table(self, namespace: str, name: str) -> pb.Table:
        pointer = self.names["table", namespace, name]
        message = pb.Table()
        message.ParseFromString(verify_and_strip_checksum(self._store.read(pointer), Kind.TABLE, pointer))
        return message

    def _names(self, key: str, kind: str) -> list[str]:
        inside = key[1:] if self._form.id_at_end else key[4:]
        if self._form.id_at_end and kind == "view":
            inside = inside[4:]
        count = 1 if kind == "namespace" else 2
        return [inside[NAME_BYTES * place : NAME_BYTES * (place + 1)].rstrip(" ") for place in range(count)]

    def _entries(self, path: str, *, is_root: bool = False) -> dict[str, str]:
        assert is_root or self._form.node.fullmatch(path)
        batch = pa.ipc.open_file(pa.py_buffer(self._store.read(path))).get_batch(0)
        assert batch.schema.names == self._form.columns
        rows = batch.to_pydict()
        keys, values, children = (rows[name] for name in self._form.columns[:3])
        start = keys.index(None)
        system = dict(zip(keys[:start], values[:start], strict=True))
        assert values[start] is None
        assert system.keys() <= self._form.system_rows
        if is_root:
            assert LAKEHOUSE.fullmatch(system.get("lakehouse_def") or system["lakehouse"])
        entries: dict[str, str] = {}
        for child in children[start : start + SETTINGS.order]:
            if child is not None:
                entries |= self._entries(child)
        for place in range(start, len(keys)):
            if keys[place] is not None and values[place] is not None:
                entries[keys[place]] = values[place]
            elif keys[place] is not None:
                entries.pop(keys[place], None)
        return entries


def read_all_versions(lake: Lakehouse, form: Format) -> None:
    """Compare every version with what the documents alone give."""
    store = lake.effects.store
    assert isinstance(store, MemoryStore)
    for version in range(lake.version + 1):
        snapshot, reader = lake.at(version), Reader(store, form, version)
        namespaces = [space.name for space in snapshot.namespaces()]
        tables = [table for name in namespaces for table in snapshot.tables(name)]
        assert reader.listed("namespace") == set(namespaces)
        assert reader.listed("table") == {str(table) for table in tables}
        assert reader.listed("view") == {str(view) for name in namespaces for view in snapshot.views(name)}
        for table in tables:
            definition = reader.table(*str(table).split("."))
            assert table.schema is not None
            assert [column.name for column in definition.schema.columns] == [one.name for one in table.schema.columns]
            assert [one.id for one in definition.schema.columns if one.id in definition.primary_keys] == [
                table.schema.column(name).id for name in table.keys
            ]
    check_paths(store, form)


def check_paths(store: MemoryStore, form: Format) -> None:
    for entry in store.list():
        assert isinstance(entry, ObjectInfo)
        assert len(entry.path.encode()) <= SETTINGS.file_path_max_size_bytes
        known = (ROOT, LAKEHOUSE, form.node, DEFINITION, DATA)
        assert entry.path == form.hint or any(pattern.fullmatch(entry.path) for pattern in known), entry.path


NAMES = ["a", "b", "c"]


def change_anything(lake: Lakehouse, chance: random.Random) -> None:
    """Do one random operation; what does not fit the present state is refused by it."""
    name, other, table, column = (chance.choice(NAMES) for _ in range(4))
    target = f"{name}.{table}"
    operations: list[Callable[[], object]] = [
        lambda: lake.create_namespace(name),
        lambda: lake.create_table(target, "id int not null", keys=["id"]),
        lambda: lake.create_table(target, "id int, day string", partition_by=["day"]),
        lambda: lake.create_view(target, "select 1 as x"),
        lambda: lake.rename_namespace(name, other),
        lambda: lake.rename_table(target, f"{other}.{column}"),
        lambda: lake.alter_table(target, {"owner": other}),
        lambda: lake.alter_namespace(name, {"owner": other}),
        lambda: lake.table(target).append([{"id": chance.randrange(9)}]),
        lambda: lake.table(target).upsert([{"id": chance.randrange(9)}]),
        lambda: lake.table(target).update_schema().add_column(column, "int").commit(),
        lambda: lake.table(target).update_schema().drop_column(column).commit(),
        lambda: swap(lake, name, other),
        lambda: lake.drop_table(target),
        lambda: lake.drop_namespace(name, cascade=True),
        lambda: lake.rollback(to=chance.randrange(lake.version + 1)),
        lambda: lake.maintenance.compact_metadata(),
    ]
    try:
        chance.choice(operations)()
    except MangroveError:
        return


def swap(lake: Lakehouse, name: str, other: str) -> None:
    """Swap the names of two namespaces in one transaction, and change a table on the way."""
    with lake.transaction() as transaction:
        transaction.rename_namespace(name, "between")
        transaction.rename_namespace(other, name)
        transaction.rename_namespace("between", other)
        transaction.alter_table(f"{other}.a", {"swapped": "yes"})


@pytest.mark.parametrize("seed", range(4))
def test_a_reader_of_the_documents_resolves_every_name_and_schema_of_every_version(
    lake: Lakehouse, form: Format, seed: int
) -> None:
    chance = random.Random(seed)
    for name in NAMES[:2]:
        lake.create_namespace(name)
    while lake.version < 40:
        change_anything(lake, chance)
    read_all_versions(lake, form)
    assert lake.maintenance.check().problems == ()
    store = lake.effects.store
    assert isinstance(store, MemoryStore)
    lake.alter(maximum_version_age_millis=0)
    assert lake.maintenance.expire(alone=True).versions
    check_paths(store, form)
    if form is OLDER:
        lake.maintenance.upgrade_format()
        assert Reader(store, NEWER, lake.version).names.keys() == Reader(store, OLDER, lake.version - 1).names.keys()


def test_without_strictness_the_reader_fails_on_the_extensions(effects: Effects, form: Format) -> None:
    lake = create_on_store(effects, layout=form.layout, strict=False, settings=SETTINGS, engines=LocalEngines)
    lake.create_namespace("a")
    with pytest.raises(AssertionError):
        read_all_versions(lake, form)


def open_again(lake: Lakehouse) -> Lakehouse:
    """Return the lakehouse as another process opens it."""
    effects = build_deterministic_effects(lake.effects.store, Clock(), first_id=10**6)
    return open_on_store(effects, engines=LocalEngines)


Change = Callable[[Any], object]
RACES: dict[str, tuple[Change, Change]] = {
    "a new column and a renamed namespace": (
        lambda lake: lake.table("sales.orders").update_schema().add_column("day", "date").commit(),
        lambda lake: lake.rename_namespace("sales", "shop"),
    ),
    "a new column and a renamed table": (
        lambda lake: lake.table("sales.orders").update_schema().add_column("day", "date").commit(),
        lambda lake: lake.rename_table("sales.orders", "sales.bills"),
    ),
    "a new column and a property": (
        lambda lake: lake.table("sales.orders").update_schema().add_column("day", "date").commit(),
        lambda lake: lake.alter_table("sales.orders", {"owner": "me"}),
    ),
    "a property and a new column": (
        lambda lake: lake.alter_table("sales.orders", {"owner": "me"}),
        lambda lake: lake.table("sales.orders").update_schema().add_column("day", "date").commit(),
    ),
    "a renamed namespace and a new table": (
        lambda lake: lake.rename_namespace("sales", "shop"),
        lambda lake: lake.create_table("sales.more", "id int"),
    ),
    "rows and a renamed namespace": (
        lambda lake: lake.table("sales.orders").append([{"id": 1}]),
        lambda lake: lake.rename_namespace("sales", "shop"),
    ),
}


@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("extended", [False, True], ids=["strict", "extended"])
def test_rewritten_keys_and_schemas_follow_concurrent_commits_and_refuse_none(
    effects: Effects, form: Format, race: str, *, extended: bool
) -> None:
    lake = create_on_store(effects, layout=form.layout, strict=not extended, settings=SETTINGS, engines=LocalEngines)
    lake.create_namespace("sales")
    lake.create_table("sales.orders", "id int not null", keys=["id"])
    mine, theirs = RACES[race]
    transaction = open_again(lake).transaction()
    mine(transaction)
    theirs(lake)
    transaction.commit()
    newest = open_again(lake)
    (name,) = (space.name for space in newest.namespaces())
    assert name == ("shop" if "renamed namespace" in race else "sales")
    tables = {table.name: table for table in newest.tables(name)}
    assert tables.keys() == (
        {"orders", "more"} if "new table" in race else {"bills" if "bills" in tables else "orders"}
    )
    assert newest.maintenance.check().problems == ()
    if not extended:
        read_all_versions(newest, form)


def test_strictness_is_fixed_at_creation(effects: Effects, form: Format) -> None:
    lake = create_on_store(effects, layout=form.layout, strict=True)
    with pytest.raises(InvalidInputError, match="fixed at creation"):
        lake.alter(remove=["tree.strict"])
    assert open_again(lake).settings.is_strict_tree
    extended = create_on_store(
        build_deterministic_effects(MemoryStore("memory://extended/")), layout=form.layout, strict=False
    )
    with pytest.raises(InvalidInputError, match="fixed at creation"):
        extended.alter({"tree.strict": "true"})
    assert not open_again(extended).settings.is_strict_tree


def test_only_the_older_revision_is_strict_by_default_and_deltacat_never_is() -> None:
    made = {
        layout: create_on_store(build_deterministic_effects(MemoryStore(f"memory://{layout}/")), layout=layout)
        for layout in LAYOUTS
    }
    assert [layout for layout, lake in made.items() if lake.settings.is_strict_tree] == ["tree-older"]
    with pytest.raises(InvalidInputError, match="cannot be strict"):
        create_on_store(build_deterministic_effects(MemoryStore("memory://no/")), layout="deltacat", strict=True)


def test_check_reports_extensions_in_a_strict_tree(effects: Effects, form: Format) -> None:
    lake = create_on_store(effects, layout=form.layout, strict=False, settings=SETTINGS, engines=LocalEngines)
    assert STRICT_TREE not in lake.settings.properties
    lake.create_namespace("old")
    lake.create_table("old.orders", "id int")
    lake.rename_namespace("old", "new")
    assert isinstance(lake.metastore, TreeMetastore)
    # Another program declares it strict.
    path = lake.metastore.latest().root.definition_path
    strict = replace(lake.settings, properties={STRICT_TREE: "true"})
    effects.store.put(path, append_checksum(encode_definition(strict), Kind.LAKEHOUSE))
    rules = " ".join(problem.rule for problem in open_again(lake).maintenance.check().problems)
    for expected in ("namespace new is inline", "table new|orders is inline", "names of namespaces differ"):
        assert expected in rules


def test_check_reports_a_table_without_the_schema_of_its_table_version(effects: Effects, form: Format) -> None:
    lake = create_on_store(effects, layout=form.layout, strict=True, settings=SETTINGS, engines=LocalEngines)
    lake.create_namespace("sales")
    table = lake.create_table("sales.orders", "id int")
    assert isinstance(lake.metastore, TreeMetastore)
    path = lake.metastore.latest().pointer(TableLocator("sales", "orders"))
    assert path is not None
    effects.store.put(path, append_checksum(encode_definition(table.value), Kind.TABLE))
    found = open_again(lake).maintenance.check().problems
    assert [(problem.path, "schema and keys of table version 1" in problem.rule) for problem in found] == [(path, True)]


def test_a_strict_tree_stores_aliases_under_keys_that_a_reader_of_its_format_skips(
    lake: Lakehouse, form: Format
) -> None:
    lake.create_namespace("a")
    lake.create_table("a.b", "id int not null", keys=["id"])
    lake.create_alias("a.c", "a.b")
    lake.create_alias("c", "a")
    lake.rename_table("a.b", "a.d")
    lake.rename_namespace("a", "e")
    assert [str(alias) for alias in lake.aliases()] == ["c → e", "e.c → e.d"]
    assert str(open_again(lake).table("c.c")) == "e.d"
    lake.drop_alias("e.c")
    lake.drop_namespace("e", cascade=True)
    read_all_versions(lake, form)
    assert list(lake.aliases()) == []


def test_a_conversion_to_a_strict_tree_keeps_the_aliases_of_all_versions(effects: Effects, form: Format) -> None:
    lake = create_on_store(effects, layout=form.layout, strict=False, settings=SETTINGS, engines=LocalEngines)
    lake.create_namespace("a")
    lake.create_alias("c", "a")
    lake.drop_alias("c")
    there = f"memory://strict-aliases-{form.layout}/"
    assert lake.maintenance.convert(there, form.layout, strict=True).is_sound
    found = mangrove.open(there)
    assert [[str(alias) for alias in found.at(version).aliases()] for version in (2, 3)] == [["c → a"], []]

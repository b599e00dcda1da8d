"""What readers see that know nothing of Mangrove's own additions to the formats.

A strict reader of a tree knows what the specification of TrinityLake describes, and reads strict trees. A reader of a
catalog that ignores the folder `mangrove/` resolves names by their digests and versions by the transaction log.
"""

from collections.abc import Callable

import pytest
from tests.independent_readers.deltacat_reader import DeltaCatReader
from tests.independent_readers.histories import (
    History,
    MemoryLake,
    begin_history,
    create_in_memory,
    describe_objects,
    is_readable,
)
from tests.independent_readers.table_rows import Json, Key, Objects
from tests.independent_readers.test_agreement import assert_equal_data, assert_equal_rows, without_absent
from tests.independent_readers.tree_reader import TreeReader

from mangrove.lakehouse.opening import open_on_store
from mangrove.model.locators import Kind, TableLocator
from mangrove.model.names import split_name
from mangrove.model.objects import TableType
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import LocalEngines

TREES = ["tree", "tree-older"]
CATALOGS = ["deltacat", "deltacat-2"]
SPECIFIED = ("name", "properties", "table_type", "table_format", "format_properties", "sql", "dialect")
"""The fields of namespaces, tables and views that a strict reader knows."""


def begin(layout: str) -> MemoryLake:
    """Return a lakehouse, strict if it is a tree, with the tables `a.t` and `a.u` and the view `a.v`."""
    memory = create_in_memory(layout, LakehouseSettings(), strict=layout in TREES or None)
    lake = memory.lake
    lake.create_namespace("a", properties={"owner": "ana"})
    for name in ("t", "u"):
        lake.create_table(f"a.{name}", "id bigint not null, n string", keys=["id"]).append([{"id": 1, "n": name}])
    lake.create_view("a.v", "select 1 as x", reads=[])
    return memory


def select_fields(objects: Objects) -> dict[Key, Json]:
    return {key: {name: value[name] for name in SPECIFIED if value.get(name)} for key, value in objects.items()}


def assert_strict_agreement(memory: MemoryLake, layout: str) -> None:
    """Assert that a strict reader finds the namespaces, tables and views of every version, as far as it knows them."""
    kinds = ("namespace", "table") if layout == "tree-older" else ("namespace", "table", "view")
    reader = TreeReader(memory.files, extensions=False)
    assert reader.find_newest_version() == memory.lake.version
    for version in range(memory.lake.version + 1):
        objects = describe_objects(memory.lake, version)
        expected = {key: value for key, value in objects.items() if key[0] in kinds}
        assert select_fields(reader.read_objects(version)) == select_fields(expected)


@pytest.mark.parametrize("layout", TREES)
def test_a_strict_reader_finds_every_definition_in_a_file(layout: str) -> None:
    assert_strict_agreement(begin(layout), layout)


@pytest.mark.parametrize("layout", TREES)
def test_a_strict_reader_finds_tables_under_the_new_name_of_their_namespace(layout: str) -> None:
    memory = begin(layout)
    memory.lake.rename_namespace("a", "b")
    assert_strict_agreement(memory, layout)


@pytest.mark.parametrize("layout", TREES)
def test_a_strict_reader_agrees_in_every_version(layout: str) -> None:
    history = begin_history(layout, 0, strict=True)
    history.run(1)
    assert_strict_agreement(history, layout)


@pytest.mark.parametrize("layout", TREES)
def test_a_strict_reader_finds_the_columns_and_keys_of_a_table(layout: str) -> None:
    table = TreeReader(begin(layout).files, extensions=False).read_objects()["table", "a", "t"]
    assert table["schema"] is not None
    assert [(column["id"], column["name"], column["type"]) for column in table["schema"]["columns"]] == [
        (1, "id", "bigint"),
        (2, "n", "string"),
    ]
    assert table["keys"] == [1]


def rename_namespace(memory: MemoryLake) -> None:
    memory.lake.rename_namespace("a", "b")


def rename_table(memory: MemoryLake) -> None:
    memory.lake.rename_table("a.t", "a.new")


def move_table(memory: MemoryLake) -> None:
    memory.lake.create_namespace("b")
    memory.lake.rename_table("a.t", "b.t")


def drop_namespace(memory: MemoryLake) -> None:
    memory.lake.drop_namespace("a", cascade=True)


def assert_log_agreement(memory: MemoryLake) -> None:
    """Assert that the log and the digests lead to all that DeltaCAT's model has, in every version.

    A digest cannot be reversed, so aliases are not listed. They are resolved, except those of tables in other
    namespaces.
    """
    lake, files = memory.lake, memory.files
    shared = {path: data for path, data in files.items() if not path.startswith("mangrove/")}
    reader = DeltaCatReader(shared, extensions=False)
    assert reader.find_newest_version() == lake.version
    compared: Objects = {}
    for version in range(lake.version + 1):
        objects = reader.read_objects(version)
        expected = describe_objects(lake, version)
        assert {key: without_absent(value) for key, value in objects.items()} == {
            key: without_absent(value)
            for key, value in expected.items()
            if key[0] not in ("view", "shared transaction", "alias")
        }
        assert_equal_data(shared, objects, lake.at(version), compared)
        compared = objects
        for kind, *names in expected:
            if kind == "table":
                table = lake.at(version).table(TableLocator(*names))
                folder = f"{table.value.namespace_id}/{table.id}"
                assert reader.resolve_table(names[0], names[1], version) == folder
        for alias in lake.at(version).aliases():
            parts = split_name(alias.name)
            if alias.kind is Kind.NAMESPACE:
                assert reader.resolve_namespace(parts[0], version) == alias.target_id
            elif parts[0] == split_name(alias.target)[0]:
                found = reader.resolve_table(parts[0], parts[1], version)
                assert found is not None
                assert found.partition("/")[2] == alias.target_id


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("layout", CATALOGS)
def test_every_object_of_every_version_is_found_by_the_log_and_digests(layout: str, seed: int) -> None:
    history = begin_history(layout, seed)
    history.run(1, without=[History.rename_namespace, History.rename_table])
    assert_log_agreement(history)


@pytest.mark.parametrize("layout", CATALOGS)
def test_every_object_is_found_by_the_log_and_digests_after_renames(layout: str) -> None:
    history = begin_history(layout, 0)
    history.run(1)
    history.lake.create_namespace("z")
    history.choose_table().rename("z.moved")
    history.lake.rename_namespace("z", "y")
    assert_log_agreement(history)


@pytest.mark.parametrize("layout", CATALOGS)
def test_a_renamed_table_is_found_by_the_digest_of_its_new_name_only(layout: str) -> None:
    memory = begin(layout)
    rename_table(memory)
    assert_log_agreement(memory)
    assert DeltaCatReader(memory.files).resolve_table("a", "t", memory.lake.version) is None


@pytest.mark.parametrize("layout", CATALOGS)
def test_tables_of_a_renamed_namespace_are_found_by_their_digests(layout: str) -> None:
    memory = begin(layout)
    rename_namespace(memory)
    assert_log_agreement(memory)


@pytest.mark.parametrize("layout", CATALOGS)
def test_a_table_that_moved_to_another_namespace_is_found_by_its_digest(layout: str) -> None:
    memory = begin(layout)
    move_table(memory)
    assert_log_agreement(memory)


@pytest.mark.parametrize("change", [rename_namespace, rename_table, move_table, drop_namespace])
@pytest.mark.parametrize("layout", CATALOGS)
def test_mangrove_reads_the_same_tables_without_its_own_folder(
    layout: str, change: Callable[[MemoryLake], None]
) -> None:
    memory = begin(layout)
    change(memory)
    assert_equal_without_own_folder(memory)


@pytest.mark.parametrize("layout", CATALOGS)
def test_mangrove_reads_the_same_without_its_own_folder_after_a_random_history(layout: str) -> None:
    history = begin_history(layout, 42)
    history.run(1)
    history.lake.create_alias("other", history.choose_namespace())
    assert_equal_without_own_folder(history)


def assert_equal_without_own_folder(memory: MemoryLake) -> None:
    """Assert that the newest version is the same without `mangrove/`, except for what DeltaCAT does not have."""
    store = MemoryStore()
    store.put_many({path: data for path, data in memory.files.items() if not path.startswith("mangrove/")})
    lake = open_on_store(build_deterministic_effects(store), engines=LocalEngines)
    expected, actual = (describe_objects(one, one.version) for one in (memory.lake, lake))
    own = ("view", "shared transaction", "alias")
    assert actual == {key: value for key, value in expected.items() if key[0] not in own}
    for table in [table for space in lake.namespaces() for table in lake.tables(space.locator)]:
        if table.table_type is TableType.MANAGED and is_readable(table):
            assert_equal_rows(table.to_arrow(), memory.lake.table(table.locator).to_arrow())
    for alias in memory.lake.aliases():
        name = split_name(alias.name)
        if alias.kind is Kind.NAMESPACE or name[0] == split_name(alias.target)[0]:
            assert getattr(lake.resolve(alias.name).value, "id", None) == alias.target_id
    assert [one.rule for one in lake.maintenance.check().problems if "alias" not in one.rule] == []

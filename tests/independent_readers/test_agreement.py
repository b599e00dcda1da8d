"""An independent reader finds the same objects, manifests and rows as Mangrove in every version of random histories."""

import ast
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.independent_readers.deltacat_reader import DeltaCatReader
from tests.independent_readers.histories import (
    MemoryLake,
    begin_history,
    create_in_memory,
    describe_objects,
    is_readable,
)
from tests.independent_readers.table_rows import (
    Json,
    Objects,
    read_files,
    read_rows,
    read_rows_of_version,
    resolve_table,
)
from tests.independent_readers.tree_reader import TreeReader

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.model.json_codec import to_json
from mangrove.model.locators import Kind
from mangrove.model.manifests import FileKind
from mangrove.model.names import split_name
from mangrove.model.objects import DeltaType, TableType
from mangrove.model.settings import LakehouseSettings

HERE = Path(__file__).parent
READERS = ["deltacat_reader.py", "protobuf_wire.py", "table_rows.py", "tree_reader.py"]
ROWS = [{"id": id_, "n": id_ + 10} for id_ in range(4)]
FREE_FORM = ("properties", "format_properties", "exported_snapshots", "values", "partition_values")


def build_reader(layout: str, files: dict[str, bytes], *, extensions: bool = True) -> Any:
    make = TreeReader if layout.startswith("tree") else DeltaCatReader
    return make(files, extensions=extensions)


def without_absent(value: Json) -> Json:
    """Return an object without fields that are null or empty, which have the same meaning as absent ones."""
    if isinstance(value, list):
        return [without_absent(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: inner if name in FREE_FORM else without_absent(inner)
        for name, inner in value.items()
        if inner not in (None, "", {}) and (inner != [] or name == "partition_values") and name != "position"
    }


def assert_agreement(memory: MemoryLake, layout: str) -> None:
    """Assert that a reader finds the same as the API in every version that has not expired."""
    lake, files = memory.lake, memory.files
    reader = build_reader(layout, files)
    assert reader.find_newest_version() == lake.version
    compared: Objects = {}
    for version in sorted(line.version for line in lake.history()):
        at = lake.at(version)
        expected = {key: without_absent(value) for key, value in describe_objects(lake, version).items()}
        objects = reader.read_objects(version)
        actual = {key: without_absent(value) for key, value in objects.items()}
        assert actual.keys() == expected.keys()
        assert actual == expected
        assert without_absent(reader.read_settings(version)) == without_absent(to_json(at.settings))
        commit = at.snapshot.commit
        assert reader.read_commit(version) == {
            name: dict(commit.properties) if name == "properties" else getattr(commit, name)
            for name in reader.read_commit(version)
        }
        assert_equal_data(files, objects, at, compared)
        compared = objects
        for alias in at.aliases():
            if alias.kind is Kind.TABLE:
                assert objects[resolve_table(objects, *split_name(alias.name))]["id"] == at.table(alias.name).id


def select_table(objects: Objects, table: TableSnapshot) -> Objects:
    """Return the objects that decide which rows a table has."""
    named = ("table", table.locator.namespace, table.locator.name)
    return {key: value for key, value in objects.items() if key == named or key[1] == table.id}


def assert_equal_data(files: Mapping[str, bytes], objects: Objects, at: Snapshot, compared: Objects) -> None:
    """Assert that all tables of a version have the same rows and files: by name, by table version and by stream.

    A table whose objects are those of the version that was compared before has the same rows as there.
    """
    for table in [one for space in at.namespaces() for one in at.tables(space.locator)]:
        if table.table_type is not TableType.MANAGED or select_table(objects, table) == select_table(compared, table):
            continue
        if is_readable(table):
            assert_equal_rows(read_rows(files, objects, table.locator.namespace, table.locator.name), table.to_arrow())
        elif all(one.state in ("unreleased", "beta", "deleted") for one in table.versions()):
            with pytest.raises(LookupError, match="has no active table version"):
                read_rows(files, objects, table.locator.namespace, table.locator.name)
        for one in table.versions():
            if one.schema is None:
                stored = read_files(files, objects, table.id, one.version)
                assert stored.keys() == {file.location for file in table.version(one.version).files()}
            elif one.state != "deleted":
                for stream in table.version(one.version).streams():
                    rows = read_rows_of_version(files, objects, table.id, one.version, stream.id)
                    assert_equal_rows(rows, table.version(one.version).stream(stream.id).to_arrow())


def assert_equal_rows(actual: Any, expected: Any) -> None:
    assert actual.schema.equals(expected.schema, check_metadata=False)
    assert Counter(map(repr, actual.to_pylist())) == Counter(map(repr, expected.to_pylist()))


def write_every_kind(table: Table) -> None:
    """Make each kind of write, and let a compaction and an overwrite commit after concurrent writes."""
    lake = table.catalog
    assert isinstance(lake, Lakehouse)
    table.append(ROWS)
    table.append(ROWS[:1], ordered=False)
    table.delete("id = 1")
    if table.keys:
        table.upsert(ROWS[1:3])
        table.delete_keys([{"id": 2}])
    with lake.transaction() as transaction:
        transaction.table(table.locator).compact(full=True)
        (table.upsert if table.keys else table.append)(ROWS[2:])
    with lake.transaction() as transaction:
        transaction.table(table.locator).overwrite(ROWS[:2])
        table.append(ROWS[3:])
    table.append(ROWS[2:])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_independent_reader_reads_every_kind_of_delta(layout: str) -> None:
    memory = create_in_memory(layout, LakehouseSettings())
    memory.lake.create_namespace("a")
    for name, keys, mode in [("keys", ["id"], "auto"), ("copies", [], "auto"), ("positions", [], "position")]:
        properties = {"write.delete-mode": mode}
        write_every_kind(memory.lake.create_table(f"a.{name}", "id int, n int", keys=keys, properties=properties))
    assert_agreement(memory, layout)
    versions = [describe_objects(memory.lake, version) for version in range(memory.lake.version + 1)]
    deltas = [value for objects in versions for key, value in objects.items() if key[0] == "delta"]
    assert {delta["type"] for delta in deltas} == {one.value for one in DeltaType}
    assert {file["kind"] for delta in deltas for file in delta["manifest"]["entries"]} == {
        one.value for one in FileKind
    }
    assert any(delta.get("replaced_locations") for delta in deltas)
    assert any(delta.get("replaces_through") for delta in deltas)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_independent_reader_agrees_in_every_version(layout: str) -> None:
    history = begin_history(layout, 2)
    history.run(1)
    assert_agreement(history, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_independent_reader_agrees_after_expiry_and_vacuum(layout: str) -> None:
    history = begin_history(layout, 1)
    history.run(1)
    count = history.lake.version + 1
    history.lake.alter(maximum_version_age_millis=0)
    history.lake.maintenance.expire(alone=True)
    history.lake.maintenance.vacuum(alone=True)
    assert len(list(history.lake.history())) < count / 2
    assert_agreement(history, layout)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_independent_reader_agrees_in_every_version_of_long_histories(layout: str, seed: int) -> None:
    history = begin_history(layout, seed)
    history.run(2)
    assert_agreement(history, layout)


@pytest.mark.parametrize("name", READERS)
def test_a_reader_imports_nothing_of_mangrove(name: str) -> None:
    allowed = {*sys.stdlib_module_names, "msgpack", "pyarrow"}
    for node in ast.walk(ast.parse((HERE / name).read_text("utf-8"))):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            own = module.removeprefix("tests.independent_readers.")
            assert module.partition(".")[0] in allowed or f"{own}.py" in READERS, f"{name} imports {module}"

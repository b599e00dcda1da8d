"""An independent reader finds the same objects, manifests and rows as Mangrove in every version of random histories."""

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.independent_readers.deltacat_reader import DeltaCatReader
from tests.independent_readers.histories import MemoryLake, begin_history, describe_objects
from tests.independent_readers.table_rows import Json, read_rows
from tests.independent_readers.tree_reader import TreeReader

from mangrove.lakehouse.layouts import LAYOUTS
from mangrove.model.json_codec import to_json
from mangrove.model.objects import TableType

HERE = Path(__file__).parent
READERS = ["deltacat_reader.py", "protobuf_wire.py", "table_rows.py", "tree_reader.py"]
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
    lake, files = memory.lake, memory.files
    reader = build_reader(layout, files)
    assert reader.find_newest_version() == lake.version
    for version in range(lake.version + 1):
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
        for space in at.namespaces():
            for table in at.tables(space.locator):
                if table.table_type is TableType.MANAGED:
                    assert_equal_rows(read_rows(files, objects, space.name, table.name), table.to_arrow())


def assert_equal_rows(actual: Any, expected: Any) -> None:
    assert actual.schema.equals(expected.schema, check_metadata=False)
    assert Counter(map(repr, actual.to_pylist())) == Counter(map(repr, expected.to_pylist()))


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=5)
@given(data=st.data())
def test_an_independent_reader_agrees_in_every_version(layout: str, data: st.DataObject) -> None:
    history = begin_history(data.draw, layout)
    history.run(12)
    assert_agreement(history, layout)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=150)
@given(data=st.data())
def test_an_independent_reader_agrees_in_every_version_of_many_histories(layout: str, data: st.DataObject) -> None:
    history = begin_history(data.draw, layout)
    history.run(40)
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

"""How rows are divided into files, and which rows fit which columns."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_schema, parse_type
from mangrove.model.manifests import DataFile
from mangrove.model.objects import TableVersion
from mangrove.model.partitioning import parse_partition_scheme
from mangrove.model.types import DataType
from mangrove.tables.table_state import TableState
from mangrove.tables.type_compatibility import can_write_type, check_columns
from mangrove.tables.write_plan import (
    STATISTICS_COLUMNS_MAX,
    group_files_by_log,
    select_statistics_columns,
    split_row_ranges,
)


@given(st.integers(0, 1000), st.integers(0, 10_000), st.integers(1, 3000))
def test_files_together_hold_every_row_once(row_count: int, size_bytes: int, file_size_bytes: int) -> None:
    slices = split_row_ranges(row_count, size_bytes, file_size_bytes)
    assert [row for start, count in slices for row in range(start, start + count)] == list(range(row_count))
    assert all(count for _, count in slices)
    assert len(slices) <= -(-size_bytes // file_size_bytes) or len(slices) <= 1


def test_statistics_are_stored_for_keys_first_and_not_inside_lists() -> None:
    wide = ", ".join(f"c{place} int" for place in range(100))
    schema = parse_schema(f"{wide}, k int, place struct<city: string>, tags array<struct<name: string>>")
    paths = [path for path, _ in select_statistics_columns(schema, (schema.column("k").id,))]
    assert len(paths) == STATISTICS_COLUMNS_MAX
    assert paths[0] == ("k",)
    small = parse_schema("k int, place struct<city: string>, tags array<struct<name: string>>, m map<string, int>")
    assert [path for path, _ in select_statistics_columns(small, ())] == [("k",), ("place", "city")]


def test_a_file_stores_its_partition_values_if_its_log_does_not() -> None:
    schema = parse_schema("a string, b int")
    scheme = parse_partition_scheme(["a"], schema)
    version = TableVersion(1, schema, partition_scheme=scheme)
    files = [(("x",), DataFile("data/1", 1, 1)), (("y",), DataFile("data/2", 1, 1))]
    by_partition = group_files_by_log(TableState("s.t", "id", version, scheme), files)
    assert {values: [file.partition_values for file in there] for values, there in by_partition.items()} == {
        ("x",): [None],
        ("y",): [None],
    }
    in_one_log = group_files_by_log(TableState("s.t", "id", version), files)
    assert {values: [file.partition_values for file in there] for values, there in in_one_log.items()} == {
        (): [("x",), ("y",)]
    }


@pytest.mark.parametrize(
    ("column", "given_type", "is_accepted"),
    [
        ("bigint", "int", True),
        ("smallint", "bigint", True),
        ("decimal(10,2)", "bigint", True),
        ("double", "decimal(10,2)", True),
        ("int", "double", False),
        ("decimal(10,2)", "double", False),
        ("varchar(5)", "string", True),
        ("string", "int", False),
        ("timestamp", "timestamp_ntz", True),
        ("timestamp_ntz", "timestamp", False),
        ("date", "timestamp", False),
        ("fixed(4)", "binary", True),
        ("array<bigint>", "array<int>", True),
        ("array<bigint>", "array<string>", False),
        ("map<string, int>", "map<string, bigint>", True),
        ("struct<a: int, b: string>", "struct<A: int>", True),
        ("struct<a: int, b: string not null>", "struct<a: int>", False),
        ("struct<a: int>", "struct<a: int, c: int>", False),
        ("struct<a: int>", "array<int>", False),
        ("boolean", "boolean", True),
        ("boolean", "int", False),
    ],
)
def test_a_column_accepts_compatible_types(column: str, given_type: str, is_accepted: bool) -> None:
    assert can_write_type(parse_type(column), parse_type(given_type)) is is_accepted


def test_the_error_names_every_incompatible_column() -> None:
    schema = parse_schema("id bigint not null, name string, day date not null")
    given_types: dict[str, DataType | None] = {
        "ID": parse_type("string"),
        "name": None,
        "nmae": parse_type("string"),
        "Name": None,
    }
    expected = (
        "the rows do not match s.t: column 'ID' is bigint, but the rows have string; "
        "column 'nmae' is not in the table (did you mean 'name'?); "
        "column 'Name' is given twice; column 'day' is not null, but missing in the rows. The table has id, name, day"
    )
    with pytest.raises(InvalidInputError, match=re.escape(expected)):
        check_columns("s.t", schema, given_types)

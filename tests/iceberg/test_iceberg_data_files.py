"""Files as Iceberg's manifests tell of them: nothing told may make an engine miss a row, or delete one too many."""

import io
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import expressions
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluator,
    _StrictMetricsEvaluator,
    expression_evaluator,
    rewrite_not,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.typedef import Record

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.data_files import (
    DELETED_PATH_ID,
    DELETED_ROW_ID,
    find_deleted_data_file,
    from_iceberg_data_file,
    to_iceberg_data_file,
)
from mangrove.iceberg.schemas import to_iceberg_schema
from mangrove.iceberg.values import to_iceberg_value
from mangrove.local.data_files import compute_statistics
from mangrove.local.parquet import encode_parquet
from mangrove.model.arrow_schema import schema_to_arrow
from mangrove.model.manifests import ColumnStatistics, DataFile, FileKind
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Fixed, Float32, Float64
from mangrove.model.values import Value
from mangrove.spark.task_files import read_column_statistics
from mangrove.testing.strategies import values

E: Any = expressions
"""Whose constructors take more than their annotations say."""
TYPES = [
    "boolean", "smallint", "int", "bigint", "decimal(9, 2)", "float", "double", "char(3)", "varchar(7)", "string",
    "date", "time", "timetz", "timestamp_ntz", "timestamp", "fixed(5)", "binary",
]  # fmt: skip
ADDRESS = "s3://lake/data/t/f.parquet"
DATA = DataFile("data/t/f.parquet", 100, 5)

COMPARISONS = ["LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "EqualTo", "NotEqualTo"]

Rows = list[Value | None]


def column_of(text: str) -> Schema:
    return parse_schema(f"c {text}")


def row_values(text: str) -> st.SearchStrategy[Value]:
    (column,) = column_of(text).columns
    match text:
        case "decimal(9, 2)":
            return st.decimals(-9_999_999, 9_999_999, places=2)
        case "fixed(5)":
            return st.binary(min_size=5, max_size=5)
        case "double" | "float":
            few = st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan])
            return few | values(column.type)
        case "string" | "varchar(7)" | "char(3)":
            near = st.text(
                st.sampled_from("ab\ud7ff\ue000\U00010000\U0010ffff"), max_size=40 if text == "string" else 3
            )
            return near | values(column.type)
        case _:
            return values(column.type)


@st.composite
def rows_of_a_type(draw: st.DrawFn) -> tuple[str, Rows]:
    text = draw(st.sampled_from(TYPES))
    return text, draw(st.lists(st.none() | row_values(text), min_size=1, max_size=4))


def file_of(rows: Rows, schema: Schema) -> DataFile:
    table = pa.table({"c": rows}, schema=schema_to_arrow(schema))
    return replace(DATA, row_count=len(rows), statistics=compute_statistics(table, [(("c",), 1)]))


def footer_file_of(rows: Rows, schema: Schema) -> DataFile:
    """Return what is known of a file that Spark wrote: nobody counted what is not a number."""
    footer = pq.read_metadata(io.BytesIO(encode_parquet(pa.table({"c": rows}, schema=schema_to_arrow(schema)))))
    return replace(DATA, row_count=len(rows), statistics=read_column_statistics(footer, {1: 0}))


@st.composite
def predicates(draw: st.DrawFn, text: str) -> BooleanExpression:
    (column,) = column_of(text).columns
    literals = row_values(text).filter(lambda value: value == value).map(lambda value: held(value, column))
    kinds = [getattr(E, word) for word in COMPARISONS]
    leaves: list[st.SearchStrategy[BooleanExpression]] = [
        st.builds(lambda kind, value: kind("c", value), st.sampled_from(kinds), literals),
        st.sampled_from([E.IsNull("c"), E.NotNull("c")]),
        st.builds(
            lambda kind, some: kind("c", some),
            st.sampled_from([E.In, E.NotIn]),
            st.lists(literals, min_size=1, max_size=3),
        ),
    ]
    if isinstance(column.type, Float32 | Float64):
        leaves.append(st.sampled_from([E.IsNaN("c"), E.NotNaN("c")]))
    if text == "string":
        leaves.append(
            st.builds(lambda kind, value: kind("c", value), st.sampled_from([E.StartsWith, E.NotStartsWith]), literals)
        )
    leaf = st.one_of(leaves)
    joined = st.builds(lambda kind, one, two: kind(one, two), st.sampled_from([E.And, E.Or]), leaf, leaf)
    return draw(st.one_of(leaf, leaf.map(E.Not), joined))


def held(value: Value, column: Column) -> Any:
    return to_iceberg_value(value, column.type)


def matches(schema: Schema, rows: Rows, predicate: BooleanExpression) -> list[bool]:
    """Return which rows match, as PyIceberg itself says of each."""
    (column,) = schema.columns
    requested = expression_evaluator(to_iceberg_schema(schema), rewrite_not(predicate), case_sensitive=True)
    return [requested(Record(row if row is None or row != row else held(row, column))) for row in rows]


@pytest.mark.parametrize("told_of", [file_of, footer_file_of])
@given(data=st.data())
def test_statistics_never_prune_a_matching_row_or_delete_a_non_matching_one(
    told_of: Callable[[Rows, Schema], DataFile], data: st.DataObject
) -> None:
    text, rows = data.draw(rows_of_a_type())
    schema = column_of(text)
    predicate = data.draw(predicates(text))
    told = to_iceberg_data_file(told_of(rows, schema), ADDRESS, Record(), schema, 0)
    found = matches(schema, rows, predicate)
    if any(found):
        assert _InclusiveMetricsEvaluator(to_iceberg_schema(schema), predicate).eval(told)
    if not all(found):
        assert not _StrictMetricsEvaluator(to_iceberg_schema(schema), predicate).eval(told)


@pytest.mark.parametrize("rows", [[math.nan], [1.0, math.nan], [math.nan, None]])
@pytest.mark.parametrize("text", ["float", "double"])
def test_files_with_nan_are_not_pruned_by_engines_that_order_nan_last(text: str, rows: Rows) -> None:
    schema = column_of(text)
    told = to_iceberg_data_file(file_of(rows, schema), ADDRESS, Record(), schema, 0)
    for predicate in (E.GreaterThan("c", 5.0), E.GreaterThanOrEqual("c", 5.0)):
        assert _InclusiveMetricsEvaluator(to_iceberg_schema(schema), predicate).eval(told)


def test_bounds_rule_files_out_where_they_can() -> None:
    schema = column_of("double")
    told = to_iceberg_data_file(file_of([1.0, 2.0, None], schema), ADDRESS, Record(), schema, 0)
    for predicate in (E.GreaterThan("c", 2.0), E.LessThan("c", 1.0), E.EqualTo("c", 3.0), E.IsNaN("c")):
        assert not _InclusiveMetricsEvaluator(to_iceberg_schema(schema), predicate).eval(told)


@given(rows_of_a_type())
def test_statistics_round_trip(case: tuple[str, Rows]) -> None:
    text, rows = case
    schema = column_of(text)
    ours = replace(file_of(rows, schema), schema_id=schema.schema_id)
    back = from_iceberg_data_file(to_iceberg_data_file(ours, ADDRESS, Record(), schema, 0), ours.location, schema)
    if any(one.nan_count for one in ours.statistics):
        assert replace(back, statistics=()) == replace(ours, statistics=())
    else:
        assert back == ours


def test_statistics_are_published_for_nested_columns_and_not_for_dropped_ones() -> None:
    schema = parse_schema("a int, s struct<x: int, y: string>")
    inside = schema.column("s", "x").id
    known = (
        ColumnStatistics(inside, null_count=1, value_count=5, size_bytes=40, minimum=1, maximum=9),
        ColumnStatistics(77, null_count=0, value_count=5, minimum=1, maximum=9),
    )
    told = to_iceberg_data_file(replace(DATA, statistics=known), ADDRESS, Record(), schema, 3, sort_order_id=2)
    assert told.column_sizes == {inside: 40}
    assert (told.value_counts, told.null_value_counts, told.nan_value_counts) == ({inside: 5}, {inside: 1}, {})
    assert told.lower_bounds == {inside: b"\1\0\0\0"}
    assert told.upper_bounds == {inside: b"\x09\0\0\0"}
    assert (told.spec_id, told.sort_order_id, told.split_offsets) == (3, 2, None)


def test_a_bound_written_before_a_widening_is_encoded_in_the_current_type() -> None:
    known = ColumnStatistics(1, null_count=0, value_count=5, minimum=1, maximum=9)
    told = to_iceberg_data_file(replace(DATA, statistics=(known,)), ADDRESS, Record(), column_of("bigint"), 0)
    assert told.lower_bounds == {1: (1).to_bytes(8, "little")}


@pytest.mark.parametrize("text", ["bigint", "double"])
def test_bounds_without_null_or_nan_counts_are_not_published(text: str) -> None:
    bound = 1 if text == "bigint" else 1.0
    known = ColumnStatistics(1, value_count=5, null_count=None if text == "bigint" else 0, minimum=bound, maximum=bound)
    told = to_iceberg_data_file(replace(DATA, statistics=(known,)), ADDRESS, Record(), column_of(text), 0)
    assert (told.lower_bounds, told.upper_bounds) == ({}, {})


def test_uuids_are_counted_and_not_bounded_in_both_directions() -> None:
    schema = Schema((Column(1, "u", Fixed(16), properties={"iceberg.type": "uuid"}),))
    known = ColumnStatistics(1, null_count=0, value_count=5, minimum=bytes(16), maximum=b"\xff" * 16)
    told = to_iceberg_data_file(replace(DATA, statistics=(known,)), ADDRESS, Record(), schema, 0)
    assert (told.lower_bounds, told.upper_bounds, told.value_counts) == ({}, {}, {1: 5})
    given_by_client = client_file(value_counts={1: 5}, lower_bounds={1: bytes(16)}, upper_bounds={1: b"\xff" * 16})
    assert from_iceberg_data_file(given_by_client, "f", schema).statistics == (ColumnStatistics(1, value_count=5),)


def test_position_deletes_name_their_one_file_by_two_bounds() -> None:
    file = DataFile("data/t/d.parquet", 50, 3, FileKind.POSITION_DELETES, applies_to="data/t/f.parquet")
    told = to_iceberg_data_file(file, "s3://lake/data/t/d.parquet", Record(), column_of("int"), 0, deleted_from=ADDRESS)
    assert told.content is DataFileContent.POSITION_DELETES
    assert told.value_counts == {DELETED_PATH_ID: 3, DELETED_ROW_ID: 3}
    assert find_deleted_data_file(told) == ADDRESS
    back = from_iceberg_data_file(told, file.location, column_of("int"), applies_to=file.applies_to)
    assert back == replace(file, schema_id=0)


def test_position_deletes_of_many_files_name_none() -> None:
    file = DataFile("data/t/d.parquet", 50, 3, FileKind.POSITION_DELETES)
    told = to_iceberg_data_file(file, "s3://lake/data/t/d.parquet", Record(), column_of("int"), 0)
    assert find_deleted_data_file(told) is None
    between = client_file(
        content=DataFileContent.POSITION_DELETES,
        lower_bounds={DELETED_PATH_ID: b"a"},
        upper_bounds={DELETED_PATH_ID: b"b"},
    )
    assert find_deleted_data_file(between) is None
    assert (
        find_deleted_data_file(client_file(lower_bounds={DELETED_PATH_ID: b"a"}, upper_bounds={DELETED_PATH_ID: b"a"}))
        is None
    )


def test_deletes_by_keys_are_equality_deletes_of_the_same_columns() -> None:
    schema = parse_schema("a int not null, b string not null, c int")
    file = DataFile("data/t/k.parquet", 50, 3, FileKind.KEY_DELETES, key_ids=(1, 2), schema_id=0)
    told = to_iceberg_data_file(file, ADDRESS, Record(), schema, 0)
    assert (told.content, told.equality_ids) == (DataFileContent.EQUALITY_DELETES, [1, 2])
    assert from_iceberg_data_file(told, file.location, schema) == file


@pytest.mark.parametrize("key_ids", [None, [], [9], [1, 1], [3]])
def test_equality_deletes_by_unknown_columns_are_rejected(key_ids: list[int] | None) -> None:
    schema = parse_schema("a int not null, s struct<x: int>")
    deletes = client_file(content=DataFileContent.EQUALITY_DELETES, equality_ids=key_ids)
    with pytest.raises(InvalidInputError, match="distinct ids of top-level columns"):
        from_iceberg_data_file(deletes, "data/t/k.parquet", schema)


def client_file(**facts: Any) -> IcebergFile:
    plain = {
        "content": DataFileContent.DATA,
        "file_path": ADDRESS,
        "file_format": FileFormat.PARQUET,
        "partition": Record(),
        "record_count": 5,
        "file_size_in_bytes": 100,
    }
    return IcebergFile.from_args(**{**plain, **facts})


def test_a_client_file_without_metrics_has_no_statistics() -> None:
    assert from_iceberg_data_file(client_file(), DATA.location, column_of("int")) == replace(DATA, schema_id=0)


def test_long_bounds_of_a_client_are_shortened_so_that_they_still_bound() -> None:
    told = client_file(lower_bounds={1: b"a" * 100}, upper_bounds={1: b"b" * 100})
    (known,) = from_iceberg_data_file(told, DATA.location, column_of("string")).statistics
    assert (known.minimum, known.maximum) == ("a" * 32, "b" * 31 + "c")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"lower_bounds": {1: b"\0"}}, "expected 4 bytes"),
        ({"value_counts": {1: -1}}, "has invalid statistics: value_count of column 1 is -1"),
        ({"lower_bounds": {1: b"\2\0\0\0"}, "upper_bounds": {1: b"\1\0\0\0"}}, "minimum 2 above its maximum 1"),
        ({"record_count": -1}, "row_count of f.parquet is -1"),
        ({"key_metadata": b"key"}, "is encrypted"),
    ],
)
def test_invalid_metadata_of_a_client_file_is_rejected(facts: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        from_iceberg_data_file(client_file(**facts), "f.parquet", column_of("int"))


def test_a_client_file_of_another_format_keeps_its_content_type() -> None:
    told = client_file(file_format=FileFormat.ORC)
    assert from_iceberg_data_file(told, "f.orc", column_of("int")).content_type == "application/orc"


INSIDE = st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-3, 3)})


@given(
    st.lists(INSIDE, min_size=1, max_size=4), st.sampled_from(["IsNull", "NotNull", *COMPARISONS]), st.integers(-3, 3)
)
def test_statistics_of_nested_columns_never_prune_a_matching_row(
    rows: list[dict[str, int | None] | None], word: str, value: int
) -> None:
    schema = parse_schema("s struct<x: int>")
    table = pa.table({"s": rows}, schema=schema_to_arrow(schema))
    inside = schema.column("s", "x").id
    file = replace(DATA, row_count=len(rows), statistics=compute_statistics(table, [(("s", "x"), inside)]))
    predicate = getattr(E, word)("s.x", *([value] if word in COMPARISONS else []))
    requested = expression_evaluator(to_iceberg_schema(schema), predicate, case_sensitive=True)
    found = [requested(Record(Record(None if row is None else row["x"]))) for row in rows]
    told = to_iceberg_data_file(file, ADDRESS, Record(), schema, 0)
    if any(found):
        assert _InclusiveMetricsEvaluator(to_iceberg_schema(schema), predicate).eval(told)

"""Schemas to and from Arrow."""

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import format_schema, parse_schema, parse_type
from mangrove.model.arrow_schema import schema_from_arrow, schema_to_arrow, type_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import (
    Binary,
    Boolean,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float32,
    Int16,
    Int32,
    Int64,
    List,
    Time,
    Timestamp,
    TimestampTz,
    Varchar,
)
from mangrove.testing.strategies import schemas


@given(schemas())
def test_a_schema_round_trips_through_arrow_and_storage(schema: Schema) -> None:
    arrow = schema_to_arrow(schema)
    assert schema_from_arrow(arrow) == schema
    assert schema_from_arrow(pa.ipc.read_schema(arrow.serialize())) == schema


def test_ids_are_stored_as_parquet_field_ids() -> None:
    arrow = schema_to_arrow(parse_schema("a int, b array<int>"))
    assert [field.metadata for field in arrow] == [{b"PARQUET:field_id": b"1"}, {b"PARQUET:field_id": b"2"}]
    assert arrow.field("b").type.value_field.metadata == {b"PARQUET:field_id": b"3"}


@pytest.mark.parametrize(
    ("arrow", "data_type"),
    [
        (pa.bool_(), Boolean()),
        (pa.int8(), Int16()),
        (pa.uint8(), Int16()),
        (pa.uint16(), Int32()),
        (pa.uint32(), Int64()),
        (pa.uint64(), Decimal(20, 0)),
        (pa.float16(), Float32()),
        (pa.large_string(), Varchar()),
        (pa.string_view(), Varchar()),
        (pa.dictionary(pa.int32(), pa.string()), Varchar()),
        (pa.large_binary(), Binary()),
        (pa.binary(4), Fixed(4)),
        (pa.date64(), Date()),
        (pa.time32("s"), Time()),
        (pa.time64("ns"), Time()),
        (pa.timestamp("ns"), Timestamp()),
        (pa.timestamp("s", "Europe/Paris"), TimestampTz()),
        (pa.decimal128(10, 2), Decimal(10, 2)),
        (pa.decimal256(10, 2), Decimal(10, 2)),
        (pa.decimal128(2, 5), Decimal(5, 5)),
    ],
)
def test_other_forms_of_a_type_become_the_one_that_holds_all_their_values(
    arrow: pa.DataType, data_type: DataType
) -> None:
    assert schema_from_arrow(pa.schema([pa.field("a", arrow)])).column("a").type == data_type


@pytest.mark.parametrize(
    "arrow",
    [pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_(pa.int32(), 3), pa.list_view(pa.int32())],
)
def test_every_kind_of_list_is_a_list(arrow: pa.DataType) -> None:
    found = schema_from_arrow(pa.schema([pa.field("a", arrow)])).column("a").type
    assert isinstance(found, List)
    assert found.element.type == Int32()


@pytest.mark.parametrize(
    "arrow", [pa.null(), pa.duration("s"), pa.decimal256(50, 2), pa.decimal128(5, -2), pa.list_(pa.null())]
)
def test_an_unsupported_arrow_type_is_rejected(arrow: pa.DataType) -> None:
    with pytest.raises(InvalidInputError):
        schema_from_arrow(pa.schema([pa.field("a", arrow)]))


def test_columns_without_ids_get_unused_ids() -> None:
    with_id = pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "7"})
    schema = schema_from_arrow(pa.schema([pa.field("b", pa.list_(pa.int32())), with_id]))
    found = {".".join(path): column.id for path, column in schema.all_columns()}
    assert found["a"] == 7
    assert sorted(found.values()) == [7, 8, 9]
    assert schema.last_column_id == 9


def test_a_schema_without_any_id_is_numbered_like_one_from_text() -> None:
    arrow = pa.schema([pa.field("a", pa.int32()), pa.field("b", pa.struct([pa.field("c", pa.string())]))])
    assert schema_from_arrow(arrow) == parse_schema("a int, b struct<c: string>")


def test_an_id_of_minus_one_is_none() -> None:
    field = pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "-1"})
    assert schema_from_arrow(pa.schema([field])).column("a").id == 1


def test_column_id_zero_of_deltacat_is_preserved() -> None:
    fields = [pa.field(f"c{place}", pa.int32(), metadata={"PARQUET:field_id": str(place)}) for place in range(3)]
    assert [column.id for column in schema_from_arrow(pa.schema(fields), schema_id=4).columns] == [0, 1, 2]


def test_other_metadata_are_the_columns_properties() -> None:
    field = pa.field("a", pa.int32(), metadata={"DELTACAT:merge_key": "True", "comment": "c"})
    column = schema_from_arrow(pa.schema([field])).column("a")
    assert (dict(column.properties), column.comment) == ({"DELTACAT:merge_key": "True"}, "c")


def test_a_type_hint_outdated_by_a_cast_is_ignored() -> None:
    field = schema_to_arrow(parse_schema("a varchar(5)")).field("a").with_type(pa.int64())
    assert schema_from_arrow(pa.schema([field])).column("a").type == Int64()


def test_a_property_with_a_reserved_name_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="which is reserved"):
        schema_to_arrow(Schema((Column(1, "a", Int32(), properties={"comment": "x"}),)))


def test_metadata_that_are_not_text_are_rejected() -> None:
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        schema_from_arrow(pa.schema([pa.field("a", pa.int32(), metadata={b"k": b"\xff"})]))


def test_nullability_of_elements_and_values_survives() -> None:
    schema = parse_schema("a array<int not null>, b map<string, int not null>")
    assert format_schema(schema_from_arrow(schema_to_arrow(schema))) == format_schema(schema)
    assert type_to_arrow(parse_type("timestamp")) == pa.timestamp("us", "UTC")


def test_the_model_does_not_import_arrow() -> None:
    program = (
        "import sys, mangrove.model.objects, mangrove.model.schema_text, mangrove.model.json_codec; "
        "sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0

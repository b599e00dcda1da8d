"""Schemas as SQL text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import format_schema, parse_column, parse_schema, parse_type
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    List,
    Map,
    Time,
    Timestamp,
    TimestampTz,
    TimeTz,
    Varchar,
)
from mangrove.testing.strategies import plain_types, schemas


def test_a_schema_is_parsed_from_sql_text() -> None:
    schema = parse_schema(
        "order_id BIGINT NOT NULL, customer string comment 'it''s \\'who\\'' default 'x, y', amount decimal(10,2), "
        "tags array<string>, p struct<a: int not null, `b c`: map<string,int>>, `odd ``name` timestamp"
    )
    assert schema.names == ("order_id", "customer", "amount", "tags", "p", "odd `name")
    assert schema.column("order_id") == Column(1, "order_id", Int64(), nullable=False)
    assert schema.column("customer") == Column(2, "customer", Varchar(), comment="it's 'who'", default="'x, y'")
    assert schema.column("amount").type == Decimal(10, 2)
    assert isinstance(schema.column("tags").type, List)
    assert not schema.column("p", "a").nullable
    assert isinstance(schema.column("p", "b c").type, Map)
    assert schema.column("odd `name").type == TimestampTz()


@given(schemas(with_properties=False, are_numbered_from_1=True))
def test_a_schema_round_trips_through_text(schema: Schema) -> None:
    assert parse_schema(format_schema(schema)) == schema


@given(plain_types())
def test_a_primitive_type_round_trips_through_text(data_type: DataType) -> None:
    assert parse_type(format_type(data_type)) == data_type


@pytest.mark.parametrize(
    ("texts", "data_type"),
    [
        (["boolean", "BOOL"], Boolean()),
        (["tinyint", "byte", "smallint", "short", "int2"], Int16()),
        (["int", "integer", "INT4"], Int32()),
        (["bigint", "long", "int8"], Int64()),
        (["decimal", "dec(10)", "numeric ( 10 , 0 )"], Decimal(10, 0)),
        (["float", "real", "float4"], Float32()),
        (["double", "float8"], Float64()),
        (["char(3)", "character (3)"], Char(3)),
        (["varchar(3)"], Varchar(3)),
        (["string", "text", "varchar"], Varchar()),
        (["date"], Date()),
        (["time"], Time()),
        (["timetz"], TimeTz()),
        (["timestamp", "timestamp_ltz", "timestamptz"], TimestampTz()),
        (["timestamp_ntz"], Timestamp()),
        (["fixed(16)"], Fixed(16)),
        (["binary", "bytes"], Binary()),
    ],
)
def test_every_synonym_of_a_type_is_parsed(texts: list[str], data_type: DataType) -> None:
    assert [parse_type(text) for text in texts] == [data_type] * len(texts)


def test_closing_angles_need_no_spaces_and_columns_inside_are_numbered() -> None:
    data_type = parse_type("array<map<int,array<string>>>")
    assert isinstance(data_type, List)
    assert data_type.element.id == 1
    assert format_type(data_type) == "array<map<int, array<string>>>"


@pytest.mark.parametrize(
    ("text", "position", "wanted"),
    [
        ("", 0, "column's name"),
        ("a", 1, "one of the types boolean"),
        ("a foo", 2, "one of the types boolean"),
        ("a int,", 6, "column's name"),
        ("a int b", 6, "comma or the end"),
        ("a array<int", 11, "`>`"),
        ("a map<int>", 2, "after `,`, one for the values"),
        ("a struct<>", 8, "`<` and the types inside"),
        ("a struct< >", 10, "column's name"),
        ("a string comment x", 17, "quoted comment"),
        ("a char", 2, "one length in brackets"),
        ("a decimal(1,2,3)", 2, "one or two sizes in brackets"),
        ("a int(3)", 2, "nothing in brackets"),
        ("a int array", 2, "one type"),
        ("a timestamp without time zone", 2, "one type"),
        ("a string default", 16, "an expression"),
        ("a string default (1", 19, "balanced"),
        ("a string default 1)", 18, "comma or the end"),
        ("a struct<b: int default 1>", 16, "`>`"),
        ("a decimal(99999999999)", 10, "whole number"),
    ],
)
def test_an_error_reports_its_position_and_the_expected_text(text: str, position: int, wanted: str) -> None:
    with pytest.raises(InvalidInputError, match=f"at position {position}; expected .*{wanted}"):
        parse_schema(text)


@pytest.mark.parametrize("text", ["a int, A int", "a decimal(40)", "`a int", "a string comment 'x", "`` int"])
def test_an_invalid_schema_text_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_schema(text)


def test_too_deeply_nested_types_are_rejected() -> None:
    with pytest.raises(InvalidInputError, match="levels deep"):
        parse_schema("a " + "array<" * 2000)


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("a int default 1 + 2 not null", "1 + 2"),
        ("a boolean default b is not null comment 'c'", "b is not null"),
        ("a int default coalesce(b, 'x, y') comment 'c'", "coalesce(b, 'x, y')"),
        ("a boolean not null default b > 1", "b > 1"),
    ],
)
def test_a_default_ends_where_the_next_option_begins(text: str, default: str) -> None:
    assert parse_column(text).default == default


def test_a_default_that_is_not_a_single_expression_is_not_printed() -> None:
    with pytest.raises(InvalidInputError, match="not a single SQL expression"):
        format_schema(Schema((Column(1, "a", Int32(), default="1, b int"),)))


def test_a_new_column_is_numbered_after_the_existing_ones() -> None:
    column = parse_column("note array<string> not null", after=7)
    assert (column.id, column.nullable) == (8, False)
    assert isinstance(column.type, List)
    assert column.type.element.id == 9


@given(st.text(st.sampled_from("ab`'\"\\<>(),:=1 \n") | st.characters(exclude_categories=["Cs"]), max_size=30))
@example("ELSE")
def test_arbitrary_text_causes_only_input_errors(text: str) -> None:
    try:
        parse_schema(text)
    except InvalidInputError:
        return

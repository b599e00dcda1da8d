"""Partition and sort fields read as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.partitioning import (
    Bucket,
    Days,
    Direction,
    Hours,
    Identity,
    Months,
    Nulls,
    PartitionField,
    PartitionScheme,
    SortField,
    Transform,
    Truncate,
    Years,
    format_partition_field,
    format_sort_field,
    parse_partition_field,
    parse_partition_scheme,
    parse_sort_field,
    parse_sort_scheme,
)
from mangrove.model.types import Date, Int32

SCHEMA = parse_schema("id bigint, name string, ts timestamp, `we``ird, one` date, place struct<city: string>")


@pytest.mark.parametrize(
    ("text", "source_id", "transform", "name"),
    [
        ("name", 2, Identity(), "name"),
        ("identity(name)", 2, Identity(), "name"),
        ("days(ts)", 3, Days(), "ts_days"),
        (" DAY ( TS ) ", 3, Days(), "ts_days"),
        ("months(ts)", 3, Months(), "ts_months"),
        ("hours(ts)", 3, Hours(), "ts_hours"),
        ("years(`we``ird, one`)", 4, Years(), "we`ird, one_years"),
        ("bucket(16, id)", 1, Bucket(16), "id_bucket"),
        ("truncate(4,name)", 2, Truncate(4), "name_truncate"),
        ("place.city", 6, Identity(), "place.city"),
        ("bucket(2, place.`city`)", 6, Bucket(2), "place.city_bucket"),
    ],
)
def test_a_partition_field_is_a_column_or_a_transform_of_one(
    text: str, source_id: int, transform: Transform, name: str
) -> None:
    field = parse_partition_field(text, SCHEMA)
    assert field == PartitionField(source_id, transform, name)
    assert parse_partition_field(format_partition_field(field, SCHEMA), SCHEMA) == field


@pytest.mark.parametrize(
    "text",
    ["", "days()", "days(ts", "bucket(id)", "bucket(0, id)", "days(3, ts)", "minutes(ts)", "a b", "days(id)", "place"],
)
def test_an_invalid_partition_field_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_partition_field(text, SCHEMA)


def test_a_partition_field_of_a_missing_column_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="nope"):
        parse_partition_field("days(nope)", SCHEMA)


def test_a_partition_scheme_returns_the_types_of_its_values() -> None:
    scheme = parse_partition_scheme(["days(ts)", "bucket(4, id)"], SCHEMA, "7")
    assert scheme.id == "7"
    assert scheme.result_types(SCHEMA) == (Date(), Int32())


def test_duplicate_partition_field_names_are_rejected() -> None:
    with pytest.raises(InvalidInputError, match="one name"):
        PartitionScheme((PartitionField(1, Identity(), "a"), PartitionField(2, Identity(), "A")))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("id", SortField(1, Direction.ASCENDING, Nulls.FIRST)),
        ("id desc", SortField(1, Direction.DESCENDING, Nulls.LAST)),
        ("ID DESC NULLS FIRST", SortField(1, Direction.DESCENDING, Nulls.FIRST)),
        ("id nulls last", SortField(1, Direction.ASCENDING, Nulls.LAST)),
        ("bucket(4, id) asc", SortField(1, Direction.ASCENDING, Nulls.FIRST, Bucket(4))),
    ],
)
def test_a_sort_field_has_a_direction_and_a_place_for_nulls(text: str, field: SortField) -> None:
    assert parse_sort_field(text, SCHEMA) == field
    assert parse_sort_field(format_sort_field(field, SCHEMA), SCHEMA) == field


def test_a_sort_scheme_orders_by_each_field_in_turn() -> None:
    assert [field.source_id for field in parse_sort_scheme(["name desc", "id"], SCHEMA).fields] == [2, 1]


@given(st.text(max_size=12))
def test_arbitrary_text_causes_only_input_errors(text: str) -> None:
    for parse in (parse_partition_field, parse_sort_field):
        try:
            parse(text, SCHEMA)
        except (InvalidInputError, NotFoundError):
            continue

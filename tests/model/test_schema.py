"""Columns are found by name and by id, and no id means two columns."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.model.arrow_schema import schema_from_arrow, schema_to_arrow
from mangrove.model.schema import NESTING_MAX, Schema, assign_fresh_ids, check_has_columns, check_new_columns
from mangrove.model.types import (
    Char,
    Column,
    DataType,
    Decimal,
    Fixed,
    Int32,
    Int64,
    List,
    Map,
    Struct,
    Varchar,
    list_of,
    map_of,
)
from mangrove.testing.strategies import columns

NESTED = Schema(
    assign_fresh_ids(
        [
            Column(0, "id", Int64(), nullable=False),
            Column(0, "place", Struct((Column(0, "city", Varchar()), Column(0, "codes", list_of(Int32()))))),
            Column(0, "counts", map_of(Varchar(), Int32())),
        ]
    )
)


def test_a_level_is_numbered_before_its_nested_columns() -> None:
    assert [(".".join(path), column.id) for path, column in NESTED.all_columns()] == [
        ("id", 1),
        ("place", 2),
        ("place.city", 4),
        ("place.codes", 5),
        ("place.codes.element", 8),
        ("counts", 3),
        ("counts.key", 6),
        ("counts.value", 7),
    ]
    assert NESTED.last_column_id == 8


@given(st.lists(columns(), min_size=1, max_size=4), st.integers(-1, 1000))
def test_fresh_ids_are_consecutive_and_change_nothing_else(drawn: list[Column], after: int) -> None:
    numbered = assign_fresh_ids(drawn, after)
    found = _ids(numbered)
    assert sorted(found) == list(range(after + 1, after + 1 + len(found)))
    assert assign_fresh_ids(numbered, 0) == assign_fresh_ids(drawn, 0)


def test_columns_are_found_by_names_in_any_case() -> None:
    assert NESTED.column("PLACE", "City").id == 4
    assert NESTED.column("place", "codes", "element").type == Int32()
    assert NESTED.path_of(8) == ("place", "codes", "element")
    assert NESTED.column_with_id(7).name == "value"
    assert NESTED.has_id(8)
    assert not NESTED.has_id(9)


@pytest.mark.parametrize("path", [("nope",), ("place", "nope"), ("id", "inside")])
def test_a_missing_column_is_not_found(path: tuple[str, ...]) -> None:
    with pytest.raises(NotFoundError, match=r"there is no column"):
        NESTED.column(*path)


def test_the_error_for_a_missing_column_lists_the_existing_ones() -> None:
    with pytest.raises(NotFoundError, match="there are id, place, counts"):
        NESTED.column("nope")


def test_a_missing_column_id_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        NESTED.column_with_id(9)
    with pytest.raises(NotFoundError):
        NESTED.path_of(9)


def test_duplicate_column_ids_are_rejected_at_any_depth() -> None:
    with pytest.raises(InvalidInputError, match=r"'a' and 'b\.element' both have the id 1"):
        Schema((Column(1, "a", Int32()), Column(2, "b", list_of(Int32(), id=1))))


@pytest.mark.parametrize("names", [("a", "A"), ("ß", "SS")])
def test_names_that_differ_only_in_case_are_refused(names: tuple[str, str]) -> None:
    fields = (Column(1, names[0], Int32()), Column(2, names[1], Int32()))
    with pytest.raises(InvalidInputError, match="SQL treats them as equal"):
        Schema(fields)
    with pytest.raises(InvalidInputError, match="SQL treats them as equal"):
        Struct(fields)


def test_the_last_column_id_is_at_least_every_id_in_use() -> None:
    assert Schema((Column(3, "a", Int32()),), last_column_id=7).last_column_id == 7
    with pytest.raises(InvalidInputError, match="largest id ever assigned"):
        Schema((Column(3, "a", Int32()),), last_column_id=2)


def test_the_nesting_depth_of_types_is_limited() -> None:
    data_type: DataType = Int32()
    for _ in range(NESTING_MAX - 1):
        data_type = list_of(data_type)
    Schema(assign_fresh_ids([Column(0, "a", data_type)]))
    with pytest.raises(InvalidInputError, match="levels deep"):
        Schema(assign_fresh_ids([Column(0, "a", list_of(data_type))]))


def test_running_out_of_column_ids_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="column ids are left"):
        assign_fresh_ids([Column(0, "a", Int32())], 2**31 - 1)


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (Schema, {"columns": (Column(1, "a", Int32()),), "schema_id": -1}),
        (Column, {"id": -1, "name": "a", "type": Int32()}),
        (Column, {"id": True, "name": "a", "type": Int32()}),
        (Column, {"id": 1, "name": "", "type": Int32()}),
        (Column, {"id": 1, "name": "a", "type": "int"}),
        (Column, {"id": 1, "name": "\ud800", "type": Int32()}),
        (Column, {"id": 1, "name": "a", "type": Int32(), "default": " "}),
        (Decimal, {"precision": 39}),
        (Decimal, {"precision": 0}),
        (Decimal, {"precision": 4, "scale": 5}),
        (Char, {"length": 0}),
        (Varchar, {"length": 0}),
        (Fixed, {"length": -1}),
        (Struct, {"columns": ()}),
        (Struct, {"columns": (Column(1, "a", Int32(), default="1"),)}),
        (List, {"element": Column(1, "item", Int32())}),
        (Map, {"key": Column(1, "key", Int32()), "value": Column(2, "value", Int32())}),
    ],
)
def test_an_invalid_column_or_type_is_rejected(make: type[Any], arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        make(**arguments)


def test_a_schema_without_columns_is_not_stored() -> None:
    assert Schema((), 3, 7).last_column_id == 7
    for check in (check_has_columns, check_new_columns, lambda schema: schema_from_arrow(schema_to_arrow(schema))):
        with pytest.raises(InvalidInputError, match="at least one column"):
            check(Schema(()))


def _ids(numbered: tuple[Column, ...]) -> list[int]:
    return [column.id for _, column in Schema(_with_distinct_names(numbered)).all_columns()]


def _with_distinct_names(numbered: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(Column(column.id, f"c{place}", column.type) for place, column in enumerate(numbered))

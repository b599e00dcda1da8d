"""Columns that an Iceberg client gives a table become ours by our own rules."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import (
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.commit.schema_evolution import apply_schema_update
from mangrove.iceberg.schemas import to_iceberg_schema
from mangrove.model.objects import TableVersion
from mangrove.model.partitioning import parse_partition_scheme, parse_sort_scheme
from mangrove.model.types import Int64, Varchar
from mangrove.tables.constraints import add_check_constraint

SCHEMA = parse_schema(
    "id bigint not null, n int, t varchar(5), d decimal(5, 2), place struct<city: string, zip: int>, day date"
)
VERSION = TableVersion(
    1,
    SCHEMA,
    keys=(1,),
    partition_scheme=parse_partition_scheme(["day"], SCHEMA),
    sort_scheme=parse_sort_scheme(["n"], SCHEMA),
)


def published_fields() -> dict[str, NestedField]:
    return {field.name: field for field in to_iceberg_schema(SCHEMA, VERSION.keys).fields}


def changed(fields: Sequence[NestedField], keys: Sequence[int] = (1,), version: TableVersion = VERSION) -> TableVersion:
    return apply_schema_update(version, IcebergSchema(*fields, schema_id=7, identifier_field_ids=list(keys)))


def with_field(changed_name: str, **other: Any) -> list[NestedField]:
    found: list[NestedField] = []
    for field in published_fields().values():
        told: dict[str, Any] = {"name": field.name, "field_type": field.field_type, "required": field.required}
        told |= other if field.name == changed_name else {}
        found.append(NestedField(field.field_id, told["name"], told["field_type"], required=told["required"]))
    return found


def test_an_equal_schema_changes_nothing() -> None:
    assert changed(list(published_fields().values())) is VERSION


def test_columns_are_added_renamed_reordered_and_dropped_by_their_ids() -> None:
    fields = published_fields()
    t = fields["t"]
    found = changed(
        [
            fields["day"],
            NestedField(t.field_id, "text", t.field_type, required=False),
            fields["id"],
            fields["n"],
            NestedField(9, "more", LongType(), required=False),
        ]
    )
    assert found.schema is not None
    assert found.schema.names == ("day", "text", "id", "n", "more")
    assert found.schema.column("text").type == Varchar(5)
    assert found.schema.last_column_id == 9
    assert (found.schema.schema_id, found.earlier_schemas) == (SCHEMA.schema_id + 1, (SCHEMA,))


def test_a_type_is_widened_without_rewriting_values() -> None:
    found = changed(with_field("n", field_type=LongType())).schema
    assert found is not None
    assert found.column("n").type == Int64()


def test_a_widened_column_keeps_its_default_and_properties() -> None:
    column = replace(SCHEMA.column("n"), default="7", properties={"unit": "kg"})
    schema = replace(SCHEMA, columns=tuple(column if one.id == column.id else one for one in SCHEMA.columns))
    found = changed(with_field("n", field_type=LongType()), version=replace(VERSION, schema=schema)).schema
    assert found is not None
    widened = found.column("n")
    assert (widened.type, widened.default, dict(widened.properties)) == (Int64(), "7", {"unit": "kg"})


def test_a_new_struct_may_have_required_columns_inside() -> None:
    inner = StructType(NestedField(10, "inner", LongType(), required=True))
    found = changed([*published_fields().values(), NestedField(9, "s", inner, required=False)]).schema
    assert found is not None
    assert not found.column("s", "inner").nullable


@pytest.mark.parametrize(
    ("name", "wanted", "told"),
    [
        ("id", IntegerType(), "cannot be widened"),
        ("n", StringType(), "cannot be widened"),
        ("d", DecimalType(4, 2), "cannot be widened"),
        ("place", LongType(), "cannot become"),
    ],
)
def test_narrowing_a_type_is_rejected(name: str, wanted: IcebergType, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        changed(with_field(name, field_type=wanted))


@pytest.mark.parametrize(
    ("name", "use"), [("id", "a key"), ("day", "is a partition column"), ("n", "is a sort column")]
)
def test_a_column_that_is_needed_is_not_dropped(name: str, use: str) -> None:
    left = [field for field in published_fields().values() if field.name != name]
    with pytest.raises(InvalidInputError, match="identifier fields" if name == "id" else use):
        changed(left, [1] if name != "id" else [])


def test_changing_the_identifier_fields_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="identifier fields are the table's keys"):
        changed(list(published_fields().values()), [])


def test_a_key_does_not_become_optional() -> None:
    with pytest.raises(InvalidInputError, match="identifier"):
        changed(with_field("id", required=False), [])


def test_a_column_does_not_become_required() -> None:
    with pytest.raises(InvalidInputError, match="make it required with SQL"):
        changed(with_field("t", required=True))


def test_adding_a_required_column_is_rejected() -> None:
    with pytest.raises(InvalidInputError, match="make it optional"):
        changed([*published_fields().values(), NestedField(9, "more", LongType(), required=True)])


def test_reusing_a_column_id_is_rejected() -> None:
    fields = [field for field in published_fields().values() if field.name != "t"]
    dropped = changed(fields)
    t = published_fields()["t"]
    again = IcebergSchema(*fields, t, schema_id=8, identifier_field_ids=[1])
    with pytest.raises(InvalidInputError, match="are already assigned"):
        apply_schema_update(dropped, again)


def test_a_column_is_not_moved_out_of_its_struct() -> None:
    fields = published_fields()
    place = fields["place"]
    assert isinstance(place.field_type, StructType)
    city, code = place.field_type.fields
    moved = [field for field in fields.values() if field.name != "place"]
    with pytest.raises(InvalidInputError, match="into or out of a struct"):
        changed([*moved, NestedField(place.field_id, "place", StructType(code), required=False), city])


def test_a_column_that_a_check_names_keeps_its_name() -> None:
    checked = add_check_constraint(VERSION, "small", "n < 10")
    renamed = IcebergSchema(*with_field("n", name="number"), schema_id=7, identifier_field_ids=[1])
    with pytest.raises(InvalidInputError, match="small"):
        apply_schema_update(checked, renamed)

"""Schemas to Iceberg and back: what has a place in both comes back the same, what has none is kept or refused."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import (
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    UnknownType,
    UUIDType,
)

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.schemas import (
    FIELD_ID_MAX,
    TYPE_PROPERTY,
    build_name_mapping,
    check_format_version,
    from_iceberg_schema,
    replace_identifier_fields,
    to_iceberg_schema,
)
from mangrove.model.objects import TableVersion
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Fixed, Int16, Int32, Int64, List, Struct, Varchar
from mangrove.testing.strategies import schemas

ALL_TYPES = parse_schema(
    "a boolean, b smallint, c int, d bigint, e decimal(9, 2), f float, g double, h char(3), i varchar(7), j string, "
    "k date, l time, m timetz, n timestamp_ntz, o timestamp, p fixed(5), q binary"
)
NESTED = parse_schema(
    "id bigint not null comment 'which', place struct<city: string not null, at: array<double>>, "
    "tags map<string, struct<n: smallint>>"
)


def shown(schema: Schema, keys: tuple[int, ...] = ()) -> IcebergSchema:
    """Return the schema as it is after it went through Iceberg's own JSON."""
    return IcebergSchema.model_validate_json(to_iceberg_schema(schema, keys).model_dump_json())


def in_iceberg(*fields: NestedField, **more: object) -> IcebergSchema:
    return IcebergSchema(*fields, **more)


def has_names_of_its_own(schema: Schema) -> bool:
    names = [".".join(path) for path, _ in schema.all_columns()]
    return len(set(names)) == len(names)


def test_every_primitive_type_maps_to_an_iceberg_type() -> None:
    types = {field.name: str(field.field_type) for field in shown(ALL_TYPES).fields}
    assert types == {
        "a": "boolean", "b": "int", "c": "int", "d": "long", "e": "decimal(9, 2)", "f": "float", "g": "double",
        "h": "string", "i": "string", "j": "string", "k": "date", "l": "time", "m": "time", "n": "timestamp",
        "o": "timestamptz", "p": "fixed[5]", "q": "binary",
    }  # fmt: skip


def test_nested_columns_keep_their_ids_and_whether_they_may_be_null() -> None:
    found = shown(NESTED)
    assert found.find_field("place.city") == NestedField(4, "city", StringType(), required=True)
    assert found.find_field("place.at.element").field_id == NESTED.column("place", "at", "element").id
    assert found.find_field("tags.key").required
    assert found.find_field("tags.value.n").field_type == IntegerType()
    assert found.find_field("id").doc == "which"


@given(schemas())
def test_a_schema_round_trips_through_iceberg_if_the_previous_one_is_known(schema: Schema) -> None:
    assume(schema.last_column_id <= FIELD_ID_MAX and has_names_of_its_own(schema))
    assert from_iceberg_schema(shown(schema), [schema]) == (schema, ())


@given(schemas())
def test_a_schema_from_iceberg_is_published_unchanged(schema: Schema) -> None:
    assume(schema.last_column_id <= FIELD_ID_MAX and has_names_of_its_own(schema))
    found = shown(schema)
    assert shown(from_iceberg_schema(found)[0]).model_dump_json() == found.model_dump_json()


def test_keys_are_identifier_fields() -> None:
    found = shown(NESTED, (1,))
    assert found.identifier_field_ids == [1]
    assert from_iceberg_schema(found) == (from_iceberg_schema(shown(NESTED))[0], (1,))


@pytest.mark.parametrize("columns", ["k bigint", "k double not null", "k struct<a: int> not null"])
def test_keys_that_iceberg_rejects_are_not_published(columns: str) -> None:
    assert shown(parse_schema(columns), (1,)).identifier_field_ids == []


def test_a_partially_supported_key_is_not_published() -> None:
    assert shown(parse_schema("a bigint not null, b bigint"), (1, 2)).identifier_field_ids == []


def test_identifiers_are_published_only_inside_required_structs() -> None:
    inner = StructType(NestedField(2, "b", IntegerType(), required=True))
    found = in_iceberg(NestedField(1, "a", inner, required=True), identifier_field_ids=[2])
    schema, keys = from_iceberg_schema(found)
    version = replace_identifier_fields(TableVersion(1, schema), found)
    assert (keys, version.keys, version.identifier_fields) == ((), (), (2,))
    assert shown(schema, version.identifier_fields).identifier_field_ids == [2]
    (column,) = schema.columns
    for changed in (
        replace(column, nullable=True),
        Column(1, "a", List(Column(2, "element", Int32(), nullable=False))),
    ):
        assert shown(Schema((changed,)), version.identifier_fields).identifier_field_ids == []


def test_column_attributes_unknown_to_iceberg_survive_a_schema_change_of_a_client() -> None:
    known = Schema((Column(1, "n", Int16(), default="7", properties={"unit": "kg"}), Column(2, "t", Varchar(3))))
    found = in_iceberg(*shown(known).fields, NestedField(3, "more", LongType()), schema_id=1)
    schema, _ = from_iceberg_schema(found, [known])
    assert schema.columns == (*known.columns, Column(3, "more", Int64()))


def test_a_client_can_widen_and_rename_columns() -> None:
    known = Schema((Column(1, "n", Int16(), default="7"), Column(2, "t", Varchar(3), default="'x'")))
    found = in_iceberg(NestedField(1, "n", LongType()), NestedField(2, "text", StringType(), doc="new"))
    schema, _ = from_iceberg_schema(found, [known])
    assert schema.columns == (
        Column(1, "n", Int64(), default="7"),
        Column(2, "text", Varchar(3), comment="new", default="'x'"),
    )


def test_a_struct_keeps_its_attributes_when_a_client_adds_a_field() -> None:
    struct = Struct((Column(2, "n", Int16()),))
    known = Schema((Column(1, "s", struct, properties={"unit": "kg"}),))
    inner = StructType(NestedField(2, "n", IntegerType()), NestedField(3, "m", LongType()))
    schema, _ = from_iceberg_schema(in_iceberg(NestedField(1, "s", inner)), [known])
    wider = Struct((*struct.columns, Column(3, "m", Int64())))
    assert schema.columns == (Column(1, "s", wider, properties={"unit": "kg"}),)


def test_attributes_are_taken_from_the_newest_known_schema() -> None:
    old = Schema((Column(1, "n", Int32(), default="1"),))
    new = Schema((Column(1, "n", Int32(), default="2"),), 1)
    assert from_iceberg_schema(shown(new), [old, new])[0].columns == new.columns


def test_the_last_column_id_never_decreases() -> None:
    known = Schema((Column(1, "a", Int32()),), last_column_id=9)
    assert from_iceberg_schema(shown(known), [known])[0].last_column_id == 9
    assert from_iceberg_schema(shown(replace(known, last_column_id=1)), last_column_id=12)[0].last_column_id == 12


def test_a_uuid_is_stored_in_16_bytes_and_published_as_a_uuid() -> None:
    schema, _ = from_iceberg_schema(in_iceberg(NestedField(1, "u", UUIDType()), NestedField(2, "f", FixedType(16))))
    assert schema.columns == (Column(1, "u", Fixed(16), properties={TYPE_PROPERTY: "uuid"}), Column(2, "f", Fixed(16)))
    assert [str(field.field_type) for field in shown(schema).fields] == ["uuid", "fixed[16]"]


@pytest.mark.parametrize(
    ("newer", "remedy"),
    [
        (UnknownType(), "add the column when its type is known"),
        (GeometryType(), "use binary with WKB"),
        (GeographyType(), "use binary with WKB"),
    ],
)
def test_types_without_a_type_here_are_rejected_at_any_depth_with_what_to_use(newer: object, remedy: str) -> None:
    for found in (newer, ListType(2, newer), MapType(2, StringType(), 3, newer)):  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match=remedy):
            from_iceberg_schema(in_iceberg(NestedField(1, "t", found)))  # type: ignore[arg-type]


@pytest.mark.parametrize("newer", [TimestampNanoType(), TimestamptzNanoType()])
def test_nanosecond_timestamps_need_format_version_3_at_any_depth(newer: object) -> None:
    for found in (newer, ListType(2, newer), MapType(2, StringType(), 3, newer)):  # type: ignore[arg-type]
        schema, _ = from_iceberg_schema(in_iceberg(NestedField(1, "t", found)))  # type: ignore[arg-type]
        check_format_version(schema, 3)
        with pytest.raises(InvalidInputError, match="set the table property format-version to 3"):
            check_format_version(schema, 2)


def test_defaults_of_version_3_are_refused() -> None:
    for field in (
        NestedField(1, "n", IntegerType(), initial_default=1),
        NestedField(1, "n", IntegerType(), write_default=1),
    ):
        with pytest.raises(InvalidInputError, match="has a default, which Iceberg"):
            from_iceberg_schema(in_iceberg(field))


def test_invalid_table_definitions_are_rejected() -> None:
    for fields, words in (
        ((NestedField(1, "a", IntegerType()), NestedField(2, "A", IntegerType())), "treats them as equal"),
        ((NestedField(1, "s", StructType()),), "at least one column"),
        ((NestedField(FIELD_ID_MAX + 1, "a", IntegerType()),), "ids must be from 0"),
        ((NestedField(1, "a", DecimalType(2, 5)),), "has scale 5"),
        ((NestedField(1, "a", FixedType(0)),), "has length 0"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            from_iceberg_schema(in_iceberg(*fields))


def test_a_dot_in_a_name_is_refused_only_where_two_columns_would_have_one_name() -> None:
    struct = Struct((Column(2, "b", Int32()),))
    assert shown(Schema((Column(1, "a.b", Int32()),))).find_field("a.b").field_id == 1
    with pytest.raises(InvalidInputError, match=r"two columns have the dotted path 'a\.b'"):
        to_iceberg_schema(Schema((Column(1, "a", struct), Column(3, "a.b", Int32()))))


def test_reserved_iceberg_ids_are_rejected() -> None:
    assert shown(Schema((Column(FIELD_ID_MAX, "a", Int32()),))).highest_field_id == FIELD_ID_MAX
    with pytest.raises(InvalidInputError, match="copy the rows into a new table"):
        to_iceberg_schema(Schema((Column(1, "a", Int32()),), last_column_id=FIELD_ID_MAX + 1))


def test_the_name_mapping_has_the_current_column_names() -> None:
    names = build_name_mapping(NESTED).root
    assert [(field.field_id, field.names) for field in names] == [(1, ["id"]), (2, ["place"]), (3, ["tags"])]
    assert [(field.field_id, field.names) for field in names[1].fields] == [(4, ["city"]), (5, ["at"])]


def test_comments_inside_lists_and_maps_are_preserved() -> None:
    known = Schema((Column(1, "l", List(Column(2, "element", Int32(), comment="each"))),))
    assert from_iceberg_schema(shown(known), [known])[0] == known


def test_a_time_with_a_zone_is_published_as_a_time_in_utc() -> None:
    assert shown(parse_schema("t timetz")).find_field("t").field_type == TimeType()

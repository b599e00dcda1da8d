"""Conversion between table schemas and Iceberg schemas by column id.

    smallint                  int       files hold it in 4 bytes anyway
    char(n), varchar(n)       string    Iceberg has no lengths
    time with time zone       time      in UTC, as it is kept and as Arrow shows it
    fixed(16) noted as UUID   uuid      the note is a property of the column

All other types have one of the same meaning. Those four hold less than what they
are shown as, so whoever takes rows from an Iceberg client looks at them again.
What came with format version 3 is refused: no column of ours can hold it.

Some things have a place only here: lengths of text, defaults, properties of
columns. They are not shown, and whoever takes a schema from an Iceberg client
gives the schemas that the table has had: a column that is there under its id,
of the type that was shown, keeps what Iceberg does not know of it.

A default is what is written where no value is given, and rows that are there
keep their null. So leaving it out changes nothing that an Iceberg reader sees.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.schema import index_by_id
from pyiceberg.table.name_mapping import NameMapping, create_mapping_from_schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
from mangrove.model.types import (
    ELEMENT_NAME,
    KEY_NAME,
    VALUE_NAME,
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
    Struct,
    Time,
    Timestamp,
    TimestampTz,
    TimeTz,
    Varchar,
    is_nested,
)

__all__ = [
    "FIELD_ID_MAX",
    "TYPE_PROPERTY",
    "build_name_mapping",
    "check_no_defaults",
    "from_iceberg_primitive",
    "from_iceberg_schema",
    "is_uuid",
    "is_wider_in_iceberg",
    "to_iceberg_column_type",
    "to_iceberg_primitive",
    "to_iceberg_schema",
    "type_properties_of",
]

TYPE_PROPERTY: Final = "iceberg.type"
"""The property of a column whose type Iceberg tells apart and we do not."""
_UUID: Final = "uuid"
_UUID_BYTES: Final = 16

_TO_ICEBERG: Final[dict[type, PrimitiveType]] = {
    Boolean: BooleanType(),
    Int16: IntegerType(),
    Int32: IntegerType(),
    Int64: LongType(),
    Float32: FloatType(),
    Float64: DoubleType(),
    Char: StringType(),
    Varchar: StringType(),
    Date: DateType(),
    Time: TimeType(),
    TimeTz: TimeType(),
    Timestamp: TimestampType(),
    TimestampTz: TimestamptzType(),
    Binary: BinaryType(),
}
_FROM_ICEBERG: Final[dict[type, DataType]] = {
    BooleanType: Boolean(),
    IntegerType: Int32(),
    LongType: Int64(),
    FloatType: Float32(),
    DoubleType: Float64(),
    StringType: Varchar(),
    DateType: Date(),
    TimeType: Time(),
    TimestampType: Timestamp(),
    TimestamptzType: TimestampTz(),
    BinaryType: Binary(),
    UUIDType: Fixed(_UUID_BYTES),
}


def to_iceberg_primitive(column: Column) -> PrimitiveType:
    """Return what Iceberg calls the type of a column that holds no others."""
    match column.type:
        case Decimal(precision, scale):
            return DecimalType(precision, scale)
        case Fixed(length):
            return UUIDType() if is_uuid(column) else FixedType(length)
        case _:
            return _TO_ICEBERG[type(column.type)]


def is_uuid(column: Column) -> bool:
    """Return whether a column is a UUID to Iceberg, and 16 bytes to us."""
    is_long_enough = isinstance(column.type, Fixed) and column.type.length == _UUID_BYTES
    return is_long_enough and column.properties.get(TYPE_PROPERTY) == _UUID


def from_iceberg_primitive(found: IcebergType, where: str) -> DataType:
    """Return our type for one of Iceberg's; refuse those of version 3, which no column of ours can hold."""
    match found:
        case DecimalType():
            return Decimal(found.precision, found.scale)
        case FixedType():
            return Fixed(len(found))
        case _:
            own = _FROM_ICEBERG.get(type(found))
    if own is None:
        raise InvalidInputError(
            f"{where} has the Iceberg type {found}, which no column can hold: use a type of format version 2, "
            "with times in microseconds"
        )
    return own


def type_properties_of(found: IcebergType) -> Mapping[str, str]:
    """Return the properties of a column that keep what our type does not say."""
    return {TYPE_PROPERTY: _UUID} if isinstance(found, UUIDType) else {}


def is_wider_in_iceberg(data_type: DataType) -> bool:
    """Return whether Iceberg's type takes values that a column of `data_type` does not hold."""
    return isinstance(data_type, Int16 | Char) or (isinstance(data_type, Varchar) and data_type.length is not None)


FIELD_ID_MAX: Final = 2**31 - 1 - 200
"""Iceberg keeps the ids above for columns of its own, such as the number of a row."""


def to_iceberg_schema(schema: Schema, keys: Sequence[int] = ()) -> IcebergSchema:
    """Return the schema as Iceberg tells it; keys become identifier fields where Iceberg allows that.

    It demands that they are required and not floating. A table of another writer may
    have keys that are not so; it is shown without any, since half of a key says
    something wrong.
    """
    _check_publishable(schema)
    by_id = {column.id: column for column in schema.columns}
    identifiers = list(keys) if all(_can_identify(by_id[key]) for key in keys) else []
    fields = [_field(column) for column in schema.columns]
    return IcebergSchema(*fields, schema_id=schema.schema_id, identifier_field_ids=identifiers)


def from_iceberg_schema(
    found: IcebergSchema, known: Sequence[Schema] = (), last_column_id: int = 0
) -> tuple[Schema, tuple[int, ...]]:
    """Return the schema and the keys that an Iceberg schema says; refuse what no table can have.

    `known` are the schemas that the table has had, oldest first; `last_column_id` is
    the largest id that was ever given.
    """
    if not found.fields:
        raise InvalidInputError("the Iceberg schema has no fields: a table has at least one column")
    by_id = {column.id: column for schema in known for _, column in schema.all_columns()}
    columns = tuple(_column(field, by_id, field.name) for field in found.fields)
    largest = max([found.highest_field_id, last_column_id, *(schema.last_column_id for schema in known)])
    schema = Schema(columns, found.schema_id, largest)
    outer = {column.id for column in columns}
    for key in found.identifier_field_ids:
        if key not in outer:
            raise InvalidInputError(
                f"the identifier field {found.find_column_name(key)!r} lies inside a struct: "
                "keys are columns of the table itself"
            )
    return schema, tuple(found.identifier_field_ids)


def check_no_defaults(found: IcebergSchema) -> None:
    """Refuse defaults of columns, wherever they lie; PyIceberg says what else is wrong with the schema."""
    for field_id, field in index_by_id(found).items():
        _check_no_default(field, found.find_column_name(field_id) or field.name)


def to_iceberg_column_type(column: Column) -> IcebergType:
    """Return what Iceberg calls the type of a column, with the ids of what lies inside."""
    match column.type:
        case Struct(columns):
            return StructType(*(_field(inner) for inner in columns))
        case List(element):
            return ListType(element.id, to_iceberg_column_type(element), element_required=not element.nullable)
        case Map(key, value):
            return MapType(
                key.id,
                to_iceberg_column_type(key),
                value.id,
                to_iceberg_column_type(value),
                value_required=not value.nullable,
            )
        case _:
            return to_iceberg_primitive(column)


def build_name_mapping(schema: Schema) -> NameMapping:
    """Return by which names the columns of files are found that do not keep the ids.

    Only by those of today, as our engines find them: a name of the past may have
    become that of another column.
    """
    return create_mapping_from_schema(to_iceberg_schema(schema))


def _field(column: Column) -> NestedField:
    return NestedField(
        column.id, column.name, to_iceberg_column_type(column), required=not column.nullable, doc=column.comment
    )


def _check_publishable(schema: Schema) -> None:
    """Refuse ids and names that no Iceberg schema can have."""
    if schema.last_column_id > FIELD_ID_MAX:
        raise InvalidInputError(
            f"the table has given out the column id {schema.last_column_id}, and Iceberg keeps those above "
            f"{FIELD_ID_MAX} for itself: copy the rows into a new table to show them as Iceberg"
        )
    seen: set[str] = set()
    for path, _ in schema.all_columns():
        name = ".".join(path)
        if name in seen:
            raise InvalidInputError(
                f"two columns are called {name!r} in Iceberg, which writes the parts of a path with a dot between "
                "them: rename the one that has a dot in its name"
            )
        seen.add(name)


def _can_identify(column: Column) -> bool:
    return not column.nullable and not is_nested(column.type) and not isinstance(column.type, Float32 | Float64)


def _check_no_default(field: NestedField, path: str) -> None:
    if field.initial_default is not None or field.write_default is not None:
        raise InvalidInputError(
            f"column {path!r} has a default in Iceberg, which format version 2 does not know: leave it out, and set "
            "one with SQL"
        )


def _column(field: NestedField, known: dict[int, Column], path: str, *, is_named: bool = True) -> Column:
    _check_no_default(field, path)
    if not 0 <= field.field_id <= FIELD_ID_MAX:
        raise InvalidInputError(f"column {path!r} has the Iceberg id {field.field_id}: ids go from 0 to {FIELD_ID_MAX}")
    before = known.get(field.field_id)
    if before is not None and not _is_published_as(before, field.field_type):
        before = None
    return Column(
        id=field.field_id,
        name=field.name,
        type=_type(field.field_type, known, path) if before is None or is_nested(before.type) else before.type,
        nullable=not field.required,
        # What lies inside a list or a map has no place for one in Iceberg.
        comment=field.doc if is_named or before is None else before.comment,
        default=None if before is None else before.default,
        properties=type_properties_of(field.field_type) if before is None else before.properties,
    )


def _is_published_as(column: Column, found: IcebergType) -> bool:
    """Return whether a column is what was shown so; of a nested one it is asked at each column inside."""
    shown = to_iceberg_column_type(column)
    return type(shown) is type(found) if is_nested(column.type) else shown == found


def _type(found: IcebergType, known: dict[int, Column], path: str) -> DataType:
    match found:
        case StructType():
            fields = found.fields
            return Struct(tuple(_column(field, known, f"{path}.{field.name}") for field in fields))
        case ListType():
            return List(_column(found.element_field, known, f"{path}.{ELEMENT_NAME}", is_named=False))
        case MapType():
            key = _column(found.key_field, known, f"{path}.{KEY_NAME}", is_named=False)
            return Map(key, _column(found.value_field, known, f"{path}.{VALUE_NAME}", is_named=False))
        case _:
            return from_iceberg_primitive(found, f"column {path!r}")

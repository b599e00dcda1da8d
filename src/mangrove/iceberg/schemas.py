"""Conversion between table schemas and Iceberg schemas by column id.

    smallint                  int       files store it in 4 bytes
    char(n), varchar(n)       string    Iceberg has no lengths
    time with time zone       time      in UTC, as stored
    fixed(16) marked as UUID  uuid      the mark is a column property

All other types have an exact equivalent. The Iceberg types of these four have a larger
domain, so values from Iceberg clients are validated. Types that only format version 3 has
are rejected.

String lengths and column properties do not exist in Iceberg and are not published, and
defaults only in format version 3. When a client changes the schema, a column with the same id
and the same published type keeps them.

A default applies only when rows are written, so omitting it does not affect Iceberg
readers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

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
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from mangrove.errors import InvalidInputError
from mangrove.iceberg.defaults import INITIAL_DEFAULT, format_default, initial_default_of, parse_default
from mangrove.model.objects import IDENTIFIER_FIELDS, TableVersion
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
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
    TimestampNs,
    TimestampTz,
    TimestampTzNs,
    TimeTz,
    Varchar,
    is_nested,
)
from mangrove.tables.schema_evolution import can_widen_type

__all__ = [
    "FIELD_ID_MAX",
    "TYPE_PROPERTY",
    "build_name_mapping",
    "check_format_version",
    "check_no_defaults",
    "from_iceberg_primitive",
    "from_iceberg_schema",
    "is_uuid",
    "is_wider_in_iceberg",
    "replace_identifier_fields",
    "to_iceberg_column_type",
    "to_iceberg_primitive",
    "to_iceberg_schema",
    "type_properties_of",
]

TYPE_PROPERTY: Final = "iceberg.type"
"""Column property with the Iceberg type where ours is less specific."""
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
    TimestampNs: TimestampNanoType(),
    TimestampTzNs: TimestamptzNanoType(),
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
    TimestampNanoType: TimestampNs(),
    TimestamptzNanoType: TimestampTzNs(),
    BinaryType: Binary(),
    UUIDType: Fixed(_UUID_BYTES),
}
_REMEDIES: Final[dict[type, str]] = {
    GeometryType: "use binary with WKB",
    GeographyType: "use binary with WKB",
    UnknownType: "add the column when its type is known",
}


def to_iceberg_primitive(column: Column) -> PrimitiveType:
    """Return the Iceberg type of a primitive column."""
    match column.type:
        case Decimal(precision, scale):
            return DecimalType(precision, scale)
        case Fixed(length):
            return UUIDType() if is_uuid(column) else FixedType(length)
        case _:
            return _TO_ICEBERG[type(column.type)]


def is_uuid(column: Column) -> bool:
    """Return whether a column of 16 bytes is a UUID in Iceberg."""
    is_long_enough = isinstance(column.type, Fixed) and column.type.length == _UUID_BYTES
    return is_long_enough and column.properties.get(TYPE_PROPERTY) == _UUID


def from_iceberg_primitive(found: IcebergType, where: str) -> DataType:
    """Return the type for a primitive Iceberg type; raise InvalidInputError for types that tables here cannot have."""
    match found:
        case DecimalType():
            return Decimal(found.precision, found.scale)
        case FixedType():
            return Fixed(len(found))
        case _:
            own = _FROM_ICEBERG.get(type(found))
    if own is None:
        remedy = _REMEDIES.get(type(found), "use another type")
        raise InvalidInputError(f"{where} has the unsupported Iceberg type {found}; {remedy}")
    return own


def type_properties_of(found: IcebergType) -> Mapping[str, str]:
    """Return the column properties for an Iceberg type that ours does not express."""
    return {TYPE_PROPERTY: _UUID} if isinstance(found, UUIDType) else {}


def is_wider_in_iceberg(data_type: DataType) -> bool:
    """Return whether the Iceberg type has values that a column of `data_type` cannot store."""
    return isinstance(data_type, Int16 | Char) or (isinstance(data_type, Varchar) and data_type.length is not None)


FIELD_ID_MAX: Final = 2**31 - 1 - 200
"""Iceberg reserves the ids above for metadata columns."""


def to_iceberg_schema(schema: Schema, keys: Sequence[int] = (), *, has_defaults: bool = False) -> IcebergSchema:
    """Return the Iceberg schema; keys and fields inside structs become identifier fields if Iceberg allows it.

    With `has_defaults` it has those defaults of columns that are constants, as format version 3 allows.

    Identifier fields must be required and not floating-point. If one key column is not,
    no identifier fields are published, because a partial key would be wrong.
    """
    _check_publishable(schema)
    identifiers = list(keys) if all(_can_identify(schema, key) for key in keys) else []
    fields = [_field(column, has_defaults=has_defaults) for column in schema.columns]
    return IcebergSchema(*fields, schema_id=schema.schema_id, identifier_field_ids=identifiers)


def from_iceberg_schema(
    found: IcebergSchema,
    known: Sequence[Schema] = (),
    last_column_id: int = 0,
    *,
    has_defaults: bool = False,
    published: IcebergSchema | None = None,
) -> tuple[Schema, tuple[int, ...]]:
    """Return the schema and the key ids of an Iceberg schema; raise InvalidInputError if unsupported.

    `known` are all schemas of the table, oldest first; `last_column_id` is the largest
    assigned id. With `has_defaults` columns may have defaults; one that is as in the `published`
    schema does not change.
    """
    by_id = {column.id: column for schema in known for _, column in schema.all_columns()}
    columns = tuple(_column(field, by_id, field.name, has_defaults=has_defaults) for field in found.fields)
    if has_defaults:
        shown = {} if published is None else {field.field_id: field for field in published.fields}
        columns = tuple(
            _with_defaults(column, field, by_id.get(column.id), shown.get(column.id))
            for column, field in zip(columns, found.fields, strict=True)
        )
    largest = max([found.highest_field_id, last_column_id, *(schema.last_column_id for schema in known)])
    schema = Schema(columns, found.schema_id, largest)
    outer = {column.id for column in columns}
    has_keys = outer.issuperset(found.identifier_field_ids)
    return schema, tuple(found.identifier_field_ids) if has_keys else ()


def replace_identifier_fields(version: TableVersion, found: IcebergSchema) -> TableVersion:
    """Return the table version with the identifier fields of a client that cannot be keys: one is inside a struct.

    They are published, and have no other effect.
    """
    properties = {name: text for name, text in version.properties.items() if name != IDENTIFIER_FIELDS}
    if found.identifier_field_ids and set(found.identifier_field_ids) != set(version.keys):
        properties[IDENTIFIER_FIELDS] = " ".join(map(str, found.identifier_field_ids))
    return replace(version, properties=properties)


def check_format_version(schema: Schema, format_version: int) -> None:
    """Raise InvalidInputError for types that Iceberg has only since a later format version."""
    for path, column in schema.all_columns():
        if isinstance(column.type, TimestampNs | TimestampTzNs) and format_version < 3:
            raise InvalidInputError(
                f"column {'.'.join(path)!r} is {format_type(column.type)}, which Iceberg tables have since format "
                "version 3; set the table property format-version to 3"
            )


def check_no_defaults(found: IcebergSchema, *, is_nested_only: bool = False) -> None:
    """Raise InvalidInputError if a column has a default, at any depth or only inside other columns."""
    outer = {field.field_id for field in found.fields} if is_nested_only else set()
    for field_id, field in index_by_id(found).items():
        if field_id not in outer:
            _check_no_default(field, found.find_column_name(field_id) or field.name)


def to_iceberg_column_type(column: Column) -> IcebergType:
    """Return the Iceberg type of a column, with the ids of nested columns."""
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
    """Return the name mapping for data files without field ids.

    It has only the current names, like our engines: a former name may now belong to another
    column.
    """
    return create_mapping_from_schema(to_iceberg_schema(schema))


def _field(column: Column, *, has_defaults: bool = False) -> NestedField:
    # PyIceberg's types require one type of values.
    initial_default: Any = initial_default_of(column) if has_defaults else None
    write_default: Any = parse_default(column.default, column.type) if has_defaults else None
    return NestedField(
        column.id,
        column.name,
        to_iceberg_column_type(column),
        required=not column.nullable,
        doc=column.comment,
        initial_default=initial_default,
        write_default=write_default,
    )


def _with_defaults(column: Column, field: NestedField, before: Column | None, shown: NestedField | None) -> Column:
    """Return a column with the defaults that a client gave it; unchanged ones keep their text."""
    where = f"column {field.name!r}"
    default, properties = column.default, dict(column.properties)
    is_unchanged = before is not None and shown is not None and shown.write_default == field.write_default
    if not is_unchanged:
        is_removed = field.write_default is None
        default = None if is_removed else format_default(field.write_default, column.type, where)
    properties.pop(INITIAL_DEFAULT, None)
    if field.initial_default is not None:
        properties[INITIAL_DEFAULT] = format_default(field.initial_default, column.type, where)
    return replace(column, default=default, properties=properties)


def _check_publishable(schema: Schema) -> None:
    """Raise InvalidInputError for ids and names that an Iceberg schema cannot have."""
    if schema.last_column_id > FIELD_ID_MAX:
        raise InvalidInputError(
            f"the table has assigned column id {schema.last_column_id}, but Iceberg reserves ids above {FIELD_ID_MAX}; "
            "copy the rows into a new table to publish it as Iceberg"
        )
    seen: set[str] = set()
    for path, _ in schema.all_columns():
        name = ".".join(path)
        if name in seen:
            raise InvalidInputError(
                f"two columns have the dotted path {name!r}, which Iceberg cannot distinguish; rename the column with "
                "a dot in its name"
            )
        seen.add(name)


def _can_identify(schema: Schema, column_id: int) -> bool:
    if not schema.has_id(column_id):
        return False
    path = schema.path_of(column_id)
    *parents, column = (schema.column(*path[: depth + 1]) for depth in range(len(path)))
    if column.nullable or is_nested(column.type) or isinstance(column.type, Float32 | Float64):
        return False
    return all(isinstance(one.type, Struct) and not one.nullable for one in parents)


def _check_no_default(field: NestedField, path: str) -> None:
    if field.initial_default is not None or field.write_default is not None:
        raise InvalidInputError(
            f"column {path!r} has a default, which Iceberg clients can set only for outer columns of tables of format "
            "version 3; remove it and set it with SQL"
        )


def _column(
    field: NestedField, known: dict[int, Column], path: str, *, is_named: bool = True, has_defaults: bool = False
) -> Column:
    if not has_defaults:
        _check_no_default(field, path)
    if not 0 <= field.field_id <= FIELD_ID_MAX:
        raise InvalidInputError(f"column {path!r} has id {field.field_id}; ids must be from 0 to {FIELD_ID_MAX}")
    before = known.get(field.field_id)
    if before is not None and not is_nested(before.type) and _is_published_as(before, field.field_type):
        data_type = before.type
    else:
        data_type = _type(field.field_type, known, path)
    if before is not None and not _keeps_defaults(before, field.field_type, data_type):
        before = None
    return Column(
        id=field.field_id,
        name=field.name,
        type=data_type,
        nullable=not field.required,
        # Elements of lists and maps have no comment in Iceberg.
        comment=field.doc if is_named or before is None else before.comment,
        default=None if before is None else before.default,
        properties={**_own_properties_of(before), **type_properties_of(field.field_type)},
    )


def _own_properties_of(column: Column | None) -> dict[str, str]:
    properties = {} if column is None else column.properties
    return {name: value for name, value in properties.items() if name != TYPE_PROPERTY}


def _keeps_defaults(before: Column, found: IcebergType, data_type: DataType) -> bool:
    """Return whether the default and properties of a column are valid for its new type."""
    return _is_published_as(before, found) or (not is_nested(data_type) and can_widen_type(data_type, before.type))


def _is_published_as(column: Column, found: IcebergType) -> bool:
    """Return whether a column is published with this type; nested columns are compared one by one."""
    published = to_iceberg_column_type(column)
    return type(published) is type(found) if is_nested(column.type) else published == found


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

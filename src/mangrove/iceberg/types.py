"""Plain types of columns in Iceberg's words, and Iceberg's in ours.

    smallint                  int       files hold it in 4 bytes anyway
    char(n), varchar(n)       string    Iceberg has no lengths
    time with time zone       time      in UTC, as it is kept and as Arrow shows it
    fixed(16) noted as UUID   uuid      the note is a property of the column

All other types have one of the same meaning. Those four hold less than what they
are shown as, so whoever takes rows from an Iceberg client looks at them again.
What came with format version 3 is refused: no column of ours can hold it.
"""

from collections.abc import Mapping
from typing import Final

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
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from mangrove.errors import InvalidInputError
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float4,
    Float8,
    Int2,
    Int4,
    Int8,
    Time,
    Timestamp,
    TimestampTz,
    TimeTz,
    Varchar,
)

__all__ = ["TYPE_PROPERTY", "iceberg_plain_type", "is_shown_wider", "is_uuid", "own_plain_type", "type_properties"]

TYPE_PROPERTY: Final = "iceberg.type"
"""The property of a column whose type Iceberg tells apart and we do not."""
_UUID: Final = "uuid"
_UUID_BYTES: Final = 16

_TO_ICEBERG: Final[dict[type, PrimitiveType]] = {
    Boolean: BooleanType(),
    Int2: IntegerType(),
    Int4: IntegerType(),
    Int8: LongType(),
    Float4: FloatType(),
    Float8: DoubleType(),
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
    IntegerType: Int4(),
    LongType: Int8(),
    FloatType: Float4(),
    DoubleType: Float8(),
    StringType: Varchar(),
    DateType: Date(),
    TimeType: Time(),
    TimestampType: Timestamp(),
    TimestamptzType: TimestampTz(),
    BinaryType: Binary(),
    UUIDType: Fixed(_UUID_BYTES),
}


def iceberg_plain_type(column: Column) -> PrimitiveType:
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


def own_plain_type(found: IcebergType, where: str) -> DataType:
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


def type_properties(found: IcebergType) -> Mapping[str, str]:
    """Return the properties of a column that keep what our type does not say."""
    return {TYPE_PROPERTY: _UUID} if isinstance(found, UUIDType) else {}


def is_shown_wider(data_type: DataType) -> bool:
    """Return whether Iceberg's type takes values that a column of `data_type` does not hold."""
    return isinstance(data_type, Int2 | Char) or (isinstance(data_type, Varchar) and data_type.length is not None)

"""Refusing numbers that are too large for `float`, which Spark's cast makes infinite and says nothing."""

import functools
import operator
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as spark

__all__ = ["can_overflow", "cast_without_overflow"]

_FLOAT_MAX: Final = (2 - 2**-23) * 2.0**127
_TOO_LARGE: Final = _FLOAT_MAX + 2.0**102
"""From here on a number is nearer to what comes after the largest float than to that."""


def cast_without_overflow(value: Column, given: spark.DataType, wanted: spark.DataType, message: str) -> Column:
    """Return the value in another type; one that would become infinite stops the job with the message and the value."""
    too_large = _too_large(value, given, wanted)
    if too_large is None:
        return value.cast(wanted)
    shown = value.cast("string") if isinstance(given, spark.DoubleType) else f.to_json(f.struct(value))
    error = f.raise_error(f.concat(f.lit(message), shown)).cast(wanted)
    return f.when(too_large, error).otherwise(value.cast(wanted))


def can_overflow(given: spark.DataType, wanted: spark.DataType) -> bool:
    """Return whether some value may be too large."""
    return _too_large(f.lit(None), given, wanted) is not None


def _too_large(value: Any, given: spark.DataType, wanted: spark.DataType) -> Any | None:
    """Return whether a number in the value is too large, or None where none can be."""
    match given, wanted:
        case spark.DoubleType(), spark.FloatType():
            size = f.abs(value)
            # NaN is above every number in Spark, and is no number that is too large.
            return (size >= f.lit(_TOO_LARGE)) & (size < f.lit(float("inf")))
        case spark.ArrayType(), spark.ArrayType():
            return _any_of(value, given.elementType, wanted.elementType)
        case spark.MapType(), spark.MapType():
            keys = _any_of(f.map_keys(value), given.keyType, wanted.keyType)
            values = _any_of(f.map_values(value), given.valueType, wanted.valueType)
            return _either([keys, values])
        case spark.StructType(), spark.StructType():
            pairs = zip(given.fields, wanted.fields, strict=False)
            return _either([_too_large(value.getField(one.name), one.dataType, to.dataType) for one, to in pairs])
        case _:
            return None


def _any_of(values: Any, given: spark.DataType, wanted: spark.DataType) -> Any | None:
    if not can_overflow(given, wanted):
        return None
    return f.exists(values, lambda one: _certain(_too_large(one, given, wanted)))


def _either(found: list[Any | None]) -> Any | None:
    parts = [_certain(one) for one in found if one is not None]
    return functools.reduce(operator.or_, parts) if parts else None


def _certain(condition: Any) -> Any:
    """Return whether a condition is true; what is unknown is not."""
    return f.coalesce(condition, f.expr("false"))

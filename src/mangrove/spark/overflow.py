"""Refusing numbers that are too large for `float`, which Spark's cast makes infinite and says nothing."""

import functools
import operator
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as spark

__all__ = ["can_overflow", "cast_without_overflow"]

_FLOAT_MAX: Final = (2 - 2**-23) * 2.0**127
_TOO_LARGE: Final = _FLOAT_MAX + 2.0**102
"""From here on a number is nearer to what comes after the largest float than to that."""


def can_overflow(given: spark.DataType, wanted: spark.DataType) -> bool:
    """Return whether some value may be too large: a double stands where a float is wanted."""
    match given, wanted:
        case spark.DoubleType(), spark.FloatType():
            return True
        case spark.ArrayType(), spark.ArrayType():
            return can_overflow(given.elementType, wanted.elementType)
        case spark.MapType(), spark.MapType():
            return can_overflow(given.keyType, wanted.keyType) or can_overflow(given.valueType, wanted.valueType)
        case spark.StructType(), spark.StructType():
            return any(can_overflow(one.dataType, to.dataType) for one, to in _pairs(given, wanted))
        case _:
            return False


def cast_without_overflow(value: Column, given: spark.DataType, wanted: spark.DataType, message: str) -> Column:
    """Return the value in another type; one that would become infinite stops the job with the message and the value."""
    if not can_overflow(given, wanted):
        return value.cast(wanted)
    shown = value.cast("string") if isinstance(given, spark.DoubleType) else f.to_json(f.struct(value))
    error = f.raise_error(f.concat(f.lit(message), shown)).cast(wanted)
    return f.when(_too_large(value, given, wanted), error).otherwise(value.cast(wanted))


def _too_large(value: Any, given: spark.DataType, wanted: spark.DataType) -> Any:
    """Return whether a number in the value is too large."""
    match given, wanted:
        case spark.DoubleType(), spark.FloatType():
            size = f.abs(value)
            # NaN is above every number in Spark, and is no number that is too large.
            return (size >= f.lit(_TOO_LARGE)) & (size < f.lit(float("inf")))
        case spark.ArrayType(), spark.ArrayType():
            return _any_of(value, given.elementType, wanted.elementType)
        case spark.MapType(), spark.MapType():
            keys = _any_of(f.map_keys(value), given.keyType, wanted.keyType)
            return _certain(keys) | _certain(_any_of(f.map_values(value), given.valueType, wanted.valueType))
        case spark.StructType(), spark.StructType():
            parts = [
                _certain(_too_large(value.getField(one.name), one.dataType, to.dataType))
                for one, to in _pairs(given, wanted)
            ]
            return functools.reduce(operator.or_, parts)
        case _:
            return f.expr("false")


def _any_of(values: Any, given: spark.DataType, wanted: spark.DataType) -> Any:
    return f.exists(values, lambda one: _certain(_too_large(one, given, wanted)))


def _certain(condition: Any) -> Any:
    """Return whether a condition is true; what is unknown is not."""
    return f.coalesce(condition, f.expr("false"))


def _pairs(given: spark.StructType, wanted: spark.StructType) -> Iterator[tuple[spark.StructField, spark.StructField]]:
    """Yield the fields that Spark's cast puts into each other, which go by their places."""
    return zip(given.fields, wanted.fields, strict=False)

"""Putting the fields of structs into the order of a table's: Spark's cast goes by their places, and tables by names."""

from typing import Any

from pyspark.sql import functions as f
from pyspark.sql import types as spark

__all__ = ["by_field_names"]


def by_field_names(value: Any, given: spark.DataType, wanted: spark.DataType) -> Any:
    """Return the value with its fields in the order that is wanted, at every level; a field that it lacks is null."""
    if not _differs(given, wanted):
        return value
    match given, wanted:
        case spark.StructType(), spark.StructType():
            own = {field.name.casefold(): field for field in given.fields}
            parts = []
            for field in wanted.fields:
                found = own.get(field.name.casefold())
                if found is None:
                    part = f.lit(None).cast(field.dataType)
                else:
                    part = by_field_names(value.getField(found.name), found.dataType, field.dataType)
                parts.append(part.alias(field.name))
            return f.when(value.isNotNull(), f.struct(*parts))
        case spark.ArrayType(), spark.ArrayType():
            return f.transform(value, lambda one: by_field_names(one, given.elementType, wanted.elementType))
        case spark.MapType(), spark.MapType():
            values = f.transform_values(value, lambda _, one: by_field_names(one, given.valueType, wanted.valueType))
            return f.transform_keys(values, lambda key, _: by_field_names(key, given.keyType, wanted.keyType))
        case _:
            raise AssertionError("only nested types can differ in the order of their fields")


def _differs(given: spark.DataType, wanted: spark.DataType) -> bool:
    match given, wanted:
        case spark.StructType(), spark.StructType():
            own, theirs = ([field.name.casefold() for field in one.fields] for one in (given, wanted))
            pairs = zip(given.fields, wanted.fields, strict=False)
            return own != theirs or any(_differs(one.dataType, to.dataType) for one, to in pairs)
        case spark.ArrayType(), spark.ArrayType():
            return _differs(given.elementType, wanted.elementType)
        case spark.MapType(), spark.MapType():
            return _differs(given.keyType, wanted.keyType) or _differs(given.valueType, wanted.valueType)
        case _:
            return False

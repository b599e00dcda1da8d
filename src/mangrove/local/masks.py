"""Which rows of an Arrow table a predicate means."""

import functools
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.model.arrow_form import type_to_arrow
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Decimal, Float4, Float8, Int2, Int4, Int8
from mangrove.model.values import Value
from mangrove.tables.predicates import AllOf, AnyOf, Comparison, Constant, IsIn, IsNull, Operator, Predicate, StartsWith

__all__ = ["column_at", "is_true", "meant_rows"]

_COMPARE: Final[dict[Operator, str]] = {
    Operator.EQUAL: "equal",
    Operator.UNEQUAL: "not_equal",
    Operator.LESS: "less",
    Operator.LESS_OR_EQUAL: "less_equal",
    Operator.GREATER: "greater",
    Operator.GREATER_OR_EQUAL: "greater_equal",
}
"""Arrow's functions by name: naming them loads none of them."""
_WITH_NAN: Final = {Operator.UNEQUAL, Operator.GREATER, Operator.GREATER_OR_EQUAL}


def meant_rows(rows: pa.Table, predicate: Predicate, schema: Schema) -> Any:
    """Return true for each row that is meant, else false or null; `rows` has the columns that are asked about."""
    match predicate:
        case Constant(holds):
            return pa.chunked_array([pa.repeat(pa.scalar(holds), rows.num_rows)])
        case AllOf(parts):
            return functools.reduce(pc.and_kleene, [meant_rows(rows, part, schema) for part in parts])
        case AnyOf(parts):
            return functools.reduce(pc.or_kleene, [meant_rows(rows, part, schema) for part in parts])
        case Comparison() | IsNull() | IsIn() | StartsWith():
            return _leaf_mask(rows, predicate, schema)
        case _:
            assert_never(predicate)


def is_true(mask: Any) -> Any:
    """Return the mask with false where it is not known to be true, as SQL leaves such rows out."""
    no: Any = pa.scalar(value=False)
    return pc.fill_null(mask, no)


def column_at(rows: pa.Table, path: tuple[str, ...]) -> Any:
    """Return a column, or one inside of structs."""
    array: Any = rows.column(path[0])
    for name in path[1:]:
        array = pc.struct_field(array, name)
    return array


def _leaf_mask(rows: pa.Table, leaf: Comparison | IsNull | IsIn | StartsWith, schema: Schema) -> Any:
    column = schema.column_with_id(leaf.column_id)
    array = column_at(rows, schema.path_of(leaf.column_id))
    match leaf:
        case IsNull(_, negated):
            return pc.is_valid(array) if negated else pc.is_null(array)
        case Comparison(_, operator, value):
            return _compared(array, column, operator, value)
        case IsIn(_, values, negated):
            equal = [_compared(array, column, Operator.EQUAL, value) for value in values]
            found = functools.reduce(pc.or_kleene, equal)
            return pc.invert(found) if negated else found
        case StartsWith(_, prefix, negated):
            found = pc.starts_with(array, prefix)
            return pc.invert(found) if negated else found
        case _:
            assert_never(leaf)


def _compared(array: Any, column: Column, operator: Operator, value: Value) -> Any:
    match column.type:
        case Int2() | Int4() | Int8():
            # The value may lie beyond what a narrow column can hold.
            return pc.call_function(_COMPARE[operator], [array.cast(pa.int64()), pa.scalar(value, pa.int64())])
        case Decimal(_, scale):
            wide = pa.decimal128(38, scale)
            return pc.call_function(_COMPARE[operator], [array.cast(wide), pa.scalar(value, wide)])
        case Float4() | Float8():
            wide_array = array.cast(pa.float64())
            found = pc.call_function(_COMPARE[operator], [wide_array, pa.scalar(value, pa.float64())])
            is_nan = pc.is_nan(wide_array)
            if operator in _WITH_NAN:
                return pc.or_kleene(found, is_nan)
            return pc.and_kleene(found, pc.invert(is_nan))
        case _:
            return pc.call_function(_COMPARE[operator], [array, pa.scalar(value, type_to_arrow(column.type))])

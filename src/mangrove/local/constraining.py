"""Rows made fit for a table in this process: defaults where a column is not given, and conditions that must hold."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.local.casting import assigned
from mangrove.local.conforming import by_name
from mangrove.local.evaluating import evaluated
from mangrove.local.masks import meant_rows
from mangrove.local.python_rows import python_rows
from mangrove.local.targets import named_in
from mangrove.model.arrow_form import type_to_arrow
from mangrove.model.types import Column
from mangrove.tables.conditions import condition_of
from mangrove.tables.constraints import broken_check, checks_of
from mangrove.tables.expression_text import parse_expression
from mangrove.tables.expressions import BeyondArrowError
from mangrove.tables.table_state import TableState

__all__ = ["breaking", "check_rows", "default_of", "with_defaults"]

_EXAMPLES_MAX: Final = 3
_PC: Final[Any] = pc


def with_defaults(rows: pa.Table, state: TableState) -> pa.Table:
    """Return the rows with the defaults of the columns that they lack; a null that is given stays one."""
    for column in state.schema.columns:
        if column.default is not None and not any(by_name(field, column) for field in rows.schema):
            rows = rows.append_column(column.name, default_of(column, rows))
    return rows


def default_of(column: Column, rows: pa.Table) -> Any:
    """Return the default of a column for each of some rows."""
    if column.default is None:
        return pa.nulls(rows.num_rows)
    counted = pa.table({"row": pa.nulls(rows.num_rows)})
    value = evaluated(parse_expression(column.default), counted, _no_column)
    return assigned(value, type_to_arrow(column.type), column.name)


def _no_column(_: pa.Table, names: tuple[str, ...]) -> Any:
    raise BeyondArrowError(f"{'.'.join(names)} in a default is known to Spark at most")


def check_rows(state: TableState, rows: pa.Table) -> None:
    """Refuse rows of which some break a condition; one that is unknown is not broken."""
    for name, text in checks_of(state.version).items():
        broken = breaking(state, rows, text)
        if broken.num_rows:
            raise broken_check(state.name, name, text, python_rows(broken.slice(0, _EXAMPLES_MAX)))


def breaking(state: TableState, rows: pa.Table, text: str) -> pa.Table:
    """Return the rows for which a condition is false."""
    condition = condition_of(text, state.schema)
    if condition.expression is not None:
        holds = evaluated(condition.expression, rows, named_in(state.schema))
    else:
        assert condition.predicate is not None
        holds = meant_rows(rows, condition.predicate, state.schema)
    return rows.filter(_PC.fill_null(_PC.invert(holds), pa.scalar(value=False)))

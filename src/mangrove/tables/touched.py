"""What the rows of some partitions have in common, so that these are replaced and no others."""

from collections.abc import Iterable
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.transforms import Days, Hours, Identity, Months, Transform, Years
from mangrove.model.types import Column
from mangrove.model.values import Value
from mangrove.tables.periods import period_predicate
from mangrove.tables.predicates import AllOf, AnyOf, Comparison, IsNull, Operator, Predicate
from mangrove.tables.table_state import TableState

__all__ = ["check_touchable", "touched_partitions"]

_TELLING: Final = (Identity, Years, Months, Days, Hours)
"""The transforms whose values say which rows they are of."""
_PARTITIONS_MAX: Final = 10_000
"""So many partitions are replaced at once; each is named in a predicate."""


def check_touchable(state: TableState) -> None:
    """Refuse a table whose partitions cannot be told from its rows."""
    fields = state.version.partition_scheme.fields
    if not fields or any(not isinstance(field.transform, _TELLING) for field in fields):
        raise InvalidInputError(
            f"{state.name} is not partitioned by plain columns or periods, so nothing says which partitions the rows "
            "replace: say which rows go with overwrite(rows, where=…), in SQL with REPLACE WHERE"
        )


def touched_partitions(state: TableState, partitions: Iterable[tuple[Value | None, ...]]) -> Predicate | None:
    """Return what the rows of these partitions fulfil, or None where there are none."""
    check_touchable(state)
    fields = state.version.partition_scheme.fields
    columns = [state.schema.column_with_id(field.source_id) for field in fields]
    distinct = list(dict.fromkeys(partitions))
    if len(distinct) > _PARTITIONS_MAX:
        raise InvalidInputError(
            f"the rows lie in {len(distinct)} partitions of {state.name}, and at most {_PARTITIONS_MAX} are replaced "
            "at once: write fewer rows, or overwrite the whole table"
        )
    parts = [
        AllOf(tuple(_equal(columns[place], fields[place].transform, value) for place, value in enumerate(values)))
        for values in distinct
    ]
    return AnyOf(tuple(parts)) if parts else None


def _equal(column: Column, transform: Transform, value: Value | None) -> Predicate:
    if value is None:
        return IsNull(column.id)
    if isinstance(transform, Identity):
        return Comparison(column.id, Operator.EQUAL, value)
    return period_predicate(column, transform, value)

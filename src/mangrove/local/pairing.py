"""Finding the pairs of rows of two tables for which a condition holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.local.casting import cast, common_type, refused
from mangrove.local.changing import near_keys
from mangrove.local.evaluating import Naming, is_met
from mangrove.local.scanning import ROW
from mangrove.local.targets import FILE
from mangrove.model.arrow_form import type_to_arrow
from mangrove.model.types import Column, is_nested
from mangrove.tables.expressions import Expression, conjuncts
from mangrove.tables.merging import MergePlan, equal_pair
from mangrove.tables.predicates import Predicate
from mangrove.tables.suggesting import did_you_mean
from mangrove.tables.table_state import TableState

__all__ = ["Pairs", "near_source", "paired"]

_PAIRS_MAX: Final = 10_000_000
"""How many pairs are looked at one by one where no columns are equal."""
_PA: Final[Any] = pa


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows that belong together, by their numbers `t` and `s`, and joined to one table."""

    numbers: pa.Table
    rows: pa.Table
    naming: Naming
    plan: MergePlan

    def target_alone(self, target: pa.Table) -> tuple[pa.Table, Any, Naming]:
        """Return the rows of the table that no row of the source matches, with their numbers."""
        numbers = _others(target.num_rows, self.numbers.column("t"))
        return _prefixed(target.take(numbers), "t"), numbers, _naming({self.plan.target_name: "t"}, [target], ["t"])

    def source_alone(self, source: pa.Table) -> tuple[pa.Table, Naming]:
        """Return the rows of the source that match nothing."""
        numbers = _others(source.num_rows, self.numbers.column("s"))
        return _prefixed(source.take(numbers), "s"), _naming({self.plan.source_name: "s"}, [source], ["s"])


def paired(target: pa.Table, source: pa.Table, on: Expression, plan: MergePlan) -> Pairs:
    """Return the pairs for which `on` is true. Columns that must be equal are joined, all else is tried out."""
    naming = _naming({plan.target_name: "t", plan.source_name: "s"}, [target, source], ["t", "s"])
    equal, others = _equalities(target, source, on, plan)
    numbers = _joined(target, source, equal) if equal else _crossed(target, source)
    rows = _together(target, source, numbers)
    for condition in others:
        holds = is_met(condition, rows, naming)
        numbers, rows = numbers.filter(holds), rows.filter(holds)
    return Pairs(numbers, rows, naming, plan)


def near_source(state: TableState, source: pa.Table, on: Expression, plan: MergePlan) -> Predicate | None:
    """Return what every row of the table fulfils that can match, from the bounds of columns that must be equal."""
    target = pa.schema([(column.name, type_to_arrow(column.type)) for column in state.schema.columns]).empty_table()
    equal, _ = _equalities(target, source, on, plan)
    columns: list[Column] = []
    arrays: list[Any] = []
    for ours, theirs in equal:
        column = state.schema.column(ours)
        try:
            array = cast(_flat(source.column(theirs)), type_to_arrow(column.type))
        except MangroveError:
            # A value that the column cannot hold matches nothing, and says nothing about the others.
            continue
        if not is_nested(column.type) and column not in columns:
            columns.append(column)
            arrays.append(array)
    if not columns:
        return None
    return near_keys(pa.table(arrays, names=[column.name for column in columns]), columns)


def _equalities(
    target: pa.Table, source: pa.Table, on: Expression, plan: MergePlan
) -> tuple[list[tuple[str, str]], list[Expression]]:
    """Return the columns that must be equal, and the conditions that remain."""
    equal: list[tuple[str, str]] = []
    others: list[Expression] = []
    for condition in conjuncts(on):
        pair = _equal_columns(condition, target, source, plan)
        (others.append(condition) if pair is None else equal.append(pair))
    return equal, others


def _equal_columns(
    condition: Expression, target: pa.Table, source: pa.Table, plan: MergePlan
) -> tuple[str, str] | None:
    pair = equal_pair(condition, plan)
    if pair is None:
        return None
    ours, theirs = _own_name(target, pair[0]), _own_name(source, pair[1])
    wanted = common_type(target.schema.field(ours).type, source.schema.field(theirs).type)
    return None if pa.types.is_floating(wanted) or pa.types.is_nested(wanted) else (ours, theirs)


def _joined(target: pa.Table, source: pa.Table, equal: list[tuple[str, str]]) -> pa.Table:
    left, right = {}, {}
    for place, (ours, theirs) in enumerate(equal):
        wanted = common_type(target.schema.field(ours).type, source.schema.field(theirs).type)
        left[f"key{place}"] = cast(_flat(target.column(ours)), wanted)
        right[f"key{place}"] = cast(_flat(source.column(theirs)), wanted)
    ours_table = pa.table({**left, "t": pa.array(range(target.num_rows), pa.int64())})
    theirs_table = pa.table({**right, "s": pa.array(range(source.num_rows), pa.int64())})
    return (
        ours_table.join(theirs_table, list(left), join_type="inner")
        .select(["t", "s"])
        .sort_by([("t", "ascending"), ("s", "ascending")])
    )


def _crossed(target: pa.Table, source: pa.Table) -> pa.Table:
    if target.num_rows * source.num_rows > _PAIRS_MAX:
        raise refused(f"`on` compares {target.num_rows} rows with {source.num_rows} without any equal column")
    ours = [number for number in range(target.num_rows) for _ in range(source.num_rows)]
    theirs = list(range(source.num_rows)) * target.num_rows
    return pa.table({"t": pa.array(ours, pa.int64()), "s": pa.array(theirs, pa.int64())})


def _together(target: pa.Table, source: pa.Table, numbers: pa.Table) -> pa.Table:
    ours = _prefixed(target.take(numbers.column("t")), "t")
    theirs = _prefixed(source.take(numbers.column("s")), "s")
    joined: pa.Table = _PA.table([*ours.columns, *theirs.columns], names=[*ours.column_names, *theirs.column_names])
    return joined


def _prefixed(rows: pa.Table, side: str) -> pa.Table:
    return rows.rename_columns([f"{side}.{name}" for name in rows.column_names])


def _others(count: int, numbers: Any) -> Any:
    every = pa.array(range(count), pa.int64())
    return every.filter(pc.invert(pc.is_in(every, _flat(numbers))))


def _flat(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _own_name(rows: pa.Table, name: str) -> str:
    found = [one for one in rows.column_names if one.casefold() == name.casefold()]
    if len(found) != 1:
        theirs = [one for one in rows.column_names if one not in (FILE, ROW)]
        raise InvalidInputError(f"there is no column {name!r} for the merge{did_you_mean(name, theirs)}")
    return found[0]


def _naming(aliases: dict[str, str], tables: list[pa.Table], sides: list[str]) -> Naming:
    """Return how names lead to columns of joined rows: `t.amount`, or `amount` where only one side has it."""
    by_alias = {alias.casefold(): side for alias, side in aliases.items()}
    by_side = dict(zip(sides, tables, strict=True))

    def column_of(rows: pa.Table, names: tuple[str, ...]) -> Any:
        side = by_alias.get(names[0].casefold()) if len(names) > 1 else None
        path = names[1:] if side is not None else names
        if side is None:
            having = [
                one
                for one, table in by_side.items()
                if any(name.casefold() == names[0].casefold() for name in table.column_names)
            ]
            if len(having) > 1:
                raise InvalidInputError(f"column {names[0]!r} is in the table and in the source: write t.{names[0]}")
            side = having[0] if having else next(iter(by_side))
        array: Any = rows.column(f"{side}.{_own_name(by_side[side], path[0])}")
        for name in path[1:]:
            array = _field(array, name)
        return array

    return column_of


def _field(array: Any, name: str) -> Any:
    if not pa.types.is_struct(array.type):
        raise refused(f"{name!r} is asked of {array.type}")
    fields = [array.type.field(place).name for place in range(array.type.num_fields)]
    own = next((one for one in fields if one.casefold() == name.casefold()), None)
    if own is None:
        raise InvalidInputError(f"there is no column {name!r} in the struct{did_you_mean(name, fields)}")
    pick: Callable[..., Any] = pc.struct_field
    return pick(array, own)

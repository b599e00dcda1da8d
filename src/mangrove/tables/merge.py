"""Merge plans: clauses, assignments and equality columns."""

import datetime
import decimal
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.expressions.expr import BinaryOp, ColumnPath, Expression, Literal, LiteralValue, split_conjuncts
from mangrove.expressions.parse import check_not_empty, parse_expression
from mangrove.expressions.sql_expression import Expr, LiteralExpr, format_literal
from mangrove.model.names import suggest_name
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Struct
from mangrove.tables.type_compatibility import describe_invalid_decimal

__all__ = [
    "Assignable",
    "MergeClause",
    "MergeKind",
    "MergePlan",
    "find_equality_columns",
    "find_matched_keys",
    "find_source_column",
    "match_equality",
    "parenthesize",
    "resolve_assignments",
    "resolve_clause_values",
    "to_expression",
    "to_spark_sql",
]

Assignable: TypeAlias = LiteralValue | Expr
"""A new column value: a Python value, including a string, or a SQL expression."""


def resolve_assignments(values: Mapping[str, Assignable], schema: Schema) -> dict[str, Assignable]:
    """Return the assigned values by the columns' exact names; raise an error for unknown columns."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise InvalidInputError(
            f"invalid assignments {values!r}; expected a dict such as {{'amount': expr('amount * 2')}}"
        )
    if not values:
        raise InvalidInputError("no assignments; set at least one column")
    by_name = {column.name.casefold(): column.name for column in schema.columns}
    found: dict[str, Assignable] = {}
    for name, value in values.items():
        own = by_name.get(name.casefold())
        if own is None:
            raise _no_column(name, schema)
        if own in found:
            raise InvalidInputError(f"column {own!r} is set twice")
        _check_kind(name, value)
        found[own] = value
    return found


def _no_column(name: str, schema: Schema) -> InvalidInputError:
    outer, dot, _ = name.partition(".")
    if dot and any(one.name.casefold() == outer.casefold() and isinstance(one.type, Struct) for one in schema.columns):
        return InvalidInputError(
            f"{name!r} is a field of struct {outer!r}, but only whole columns can be set; upsert rows with the whole "
            f"struct, or set {outer!r} to named_struct(…) on Spark"
        )
    return InvalidInputError(f"column {name!r} does not exist{suggest_name(name, schema.names)}")


def _check_kind(name: str, value: object) -> None:
    if isinstance(value, Expr):
        return
    if value is not None and not isinstance(value, str | bool | int | float | decimal.Decimal | bytes | datetime.date):
        raise InvalidInputError(
            f"column {name!r} cannot be set to a {type(value).__name__}; give a scalar, or a SQL expression as expr(…)"
        )
    fault = describe_invalid_decimal(value) if isinstance(value, decimal.Decimal) else None
    if fault is not None:
        raise InvalidInputError(f"column {name!r} is set to {fault}")


def to_expression(value: Assignable) -> Expression:
    """Return the value as an expression of the local engine."""
    match value:
        case LiteralExpr():
            return Literal(value.value)
        case Expr():
            return parse_expression(value.sql)
        case _:
            return Literal(value)


def to_spark_sql(value: Assignable) -> str:
    """Return the value as Spark SQL."""
    return parenthesize(value.sql) if isinstance(value, Expr) else format_literal(value)


def parenthesize(expression: str) -> str:
    """Return an expression in parentheses, so that a following word or comment cannot change it."""
    check_not_empty(expression)
    return f"({expression}\n)"


class MergeKind(enum.Enum):
    """The rows that a clause applies to, and its action."""

    MATCHED_UPDATE = "when matched update"
    MATCHED_DELETE = "when matched delete"
    INSERT = "when not matched insert"
    UNMATCHED_UPDATE = "when not matched by source update"
    UNMATCHED_DELETE = "when not matched by source delete"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """One `when` clause; without values an update or insert uses all columns common to source and table."""

    kind: MergeKind
    where: str | None = None
    values: Mapping[str, Assignable] | None = None


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The condition and clauses of a merge; expressions use these names for table and source."""

    on: str
    clauses: tuple[MergeClause, ...] = ()
    target_name: str = "t"
    source_name: str = "s"

    def __post_init__(self) -> None:
        object.__setattr__(self, "clauses", tuple(self.clauses))
        if not self.on.strip():
            raise InvalidInputError("a merge requires a condition, such as on='t.id = s.id'")
        if self.target_name.casefold() == self.source_name.casefold():
            raise InvalidInputError(
                f"the target and the source of the merge have the same name {self.target_name!r}; rename one"
            )

    def of_kinds(self, *kinds: MergeKind) -> tuple[MergeClause, ...]:
        """Return the clauses of some kinds, in order."""
        return tuple(clause for clause in self.clauses if clause.kind in kinds)

    def check(self) -> None:
        """Raise an error for a merge without clauses, or with unreachable ones."""
        if not self.clauses:
            raise InvalidInputError(
                "the merge has no clause; add one, such as .when_matched_update().when_not_matched_insert()"
            )
        for kinds in (
            (MergeKind.MATCHED_UPDATE, MergeKind.MATCHED_DELETE),
            (MergeKind.INSERT,),
            (MergeKind.UNMATCHED_UPDATE, MergeKind.UNMATCHED_DELETE),
        ):
            for clause in self.of_kinds(*kinds)[:-1]:
                if clause.where is None:
                    raise InvalidInputError(
                        f"`{clause.kind.value}` has no `where` and is not the last of its kind; "
                        "later clauses would never apply"
                    )


def resolve_clause_values(
    clause: MergeClause, schema: Schema, source_columns: Sequence[str], plan: MergePlan
) -> dict[str, Assignable]:
    """Return the values of a clause by the columns' exact names."""
    if clause.values is not None:
        return resolve_assignments(clause.values, schema)
    if clause.kind is MergeKind.UNMATCHED_UPDATE:
        raise InvalidInputError(f"`{clause.kind.value}` has no source row; give the values to set")
    available = {name.casefold(): name for name in source_columns}
    common = [column.name for column in schema.columns if column.name.casefold() in available]
    if not common:
        raise InvalidInputError(
            f"the source has none of the table's columns ({', '.join(schema.names)}); give the values to set"
        )
    return {name: Expr(f"{_quote(plan.source_name)}.{_quote(available[name.casefold()])}") for name in common}


def find_equality_columns(on: Expression, plan: MergePlan) -> list[tuple[str, str]]:
    """Return the table columns that must equal source columns, each with its source column."""
    pairs = (match_equality(condition, plan) for condition in split_conjuncts(on))
    return [pair for pair in pairs if pair is not None]


def match_equality(condition: Expression, plan: MergePlan) -> tuple[str, str] | None:
    """Return the table column and the source column if the condition is their equality."""
    target, source = plan.target_name.casefold(), plan.source_name.casefold()
    match condition:
        case BinaryOp("=", ColumnPath((first, one)), ColumnPath((second, other))):
            sides = (first.casefold(), second.casefold())
            return (one, other) if sides == (target, source) else (other, one) if sides == (source, target) else None
        case _:
            return None


def find_matched_keys(plan: MergePlan, keys: Sequence[Column]) -> dict[str, str] | None:
    """Return the case-folded source column of each key if `on` is exactly the equality of all keys, else None."""
    try:
        conditions = split_conjuncts(parse_expression(plan.on))
    except InvalidInputError:
        return None
    pairs = [pair for pair in (match_equality(one, plan) for one in conditions) if pair is not None]
    found = {ours.casefold(): theirs.casefold() for ours, theirs in pairs}
    if not len(keys) == len(conditions) == len(pairs) or found.keys() != {key.name.casefold() for key in keys}:
        return None
    return {key.name: found[key.name.casefold()] for key in keys}


def find_source_column(value: Assignable, plan: MergePlan) -> str | None:
    """Return the case-folded name of the source column that a value is, or None for any other value."""
    if not isinstance(value, Expr):
        return None
    try:
        expression = to_expression(value)
    except InvalidInputError:
        return None
    match expression:
        case ColumnPath((qualifier, name)) if qualifier.casefold() == plan.source_name.casefold():
            return name.casefold()
        case _:
            return None


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

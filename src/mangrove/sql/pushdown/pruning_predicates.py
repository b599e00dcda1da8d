"""Conversion of pushed-down conditions to predicates for file pruning.

Supported are comparisons of a column, or of a period of it, with a constant, combined
with AND, OR and NOT, if Spark and predicates compare the values in the same way. If an
outer join may replace a row by nulls, a condition restricts the table only if a row of
nulls does not satisfy it.
"""

import decimal
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from mangrove.errors import InvalidInputError
from mangrove.expressions.literals import build_comparison
from mangrove.expressions.predicates import (
    AllOf,
    AnyOf,
    ColumnComparison,
    ConstantPredicate,
    IsNull,
    Operator,
    Predicate,
    StartsWith,
    negate_predicate,
)
from mangrove.model.schema import Schema
from mangrove.model.types import Boolean, Column, Varchar
from mangrove.sql.parse.table_refs import parse_query_tree
from mangrove.sql.pushdown.constant_folding import ConstantResolver
from mangrove.sql.pushdown.monotonic_functions import rewrite_monotonic_comparison
from mangrove.sql.pushdown.predicates import PushedAlternatives, PushedFilter, PushedPredicate
from mangrove.sql.pushdown.scopes import has_only_known_args

__all__ = ["build_condition_predicate", "build_exact_predicate", "build_table_predicate"]

_OPERATORS: Final[dict[type, Operator]] = {
    exp.EQ: Operator.EQUAL,
    exp.NEQ: Operator.UNEQUAL,
    exp.LT: Operator.LESS,
    exp.LTE: Operator.LESS_OR_EQUAL,
    exp.GT: Operator.GREATER,
    exp.GTE: Operator.GREATER_OR_EQUAL,
}
_PLAIN_PATTERN: Final = re.compile(r"[^%_\\]+%?")


def build_table_predicate(pushed: PushedPredicate, schema: Schema, constants: ConstantResolver) -> Predicate | None:
    """Return a predicate that all table rows relevant to the query satisfy, or None if there is none."""
    found = [predicate for part in pushed if (predicate := _read(part, schema, constants)) is not None]
    found = [predicate for predicate in dict.fromkeys(found) if predicate != ConstantPredicate(holds=True)]
    return AllOf(tuple(found)) if len(found) > 1 else next(iter(found), None)


def build_condition_predicate(
    condition: str, names: Collection[str], schema: Schema, time_zone: Callable[[], str], *, is_exact: bool
) -> Predicate | None:
    """Return the predicate that is equivalent to a condition on one table, or None if there is none.

    If it need not be exact, return a predicate that the condition implies.
    """
    # Between brackets, or a LIMIT behind the condition would be understood, and forgotten.
    tree = parse_query_tree(f"SELECT * FROM t WHERE ({condition})")  # noqa: S608 - it is only parsed
    where = None if tree is None else tree.args.get("where")
    if where is None:
        return None
    return _read_condition(where.this, names, schema, ConstantResolver(time_zone), is_exact=is_exact)


def build_exact_predicate(
    condition: exp.Expr, names: Collection[str], schema: Schema, constants: ConstantResolver
) -> Predicate | None:
    """Return the predicate that is equivalent to a parsed condition on the table with these names, or None."""
    return _read_condition(condition, names, schema, constants, is_exact=True)


def _read_condition(
    condition: exp.Expr, names: Collection[str], schema: Schema, constants: ConstantResolver, *, is_exact: bool
) -> Predicate | None:
    folded = {name.casefold() for name in names}

    def name_of(column: Any) -> str | None:
        is_own_column = len(column.parts) == 1 or (len(column.parts) == 2 and column.table.casefold() in folded)
        return column.name.casefold() if is_own_column and isinstance(column.this, exp.Identifier) else None

    requested = PushedFilter(condition, (), name_of, is_beside_nulls=False)
    return _Reader(requested, schema, constants).predicate(requested.node, is_exact=is_exact)


def _read(part: PushedFilter | PushedAlternatives, schema: Schema, constants: ConstantResolver) -> Predicate | None:
    if isinstance(part, PushedAlternatives):
        each = [build_table_predicate(pushed, schema, constants) for pushed in part.pushed_predicates]
        known = tuple(dict.fromkeys(predicate for predicate in each if predicate is not None))
        if None in each:
            return None
        return known[0] if len(known) == 1 else AnyOf(known)
    predicate = _Reader(part, schema, constants).predicate(part.node, is_exact=False)
    return None if predicate is not None and part.is_beside_nulls and _holds_for_nulls(predicate) else predicate


def _holds_for_nulls(predicate: Predicate) -> bool:
    """Return whether a row of only nulls satisfies it."""
    match predicate:
        case ConstantPredicate(holds):
            return holds
        case IsNull(_, negated):
            return not negated
        case AllOf(parts):
            return all(_holds_for_nulls(part) for part in parts)
        case AnyOf(parts):
            return any(_holds_for_nulls(part) for part in parts)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class _DerivedExpression:
    """An expression and the number of SELECTs that it is nested in."""

    node: Any
    depth: int


@dataclass(frozen=True, slots=True)
class _Reader:
    """Converts a condition to a predicate on one table; None means unknown."""

    requested: PushedFilter
    schema: Schema
    constants: ConstantResolver

    def predicate(self, node: Any, *, is_exact: bool) -> Predicate | None:
        """Return an equivalent predicate or, if it need not be exact, an implied one."""
        match node:
            case exp.Paren():
                return self.predicate(node.this, is_exact=is_exact)
            case exp.Boolean():
                return ConstantPredicate(bool(node.this))
            case exp.Column():
                column = self._column(self._unwrap(node))
                is_boolean = column is not None and isinstance(column.type, Boolean)
                return (
                    ColumnComparison(column.id, Operator.EQUAL, value=True)
                    if column is not None and is_boolean
                    else None
                )
            case exp.And() | exp.Or():
                return self._convert_connector(node, is_exact=is_exact)
            case exp.Not() if has_only_known_args(node, "this"):
                inner = self.predicate(node.this, is_exact=True)
                return None if inner is None else negate_predicate(inner)
            case exp.Between() if has_only_known_args(node, "this", "low", "high"):
                low = self._convert_comparison(Operator.GREATER_OR_EQUAL, node.this, node.args["low"])
                high = self._convert_comparison(Operator.LESS_OR_EQUAL, node.this, node.args["high"])
                return _both(low, high, is_exact=is_exact)
            case exp.In() if has_only_known_args(node, "this", "expressions"):
                return self._convert_in(node, is_exact=is_exact)
            case exp.Is() if has_only_known_args(node, "this", "expression") and isinstance(node.expression, exp.Null):
                column = self._column(self._unwrap(node.this))
                return None if column is None else IsNull(column.id)
            case exp.Like() if has_only_known_args(node, "this", "expression", "negate"):
                found = self._convert_like(node)
                return negate_predicate(found) if found is not None and node.args.get("negate") else found
            case exp.NullSafeEQ() | exp.NullSafeNEQ() if has_only_known_args(node, "this", "expression"):
                is_same = isinstance(node, exp.NullSafeEQ)
                found = self._convert_null_safe_equality(node, is_exact=is_exact or not is_same)
                return found if is_same or found is None else negate_predicate(found)
            case _ if type(node) in _OPERATORS and has_only_known_args(node, "this", "expression"):
                operator = _OPERATORS[type(node)]
                found = self._convert_comparison(operator, node.left, node.right)
                return (
                    found if found is not None else self._convert_comparison(operator.mirrored, node.right, node.left)
                )
            case _:
                return None

    def _convert_connector(self, node: Any, *, is_exact: bool) -> Predicate | None:
        left = self.predicate(node.left, is_exact=is_exact)
        right = self.predicate(node.right, is_exact=is_exact)
        if isinstance(node, exp.And):
            return _both(left, right, is_exact=is_exact)
        return None if left is None or right is None else AnyOf((left, right))

    def _convert_comparison(self, operator: Operator, left: Any, right: Any) -> Predicate | None:
        made, beside = self._unwrap(left), self._unwrap(right)
        if made is None or beside is None:
            return None
        column = self._column(made)
        try:
            if column is None:
                return self._convert_derived_comparison(operator, made, beside)
            constant = self.constants.beside(column, beside.node)
            return None if constant is None else build_comparison(column, operator, constant)
        except InvalidInputError:
            # The column cannot hold such a value; what that means is left to Spark.
            return None

    def _convert_null_safe_equality(self, node: Any, *, is_exact: bool) -> Predicate | None:
        """Return the null-safe equality of a column and a constant."""
        for left, right in ((node.left, node.right), (node.right, node.left)):
            column = self._column(self._unwrap(left))
            if column is None or isinstance(right.unnest(), exp.Column):
                # What hands a constant on may hand on null instead, where there is no row.
                continue
            if isinstance(right.unnest(), exp.Null):
                return IsNull(column.id)
            found = self._convert_comparison(Operator.EQUAL, left, right)
            is_there = IsNull(column.id, negated=True)
            return AllOf((is_there, found)) if found is not None and is_exact else found
        return None

    def _convert_derived_comparison(
        self, operator: Operator, made: _DerivedExpression, beside: _DerivedExpression
    ) -> Predicate | None:
        """Return the comparison of a derived column, or of a constant in place of a column."""
        if isinstance(made.node, exp.Literal):
            # Where an outer join may put null in its place, it is no constant.
            is_constant = not self.requested.is_beside_nulls or made.depth == beside.depth == 0
            return _compare_constants(operator, made.node, beside.node) if is_constant else None
        return rewrite_monotonic_comparison(
            made.node, operator, beside.node, self.constants, lambda node: self._column(self._unwrap(node, made.depth))
        )

    def _convert_in(self, node: exp.In, *, is_exact: bool) -> Predicate | None:
        # Nothing is equal to null; but with it in the list, nothing is for certain not in the list.
        listed = [one for one in node.expressions if is_exact or not isinstance(one, exp.Null)]
        parts = [self._convert_comparison(Operator.EQUAL, node.this, one) for one in listed]
        known = tuple(part for part in parts if part is not None)
        return AnyOf(known) if known and len(known) == len(parts) else None

    def _convert_like(self, node: exp.Like) -> Predicate | None:
        column = self._column(self._unwrap(node.this))
        pattern = node.expression
        if column is None or not isinstance(column.type, Varchar) or not isinstance(pattern, exp.Literal):
            return None
        if not pattern.is_string or not _PLAIN_PATTERN.fullmatch(pattern.this):
            return None
        if pattern.this.endswith("%"):
            return StartsWith(column.id, pattern.this[:-1])
        return ColumnComparison(column.id, Operator.EQUAL, pattern.this)

    def _unwrap(self, node: Any, depth: int = 0) -> _DerivedExpression | None:
        """Return the expression without wrappers that only pass it on."""
        while isinstance(node, exp.Paren) or (isinstance(node, exp.Column) and depth < len(self.requested.paths)):
            if isinstance(node, exp.Paren):
                node = node.this
            else:
                node = self.requested.paths[depth](node)
                depth += 1
        return None if node is None else _DerivedExpression(node, depth)

    def _column(self, made: _DerivedExpression | None) -> Column | None:
        if made is None or not isinstance(made.node, exp.Column):
            return None
        name = self.requested.name_of(made.node)
        return next((column for column in self.schema.columns if column.name.casefold() == name), None)


def _both(left: Predicate | None, right: Predicate | None, *, is_exact: bool) -> Predicate | None:
    if left is not None and right is not None:
        return AllOf((left, right))
    return None if is_exact else left or right


def _compare_constants(operator: Operator, left: exp.Literal, right: Any) -> Predicate | None:
    """Return the result of comparing two constants of the same kind."""
    if not isinstance(right, exp.Literal) or left.is_string != right.is_string:
        return None
    one, other = (_value(literal) for literal in (left, right))
    if one is None or other is None:
        return None
    if operator is Operator.EQUAL or operator is Operator.UNEQUAL:
        return ConstantPredicate((one == other) == (operator is Operator.EQUAL))
    return None


def _value(literal: exp.Literal) -> str | decimal.Decimal | None:
    if literal.is_string:
        return str(literal.this)
    return decimal.Decimal(literal.this) if literal.this.isdecimal() else None

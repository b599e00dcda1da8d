"""Reading from a query which rows of a table it can use at all, so that files without such rows are never opened.

Only conditions that are certain are taken: comparisons of a column with a
literal, where Spark and we compare alike, joined by AND, OR and NOT. A condition
of WHERE, or of an inner join, holds for every row that survives. Where an outer
join may add a row of nulls in a table's place, only a condition that such a row
does not fulfil says something about the table.
"""

import datetime
import decimal
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from sqlglot import exp

from mangrove.errors import InvalidInputError
from mangrove.model.schema import Schema
from mangrove.model.types import (
    Boolean,
    Column,
    Date,
    Decimal,
    Float8,
    Int2,
    Int4,
    Int8,
    Timestamp,
    TimestampTz,
    Varchar,
)
from mangrove.sql.mentions import parsed_tree
from mangrove.tables.literals import comparison
from mangrove.tables.predicates import (
    AllOf,
    AnyOf,
    Comparison,
    Constant,
    IsNull,
    Operator,
    Predicate,
    StartsWith,
    negation,
)

__all__ = ["certain_predicate", "exact_predicate"]

_OPERATORS: Final[dict[type, Operator]] = {
    exp.EQ: Operator.EQUAL,
    exp.NEQ: Operator.UNEQUAL,
    exp.LT: Operator.LESS,
    exp.LTE: Operator.LESS_OR_EQUAL,
    exp.GT: Operator.GREATER,
    exp.GTE: Operator.GREATER_OR_EQUAL,
}
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?)?")
_NUMBERS: Final = (Int2, Int4, Int8, Decimal, Float8)
_PLAIN_PATTERN: Final = re.compile(r"[^%_\\]+%?")


def certain_predicate(table: exp.Table, schema: Schema, time_zone: Callable[[], str]) -> Predicate | None:
    """Return what every row of the table fulfils that can matter to the query, or None where that may be any row."""
    select = table.find_ancestor(exp.Select)
    if select is None or select.args.get("sample") or not _has_only(table, "this", "db", "alias", "version"):
        return None
    alias = table.args.get("alias")
    if alias is not None and not _has_only(alias, "this"):
        # Its columns are called otherwise here.
        return None
    source = select.args.get("from_")
    own_join = table.parent if isinstance(table.parent, exp.Join) else None
    if not (own_join is not None and own_join.parent is select) and not (source is not None and source.this is table):
        return None
    joins: list[exp.Join] = select.args.get("joins") or []
    if not all(_has_only(join, "this", "on", "side", "kind") for join in joins):
        return None
    if own_join is not None and own_join.kind in ("SEMI", "ANTI"):
        # Its columns are out of sight behind the join.
        return None
    reader = _Reader(table.alias_or_name, schema, time_zone)
    adds_nulls = any(join.side for join in joins if join.kind not in ("SEMI", "ANTI"))
    found = [
        predicate
        for condition in _conditions(select, joins)
        if (predicate := reader.predicate(condition)) is not None
        if not (adds_nulls and _holds_for_nulls(predicate))
    ]
    if own_join is not None and own_join.side == "LEFT" and not own_join.kind:
        # What the join itself asks of its right side, no row that fails it is ever joined.
        found += [predicate for one in _parts(own_join.args.get("on")) if (predicate := reader.predicate(one))]
    return AllOf(tuple(found)) if len(found) > 1 else next(iter(found), None)


def exact_predicate(
    condition: str, names: Collection[str], schema: Schema, time_zone: Callable[[], str]
) -> Predicate | None:
    """Return the predicate that a condition on one table is, or None where it says more than predicates do."""
    tree = parsed_tree(f"SELECT * FROM t WHERE {condition}")  # noqa: S608 - it is only parsed
    if tree is None:
        return None
    where = tree.args.get("where")
    found = [_Reader(name, schema, time_zone).predicate(where.this) for name in names] if where is not None else []
    return next((predicate for predicate in found if predicate is not None), None)


def _has_only(node: Any, *allowed: str) -> bool:
    """Return whether a node says nothing but what we know; a later sqlglot may put more into it."""
    return {name for name, value in node.args.items() if value and not name.startswith("_")} <= set(allowed)


def _conditions(select: exp.Select, joins: list[exp.Join]) -> Iterator[Any]:
    where = select.args.get("where")
    if where is not None:
        yield from _parts(where.this)
    for join in joins:
        if not join.side and join.kind in ("", "INNER", "CROSS"):
            yield from _parts(join.args.get("on"))


def _parts(condition: Any) -> Iterator[Any]:
    """Yield what is joined by AND."""
    if isinstance(condition, exp.Paren):
        yield from _parts(condition.this)
    elif isinstance(condition, exp.And):
        yield from _parts(condition.left)
        yield from _parts(condition.right)
    elif condition is not None:
        yield condition


def _holds_for_nulls(predicate: Predicate) -> bool:
    """Return whether a row of nulls alone fulfils it."""
    match predicate:
        case Constant(holds):
            return holds
        case IsNull(_, negated):
            return not negated
        case AllOf(parts):
            return all(_holds_for_nulls(part) for part in parts)
        case AnyOf(parts):
            return any(_holds_for_nulls(part) for part in parts)
        case _:
            return False


class _Reader:
    """Turns conditions into predicates on one table; None stands for whatever is not certain."""

    def __init__(self, alias: str, schema: Schema, time_zone: Callable[[], str]) -> None:
        self._alias = alias.casefold()
        self._schema = schema
        self._time_zone = time_zone

    def predicate(self, node: Any) -> Predicate | None:
        match node:
            case exp.Paren():
                return self.predicate(node.this)
            case exp.And() | exp.Or():
                left, right = self.predicate(node.left), self.predicate(node.right)
                if left is None or right is None:
                    return None
                return AllOf((left, right)) if isinstance(node, exp.And) else AnyOf((left, right))
            case exp.Not() if _has_only(node, "this"):
                inner = self.predicate(node.this)
                return None if inner is None else negation(inner)
            case exp.Between() if _has_only(node, "this", "low", "high"):
                low = self._compared(Operator.GREATER_OR_EQUAL, node.this, node.args["low"])
                high = self._compared(Operator.LESS_OR_EQUAL, node.this, node.args["high"])
                return None if low is None or high is None else AllOf((low, high))
            case exp.In() if _has_only(node, "this", "expressions"):
                return self._listed(node)
            case exp.Is() if _has_only(node, "this", "expression") and isinstance(node.expression, exp.Null):
                column = self._column(node.this)
                return None if column is None else IsNull(column.id)
            case exp.Like() if _has_only(node, "this", "expression", "negate"):
                found = self._like(node)
                return negation(found) if found is not None and node.args.get("negate") else found
            case _ if type(node) in _OPERATORS and _has_only(node, "this", "expression"):
                operator = _OPERATORS[type(node)]
                if isinstance(node.left, exp.Column):
                    return self._compared(operator, node.left, node.right)
                return self._compared(operator.mirrored, node.right, node.left)
            case _:
                return None

    def _compared(self, operator: Operator, left: Any, right: Any) -> Predicate | None:
        column = self._column(left)
        if column is None:
            return None
        literal = self._literal(column, right)
        if literal is None:
            return None
        try:
            return comparison(column, operator, literal)
        except InvalidInputError:
            # The column cannot hold such a value; what that means is left to Spark.
            return None

    def _listed(self, node: exp.In) -> Predicate | None:
        parts = [self._compared(Operator.EQUAL, node.this, one) for one in node.expressions]
        known = tuple(part for part in parts if part is not None)
        return AnyOf(known) if known and len(known) == len(parts) else None

    def _like(self, node: exp.Like) -> Predicate | None:
        column = self._column(node.this)
        pattern = node.expression
        if column is None or not isinstance(column.type, Varchar) or not isinstance(pattern, exp.Literal):
            return None
        if not pattern.is_string or not _PLAIN_PATTERN.fullmatch(pattern.this):
            return None
        if pattern.this.endswith("%"):
            return StartsWith(column.id, pattern.this[:-1])
        return Comparison(column.id, Operator.EQUAL, pattern.this)

    def _column(self, node: Any) -> Column | None:
        """Return the column of this table that is meant; one that other tables have too, Spark refuses anyway."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        parts = [part.name for part in node.parts]
        if len(parts) > 2 or (len(parts) == 2 and parts[0].casefold() != self._alias):
            return None
        name = parts[-1].casefold()
        return next((column for column in self._schema.columns if column.name.casefold() == name), None)

    def _literal(self, column: Column, node: Any) -> "str | decimal.Decimal | bool | None":
        """Return the literal, if Spark would compare it with the column in just the way that we do."""
        if isinstance(node, exp.Paren):
            return self._literal(column, node.this)
        if isinstance(column.type, _NUMBERS):
            return _number(node)
        if isinstance(column.type, Boolean):
            return bool(node.this) if isinstance(node, exp.Boolean) else None
        text = _text(node, column)
        match column.type:
            case Varchar():
                return text if isinstance(node, exp.Literal) else None
            case Date():
                return text if text is not None and _DAY.fullmatch(text) and _is_day(text) else None
            case Timestamp():
                return text if text is not None and _TIME.fullmatch(text) and _is_time(text) else None
            case TimestampTz():
                is_plain = self._time_zone().upper() in ("UTC", "ETC/UTC", "Z", "+00:00", "GMT")
                return text if is_plain and text is not None and _TIME.fullmatch(text) and _is_time(text) else None
            case _:
                return None


def _number(node: Any) -> decimal.Decimal | None:
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this
    if not isinstance(node, exp.Literal) or node.is_string or not _NUMBER.fullmatch(node.this):
        # With an exponent or a letter behind it, Spark compares floating-point numbers.
        return None
    return sign * decimal.Decimal(node.this)


def _text(node: Any, column: Column) -> str | None:
    """Return the text of a literal such as 'x', date '…' or timestamp '…', the latter two only of the column's type."""
    if isinstance(node, exp.Literal):
        return node.this if node.is_string else None
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        kinds = {
            exp.DType.DATE: Date,
            exp.DType.TIMESTAMPTZ: TimestampTz,
            exp.DType.TIMESTAMPLTZ: TimestampTz,
            exp.DType.TIMESTAMPNTZ: Timestamp,
        }
        wanted = kinds.get(node.to.this)
        return node.this.this if wanted is not None and isinstance(column.type, wanted) else None
    return None


def _is_day(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True

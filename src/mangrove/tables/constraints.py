"""Column defaults and check constraints."""

import datetime
import decimal
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.expressions.expr import Cast, Expression, Literal, RequiresSparkError, collect_column_paths
from mangrove.expressions.parse import parse_expression, tokenize_condition
from mangrove.model.names import check_name, suggest_name
from mangrove.model.objects import CHECK_PREFIX, TableVersion
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.types import (
    Binary,
    Boolean,
    Char,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Float32,
    Float64,
    Int16,
    Int32,
    Int64,
    Timestamp,
    TimestampTz,
    Varchar,
)

__all__ = [
    "SUBQUERY_REFUSED",
    "add_check_constraint",
    "build_check_violation_error",
    "check_column_not_constrained",
    "check_constraints_of",
    "check_default",
    "check_defaults",
    "check_stored_expression",
    "drop_check_constraint",
    "find_subquery",
]


SUBQUERY_REFUSED: Final = "contains a subquery; use a condition on the columns of one row"


_RUNS_JAVA: Final = frozenset({"java_method", "reflect", "try_reflect"})
"""Spark functions that call any Java method."""


def check_constraints_of(version: TableVersion) -> dict[str, str]:
    """Return the check constraints by name."""
    conditions = {
        name.removeprefix(CHECK_PREFIX): text
        for name, text in version.properties.items()
        if name.startswith(CHECK_PREFIX)
    }
    for name, text in conditions.items():
        check_stored_expression(text, f"the check {name!r}")
    return conditions


def check_stored_expression(text: str, what: str) -> None:
    """Raise an error for a stored expression that calls Java code, which would run in the Spark session of a reader."""
    tokens = tokenize_condition(text)
    for name, bracket in itertools.pairwise(tokens):
        if name.is_name and name.value.lower() in _RUNS_JAVA and bracket.is_mark and bracket.value == "(":
            raise InvalidInputError(
                f"{what} calls {name.value}, which runs Java code and is not allowed; remove the call"
            )


def find_subquery(condition: str) -> int | None:
    """Return the position of the first subquery, or None.

    >>> find_subquery("a in (select b from t)"), find_subquery("(values > 3) and 'in (select 1)' <> a")
    (6, None)
    """
    tokens = tokenize_condition(condition)
    for mark, word, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if mark.is_mark and mark.value == "(" and word.is_word:
            is_name = following.is_name
            match word.value.upper():
                case "SELECT":
                    return word.start
                case "WITH" | "FROM" | "TABLE" if is_name:
                    # On their own they may be column names.
                    return word.start
                case "VALUES" if following.value == "(":
                    return word.start
    return None


def check_column_not_constrained(version: TableVersion, path: Sequence[str]) -> None:
    """Raise an error on dropping or renaming a column that a check constraint uses."""
    for name, condition in check_constraints_of(version).items():
        if _uses_column(condition, path):
            raise InvalidInputError(
                f"column {'.'.join(path)!r} is used by check {name!r} ({condition}); drop the check first"
            )


def _uses_column(condition: str, path: Sequence[str]) -> bool:
    """Return whether a condition uses a column, or a field of it.

    >>> _uses_column("`A`.b > 1", ["a", "b"]), _uses_column("b.a > 1 or 'a' = a(1)", ["a"])
    (True, False)
    """
    folded_path = [part.casefold() for part in path]
    tokens, chain = tokenize_condition(condition), list[str]()
    for token, following in itertools.pairwise(tokens):
        if not token.is_name:
            chain = chain if chain and token.value == "." else []
            continue
        chain = [*chain, token.value.casefold()]
        if following.value != "." or not following.is_mark:
            is_call = following.is_mark and following.value == "("
            if chain[: len(folded_path)] == folded_path and not is_call:
                return True
            chain = []
    return False


def add_check_constraint(version: TableVersion, name: str, condition: str) -> TableVersion:
    """Return the table version with one more check constraint."""
    check_name(name, "check")
    if name in check_constraints_of(version):
        raise AlreadyExistsError(f"check {name!r} already exists; drop it first")
    if not condition.strip():
        raise InvalidInputError(f"check {name!r} has no condition; give one, such as 'amount >= 0'")
    check_stored_expression(condition, f"the check {name!r}")
    if find_subquery(condition) is not None:
        raise InvalidInputError(f"check {name!r} {SUBQUERY_REFUSED}")
    return replace(version, properties={**version.properties, CHECK_PREFIX + name: condition})


def drop_check_constraint(version: TableVersion, name: str) -> TableVersion:
    """Return the table version without one of its conditions."""
    if CHECK_PREFIX + name not in version.properties:
        existing = list(check_constraints_of(version))
        raise NotFoundError(f"check {name!r} does not exist{suggest_name(name, existing) if existing else ''}")
    left = {key: text for key, text in version.properties.items() if key != CHECK_PREFIX + name}
    return replace(version, properties=left)


def build_check_violation_error(table: str, name: str, condition: str, examples: object) -> InvalidInputError:
    """Return the error for rows that violate a check constraint."""
    return InvalidInputError(
        f"some rows for {table} violate check {name!r} ({condition}), for example {examples}; "
        "correct them or drop the check"
    )


_WITHOUT_BRACKETS: Final = frozenset(
    {"current_catalog", "current_date", "current_timestamp", "current_user", "localtimestamp", "session_user", "user"}
)
"""Functions without parentheses, which look like columns."""
_BITS: Final[dict[type, int]] = {Int16: 16, Int32: 32, Int64: 64}
_KINDS: Final[dict[type, str]] = {
    **dict.fromkeys((Int16, Int32, Int64, Decimal, Float32, Float64), "a number"),
    **dict.fromkeys((Char, Varchar), "text"),
    **dict.fromkeys((Date, Timestamp, TimestampTz), "a date or time"),
    **dict.fromkeys((Binary, Fixed), "bytes"),
    Boolean: "true or false",
}
_KINDS_OF_LITERALS: Final[dict[type, str]] = {
    **dict.fromkeys((int, float, decimal.Decimal), "a number"),
    **dict.fromkeys((datetime.date, datetime.datetime), "a date or time"),
    str: "text",
    bytes: "bytes",
    bool: "true or false",
}

_OF_SEVERAL_ROWS: Final = frozenset(
    {"any_value", "avg", "collect_list", "collect_set", "count", "dense_rank", "first", "first_value", "lag", "last"}
    | {"last_value", "lead", "max", "mean", "min", "over", "rank", "row_number", "sum"}
)
_EXACT: Final = decimal.Context(prec=400)
_FLOAT4_END: Final = (2 - decimal.Decimal(2) ** -24) * decimal.Decimal(2) ** 127
"""Larger numbers become infinite as a 32-bit float."""


def check_defaults(schema: Schema) -> None:
    """Raise an error for a schema with a default that cannot be a value of its column."""
    for column in schema.columns:
        check_default(column)


def check_default(column: Column) -> None:
    """Raise an error for a default that uses columns, or whose value has the wrong type or is too large.

    Expressions that only Spark can evaluate are left to Spark.
    """
    if column.default is None:
        return
    check_stored_expression(column.default, f"the default of column {column.name!r}")
    _reject_row_dependence(column.name, column.default)
    try:
        expression = parse_expression(column.default)
    except RequiresSparkError:
        return
    named = sorted(
        ".".join(names) for names in collect_column_paths(expression) if names[-1].lower() not in _WITHOUT_BRACKETS
    )
    if named:
        raise InvalidInputError(
            f"the default {column.default} of column {column.name!r} references column {named[0]!r}; a default "
            "cannot use columns, give a value, with strings in quotes"
        )
    given, expected = _kind_of(expression), _KINDS.get(type(column.type))
    if given is not None and given != expected and (expected != "text" or given == "bytes"):
        raise InvalidInputError(
            f"the default {column.default} of column {column.name!r} is {given}, but the column is "
            f"{format_type(column.type)}; use cast(… as {format_type(column.type)})"
        )
    if isinstance(expression, Literal) and not _is_in_range(expression, column.type):
        raise InvalidInputError(
            f"the default {column.default} of column {column.name!r} is out of range for {format_type(column.type)}; "
            "give a smaller value, or widen the column first"
        )


def _reject_row_dependence(name: str, default: str) -> None:
    """Raise an error for a default that depends on several rows: queries, aggregates and windows."""
    tokens = tokenize_condition(default)
    calls = [one.value.lower() for one, other in itertools.pairwise(tokens) if other.value == "("]
    of_rows = next((call for call in calls if call in _OF_SEVERAL_ROWS), None)
    if find_subquery(default) is not None or of_rows is not None:
        what = "a query" if of_rows is None else of_rows
        raise InvalidInputError(
            f"the default {default} of column {name!r} has {what}, which depends on several rows; give a value"
        )


def _kind_of(expression: Expression) -> str | None:
    """Return the kind of value of an expression, or None if it is known only at evaluation."""
    match expression:
        case Literal(value):
            return _KINDS_OF_LITERALS.get(type(value))
        case Cast(_, data_type):
            return _KINDS.get(type(data_type))
        case _:
            return None


def _is_in_range(literal: Literal, data_type: DataType) -> bool:
    value = literal.value
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return True
    exact = decimal.Decimal(value)
    if not exact.is_finite():
        return False
    if type(data_type) in _BITS:
        end = 1 << (_BITS[type(data_type)] - 1)
        return -end <= int(exact) < end
    if isinstance(data_type, Decimal):
        half_unit = decimal.Decimal(5).scaleb(-data_type.scale - 1)
        too_much = decimal.Decimal(10).scaleb(data_type.precision - data_type.scale - 1)
        return _EXACT.add(exact.copy_abs(), half_unit) < too_much
    return not isinstance(data_type, Float32) or exact.copy_abs() < _FLOAT4_END

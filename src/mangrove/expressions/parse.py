"""Parsing of expressions, predicates and conditions.

One parser, sqlglot, reads all of them. An expression is what the engines evaluate.
A predicate is the normal form of a condition that prunes files: comparisons of
columns with values, joined by `and`, `or` and `not`.

sqlglot takes long to import, so it is imported when the first text is parsed.
"""

# ruff: noqa: PLC0415
from dataclasses import dataclass
from typing import NamedTuple

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.expressions.expr import Expression, RequiresSparkError
from mangrove.expressions.predicates import ConstantPredicate, Predicate
from mangrove.model.schema import Schema

__all__ = [
    "ALL_ROWS",
    "Condition",
    "ConditionToken",
    "SparkCondition",
    "bind_predicate",
    "check_not_empty",
    "parse_condition",
    "parse_expression",
    "parse_predicate",
    "parse_pruning_predicate",
    "tokenize_condition",
]


@dataclass(frozen=True, slots=True)
class SparkCondition:
    """A condition that only Spark can evaluate, and a predicate that it implies."""

    text: str
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Condition:
    """A predicate or a local expression; exactly one of them is set."""

    predicate: Predicate | None = None
    expression: Expression | None = None


class ConditionToken(NamedTuple):
    """A token of a condition; `value` is a name without its backticks, or a symbol."""

    value: str
    start: int
    is_word: bool = False
    is_name: bool = False
    """Whether it can be part of a name: a word, or quoted with backticks."""

    @property
    def is_mark(self) -> bool:
        """Whether it is neither a name nor a value."""
        return not self.is_name and len(self.value) == 1


ALL_ROWS = Condition(ConstantPredicate(holds=True))


def check_not_empty(text: str, what: str = "expression") -> None:
    """Raise an error for an empty text."""
    if not text.strip():
        raise InvalidInputError(f"the {what} is empty; give one, such as amount > 0")


def parse_expression(text: str) -> Expression:
    """Parse an expression; raise RequiresSparkError for syntax that only Spark supports."""
    from mangrove.expressions.sql_tree import SqlText, parse_sql_tree
    from mangrove.expressions.tree_to_expression import convert_expression

    check_not_empty(text)
    sql = SqlText(text, "expression", RequiresSparkError)
    return convert_expression(parse_sql_tree(sql), sql)


def parse_predicate(text: str, schema: Schema) -> Predicate:
    """Parse a predicate on the columns of `schema`; raise an error for unknown columns and invalid comparisons."""
    from mangrove.expressions.sql_tree import SqlText, parse_sql_tree
    from mangrove.expressions.tree_to_predicate import convert_predicate

    check_not_empty(text, "predicate")
    sql = SqlText(text, "predicate", advice="; to_spark(where=…) and SQL support any Spark condition")
    return convert_predicate(parse_sql_tree(sql), sql, schema)


def tokenize_condition(text: str) -> list[ConditionToken]:
    """Return the tokens of a Spark condition; the last one is empty."""
    from sqlglot import TokenType

    from mangrove.expressions.sql_tree import tokenize_text

    found = []
    for token in tokenize_text(text, "condition"):
        is_value = token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.RAW_STRING, TokenType.HEX_STRING)
        is_quoted = token.token_type is TokenType.IDENTIFIER
        is_word = not is_value and not is_quoted and token.text.replace("_", "a").isalnum()
        value = "" if is_value else token.text
        found.append(ConditionToken(value, token.start, is_word, is_word or is_quoted))
    return [*found, ConditionToken("", len(text))]


def bind_predicate(where: str | Predicate | None, schema: Schema) -> Predicate | None:
    """Return the predicate of an argument given as text or as a value, or None for all rows."""
    if isinstance(where, str):
        return parse_predicate(where, schema)
    if where is not None and not isinstance(where, Predicate):
        raise InvalidInputError(f"invalid `where` {where!r}; expected text such as 'amount < 0'")
    return where


def parse_condition(where: str | Predicate | SparkCondition | None, schema: Schema) -> Condition:
    """Return the condition for the local engine, or None for all rows."""
    if where is None:
        return ALL_ROWS
    if isinstance(where, SparkCondition):
        return Condition(expression=parse_expression(where.text))
    if not isinstance(where, str):
        return Condition(bind_predicate(where, schema))
    predicate = parse_pruning_predicate(where, schema)
    return Condition(predicate) if predicate is not None else Condition(expression=parse_expression(where))


def parse_pruning_predicate(where: str | Predicate | None, schema: Schema) -> Predicate | None:
    """Return the equivalent predicate of a text, or None if there is none."""
    try:
        return bind_predicate(where, schema)
    except MangroveError:
        if isinstance(where, str):
            return None
        raise

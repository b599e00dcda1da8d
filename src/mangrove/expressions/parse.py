"""Parsing of expressions, predicates and conditions.

One parser, sqlglot, reads all of them. An expression is what the engines evaluate.
A predicate is the normal form of a condition that prunes files: comparisons of
columns with values, joined by `and`, `or` and `not`.
"""

from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import TokenType

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.expressions.expr import Expression, RequiresSparkError
from mangrove.expressions.predicates import ConstantPredicate, Predicate
from mangrove.expressions.sql_tree import SqlText, parse_sql_tree, tokenize_text
from mangrove.expressions.tree_to_expression import convert_expression
from mangrove.expressions.tree_to_predicate import convert_predicate
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
    """A condition in words that only Spark understands, and a predicate that all rows fulfil for which it is true."""

    text: str
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Condition:
    """What a caller asked for; exactly one of the two is there."""

    predicate: Predicate | None = None
    expression: Expression | None = None


class ConditionToken(NamedTuple):
    """A piece of a condition; `value` is a name without its backticks, or a mark."""

    value: str
    start: int
    is_word: bool = False
    is_name: bool = False
    """Whether it can be part of a name: a word, or a text between backticks."""

    @property
    def is_mark(self) -> bool:
        """Whether it is neither a name nor a value."""
        return not self.is_name and len(self.value) == 1


ALL_ROWS = Condition(ConstantPredicate(holds=True))


def check_not_empty(text: str, what: str = "expression") -> None:
    """Refuse a text without content: no engine could say more about it."""
    if not text.strip():
        raise InvalidInputError(f"the {what} is empty: write one such as amount > 0")


def parse_expression(text: str) -> Expression:
    """Return the expression that `text` is; refuse what only Spark understands, saying so."""
    check_not_empty(text)
    sql = SqlText(text, "expression", RequiresSparkError)
    return convert_expression(parse_sql_tree(sql), sql)


def parse_predicate(text: str, schema: Schema) -> Predicate:
    """Return what `text` says about the columns of `schema`; refuse what it does not have or cannot compare."""
    check_not_empty(text, "predicate")
    sql = SqlText(text, "predicate", advice="; to_spark(where=…) and SQL take any condition of Spark's")
    return convert_predicate(parse_sql_tree(sql), sql, schema)


def tokenize_condition(text: str) -> list[ConditionToken]:
    """Return the tokens of any condition of Spark's, the last of which is empty."""
    found = []
    for token in tokenize_text(text, "condition"):
        is_value = token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.RAW_STRING, TokenType.HEX_STRING)
        is_quoted = token.token_type is TokenType.IDENTIFIER
        is_word = not is_value and not is_quoted and token.text.replace("_", "a").isalnum()
        value = "" if is_value else token.text
        found.append(ConditionToken(value, token.start, is_word, is_word or is_quoted))
    return [*found, ConditionToken("", len(text))]


def bind_predicate(where: str | Predicate | None, schema: Schema) -> Predicate | None:
    """Return the predicate that a caller gave as text or as a value, or None where all rows are meant."""
    if isinstance(where, str):
        return parse_predicate(where, schema)
    if where is not None and not isinstance(where, Predicate):
        raise InvalidInputError(f"`where` is {where!r}: give text such as 'amount < 0'")
    return where


def parse_condition(where: str | Predicate | SparkCondition | None, schema: Schema) -> Condition:
    """Return what `where` means to the engine in this process; None means all rows."""
    if where is None:
        return ALL_ROWS
    if isinstance(where, SparkCondition):
        return Condition(expression=parse_expression(where.text))
    if not isinstance(where, str):
        return Condition(bind_predicate(where, schema))
    predicate = parse_pruning_predicate(where, schema)
    return Condition(predicate) if predicate is not None else Condition(expression=parse_expression(where))


def parse_pruning_predicate(where: str | Predicate | None, schema: Schema) -> Predicate | None:
    """Return the predicate that a text is, or None where it says more than predicates do."""
    try:
        return bind_predicate(where, schema)
    except MangroveError:
        if isinstance(where, str):
            return None
        raise

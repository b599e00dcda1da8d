"""Which rows a text means: a predicate where that suffices, so that files can be skipped, else an expression."""

from dataclasses import dataclass

from mangrove.errors import MangroveError
from mangrove.model.schema import Schema
from mangrove.tables.expression_text import parse_expression
from mangrove.tables.expressions import Expression
from mangrove.tables.predicate_text import bound_predicate
from mangrove.tables.predicates import Constant, Predicate

__all__ = ["ALL_ROWS", "Condition", "Narrowed", "condition_of", "pruning_predicate"]


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A condition in words that only Spark understands, and a predicate that all rows fulfil for which it is true."""

    text: str
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Condition:
    """What a caller asked for; exactly one of the two is there."""

    predicate: Predicate | None = None
    expression: Expression | None = None


ALL_ROWS = Condition(Constant(holds=True))


def condition_of(where: str | Predicate | Narrowed | None, schema: Schema) -> Condition:
    """Return what `where` means to the engine in this process; None means all rows."""
    if where is None:
        return ALL_ROWS
    if isinstance(where, Narrowed):
        return Condition(expression=parse_expression(where.text))
    if not isinstance(where, str):
        return Condition(bound_predicate(where, schema))
    predicate = pruning_predicate(where, schema)
    return Condition(predicate) if predicate is not None else Condition(expression=parse_expression(where))


def pruning_predicate(where: str | Predicate | None, schema: Schema) -> Predicate | None:
    """Return the predicate that a text is, or None where it says more than predicates do."""
    try:
        return bound_predicate(where, schema)
    except MangroveError:
        if isinstance(where, str):
            return None
        raise

"""A predicate as text that Spark understands and that parses back to the same predicate."""

import datetime
import decimal
import math
from typing import assert_never

from mangrove.model.names import quoted_name
from mangrove.model.schema import Schema
from mangrove.model.sql_tokens import quoted_text
from mangrove.model.values import Value
from mangrove.tables.predicates import AllOf, AnyOf, Comparison, Constant, IsIn, IsNull, Predicate, StartsWith

__all__ = ["predicate_sql"]


def predicate_sql(predicate: Predicate, schema: Schema) -> str:
    """Return the text; columns are named as `schema` names them now."""
    match predicate:
        case Constant(holds):
            return "true" if holds else "false"
        case AllOf(parts):
            return "(" + " and ".join(predicate_sql(part, schema) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " or ".join(predicate_sql(part, schema) for part in parts) + ")"
        case Comparison() | IsNull() | IsIn() | StartsWith():
            name = ".".join(quoted_name(part) for part in schema.path_of(predicate.column_id))
            return _leaf_sql(predicate, name)
        case _:
            assert_never(predicate)


def _leaf_sql(leaf: Comparison | IsNull | IsIn | StartsWith, name: str) -> str:
    match leaf:
        case Comparison(_, operator, value):
            return f"{name} {operator.value} {_literal_sql(value)}"
        case IsNull(_, negated):
            return f"{name} is {'not ' if negated else ''}null"
        case IsIn(_, values, negated):
            return f"{name} {'not ' if negated else ''}in ({', '.join(map(_literal_sql, values))})"
        case StartsWith(_, prefix, negated):
            plain = prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            return f"{name} {'not ' if negated else ''}like {quoted_text(plain + '%')}"
        case _:
            assert_never(leaf)


def _literal_sql(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted_text(value)
        case bytes():
            return f"x'{value.hex()}'"
        case float() if math.isinf(value):
            return "'infinity'" if value > 0 else "'-infinity'"
        case decimal.Decimal():
            return f"{value:f}"
        case datetime.datetime():
            word = "timestamp_ntz" if value.tzinfo is None else "timestamp"
            return f"{word} '{value.isoformat(' ')}'"
        case datetime.date():
            return f"date '{value.isoformat()}'"
        case datetime.time():
            return f"time '{value.replace(tzinfo=None).isoformat()}'"
        case _:
            return repr(value)

"""Parsing of Spark SQL into sqlglot trees whose function calls are as written."""

from collections.abc import Mapping
from typing import Any, Final

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from mangrove.duckdb.typed_sql import NeedsSparkError, SqlAnalysisError
from mangrove.model.names import find_closest_name

__all__ = ["find_position", "parse_spark_sql"]

_QUERY_STARTS: Final = frozenset(
    {TokenType.FROM, TokenType.L_PAREN, TokenType.SELECT, TokenType.TABLE, TokenType.VALUES, TokenType.WITH}
)

_STATEMENTS: Final = (
    "ADD", "ALTER", "ANALYZE", "BEGIN", "CACHE", "CALL", "CLEAR", "COMMENT", "COMMIT", "CREATE", "DECLARE", "DELETE",
    "DESC", "DESCRIBE", "DROP", "EXECUTE", "EXPLAIN", "FROM", "GRANT", "INSERT", "LIST", "LOAD", "MERGE", "MSCK",
    "REFRESH", "REPAIR", "RESET", "REVOKE", "ROLLBACK", "SELECT", "SET", "SHOW", "TABLE", "TRUNCATE", "UNCACHE",
    "UPDATE", "USE", "VALUES", "WITH",
)  # fmt: skip
"""The first words of Spark's statements."""
_SYNTAX: Final = ("CAST", "EXTRACT", "SUBSTRING", "TRIM", "TRY_CAST")
"""The functions whose arguments have a syntax of their own."""


def _parse_positional_parameter(parser: Any) -> exp.Expr:
    """Return a parameter whose name is its position, from which the order of parameters follows."""
    return exp.Placeholder(this=parser._prev.start)


# ruff: noqa: RUF012 - sqlglot says what the tables of a dialect are.
class _SparkSql(Spark):
    """Spark's dialect without the functions that sqlglot converts."""

    class Tokenizer(Spark.Tokenizer):
        """A tokenizer with `''` as an escaped quote, and the types that Spark does not have."""

        STRING_ESCAPES = ["\\", "'", '"']
        KEYWORDS = {
            **Spark.Tokenizer.KEYWORDS,
            "TIMESTAMP_NS": TokenType.TIMESTAMP_NS,
            # sqlglot has no such type; this one of another dialect is not used here.
            "TIMESTAMPTZ_NS": TokenType.DATETIME64,
        }

    class Parser(SparkParser):
        """A parser that leaves function calls as written, and `||` with the precedence of `+`."""

        STRICT_CAST = True
        FUNCTIONS = {}
        FUNCTION_PARSERS = {name: SparkParser.FUNCTION_PARSERS[name] for name in _SYNTAX}
        NO_PAREN_FUNCTIONS = {}
        PLACEHOLDER_PARSERS = {
            **SparkParser.PLACEHOLDER_PARSERS,
            TokenType.PLACEHOLDER: _parse_positional_parameter,
        }
        TERM = {TokenType.PLUS: exp.Add, TokenType.DASH: exp.Sub, TokenType.DPIPE: exp.DPipe}


def parse_spark_sql(text: str) -> Any:
    """Return the tree of a query; raise NeedsSparkError if sqlglot cannot parse it as Spark does."""
    try:
        tokens = _SparkSql().tokenize(text)
        if any(token.token_type is TokenType.STRING and "\\" in text[token.start : token.end + 1] for token in tokens):
            raise NeedsSparkError("a string with a backslash")
        if any(token.token_type is TokenType.HEX_STRING and text[token.start] == "0" for token in tokens):
            raise NeedsSparkError("a name that begins with 0x")
        if not tokens or tokens[0].token_type not in _QUERY_STARTS:
            raise _build_unknown_statement_error(tokens[0].text if tokens else "")
        return sqlglot.parse_one(text, dialect=_SparkSql)
    except SqlglotError as error:
        found: Mapping[str, Any] = next(iter(getattr(error, "errors", ())), {})
        near = str(found.get("highlight") or "")
        where = f" near {near!r}" if near else ""
        raise SqlAnalysisError(f"cannot parse the query{where}, or it needs Spark", _mark(text, found)) from error
    except RecursionError as error:
        raise NeedsSparkError("a query that is nested so deeply") from error


def _build_unknown_statement_error(first: str) -> SqlAnalysisError:
    """Return the error for a text that begins with no query: a word with a typing error, or a statement of Spark."""
    closest = find_closest_name(first, _STATEMENTS)
    if first.isidentifier() and (closest is None or closest == first.upper()):
        return NeedsSparkError(f"the statement {first.upper()}")
    hint = "" if closest is None else f"; did you mean {closest}?"
    return SqlAnalysisError("", condition="PARSE_SYNTAX_ERROR", parameters={"error": repr(first), "hint": hint})


def _mark(text: str, found: Mapping[str, Any]) -> exp.Expr | None:
    """Return a node with the position of an error of sqlglot, which counts columns up to the end of a token."""
    near, line, column = found.get("highlight"), found.get("line"), found.get("col")
    if not near or not line or not column:
        return None
    end = sum(len(one) for one in text.splitlines(keepends=True)[: line - 1]) + column
    node = exp.to_identifier("_")
    node.meta.update(start=end - len(near), end=end - 1)
    return node


def find_position(node: Any) -> tuple[int | None, int | None]:
    """Return the range of a node in the text, or of the first name in it."""
    parts = (node, *node.find_all(exp.Identifier)) if isinstance(node, exp.Expr) else ()
    ranges = [(part.meta["start"], part.meta["end"] + 1) for part in parts if "start" in part.meta]
    return min(ranges, default=(None, None))

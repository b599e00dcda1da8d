"""Statement parser that dispatches by the first keyword."""

from collections.abc import Callable, Sequence
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.sql.parse.clauses import parse_query, refuse_unsupported_syntax
from mangrove.sql.parse.ddl import (
    parse_alter,
    parse_comment_on,
    parse_create,
    parse_describe,
    parse_drop,
    parse_grant,
    parse_show,
)
from mangrove.sql.parse.dml import (
    parse_delete,
    parse_insert,
    parse_merge,
    parse_multi_insert,
    parse_truncate,
    parse_update,
)
from mangrove.sql.parse.statements import (
    Analyze,
    BeginStatement,
    CacheTable,
    CallStatement,
    CommitStatement,
    ExecuteImmediate,
    Explain,
    RollbackStatement,
    SavepointStatement,
    SqlLiteral,
    SqlParameter,
    Statement,
    Use,
)
from mangrove.sql.parse.tokens import (
    SqlFragment,
    SqlToken,
    SqlTokenKind,
    TokenCursor,
    begins_transaction,
    build_error_at,
)

__all__ = [
    "parse_analyze",
    "parse_cache",
    "parse_execute",
    "parse_refresh",
    "parse_statement",
    "parse_uncache",
    "refuse_changes_in_block",
    "refuse_load",
]

_CHANGES: Final = ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE")
_DEFINED: Final = frozenset({"TABLE", "VIEW", "NAMESPACE", "SCHEMA", "DATABASE"})
_DEFINITION_TOKENS_MAX: Final = 5
_STATEMENT_STARTS: Final = ("BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "ATOMIC")


def parse_cache(cursor: TokenCursor) -> CacheTable | None:
    """Parse CACHE TABLE; return None for a query, which Spark caches as a temporary view."""
    cursor.expect("CACHE")
    is_lazy = cursor.accept("LAZY")
    cursor.expect("TABLE")
    name = cursor.name()
    if cursor.accept("OPTIONS"):
        cursor.expect_parenthesized()
    return CacheTable(name, "cache", is_lazy) if cursor.is_at_end else None


def parse_uncache(cursor: TokenCursor) -> CacheTable:
    """Parse UNCACHE TABLE."""
    cursor.expect("UNCACHE", "TABLE")
    if_exists = cursor.accept("IF", "EXISTS")
    statement = CacheTable(cursor.name(), "uncache", if_exists=if_exists)
    cursor.expect_end()
    return statement


def parse_refresh(cursor: TokenCursor) -> CacheTable | None:
    """Parse REFRESH TABLE; return None for functions and paths."""
    cursor.expect("REFRESH")
    if not cursor.accept("TABLE"):
        return None
    statement = CacheTable(cursor.name(), "refresh")
    cursor.expect_end()
    return statement


def parse_analyze(cursor: TokenCursor) -> Analyze | None:
    """Parse ANALYZE TABLE with any options."""
    cursor.expect("ANALYZE")
    if not cursor.accept("TABLE"):
        return None
    statement = Analyze(cursor.name())
    cursor.take_rest()
    return statement


def parse_execute(cursor: TokenCursor) -> ExecuteImmediate | None:
    """Parse EXECUTE IMMEDIATE; return None for any other EXECUTE."""
    if not cursor.accept("EXECUTE", "IMMEDIATE"):
        return None
    text = cursor.take_until("INTO", "USING")
    into = cursor.take_until("USING") if cursor.accept("INTO") else None
    arguments: list[tuple[str | None, SqlFragment]] = []
    if cursor.accept("USING"):
        is_bracketed = cursor.accept("(")
        while not arguments or cursor.accept(","):
            value = cursor.take_until(",", "AS")
            arguments.append((cursor.expect_single_name() if cursor.accept("AS") else None, value))
        if is_bracketed:
            cursor.expect(")")
    cursor.expect_end()
    if len({name is None for name, _ in arguments}) > 1:
        raise InvalidInputError("EXECUTE IMMEDIATE mixes named and positional arguments; name all or none")
    return ExecuteImmediate(text, tuple(arguments), into)


def refuse_load(cursor: TokenCursor) -> None:
    """Reject LOAD DATA, which moves files into a Hive table."""
    raise build_error_at(
        cursor.text,
        cursor.next.start,
        "LOAD DATA is for Hive tables and is not supported; use "
        "INSERT INTO … SELECT * FROM parquet.`path`, or `mangrove ingest`",
    )


def refuse_changes_in_block(cursor: TokenCursor) -> None:
    """Reject changes inside a Spark block, BEGIN … END, because Spark would not find the tables of the lakehouse."""
    for place, token in enumerate(cursor.tokens[1:], 1):
        previous = cursor.tokens[place - 1]
        begins = previous.text in (";", ":") or previous.word in _STATEMENT_STARTS
        if begins and (token.word in _CHANGES or _begins_ddl(cursor.tokens[place : place + _DEFINITION_TOKENS_MAX])):
            raise build_error_at(
                cursor.text,
                token.start,
                f"{token.word} is not supported inside BEGIN … END, which Spark runs outside of the lakehouse; run the "
                "statements between BEGIN TRANSACTION; and COMMIT;, or use loops and conditions in Python:"
                " with lake.transaction() as txn: txn.sql(…)",
            )


def _begins_ddl(tokens: Sequence[SqlToken]) -> bool:
    """Return whether the tokens begin a DDL statement on the lakehouse; Spark handles temporary views."""
    first, *others = (token.word for token in tokens)
    kinds = _DEFINED if first == "CREATE" else _DEFINED - {"VIEW"}
    kind = next((word for word in others if word not in ("OR", "REPLACE", "EXTERNAL")), "")
    return first in ("CREATE", "ALTER", "DROP") and kind in kinds


_WITH_CHANGES: Final = ("WITH", "FROM", "REPLACE", "UPSERT")
"""Other first keywords of statements that change rows, also in other dialects."""
_EXPLAIN_MODES: Final = ("EXTENDED", "FORMATTED", "COST", "CODEGEN", "LOGICAL")


def parse_statement(text: str, start: int = 0, computed: Callable[[SqlFragment], str] | None = None) -> Statement:
    """Parse the statement from `start` to the end of the text.

    Unknown statements are returned as queries, so that Spark runs them or reports the
    syntax error. `computed` evaluates the expression in `IDENTIFIER(…)` to a name.
    """
    cursor = TokenCursor(text, start, computed)
    if begins_transaction(cursor.tokens):
        return _parse_begin(cursor)
    word = cursor.next.word
    if word in _ROW_CHANGES or word in _WITH_CHANGES:
        refuse_unsupported_syntax(cursor)
    parse = _BY_FIRST_WORD.get(word)
    statement = None if parse is None else parse(cursor)
    return parse_query(TokenCursor(text, start)) if statement is None else statement


def _parse_begin(cursor: TokenCursor) -> BeginStatement:
    cursor.expect("BEGIN")
    return _parse_begin_options(cursor)


def _parse_start(cursor: TokenCursor) -> BeginStatement | None:
    return _parse_begin_options(cursor) if cursor.accept("START") and cursor.is_next("TRANSACTION") else None


def _parse_begin_options(cursor: TokenCursor) -> BeginStatement:
    cursor.accept_one_of("TRANSACTION", "WORK")
    isolation = None
    if cursor.accept("ISOLATION", "LEVEL"):
        isolation = cursor.accept_one_of("SNAPSHOT", "SERIALIZABLE")
        if isolation is None:
            raise cursor.unexpected("SNAPSHOT or SERIALIZABLE")
    message = cursor.expect_text() if cursor.accept("MESSAGE") else ""
    cursor.expect_end()
    return BeginStatement(None if isolation is None else isolation.lower(), message)


def _parse_commit(cursor: TokenCursor) -> CommitStatement:
    cursor.expect("COMMIT")
    cursor.accept_one_of("TRANSACTION", "WORK")
    message = cursor.expect_text() if cursor.accept("MESSAGE") else None
    cursor.expect_end()
    return CommitStatement(message)


def _parse_rollback(cursor: TokenCursor) -> RollbackStatement:
    cursor.expect("ROLLBACK")
    cursor.accept_one_of("TRANSACTION", "WORK")
    name = None
    if cursor.accept("TO"):
        cursor.accept("SAVEPOINT")
        name = cursor.expect_single_name()
    cursor.expect_end()
    return RollbackStatement(name)


def _parse_savepoint(cursor: TokenCursor) -> SavepointStatement:
    is_release = cursor.accept("RELEASE")
    cursor.accept("SAVEPOINT")
    statement = SavepointStatement(cursor.expect_single_name(), is_release)
    cursor.expect_end()
    return statement


def _parse_use(cursor: TokenCursor) -> Use | None:
    cursor.expect("USE")
    if cursor.is_next("CATALOG"):
        return None
    cursor.accept_one_of("NAMESPACE", "SCHEMA", "DATABASE")
    statement = Use(cursor.name())
    cursor.expect_end()
    return statement


def _parse_explain(cursor: TokenCursor) -> Explain:
    cursor.expect("EXPLAIN")
    cursor.accept_one_of(*_EXPLAIN_MODES)
    return Explain(cursor.text[cursor.tokens[0].start : cursor.next.start], parse_query(cursor))


def _parse_call(cursor: TokenCursor) -> CallStatement:
    cursor.expect("CALL")
    name = cursor.name()
    positional: list[SqlLiteral | SqlParameter] = []
    named: dict[str, SqlLiteral | SqlParameter] = {}
    cursor.expect("(")
    while not cursor.accept(")"):
        if positional or named:
            cursor.expect(",")
        if cursor.next.is_name and cursor.peek().text == "=>":
            key = cursor.expect_single_name()
            cursor.expect("=>")
            named[key.lower()] = _parse_argument(cursor)
        else:
            if named:
                raise cursor.unexpected("a named argument, because positional arguments come first")
            positional.append(_parse_argument(cursor))
    cursor.expect_end()
    return CallStatement(name, tuple(positional), named)


def _parse_argument(cursor: TokenCursor) -> SqlLiteral | SqlParameter:
    start = cursor.next.start
    if cursor.accept("?"):
        return SqlParameter(None, start)
    if cursor.accept(":"):
        return SqlParameter(cursor.expect_single_name(), start)
    return _parse_literal(cursor)


def _parse_literal(cursor: TokenCursor) -> SqlLiteral:
    token = cursor.next
    if token.kind is SqlTokenKind.TEXT:
        return cursor.expect_text()
    sign = -1 if cursor.accept("-") else 1
    if cursor.next.kind is SqlTokenKind.NUMBER:
        number = cursor.next.text
        cursor.place += 1
        return sign * (int(number) if number.isdecimal() else float(number.rstrip("lLdD")))
    if cursor.accept("MAP"):
        texts = cursor.expect_list(cursor.expect_text)
        if len(texts) % 2:
            raise cursor.unexpected("map('key', 'value', …) with a value for each key")
        return dict(zip(texts[::2], texts[1::2], strict=True))
    word = cursor.accept_one_of("TRUE", "FALSE", "NULL")
    if word is None:
        raise cursor.unexpected("a number, a quoted string, map('key', 'value'), true, false, null or a parameter")
    return {"TRUE": True, "FALSE": False, "NULL": None}[word]


def _parse_after_with(cursor: TokenCursor) -> Statement | None:
    """Parse INSERT, UPDATE, DELETE or MERGE after a WITH clause; return None for a query."""
    several = parse_multi_insert(cursor)
    if several is not None:
        return several
    start, depth = cursor.next.start, 0
    while not cursor.is_at_end:
        token = cursor.next
        depth += (token.text == "(") - (token.text == ")")
        is_change = token.word in _ROW_CHANGES and cursor.peek(-1).text == ")"
        if depth == 0 and is_change:
            common = SqlFragment(cursor.text[start : cursor.peek(-1).end], start)
            return _ROW_CHANGES[token.word](cursor, common)
        cursor.place += 1
    return None


_ROW_CHANGES: Final[dict[str, Callable[[TokenCursor, SqlFragment | None], Statement]]] = {
    "INSERT": parse_insert,
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "MERGE": parse_merge,
}


def _parse_block(cursor: TokenCursor) -> None:
    refuse_changes_in_block(cursor)


_BY_FIRST_WORD: Final[dict[str, Callable[[TokenCursor], Statement | None]]] = {
    "WITH": _parse_after_with,
    "FROM": parse_multi_insert,
    "START": _parse_start,
    "COMMIT": _parse_commit,
    "ROLLBACK": _parse_rollback,
    "SAVEPOINT": _parse_savepoint,
    "RELEASE": _parse_savepoint,
    "USE": _parse_use,
    "EXPLAIN": _parse_explain,
    "CALL": _parse_call,
    "INSERT": lambda cursor: parse_insert(cursor, None),
    "UPDATE": lambda cursor: parse_update(cursor, None),
    "DELETE": lambda cursor: parse_delete(cursor, None),
    "MERGE": lambda cursor: parse_merge(cursor, None),
    "TRUNCATE": parse_truncate,
    "CREATE": parse_create,
    "REPLACE": parse_create,
    "ALTER": parse_alter,
    "DROP": parse_drop,
    "DESCRIBE": parse_describe,
    "DESC": parse_describe,
    "SHOW": parse_show,
    "COMMENT": parse_comment_on,
    "CACHE": parse_cache,
    "UNCACHE": parse_uncache,
    "REFRESH": parse_refresh,
    "ANALYZE": parse_analyze,
    "EXECUTE": parse_execute,
    "GRANT": parse_grant,
    "REVOKE": parse_grant,
    "BEGIN": _parse_block,
    "LOAD": refuse_load,
}

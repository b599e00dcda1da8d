"""Telling statements apart: what the lakehouse does itself is taken to pieces, all else is a query for Spark."""

from collections.abc import Callable
from typing import Final

from mangrove.sql.cursor import Cursor, Piece
from mangrove.sql.grammar_changes import (
    parse_delete,
    parse_insert,
    parse_merge,
    parse_multi_insert,
    parse_truncate,
    parse_update,
)
from mangrove.sql.grammar_definitions import (
    parse_alter,
    parse_comment_on,
    parse_create,
    parse_describe,
    parse_drop,
    parse_show,
)
from mangrove.sql.grammar_queries import parse_query
from mangrove.sql.grammar_session import (
    parse_analyze,
    parse_cache,
    parse_execute,
    parse_refresh,
    parse_uncache,
    refuse_changes_in_block,
    refuse_load,
)
from mangrove.sql.other_dialects import refuse_other_dialects
from mangrove.sql.splitting import begins_transaction
from mangrove.sql.statements import Begin, Call, Commit, Explain, Literal, Rollback, Savepoint, Statement, Use
from mangrove.sql.tokens import TokenKind

__all__ = ["parse_statement"]

_WITH_CHANGES: Final = ("WITH", "FROM", "REPLACE", "UPSERT")
"""What else a change of rows may begin with, here or in other engines."""
_EXPLAIN_MODES: Final = ("EXTENDED", "FORMATTED", "COST", "CODEGEN", "LOGICAL")


def parse_statement(text: str, start: int = 0, computed: Callable[[Piece], str] | None = None) -> Statement:
    """Return what the statement asks for that begins at `start` and ends with the text.

    What is not recognised is returned as a query: Spark knows far more than we do,
    and it says better what is wrong with a text that nobody knows. `computed` tells
    the name that the expression in `IDENTIFIER(…)` is.
    """
    cursor = Cursor(text, start, computed)
    if begins_transaction(cursor.tokens):
        return _begin(cursor)
    word = cursor.next.word
    if word in _CHANGES or word in _WITH_CHANGES:
        refuse_other_dialects(cursor)
    parse = _BY_FIRST_WORD.get(word)
    statement = None if parse is None else parse(cursor)
    return parse_query(Cursor(text, start)) if statement is None else statement


def _begin(cursor: Cursor) -> Begin:
    cursor.expect("BEGIN")
    return _begun(cursor)


def _start(cursor: Cursor) -> Begin | None:
    return _begun(cursor) if cursor.took("START") and cursor.sees("TRANSACTION") else None


def _begun(cursor: Cursor) -> Begin:
    cursor.took_one_of("TRANSACTION", "WORK")
    isolation = None
    if cursor.took("ISOLATION", "LEVEL"):
        isolation = cursor.took_one_of("SNAPSHOT", "SERIALIZABLE")
        if isolation is None:
            raise cursor.refusal("SNAPSHOT or SERIALIZABLE")
    message = cursor.words_text() if cursor.took("MESSAGE") else ""
    cursor.expect_end()
    return Begin(None if isolation is None else isolation.lower(), message)


def _commit(cursor: Cursor) -> Commit:
    cursor.expect("COMMIT")
    cursor.took_one_of("TRANSACTION", "WORK")
    message = cursor.words_text() if cursor.took("MESSAGE") else None
    cursor.expect_end()
    return Commit(message)


def _rollback(cursor: Cursor) -> Rollback:
    cursor.expect("ROLLBACK")
    cursor.took_one_of("TRANSACTION", "WORK")
    name = None
    if cursor.took("TO"):
        cursor.took("SAVEPOINT")
        name = cursor.single_name()
    cursor.expect_end()
    return Rollback(name)


def _savepoint(cursor: Cursor) -> Savepoint:
    is_release = cursor.took("RELEASE")
    cursor.took("SAVEPOINT")
    statement = Savepoint(cursor.single_name(), is_release)
    cursor.expect_end()
    return statement


def _use(cursor: Cursor) -> Use | None:
    cursor.expect("USE")
    if cursor.sees("CATALOG"):
        return None
    cursor.took_one_of("NAMESPACE", "SCHEMA", "DATABASE")
    statement = Use(cursor.name())
    cursor.expect_end()
    return statement


def _explain(cursor: Cursor) -> Explain:
    cursor.expect("EXPLAIN")
    cursor.took_one_of(*_EXPLAIN_MODES)
    return Explain(cursor.text[cursor.tokens[0].start : cursor.next.start], parse_query(cursor))


def _call(cursor: Cursor) -> Call:
    cursor.expect("CALL")
    name = cursor.name()
    positional: list[Literal] = []
    named: dict[str, Literal] = {}
    cursor.expect("(")
    while not cursor.took(")"):
        if positional or named:
            cursor.expect(",")
        if cursor.next.is_name and cursor.peek().text == "=>":
            key = cursor.single_name()
            cursor.expect("=>")
            named[key.lower()] = _literal(cursor)
        else:
            if named:
                raise cursor.refusal("a named argument, because one was named before")
            positional.append(_literal(cursor))
    cursor.expect_end()
    return Call(name, tuple(positional), named)


def _literal(cursor: Cursor) -> Literal:
    token = cursor.next
    if token.kind is TokenKind.TEXT:
        return cursor.words_text()
    sign = -1 if cursor.took("-") else 1
    if cursor.next.kind is TokenKind.NUMBER:
        number = cursor.next.text
        cursor.place += 1
        return sign * (int(number) if number.isdecimal() else float(number.rstrip("lLdD")))
    word = cursor.took_one_of("TRUE", "FALSE", "NULL")
    if word is None:
        raise cursor.refusal("a number, a text between quotes, true, false or null")
    return {"TRUE": True, "FALSE": False, "NULL": None}[word]


def _after_common(cursor: Cursor) -> Statement | None:
    """Take a change behind a WITH clause, which its queries may use; None where it is a query."""
    several = parse_multi_insert(cursor)
    if several is not None:
        return several
    start, depth = cursor.next.start, 0
    while not cursor.is_at_end:
        token = cursor.next
        depth += (token.text == "(") - (token.text == ")")
        is_change = token.word in _CHANGES and cursor.peek(-1).text == ")"
        if depth == 0 and is_change:
            common = Piece(cursor.text[start : cursor.peek(-1).end], start)
            return _CHANGES[token.word](cursor, common)
        cursor.place += 1
    return None


_CHANGES: Final[dict[str, Callable[[Cursor, Piece | None], Statement]]] = {
    "INSERT": parse_insert,
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "MERGE": parse_merge,
}


def _block(cursor: Cursor) -> None:
    refuse_changes_in_block(cursor)


_BY_FIRST_WORD: Final[dict[str, Callable[[Cursor], Statement | None]]] = {
    "WITH": _after_common,
    "FROM": parse_multi_insert,
    "START": _start,
    "COMMIT": _commit,
    "ROLLBACK": _rollback,
    "SAVEPOINT": _savepoint,
    "RELEASE": _savepoint,
    "USE": _use,
    "EXPLAIN": _explain,
    "CALL": _call,
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
    "BEGIN": _block,
    "LOAD": refuse_load,
}

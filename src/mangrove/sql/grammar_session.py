"""The grammar of CACHE, UNCACHE, REFRESH, ANALYZE and EXECUTE IMMEDIATE, and of blocks that would change tables."""

from collections.abc import Sequence
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.sql.cursor import Cursor, Piece
from mangrove.sql.places import error_at
from mangrove.sql.session_statements import Analyze, CacheTable, ExecuteImmediate
from mangrove.sql.tokens import Token

__all__ = [
    "parse_analyze",
    "parse_cache",
    "parse_execute",
    "parse_refresh",
    "parse_uncache",
    "refuse_changes_in_block",
    "refuse_load",
]

_CHANGES: Final = ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE")
_DEFINED: Final = frozenset({"TABLE", "VIEW", "NAMESPACE", "SCHEMA", "DATABASE"})
_DEFINING_WORDS_MAX: Final = 5
_STATEMENT_STARTS: Final = ("BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "ATOMIC")


def parse_cache(cursor: Cursor) -> CacheTable | None:
    """Take CACHE TABLE; None where it names a query, which Spark keeps as a temporary view."""
    cursor.expect("CACHE")
    is_lazy = cursor.took("LAZY")
    cursor.expect("TABLE")
    name = cursor.name()
    if cursor.took("OPTIONS"):
        cursor.bracketed()
    return CacheTable(name, "cache", is_lazy) if cursor.is_at_end else None


def parse_uncache(cursor: Cursor) -> CacheTable:
    """Take UNCACHE TABLE."""
    cursor.expect("UNCACHE", "TABLE")
    if_exists = cursor.took("IF", "EXISTS")
    statement = CacheTable(cursor.name(), "uncache", if_exists=if_exists)
    cursor.expect_end()
    return statement


def parse_refresh(cursor: Cursor) -> CacheTable | None:
    """Take REFRESH TABLE; None for functions and paths."""
    cursor.expect("REFRESH")
    if not cursor.took("TABLE"):
        return None
    statement = CacheTable(cursor.name(), "refresh")
    cursor.expect_end()
    return statement


def parse_analyze(cursor: Cursor) -> Analyze | None:
    """Take ANALYZE TABLE, whatever it asks to be computed."""
    cursor.expect("ANALYZE")
    if not cursor.took("TABLE"):
        return None
    statement = Analyze(cursor.name())
    cursor.rest()
    return statement


def parse_execute(cursor: Cursor) -> ExecuteImmediate | None:
    """Take EXECUTE IMMEDIATE; None for any other EXECUTE."""
    if not cursor.took("EXECUTE", "IMMEDIATE"):
        return None
    text = cursor.piece_until("INTO", "USING")
    into = cursor.piece_until("USING") if cursor.took("INTO") else None
    arguments: list[tuple[str | None, Piece]] = []
    if cursor.took("USING"):
        is_bracketed = cursor.took("(")
        while not arguments or cursor.took(","):
            value = cursor.piece_until(",", "AS")
            arguments.append((cursor.single_name() if cursor.took("AS") else None, value))
        if is_bracketed:
            cursor.expect(")")
    cursor.expect_end()
    if len({name is None for name, _ in arguments}) > 1:
        raise InvalidInputError("some arguments of EXECUTE IMMEDIATE have names and some have none: name all or none")
    return ExecuteImmediate(text, tuple(arguments), into)


def refuse_load(cursor: Cursor) -> None:
    """Refuse LOAD DATA, which moves files of Hive's into a folder."""
    raise error_at(
        cursor.text,
        cursor.next.start,
        "LOAD DATA moves files into a folder of Hive's, which tables of a lakehouse are not: write "
        "INSERT INTO … SELECT * FROM parquet.`path`, or use `mangrove ingest`",
    )


def refuse_changes_in_block(cursor: Cursor) -> None:
    """Refuse a block of Spark's, BEGIN … END, that changes rows or tables: Spark runs it, and would not find ours."""
    for place, token in enumerate(cursor.tokens[1:], 1):
        before = cursor.tokens[place - 1]
        begins = before.text in (";", ":") or before.word in _STATEMENT_STARTS
        if begins and (token.word in _CHANGES or _defines(cursor.tokens[place : place + _DEFINING_WORDS_MAX])):
            raise error_at(
                cursor.text,
                token.start,
                f"a block BEGIN … END is run by Spark, which cannot {token.word} in the lakehouse: write the "
                "statements one by one between BEGIN TRANSACTION; and COMMIT;, or in Python, where loops and conditions"
                " are: with lake.transaction() as txn: txn.sql(…)",
            )


def _defines(tokens: Sequence[Token]) -> bool:
    """Return whether words begin the definition of a table or the like; temporary views are Spark's own."""
    first, *others = (token.word for token in tokens)
    things = _DEFINED if first == "CREATE" else _DEFINED - {"VIEW"}
    behind = next((word for word in others if word not in ("OR", "REPLACE", "EXTERNAL")), "")
    return first in ("CREATE", "ALTER", "DROP") and behind in things

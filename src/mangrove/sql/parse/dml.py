"""Parser for INSERT, UPDATE, DELETE, MERGE and TRUNCATE."""

from dataclasses import replace
from typing import Final

from mangrove.model.properties import NO_PROPERTIES
from mangrove.sql.parse.as_of import find_expression_end
from mangrove.sql.parse.clauses import parse_query
from mangrove.sql.parse.ddl import parse_properties
from mangrove.sql.parse.statements import (
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeWhenClause,
    MultiInsert,
    TruncateStatement,
    Update,
)
from mangrove.sql.parse.tokens import SqlFragment, TokenCursor, build_error_at, tokenize

__all__ = ["parse_delete", "parse_insert", "parse_merge", "parse_multi_insert", "parse_truncate", "parse_update"]

_QUERY_STARTS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_AFTER_TABLE: Final = frozenset({"SET", "WHERE", "USING", "ON", "WHEN"})


def parse_insert(cursor: TokenCursor, common: SqlFragment | None) -> Insert:
    """Parse INSERT INTO or INSERT OVERWRITE."""
    cursor.expect("INSERT")
    overwrite = cursor.accept("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    cursor.accept("TABLE")
    table = cursor.name()
    options = parse_properties(cursor) if cursor.is_next("WITH", "(") and cursor.accept("WITH") else NO_PROPERTIES
    partition = cursor.expect_list(lambda: _parse_partition_value(cursor)) if cursor.accept("PARTITION") else ()
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    by_name = cursor.accept("BY", "NAME")
    columns: tuple[tuple[str, int], ...] = ()
    if cursor.is_next("(") and cursor.peek().is_name and cursor.peek().word not in _QUERY_STARTS:
        columns = cursor.expect_list(lambda: (cursor.expect_single_name(), cursor.peek(-1).start))
    by_name = by_name or cursor.accept("BY", "NAME")
    where = None
    if cursor.accept("REPLACE", "WHERE"):
        where = cursor.take_until(*_QUERY_STARTS)
    query = parse_query(cursor)
    if common is not None:
        # Spaces replace the text in between, so that all positions stay the same.
        between = " " * (query.piece.start - common.start - len(common.text))
        query = replace(query, piece=SqlFragment(common.text + between + query.piece.text, common.start))
    names, places = tuple(name for name, _ in columns), tuple(place for _, place in columns)
    return Insert(table, query, names, by_name, overwrite, partition, if_not_exists, where, places, options)


def parse_multi_insert(cursor: TokenCursor) -> MultiInsert | None:
    """Parse `FROM … INSERT … SELECT … INSERT … SELECT …`, also after a WITH clause; return None for a query."""
    tokens, depth, begins, inserts = cursor.tokens, 0, None, []
    for place in range(cursor.place, len(tokens) - 1):
        token = tokens[place]
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and begins is None and token.word in ("SELECT", "INSERT"):
            return None
        if depth == 0 and token.word == "FROM" and begins is None:
            begins = place
        if depth == 0 and token.word == "INSERT" and tokens[place + 1].word in ("INTO", "OVERWRITE"):
            inserts.append(place)
    if begins is None or not inserts or inserts[0] == begins + 1:
        return None
    start, source_end = tokens[cursor.place].start, tokens[inserts[0] - 1].end
    shared = SqlFragment(cursor.text[start:source_end], start)
    ends = [*(tokens[place - 1].end for place in inserts[1:]), len(cursor.text)]
    bodies = zip(inserts, ends, strict=True)
    return MultiInsert(
        tuple(parse_insert(TokenCursor(cursor.text[:end], tokens[place].start), shared) for place, end in bodies)
    )


def parse_update(cursor: TokenCursor, common: SqlFragment | None) -> Update:
    """Parse UPDATE."""
    cursor.expect("UPDATE")
    table, alias = cursor.name(), _parse_alias(cursor)
    cursor.expect("SET")
    assignments = _parse_assignments(cursor, "WHERE")
    condition = cursor.take_until() if cursor.accept("WHERE") else None
    cursor.expect_end()
    return Update(table, alias, assignments, condition, common)


def parse_delete(cursor: TokenCursor, common: SqlFragment | None) -> Delete:
    """Parse DELETE."""
    cursor.expect("DELETE", "FROM")
    table, alias = cursor.name(), _parse_alias(cursor)
    if cursor.is_next("USING"):
        message = "DELETE … USING is not supported; use MERGE INTO … USING … ON … WHEN MATCHED THEN DELETE"
        raise build_error_at(cursor.text, cursor.next.start, message)
    condition = cursor.take_until() if cursor.accept("WHERE") else None
    cursor.expect_end()
    return Delete(table, alias, condition, common)


def parse_merge(cursor: TokenCursor, common: SqlFragment | None) -> Merge:
    """Parse MERGE INTO with all its clauses."""
    cursor.expect("MERGE")
    evolves = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table, alias = cursor.name(), _parse_alias(cursor)
    cursor.expect("USING")
    source = _parse_source(cursor)
    source_alias = _parse_alias(cursor)
    source_columns = (
        cursor.expect_list(cursor.expect_single_name) if source_alias is not None and cursor.is_next("(") else ()
    )
    cursor.expect("ON")
    condition = cursor.take_until("WHEN")
    clauses = []
    while cursor.accept("WHEN"):
        clauses.append(_parse_merge_clause(cursor))
    cursor.expect_end()
    if not clauses:
        raise cursor.unexpected("WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, alias, source, source_alias, condition, tuple(clauses), common, evolves, source_columns)


def parse_truncate(cursor: TokenCursor) -> TruncateStatement:
    """Parse TRUNCATE TABLE."""
    cursor.expect("TRUNCATE", "TABLE")
    statement = TruncateStatement(cursor.name())
    cursor.expect_end()
    return statement


def _parse_source(cursor: TokenCursor) -> SqlFragment:
    """Parse the source of a merge: a table name with AS OF, or a query in parentheses."""
    if cursor.is_next("("):
        first = cursor.next.start
        cursor.expect_parenthesized()
        return SqlFragment(cursor.text[first : cursor.peek(-1).end], first)
    name = cursor.name()
    cursor.accept("FOR")
    if cursor.accept_one_of("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME"):
        cursor.expect("AS", "OF")
        cursor.place = find_expression_end(cursor.tokens, cursor.place)
    return SqlFragment(cursor.text[name.start : cursor.peek(-1).end], name.start)


def _parse_merge_clause(cursor: TokenCursor) -> MergeWhenClause:
    if cursor.accept("MATCHED"):
        group = "matched"
    else:
        cursor.expect("NOT", "MATCHED")
        group = "not matched"
        if cursor.accept("BY", "SOURCE"):
            group = "not matched by source"
        else:
            cursor.accept("BY", "TARGET")
    condition = cursor.take_until("THEN") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if group == "not matched":
        return _parse_insert_clause(cursor, condition)
    if cursor.accept("DELETE"):
        return MergeWhenClause(group, "delete", condition)
    cursor.expect("UPDATE", "SET")
    if group == "matched" and cursor.accept("*"):
        return MergeWhenClause(group, "update all", condition)
    return MergeWhenClause(group, "update", condition, _parse_assignments(cursor, "WHEN"))


def _parse_insert_clause(cursor: TokenCursor, condition: SqlFragment | None) -> MergeWhenClause:
    cursor.expect("INSERT")
    if cursor.accept("*"):
        return MergeWhenClause("not matched", "insert all", condition)
    at = cursor.next.start
    columns = () if cursor.is_next("VALUES") else cursor.expect_list(cursor.name)
    cursor.expect("VALUES")
    values = cursor.expect_list(lambda: cursor.take_until(",", ")"))
    if not columns:
        return MergeWhenClause(
            "not matched", "insert", condition, tuple(Assignment((), value, value.start) for value in values)
        )
    if len(columns) != len(values):
        cursor.place = next(place for place, token in enumerate(cursor.tokens) if token.start == at)
        raise cursor.unexpected(f"as many values as columns ({len(columns)} columns, {len(values)} values)")
    assigned = tuple(Assignment(name.parts, value, name.start) for name, value in zip(columns, values, strict=True))
    return MergeWhenClause("not matched", "insert", condition, assigned)


def _parse_assignments(cursor: TokenCursor, *stops: str) -> tuple[Assignment, ...]:
    assignments = []
    while True:
        if cursor.is_next("("):
            raise build_error_at(
                cursor.text, cursor.next.start, "a column list cannot be set at once; write a = …, b = …"
            )
        column = cursor.name()
        if cursor.accept_one_of("=", "==") is None:
            raise cursor.unexpected("=")
        value = cursor.take_until(",", *stops)
        _reject_from(cursor, value)
        assignments.append(Assignment(column.parts, value, column.start))
        if not cursor.accept(","):
            return tuple(assignments)


def _reject_from(cursor: TokenCursor, value: SqlFragment) -> None:
    """Reject UPDATE … SET … FROM of other dialects; a FROM in parentheses is part of the value."""
    depth, previous = 0, ""
    for token in tokenize(value.text):
        depth += (token.text == "(") - (token.text == ")")
        if token.word == "FROM" and depth == 0 and previous not in ("DISTINCT", "."):
            message = "UPDATE … FROM is not supported; use MERGE INTO … USING … ON … WHEN MATCHED THEN UPDATE SET …"
            raise build_error_at(cursor.text, value.start + token.start, message)
        previous = token.word or token.text


def _parse_partition_value(cursor: TokenCursor) -> tuple[str, SqlFragment | None]:
    name = cursor.expect_single_name()
    return name, cursor.take_until(",", ")") if cursor.accept("=") else None


def _parse_alias(cursor: TokenCursor) -> str | None:
    if cursor.accept("AS"):
        return cursor.expect_single_name()
    if cursor.next.is_name and cursor.next.word not in _AFTER_TABLE:
        return cursor.expect_single_name()
    return None

"""The grammar of INSERT, UPDATE, DELETE, MERGE and TRUNCATE; what lies inside them is left to Spark."""

from dataclasses import replace
from typing import Final

from mangrove.sql.computed_moments import expression_end
from mangrove.sql.cursor import Cursor, Piece
from mangrove.sql.grammar_queries import parse_query
from mangrove.sql.places import error_at
from mangrove.sql.row_statements import Assignment, Delete, Insert, Merge, MergeClause, MultiInsert, Truncate, Update
from mangrove.sql.tokens import tokenize

__all__ = ["parse_delete", "parse_insert", "parse_merge", "parse_multi_insert", "parse_truncate", "parse_update"]

_QUERY_STARTS: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_AFTER_TABLE: Final = frozenset({"SET", "WHERE", "USING", "ON", "WHEN"})


def parse_insert(cursor: Cursor, common: Piece | None) -> Insert:
    """Take INSERT INTO or INSERT OVERWRITE."""
    cursor.expect("INSERT")
    overwrite = cursor.took("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    cursor.took("TABLE")
    table = cursor.name()
    partition = cursor.listed(lambda: _partition_value(cursor)) if cursor.took("PARTITION") else ()
    if_not_exists = cursor.took("IF", "NOT", "EXISTS")
    by_name = cursor.took("BY", "NAME")
    columns: tuple[tuple[str, int], ...] = ()
    if cursor.sees("(") and cursor.peek().is_name and cursor.peek().word not in _QUERY_STARTS:
        columns = cursor.listed(lambda: (cursor.single_name(), cursor.peek(-1).start))
    by_name = by_name or cursor.took("BY", "NAME")
    where = None
    if cursor.took("REPLACE", "WHERE"):
        where = cursor.piece_until(*_QUERY_STARTS)
    query = parse_query(cursor)
    if common is not None:
        # Blanks take the place of what stands between, so that every place stays what it is.
        between = " " * (query.piece.start - common.start - len(common.text))
        query = replace(query, piece=Piece(common.text + between + query.piece.text, common.start))
    names, places = tuple(name for name, _ in columns), tuple(place for _, place in columns)
    return Insert(table, query, names, by_name, overwrite, partition, if_not_exists, where, places)


def parse_multi_insert(cursor: Cursor) -> MultiInsert | None:
    """Take `FROM … INSERT … SELECT … INSERT … SELECT …`, also behind a WITH clause; None where it is a query."""
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
    shared = Piece(cursor.text[start:source_end], start)
    ends = [*(tokens[place - 1].end for place in inserts[1:]), len(cursor.text)]
    bodies = zip(inserts, ends, strict=True)
    return MultiInsert(
        tuple(parse_insert(Cursor(cursor.text[:end], tokens[place].start), shared) for place, end in bodies)
    )


def parse_update(cursor: Cursor, common: Piece | None) -> Update:
    """Take UPDATE."""
    cursor.expect("UPDATE")
    table, alias = cursor.name(), _alias(cursor)
    cursor.expect("SET")
    assignments = _assignments(cursor, "WHERE")
    condition = cursor.piece_until() if cursor.took("WHERE") else None
    cursor.expect_end()
    return Update(table, alias, assignments, condition, common)


def parse_delete(cursor: Cursor, common: Piece | None) -> Delete:
    """Take DELETE."""
    cursor.expect("DELETE", "FROM")
    table, alias = cursor.name(), _alias(cursor)
    if cursor.sees("USING"):
        message = "DELETE takes no USING: write MERGE INTO … USING … ON … WHEN MATCHED THEN DELETE"
        raise error_at(cursor.text, cursor.next.start, message)
    condition = cursor.piece_until() if cursor.took("WHERE") else None
    cursor.expect_end()
    return Delete(table, alias, condition, common)


def parse_merge(cursor: Cursor, common: Piece | None) -> Merge:
    """Take MERGE INTO with all its clauses."""
    cursor.expect("MERGE")
    evolves = cursor.took("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table, alias = cursor.name(), _alias(cursor)
    cursor.expect("USING")
    source = _source(cursor)
    source_alias = _alias(cursor)
    source_columns = cursor.listed(cursor.single_name) if source_alias is not None and cursor.sees("(") else ()
    cursor.expect("ON")
    condition = cursor.piece_until("WHEN")
    clauses = []
    while cursor.took("WHEN"):
        clauses.append(_merge_clause(cursor))
    cursor.expect_end()
    if not clauses:
        raise cursor.refusal("WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, alias, source, source_alias, condition, tuple(clauses), common, evolves, source_columns)


def parse_truncate(cursor: Cursor) -> Truncate:
    """Take TRUNCATE TABLE."""
    cursor.expect("TRUNCATE", "TABLE")
    statement = Truncate(cursor.name())
    cursor.expect_end()
    return statement


def _source(cursor: Cursor) -> Piece:
    """Take the source of a merge: a table's name with its time, or a query between brackets."""
    if cursor.sees("("):
        first = cursor.next.start
        cursor.bracketed()
        return Piece(cursor.text[first : cursor.peek(-1).end], first)
    name = cursor.name()
    cursor.took("FOR")
    if cursor.took_one_of("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME"):
        cursor.expect("AS", "OF")
        cursor.place = expression_end(cursor.tokens, cursor.place)
    return Piece(cursor.text[name.start : cursor.peek(-1).end], name.start)


def _merge_clause(cursor: Cursor) -> MergeClause:
    if cursor.took("MATCHED"):
        group = "matched"
    else:
        cursor.expect("NOT", "MATCHED")
        group = "not matched"
        if cursor.took("BY", "SOURCE"):
            group = "not matched by source"
        else:
            cursor.took("BY", "TARGET")
    condition = cursor.piece_until("THEN") if cursor.took("AND") else None
    cursor.expect("THEN")
    if group == "not matched":
        return _insert_clause(cursor, condition)
    if cursor.took("DELETE"):
        return MergeClause(group, "delete", condition)
    cursor.expect("UPDATE", "SET")
    if group == "matched" and cursor.took("*"):
        return MergeClause(group, "update all", condition)
    return MergeClause(group, "update", condition, _assignments(cursor, "WHEN"))


def _insert_clause(cursor: Cursor, condition: Piece | None) -> MergeClause:
    cursor.expect("INSERT")
    if cursor.took("*"):
        return MergeClause("not matched", "insert all", condition)
    at = cursor.next.start
    columns = () if cursor.sees("VALUES") else cursor.listed(cursor.name)
    cursor.expect("VALUES")
    values = cursor.listed(lambda: cursor.piece_until(",", ")"))
    if not columns:
        return MergeClause(
            "not matched", "insert", condition, tuple(Assignment((), value, value.start) for value in values)
        )
    if len(columns) != len(values):
        cursor.place = next(place for place, token in enumerate(cursor.tokens) if token.start == at)
        raise cursor.refusal(f"as many columns as values, and there are {len(columns)} and {len(values)}")
    assigned = tuple(Assignment(name.parts, value, name.start) for name, value in zip(columns, values, strict=True))
    return MergeClause("not matched", "insert", condition, assigned)


def _assignments(cursor: Cursor, *stops: str) -> tuple[Assignment, ...]:
    found = []
    while True:
        if cursor.sees("("):
            raise error_at(cursor.text, cursor.next.start, "each column is set by itself: write a = …, b = …")
        column = cursor.name()
        if cursor.took_one_of("=", "==") is None:
            raise cursor.refusal("=")
        value = cursor.piece_until(",", *stops)
        _refuse_from(cursor, value)
        found.append(Assignment(column.parts, value, column.start))
        if not cursor.took(","):
            return tuple(found)


def _refuse_from(cursor: Cursor, value: Piece) -> None:
    """Refuse a FROM behind a value, which other systems know; one inside of brackets is part of the value."""
    depth, before = 0, ""
    for token in tokenize(value.text):
        depth += (token.text == "(") - (token.text == ")")
        if token.word == "FROM" and depth == 0 and before not in ("DISTINCT", "."):
            message = "UPDATE takes no FROM: write MERGE INTO … USING … ON … WHEN MATCHED THEN UPDATE SET …"
            raise error_at(cursor.text, value.start + token.start, message)
        before = token.word or token.text


def _partition_value(cursor: Cursor) -> tuple[str, Piece | None]:
    name = cursor.single_name()
    return name, cursor.piece_until(",", ")") if cursor.took("=") else None


def _alias(cursor: Cursor) -> str | None:
    if cursor.took("AS"):
        return cursor.single_name()
    if cursor.next.is_name and cursor.next.word not in _AFTER_TABLE:
        return cursor.single_name()
    return None

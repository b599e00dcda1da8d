"""The grammar of CREATE TABLE and ALTER TABLE; columns are handed on in the words of the model's schemas."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mangrove.model.names import joined_name, quoted_name
from mangrove.sql.cursor import Cursor
from mangrove.sql.grammar_queries import parse_query
from mangrove.sql.other_dialects import OTHER_CONSTRAINTS, refuse_other_constraints
from mangrove.sql.places import error_at
from mangrove.sql.statements import (
    AddCheck,
    AddColumns,
    AlterColumn,
    AlterTable,
    CheckRule,
    CreateTable,
    DropCheck,
    DropColumns,
    NewColumn,
    RenameColumn,
    RenameTo,
    SetClusterBy,
    SetComment,
    SetProperties,
    TableAction,
    UnsetProperties,
)
from mangrove.sql.tokens import TokenKind
from mangrove.tables.constraints import SUBQUERY_REFUSED, subquery_place

__all__ = ["parse_alter_table", "parse_create_table", "properties_of", "property_names"]

_CONSTRAINTS: Final = ("PRIMARY", "CONSTRAINT", "CHECK", "UNIQUE", "FOREIGN")


def parse_create_table(cursor: Cursor, *, or_replace: bool, must_exist: bool, is_external: bool) -> CreateTable:
    """Take what follows CREATE TABLE."""
    said: dict[str, Any] = {"or_replace": or_replace, "must_exist": must_exist, "is_external": is_external}
    said["if_not_exists"] = cursor.took("IF", "NOT", "EXISTS")
    name = cursor.name()
    if cursor.took("LIKE"):
        said["like"] = cursor.name()
    elif cursor.sees("("):
        said |= _columns(cursor)
    while not cursor.is_at_end:
        if cursor.took("AS") or cursor.next.word in ("SELECT", "WITH", "FROM", "VALUES"):
            said["query"] = parse_query(cursor)
            break
        said |= _clause(cursor)
    return CreateTable(name, **said)


def parse_alter_table(cursor: Cursor) -> AlterTable:
    """Take what follows ALTER TABLE."""
    name = cursor.name()
    action = _action(cursor)
    cursor.expect_end()
    return AlterTable(name, action)


def properties_of(cursor: Cursor) -> Mapping[str, str]:
    """Take properties between brackets; names may be bare, dotted or between quotes."""

    def entry() -> tuple[str, str]:
        key = _property_name(cursor)
        cursor.took("=")
        return key, _property_value(cursor)

    return dict(cursor.listed(entry))


def property_names(cursor: Cursor) -> tuple[str, ...]:
    """Take names of properties between brackets."""
    return cursor.listed(lambda: _property_name(cursor))


def _property_name(cursor: Cursor) -> str:
    if cursor.next.kind is TokenKind.TEXT:
        return cursor.words_text()
    first = cursor.name()
    end = first.end
    while cursor.next.text == "-" and cursor.next.start == end:
        # write.target-size needs no quotes in Spark's grammar either.
        cursor.place += 1
        end = cursor.name().end
    return cursor.text[first.start : end]


def _property_value(cursor: Cursor) -> str:
    if cursor.next.kind is TokenKind.TEXT:
        return cursor.words_text()
    piece = cursor.piece_until(",", ")")
    return piece.text.lower() if piece.text.lower() in ("true", "false") else piece.text


def _clause(cursor: Cursor) -> dict[str, Any]:
    """Take one clause behind the columns."""
    clauses: dict[tuple[str, ...], Callable[[], dict[str, Any]]] = {
        ("USING",): lambda: {"table_format": cursor.single_name()},
        ("PARTITIONED", "BY"): lambda: {"partition_by": _texts(cursor)},
        ("CLUSTER", "BY"): lambda: {"cluster_by": _texts(cursor)},
        ("CLUSTERED", "BY"): lambda: {"cluster_by": _texts(cursor)},
        ("LOCATION",): lambda: {"location": cursor.words_text()},
        ("COMMENT",): lambda: {"comment": cursor.words_text()},
        ("TBLPROPERTIES",): lambda: {"properties": properties_of(cursor)},
        ("OPTIONS",): lambda: {"options": properties_of(cursor)},
    }
    for words, take in clauses.items():
        if cursor.took(*words):
            return take()
    wanted = ", ".join(" ".join(words) for words in clauses)
    raise cursor.refusal(f"{wanted} or AS")


def _texts(cursor: Cursor) -> tuple[str, ...]:
    return cursor.listed(lambda: cursor.piece_until(",", ")").text)


def _columns(cursor: Cursor) -> dict[str, Any]:
    """Take the columns and constraints between brackets."""
    columns: list[str] = []
    keys: list[str] = []
    checks: list[CheckRule] = []

    def entry() -> None:
        if cursor.next.word in _CONSTRAINTS and cursor.peek().text != ".":
            _constraint(cursor, keys, checks)
        else:
            columns.append(_column(cursor, keys, checks))

    cursor.listed(entry)
    return {"columns": ", ".join(columns) or None, "keys": tuple(keys), "checks": tuple(checks)}


def _constraint(cursor: Cursor, keys: list[str], checks: list[CheckRule]) -> None:
    name = cursor.single_name() if cursor.took("CONSTRAINT") else None
    refuse_other_constraints(cursor)
    at = cursor.next.start
    if cursor.took("PRIMARY", "KEY"):
        _take_keys(cursor, keys, cursor.listed(cursor.single_name), at)
        cursor.took("NOT", "ENFORCED")
        cursor.took("RELY")
    elif cursor.took("CHECK"):
        checks.append(CheckRule(name, _condition(cursor)))
    else:
        raise cursor.refusal("PRIMARY KEY or CHECK")


def _take_keys(cursor: Cursor, keys: list[str], names: Sequence[str], at: int) -> None:
    """Add the columns of the key, of which a table has one."""
    if keys:
        raise error_at(cursor.text, at, "a table has one primary key: for several columns write PRIMARY KEY (a, b)")
    if len({name.casefold() for name in names}) < len(names):
        raise error_at(cursor.text, at, f"the primary key names a column twice: {', '.join(names)}")
    keys += names


def _condition(cursor: Cursor) -> str:
    """Take the condition of a check, which is asked of each row alone."""
    piece = cursor.bracketed()
    place = subquery_place(piece.text)
    if place is not None:
        raise error_at(cursor.text, piece.start + place, f"a check {SUBQUERY_REFUSED}")
    return piece.text


def _column(cursor: Cursor, keys: list[str], checks: list[CheckRule]) -> str:
    """Take a column, and return it without the constraints that the model's schemas have no words for."""
    name = cursor.single_name()
    kept = [quoted_name(name)]
    while not cursor.is_at_end and not cursor.sees(",") and not cursor.sees(")"):
        if len(kept) > 1:
            refuse_other_constraints(cursor)
        at = cursor.next.start
        if cursor.took("PRIMARY", "KEY"):
            _take_keys(cursor, keys, [name], at)
        elif cursor.next.word in ("CONSTRAINT", "CHECK"):
            _constraint(cursor, keys, checks)
        else:
            kept.append(_column_words(cursor))
    if len(kept) == 1:
        raise cursor.refusal(f"the type of column {name!r}")
    return " ".join(kept)


def _column_words(cursor: Cursor) -> str:
    """Take the type, or one word of what follows it, with whatever lies in its brackets."""
    first, depth = cursor.place, 0
    while not cursor.is_at_end:
        token = cursor.next
        if depth == 0 and (token.text in (",", ")") or (cursor.place > first and _ends_words(cursor))):
            break
        depth += (token.text in ("(", "[", "<")) - (token.text in (")", "]", ">"))
        depth -= token.text == "<>"
        cursor.place += 1
    return " ".join(token.text for token in cursor.tokens[first : cursor.place])


def _ends_words(cursor: Cursor) -> bool:
    return cursor.sees("PRIMARY", "KEY") or cursor.next.word in ("CONSTRAINT", "CHECK", *OTHER_CONSTRAINTS)


def _action(cursor: Cursor) -> TableAction:
    if cursor.took("RENAME", "TO"):
        return RenameTo(cursor.name())
    if cursor.took("RENAME", "COLUMN"):
        path = cursor.name().parts
        cursor.expect("TO")
        return RenameColumn(path, cursor.single_name())
    if cursor.took("ADD"):
        return _added(cursor)
    if cursor.took("DROP"):
        return _dropped(cursor)
    if cursor.took_one_of("ALTER", "CHANGE"):
        cursor.took("COLUMN")
        return _altered_column(cursor)
    if cursor.took("CLUSTER", "BY"):
        return SetClusterBy(() if cursor.took("NONE") else _texts(cursor))
    if cursor.took("SET", "TBLPROPERTIES"):
        return SetProperties(properties_of(cursor))
    if cursor.took("SET", "COMMENT"):
        return SetComment(cursor.words_text())
    if cursor.took("UNSET", "TBLPROPERTIES"):
        if_exists = cursor.took("IF", "EXISTS")
        return UnsetProperties(property_names(cursor), if_exists)
    raise cursor.refusal("RENAME, ADD, DROP, ALTER COLUMN, CLUSTER BY, SET or UNSET")


def _added(cursor: Cursor) -> TableAction:
    if cursor.sees("CONSTRAINT") or cursor.sees("CHECK"):
        name = cursor.single_name() if cursor.took("CONSTRAINT") else None
        cursor.expect("CHECK")
        return AddCheck(CheckRule(name, _condition(cursor)))
    if cursor.took_one_of("COLUMN", "COLUMNS") is None:
        raise cursor.refusal("COLUMN, COLUMNS or CONSTRAINT")
    if cursor.sees("("):
        return AddColumns(cursor.listed(lambda: _new_column(cursor)))
    found = [_new_column(cursor)]
    while cursor.took(","):
        found.append(_new_column(cursor))
    return AddColumns(tuple(found))


def _new_column(cursor: Cursor) -> NewColumn:
    path = cursor.name().parts
    first, depth = cursor.place, 0
    while not cursor.is_at_end:
        token = cursor.next
        is_over = token.text in (",", ")") or (cursor.place > first and token.word in ("FIRST", "AFTER"))
        if depth == 0 and is_over:
            break
        depth += (token.text in ("(", "<")) - (token.text in (")", ">"))
        cursor.place += 1
    if first == cursor.place:
        raise cursor.refusal(f"the type of column {joined_name(*path)}")
    words = " ".join(token.text for token in cursor.tokens[first : cursor.place])
    if cursor.took("FIRST"):
        return NewColumn(path, words, is_first=True)
    return NewColumn(path, words, after=cursor.single_name() if cursor.took("AFTER") else None)


def _dropped(cursor: Cursor) -> TableAction:
    if cursor.took("CONSTRAINT"):
        if_exists = cursor.took("IF", "EXISTS")
        return DropCheck(cursor.single_name(), if_exists)
    if cursor.took_one_of("COLUMN", "COLUMNS") is None:
        raise cursor.refusal("COLUMN, COLUMNS or CONSTRAINT")
    if_exists = cursor.took("IF", "EXISTS")
    if cursor.sees("("):
        return DropColumns(cursor.listed(lambda: cursor.name().parts), if_exists)
    paths = [cursor.name().parts]
    while cursor.took(","):
        paths.append(cursor.name().parts)
    return DropColumns(tuple(paths), if_exists)


def _altered_column(cursor: Cursor) -> AlterColumn:
    path = cursor.name().parts
    if cursor.took("TYPE"):
        return AlterColumn(path, "type", cursor.rest().text)
    if cursor.took("COMMENT"):
        return AlterColumn(path, "comment", cursor.words_text())
    if cursor.took("FIRST"):
        return AlterColumn(path, "first")
    if cursor.took("AFTER"):
        return AlterColumn(path, "after", cursor.single_name())
    if cursor.took("SET", "DEFAULT"):
        return AlterColumn(path, "default", cursor.rest().text)
    for words, what in {
        ("DROP", "DEFAULT"): "drop default",
        ("SET", "NOT", "NULL"): "not null",
        ("DROP", "NOT", "NULL"): "null",
    }.items():
        if cursor.took(*words):
            return AlterColumn(path, what)
    raise cursor.refusal("TYPE, COMMENT, FIRST, AFTER, SET DEFAULT, DROP DEFAULT, SET NOT NULL or DROP NOT NULL")

"""The grammar of CREATE, ALTER, DROP, DESCRIBE and SHOW for namespaces, tables and views."""

from collections.abc import Mapping
from typing import Final

from mangrove.sql.cursor import Cursor, SqlName
from mangrove.sql.grammar_queries import parse_query
from mangrove.sql.grammar_tables import parse_alter_table, parse_create_table, properties_of, property_names
from mangrove.sql.places import error_at
from mangrove.sql.statements import (
    AlterColumn,
    AlterNamespace,
    AlterTable,
    AlterView,
    CreateNamespace,
    CreateTable,
    CreateView,
    Describe,
    DropObject,
    RenameTo,
    SetComment,
    SetProperties,
    Show,
    TemporaryView,
    UnsetProperties,
)

__all__ = ["parse_alter", "parse_comment_on", "parse_create", "parse_describe", "parse_drop", "parse_show"]

_NAMESPACE: Final = ("NAMESPACE", "SCHEMA", "DATABASE")
_PROPERTIES: Final = ("PROPERTIES", "DBPROPERTIES", "TBLPROPERTIES")


def parse_create(cursor: Cursor) -> CreateNamespace | CreateTable | CreateView | TemporaryView | None:
    """Take CREATE; None where it makes something that only Spark knows, such as a function."""
    must_exist = cursor.took("REPLACE")
    or_replace = must_exist
    if not must_exist:
        cursor.expect("CREATE")
        or_replace = cursor.took("OR", "REPLACE")
    if not or_replace and cursor.took_one_of(*_NAMESPACE):
        return _create_namespace(cursor)
    is_global = cursor.took("GLOBAL")
    if cursor.took_one_of("TEMP", "TEMPORARY"):
        return _temporary_view(cursor, or_replace=or_replace, is_global=is_global)
    if not must_exist and cursor.took("VIEW"):
        return _create_view(cursor, or_replace=or_replace)
    is_external = cursor.took("EXTERNAL")
    if cursor.took("TABLE"):
        return parse_create_table(cursor, or_replace=or_replace, must_exist=must_exist, is_external=is_external)
    return None


def parse_alter(cursor: Cursor) -> AlterNamespace | AlterTable | AlterView | None:
    """Take ALTER."""
    cursor.expect("ALTER")
    if cursor.took_one_of(*_NAMESPACE):
        name = cursor.name()
        statement = AlterNamespace(name, _common_action(cursor))
        cursor.expect_end()
        return statement
    if cursor.took("VIEW"):
        name = cursor.name()
        if cursor.took("AS"):
            return AlterView(name, parse_query(cursor))
        view = AlterView(name, _common_action(cursor))
        cursor.expect_end()
        return view
    if cursor.took("TABLE"):
        return parse_alter_table(cursor)
    return None


def parse_comment_on(cursor: Cursor) -> AlterNamespace | AlterTable | AlterView:
    """Take COMMENT ON."""
    cursor.expect("COMMENT", "ON")
    kind = cursor.took_one_of(*_NAMESPACE, "TABLE", "VIEW", "COLUMN")
    if kind is None:
        raise cursor.refusal("NAMESPACE, TABLE, VIEW or COLUMN")
    name = cursor.name()
    cursor.expect("IS")
    action = SetComment("" if cursor.took("NULL") else cursor.words_text())
    cursor.expect_end()
    if kind == "COLUMN":
        if len(name.parts) < 2:
            raise error_at(cursor.text, name.start, "a column is named with its table: write table.column")
        table = SqlName(name.parts[:-1], name.start, name.end)
        return AlterTable(table, AlterColumn(name.parts[-1:], "comment", action.comment))
    if kind == "TABLE":
        return AlterTable(name, action)
    return AlterView(name, action) if kind == "VIEW" else AlterNamespace(name, action)


def parse_drop(cursor: Cursor) -> DropObject | None:
    """Take DROP; None where it drops something that only Spark knows."""
    cursor.expect("DROP")
    kind = cursor.took_one_of(*_NAMESPACE, "TABLE", "VIEW")
    if kind is None:
        return None
    if_exists = cursor.took("IF", "EXISTS")
    name = cursor.name()
    cascade = cursor.took_one_of("CASCADE", "RESTRICT", "PURGE") == "CASCADE"
    cursor.expect_end()
    return DropObject("namespace" if kind in _NAMESPACE else kind.lower(), name, if_exists, cascade)


def parse_describe(cursor: Cursor) -> Describe | None:
    """Take DESCRIBE; None for functions and queries, which Spark describes."""
    cursor.place += 1
    if cursor.took_one_of(*_NAMESPACE):
        is_extended = cursor.took("EXTENDED")
        statement = Describe("namespace", cursor.name(), is_extended)
        cursor.expect_end()
        return statement
    if cursor.next.word in ("FUNCTION", "QUERY", "SELECT", "WITH", "FROM", "VALUES", "CATALOG") or cursor.sees("("):
        return None
    if cursor.took("HISTORY"):
        return Describe("history", cursor.name())
    cursor.took("TABLE")
    is_extended = cursor.took_one_of("EXTENDED", "FORMATTED") is not None
    name = cursor.name()
    column = () if cursor.is_at_end else cursor.name().parts
    cursor.expect_end()
    return Describe("table", name, is_extended, column)


def parse_show(cursor: Cursor) -> Show | None:
    """Take SHOW; None for what only Spark can list, such as functions."""
    cursor.expect("SHOW")
    if cursor.took_one_of("NAMESPACES", "SCHEMAS", "DATABASES"):
        return _listed(cursor, "namespaces")
    for word in ("TABLES", "VIEWS"):
        if cursor.took(word):
            return _listed(cursor, word.lower())
    if cursor.took("COLUMNS"):
        return _columns(cursor)
    if cursor.took("CREATE", "TABLE"):
        return _about(cursor, "create")
    if cursor.took("TBLPROPERTIES"):
        name = cursor.name()
        key = cursor.listed(cursor.words_text)[0] if cursor.sees("(") else None
        cursor.expect_end()
        return Show("properties", name, key)
    if cursor.took("PARTITIONS"):
        return _about(cursor, "partitions")
    if cursor.took("HISTORY"):
        of_table = cursor.name() if cursor.took_one_of("FOR", "OF", "IN", "FROM") else None
        limit = cursor.whole_number() if cursor.took("LIMIT") else None
        cursor.expect_end()
        return Show("history", of_table, limit=limit)
    if cursor.took("EXPORTS"):
        cursor.expect_end()
        return Show("exports")
    if cursor.took("CURRENT", "NAMESPACE"):
        cursor.expect_end()
        return Show("current namespace")
    return None


def _listed(cursor: Cursor, kind: str) -> Show:
    name = cursor.name() if cursor.took_one_of("FROM", "IN") else None
    cursor.took("LIKE")
    pattern = None if cursor.is_at_end else cursor.words_text()
    cursor.expect_end()
    return Show(kind, name, pattern)


def _columns(cursor: Cursor) -> Show:
    if cursor.took_one_of("FROM", "IN") is None:
        raise cursor.refusal("FROM or IN")
    name = cursor.name()
    if cursor.took_one_of("FROM", "IN"):
        name = SqlName((*cursor.name().parts, name.parts[-1]), name.start, name.end)
    cursor.expect_end()
    return Show("columns", name)


def _about(cursor: Cursor, kind: str) -> Show:
    statement = Show(kind, cursor.name())
    cursor.expect_end()
    return statement


def _create_namespace(cursor: Cursor) -> CreateNamespace:
    if_not_exists = cursor.took("IF", "NOT", "EXISTS")
    name = cursor.name()
    comment: str | None = None
    properties: Mapping[str, str] = {}
    while not cursor.is_at_end:
        if cursor.took("COMMENT"):
            comment = cursor.words_text()
        elif cursor.took("WITH"):
            if cursor.took_one_of(*_PROPERTIES) is None:
                raise cursor.refusal("PROPERTIES")
            properties = properties_of(cursor)
        else:
            raise cursor.refusal("COMMENT, WITH PROPERTIES or the end")
    return CreateNamespace(name, if_not_exists, comment, properties)


def _temporary_view(cursor: Cursor, *, or_replace: bool, is_global: bool) -> TemporaryView | None:
    if not cursor.took("VIEW"):
        return None
    name = cursor.name()
    if len(name.parts) > 1:
        message = "a temporary view is the session's, and in no namespace: give it one name"
        raise error_at(cursor.text, name.start, message)
    columns = cursor.listed(cursor.single_name) if cursor.sees("(") and not cursor.sees("(", "SELECT") else ()
    if not columns and cursor.sees("USING"):
        # A view of files is Spark's own.
        return None
    cursor.expect("AS")
    return TemporaryView(name, parse_query(cursor), or_replace, is_global, columns)


def _create_view(cursor: Cursor, *, or_replace: bool) -> CreateView:
    if_not_exists = cursor.took("IF", "NOT", "EXISTS")
    name = cursor.name()

    def column() -> tuple[str, str | None]:
        return cursor.single_name(), cursor.words_text() if cursor.took("COMMENT") else None

    columns = cursor.listed(column) if cursor.sees("(") else ()
    comment: str | None = None
    properties: Mapping[str, str] = {}
    while not cursor.took("AS"):
        if cursor.took("COMMENT"):
            comment = cursor.words_text()
        elif cursor.took("TBLPROPERTIES"):
            properties = properties_of(cursor)
        else:
            raise cursor.refusal("COMMENT, TBLPROPERTIES or AS")
    return CreateView(name, parse_query(cursor), columns, comment, properties, if_not_exists, or_replace)


def _common_action(cursor: Cursor) -> SetProperties | UnsetProperties | SetComment | RenameTo:
    if cursor.took("RENAME", "TO"):
        return RenameTo(cursor.name())
    if cursor.took("SET"):
        if cursor.took("COMMENT"):
            return SetComment(cursor.words_text())
        if cursor.took_one_of(*_PROPERTIES):
            return SetProperties(properties_of(cursor))
        raise cursor.refusal("PROPERTIES or COMMENT")
    if cursor.took("UNSET") and cursor.took_one_of(*_PROPERTIES):
        if_exists = cursor.took("IF", "EXISTS")
        return UnsetProperties(property_names(cursor), if_exists)
    raise cursor.refusal("SET, UNSET or RENAME TO")

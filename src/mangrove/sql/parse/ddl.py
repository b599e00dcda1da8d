"""Parser for CREATE, ALTER, DROP, DESCRIBE and SHOW."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mangrove.model.names import join_name, quote_name
from mangrove.sql.parse.clauses import UNSUPPORTED_CONSTRAINTS, parse_query, refuse_unsupported_constraints
from mangrove.sql.parse.statements import (
    AddCheck,
    AddColumns,
    AlterColumn,
    AlterNamespace,
    AlterTable,
    AlterView,
    CheckConstraint,
    CreateNamespace,
    CreateTable,
    CreateView,
    Describe,
    DropCheck,
    DropColumns,
    DropObject,
    GrantStatement,
    NewColumn,
    RenameColumn,
    RenameTo,
    SetClusterBy,
    SetComment,
    SetProperties,
    ShowStatement,
    TableAction,
    TemporaryView,
    UnsetProperties,
)
from mangrove.sql.parse.tokens import SqlName, SqlTokenKind, TokenCursor, build_error_at
from mangrove.tables.constraints import SUBQUERY_REFUSED, find_subquery

__all__ = [
    "parse_alter",
    "parse_alter_table",
    "parse_comment_on",
    "parse_create",
    "parse_create_table",
    "parse_describe",
    "parse_drop",
    "parse_grant",
    "parse_properties",
    "parse_property_names",
    "parse_show",
]

_CONSTRAINTS: Final = ("PRIMARY", "CONSTRAINT", "CHECK", "UNIQUE", "FOREIGN")


def parse_create_table(cursor: TokenCursor, *, or_replace: bool, must_exist: bool, is_external: bool) -> CreateTable:
    """Parse the rest of CREATE TABLE."""
    arguments: dict[str, Any] = {"or_replace": or_replace, "must_exist": must_exist, "is_external": is_external}
    arguments["if_not_exists"] = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    if cursor.accept("LIKE"):
        arguments["like"] = cursor.name()
    elif cursor.is_next("("):
        arguments |= _parse_columns(cursor)
    while not cursor.is_at_end:
        if cursor.accept("AS") or cursor.next.word in ("SELECT", "WITH", "FROM", "VALUES"):
            arguments["query"] = parse_query(cursor)
            break
        arguments |= _parse_clause(cursor)
    return CreateTable(name, **arguments)


def parse_alter_table(cursor: TokenCursor) -> AlterTable:
    """Parse the rest of ALTER TABLE."""
    name = cursor.name()
    action = _parse_table_action(cursor)
    cursor.expect_end()
    return AlterTable(name, action)


def parse_properties(cursor: TokenCursor) -> Mapping[str, str]:
    """Parse properties in parentheses; names may be unquoted, dotted or quoted."""

    def entry() -> tuple[str, str]:
        key = _parse_property_name(cursor)
        cursor.accept("=")
        return key, _parse_property_value(cursor)

    return dict(cursor.expect_list(entry))


def parse_property_names(cursor: TokenCursor) -> tuple[str, ...]:
    """Parse property names in parentheses."""
    return cursor.expect_list(lambda: _parse_property_name(cursor))


def _parse_property_name(cursor: TokenCursor) -> str:
    if cursor.next.kind is SqlTokenKind.TEXT:
        return cursor.expect_text()
    first = cursor.name()
    end = first.end
    while cursor.next.text == "-" and cursor.next.start == end:
        # Spark also accepts write.target-size without quotes.
        cursor.place += 1
        end = cursor.name().end
    return cursor.text[first.start : end]


def _parse_property_value(cursor: TokenCursor) -> str:
    if cursor.next.kind is SqlTokenKind.TEXT:
        return cursor.expect_text()
    piece = cursor.take_until(",", ")")
    return piece.text.lower() if piece.text.lower() in ("true", "false") else piece.text


def _parse_clause(cursor: TokenCursor) -> dict[str, Any]:
    """Parse one clause after the columns."""
    clauses: dict[tuple[str, ...], Callable[[], dict[str, Any]]] = {
        ("USING",): lambda: {"table_format": cursor.expect_single_name()},
        ("PARTITIONED", "BY"): lambda: {"partition_by": _parse_text_list(cursor)},
        ("CLUSTER", "BY"): lambda: {"cluster_by": _parse_text_list(cursor)},
        ("CLUSTERED", "BY"): lambda: {"cluster_by": _parse_text_list(cursor)},
        ("LOCATION",): lambda: {"location": cursor.expect_text()},
        ("COMMENT",): lambda: {"comment": cursor.expect_text()},
        ("TBLPROPERTIES",): lambda: {"properties": parse_properties(cursor)},
        ("OPTIONS",): lambda: {"options": parse_properties(cursor)},
    }
    for keywords, parse_clause in clauses.items():
        if cursor.accept(*keywords):
            return parse_clause()
    expected = ", ".join(" ".join(keywords) for keywords in clauses)
    raise cursor.unexpected(f"{expected} or AS")


def _parse_text_list(cursor: TokenCursor) -> tuple[str, ...]:
    return cursor.expect_list(lambda: cursor.take_until(",", ")").text)


def _parse_columns(cursor: TokenCursor) -> dict[str, Any]:
    """Parse the columns and constraints in parentheses."""
    if cursor.accept("(", ")"):
        return {"schemaless": True}
    columns: list[str] = []
    keys: list[str] = []
    checks: list[CheckConstraint] = []

    def entry() -> None:
        if cursor.next.word in _CONSTRAINTS and cursor.peek().text != ".":
            _parse_constraint(cursor, keys, checks)
        else:
            columns.append(_parse_column(cursor, keys, checks))

    cursor.expect_list(entry)
    return {"columns": ", ".join(columns) or None, "keys": tuple(keys), "checks": tuple(checks)}


def _parse_constraint(cursor: TokenCursor, keys: list[str], checks: list[CheckConstraint]) -> None:
    name = cursor.expect_single_name() if cursor.accept("CONSTRAINT") else None
    refuse_unsupported_constraints(cursor)
    at = cursor.next.start
    if cursor.accept("PRIMARY", "KEY"):
        _add_keys(cursor, keys, cursor.expect_list(cursor.expect_single_name), at)
        cursor.accept("NOT", "ENFORCED")
        cursor.accept("RELY")
    elif cursor.accept("CHECK"):
        checks.append(CheckConstraint(name, _parse_check_condition(cursor)))
    else:
        raise cursor.unexpected("PRIMARY KEY or CHECK")


def _add_keys(cursor: TokenCursor, keys: list[str], names: Sequence[str], at: int) -> None:
    """Add the columns of the primary key; raise an error for a second key or duplicate columns."""
    if keys:
        raise build_error_at(cursor.text, at, "a table has one primary key; for several columns use PRIMARY KEY (a, b)")
    if len({name.casefold() for name in names}) < len(names):
        raise build_error_at(cursor.text, at, f"the primary key has a duplicate column: {', '.join(names)}")
    keys += names


def _parse_check_condition(cursor: TokenCursor) -> str:
    """Parse the condition of a check, which must not contain a subquery."""
    piece = cursor.expect_parenthesized()
    place = find_subquery(piece.text)
    if place is not None:
        raise build_error_at(cursor.text, piece.start + place, f"a check {SUBQUERY_REFUSED}")
    return piece.text


def _parse_column(cursor: TokenCursor, keys: list[str], checks: list[CheckConstraint]) -> str:
    """Parse a column and return its text without PRIMARY KEY and CHECK, which are collected separately."""
    name = cursor.expect_single_name()
    parts = [quote_name(name)]
    while not cursor.is_at_end and not cursor.is_next(",") and not cursor.is_next(")"):
        if len(parts) > 1:
            refuse_unsupported_constraints(cursor)
        at = cursor.next.start
        if cursor.accept("PRIMARY", "KEY"):
            _add_keys(cursor, keys, [name], at)
        elif cursor.next.word in ("CONSTRAINT", "CHECK"):
            _parse_constraint(cursor, keys, checks)
        else:
            parts.append(_parse_type_text(cursor))
    if len(parts) == 1:
        raise cursor.unexpected(f"the type of column {name!r}")
    return " ".join(parts)


def _parse_type_text(cursor: TokenCursor) -> str:
    """Parse a type or one of the options after it, including nested brackets."""
    first, depth = cursor.place, 0
    while not cursor.is_at_end:
        token = cursor.next
        if depth == 0 and (token.text in (",", ")") or (cursor.place > first and _ends_type_text(cursor))):
            break
        depth += (token.text in ("(", "[", "<")) - (token.text in (")", "]", ">"))
        depth -= token.text == "<>"
        cursor.place += 1
    return " ".join(token.text for token in cursor.tokens[first : cursor.place])


def _ends_type_text(cursor: TokenCursor) -> bool:
    return cursor.is_next("PRIMARY", "KEY") or cursor.next.word in ("CONSTRAINT", "CHECK", *UNSUPPORTED_CONSTRAINTS)


def _parse_table_action(cursor: TokenCursor) -> TableAction:
    if cursor.accept("RENAME", "TO"):
        return RenameTo(cursor.name())
    if cursor.accept("RENAME", "COLUMN"):
        path = cursor.name().parts
        cursor.expect("TO")
        return RenameColumn(path, cursor.expect_single_name())
    if cursor.accept("ADD"):
        return _parse_add_action(cursor)
    if cursor.accept("DROP"):
        return _parse_drop_action(cursor)
    if cursor.accept_one_of("ALTER", "CHANGE"):
        cursor.accept("COLUMN")
        return _parse_alter_column(cursor)
    if cursor.accept("CLUSTER", "BY"):
        return SetClusterBy(() if cursor.accept("NONE") else _parse_text_list(cursor))
    if cursor.accept("SET", "TBLPROPERTIES"):
        return SetProperties(parse_properties(cursor))
    if cursor.accept("SET", "COMMENT"):
        return SetComment(cursor.expect_text())
    if cursor.accept("UNSET", "TBLPROPERTIES"):
        if_exists = cursor.accept("IF", "EXISTS")
        return UnsetProperties(parse_property_names(cursor), if_exists)
    raise cursor.unexpected("RENAME, ADD, DROP, ALTER COLUMN, CLUSTER BY, SET or UNSET")


def _parse_add_action(cursor: TokenCursor) -> TableAction:
    if cursor.is_next("CONSTRAINT") or cursor.is_next("CHECK"):
        name = cursor.expect_single_name() if cursor.accept("CONSTRAINT") else None
        cursor.expect("CHECK")
        return AddCheck(CheckConstraint(name, _parse_check_condition(cursor)))
    if cursor.accept_one_of("COLUMN", "COLUMNS") is None:
        raise cursor.unexpected("COLUMN, COLUMNS or CONSTRAINT")
    if cursor.is_next("("):
        return AddColumns(cursor.expect_list(lambda: _parse_new_column(cursor)))
    columns = [_parse_new_column(cursor)]
    while cursor.accept(","):
        columns.append(_parse_new_column(cursor))
    return AddColumns(tuple(columns))


def _parse_new_column(cursor: TokenCursor) -> NewColumn:
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
        raise cursor.unexpected(f"the type of column {join_name(*path)}")
    type_text = " ".join(token.text for token in cursor.tokens[first : cursor.place])
    if cursor.accept("FIRST"):
        return NewColumn(path, type_text, is_first=True)
    return NewColumn(path, type_text, after=cursor.expect_single_name() if cursor.accept("AFTER") else None)


def _parse_drop_action(cursor: TokenCursor) -> TableAction:
    if cursor.accept("CONSTRAINT"):
        if_exists = cursor.accept("IF", "EXISTS")
        return DropCheck(cursor.expect_single_name(), if_exists)
    if cursor.accept_one_of("COLUMN", "COLUMNS") is None:
        raise cursor.unexpected("COLUMN, COLUMNS or CONSTRAINT")
    if_exists = cursor.accept("IF", "EXISTS")
    if cursor.is_next("("):
        return DropColumns(cursor.expect_list(lambda: cursor.name().parts), if_exists)
    paths = [cursor.name().parts]
    while cursor.accept(","):
        paths.append(cursor.name().parts)
    return DropColumns(tuple(paths), if_exists)


def _parse_alter_column(cursor: TokenCursor) -> AlterColumn:
    path = cursor.name().parts
    if cursor.accept("TYPE"):
        return AlterColumn(path, "type", cursor.take_rest().text)
    if cursor.accept("COMMENT"):
        return AlterColumn(path, "comment", cursor.expect_text())
    if cursor.accept("FIRST"):
        return AlterColumn(path, "first")
    if cursor.accept("AFTER"):
        return AlterColumn(path, "after", cursor.expect_single_name())
    if cursor.accept("SET", "DEFAULT"):
        return AlterColumn(path, "default", cursor.take_rest().text)
    for keywords, what in {
        ("DROP", "DEFAULT"): "drop default",
        ("SET", "NOT", "NULL"): "not null",
        ("DROP", "NOT", "NULL"): "null",
    }.items():
        if cursor.accept(*keywords):
            return AlterColumn(path, what)
    raise cursor.unexpected("TYPE, COMMENT, FIRST, AFTER, SET DEFAULT, DROP DEFAULT, SET NOT NULL or DROP NOT NULL")


_NAMESPACE: Final = ("NAMESPACE", "SCHEMA", "DATABASE")
_PROPERTIES: Final = ("PROPERTIES", "DBPROPERTIES", "TBLPROPERTIES")


def parse_create(cursor: TokenCursor) -> CreateNamespace | CreateTable | CreateView | TemporaryView | None:
    """Parse CREATE; return None for objects that only Spark supports, such as functions."""
    must_exist = cursor.accept("REPLACE")
    or_replace = must_exist
    if not must_exist:
        cursor.expect("CREATE")
        or_replace = cursor.accept("OR", "REPLACE")
    if not or_replace and cursor.accept_one_of(*_NAMESPACE):
        return _parse_create_namespace(cursor)
    is_global = cursor.accept("GLOBAL")
    if cursor.accept_one_of("TEMP", "TEMPORARY"):
        return _parse_temporary_view(cursor, or_replace=or_replace, is_global=is_global)
    if not must_exist and cursor.accept("VIEW"):
        return _parse_create_view(cursor, or_replace=or_replace)
    is_external = cursor.accept("EXTERNAL")
    if cursor.accept("TABLE"):
        return parse_create_table(cursor, or_replace=or_replace, must_exist=must_exist, is_external=is_external)
    return None


def parse_alter(cursor: TokenCursor) -> AlterNamespace | AlterTable | AlterView | None:
    """Parse ALTER."""
    cursor.expect("ALTER")
    if cursor.accept_one_of(*_NAMESPACE):
        name = cursor.name()
        statement = AlterNamespace(name, _parse_common_action(cursor))
        cursor.expect_end()
        return statement
    if cursor.accept("VIEW"):
        name = cursor.name()
        if cursor.accept("AS"):
            return AlterView(name, parse_query(cursor))
        view = AlterView(name, _parse_common_action(cursor))
        cursor.expect_end()
        return view
    if cursor.accept("TABLE"):
        return parse_alter_table(cursor)
    return None


def parse_comment_on(cursor: TokenCursor) -> AlterNamespace | AlterTable | AlterView:
    """Parse COMMENT ON."""
    cursor.expect("COMMENT", "ON")
    kind = cursor.accept_one_of(*_NAMESPACE, "TABLE", "VIEW", "COLUMN")
    if kind is None:
        raise cursor.unexpected("NAMESPACE, TABLE, VIEW or COLUMN")
    name = cursor.name()
    cursor.expect("IS")
    action = SetComment("" if cursor.accept("NULL") else cursor.expect_text())
    cursor.expect_end()
    if kind == "COLUMN":
        if len(name.parts) < 2:
            raise build_error_at(cursor.text, name.start, "the table of the column is missing; write table.column")
        table = SqlName(name.parts[:-1], name.start, name.end)
        return AlterTable(table, AlterColumn(name.parts[-1:], "comment", action.comment))
    if kind == "TABLE":
        return AlterTable(name, action)
    return AlterView(name, action) if kind == "VIEW" else AlterNamespace(name, action)


def parse_drop(cursor: TokenCursor) -> DropObject | None:
    """Parse DROP; return None for objects that only Spark supports."""
    cursor.expect("DROP")
    kind = cursor.accept_one_of(*_NAMESPACE, "TABLE", "VIEW")
    if kind is None:
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    cascade = cursor.accept_one_of("CASCADE", "RESTRICT", "PURGE") == "CASCADE"
    cursor.expect_end()
    return DropObject("namespace" if kind in _NAMESPACE else kind.lower(), name, if_exists, cascade)


def parse_describe(cursor: TokenCursor) -> Describe | None:
    """Parse DESCRIBE; return None for functions and queries, which Spark describes."""
    cursor.place += 1
    if cursor.accept_one_of(*_NAMESPACE):
        is_extended = cursor.accept("EXTENDED")
        statement = Describe("namespace", cursor.name(), is_extended)
        cursor.expect_end()
        return statement
    if cursor.next.word in ("FUNCTION", "QUERY", "SELECT", "WITH", "FROM", "VALUES", "CATALOG") or cursor.is_next("("):
        return None
    if cursor.accept("HISTORY"):
        return Describe("history", cursor.name())
    cursor.accept("TABLE")
    is_extended = cursor.accept_one_of("EXTENDED", "FORMATTED") is not None
    name = cursor.name()
    column = () if cursor.is_at_end else cursor.name().parts
    cursor.expect_end()
    return Describe("table", name, is_extended, column)


def parse_show(cursor: TokenCursor) -> ShowStatement | None:
    """Parse SHOW; return None for lists that only Spark supports, such as functions."""
    cursor.expect("SHOW")
    if cursor.accept_one_of("NAMESPACES", "SCHEMAS", "DATABASES"):
        return _parse_show_list(cursor, "namespaces")
    for word in ("TABLES", "VIEWS"):
        if cursor.accept(word):
            return _parse_show_list(cursor, word.lower())
    if cursor.accept("COLUMNS"):
        return _parse_show_columns(cursor)
    if cursor.accept("CREATE", "TABLE"):
        return _parse_show_of_table(cursor, "create")
    if cursor.accept("TBLPROPERTIES"):
        name = cursor.name()
        key = cursor.expect_list(cursor.expect_text)[0] if cursor.is_next("(") else None
        cursor.expect_end()
        return ShowStatement("properties", name, key)
    if cursor.accept("PARTITIONS"):
        return _parse_show_of_table(cursor, "partitions")
    if cursor.accept("HISTORY"):
        of_table = cursor.name() if cursor.accept_one_of("FOR", "OF", "IN", "FROM") else None
        limit = cursor.expect_integer() if cursor.accept("LIMIT") else None
        cursor.expect_end()
        return ShowStatement("history", of_table, limit=limit)
    if cursor.accept("GRANTS"):
        kind, granted = _parse_grant_object(cursor) if cursor.accept("ON") else ("all", None)
        cursor.expect_end()
        return ShowStatement(f"{kind} grants", granted)
    if cursor.accept("EXPORTS"):
        cursor.expect_end()
        return ShowStatement("exports")
    if cursor.accept("CURRENT", "NAMESPACE"):
        cursor.expect_end()
        return ShowStatement("current namespace")
    return None


def parse_grant(cursor: TokenCursor) -> GrantStatement:
    """Parse GRANT and REVOKE of a privilege on an object, or of a role."""
    is_revoke = cursor.accept_one_of("GRANT", "REVOKE") == "REVOKE"
    given: dict[str, Any] = {}
    if cursor.accept("ROLE"):
        given["role"] = _parse_grantee(cursor)
    else:
        given["privilege"] = cursor.expect_single_name()
        cursor.expect("ON")
        given["kind"], given["name"] = _parse_grant_object(cursor)
    cursor.expect("FROM" if is_revoke else "TO")
    cursor.accept_one_of("ROLE", "PRINCIPAL")
    statement = GrantStatement(_parse_grantee(cursor), is_revoke, **given)
    cursor.expect_end()
    return statement


def _parse_grant_object(cursor: TokenCursor) -> tuple[str, SqlName | None]:
    if cursor.accept("LAKEHOUSE"):
        return "lakehouse", None
    if cursor.accept_one_of("NAMESPACE", "SCHEMA", "DATABASE"):
        return "namespace", cursor.name()
    cursor.accept_one_of("TABLE", "VIEW")
    return "table", cursor.name()


def _parse_grantee(cursor: TokenCursor) -> str:
    """Parse the name of a principal or role; one with other characters than those of names is quoted."""
    return cursor.expect_text() if cursor.next.kind is SqlTokenKind.TEXT else cursor.expect_single_name()


def _parse_show_list(cursor: TokenCursor, kind: str) -> ShowStatement:
    name = cursor.name() if cursor.accept_one_of("FROM", "IN") else None
    cursor.accept("LIKE")
    pattern = None if cursor.is_at_end else cursor.expect_text()
    cursor.expect_end()
    return ShowStatement(kind, name, pattern)


def _parse_show_columns(cursor: TokenCursor) -> ShowStatement:
    if cursor.accept_one_of("FROM", "IN") is None:
        raise cursor.unexpected("FROM or IN")
    name = cursor.name()
    if cursor.accept_one_of("FROM", "IN"):
        name = SqlName((*cursor.name().parts, name.parts[-1]), name.start, name.end)
    cursor.expect_end()
    return ShowStatement("columns", name)


def _parse_show_of_table(cursor: TokenCursor, kind: str) -> ShowStatement:
    statement = ShowStatement(kind, cursor.name())
    cursor.expect_end()
    return statement


def _parse_create_namespace(cursor: TokenCursor) -> CreateNamespace:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    comment: str | None = None
    properties: Mapping[str, str] = {}
    while not cursor.is_at_end:
        if cursor.accept("COMMENT"):
            comment = cursor.expect_text()
        elif cursor.accept("WITH"):
            if cursor.accept_one_of(*_PROPERTIES) is None:
                raise cursor.unexpected("PROPERTIES")
            properties = parse_properties(cursor)
        else:
            raise cursor.unexpected("COMMENT, WITH PROPERTIES or the end")
    return CreateNamespace(name, if_not_exists, comment, properties)


def _parse_temporary_view(cursor: TokenCursor, *, or_replace: bool, is_global: bool) -> TemporaryView | None:
    if not cursor.accept("VIEW"):
        return None
    name = cursor.name()
    if len(name.parts) > 1:
        message = "a temporary view belongs to the session, not to a namespace; give it a name without a namespace"
        raise build_error_at(cursor.text, name.start, message)
    columns = (
        cursor.expect_list(cursor.expect_single_name)
        if cursor.is_next("(") and not cursor.is_next("(", "SELECT")
        else ()
    )
    if not columns and cursor.is_next("USING"):
        # Spark handles views of files.
        return None
    cursor.expect("AS")
    return TemporaryView(name, parse_query(cursor), or_replace, is_global, columns)


def _parse_create_view(cursor: TokenCursor, *, or_replace: bool) -> CreateView:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()

    def column() -> tuple[str, str | None]:
        return cursor.expect_single_name(), cursor.expect_text() if cursor.accept("COMMENT") else None

    columns = cursor.expect_list(column) if cursor.is_next("(") else ()
    comment: str | None = None
    properties: Mapping[str, str] = {}
    while not cursor.accept("AS"):
        if cursor.accept("COMMENT"):
            comment = cursor.expect_text()
        elif cursor.accept("TBLPROPERTIES"):
            properties = parse_properties(cursor)
        else:
            raise cursor.unexpected("COMMENT, TBLPROPERTIES or AS")
    return CreateView(name, parse_query(cursor), columns, comment, properties, if_not_exists, or_replace)


def _parse_common_action(cursor: TokenCursor) -> SetProperties | UnsetProperties | SetComment | RenameTo:
    if cursor.accept("RENAME", "TO"):
        return RenameTo(cursor.name())
    if cursor.accept("SET"):
        if cursor.accept("COMMENT"):
            return SetComment(cursor.expect_text())
        if cursor.accept_one_of(*_PROPERTIES):
            return SetProperties(parse_properties(cursor))
        raise cursor.unexpected("PROPERTIES or COMMENT")
    if cursor.accept("UNSET") and cursor.accept_one_of(*_PROPERTIES):
        if_exists = cursor.accept("IF", "EXISTS")
        return UnsetProperties(parse_property_names(cursor), if_exists)
    raise cursor.unexpected("SET, UNSET or RENAME TO")

"""Execution of UPDATE, DELETE and MERGE."""

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from typing import Any, Final, TypeAlias, assert_never

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.sql_expression import Expr
from mangrove.lakehouse.merge import TableMerge
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.transaction import Transaction
from mangrove.model.names import join_name, quote_name
from mangrove.model.schema import Schema
from mangrove.model.types import Struct
from mangrove.sql.execute.expressions import (
    StatementExpressions,
    has_subquery,
    list_name_parts,
    list_qualifiers,
    map_full_name,
    require_schema,
    rewrite_qualifiers,
)
from mangrove.sql.execute.insert import (
    execute_insert,
    execute_truncate,
    load_managed_table,
    prepare_insert,
)
from mangrove.sql.execute.query import BoundQuery, QueryBinder
from mangrove.sql.parse.statements import (
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeWhenClause,
    MultiInsert,
    Query,
    TruncateStatement,
    Update,
)
from mangrove.sql.parse.tokens import SqlFragment, SqlName, locate_errors_at, parse_name_chain, tokenize
from mangrove.sql.resolver import StatementSource
from mangrove.tables.write_plan import NO_ROWS, RowCounts

__all__ = ["DmlStatement", "execute_dml", "execute_update_delete_merge", "format_row_counts", "qualify_columns"]

_HEAD: Final = "SELECT "


def qualify_columns(text: str, columns: Collection[str], name: str) -> str:
    """Return the text with unqualified names of these case-folded columns qualified by a table name.

    Names inside subqueries and lambdas stay unchanged. So does a text that sqlglot cannot
    parse; Spark then reports ambiguous names.

    >>> qualify_columns("id + f(t.id, x -> x + n)", {"id", "n"}, "s")
    '`s`.id + f(t.id, x -> x + n)'
    """
    try:
        tree: Any = sqlglot.parse_one(_HEAD + text, dialect="spark")
    except (SqlglotError, RecursionError):
        return text
    places = []
    for column in tree.find_all(exp.Column):
        start = column.parts[0].meta.get("start")
        is_outermost = column.find_ancestor(exp.Select) is tree and column.find_ancestor(exp.Lambda) is None
        if len(column.parts) == 1 and is_outermost and column.name.casefold() in columns and isinstance(start, int):
            places.append(start - len(_HEAD))
    quoted = "`{}`".format(name.replace("`", "``"))
    for place in sorted(places, reverse=True):
        text = f"{text[:place]}{quoted}.{text[place:]}"
    return text


def execute_update_delete_merge(
    statement: Update | Delete | Merge, transaction: Transaction, expressions: StatementExpressions
) -> RowCounts:
    """Execute UPDATE, DELETE or MERGE."""
    table = load_managed_table(transaction, expressions.binder.resolver, statement.table)
    try:
        return _execute_change(statement, table, expressions)
    except (InvalidInputError, NotFoundError) as error:
        # The engine saw pieces of the statement only. A look at each finds the place that it means.
        _raise_located_error(statement, table, expressions)
        raise error from error.__cause__


def _execute_change(statement: Update | Delete | Merge, table: Table, expressions: StatementExpressions) -> RowCounts:
    match statement:
        case Delete():
            return _delete(statement, table, expressions)
        case Update():
            return _update(statement, table, expressions)
        case Merge():
            return _merge(statement, table, expressions)
        case _:
            assert_never(statement)


def _raise_located_error(statement: Update | Delete | Merge, table: Table, expressions: StatementExpressions) -> None:
    """Raise Spark's error for a condition or value, with its position in the statement."""
    quoted = quote_name(statement.alias or statement.table.parts[-1])
    tables = f"{'.'.join(map(quote_name, list_name_parts(table)))} AS {quoted}"
    requested = [(statement.condition, tables)] if statement.condition is not None else []
    values: list[tuple[SqlFragment, str]] = []
    if isinstance(statement, Update):
        values += [(assignment.value, tables) for assignment in statement.assignments]
    elif isinstance(statement, Merge):
        alias = "" if statement.source_alias is None else f" AS {quote_name(statement.source_alias)}"
        names = f"({', '.join(map(quote_name, statement.source_columns))})" if statement.source_columns else ""
        source = f"{statement.source.text}{alias}{names}"
        both = f"{tables}, {source}"
        requested = [(piece, both) for piece, _ in requested]
        tables_by_group = {"matched": both, "not matched": source, "not matched by source": tables}
        for clause in statement.clauses:
            requested += [(clause.condition, tables_by_group[clause.group])] if clause.condition is not None else []
            values += [(assignment.value, tables_by_group[clause.group]) for assignment in clause.assignments]
    for piece, over in requested:
        expressions.analyze(piece, over, is_condition=True)
    for piece, over in values:
        if piece.text.strip().upper() != "DEFAULT":
            expressions.analyze(piece, over)


def _delete(statement: Delete, table: Table, expressions: StatementExpressions) -> RowCounts:
    if statement.condition is None:
        return table.overwrite([])
    condition = expressions.text(statement.condition)
    if has_subquery(condition) and expressions.is_on_spark:
        merge = _merge_single_row(table, statement.table, statement.alias, expressions)
        where = rewrite_qualifiers(condition, map_full_name(statement.table, table, statement.alias))
        return merge.when_matched_delete(where).execute()
    return table.delete(
        expressions.bind_condition(condition, table, statement.table, statement.alias),
        engine=expressions.binder.engine.row_engine,
    )


def _update(statement: Update, table: Table, expressions: StatementExpressions) -> RowCounts:
    schema = require_schema(table)
    names = list_qualifiers(statement.table, statement.alias)
    values = _build_assignments(statement.assignments, schema, names, expressions, table)
    condition = None if statement.condition is None else expressions.text(statement.condition)
    if expressions.is_on_spark and any(map(has_subquery, [*values.values(), condition or ""])):
        full = map_full_name(statement.table, table, statement.alias)
        merge = _merge_single_row(table, statement.table, statement.alias, expressions)
        qualified = {name: Expr(rewrite_qualifiers(value, full)) for name, value in values.items()}
        return merge.when_matched_update(
            qualified, None if condition is None else rewrite_qualifiers(condition, full)
        ).execute()
    bare = {
        name: Expr(expressions.prepare_for(value, table, statement.table, statement.alias))
        for name, value in values.items()
    }
    where = (
        None if condition is None else expressions.bind_condition(condition, table, statement.table, statement.alias)
    )
    return table.update(bare, where, engine=expressions.binder.engine.row_engine)


def _merge_single_row(table: Table, name: SqlName, alias: str | None, expressions: StatementExpressions) -> TableMerge:
    """Return a merge with one row that matches all, so that subqueries can use the table's alias."""
    engine = expressions.binder.engine
    return table.merge(
        engine.create_one_row("mangrove one"),
        "true",
        target_name=alias or name.parts[-1],
        source_name="mangrove one",
        engine=engine.row_engine,
    )


def _merge(statement: Merge, table: Table, expressions: StatementExpressions) -> RowCounts:
    source = expressions.rows(statement.source)
    if statement.source_columns:
        source = expressions.binder.engine.rename_columns(source, statement.source_columns)
    if statement.with_schema_evolution:
        table._evolve(source.select(*map(quote_name, _find_used_columns(statement, source.columns))))
    target = statement.alias or statement.table.parts[-1]
    parts = _parse_source_name(statement.source)
    other = statement.source_alias or (parts[-1] if parts else "source")
    names: dict[tuple[str, ...], str | None] = dict(map_full_name(statement.table, table, statement.alias))
    if other.casefold() == target.casefold():
        if statement.source_alias is not None or not parts:
            raise InvalidInputError(
                f"the target and the source of the merge have the same name {target!r}; give one of them an alias"
            )
        other = join_name(*parts)
    if parts and not statement.source_alias:
        names[tuple(part.casefold() for part in parts)] = other
    schema = require_schema(table)
    both = {target: schema.names, other: source.columns}
    merge = table.merge(
        source,
        expressions.prepare(rewrite_qualifiers(expressions.text(statement.condition), names), both, is_qualified=True),
        target_name=target,
        source_name=other,
        engine=expressions.binder.engine.row_engine,
    )
    for clause in statement.clauses:
        merge = _add_clause(merge, clause, schema, source.columns, (table, statement, expressions, names))
    return merge.execute()


def _find_used_columns(statement: Merge, source_columns: list[str]) -> list[str]:
    """Return the columns of the source that the merge may assign: all, or those set by name."""
    if any(clause.action in ("update all", "insert all") for clause in statement.clauses):
        return source_columns
    named = {assignment.column[-1].casefold() for clause in statement.clauses for assignment in clause.assignments}
    return [name for name in source_columns if name.casefold() in named]


def _add_clause(
    merge: TableMerge,
    clause: MergeWhenClause,
    schema: Schema,
    source_columns: list[str],
    about: tuple[Table, Merge, StatementExpressions, dict[tuple[str, ...], str | None]],
) -> TableMerge:
    table, statement, expressions, names = about
    shared = {column.name.casefold() for column in schema.columns} & {name.casefold() for name in source_columns}
    side = {"not matched": merge.plan.source_name, "not matched by source": merge.plan.target_name}.get(clause.group)
    tables = {merge.plan.target_name: schema.names, merge.plan.source_name: source_columns}

    def qualify(text: str) -> str:
        # A row without a match has columns of one side only, so an unqualified name is that side's.
        qualified = rewrite_qualifiers(text if side is None else qualify_columns(text, shared, side), names)
        available = tables if side is None else {side: tables[side]}
        return expressions.prepare(qualified, available, is_qualified=True)

    where = None if clause.condition is None else qualify(expressions.text(clause.condition))
    assignments = _resolve_positional_columns(clause.assignments, schema, table)
    assigned = _build_assignments(
        assignments, schema, list_qualifiers(statement.table, statement.alias), expressions, table
    )
    values = {name: Expr(qualify(value)) for name, value in assigned.items()}
    if clause.action in ("update all", "insert all") and not statement.with_schema_evolution:
        available = {name.casefold() for name in source_columns}
        missing = [column.name for column in schema.columns if column.name.casefold() not in available]
        if missing:
            raise InvalidInputError(f"the source of the merge has no column {missing[0]!r}; list the columns to set")
    match clause.group, clause.action:
        case "matched", "delete":
            return merge.when_matched_delete(where)
        case "matched", _:
            return merge.when_matched_update(None if clause.action == "update all" else values, where)
        case "not matched", _:
            return merge.when_not_matched_insert(None if clause.action == "insert all" else values, where)
        case _, "delete":
            return merge.when_not_matched_by_source_delete(where)
        case _:
            return merge.when_not_matched_by_source_update(values, where)


def _resolve_positional_columns(
    assignments: tuple[Assignment, ...], schema: Schema, table: Table
) -> tuple[Assignment, ...]:
    """Return the assignments with the columns of positional values resolved."""
    if not assignments or assignments[0].column:
        return assignments
    if len(assignments) != len(schema.columns):
        raise InvalidInputError(
            f"the INSERT of the merge has {len(assignments)} values, but {table} has {len(schema.columns)} columns; "
            "list the columns to set"
        )
    return tuple(replace(one, column=(to.name,)) for one, to in zip(assignments, schema.columns, strict=True))


def _build_assignments(
    assignments: tuple[Assignment, ...],
    schema: Schema,
    names: list[tuple[str, ...]],
    expressions: StatementExpressions,
    table: Table,
) -> dict[str, str]:
    """Return the new value of each column; assigning a struct field rebuilds the struct."""
    values: dict[str, str] = {}
    fields: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for assignment in assignments:
        path = assignment.column
        for name in names:
            if tuple(part.casefold() for part in path[: len(name)]) == name and len(path) > len(name):
                path = path[len(name) :]
                break
        with locate_errors_at(expressions.source.text, assignment.start):
            column = schema.column(path[0])
            if column.name in values or (column.name in fields and len(path) == 1):
                raise InvalidInputError(f"column {column.name!r} of {table} is set twice")
        text = expressions.text(assignment.value)
        if text.strip().upper() == "DEFAULT":
            text = schema.column(*path).default or "NULL"
        if len(path) == 1:
            values[column.name] = text
        else:
            fields.setdefault(column.name, []).append((path[1:], text))
    for whole, changed in fields.items():
        values[whole] = _struct_text(schema.column(whole).type, quote_name(whole), changed)
    return values


def _struct_text(data_type: object, path_text: str, changed: list[tuple[tuple[str, ...], str]]) -> str:
    """Return an expression for a struct with some fields changed."""
    if not isinstance(data_type, Struct):
        raise InvalidInputError(f"{path_text} is not a struct and has no fields to set; set the whole column")
    by_field: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for path, text in changed:
        by_field.setdefault(path[0].casefold(), []).append((path[1:], text))
    field_names = {column.name.casefold() for column in data_type.columns}
    for name in by_field.keys() - field_names:
        raise InvalidInputError(f"{path_text} has no field {name!r}")
    parts = []
    for column in data_type.columns:
        inner = f"{path_text}.{quote_name(column.name)}"
        changes = by_field.get(column.name.casefold(), [])
        if any(not path for path, _ in changes):
            if len(changes) > 1:
                raise InvalidInputError(f"{inner} is set twice")
            value = f"({changes[0][1]})"
        else:
            value = _struct_text(column.type, inner, changes) if changes else inner
        name = column.name.replace("'", "\\'")
        parts.append(f"'{name}', {value}")
    return f"named_struct({', '.join(parts)})"


def _parse_source_name(source: SqlFragment) -> tuple[str, ...]:
    tokens = tokenize(source.text)
    return parse_name_chain(tokens, 0)[0] if tokens[0].is_name else ()


DmlStatement: TypeAlias = Insert | MultiInsert | Update | Delete | Merge | TruncateStatement


def execute_dml(
    statement: DmlStatement,
    transaction: Transaction,
    binder: QueryBinder,
    source: StatementSource,
    bound: Callable[[Query], BoundQuery],
) -> RowCounts:
    """Execute the DML statement and return the row counts."""
    if isinstance(statement, TruncateStatement):
        return execute_truncate(statement, transaction, binder.resolver)
    common = None if isinstance(statement, Insert | MultiInsert) else statement.common
    expressions = StatementExpressions(binder, source, common)
    try:
        match statement:
            case Insert():
                return execute_insert(
                    prepare_insert(statement, transaction, binder.resolver, bound, expressions), expressions
                )
            case MultiInsert(inserts):
                # All rows are bound first: no insert sees what another one adds.
                work = []
                for one in inserts:
                    with locate_errors_at(source.text, one.table.start):
                        work.append(prepare_insert(one, transaction, binder.resolver, bound, expressions))
                counts = NO_ROWS
                for ready in work:
                    with locate_errors_at(source.text, ready.statement.table.start):
                        counts += execute_insert(ready, expressions)
                return counts
            case _:
                return execute_update_delete_merge(statement, transaction, expressions)
    finally:
        expressions.close()


def format_row_counts(counts: RowCounts) -> str:
    """Return a readable message of the row counts.

    >>> format_row_counts(RowCounts(inserted=1000, updated=2)), format_row_counts(RowCounts(None, None, 0, upserted=3))
    ('rows: 1,000 inserted, 2 updated', 'rows: 3 upserted')
    """
    parts = [f"{number:,} {word}" for word, number in asdict(counts).items() if number]
    return f"rows: {', '.join(parts)}" if parts else "no row was changed"

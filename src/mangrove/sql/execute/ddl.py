"""Execution of CREATE, ALTER and DROP."""

from collections.abc import Mapping
from itertools import count
from typing import Any, Protocol, assert_never

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.schema_text import parse_schema
from mangrove.lakehouse.sql_port import Frame
from mangrove.lakehouse.table import Table
from mangrove.lakehouse.transaction import Transaction
from mangrove.model.locators import TableLocator, ViewLocator
from mangrove.model.names import join_name, split_path
from mangrove.model.objects import TableType
from mangrove.model.schema import Schema
from mangrove.sql.execute.query import BoundQuery
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
    DropCheck,
    DropColumns,
    DropObject,
    Query,
    RenameColumn,
    RenameTo,
    SetClusterBy,
    SetComment,
    SetProperties,
    UnsetProperties,
)
from mangrove.sql.parse.tokens import SqlName, locate_errors_at
from mangrove.sql.resolver import NameResolver, expand_canonical
from mangrove.tables.compaction import CLUSTER_BY
from mangrove.transaction.aliases import locate_table, locate_view
from mangrove.transaction.catalog import VIEW_NAMESPACE

__all__ = ["DdlStatement", "execute_ddl"]

DdlStatement = CreateNamespace | AlterNamespace | CreateTable | AlterTable | CreateView | AlterView | DropObject


class _Bound(Protocol):
    """Returns the rows of a query; `above` is the view that it defines, to detect cycles."""

    def __call__(self, query: Query, above: tuple[str, ...] = ()) -> BoundQuery: ...


def execute_ddl(statement: DdlStatement, catalog: Transaction, resolver: NameResolver, bound: _Bound) -> str:
    """Execute the DDL statement and return a message; `bound` returns the rows of a query."""
    match statement:
        case CreateNamespace():
            namespace = resolver.namespace_of(statement.name)
            catalog.create_namespace(
                namespace,
                properties=statement.properties,
                description=statement.comment,
                if_not_exists=statement.if_not_exists,
            )
            return f"created namespace {namespace}"
        case AlterNamespace():
            return _alter_namespace(statement, catalog, resolver)
        case CreateTable():
            return _create_table(statement, catalog, resolver, bound)
        case AlterTable():
            return _alter_table(statement, catalog, resolver)
        case CreateView():
            return _create_view(statement, catalog, resolver, bound)
        case AlterView():
            return _alter_view(statement, catalog, resolver, bound)
        case DropObject():
            return _drop(statement, catalog, resolver)
        case _:
            assert_never(statement)


def _alter_namespace(statement: AlterNamespace, catalog: Transaction, resolver: NameResolver) -> str:
    namespace = resolver.namespace_of(statement.name)
    match statement.action:
        case RenameTo(name):
            catalog.rename_namespace(namespace, resolver.namespace_of(name))
            return f"renamed namespace {namespace} to {resolver.namespace_of(name)}"
        case SetProperties(properties):
            catalog.alter_namespace(namespace, properties)
        case UnsetProperties(names, if_exists):
            existing = catalog.namespace(namespace).properties
            catalog.alter_namespace(namespace, remove=_names_to_remove(names, existing, if_exists=if_exists))
        case SetComment(comment):
            catalog.alter_namespace(namespace, description=comment)
        case _:
            assert_never(statement.action)
    return f"altered namespace {namespace}"


def _create_table(statement: CreateTable, catalog: Transaction, resolver: NameResolver, bound: _Bound) -> str:
    locator = resolver.table(statement.name)
    _, existing = locate_table(catalog._reading(), locator)
    if existing is not None and statement.if_not_exists:
        return f"table {locator} already exists"
    if statement.must_exist and existing is None:
        raise NotFoundError(f"table {locator} does not exist; use CREATE OR REPLACE TABLE")
    arguments = _build_create_arguments(statement, catalog, resolver)
    rows: Frame | None = None
    if statement.query is not None:
        if statement.columns is not None:
            raise InvalidInputError(f"the columns of {locator} are those of its query; remove the column list")
        rows = bound(statement.query).frame
    catalog.create_table(locator, as_=rows, replace=statement.or_replace, **arguments)
    return f"created table {locator}"


def _build_create_arguments(statement: CreateTable, catalog: Transaction, resolver: NameResolver) -> dict[str, Any]:
    """Return the arguments of `create_table`."""
    arguments: dict[str, Any] = {"properties": statement.properties, "description": statement.comment}
    if statement.like is not None:
        with locate_errors_at(resolver.text, statement.like.start):
            like = resolver.target(statement.like)
            arguments |= _copy_definition(catalog.table(like.locator)._bind(like))
    if statement.columns is not None:
        arguments["schema"] = statement.columns
    if statement.schemaless:
        arguments["schemaless"] = True
    for name, value in {
        "keys": statement.keys,
        "partition_by": statement.partition_by,
    }.items():
        if value:
            arguments[name] = list(value)
    if statement.cluster_by:
        schema = None if statement.columns is None else parse_schema(statement.columns)
        arguments["properties"] = {
            **statement.properties,
            CLUSTER_BY: _resolve_cluster_by(statement.cluster_by, schema),
        }
    if statement.checks:
        arguments["checks"] = _name_checks(statement.checks)
    if not statement.is_external and statement.location is None:
        arguments |= _parse_chosen_ids(statement.options)
    else:
        arguments |= {
            "table_type": "external",
            "location": statement.location,
            "table_format": statement.table_format or "parquet",
            "format_properties": statement.options,
        }
    return arguments


def _parse_chosen_ids(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the number of the first table version and the id of its stream, if the options of a table choose them."""
    given = {name.lower(): text for name, text in options.items()}
    number = given.get("version")
    if number is not None and not number.isdecimal():
        raise InvalidInputError(f"invalid option version = {number!r}; expected a whole number from 1")
    return {"version": 1 if number is None else int(number), "stream_id": given.get("stream_id")}


def _copy_definition(table: Table) -> dict[str, Any]:
    if table.table_type is TableType.MANAGED and table.schema is None:
        return {"schemaless": True}
    arguments: dict[str, Any] = {"schema": table.schema, "keys": list(table.keys)}
    if table.table_type is TableType.MANAGED:
        arguments |= {"partition_by": list(table.partition_by), "sort_by": list(table.sort_by)}
    return arguments


def _name_checks(checks: tuple[CheckConstraint, ...]) -> dict[str, str]:
    conditions: dict[str, str] = {}
    numbers = count(1)
    for check in checks:
        name = check.name or next(
            free
            for number in numbers
            if (free := f"check_{number}") not in {one.name for one in checks} | conditions.keys()
        )
        if name in conditions:
            raise InvalidInputError(f"two constraints have the name {name!r}; give each its own name")
        conditions[name] = check.condition
    return conditions


def _alter_table(statement: AlterTable, catalog: Transaction, resolver: NameResolver) -> str:
    target = resolver.target(statement.name)
    table = catalog.table(target.locator)._bind(target)
    match statement.action:
        case RenameTo(name):
            with locate_errors_at(resolver.text, name.start):
                new = resolver.table(_qualify_new_name(name, table.locator))
                catalog.rename_table(resolver.table(statement.name), new)
            return f"renamed table {table} to {new}"
        case SetProperties(properties):
            table.alter(properties)
        case UnsetProperties(names, if_exists):
            table.alter(remove=_names_to_remove(names, table.properties, if_exists=if_exists))
        case SetComment(comment):
            table.alter(description=comment)
        case AddColumns(columns):
            for column in columns:
                table.update_schema().add_column(join_name(*column.path), column.type_words).commit()
                if column.is_first or column.after is not None:
                    table.update_schema().move_column(join_name(*column.path), after=column.after).commit()
        case RenameColumn(path, to):
            table.update_schema().rename_column(join_name(*path), to).commit()
        case DropColumns(paths, if_exists):
            for path in paths:
                if not if_exists or _has_column(table.schema, path):
                    table.update_schema().drop_column(join_name(*path)).commit()
        case AlterColumn():
            _alter_column(table, statement.action)
        case AddCheck(check):
            table.update_schema().add_check(check.name or _find_free_check_name(table), check.condition).commit()
        case DropCheck(name, if_exists):
            if not if_exists or name in table.checks:
                table.update_schema().drop_check(name).commit()
        case SetClusterBy(columns):
            if columns:
                table.alter({CLUSTER_BY: _resolve_cluster_by(columns, table.schema)})
            elif CLUSTER_BY in table.properties:
                table.alter(remove=(CLUSTER_BY,))
        case _:
            assert_never(statement.action)
    return f"altered table {table}"


def _alter_column(table: Table, action: AlterColumn) -> None:
    name = join_name(*action.path)
    match action.what:
        case "type":
            table.update_schema().widen(name, action.value).commit()
        case "comment":
            table.update_schema().set_comment(name, action.value).commit()
        case "first":
            table.update_schema().move_column(name).commit()
        case "after":
            table.update_schema().move_column(name, after=action.value).commit()
        case "default":
            table.update_schema().set_default(name, action.value).commit()
        case "drop default":
            table.update_schema().drop_default(name).commit()
        case "not null":
            table.update_schema().set_not_null(name).commit()
        case "null":
            table.update_schema().drop_not_null(name).commit()
        case other:
            raise AssertionError(other)


def _find_free_check_name(table: Table) -> str:
    return next(name for number in count(1) if (name := f"check_{number}") not in table.checks)


def _resolve_cluster_by(columns: tuple[str, ...], schema: Schema | None) -> str:
    """Return the columns of CLUSTER BY for the table property; raise an error for unknown columns."""
    for name in columns:
        if schema is not None:
            schema.column(*split_path(name))
    return ", ".join(columns)


def _create_view(statement: CreateView, catalog: Transaction, resolver: NameResolver, bound: _Bound) -> str:
    locator = resolver.view(statement.name)
    if statement.if_not_exists and locate_view(catalog._reading(), locator)[1] is not None:
        return f"view {locator} already exists"
    query = bound(statement.query, (str(locator),))
    text = _check_view_query(statement.query)
    if statement.columns:
        column_count = len(query.frame.columns)
        if column_count != len(statement.columns):
            raise InvalidInputError(
                f"view {locator} lists {len(statement.columns)} columns, but its query has {column_count}"
            )
        names = ", ".join(f"`{name.replace('`', '``')}`" for name, _ in statement.columns)
        text = f"SELECT * FROM (\n{text}\n) AS view_query({names})"  # noqa: S608 - the user's own query
    catalog.create_view(
        locator,
        text,
        reads=query.names,
        properties={**statement.properties, VIEW_NAMESPACE: resolver.namespace},
        description=statement.comment,
        or_replace=statement.or_replace,
    )
    return f"created view {locator}"


def _check_view_query(query: Query) -> str:
    """Return the text of a view's query; a lakehouse-wide AS OF clause is not allowed in a view."""
    if query.at is not None:
        raise InvalidInputError(
            "the query of a view cannot have AT LAKE VERSION; use VERSION AS OF after each table, or read the view "
            "AT LAKE VERSION"
        )
    return query.piece.text


def _alter_view(statement: AlterView, catalog: Transaction, resolver: NameResolver, bound: _Bound) -> str:
    locator = resolver.view(statement.name)
    view = catalog.view(locator)
    match statement.action:
        case RenameTo(name):
            with locate_errors_at(resolver.text, name.start):
                new = resolver.view(_qualify_new_name(name, locator))
                catalog.rename_view(locator, new)
            return f"renamed view {locator} to {new}"
        case SetProperties(properties):
            catalog.alter_view(locator, properties)
        case UnsetProperties(names, if_exists):
            catalog.alter_view(locator, remove=_names_to_remove(names, view.properties, if_exists=if_exists))
        case SetComment(comment):
            catalog.alter_view(locator, description=comment)
        case Query():
            reads = bound(statement.action, (str(locator),)).names
            catalog.create_view(
                locator,
                _check_view_query(statement.action),
                reads=reads,
                properties={**view.properties, VIEW_NAMESPACE: resolver.namespace},
                description=view.description,
                or_replace=True,
            )
        case _:
            assert_never(statement.action)
    return f"altered view {locator}"


def _drop(statement: DropObject, catalog: Transaction, resolver: NameResolver) -> str:
    if statement.kind == "namespace":
        namespace = resolver.namespace_of(statement.name)
        catalog.drop_namespace(namespace, cascade=statement.cascade, if_exists=statement.if_exists)
        return f"dropped namespace {namespace}"
    table, view = resolver.table(statement.name), resolver.view(statement.name)
    is_table = locate_table(catalog._reading(), table)[1] is not None
    is_view = locate_view(catalog._reading(), view)[1] is not None
    if statement.kind == "table":
        if is_view and not is_table:
            raise InvalidInputError(f"{view} is a view; use DROP VIEW")
        catalog.drop_table(table, if_exists=statement.if_exists)
    else:
        if is_table and not is_view:
            raise InvalidInputError(f"{table} is a table; use DROP TABLE")
        catalog.drop_view(view, if_exists=statement.if_exists)
    return f"dropped {statement.kind} {table}"


def _qualify_new_name(name: SqlName, locator: TableLocator | ViewLocator) -> SqlName:
    """Return a new name; an unqualified one is in the namespace of the table or view."""
    parts = expand_canonical(name.parts)
    return SqlName(parts if len(parts) > 1 else (locator.namespace, *parts), name.start, name.end)


def _names_to_remove(names: tuple[str, ...], existing: Any, *, if_exists: bool) -> tuple[str, ...]:
    missing = [name for name in names if name not in existing]
    if missing and not if_exists:
        raise NotFoundError(f"property {missing[0]!r} does not exist; use IF EXISTS to ignore that")
    return tuple(name for name in names if name in existing)


def _has_column(schema: Schema | None, path: tuple[str, ...]) -> bool:
    folded = tuple(part.casefold() for part in path)
    return schema is not None and any(
        tuple(part.casefold() for part in found) == folded for found, _ in schema.all_columns()
    )

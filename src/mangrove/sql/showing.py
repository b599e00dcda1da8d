"""Carrying out SHOW and DESCRIBE."""

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, TypeAlias

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.handles import LakeTable, LakeView
from mangrove.model.locators import TableLocator
from mangrove.model.names import joined_name, quoted_name
from mangrove.model.objects import TableType, View
from mangrove.model.schema import Schema
from mangrove.model.sql_text import schema_text, type_text
from mangrove.model.sql_tokens import quoted_text
from mangrove.sql.answers import Answer, Row, history_rows, partition_rows
from mangrove.sql.sight import Sight
from mangrove.sql.statements import Describe, Show
from mangrove.sql.suggestions import did_you_mean
from mangrove.tables.compaction import CLUSTER_BY

__all__ = ["create_text", "describe", "show"]

_ViewColumns: TypeAlias = Callable[[LakeView], Schema]
_HISTORY_LINES: Final = 100


def show(statement: Show, sight: Sight, view_columns: _ViewColumns) -> Answer:
    """Return what is asked for; `view_columns` tells the columns of a view."""
    catalog = sight.catalog
    match statement.kind:
        case "namespaces":
            names = [namespace.name for namespace in catalog.namespaces()]
            return Answer("namespace string", tuple((name,) for name in names if _is_like(name, statement.pattern)))
        case "tables":
            found = [] if _is_nowhere(statement, sight) else _names(catalog.tables(sight.namespace_of(statement.name)))
            return _listed(found, sight.namespace_of(statement.name).name, "tableName", statement.pattern)
        case "views":
            found = [] if _is_nowhere(statement, sight) else _names(catalog.views(sight.namespace_of(statement.name)))
            return _listed(found, sight.namespace_of(statement.name).name, "viewName", statement.pattern)
        case "history":
            limit = _HISTORY_LINES if statement.limit is None else statement.limit
            lines = sight.history() if statement.name is None else sight.table_history(sight.table(statement.name))
            return history_rows(islice(lines, limit))
        case "current namespace":
            return Answer("namespace string", ((sight.namespace,),))
        case _:
            assert statement.name is not None
            return _about(statement, sight, view_columns)


def _is_nowhere(statement: Show, sight: Sight) -> bool:
    """Return whether the namespace that nobody named is not there: where one begins, nothing is there to be shown."""
    return statement.name is None and sight.catalog.reading().get(sight.namespace_of(None)) is None


def _names(found: Iterable[LakeTable | LakeView]) -> list[str]:
    return [str(one.name) for one in found]


def _about(statement: Show, sight: Sight, view_columns: _ViewColumns) -> Answer:
    assert statement.name is not None
    found = _table_or_view(sight, sight.table(statement.name))
    match statement.kind:
        case "columns":
            return Answer("col_name string", tuple((column.name,) for column in _schema(found, view_columns).columns))
        case "properties":
            rows = [(key, value) for key, value in sorted(found.properties.items())]
            if statement.pattern is not None:
                value = found.properties.get(statement.pattern)
                rows = [(statement.pattern, value or f"{found} has no property {statement.pattern!r}")]
            return Answer("key string, value string", tuple(rows))
        case "create":
            return Answer("createtab_stmt string", ((create_text(found),),))
        case "partitions":
            if isinstance(found, LakeView):
                raise InvalidInputError(f"{found} is a view, which has no partitions")
            return partition_rows(found)
        case other:
            raise AssertionError(other)


def describe(statement: Describe, sight: Sight, view_columns: _ViewColumns) -> Answer:
    """Return the rows about a namespace or table: name, what it is, and what people say about it."""
    if statement.kind == "history":
        return history_rows(islice(sight.table_history(sight.table(statement.name)), _HISTORY_LINES))
    if statement.kind == "namespace":
        namespace = sight.catalog.namespace(sight.namespace_of(statement.name))
        rows: list[Row] = [("Namespace Name", namespace.name), ("Comment", namespace.description or "")]
        if statement.is_extended:
            rows += [("Id", namespace.id), *((f"Property {key}", value) for key, value in namespace.properties.items())]
        return Answer("info_name string, info_value string", tuple(rows))
    found = _table_or_view(sight, sight.table(statement.name))
    schema = _schema(found, view_columns)
    if statement.column:
        column = schema.column(*statement.column)
        facts = [
            ("col_name", column.name),
            ("data_type", type_text(column.type)),
            ("comment", column.comment or "NULL"),
            ("nullable", str(column.nullable).lower()),
            ("default", column.default or "NULL"),
        ]
        return Answer("info_name string, info_value string", tuple(facts))
    columns: list[Row] = [(column.name, type_text(column.type), column.comment) for column in schema.columns]
    if isinstance(found, LakeTable) and found.table_type is TableType.MANAGED and found.partition_by:
        columns += [("# Partitioning", "", None)]
        columns += [(f"Part {place}", text, None) for place, text in enumerate(found.partition_by)]
    if statement.is_extended:
        columns += [("# Detailed Information", "", None), *_details(found)]
    return Answer("col_name string, data_type string, comment string", tuple(columns))


def create_text(found: LakeTable | LakeView) -> str:
    """Return the statement that makes such a table or view."""
    name = f"{quoted_name(found.locator.namespace)}.{quoted_name(found.name)}"
    if isinstance(found, LakeView):
        comment = "" if found.description is None else f"\nCOMMENT {quoted_text(found.description)}"
        return f"CREATE VIEW {name}{comment}\nAS {found.sql}"
    schema = found.schema
    columns = [] if schema is None else [f"  {schema_text(Schema((column,)))}" for column in schema.columns]
    if found.keys:
        columns.append(f"  PRIMARY KEY ({', '.join(map(quoted_name, found.keys))})")
    is_managed = found.table_type is TableType.MANAGED
    if is_managed:
        columns += [f"  CONSTRAINT {quoted_name(name)} CHECK ({text})" for name, text in found.checks.items()]
    lines = [f"CREATE {'' if is_managed else 'EXTERNAL '}TABLE {name} (", ",\n".join(columns), ")"]
    if is_managed and found.partition_by:
        lines.append(f"PARTITIONED BY ({', '.join(found.partition_by)})")
    if CLUSTER_BY in found.properties:
        lines.append(f"CLUSTER BY ({found.properties[CLUSTER_BY]})")
    if not is_managed:
        lines += [f"USING {found.value.table_format}", f"LOCATION {quoted_text(found.location or '')}"]
    if found.description is not None:
        lines.append(f"COMMENT {quoted_text(found.description)}")
    shown = {key: value for key, value in sorted(found.properties.items()) if key != CLUSTER_BY}
    if shown:
        pairs = (f"{quoted_text(key)} = {quoted_text(value)}" for key, value in shown.items())
        lines.append(f"TBLPROPERTIES ({', '.join(pairs)})")
    return "\n".join(lines)


def _details(found: LakeTable | LakeView) -> list[Row]:
    rows: list[Row] = [("Name", str(found), None), ("Id", found.id, None), ("Comment", found.description or "", None)]
    if isinstance(found, LakeView):
        rows += [("Type", "view", None), ("View Text", found.sql, None), ("Reads", ", ".join(found.reads), None)]
    else:
        rows += [("Type", found.table_type.value, None), ("Primary Key", ", ".join(found.keys), None)]
        if found.table_type is TableType.MANAGED:
            rows += [("Sorted By", ", ".join(found.sort_by), None)]
            rows += [(f"Constraint {name}", f"CHECK ({text})", None) for name, text in found.checks.items()]
        else:
            rows += [("Location", found.location or "", None), ("Provider", found.value.table_format, None)]
    rows += [(f"Property {key}", value, None) for key, value in sorted(found.properties.items())]
    return rows


def _table_or_view(sight: Sight, locator: TableLocator) -> LakeTable | LakeView:
    view = sight.catalog.reading().get(sight.view_at(locator))
    if isinstance(view, View):
        return sight.catalog.view(sight.view_at(locator))
    try:
        return sight.catalog.table(locator)
    except NotFoundError:
        hint = did_you_mean(sight.catalog, sight.namespace, (locator.namespace, locator.name))
        raise NotFoundError(f"there is no table or view {joined_name(locator.namespace, locator.name)}{hint}") from None


def _schema(found: LakeTable | LakeView, view_columns: _ViewColumns) -> Schema:
    schema = view_columns(found) if isinstance(found, LakeView) else found.schema
    if schema is None:
        raise InvalidInputError(f"{found} does not say its columns: its files do, so read some of its rows")
    return schema


def _listed(names: list[str], namespace: str, column: str, pattern: str | None) -> Answer:
    rows = tuple((namespace, name) for name in names if _is_like(name, pattern))
    return Answer(f"namespace string, {column} string", rows)


def _is_like(name: str, pattern: str | None) -> bool:
    """Return whether a name fits Spark's patterns: `*` is any text, `|` is or; `%` is taken as well."""
    if pattern is None:
        return True
    choices = [re.escape(one.strip()).replace(r"\*", ".*").replace("%", ".*") for one in pattern.split("|")]
    return any(re.fullmatch(choice, name, re.IGNORECASE) for choice in choices)

"""Execution of SHOW and DESCRIBE."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.schema_text import format_schema
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.lakehouse.view import ViewSnapshot
from mangrove.model.manifests import FileKind
from mangrove.model.names import join_name, quote_name
from mangrove.model.objects import TableType
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type, quote_text
from mangrove.model.values import Value
from mangrove.sql.parse.statements import Describe, ShowStatement
from mangrove.sql.resolver import NameResolver, suggest_table_name
from mangrove.tables.compaction import CLUSTER_BY
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.write_plan import RowCounts
from mangrove.transaction.aliases import locate_view
from mangrove.transaction.deltas import TableTarget
from mangrove.transaction.history import HistoryEntry

__all__ = [
    "InlineResult",
    "ResultRow",
    "build_count_result",
    "build_delta_result",
    "build_file_result",
    "build_history_result",
    "build_partition_result",
    "build_stream_result",
    "build_version_result",
    "execute_describe",
    "execute_show",
    "render_create_statement",
]

ResultRow: TypeAlias = tuple[Any, ...]
_PARTITION_COLUMNS: Final = "partition string, files bigint, rows bigint, size_bytes bigint, partition_id string"


@dataclass(frozen=True, slots=True)
class InlineResult:
    """Rows with named and typed columns, as in "version bigint, message string"."""

    schema: str
    rows: tuple[ResultRow, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.split()[0] for column in self.schema.split(", "))


def build_count_result(counts: RowCounts) -> InlineResult:
    """Return the one-row result with the row counts of a statement."""
    row = (counts.inserted, counts.updated, counts.deleted, counts.upserted)
    schema = "rows_inserted bigint, rows_updated bigint, rows_deleted bigint, rows_upserted bigint"
    return InlineResult(schema, (row,))


def build_history_result(lines: Iterable[HistoryEntry]) -> InlineResult:
    """Return a row for each version."""
    return InlineResult(
        "version bigint, committed_at timestamp, message string, author string, transactions array<string>",
        tuple(
            (line.version, line.created_at, line.message, line.author, [record.id for record in line.transactions])
            for line in lines
        ),
    )


def build_delta_result(table: TableSnapshot) -> InlineResult:
    """Return a row for each delta of a table."""
    rows = []
    for locator, delta in table.deltas():
        files = delta.manifest.entries
        data = sum(file.row_count for file in files if file.kind is FileKind.DATA)
        author = None if delta.author is None else delta.author.name
        rows.append(
            (
                locator.partition_id,
                locator.position,
                delta.type.value,
                len(files),
                data,
                delta.manifest.size_bytes,
                author,
                dict(delta.properties),
            )
        )
    return InlineResult(
        "partition_id string, position bigint, type string, files bigint, rows bigint, size_bytes bigint, "
        "author string, properties map<string,string>",
        tuple(rows),
    )


def build_version_result(table: TableSnapshot) -> InlineResult:
    """Return a row for each version of a table."""
    rows = [
        (
            one.version,
            one.state,
            one.is_default,
            None if one.schema is None else format_schema(one.schema),
            list(one.keys),
            list(one.partition_by),
            list(one.sort_by),
            dict(one.properties),
            one.description,
            one.stream_id,
        )
        for one in table.versions()
    ]
    return InlineResult(
        "version bigint, state string, is_default boolean, schema string, keys array<string>, "
        "partition_by array<string>, sort_by array<string>, properties map<string,string>, description string, "
        "stream_id string",
        tuple(rows),
    )


def build_stream_result(table: TableSnapshot) -> InlineResult:
    """Return a row for each stream of a table version."""
    rows = [
        (one.id, one.format, one.state, one.is_served, list(one.partition_by), one.watermark, one.previous_id)
        for one in table.streams()
    ]
    return InlineResult(
        "stream_id string, format string, state string, is_served boolean, partition_by array<string>, "
        "watermark bigint, previous_id string",
        tuple(rows),
    )


def build_file_result(table: TableSnapshot) -> InlineResult:
    """Return a row for each file that a read of the whole table opens."""
    schema = (
        "location string, kind string, position bigint, partition string, rows bigint, size_bytes bigint, "
        "delete_files bigint, content_type string"
    )
    if table.schema is None:
        stored = [
            (one.location, one.kind.value, None, None, None, one.size_bytes, 0, one.content_type)
            for one in table.files()
        ]
        return InlineResult(schema, tuple(stored))
    state = table.state()
    plan = plan_scan(state)
    scheme = state.version.partition_scheme.fields
    rows = [
        (
            scan.file.location,
            scan.file.kind.value,
            scan.position,
            _format_partition(scan.log_values or scan.file.partition_values or (), [field.name for field in scheme]),
            scan.file.row_count,
            scan.file.size_bytes,
            len(scan.equality_deletes) + len(scan.position_deletes),
            scan.file.content_type,
        )
        for scan in plan.scans
    ]
    rows += [
        (
            one.file.location,
            one.file.kind.value,
            one.position,
            None,
            one.file.row_count,
            one.file.size_bytes,
            0,
            one.file.content_type,
        )
        for one in plan.key_files
        if one.file.kind is not FileKind.DATA
    ]
    return InlineResult(schema, tuple(rows))


def build_partition_result(table: TableSnapshot) -> InlineResult:
    """Return a row for each partition.

    If keys do not determine the partition of a row, files of several partition values are in one partition.
    """
    version = table.opened().version
    names = [field.name for field in version.partition_scheme.fields]
    if version.schema is None:
        stats = table.partition_stats()
        stored = [(None, one.file_count, one.row_count, one.size_bytes, one.locator.partition_id) for one in stats]
        return InlineResult(_PARTITION_COLUMNS, tuple(stored))
    ids = {partition.values: locator.partition_id for locator, partition in table.partitions()}
    totals: dict[tuple[str, str], list[int]] = {}
    for scan in plan_scan(table.state()).scans:
        values = scan.log_values or scan.file.partition_values or ()
        entry = totals.setdefault((_format_partition(values, names) or "", ids.get(scan.log_values, "")), [0, 0, 0])
        entry[0] += 1
        entry[1] += scan.file.row_count
        entry[2] += scan.file.size_bytes
    written = {partition_id for _, partition_id in totals}
    for values, partition_id in ids.items():
        if partition_id not in written:
            totals[_format_partition(values, names) or "", partition_id] = [0, 0, 0]
    rows = tuple((partition, *numbers, partition_id) for (partition, partition_id), numbers in sorted(totals.items()))
    return InlineResult(_PARTITION_COLUMNS, rows)


def _format_partition(values: tuple[Value | None, ...], names: list[str]) -> str | None:
    if not values:
        return None
    return "/".join(
        f"{name}={'null' if value is None else str(value)}" for name, value in zip(names, values, strict=False)
    )


_ViewColumns: TypeAlias = Callable[[ViewSnapshot], Schema]
_HISTORY_LINES: Final = 100


def execute_show(statement: ShowStatement, resolver: NameResolver, view_columns: _ViewColumns) -> InlineResult:
    """Execute SHOW; `view_columns` returns the columns of a view."""
    catalog = resolver.catalog
    match statement.kind:
        case "namespaces":
            names = [namespace.name for namespace in catalog.namespaces()]
            return InlineResult(
                "namespace string", tuple((name,) for name in names if _matches_pattern(name, statement.pattern))
            )
        case "tables":
            target = (
                []
                if _lacks_default_namespace(statement, resolver)
                else _names(catalog.tables(resolver.namespace_of(statement.name)))
            )
            return _list_names(target, resolver.namespace_of(statement.name).name, "tableName", statement.pattern)
        case "views":
            target = (
                []
                if _lacks_default_namespace(statement, resolver)
                else _names(catalog.views(resolver.namespace_of(statement.name)))
            )
            return _list_names(target, resolver.namespace_of(statement.name).name, "viewName", statement.pattern)
        case "history":
            limit = _HISTORY_LINES if statement.limit is None else statement.limit
            lines = (
                resolver.history() if statement.name is None else resolver.table_history(resolver.table(statement.name))
            )
            return build_history_result(islice(lines, limit))
        case "current namespace":
            return InlineResult("namespace string", ((resolver.namespace,),))
        case _:
            assert statement.name is not None
            return _show_object(statement, resolver, view_columns)


def _lacks_default_namespace(statement: ShowStatement, resolver: NameResolver) -> bool:
    """Return whether the default namespace does not exist; then the result is empty."""
    return statement.name is None and resolver.catalog._reading().get(resolver.namespace_of(None)) is None


def _names(target: Iterable[TableSnapshot | ViewSnapshot]) -> list[str]:
    return [str(one.name) for one in target]


def _show_object(statement: ShowStatement, resolver: NameResolver, view_columns: _ViewColumns) -> InlineResult:
    assert statement.name is not None
    target = _load_table_or_view(resolver, resolver.target(statement.name))
    match statement.kind:
        case "columns":
            return InlineResult(
                "col_name string", tuple((column.name,) for column in _schema_of(target, view_columns).columns)
            )
        case "properties":
            rows = [(key, value) for key, value in sorted(target.properties.items())]
            if statement.pattern is not None:
                value = target.properties.get(statement.pattern)
                rows = [(statement.pattern, value or f"{target} has no property {statement.pattern!r}")]
            return InlineResult("key string, value string", tuple(rows))
        case "create":
            return InlineResult("createtab_stmt string", ((render_create_statement(target),),))
        case "partitions":
            if isinstance(target, ViewSnapshot):
                raise InvalidInputError(f"{target} is a view, which has no partitions")
            return build_partition_result(target)
        case other:
            raise AssertionError(other)


def execute_describe(statement: Describe, resolver: NameResolver, view_columns: _ViewColumns) -> InlineResult:
    """Return the rows of DESCRIBE: name, type and comment."""
    if statement.kind == "history":
        return build_history_result(islice(resolver.table_history(resolver.table(statement.name)), _HISTORY_LINES))
    if statement.kind == "namespace":
        namespace = resolver.catalog.namespace(resolver.namespace_of(statement.name))
        rows: list[ResultRow] = [("Namespace Name", namespace.name), ("Comment", namespace.description or "")]
        if statement.is_extended:
            rows += [("Id", namespace.id), *((f"Property {key}", value) for key, value in namespace.properties.items())]
        return InlineResult("info_name string, info_value string", tuple(rows))
    target = _load_table_or_view(resolver, resolver.target(statement.name))
    if statement.column:
        column = _schema_of(target, view_columns).column(*statement.column)
        facts = [
            ("col_name", column.name),
            ("data_type", format_type(column.type)),
            ("comment", column.comment or "NULL"),
            ("nullable", str(column.nullable).lower()),
            ("default", column.default or "NULL"),
        ]
        return InlineResult("info_name string, info_value string", tuple(facts))
    is_schemaless = (
        isinstance(target, TableSnapshot) and target.table_type is TableType.MANAGED and target.schema is None
    )
    described = () if is_schemaless else _schema_of(target, view_columns).columns
    columns: list[ResultRow] = [(column.name, format_type(column.type), column.comment) for column in described]
    if isinstance(target, TableSnapshot) and target.table_type is TableType.MANAGED and target.partition_by:
        columns += [("# Partitioning", "", None)]
        columns += [(f"Part {place}", text, None) for place, text in enumerate(target.partition_by)]
    if statement.is_extended:
        columns += [("# Detailed Information", "", None), *_describe_details(target)]
    return InlineResult("col_name string, data_type string, comment string", tuple(columns))


def render_create_statement(target: TableSnapshot | ViewSnapshot) -> str:
    """Return the CREATE statement of a table or view."""
    name = f"{quote_name(target.locator.namespace)}.{quote_name(target.name)}"
    if isinstance(target, ViewSnapshot):
        comment = "" if target.description is None else f"\nCOMMENT {quote_text(target.description)}"
        return f"CREATE VIEW {name}{comment}\nAS {target.sql}"
    schema = target.schema
    columns = [] if schema is None else [f"  {format_schema(Schema((column,)))}" for column in schema.columns]
    if target.keys:
        columns.append(f"  PRIMARY KEY ({', '.join(map(quote_name, target.keys))})")
    is_managed = target.table_type is TableType.MANAGED
    if is_managed:
        columns += [f"  CONSTRAINT {quote_name(name)} CHECK ({text})" for name, text in target.checks.items()]
    lines = [f"CREATE {'' if is_managed else 'EXTERNAL '}TABLE {name} (", ",\n".join(columns), ")"]
    if is_managed and target.partition_by:
        lines.append(f"PARTITIONED BY ({', '.join(target.partition_by)})")
    if CLUSTER_BY in target.properties:
        lines.append(f"CLUSTER BY ({target.properties[CLUSTER_BY]})")
    if not is_managed:
        lines += [f"USING {target.value.table_format}", f"LOCATION {quote_text(target.location or '')}"]
    if target.target.version is not None:
        lines.append(f"OPTIONS (version = {target.target.version})")
    if target.description is not None:
        lines.append(f"COMMENT {quote_text(target.description)}")
    listed = {key: value for key, value in sorted(target.properties.items()) if key != CLUSTER_BY}
    if listed:
        pairs = (f"{quote_text(key)} = {quote_text(value)}" for key, value in listed.items())
        lines.append(f"TBLPROPERTIES ({', '.join(pairs)})")
    return "\n".join(lines)


def _describe_details(target: TableSnapshot | ViewSnapshot) -> list[ResultRow]:
    rows: list[ResultRow] = [
        ("Name", str(target), None),
        ("Id", target.id, None),
        ("Comment", target.description or "", None),
    ]
    if isinstance(target, ViewSnapshot):
        rows += [("Type", "view", None), ("View Text", target.sql, None), ("Reads", ", ".join(target.reads), None)]
    else:
        rows += [("Type", target.table_type.value, None), ("Primary Key", ", ".join(target.keys), None)]
        if target.table_type is TableType.MANAGED:
            rows += [("Sorted By", ", ".join(target.sort_by), None)]
            rows += [(f"Constraint {name}", f"CHECK ({text})", None) for name, text in target.checks.items()]
        else:
            rows += [("Location", target.location or "", None), ("Provider", target.value.table_format, None)]
    rows += [(f"Property {key}", value, None) for key, value in sorted(target.properties.items())]
    return rows


def _load_table_or_view(resolver: NameResolver, target: TableTarget) -> TableSnapshot | ViewSnapshot:
    locator = target.locator
    _, view = locate_view(resolver.catalog._reading(), resolver.view_at(locator))
    if view is not None:
        return resolver.catalog.view(resolver.view_at(locator))
    try:
        table = resolver.catalog.table(locator)
    except NotFoundError:
        hint = suggest_table_name(resolver.catalog, resolver.namespace, (locator.namespace, locator.name))
        raise NotFoundError(
            f"table or view {join_name(locator.namespace, locator.name)} does not exist{hint}"
        ) from None
    return table._bind(target)


def _schema_of(target: TableSnapshot | ViewSnapshot, view_columns: _ViewColumns) -> Schema:
    schema = view_columns(target) if isinstance(target, ViewSnapshot) else target.schema
    if schema is None:
        raise InvalidInputError(f"{target} has no declared columns; read some of its rows to see those of its files")
    return schema


def _list_names(names: list[str], namespace: str, column: str, pattern: str | None) -> InlineResult:
    rows = tuple((namespace, name) for name in names if _matches_pattern(name, pattern))
    return InlineResult(f"namespace string, {column} string", rows)


def _matches_pattern(name: str, pattern: str | None) -> bool:
    """Return whether a name matches Spark's pattern: `*` is any text, `|` is or; `%` is supported too."""
    if pattern is None:
        return True
    choices = [re.escape(one.strip()).replace(r"\*", ".*").replace("%", ".*") for one in pattern.split("|")]
    return any(re.fullmatch(choice, name, re.IGNORECASE) for choice in choices)

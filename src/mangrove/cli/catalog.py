"""Commands that create, list, describe, rename and drop lakehouses, namespaces, tables and views."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mangrove.cli.command import at_option, lake_command
from mangrove.cli.completion import offer_names, offer_namespaces
from mangrove.cli.context import CommandContext, parse_key_values
from mangrove.cli.listing import LINES_MAX, resolve_line_limit, truncate_list
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.inspect.summary import (
    AliasSummary,
    EntrySummary,
    LakehouseSummary,
    NamespaceSummary,
    ObjectSummary,
    TableSummary,
    ViewSummary,
    list_entries,
    list_namespaces,
    summarize_aliases,
    summarize_lakehouse,
    summarize_object,
    summary_to_json,
)
from mangrove.lakehouse.layout_detection import COMPATIBLE_WITH, LAYOUTS
from mangrove.lakehouse.time_travel import load_snapshot_at, parse_duration_millis
from mangrove.maintenance.progress import format_bytes, format_quantity
from mangrove.model.canonical import is_named_by_ids, parse_object_name
from mangrove.model.locators import Kind, parse_view_name
from mangrove.model.schema import Schema
from mangrove.model.schema_text import format_type
from mangrove.model.settings import LakehouseSettings
from mangrove.transaction.aliases import locate_view
from mangrove.wiring import create_on_store, find_referenced_names

if TYPE_CHECKING:
    from mangrove.inspect.summary import ColumnSummary, DeltaSummary
    from mangrove.lakehouse.catalog import WritableCatalog
    from mangrove.lakehouse.diff import Diff
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.table import Table as LakeTable


__all__ = [
    "ColumnChange",
    "VersionDiff",
    "alias_command",
    "alter_command",
    "build_list_table",
    "build_property_table",
    "create_command",
    "diff_columns",
    "drop_command",
    "format_duration",
    "init_command",
    "ls_command",
    "read_schema_text",
    "rename_command",
    "render_aliases",
    "render_entries",
    "render_lakehouse",
    "render_namespace",
    "render_namespaces",
    "render_object",
    "render_table",
    "render_view",
    "show_command",
]


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that was added, dropped or changed, as SQL text; None where it does not exist."""

    id: int
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """The changes between two versions; column changes are keyed by table name."""

    diff: Diff
    columns: dict[str, tuple[ColumnChange, ...]]
    settings_changed: bool


def diff_columns(before: Schema | None, after: Schema | None) -> tuple[ColumnChange, ...]:
    """Return the columns that differ. Columns are matched by id, so a rename is one change."""
    old, new = _column_texts(before), _column_texts(after)
    ids: Set[int] = old.keys() | new.keys()
    return tuple(ColumnChange(one, old.get(one), new.get(one)) for one in sorted(ids) if old.get(one) != new.get(one))


def _column_texts(schema: Schema | None) -> dict[int, str]:
    if schema is None:
        return {}
    return {
        column.id: f"{column.name} {format_type(column.type)}{'' if column.nullable else ' not null'}"
        for column in schema.columns
    }


_DAY_MILLIS = 24 * 60 * 60 * 1000
_UNITS = (("day", _DAY_MILLIS), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000))


def build_list_table(*headings: str) -> Table:
    """Return an empty table with these headings, as narrow as its content allows."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def build_property_table(properties: Sequence[tuple[str, RenderableType]]) -> Table:
    """Return a two-column table of names and values."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in properties:
        table.add_row(name, value)
    return table


def format_duration(millis: int) -> str:
    """Return a duration in the largest unit of which it is a whole number.

    >>> format_duration(7 * 24 * 60 * 60 * 1000), format_duration(1500)
    ('7 days', '1500 ms')
    """
    for unit, unit_millis in _UNITS:
        count, rest = divmod(millis, unit_millis)
        if count and not rest:
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{millis} ms"


def render_namespaces(namespaces: Sequence[NamespaceSummary]) -> RenderableType:
    """Return a list of namespaces."""
    if not namespaces:
        return Text("no namespaces; create one with `mangrove create LAKE NAMESPACE`", style="dim")
    rows = [(one.name, one.description or "", _format_pairs(one.properties)) for one in namespaces]
    return _build_rows_table(("namespace", "description", "properties"), rows)


def render_entries(namespace: str, entries: Sequence[EntrySummary]) -> RenderableType:
    """Return a list of tables and views."""
    if not entries:
        return Text(f"no tables or views in {namespace}", style="dim")
    rows = [(one.name, one.kind, one.format, one.description or "") for one in entries]
    return _build_rows_table(("name", "kind", "format", "description"), rows)


def render_aliases(aliases: Sequence[AliasSummary]) -> RenderableType:
    """Return a list of aliases."""
    if not aliases:
        return Text("no aliases; create one with `mangrove alias LAKE NAME TARGET`", style="dim")
    return _build_rows_table(("alias", "target", "kind"), [(one.name, one.target, one.kind) for one in aliases])


def render_lakehouse(lake: LakehouseSummary) -> RenderableType:
    """Return the description of the lakehouse itself."""
    age = format_duration(lake.maximum_version_age_millis)
    retention = f"{age}, at least the newest {lake.minimum_versions_to_keep}"
    lines: list[tuple[str, RenderableType]] = [
        ("lakehouse", Text(lake.uri, style="cyan")),
        ("layout", lake.layout),
        ("version", f"{lake.version}, committed {lake.created_at or 'at an unknown time'}"),
        ("version retention", retention),
        ("tree order", str(lake.order)),
    ]
    if lake.name:
        lines.insert(1, ("name", lake.name))
    lines += _line_unless_empty("properties", _format_pairs(lake.properties))
    exports = ", ".join(f"{name} (version {version})" for name, version in lake.exports.items())
    lines += _line_unless_empty("exports", exports)
    return build_property_table(lines)


def render_namespace(namespace: NamespaceSummary) -> RenderableType:
    """Return the description of a namespace."""
    lines: list[tuple[str, RenderableType]] = [
        ("namespace", Text(namespace.name, style="cyan")),
        ("id", namespace.id),
        *_line_unless_empty("aliases", ", ".join(namespace.aliases)),
        *_line_unless_empty("description", namespace.description or ""),
        *_line_unless_empty("properties", _format_pairs(namespace.properties)),
    ]
    return build_property_table(lines)


def render_table(table: TableSummary) -> RenderableType:
    """Return the description of a table and its columns."""
    lines: list[tuple[str, RenderableType]] = [
        ("table", Text(table.name, style="cyan")),
        ("kind", f"{table.kind}, {table.format}"),
        ("id", table.id),
        *_line_unless_empty("aliases", ", ".join(table.aliases)),
        *_line_unless_empty("versions", ", ".join(table.versions) if len(table.versions) > 1 else ""),
        *_line_unless_empty("description", table.description or ""),
        *_line_unless_empty("location", table.location or ""),
        *_line_unless_empty("keys", ", ".join(table.keys)),
        *_line_unless_empty("partitioned by", ", ".join(table.partition_by)),
        *_line_unless_empty("sorted by", ", ".join(table.sort_by)),
        *_line_unless_empty("properties", _format_pairs(table.properties)),
        *_line_unless_empty("format properties", _format_pairs(table.format_properties)),
    ]
    if table.data is not None:
        lines.append(("data", _data_text(table.data)))
    if not table.columns:
        return Group(build_property_table(lines), Text(f"\n{table.unavailable or 'no known columns'}", style="dim"))
    return Group(build_property_table(lines), Text(""), _columns_table(table.columns))


def render_view(view: ViewSummary) -> RenderableType:
    """Return the description of a view and its query."""
    lines: list[tuple[str, RenderableType]] = [
        ("view", Text(view.name, style="cyan")),
        ("id", view.id),
        *_line_unless_empty("description", view.description or ""),
        *_line_unless_empty("reads", ", ".join(view.reads)),
        *_line_unless_empty("properties", _format_pairs(view.properties)),
        ("dialect", view.dialect),
    ]
    return Group(build_property_table(lines), Text(""), Text(view.sql))


def render_object(found: ObjectSummary) -> RenderableType:
    """Return the description of a table version, stream, partition or delta."""
    lines: list[tuple[str, RenderableType]] = [
        (found.kind, Text(found.canonical, style="cyan")),
        ("locator", found.locator),
        *((name, json.dumps(value, ensure_ascii=False)) for name, value in found.fields.items()),
        *_line_unless_empty("contains", "\n".join(found.children)),
    ]
    return build_property_table(lines)


def _build_rows_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return rows under their headings, without empty columns."""
    used = [place for place in range(len(headings)) if any(row[place] for row in rows)]
    table = build_list_table(*(headings[place] for place in used))
    for row in rows:
        table.add_row(*(Text(row[place], style="cyan" if place == 0 else "") for place in used))
    return table


def _columns_table(columns: Sequence[ColumnSummary]) -> Table:
    optional = {
        "default": any(column.default is not None for column in columns),
        "comment": any(column.comment is not None for column in columns),
    }
    table = build_list_table("id", "column", "type", "null", *(name for name, is_used in optional.items() if is_used))
    for column in columns:
        name = Text(column.name, style="cyan")
        if column.is_key:
            name.append(" (key)", style="dim")
        more = [getattr(column, name) or "" for name, is_used in optional.items() if is_used]
        table.add_row(str(column.id), name, column.type, "" if column.is_nullable else "not null", *more)
    return table


def _data_text(data: DeltaSummary) -> str:
    if not data.deltas:
        return "none yet"
    kinds = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in data.deltas.items())
    files = f"{format_quantity(data.files, 'file')}, {format_bytes(data.size_bytes)}"
    written = f"{format_quantity(data.rows_written, 'row')} written, {files}"
    return f"{written}; deltas: {kinds}; partitions: {data.partitions:,}"


def _format_pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in properties.items())


def _line_unless_empty(name: str, value: str) -> list[tuple[str, RenderableType]]:
    return [(name, value)] if value else []


_REMEDY: Final = "use --limit or --prefix"
_DROP_HINT: Final = "; drop parts of a table with `mangrove drop-version` and `mangrove drop-stream`"
_Summary = LakehouseSummary | NamespaceSummary | TableSummary | ViewSummary | ObjectSummary


@lake_command(
    "init", "mangrove init ./lake\nmangrove init s3://bucket/lake --layout deltacat --option region=eu-west-1"
)
@click.option("--layout", type=click.Choice(LAYOUTS), help="Storage layout.  [default: tree]")
@click.option(
    "--strict/--no-strict",
    default=None,
    help="Write only what the tree format describes.  [default: strict for tree-older]",
)
@click.option(
    "--compatible-with",
    type=click.Choice(COMPATIBLE_WITH),
    help="Keep every version readable by this program.",
)
@click.option("--name", default="", help="Display name.")
@click.option("--order", type=int, help="Maximum number of children of a tree node.  [default: 128]")
@click.option("--keep", metavar="DURATION", help="Retention period of versions, such as 30d.  [default: 7d]")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property of the lakehouse.")
def init_command(
    session: CommandContext,
    lake: str,
    layout: str | None,
    strict: bool | None,
    compatible_with: str | None,
    name: str,
    order: int | None,
    keep: str | None,
    properties: Sequence[str],
) -> None:
    """Create an empty lakehouse in a folder or bucket."""
    settings = LakehouseSettings(name=name, properties=parse_key_values(properties, "--property"))
    if order is not None:
        settings = replace(settings, order=order)
    if keep is not None:
        settings = replace(settings, maximum_version_age_millis=parse_duration_millis(keep))
    created = create_on_store(
        session.effects(lake), layout=layout, strict=strict, compatible_with=compatible_with, settings=settings
    )
    summary = summarize_lakehouse(created.uri, created.layout, created._reading())
    session.answer(
        summary_to_json(summary), lambda: f"created a lakehouse at {summary.uri} in the {summary.layout} layout"
    )


@lake_command("ls", "mangrove ls ./lake\nmangrove ls ./lake sales --at 2026-11-01")
@click.argument("namespace", required=False, metavar="[NAMESPACE]", shell_complete=offer_namespaces)
@at_option
@click.option("--prefix", default="", help="List only names with this prefix.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"Maximum number of entries.  [default: {LINES_MAX} on a terminal, else unlimited]",
)
def ls_command(
    session: CommandContext, lake: str, namespace: str | None, at: str | None, prefix: str, limit: int | None
) -> None:
    """List the namespaces, or the tables and views of one."""
    metastore = session.open_metastore(lake).metastore
    snapshot = metastore.latest() if at is None else load_snapshot_at(metastore, at)
    lines_max = resolve_line_limit(limit, as_json=session.as_json)
    read_max = None if lines_max is None else lines_max + 1
    if namespace is None:
        namespaces = truncate_list(list_namespaces(snapshot, prefix, read_max), lines_max)
        session.answer(
            summary_to_json(namespaces.shown),
            lambda: namespaces.with_more(render_namespaces(namespaces.shown), _REMEDY),
        )
        return
    entries = truncate_list(list_entries(snapshot, namespace, prefix, read_max), lines_max)
    session.answer(
        summary_to_json(entries.shown), lambda: entries.with_more(render_entries(namespace, entries.shown), _REMEDY)
    )


@lake_command(
    "show", "mangrove show ./lake sales.orders\nmangrove show ./lake 'sales|orders|1'\nmangrove show ./lake --json"
)
@click.argument("name", required=False, metavar="[NAME]", shell_complete=offer_names)
@at_option
def show_command(session: CommandContext, lake: str, name: str | None, at: str | None) -> None:
    """Describe the lakehouse, or one of its objects.

    NAME is a name such as sales.orders, an alias, or a canonical string such as 'sales|orders|1'.
    """
    opened = session.open_metastore(lake)
    snapshot = opened.metastore.latest() if at is None else load_snapshot_at(opened.metastore, at)
    summary: _Summary = (
        summarize_lakehouse(opened.uri, opened.layout, snapshot) if name is None else summarize_object(snapshot, name)
    )
    session.answer(summary_to_json(summary), lambda: _render_summary(summary))


@lake_command(
    "create",
    "mangrove create ./lake sales --property owner=ana\n"
    "mangrove create ./lake sales.orders --key id --partition-by 'days(ts)' \\\n"
    "    --schema 'id bigint, amount decimal(10,2), ts timestamp'\n"
    "mangrove create ./lake sales.daily --view 'select 1 as one'",
)
@click.argument("name")
@click.option("--schema", help="Table columns as SQL text, or @FILE to read them from a file.")
@click.option("--key", "keys", multiple=True, metavar="COLUMN", help="Key column; repeat for a composite key.")
@click.option(
    "--partition-by", multiple=True, metavar="TERM", help="Partition column or transform: days(ts), bucket(8, id)."
)
@click.option("--sort-by", multiple=True, metavar="TERM", help="Sort column, with asc or desc.")
@click.option("--location", metavar="URI", help="Data location of an external table.")
@click.option("--format", "table_format", help="Format of an external table, such as parquet.")
@click.option("--schemaless", is_flag=True, help="Create a table of files as they are, without columns.")
@click.option("--table-version", type=click.IntRange(1), help="Number of the first table version.  [default: 1]")
@click.option("--stream-id", help="Id of the first stream.  [default: a random one]")
@click.option("--view", "query", metavar="SQL", help="Create a view with this query.")
@click.option("--description", help="Description of the object.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Property of the object.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the object already exists.")
def create_command(
    session: CommandContext, lake: str, name: str, schema: str | None, keys: Sequence[str], partition_by: Sequence[str],
    sort_by: Sequence[str], location: str | None, table_format: str | None, schemaless: bool,
    table_version: int | None, stream_id: str | None, query: str | None,
    description: str | None, properties: Sequence[str], if_not_exists: bool,
) -> None:  # fmt: skip
    """Create a namespace, a table or a view.

    A name with a dot, such as sales.orders, is a table or a view.
    """
    pairs = parse_key_values(properties, "--property")
    is_namespace = parse_object_name(name).table is None
    of_tables = [
        schema, keys, partition_by, sort_by, location, table_format, schemaless, table_version, stream_id, query
    ]  # fmt: skip
    if is_namespace and any(of_tables):
        raise InvalidInputError(
            f"{name!r} is a namespace and takes no table options; use namespace.{name} to create a table or view"
        )
    if query is not None and any(of_tables[:-1]):
        raise InvalidInputError("--view cannot be combined with --schema, --key, --location or other table options")
    columns = None if schema is None else read_schema_text(schema)
    opened = session.open(lake)
    if is_namespace:
        opened.create_namespace(name, properties=pairs, description=description, if_not_exists=if_not_exists)
    elif query is not None:
        _create_view(opened, name, query, pairs, description, if_not_exists=if_not_exists)
    else:
        opened.create_table(
            name, columns, keys=keys, partition_by=partition_by, sort_by=sort_by,
            table_type="managed" if location is None else "external", table_format=table_format, location=location,
            properties=pairs, description=description, schemaless=schemaless, if_not_exists=if_not_exists,
            version=table_version or 1, stream_id=stream_id,
        )  # fmt: skip
    summary = summarize_object(opened._reading(), name)
    kind = _kind_of(summary)
    version = opened.version
    session.answer(
        {"version": version, kind: summary_to_json(summary)}, lambda: f"created {kind} {name} in version {version}"
    )


@lake_command("drop", "mangrove drop ./lake sales.orders\nmangrove drop ./lake sales --cascade")
@click.argument("name", shell_complete=offer_names)
@click.option("--cascade", is_flag=True, help="Also drop all tables and views of a namespace.")
@click.option("--if-exists", is_flag=True, help="Do nothing if the object does not exist.")
def drop_command(session: CommandContext, lake: str, name: str, cascade: bool, if_exists: bool) -> None:
    """Drop a namespace, a table or a view; earlier versions keep it."""
    opened = session.open(lake)
    try:
        kind = _find_kind(opened, name, hint=_DROP_HINT)
    except NotFoundError:
        if not if_exists:
            raise
        session.answer(
            {"dropped": None, "version": opened.version}, lambda: f"{name} does not exist; nothing was dropped"
        )
        return
    if cascade and kind != "namespace":
        raise InvalidInputError(f"{name} is a {kind}; --cascade applies to namespaces only")
    if kind == "namespace":
        opened.drop_namespace(name, cascade=cascade)
    elif kind == "view":
        opened.drop_view(name)
    else:
        opened.drop_table(name)
    version = opened.version
    session.answer(
        {"dropped": name, "kind": kind, "version": version},
        lambda: f"dropped {kind} {name} in version {version}; `mangrove rollback` to {version - 1} restores it",
    )


@lake_command(
    "alter",
    "mangrove alter ./lake sales.orders --property owner=ana --remove note\n"
    "mangrove alter ./lake sales.orders --add-column 'price decimal(8,2)'\n"
    "mangrove alter ./lake --keep 30d",
)
@click.argument("name", required=False, metavar="[NAME]", shell_complete=offer_names)
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Property to set.")
@click.option("--remove", multiple=True, metavar="KEY", help="Property to remove.")
@click.option("--description", help="Description of a namespace, table or view.")
@click.option("--add-column", multiple=True, metavar="'NAME TYPE'", help="Column to add to a table.")
@click.option("--rename-column", multiple=True, metavar="OLD=NEW", help="Column of a table to rename.")
@click.option("--drop-column", multiple=True, metavar="NAME", help="Column of a table to drop.")
@click.option("--keep", metavar="DURATION", help="Retention period of the lakehouse's versions, such as 30d.")
def alter_command(
    session: CommandContext, lake: str, name: str | None, properties: Sequence[str], remove: Sequence[str],
    description: str | None, add_column: Sequence[str], rename_column: Sequence[str], drop_column: Sequence[str],
    keep: str | None,
) -> None:  # fmt: skip
    """Change properties, the description, columns or the retention, in one commit.

    NAME is a namespace, a table, a view, or a table version such as sales.orders.version_2. A
    table version inherits the properties of its table, and its own replace them. Without NAME the
    lakehouse itself is changed.
    """
    put = parse_key_values(properties, "--property")
    columns = (add_column, parse_key_values(rename_column, "--rename-column"), drop_column)
    if not (put or remove or any(columns) or description is not None or keep is not None):
        raise InvalidInputError("nothing to change; add an option such as --property KEY=VALUE")
    if name is None and (any(columns) or description is not None):
        raise InvalidInputError("columns and descriptions need the NAME of an object; give one")
    if name is not None and keep is not None:
        raise InvalidInputError("--keep is the retention of the whole lakehouse; remove NAME or --keep")
    opened = session.open(lake)
    kind = "lakehouse" if name is None else _find_kind(opened, name, Kind.TABLE_VERSION)
    if kind not in ("table", "table version") and any(columns):
        raise InvalidInputError(f"{name} is a {kind}; only tables have columns to change")
    with opened.transaction(message=f"alter {kind}{'' if name is None else f' {name}'}") as transaction:
        if name is None:
            ages = {} if keep is None else {"maximum_version_age_millis": parse_duration_millis(keep)}
            transaction.alter_settings(put, remove, **ages)
        elif kind == "namespace":
            transaction.alter_namespace(name, put, remove, description=description)
        elif kind == "view":
            transaction.alter_view(name, put, remove, description=description)
        else:
            table = transaction.table(name)
            table.alter(put, remove, description)
            _change_columns(table, *columns)
    version = transaction.version
    session.answer(
        {"altered": name, "kind": kind, "version": version},
        lambda: f"altered {kind} {name or opened.uri} in version {version}",
    )


def _change_columns(table: LakeTable, added: Sequence[str], renamed: Mapping[str, str], dropped: Sequence[str]) -> None:
    with table.update_schema() as update:
        for column in added:
            name, _, type_text = column.strip().partition(" ")
            update.add_column(name, type_text)
        for old, new in renamed.items():
            update.rename_column(old, new)
        for name in dropped:
            update.drop_column(name)


@lake_command("rename", "mangrove rename ./lake sales.orders sales.orders_2026")
@click.argument("name", shell_complete=offer_names)
@click.argument("new_name")
def rename_command(session: CommandContext, lake: str, name: str, new_name: str) -> None:
    """Rename a namespace, a table or a view; no data moves."""
    if not is_named_by_ids(name) and parse_object_name(name) == parse_object_name(new_name):
        raise InvalidInputError(f"the new name {new_name} is the same as the old one; give another name")
    opened = session.open(lake)
    kind = _find_kind(opened, name)
    if kind == "namespace":
        opened.rename_namespace(name, new_name)
    elif kind == "view":
        opened.rename_view(name, new_name)
    else:
        opened.rename_table(name, new_name)
    version = opened.version
    session.answer(
        {"renamed": name, "to": new_name, "kind": kind, "version": version},
        lambda: f"renamed {kind} {name} to {new_name} in version {version}",
    )


@lake_command(
    "alias",
    "mangrove alias ./lake\nmangrove alias ./lake sales.purchases sales.orders\n"
    "mangrove alias ./lake sales.purchases --drop",
)
@click.argument("name", required=False, metavar="[NAME]")
@click.argument("target", required=False, metavar="[TARGET]", shell_complete=offer_names)
@click.option("--drop", is_flag=True, help="Drop the alias; its namespace or table stays.")
def alias_command(session: CommandContext, lake: str, name: str | None, target: str | None, drop: bool) -> None:
    """List the aliases, or give a namespace or table another name.

    An alias follows its namespace or table through renames.
    """
    if name is None or (target is None and not drop):
        if name is not None or drop:
            raise InvalidInputError("an alias needs its name and its target, or its name and --drop")
        aliases = list(summarize_aliases(session.open_metastore(lake).metastore.latest()))
        session.answer(summary_to_json(aliases), lambda: render_aliases(aliases))
        return
    opened = session.open(lake)
    if drop:
        opened.drop_alias(name)
        version = opened.version
        session.answer({"dropped": name, "version": version}, lambda: f"dropped alias {name} in version {version}")
    else:
        assert target is not None
        made = opened.create_alias(name, target)
        version = opened.version
        session.answer(
            {"alias": made.name, "target": made.target, "version": version},
            lambda: f"created alias {made.name} of {made.target} in version {version}",
        )


def _create_view(
    catalog: WritableCatalog,
    name: str,
    query: str,
    pairs: dict[str, str],
    description: str | None,
    *,
    if_not_exists: bool,
) -> None:
    _, existing = locate_view(catalog._reading(), parse_view_name(name)) if if_not_exists else (None, None)
    if existing is None:
        reads = find_referenced_names(query, parse_view_name(name).namespace)
        catalog.create_view(name, query, reads=reads, properties=pairs, description=description)


def read_schema_text(schema: str) -> str:
    """Return the schema text, read from a file if it has the form `@FILE`."""
    if not schema.startswith("@"):
        return schema
    try:
        with open(schema[1:], encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot read the schema from {schema[1:]} ({error}); check the file") from error


def _find_kind(catalog: Lakehouse, name: str, *others: Kind, hint: str = "") -> str:
    """Return the kind of the object with a name; raise an error if it is no namespace, table, view or other kind."""
    found, expected = catalog.resolve(name), (Kind.NAMESPACE, Kind.TABLE, *others, Kind.VIEW)
    if found.kind not in expected:
        *first, last = (kind.word for kind in expected)
        words = f"{', '.join(first)} or {last}"
        raise InvalidInputError(f"{found.canonical} is a {found.kind.word}; expected a {words}{hint}")
    return found.kind.word


def _kind_of(summary: _Summary) -> str:
    return type(summary).__name__.removesuffix("Summary").lower()


def _render_summary(summary: _Summary) -> RenderableType:
    match summary:
        case LakehouseSummary():
            return render_lakehouse(summary)
        case NamespaceSummary():
            return render_namespace(summary)
        case TableSummary():
            return render_table(summary)
        case ViewSummary():
            return render_view(summary)
        case ObjectSummary():
            return render_object(summary)

"""Commands that list, create, release and drop table versions, streams, partitions and deltas."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.text import Text

from mangrove.cli.catalog import build_list_table, read_schema_text
from mangrove.cli.command import at_option, lake_command
from mangrove.cli.completion import offer_tables
from mangrove.cli.context import CommandContext, parse_key_values
from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import format_schema
from mangrove.lakehouse.table_versions import TableVersionInfo, parse_state
from mangrove.maintenance.progress import format_bytes
from mangrove.model.json_codec import Json, format_partition_values, parse_partition_values, value_to_json
from mangrove.model.objects import STREAM_FORMAT, TableVersionState
from mangrove.transaction.deltas import VERSION_PREFIX, TableTarget
from mangrove.wiring import open_as_of

__all__ = [
    "commit_stream_command",
    "create_partition_command",
    "create_stream_command",
    "create_version_command",
    "deltas_command",
    "drop_stream_command",
    "drop_version_command",
    "partitions_command",
    "set_state_command",
    "streams_command",
    "versions_command",
]

_STATES = [state.value for state in TableVersionState]


@lake_command("versions", "mangrove versions ./lake sales.orders")
@click.argument("table", shell_complete=offer_tables)
@at_option
def versions_command(session: CommandContext, lake: str, table: str, at: str | None) -> None:
    """List the versions of a table; reads and writes by its name use the default one."""
    found = open_as_of(session.open(lake), at).table(table).versions()
    lines = build_list_table("version", "state", "default", "columns", "keys", "partitioned by", "description")
    for one in found:
        lines.add_row(
            str(one.version),
            one.state,
            "default" if one.is_default else "",
            "" if one.schema is None else format_schema(one.schema),
            ", ".join(one.keys),
            ", ".join(one.partition_by),
            one.description or "",
        )
    session.answer([_to_json(one) for one in found], lambda: lines)


@lake_command(
    "create-version",
    "mangrove create-version ./lake sales.orders\n"
    "mangrove create-version ./lake sales.orders --key id --sort-by id \\\n"
    "    --schema 'id bigint, amount double' --partition-by 'bucket(8, id)'",
)
@click.argument("table", shell_complete=offer_tables)
@click.option("--schema", help="Columns as SQL text, or @FILE to read them from a file.  [default: the current ones]")
@click.option("--schemaless", is_flag=True, help="Create a version of files as they are, without columns.")
@click.option(
    "--key", "keys", multiple=True, metavar="COLUMN", help="Key column, '' for none.  [default: the current ones]"
)
@click.option(
    "--partition-by", multiple=True, metavar="TERM", help="Partition field, '' for none.  [default: the current ones]"
)
@click.option("--sort-by", multiple=True, metavar="TERM", help="Sort column, '' for none.  [default: the current ones]")
@click.option("--description", help="Description of the version.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Property of the version.")
@click.option("--version", type=click.IntRange(1), help="Number of the version.  [default: the next one]")
@click.option("--stream-id", help="Id of the first stream.  [default: a random one]")
@click.option("--state", type=click.Choice(_STATES), default="unreleased", show_default=True, help="Lifecycle state.")
def create_version_command(
    session: CommandContext, lake: str, table: str, schema: str | None, schemaless: bool, keys: Sequence[str],
    partition_by: Sequence[str], sort_by: Sequence[str], description: str | None, properties: Sequence[str],
    version: int | None, stream_id: str | None, state: str,
) -> None:  # fmt: skip
    """Create the next version of a table, without rows; load it, then set its state to active."""
    opened = session.open(lake)
    made = opened.table(table).create_version(
        None if schema is None else read_schema_text(schema),
        keys=_parse_list(keys),
        partition_by=_parse_list(partition_by),
        sort_by=_parse_list(sort_by),
        description=description,
        properties=parse_key_values(properties, "--property") if properties else None,
        version=version,
        state=state,
        stream_id=stream_id,
        schemaless=schemaless,
    )
    committed = opened.version
    session.answer(
        {"table": table, "table_version": made.target.version, "state": state, "version": committed},
        lambda: f"created {made}, which is {state}, in version {committed}",
    )


@lake_command(
    "set-state",
    "mangrove set-state ./lake sales.orders 2=active 1=deprecated\n"
    "mangrove set-state ./lake sales.orders.version_2 active",
)
@click.argument("table", shell_complete=offer_tables)
@click.argument("states", nargs=-1, required=True, metavar="[VERSION=]STATE...")
def set_state_command(session: CommandContext, lake: str, table: str, states: Sequence[str]) -> None:
    """Set the lifecycle states of table versions in one commit: unreleased, beta, active, deprecated or deleted.

    A name or canonical string of a table version, such as sales.orders.version_2 or 'sales|orders|2', is followed
    by its state. The newest active version is the default.
    """
    opened = session.open(lake)
    target = opened.table(table).target
    requested = _parse_states(target, states)
    with opened.transaction(message=f"set states of versions of {target.locator}") as transaction:
        for number, state in requested.items():
            transaction.table(target.locator).version(number).set_state(state)
    default = next((one.version for one in opened.table(target.locator).versions() if one.is_default), None)
    version, name = opened.version, str(target.locator)
    served = f"table version {default} is the default of {name}" if default else f"{name} has no default version now"
    session.answer(
        {"table": name, "default": default, "version": version}, lambda: f"{served}, as of version {version}"
    )


def _parse_states(target: TableTarget, states: Sequence[str]) -> dict[int, TableVersionState]:
    """Return the requested states by the numbers of the table versions."""
    if target.stream_id is not None:
        raise InvalidInputError(f"{target} is not a table version; name one, as in {target.locator}.version_2")
    if target.version is not None and not any("=" in text for text in states):
        if len(states) > 1:
            raise InvalidInputError(f"{target} can have one state, not {len(states)}: {' '.join(states)}")
        return {target.version: parse_state(states[0])}
    unnumbered = next((text for text in states if "=" not in text), None)
    if unnumbered is not None:
        raise InvalidInputError(
            f"{unnumbered!r} has no table version; use VERSION=STATE, as in 2={unnumbered}, or name the version, as in "
            f"{target.locator}.{VERSION_PREFIX}2 {unnumbered}"
        )
    pairs = parse_key_values(states, "STATE").items()
    requested = {_parse_number(number): parse_state(state) for number, state in pairs}
    if target.version is not None and requested.keys() != {target.version}:
        raise InvalidInputError(f"{target} names one table version; use {target.locator} to set states of others")
    return requested


@lake_command(
    "drop-version",
    "mangrove drop-version ./lake sales.orders 1\nmangrove drop-version ./lake sales.orders.version_1",
)
@click.argument("table", shell_complete=offer_tables)
@click.argument("number", type=click.IntRange(1), metavar="[VERSION]", required=False)
def drop_version_command(session: CommandContext, lake: str, table: str, number: int | None) -> None:
    """Drop a version of a table with its rows; earlier versions of the lakehouse keep it.

    VERSION is left out if TABLE names it.
    """
    opened = session.open(lake)
    dropped = opened.table(table, version=number)
    dropped.drop_version()
    version, name = opened.version, str(dropped.locator)
    session.answer(
        {"dropped": dropped.target.version, "table": name, "version": version},
        lambda: f"dropped table version {dropped.target.version} of {name} in version {version}",
    )


@lake_command("streams", "mangrove streams ./lake sales.orders\nmangrove streams ./lake sales.orders.version_2")
@click.argument("table", shell_complete=offer_tables)
@at_option
def streams_command(session: CommandContext, lake: str, table: str, at: str | None) -> None:
    """List the streams of a table version; the rows of one of them are read."""
    found = open_as_of(session.open(lake), at).table(table).streams()
    lines = build_list_table("stream", "format", "state", "read", "partitioned by", "previous")
    for one in found:
        lines.add_row(
            one.id,
            one.format,
            one.state,
            "yes" if one.is_served else "",
            ", ".join(one.partition_by),
            one.previous_id or "",
        )
    session.answer([_plain(asdict(one)) for one in found], lambda: lines)


@lake_command(
    "create-stream",
    "mangrove create-stream ./lake sales.orders reload\n"
    "mangrove ingest ./lake 'sales|orders|1|reload|deltacat' orders.csv\n"
    "mangrove commit-stream ./lake sales.orders reload",
)
@click.argument("table", shell_complete=offer_tables)
@click.argument("stream", required=False)
@click.option("--format", "stream_format", default=STREAM_FORMAT, show_default=True, help="Format of the stream.")
def create_stream_command(
    session: CommandContext, lake: str, table: str, stream: str | None, stream_format: str
) -> None:
    """Create a staged stream of a table version, with an id of its own; its rows are read once it is committed."""
    opened = session.open(lake)
    target = opened.table(table).create_stream(stream, stream_format).target
    version = opened.version
    session.answer(
        {"table": table, "stream": target.stream_id, "version": version},
        lambda: f"created stream {target.stream_id} of {table} in version {version}",
    )


@lake_command(
    "commit-stream",
    "mangrove commit-stream ./lake sales.orders reload\nmangrove commit-stream ./lake 'sales|orders|1|reload|deltacat'",
)
@click.argument("table", shell_complete=offer_tables)
@click.argument("stream", required=False)
def commit_stream_command(session: CommandContext, lake: str, table: str, stream: str | None) -> None:
    """Read a table version from another of its streams; the previous one becomes deprecated.

    STREAM is left out if TABLE is the canonical string of the stream.
    """
    opened = session.open(lake)
    committed = opened.table(table, stream_id=stream)
    committed.commit_stream()
    version, name, chosen = opened.version, _name_owner(committed.target), committed.target.stream_id
    session.answer(
        {"table": name, "stream": chosen, "version": version},
        lambda: f"{name} is read from stream {chosen}, as of version {version}",
    )


@lake_command(
    "drop-stream",
    "mangrove drop-stream ./lake sales.orders reload\nmangrove drop-stream ./lake 'sales|orders|1|reload|deltacat'",
)
@click.argument("table", shell_complete=offer_tables)
@click.argument("stream", required=False)
def drop_stream_command(session: CommandContext, lake: str, table: str, stream: str | None) -> None:
    """Drop a staged or deprecated stream with its rows; earlier versions of the lakehouse keep it.

    STREAM is left out if TABLE is the canonical string of the stream.
    """
    opened = session.open(lake)
    dropped = opened.table(table, stream_id=stream)
    dropped.drop_stream()
    version, name, chosen = opened.version, _name_owner(dropped.target), dropped.target.stream_id
    session.answer(
        {"dropped": chosen, "table": name, "version": version},
        lambda: f"dropped stream {chosen} of {name} in version {version}",
    )


@lake_command("partitions", "mangrove partitions ./lake sales.orders")
@click.argument("table", shell_complete=offer_tables)
@at_option
def partitions_command(session: CommandContext, lake: str, table: str, at: str | None) -> None:
    """List the partitions of a table, table version or stream, with their ids, values and sizes."""
    found = open_as_of(session.open(lake), at).table(table).partition_stats()
    lines = build_list_table("partition", "values", "deltas", "files", "rows", "size")
    for one in found:
        lines.add_row(
            one.locator.partition_id,
            format_partition_values(one.values),
            f"{one.delta_count:,}",
            f"{one.file_count:,}",
            f"{one.row_count:,}",
            format_bytes(one.size_bytes),
        )
    session.answer(
        [
            {
                "partition": one.locator.partition_id,
                "values": [value_to_json(value) for value in one.values],
                "deltas": one.delta_count,
                "files": one.file_count,
                "rows": one.row_count,
                "bytes": one.size_bytes,
            }
            for one in found
        ],
        lambda: lines if found else Text("no partitions", style="dim"),
    )


@lake_command(
    "create-partition",
    "mangrove create-partition ./lake sales.visits north '[\"north\"]'\n"
    'mangrove create-partition ./lake sales.orders sunday \\\n    \'[{"date": "2026-11-15"}]\'',
)
@click.argument("table", shell_complete=offer_tables)
@click.argument("partition")
@click.argument("values")
def create_partition_command(session: CommandContext, lake: str, table: str, partition: str, values: str) -> None:
    """Create a partition with an id of its own, to which all rows with its partition values are written.

    VALUES are a JSON array, as in canonical strings; `mangrove partitions` lists them.
    """
    opened = session.open(lake)
    made = opened.table(table)
    made.create_partition(parse_partition_values(values), partition)
    version, name = opened.version, str(made)
    session.answer(
        {"table": name, "partition": partition, "version": version},
        lambda: f"created partition {partition} of {name} in version {version}",
    )


@lake_command("deltas", "mangrove deltas ./lake sales.orders")
@click.argument("table", shell_complete=offer_tables)
@at_option
def deltas_command(session: CommandContext, lake: str, table: str, at: str | None) -> None:
    """List the deltas of a table, table version, stream or partition in the order in which they apply."""
    found = list(open_as_of(session.open(lake), at).table(table).deltas())
    lines = build_list_table("partition", "position", "type", "rows", "author", "properties")
    for locator, delta in found:
        lines.add_row(
            locator.partition_id,
            str(locator.position),
            delta.type.value,
            f"{delta.manifest.row_count:,}",
            "" if delta.author is None else delta.author.name,
            ", ".join(f"{name}={text}" for name, text in delta.properties.items()),
        )
    session.answer(
        [
            {
                "partition": locator.partition_id,
                "position": locator.position,
                "type": delta.type.value,
                "files": len(delta.manifest.entries),
                "rows": delta.manifest.row_count,
                "bytes": delta.manifest.size_bytes,
                "author": None if delta.author is None else delta.author.name,
                "properties": dict(delta.properties),
            }
            for locator, delta in found
        ],
        lambda: lines if found else Text("no deltas", style="dim"),
    )


def _name_owner(stream: TableTarget) -> str:
    """Return the name of the table or table version that has a stream."""
    return str(TableTarget(stream.locator, stream.version))


def _to_json(one: TableVersionInfo) -> Json:
    return {
        "version": one.version,
        "state": one.state,
        "is_default": one.is_default,
        "schema": None if one.schema is None else format_schema(one.schema),
        "keys": list(one.keys),
        "partition_by": list(one.partition_by),
        "sort_by": list(one.sort_by),
        "properties": dict(one.properties),
        "description": one.description,
        "previous_version": one.previous_version,
        "stream_id": one.stream_id,
    }


def _plain(fields: dict[str, Any]) -> Json:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def _parse_list(given: Sequence[str]) -> list[str] | None:
    """Return the given texts, an empty list for one empty text, or None if there are none."""
    return [one for one in given if one] if given else None


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise InvalidInputError(f"{text!r} is not the number of a table version; use VERSION=STATE, as in 2=active")
    return int(text)

"""Commands that list, create, release and drop table versions and streams."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from mangrove.cli.catalog import build_list_table, read_schema_text
from mangrove.cli.command import lake_command
from mangrove.cli.completion import offer_tables
from mangrove.cli.context import CommandContext, parse_key_values
from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import format_schema
from mangrove.lakehouse.table_versions import TableVersionInfo, parse_state
from mangrove.model.json_codec import Json
from mangrove.model.objects import STREAM_FORMAT, TableVersionState
from mangrove.transaction.deltas import TableTarget
from mangrove.wiring import open_as_of

__all__ = [
    "commit_stream_command",
    "create_stream_command",
    "create_version_command",
    "drop_stream_command",
    "drop_version_command",
    "set_state_command",
    "streams_command",
    "versions_command",
]

_STATES = [state.value for state in TableVersionState]


@lake_command("versions", "mangrove versions ./lake sales.orders")
@click.argument("table", shell_complete=offer_tables)
@click.option("--at", metavar="WHEN", help="As of a version of the lakehouse, a timestamp or an export name.")
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
@click.option("--state", type=click.Choice(_STATES), default="unreleased", show_default=True, help="Lifecycle state.")
def create_version_command(
    session: CommandContext, lake: str, table: str, schema: str | None, keys: Sequence[str],
    partition_by: Sequence[str], sort_by: Sequence[str], description: str | None, properties: Sequence[str],
    version: int | None, state: str,
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
    pairs = parse_key_values(states, "STATE").items()
    requested = {_parse_number(number): parse_state(state) for number, state in pairs}
    if target.version is not None and requested.keys() != {target.version}:
        raise InvalidInputError(f"{target} names one table version; use {target.locator} to set states of others")
    return requested


@lake_command("drop-version", "mangrove drop-version ./lake sales.orders 1")
@click.argument("table", shell_complete=offer_tables)
@click.argument("number", type=click.IntRange(1), metavar="VERSION")
def drop_version_command(session: CommandContext, lake: str, table: str, number: int) -> None:
    """Drop a version of a table with its rows; earlier versions of the lakehouse keep it."""
    opened = session.open(lake)
    opened.table(table).drop_version(number)
    version = opened.version
    session.answer(
        {"dropped": number, "table": table, "version": version},
        lambda: f"dropped table version {number} of {table} in version {version}",
    )


@lake_command("streams", "mangrove streams ./lake sales.orders\nmangrove streams ./lake sales.orders.version_2")
@click.argument("table", shell_complete=offer_tables)
@click.option("--at", metavar="WHEN", help="As of a version, a timestamp or an export name.")
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


@lake_command("commit-stream", "mangrove commit-stream ./lake sales.orders reload")
@click.argument("table", shell_complete=offer_tables)
@click.argument("stream")
def commit_stream_command(session: CommandContext, lake: str, table: str, stream: str) -> None:
    """Read a table version from another of its streams; the previous one becomes deprecated."""
    opened = session.open(lake)
    opened.table(table).stream(stream).commit_stream()
    version = opened.version
    session.answer(
        {"table": table, "stream": stream, "version": version},
        lambda: f"{table} is read from stream {stream}, as of version {version}",
    )


@lake_command("drop-stream", "mangrove drop-stream ./lake sales.orders reload")
@click.argument("table", shell_complete=offer_tables)
@click.argument("stream")
def drop_stream_command(session: CommandContext, lake: str, table: str, stream: str) -> None:
    """Drop a staged or deprecated stream with its rows; earlier versions of the lakehouse keep it."""
    opened = session.open(lake)
    opened.table(table).stream(stream).drop_stream()
    version = opened.version
    session.answer(
        {"dropped": stream, "table": table, "version": version},
        lambda: f"dropped stream {stream} of {table} in version {version}",
    )


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

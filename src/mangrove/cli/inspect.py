"""The inspect command, which prints any metadata file as text."""

import json

import click
from rich.console import Group, RenderableType
from rich.text import Text

from mangrove.cli.catalog import build_list_table, build_property_table
from mangrove.cli.command import lake_command
from mangrove.cli.completion import offer_files
from mangrove.cli.context import CommandContext
from mangrove.inspect.files import InspectedFile, inspect_file
from mangrove.inspect.summary import summary_to_json
from mangrove.maintenance.progress import format_bytes
from mangrove.model.json_codec import Json

__all__ = ["inspect_command", "render_inspected_file"]


def render_inspected_file(found: InspectedFile) -> RenderableType:
    """Return the content of an inspected file."""
    parts: list[RenderableType] = [Text(found.what, style="bold"), Text(format_bytes(found.size_bytes), style="dim")]
    if isinstance(found.fields, dict) and all(isinstance(value, str) for value in found.fields.values()):
        parts.append(build_property_table([(name, str(value)) for name, value in found.fields.items()]))
    elif found.fields is not None:
        parts.append(Text(json.dumps(found.fields, ensure_ascii=False, indent=2)))
    if found.rows:
        has_children = any(row.child is not None for row in found.rows)
        table = build_list_table("key", "value", *(["right child"] if has_children else []))
        for row in found.rows:
            child = [row.child or ""] if has_children else []
            value = Text(_definition_text(row.definition) or row.value or "")
            table.add_row(Text(row.key or "(leftmost)", style="cyan"), value, *child)
        parts += [Text("\nkey table", style="bold"), table]
    if found.buffer:
        messages = build_list_table("key", "value", "transaction")
        for message in found.buffer:
            text = _definition_text(message.definition) or message.value
            value = Text("(delete)", style="red") if text is None else Text(text)
            messages.add_row(Text(message.key, style="cyan"), value, message.transaction)
        parts += [Text("\nwrite buffer, oldest first", style="bold"), messages]
    return Group(*parts)


def _definition_text(definition: Json) -> str:
    """Return a definition as one line of JSON, without empty fields."""
    return "" if definition is None else json.dumps(_drop_empty_fields(definition), ensure_ascii=False)


def _drop_empty_fields(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _drop_empty_fields(inner) for name, inner in value.items() if inner not in (None, "", [], {})}
    return [_drop_empty_fields(inner) for inner in value] if isinstance(value, list) else value


@lake_command(
    "inspect",
    "mangrove inspect ./lake/_00000000000000000000000000000000.ipc\n"
    "mangrove inspect s3://bucket/lake/_latest_hint.txt --json",
    takes_lake=False,
)
@click.argument("file", shell_complete=offer_files)
def inspect_command(session: CommandContext, file: str) -> None:
    """Print any file of either layout as text: nodes, definitions, guards, logs and hints."""
    found = inspect_file(*session.file(file))
    session.answer(summary_to_json(found), lambda: render_inspected_file(found))

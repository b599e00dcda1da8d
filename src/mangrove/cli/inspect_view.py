"""How a file looks on a terminal."""

import json

from rich.console import Group, RenderableType
from rich.text import Text

from mangrove.cli.catalog_views import facts_table, list_table
from mangrove.cli.inspection import Inspected
from mangrove.maintenance.progress import said_bytes
from mangrove.model.json_form import Json

__all__ = ["inspected_view"]


def inspected_view(found: Inspected) -> RenderableType:
    """Return what a file holds."""
    parts: list[RenderableType] = [Text(found.what, style="bold"), Text(said_bytes(found.size_bytes), style="dim")]
    if isinstance(found.fields, dict) and all(isinstance(value, str) for value in found.fields.values()):
        parts.append(facts_table([(name, str(value)) for name, value in found.fields.items()]))
    elif found.fields is not None:
        parts.append(Text(json.dumps(found.fields, ensure_ascii=False, indent=2)))
    if found.rows:
        has_children = any(row.child is not None for row in found.rows)
        table = list_table("key", "value", *(["child right of it"] if has_children else []))
        for row in found.rows:
            child = [row.child or ""] if has_children else []
            value = Text(_definition_text(row.definition) or row.value or "")
            table.add_row(Text(row.key or "(leftmost)", style="cyan"), value, *child)
        parts += [Text("\nkey table", style="bold"), table]
    if found.buffer:
        messages = list_table("key", "value", "transaction")
        for message in found.buffer:
            told = _definition_text(message.definition) or message.value
            value = Text("(delete)", style="red") if told is None else Text(told)
            messages.add_row(Text(message.key, style="cyan"), value, message.transaction)
        parts += [Text("\nwrite buffer, oldest first", style="bold"), messages]
    return Group(*parts)


def _definition_text(definition: Json) -> str:
    """Return a definition on one line, without what it leaves empty."""
    return "" if definition is None else json.dumps(_filled(definition), ensure_ascii=False)


def _filled(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _filled(inner) for name, inner in value.items() if inner not in (None, "", [], {})}
    return [_filled(inner) for inner in value] if isinstance(value, list) else value

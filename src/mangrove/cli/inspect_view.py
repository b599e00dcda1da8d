"""How a file looks on a terminal."""

import json

from rich.console import Group, RenderableType
from rich.text import Text

from mangrove.cli.catalog_views import facts_table, list_table
from mangrove.cli.inspection import Inspected
from mangrove.maintenance.progress import said_bytes

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
            table.add_row(Text(row.key or "(leftmost)", style="cyan"), row.value or "", *child)
        parts += [Text("\nkey table", style="bold"), table]
    if found.buffer:
        messages = list_table("key", "value", "transaction")
        for message in found.buffer:
            value = Text("(delete)", style="red") if message.value is None else Text(message.value)
            messages.add_row(Text(message.key, style="cyan"), value, message.transaction)
        parts += [Text("\nwrite buffer, oldest first", style="bold"), messages]
    return Group(*parts)

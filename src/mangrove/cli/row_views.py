"""How rows look: as a table on a terminal, and as plain values for programs."""

import datetime
import decimal
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from mangrove.cli.catalog_views import list_table
from mangrove.model.json_form import Json

__all__ = ["cell_text", "plain", "rows_view"]


def rows_view(names: Iterable[str], rows: Sequence[Sequence[Any]], footer: str) -> RenderableType:
    """Return rows under the names of their columns, numbers at the right."""
    table = list_table(*names)
    for place, column in enumerate(table.columns):
        known = [row[place] for row in rows if row[place] is not None]
        if known and all(isinstance(value, int | float | decimal.Decimal) for value in known):
            column.justify = "right"
    for row in rows:
        table.add_row(*(Text("null", style="dim") if value is None else Text(cell_text(value)) for value in row))
    return Group(table, Text(footer, style="dim"))


def cell_text(value: Any) -> str:
    """Return a value as text; lists and structures as JSON has them.

    >>> cell_text(decimal.Decimal("1.50")), cell_text(True), cell_text({"a": [1, None]})
    ('1.50', 'true', '{"a": [1, null]}')
    """
    found = plain(value)
    if isinstance(found, str):
        return found
    return json.dumps(found, ensure_ascii=False)


def plain(value: Any) -> Json:
    """Return a value of a row as JSON has it; what JSON does not know is text.

    >>> plain([0.5, float("nan"), float("-inf")])
    [0.5, 'NaN', '-Infinity']
    """
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case bytes() | bytearray():
            return value.hex()
        case dict():
            return {str(key): plain(inner) for key, inner in value.items()}
        case tuple() if hasattr(value, "asDict"):
            # A structure, as Spark hands it over.
            return {key: plain(inner) for key, inner in value.asDict().items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case _:
            return str(value)

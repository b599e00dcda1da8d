"""How the rows that a write takes away are hidden: by their keys, by their numbers, or by files without them.

The table property `write.delete-mode` chooses; without it, or with "auto", a table
with keys hides by keys, which commutes with compaction, and one without copies the
files that hold such rows.
"""

import enum
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.tables.table_state import TableState

__all__ = ["DELETE_MODE", "Hiding", "hiding_of"]

DELETE_MODE: Final = "write.delete-mode"
"""How a table hides rows that are deleted or changed: `auto` (unless set), `keys`, `position` or `copy`."""


class Hiding(enum.Enum):
    """What is written so that a row is seen no more."""

    KEYS = "keys"
    POSITIONS = "position"
    COPIES = "copy"


def hiding_of(state: TableState) -> Hiding:
    """Return how a table hides rows."""
    asked = state.properties.get(DELETE_MODE, "auto")
    if asked == "auto":
        return Hiding.KEYS if state.version.keys else Hiding.COPIES
    if asked == Hiding.KEYS.value and not state.version.keys:
        raise InvalidInputError(f"{state.name} has no keys, and {DELETE_MODE} is {asked!r}: set it to 'auto'")
    if asked == Hiding.COPIES.value and state.version.keys:
        # A file of an upsert also hides older rows, which would come back if it were replaced.
        raise InvalidInputError(
            f"{state.name} has keys, and {DELETE_MODE} is {asked!r}, which only tables without them can have: "
            "set it to 'auto' or 'position'"
        )
    try:
        return Hiding(asked)
    except ValueError:
        raise InvalidInputError(
            f"{state.name} has the {DELETE_MODE} {asked!r}: it is auto, {', '.join(one.value for one in Hiding)}"
        ) from None

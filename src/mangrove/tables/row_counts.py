"""How many rows a write touched."""

from dataclasses import dataclass
from typing import Final

__all__ = ["NO_ROWS", "RowCounts"]


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows that came, changed and went, as of the version on which the write stood; None is not known without reading.

    An upsert or a delete by keys looks at nothing that is there, so that it
    commutes with everybody else's. It cannot know what it met.
    """

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0

    def __add__(self, other: "RowCounts") -> "RowCounts":
        """Return the rows of two writes together."""
        return RowCounts(
            _sum(self.inserted, other.inserted), _sum(self.updated, other.updated), _sum(self.deleted, other.deleted)
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


NO_ROWS: Final = RowCounts()

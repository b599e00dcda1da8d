"""How many rows a write touched."""

from dataclasses import dataclass
from typing import Final

__all__ = ["NO_ROWS", "RowCounts"]


@dataclass(frozen=True, slots=True, repr=False)
class RowCounts:
    """Rows that a write inserted, updated and deleted, as of the version it is based on; None is not known.

    An upsert or a delete by keys does not read the table, so that it never conflicts
    with other writers. Therefore an upsert counts the rows that it wrote in `upserted`,
    and `inserted` and `updated` are None. A delete by keys has None for `deleted`.
    """

    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    upserted: int = 0
    """Rows that an upsert wrote: each of them was inserted or updated."""

    def __repr__(self) -> str:
        more = f", upserted={self.upserted}" if self.upserted else ""
        return f"RowCounts(inserted={self.inserted}, updated={self.updated}, deleted={self.deleted}{more})"

    def __add__(self, other: "RowCounts") -> "RowCounts":
        """Return the rows of two writes together."""
        return RowCounts(
            _sum(self.inserted, other.inserted),
            _sum(self.updated, other.updated),
            _sum(self.deleted, other.deleted),
            self.upserted + other.upserted,
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


NO_ROWS: Final = RowCounts()

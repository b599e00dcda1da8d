"""What every catalog stands on: where it reads, how it changes, and where new ids come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from mangrove.transaction.names import Reading
from mangrove.transaction.transaction import Transaction

if TYPE_CHECKING:
    # A catalog makes handles, and these call it back.
    from mangrove.lakehouse.handles import CatalogClient
    from mangrove.lakehouse.row_engines import Engines

__all__ = ["CatalogGround"]

T = TypeVar("T")


class CatalogGround(ABC):
    """A lakehouse, a transaction or a past version, before anything is asked of it."""

    clients: Mapping[str, CatalogClient]
    """The other catalogs whose tables are federated here, by name."""
    engines: Engines | None = None
    """What reads and writes rows; without it there are only definitions."""

    @abstractmethod
    def reading(self) -> Reading:
        """Return where objects are read from now."""

    @abstractmethod
    def change(self, statement: Callable[[Transaction], T], message: str = "") -> T:
        """Run a statement in a transaction; `message` is for the history where it is committed by itself."""

    @abstractmethod
    def new_id(self) -> str:
        """Return an id for a new object."""

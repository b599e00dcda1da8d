"""A read-only lakehouse as of one version."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.engine_port import Engines
from mangrove.lakehouse.handles import CatalogClient
from mangrove.metastore import Snapshot
from mangrove.model.settings import LakehouseSettings
from mangrove.transaction.history import HistoryEntry, history_entry_of
from mangrove.transaction.transaction import Transaction

if TYPE_CHECKING:
    # It makes these.
    from mangrove.lakehouse.lakehouse import Lakehouse

__all__ = ["LakeSnapshot"]

T = TypeVar("T")


def _reopen(lake: "Lakehouse", version: int) -> "LakeSnapshot":
    return lake.at(version)


class LakeSnapshot(Catalog):
    """The whole lakehouse as one version has it; it never changes."""

    def __init__(
        self,
        snapshot: Snapshot,
        clients: Mapping[str, CatalogClient],
        engines: Engines | None = None,
        lake: "Lakehouse | None" = None,
    ) -> None:
        self.snapshot = snapshot
        self.clients = clients
        self.engines = engines
        self._lake = lake

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the lakehouse and the version: another process opens both again."""
        if self._lake is None:
            raise InvalidInputError(f"{self!r} cannot be pickled: use one that `lake.at` returns")
        return _reopen, (self._lake, self.version)

    def __repr__(self) -> str:
        return f"<lakehouse at version {self.version}>"

    @property
    def version(self) -> int:
        """The version's number."""
        return self.snapshot.version

    @property
    def created_at(self) -> datetime:
        """When it was committed."""
        return self.line.created_at

    @property
    def line(self) -> HistoryEntry:
        """What the history says about it."""
        return history_entry_of(self.snapshot.commit)

    @property
    def settings(self) -> LakehouseSettings:
        """The lakehouse's own definition."""
        return self.snapshot.settings

    def reading(self) -> Snapshot:
        """Return the version."""
        return self.snapshot

    def change(self, statement: Callable[[Transaction], T], message: str = "") -> T:  # noqa: ARG002
        """Refuse: what was cannot be changed."""
        raise InvalidInputError(
            f"cannot {message or 'change anything'} in version {self.version}, which is past: "
            "change the lakehouse itself"
        )

    def new_id(self) -> str:
        """Return an id that is never stored, since nothing is."""
        return "unused"

"""A read-only lakehouse as of one version."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.catalog import ReadableCatalog
from mangrove.lakehouse.engine_port import Engines
from mangrove.lakehouse.listing import SHOWN_MAX, render_html
from mangrove.lakehouse.namespace import NamespaceSnapshot
from mangrove.lakehouse.table_snapshot import CatalogClient, TableSnapshot
from mangrove.lakehouse.view import ViewSnapshot
from mangrove.metastore import LoadObject, MetastoreSnapshot
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import NamespaceEntry, TableEntry, ViewEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.transaction.history import HistoryEntry, history_entry_of

if TYPE_CHECKING:
    # It makes these.
    from mangrove.lakehouse.lakehouse import Lakehouse

__all__ = ["Snapshot"]


def _reopen(lake: "Lakehouse", version: int) -> "Snapshot":
    return lake.at(version)


class Snapshot(ReadableCatalog[NamespaceSnapshot, TableSnapshot, ViewSnapshot]):
    """The whole lakehouse as of one version, read-only."""

    def __init__(
        self,
        snapshot: MetastoreSnapshot,
        clients: Mapping[str, CatalogClient],
        engines: Engines | None = None,
        lake: "Lakehouse | None" = None,
    ) -> None:
        self.snapshot = snapshot
        self.clients = clients
        self.engines = engines
        self._lake = lake

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the lakehouse and the version; another process opens both again."""
        if self._lake is None:
            raise InvalidInputError(f"{self!r} cannot be pickled: use one that `lake.at` returns")
        return _reopen, (self._lake, self.version)

    def __repr__(self) -> str:
        return f"<lakehouse at version {self.version}>"

    def _repr_html_(self) -> str:
        rows = [(one.name, one.description) for one in self.namespaces(limit=SHOWN_MAX)]
        return render_html(f"lakehouse at version {self.version}", ("namespace", "description"), rows)

    @property
    def version(self) -> int:
        """Number of the version."""
        return self.snapshot.version

    @property
    def created_at(self) -> datetime:
        """Commit time of the version."""
        return self.line.created_at

    @property
    def line(self) -> HistoryEntry:
        """History entry of the version."""
        return history_entry_of(self.snapshot.commit)

    @property
    def settings(self) -> LakehouseSettings:
        """Settings of the lakehouse in this version."""
        return self.snapshot.settings

    def _reading(self) -> MetastoreSnapshot:
        """Return the version."""
        return self.snapshot

    def _namespace_handle(
        self, locator: NamespaceLocator, value: NamespaceEntry, follows_id: bool = False
    ) -> NamespaceSnapshot:
        return NamespaceSnapshot(self, locator, value, follows_id)

    def _table_handle(self, locator: TableLocator, value: TableEntry | LoadObject) -> TableSnapshot:
        return TableSnapshot(self, locator, value)

    def _view_handle(self, locator: ViewLocator, value: ViewEntry, follows_id: bool = False) -> ViewSnapshot:
        return ViewSnapshot(self, locator, value, follows_id)

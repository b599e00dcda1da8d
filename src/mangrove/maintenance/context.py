"""The metastore, store and clock that maintenance operations use."""

from dataclasses import dataclass

from mangrove.effects import Effects
from mangrove.metastore import Metastore, MetastoreMaintenance
from mangrove.storage.port import Store

__all__ = ["MaintenanceContext"]


@dataclass(frozen=True, slots=True)
class MaintenanceContext:
    """One lakehouse; its metastore may also implement maintenance."""

    effects: Effects
    metastore: Metastore
    maintenance: MetastoreMaintenance

    @property
    def store(self) -> Store:
        """The store of the lakehouse."""
        return self.effects.store

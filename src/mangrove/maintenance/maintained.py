"""A lakehouse as maintenance sees it: its versions, the upkeep of its layout, and the outside world."""

from dataclasses import dataclass

from mangrove.effects import Effects
from mangrove.metastore import Metastore, Upkeep
from mangrove.storage.port import Store

__all__ = ["Maintained"]


@dataclass(frozen=True, slots=True)
class Maintained:
    """One lakehouse; its metastore may be its upkeep too."""

    effects: Effects
    metastore: Metastore
    upkeep: Upkeep

    @property
    def store(self) -> Store:
        """Where the lakehouse lies."""
        return self.effects.store

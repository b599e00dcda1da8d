"""A lakehouse's store without its cache: maintenance looks at what is there, not at what was there once."""

from mangrove.maintenance.layered import LayeredStore
from mangrove.storage.asking import AskingStore
from mangrove.storage.caching import CachingStore
from mangrove.storage.port import Store

__all__ = ["uncached"]


def uncached(store: Store) -> Store:
    """Return the store, with every layer of it asked itself; the same one where nothing is remembered."""
    if isinstance(store, CachingStore):
        return AskingStore(store)
    if isinstance(store, LayeredStore):
        above, below = map(uncached, store.layers)
        return store if (above, below) == store.layers else LayeredStore(above, below)
    return store

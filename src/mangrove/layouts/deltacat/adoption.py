"""A catalog that another program wrote: its versions, and how the first commit of ours takes them over."""

import threading
from collections.abc import Sequence
from dataclasses import replace

from mangrove.betree.build import stored
from mangrove.effects import Effects
from mangrove.errors import ConflictError
from mangrove.layouts.deltacat.commit import NodeFiles, follow, publish
from mangrove.layouts.deltacat.files import CatalogFiles
from mangrove.layouts.deltacat.foreign import ForeignHistory, logged_transactions, read_foreign
from mangrove.layouts.deltacat.guard import Guard, nothing_yet
from mangrove.layouts.deltacat.paths import ADOPTED_PATH
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.deltacat.versions import read_adopted
from mangrove.metastore import Changes, Isolation

__all__ = ["ForeignCatalog"]


class ForeignCatalog:
    """The versions that another program made, read once and again when its log has grown."""

    def __init__(self, effects: Effects, files: CatalogFiles) -> None:
        self._effects = effects
        self._files = files
        self._history: ForeignHistory | None = None
        self._is_fixed = False
        self._lock = threading.Lock()

    def latest(self) -> CatalogSnapshot:
        """Return the newest version, reading the log's listing to see whether there is a newer one."""
        history = self._history
        if history is None or logged_transactions(self._files).keys() != history.logged:
            history = self._read()
        return CatalogSnapshot(self._files, history.guards[-1] if history.guards else nothing_yet(self._files.revision))

    def guards(self) -> Sequence[Guard]:
        """Return the versions as they were taken over, or as they are now."""
        return (self._history or self._read()).guards

    def adopt(self, base: CatalogSnapshot, changes: Changes, isolation: Isolation) -> tuple[CatalogSnapshot, Changes]:
        """Fix the other program's transactions and their order for ever, and return what the changes follow then.

        The file that fixes them has one name, so whoever creates it decides for all.
        """
        adopted = read_adopted(self._files.store)
        if adopted is None:
            guard = self._to_adopt()
            adopted = guard if publish(self._effects, guard, ADOPTED_PATH) else read_adopted(self._files.store)
        assert adopted is not None, "it could not be created because it was there"
        if (base.version, base.guard.transaction) == (adopted.version, adopted.transaction):
            return CatalogSnapshot(self._files, adopted), changes
        guards = self._read(adopted).guards
        if base.version >= 0 and guards[base.version].transaction != base.guard.transaction:
            raise ConflictError(
                f"another program committed to {self._files.store.uri} meanwhile, with an end time before that of "
                f"version {base.version}. Nothing was committed; read again and repeat the transaction"
            )
        return follow(base, [*guards[base.version + 1 : -1], adopted], changes, isolation)

    def _to_adopt(self) -> Guard:
        """Return the newest version with its index written, as the guard that takes over all before it."""
        history = self._read()
        newest = history.guards[-1] if history.guards else nothing_yet(self._files.revision)
        nodes = NodeFiles(self._effects.new_id)
        root = stored(newest.root, nodes.write)
        self._files.write(nodes.files)
        return replace(newest, root=root, foreign=history.transactions)

    def _read(self, adopted: Guard | None = None) -> ForeignHistory:
        with self._lock:
            if self._history is None or not self._is_fixed:
                adopted = adopted or read_adopted(self._files.store)
                self._history = read_foreign(self._files, None if adopted is None else adopted.foreign)
                self._is_fixed = adopted is not None
            return self._history

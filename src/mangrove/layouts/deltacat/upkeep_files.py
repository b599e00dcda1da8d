"""Which files of the DeltaCAT layout versions need, and which files can only be the layout's own."""

from collections.abc import Iterable, Iterator
from itertools import chain

from mangrove.layouts.deltacat.foreign import logged_transactions, numbered_files
from mangrove.layouts.deltacat.paths import (
    ADOPTED_PATH,
    NODE_FOLDER,
    SETTINGS_FOLDER,
    NumberedFile,
    is_numbered,
    numbered_file,
    shared_transaction_folder,
    view_folder,
)
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.storage.port import Store

__all__ = ["files_of", "owns"]

_NODES_AT_ONCE = 64


def files_of(snapshots: Iterable[CatalogSnapshot]) -> Iterator[str]:
    """Yield the guards and index nodes of these versions, every revision and mapping ever committed, and the log.

    DeltaCAT finds the past of an object in its revision files, so those stay as
    long as the catalog does; what a writer left that never committed does not.
    """
    met: set[str] = set()
    committed: set[str] = set()
    files = None
    for snapshot in snapshots:
        files = snapshot.files
        committed.add(snapshot.guard.transaction)
        if not snapshot.guard.is_foreign:
            yield snapshot.guard.path
            if snapshot.guard.first:
                yield ADOPTED_PATH
        waiting = [child for child in snapshot.guard.root.children if isinstance(child, str) and child not in met]
        met.update(waiting)
        while waiting:
            batch, waiting = waiting[-_NODES_AT_ONCE:], waiting[:-_NODES_AT_ONCE]
            yield from batch
            for node in snapshot.read_nodes(batch):
                fresh = [child for child in node.children if isinstance(child, str) and child not in met]
                met.update(fresh)
                waiting.extend(fresh)
    if files is not None:
        log = logged_transactions(files)
        yield from log.values()
        committed |= log.keys()
        for path, file in chain(numbered_files(files.store), _of_ours(files.store)):
            if file.transaction in committed:
                yield path


def _of_ours(store: Store) -> Iterator[tuple[str, NumberedFile]]:
    """Yield the revisions of what DeltaCAT does not know."""
    for folder in (SETTINGS_FOLDER, view_folder(""), shared_transaction_folder("")):
        for entry in store.list(folder):
            if is_numbered(entry.path):
                yield entry.path, numbered_file(entry.path)


def owns(path: str) -> bool:
    """Return whether a revision, a mapping or an index node lies at `path`, whatever needs it.

    Guards go by expiry, the hint is written over, and the log is never garbage.
    """
    return path.startswith(NODE_FOLDER) or is_numbered(path)

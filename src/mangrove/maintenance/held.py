"""What others rely on without its being in a newer version: exports, and what shared transactions stand on."""

from dataclasses import dataclass

from mangrove.maintenance.exported import exports_of
from mangrove.maintenance.retention import is_live
from mangrove.metastore import Snapshot
from mangrove.model.clock import time_limit_millis
from mangrove.model.locators import Kind
from mangrove.model.objects import SharedTransaction

__all__ = ["Held", "held_by"]


@dataclass(frozen=True, slots=True)
class Held:
    """The versions that stay whatever their age, and since when written files stay whatever needs them."""

    versions: frozenset[int] = frozenset()
    files_since_millis: int | None = None
    """What a shared transaction staged was written after it began, so its files are known by their age alone."""


def held_by(newest: Snapshot, now_millis: int) -> Held:
    """Return what the newest version says is relied on."""
    limit_millis = time_limit_millis(newest.settings)
    live = [
        shared
        for _, shared in newest.children(Kind.SHARED_TRANSACTION, None)
        if isinstance(shared, SharedTransaction) and is_live(shared, now_millis, limit_millis)
    ]
    named = {export.version for export in exports_of(newest.settings)}
    # The store's clock stamps files and the client's the beginning; they may differ by less than the limit.
    began = min((shared.began_at_millis - limit_millis for shared in live), default=None)
    return Held(frozenset(named | {shared.base_version for shared in live}), began)

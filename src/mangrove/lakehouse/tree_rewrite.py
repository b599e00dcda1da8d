"""Rewrites of the metadata tree for compaction or a format upgrade."""

from collections.abc import Callable

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.metastore import Changes, Snapshot
from mangrove.transaction.transaction import commit_deadline_millis

__all__ = ["compact_tree", "upgrade_tree"]


def compact_tree(lake: Lakehouse) -> int:
    """Commit the newest version again in nodes that are at least half full, and return the version that does so."""
    compact = getattr(lake.metastore, "compact", None)
    if compact is None:
        raise InvalidInputError(f"{lake.uri} is in the {lake.layout} layout, whose tree needs no compaction")
    return _commit_in_time(lake, compact, "compact the tree")


def upgrade_tree(lake: Lakehouse) -> int:
    """Commit the newest version again in the newer format revision, and return it; one that is in it stays."""
    upgrade = getattr(lake.metastore, "upgrade", None)
    if upgrade is None:
        raise InvalidInputError(f"{lake.uri} is in the {lake.layout} layout, which has nothing to be upgraded to")
    return _commit_in_time(lake, upgrade, "upgrade to the newer format revision")


def _commit_in_time(lake: Lakehouse, work: Callable[[Changes], Snapshot], message: str) -> int:
    """Have the work done until the time of a transaction is over: what it reads may be deleted some time after that."""
    limit_millis = commit_deadline_millis(lake.settings, lake.effects.now_millis())
    return work(Changes(lake.new_id(), message=message, commit_before_millis=limit_millis)).version

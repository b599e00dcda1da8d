"""The history a page at a time, and one version with what sets it apart from another."""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.metastore import Snapshot
from mangrove.web.facts.changes import Change, changes_between
from mangrove.web.facts.pinned import Asked, Pinned, Seen, comparing, snapshot_at
from mangrove.web.facts.versions import VersionFacts, version_facts

__all__ = ["HistoryFacts", "VersionPageFacts", "history_facts", "version_page_facts"]

_PAGE_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """A page of the history, newest first."""

    seen: Seen
    versions: tuple[VersionFacts, ...]
    next_before: int | None
    """Where the next page begins; None on the last."""


@dataclass(frozen=True, slots=True)
class VersionPageFacts:
    """A version, and what changes on the way to it from another."""

    seen: Seen
    version: VersionFacts
    against: VersionFacts | None
    """None for the oldest version that is kept, which has nothing before it."""
    is_rollback_preview: bool
    """Whether this is what rolling the newest version back to this one would do."""
    changes: tuple[Change, ...]
    has_more: bool
    can_compare: bool


def history_facts(pinned: Pinned, asked: Asked) -> HistoryFacts:
    """Return the versions before the one that the query's `before` names, or those up to the pinned one."""
    before = asked.number("before")
    before = pinned.snapshot.version + 1 if before is None else min(before, pinned.snapshot.version + 1)
    commits = list(islice(pinned.lake.metastore.history(before=before), _PAGE_MAX + 1))
    shown = tuple(version_facts(commit) for commit in commits[:_PAGE_MAX])
    return HistoryFacts(pinned.seen, shown, shown[-1].version if len(commits) > _PAGE_MAX else None)


def version_page_facts(pinned: Pinned, asked: Asked) -> VersionPageFacts:
    """Return a version with its differences from the query's `against`, or from the version before it."""
    version = snapshot_at(pinned.lake, asked.step("number"))
    against = _against(pinned, version, asked.text("against"))
    compared = comparing(pinned.lake)
    changes: tuple[Change, ...] = ()
    has_more = False
    if compared is not None and against is not None:
        changes, has_more = changes_between(compared, against, version)
    return VersionPageFacts(
        pinned.seen,
        version_facts(version.commit),
        None if against is None else version_facts(against.commit),
        against is not None and against.version == pinned.newest.version and against.version > version.version,
        changes,
        has_more,
        compared is not None,
    )


def _against(pinned: Pinned, version: Snapshot, where: str | None) -> Snapshot | None:
    if where is not None:
        against = snapshot_at(pinned.lake, where)
        if against.version == version.version:
            raise InvalidInputError(f"version {version.version} is compared with itself: name another one")
        return against
    before = next(iter(pinned.lake.metastore.history(before=version.version)), None)
    return None if before is None else pinned.lake.metastore.at_version(before.version)

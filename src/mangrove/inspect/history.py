"""Paginated commit history and the changes of one version."""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.inspect.diff import DiffEntry, diff_versions
from mangrove.inspect.page import (
    PageRequest,
    PageVersion,
    PinnedLakehouse,
    VersionInfo,
    build_version_info,
    resolve_snapshot,
    version_comparer_of,
)
from mangrove.metastore import MetastoreSnapshot

__all__ = ["HistoryInfo", "VersionDiffInfo", "load_history_info", "load_version_diff"]

_PAGE_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class HistoryInfo:
    """A page of the history, newest first."""

    seen: PageVersion
    versions: tuple[VersionInfo, ...]
    next_before: int | None
    """The `before` of the next page; None on the last page."""


@dataclass(frozen=True, slots=True)
class VersionDiffInfo:
    """A version and its changes from another version."""

    seen: PageVersion
    version: VersionInfo
    against: VersionInfo | None
    """The other version; None for the oldest version."""
    is_rollback_preview: bool
    """Whether the changes are those of a rollback from the newest version to this one."""
    changes: tuple[DiffEntry, ...]
    has_more: bool
    can_compare: bool


def load_history_info(pinned: PinnedLakehouse, requested: PageRequest) -> HistoryInfo:
    """Return the versions before the one that the query's `before` names, or those up to the pinned one."""
    before = requested.number("before")
    before = pinned.snapshot.version + 1 if before is None else min(before, pinned.snapshot.version + 1)
    commits = list(islice(pinned.lake.metastore.history(before=before), _PAGE_MAX + 1))
    versions = tuple(build_version_info(commit) for commit in commits[:_PAGE_MAX])
    return HistoryInfo(pinned.seen, versions, versions[-1].version if len(commits) > _PAGE_MAX else None)


def load_version_diff(pinned: PinnedLakehouse, requested: PageRequest) -> VersionDiffInfo:
    """Return a version with its differences from the query's `against`, or from the version before it."""
    version = resolve_snapshot(pinned.lake, requested.step("number"))
    against = _against(pinned, version, requested.text("against"))
    compared = version_comparer_of(pinned.lake)
    changes: tuple[DiffEntry, ...] = ()
    has_more = False
    if compared is not None and against is not None:
        changes, has_more = diff_versions(compared, against, version)
    return VersionDiffInfo(
        pinned.seen,
        build_version_info(version.commit),
        None if against is None else build_version_info(against.commit),
        against is not None and against.version == pinned.newest.version and against.version > version.version,
        changes,
        has_more,
        compared is not None,
    )


def _against(pinned: PinnedLakehouse, version: MetastoreSnapshot, where: str | None) -> MetastoreSnapshot | None:
    if where is not None:
        against = resolve_snapshot(pinned.lake, where)
        if against.version == version.version:
            raise InvalidInputError(f"version {version.version} is compared with itself; give another version")
        return against
    before = next(iter(pinned.lake.metastore.history(before=version.version)), None)
    return None if before is None else pinned.lake.metastore.at_version(before.version)

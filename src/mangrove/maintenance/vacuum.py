"""Vacuum: deleting the files that no version needs.

Files are listed first, and what is needed is found out afterwards, so that a
commit which came in between counts. Of what is not needed only that goes which
is older than any transaction can be: see decision 0008.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeAlias, runtime_checkable

from mangrove.effects import settle
from mangrove.errors import ConflictError, FormatError, InvalidInputError, NotFoundError
from mangrove.maintenance.held import held_by
from mangrove.maintenance.maintained import Maintained
from mangrove.maintenance.needed import visit_needed
from mangrove.maintenance.progress import Progress, Watch, said_bytes, unwatched
from mangrove.maintenance.retention import GRACE_MILLIS
from mangrove.maintenance.shown_files import ShownFiles, is_shown_metadata
from mangrove.metastore import Retired
from mangrove.storage.port import Entry, ObjectInfo, Store
from mangrove.transaction.time_limit import youngest_expirable_millis

__all__ = ["DATA_FOLDER", "DeleteFiles", "VacuumReport", "candidates", "delete_files", "vacuum"]

DATA_FOLDER = "data/"
"""Where tables keep their files."""

_FILES_AT_ONCE = 1000
_ATTEMPTS_MAX = 3
_SETTLED_SECONDS_MAX = 60.0

_Visit: TypeAlias = Callable[[str], object]
"""What is told of each path that is in use."""
DeleteFiles: TypeAlias = Callable[[Store, Mapping[str, int], Watch], None]
"""Deletes files of known sizes from a store; Spark may bring one that uses many machines."""


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """Which files went, or would go."""

    paths: tuple[str, ...]
    size_bytes: int
    files_listed: int
    dry_run: bool

    def __str__(self) -> str:
        verb = "would be deleted" if self.dry_run else "were deleted"
        return f"{len(self.paths):,} of {self.files_listed:,} files ({said_bytes(self.size_bytes)}) {verb}"


@runtime_checkable
class _LeavesTemporaries(Protocol):
    """A store whose killed writers leave files that no listing shows."""

    def leftovers(self) -> Iterator[ObjectInfo]: ...

    def delete_leftovers(self, paths: Iterable[str]) -> None: ...


def candidates(
    listed: Iterable[Entry], owns: Callable[[str], bool], written_before_millis: int | None
) -> Iterator[ObjectInfo]:
    """Yield the files that may go if nothing needs them: ours, and old enough; None is any age."""
    for entry in listed:
        if (
            isinstance(entry, ObjectInfo)
            and (written_before_millis is None or entry.modified_at_millis < written_before_millis)
            and (entry.path.startswith(DATA_FOLDER) or owns(entry.path))
        ):
            yield entry


def vacuum(
    lake: Maintained,
    *,
    dry_run: bool = False,
    grace_millis: int | None = None,
    alone: bool = False,
    deleter: DeleteFiles | None = None,
    watch: Watch = unwatched,
) -> VacuumReport:
    """Delete what no version that is kept needs, and no export and no live shared transaction.

    A file younger than `grace_millis` stays, since a transaction may be about to
    commit it; unless told otherwise that is a day, or longer where transactions
    may take longer. `alone` promises that nobody else writes meanwhile: then age does
    not count. An interrupted vacuum is simply run again.
    """
    if alone:
        # Else the temporary file of a hint that this process writes in the background would count as left behind.
        settle(lake.effects, _SETTLED_SECONDS_MAX)
    now_millis = lake.effects.now_millis()
    before_millis = _written_before(lake, grace_millis, now_millis, alone=alone)
    retired_since = None if alone else now_millis - youngest_expirable_millis(lake.metastore.latest().settings)
    garbage: dict[str, int] = {}
    listed = _Counted(lake.store.list(), watch)
    shown = ShownFiles()
    for entry in candidates(shown.note(iter(listed)), lake.upkeep.owns, before_millis):
        garbage[entry.path] = entry.size
    folders = _visit_used(lake, retired_since, lambda path: garbage.pop(path, None))
    for path in [path for path in garbage if path.startswith(tuple(folders))]:
        del garbage[path]
    for path in list(shown.kept(lake, garbage)):
        garbage.pop(path, None)
    if not dry_run:
        # What shows a state goes before the files that it leads to: nobody shall find it without them.
        _delete(lake.store.delete_many, {path: garbage[path] for path in filter(is_shown_metadata, garbage)}, watch)
        for step in _deletion_steps(garbage, lake.upkeep.deletion_rank):
            (deleter or delete_files)(lake.store, step, watch)
    left = _leftovers(lake.store, before_millis)
    if not dry_run and isinstance(lake.store, _LeavesTemporaries):
        _delete(lake.store.delete_leftovers, left, watch)
    gone = garbage | left
    return VacuumReport(tuple(gone), sum(gone.values()), listed.files + len(left), dry_run)


def _deletion_steps(garbage: Mapping[str, int], rank: Callable[[str], int]) -> list[dict[str, int]]:
    """Divide the files by the steps in which they go, so that an interruption leaves nothing that misleads others."""
    steps: dict[int, dict[str, int]] = {}
    for path, size in garbage.items():
        steps.setdefault(rank(path), {})[path] = size
    return [steps[number] for number in sorted(steps)]


def delete_files(store: Store, sizes: Mapping[str, int], watch: Watch) -> None:
    """Delete the files from this process, in requests for many at once."""
    _delete(store.delete_many, sizes, watch)


class _Counted:
    """A listing that tells how far it has come."""

    def __init__(self, entries: Iterator[Entry], watch: Watch) -> None:
        self._entries = entries
        self._watch = watch
        self.files = 0

    def __iter__(self) -> Iterator[Entry]:
        for entry in self._entries:
            self.files += 1
            if self.files % _FILES_AT_ONCE == 0:
                self._watch(Progress("listing", self.files))
            yield entry


def _written_before(lake: Maintained, grace_millis: int | None, now_millis: int, *, alone: bool) -> int | None:
    """Return the time before which a file must have been written to go, or None if any may."""
    newest = lake.metastore.latest()
    least_millis = youngest_expirable_millis(newest.settings)
    if grace_millis is None:
        grace_millis = max(GRACE_MILLIS, least_millis)
    if not alone and grace_millis < least_millis:
        raise InvalidInputError(
            f"a grace time of {grace_millis} ms could take files from a transaction that is about to commit: give at "
            f"least {least_millis} ms, or say that nobody else is at work"
        )
    held_since = held_by(newest, now_millis).files_since_millis
    times = [held_since, None if alone else now_millis - grace_millis]
    return min((millis for millis in times if millis is not None), default=None)


def _visit_used(lake: Maintained, retired_since: int | None, visit: _Visit) -> frozenset[str]:
    """Visit what the versions that are kept need, again if some of them expired meanwhile.

    So is what a version needs that expired since then: somebody may be rolling back
    to it. A version that is kept and cannot be read stops the vacuum: nobody knows
    what it needs.
    """
    for _ in range(_ATTEMPTS_MAX):
        kept = [commit.version for commit in lake.upkeep.kept()]
        retired = [] if retired_since is None else lake.upkeep.retired(retired_since, set(kept))
        try:
            folders = visit_needed(lake, map(lake.metastore.at_version, kept), visit)
        except (NotFoundError, FormatError):
            if {commit.version for commit in lake.upkeep.kept()}.issuperset(kept):
                raise
        else:
            return folders | _visit_retired(lake, retired, visit)
    raise ConflictError(
        f"versions of {lake.store.uri} expired {_ATTEMPTS_MAX} times while vacuum looked at them. "
        "Nothing was deleted; run it again when the expiry is done"
    )


def _visit_retired(lake: Maintained, retired: Sequence[Retired], visit: _Visit) -> frozenset[str]:
    """Visit what versions need that expired lately.

    Where one of them cannot be read, nobody can use it any more: what it needed may
    have been deleted by somebody who was alone.
    """
    for one in retired:
        visit(one.path)
    try:
        return visit_needed(lake, (one.snapshot for one in retired), visit)
    except FormatError:
        if len(retired) == 1:
            return frozenset()
    half = len(retired) // 2
    return _visit_retired(lake, retired[:half], visit) | _visit_retired(lake, retired[half:], visit)


def _leftovers(store: Store, written_before_millis: int | None) -> dict[str, int]:
    """Return the temporary files that killed writers left, with their sizes."""
    if not isinstance(store, _LeavesTemporaries):
        return {}
    return {
        entry.path: entry.size
        for entry in store.leftovers()
        if written_before_millis is None or entry.modified_at_millis < written_before_millis
    }


def _delete(delete: Callable[[Iterable[str]], None], garbage: Mapping[str, int], watch: Watch) -> None:
    waiting = iter(garbage)
    done = bytes_done = 0
    total, bytes_total = len(garbage), sum(garbage.values())
    while batch := list(islice(waiting, _FILES_AT_ONCE)):
        delete(batch)
        done += len(batch)
        bytes_done += sum(garbage[path] for path in batch)
        watch(Progress("deleting", done, total, bytes_done, bytes_total))

"""Integrity checks of metadata, references and data files.

A check changes nothing. Repair only does what is always safe: it completes files of
the layout and deletes unreferenced files.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise, starmap
from typing import Final, TypeAlias

from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.export_records import EXPORT_RECORD_PATH, find_export, list_export_versions
from mangrove.maintenance.progress import Progress, ProgressCallback, ignore_progress
from mangrove.maintenance.reachability import resolve_paths, scan_changed_objects
from mangrove.maintenance.vacuum import vacuum_files
from mangrove.maintenance.version_files import find_lost_versions, find_version_file, version_paths_of
from mangrove.metastore import MetastoreSnapshot, OpenFailure, Problem, check_clock
from mangrove.model.json_codec import format_partition_values
from mangrove.model.locators import AliasLocator, Kind, Locator
from mangrove.model.manifests import DataFile
from mangrove.model.objects import (
    Delta,
    NamespaceEntry,
    Partition,
    StreamState,
    TableEntry,
    TableType,
    TableVersion,
    TableVersionState,
)
from mangrove.model.paths import is_uri
from mangrove.model.settings import LakehouseSettings
from mangrove.parallel import map_in_pool
from mangrove.storage.local_links import linked_paths
from mangrove.storage.port import ObjectInfo, Store
from mangrove.transaction.aliases import list_aliases
from mangrove.transaction.catalog import identity_of, scan_tables
from mangrove.transaction.intents import find_damaged_intents

__all__ = [
    "CheckReport",
    "CountRows",
    "CountRowsOfMany",
    "FileChecker",
    "build_parallel_row_counter",
    "check_lakehouse",
    "report_open_failure",
    "sample_versions",
]

_SMALL_BYTES_MAX: Final = 4 * 1024 * 1024
"""Files up to this size are latency-bound, and several of them fit into memory."""
_THREADS: Final = 8
_WAITING_MAX: Final = 64
"""The number of files per batch, which bounds the delay of an interruption."""

CountRows: TypeAlias = Callable[[Store, DataFile], int]
"""Reads the row count from a data file itself."""
CountRowsOfMany: TypeAlias = Callable[[Store, Sequence[DataFile], ProgressCallback], Mapping[str, int | str]]
"""Reads the row counts of many files by location; a string is the reason why a file cannot be read."""


def build_parallel_row_counter(count_rows: CountRows) -> CountRowsOfMany:
    """Return a row counter for many files in this process: small files in parallel, large ones one by one."""

    def counted(store: Store, files: Sequence[DataFile], watch: ProgressCallback) -> Mapping[str, int | str]:
        found: dict[str, int | str] = {}
        bytes_done, bytes_total = 0, sum(file.size_bytes for file in files)
        for file, rows in _count_each(lambda file: _rows_or_reason(count_rows, store, file), files):
            found[file.location] = rows
            bytes_done += file.size_bytes
            watch(Progress("counting rows", len(found), len(files), bytes_done, bytes_total))
        return found

    return counted


def _count_each(
    counted: Callable[[DataFile], int | str], files: Sequence[DataFile]
) -> Iterator[tuple[DataFile, int | str]]:
    small = [file for file in files if file.size_bytes <= _SMALL_BYTES_MAX]
    with ThreadPoolExecutor(_THREADS) as pool:
        for first in range(0, len(small), _WAITING_MAX):
            batch = small[first : first + _WAITING_MAX]
            yield from zip(batch, map_in_pool(pool, counted, batch), strict=True)
    yield from ((file, counted(file)) for file in files if file.size_bytes > _SMALL_BYTES_MAX)


def _rows_or_reason(count_rows: CountRows, store: Store, file: DataFile) -> int | str:
    try:
        return count_rows(store, file)
    except FormatError as error:
        return str(error)


class FileChecker:
    """The listed files, and the data files that were checked, each once."""

    def __init__(self, store: Store, count_rows: CountRowsOfMany | None, referenced_root: str | None = None) -> None:
        self._store = store
        self._count_rows = count_rows
        self._referenced_root = referenced_root
        self._waiting: list[DataFile] = []
        self._sizes: dict[str, int] | None = None
        self._seen: set[str] = set()
        self.elsewhere = 0
        """The number of data files outside the lakehouse root, which are not checked."""

    @property
    def data_files(self) -> int:
        """The number of checked data files below the root."""
        return len(self._seen) - self.elsewhere

    def problems_of_path(self, path: str) -> Iterator[Problem]:
        """Yield the problems of a metadata file."""
        if self._size(path) is None:
            yield Problem(path, "a referenced file is missing")

    def problems_of_data(self, file: DataFile) -> Iterator[Problem]:
        """Yield the problems of a data file when it is first seen."""
        if file.location in self._seen:
            return
        self._seen.add(file.location)
        if file.is_inline:
            self._wait_for_count(file)
            return
        paths = resolve_paths(file.location, self._store.uri)
        if not paths:
            self.elsewhere += 1
            if self._referenced_root is None or not file.location.startswith(self._referenced_root):
                yield Problem(file.location, "the data file is outside the lakehouse root and cannot be read")
            return
        if is_uri(file.location):
            yield Problem(
                file.location, "the data file is referenced by a URI, but readers open paths below the root; convert it"
            )
            return
        if file.location not in self._listed() and any(linked_paths(self._store.uri, paths)):
            yield Problem(file.location, "the data file is a symbolic link or below one, which readers do not follow")
            return
        size = self._size(file.location)
        if size is None:
            yield Problem(file.location, "a referenced data file is missing")
        elif size != file.size_bytes:
            yield Problem(file.location, f"the data file has {size} bytes, but its manifest says {file.size_bytes}")
        else:
            self._wait_for_count(file)

    def _wait_for_count(self, file: DataFile) -> None:
        if self._count_rows is not None:
            # There may be millions of files; drop their statistics.
            self._waiting.append(replace(file, statistics=()))

    def problems_of_rows(self, watch: ProgressCallback) -> Iterator[Problem]:
        """Yield the wrong row counts of all files seen, counted in one batch."""
        waiting, self._waiting = self._waiting, []
        if self._count_rows is None or not waiting:
            return
        counted = self._count_rows(self._store, waiting, watch)
        for file in waiting:
            found = counted[file.location]
            if isinstance(found, str):
                yield Problem(file.location, found)
            elif found != file.row_count:
                yield _row_count_problem(file, found)

    def _listed(self) -> dict[str, int]:
        if self._sizes is None:
            listed = self._store.list()
            self._sizes = {entry.path: entry.size for entry in listed if isinstance(entry, ObjectInfo)}
        return self._sizes

    def _size(self, path: str) -> int | None:
        sizes = self._listed()
        # Files committed after the listing need a request of their own.
        return sizes[path] if path in sizes else self._store.size(path)


def _row_count_problem(file: DataFile, rows: int) -> Problem:
    return Problem(file.location, f"the data file has {rows} rows, but its manifest says {file.row_count}")


_PROBLEMS_MAX = 10_000
_VERSIONS_ONE_BY_ONE_MAX = 1_000
_VERSION = "version "
_ADVICE = re.compile(r"[.:;,]? [Rr]un `mangrove check`( to see what (it affects|else is affected|else is damaged))?")
_OBJECTS = tuple(kind for kind in Kind if kind is not Kind.LAKEHOUSE)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was checked, the problems found, and what was repaired."""

    versions: tuple[int, ...]
    versions_kept: int
    data_files: int
    files_elsewhere: int
    """Data files outside the lakehouse root, which were not checked."""
    problems: tuple[Problem, ...]
    repaired: tuple[str, ...] = ()
    opens: int | None = None
    """The newest readable version if the newest version cannot be opened."""

    @property
    def is_sound(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __len__(self) -> int:
        """Return the number of problems, so that a report without problems is falsy."""
        return len(self.problems)

    def __str__(self) -> str:
        elsewhere = f" ({self.files_elsewhere:,} more are outside the root)" if self.files_elsewhere else ""
        looked = f"{len(self.versions):,} of {self.versions_kept:,} versions, {self.data_files:,} data files{elsewhere}"
        lines = [f"repaired: {what}" for what in self.repaired]
        lines += [f"{problem.path}: {problem.rule}" for problem in self.problems]
        if not self.versions and self.problems:
            still = "no version" if self.opens is None else f"version {self.opens}, but none after it,"
            return "\n".join([*lines, f"the lakehouse cannot be opened; {still} can be read"])
        count = len(self.problems)
        verdict = "no problem" if self.is_sound else f"{count:,} problem{'' if count == 1 else 's'}"
        return "\n".join([*lines, f"{verdict} in {looked}"])


def sample_versions(versions: Sequence[int], count: int) -> list[int]:
    """Return `count` evenly spaced versions, including the newest and the oldest.

    >>> sample_versions([1, 2, 3, 4, 5], 3), sample_versions([1, 2, 3], 1), sample_versions([1, 2], 9)
    ([1, 3, 5], [3], [1, 2])
    """
    if count < 1:
        raise InvalidInputError(f"invalid sample of {count} versions; expected at least 1")
    if count == 1 or len(versions) <= count:
        return list(versions[-count:])
    last = len(versions) - 1
    return [versions[round(number * last / (count - 1))] for number in range(count)]


def check_lakehouse(
    lake: MaintenanceContext,
    *,
    sample: int | None = None,
    thorough: bool = False,
    count_rows: CountRowsOfMany | None = None,
    referenced_root: str | None = None,
    repair: bool = False,
    watch: ProgressCallback = ignore_progress,
) -> CheckReport:
    """Check everything that the versions reference, or a sample of the versions.

    All invariants are checked in the newest version and in named versions. In the others
    each file that they do not share is read and every pointer followed. `thorough`
    checks all invariants in every version, which reads shared files once per version.
    With `count_rows` the rows of all data files are counted at the end. A data file
    outside the root is a problem, unless it is below `referenced_root`.
    """
    repaired = _repair(lake, watch) if repair else []
    log = _ProblemLog()
    live, damaged = _list_live_versions(lake)
    versions = live if sample is None else sample_versions(live, sample)
    files = FileChecker(lake.store, count_rows, referenced_root)
    settings = _settings(lake)
    named = set(list_export_versions(settings).values())
    ruled = [version for version in versions if thorough or version == live[-1] or version in named]
    for problem in chain(
        damaged,
        _wrong_clock(lake),
        _find_broken_rules(lake, ruled, watch),
        _find_lost_names(lake, settings, set(live)),
        starmap(Problem, find_damaged_intents(lake.store) if settings.has_intents else ()),
    ):
        log.add(problem)
    for problem in chain(
        _find_gaps(lake, live), _find_lost_versions(lake, live), _check_files(lake, versions, files, watch)
    ):
        log.notify_if_unexplained(problem)
    for problem in files.problems_of_rows(watch):
        log.notify_if_unexplained(problem)
    return CheckReport(
        tuple(versions),
        len(live),
        files.data_files,
        files.elsewhere,
        tuple(log.problems),
        tuple(repaired),
    )


def report_open_failure(found: OpenFailure) -> CheckReport:
    """Return the report on a lakehouse that cannot be opened."""
    log = _ProblemLog()
    for problem in found.problems:
        log.add(problem)
    return CheckReport((), 0, 0, 0, tuple(log.problems), opens=found.opens)


def _list_live_versions(lake: MaintenanceContext) -> tuple[list[int], list[Problem]]:
    try:
        return [commit.version for commit in lake.maintenance.list_retained()], []
    except FormatError as error:
        return _versions_up_to(lake, lake.metastore.latest().version), [Problem(lake.store.uri, str(error))]


def _settings(lake: MaintenanceContext) -> LakehouseSettings:
    """Return the newest settings, or the defaults if they are unreadable, which is reported separately."""
    try:
        return lake.metastore.latest().settings
    except FormatError:
        return LakehouseSettings()


class _ProblemLog:
    """The problems found, without duplicates and limited in number."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._paths: set[str] = set()
        self._seen: set[Problem] = set()

    def add(self, problem: Problem) -> None:
        """Add a new problem, without the advice to run a check."""
        problem = replace(problem, rule=_ADVICE.sub("", problem.rule))
        if len(self.problems) < _PROBLEMS_MAX and problem not in self._seen:
            self._seen.add(problem)
            self.problems.append(problem)
            self._paths.add(problem.path)

    def notify_if_unexplained(self, problem: Problem) -> None:
        """Add a problem, unless another problem of the same file is known.

        An unreadable version is not reported if the damaged file is known.
        """
        is_version = problem.path.startswith(_VERSION)
        if problem.path in self._paths or (is_version and any(path in problem.rule for path in self._paths)):
            return
        self.add(problem)


def _versions_up_to(lake: MaintenanceContext, newest: int) -> list[int]:
    """Return the newest versions one by one, oldest first, if a damaged one prevents a listing."""
    found: list[int] = []
    for version in range(newest, max(-1, newest - _VERSIONS_ONE_BY_ONE_MAX), -1):
        try:
            lake.metastore.at_version(version)
        except NotFoundError:
            break
        except FormatError:
            pass  # it is among the checked versions and reported there
        found.append(version)
    return found[::-1]


def _repair(lake: MaintenanceContext, watch: ProgressCallback) -> list[str]:
    done = lake.maintenance.repair()
    cleaned = vacuum_files(lake, watch=watch)
    return [*done, f"{cleaned} because they were unreferenced"] if cleaned.paths else done


def _find_broken_rules(lake: MaintenanceContext, versions: Iterable[int], watch: ProgressCallback) -> Iterator[Problem]:
    for number, version in enumerate(versions, start=1):
        try:
            snapshot = lake.metastore.at_version(version)
            yield from lake.maintenance.problems(snapshot)
            yield from _find_dangling_aliases(snapshot)
            yield from _find_wrong_defaults(snapshot)
            yield from _find_duplicate_partitions(lake, snapshot)
        except NotFoundError:
            continue  # it expired during the check
        except FormatError as error:
            yield Problem(f"{_VERSION}{version}", str(error))
        watch(Progress("checking versions", number))


def _find_dangling_aliases(snapshot: MetastoreSnapshot) -> Iterator[Problem]:
    """Yield the aliases whose target is missing or another object of its name."""
    for alias in list_aliases(snapshot):
        target = snapshot.get(alias.target_locator)
        if not isinstance(target, NamespaceEntry | TableEntry) or target.id != alias.target_id:
            yield Problem(
                f"alias {AliasLocator(alias.name)}",
                f"its target {alias.target_locator} with the id {alias.target_id} does not exist; drop the alias",
            )


def _find_wrong_defaults(snapshot: MetastoreSnapshot) -> Iterator[Problem]:
    """Yield the managed tables whose default table version is missing or is not the newest active one."""
    for locator, table in scan_tables(snapshot):
        if table.table_type is TableType.MANAGED:
            found = snapshot.children(Kind.TABLE_VERSION, identity_of(table))
            states = {one.version: one.state for _, one in found if isinstance(one, TableVersion)}
            problem = _describe_wrong_default(table, states)
            if problem is not None:
                yield Problem(f"table {locator}", problem)


def _find_duplicate_partitions(lake: MaintenanceContext, snapshot: MetastoreSnapshot) -> Iterator[Problem]:
    """Yield the partitions that have the id, or the values, of another partition of their stream."""
    for _, group in groupby(lake.maintenance.objects(snapshot, Kind.PARTITION), lambda one: one[0].parent):
        known: dict[tuple[str, ...], Locator] = {}
        for locator, partition in group:
            assert isinstance(partition, Partition)
            values = (partition.scheme_id, format_partition_values(partition.values))
            keys = [(partition.id,), values] if partition.state is StreamState.COMMITTED else [(partition.id,)]
            others = [other for key in keys if (other := known.setdefault(key, locator)) != locator]
            if others:
                yield Problem(
                    f"partition {locator}",
                    f"the partition {others[0].parts[-1]} of the same stream has the same id or values, so rows with "
                    "equal keys in both are not merged",
                )


def _describe_wrong_default(table: TableEntry, states: Mapping[int, TableVersionState]) -> str | None:
    number = table.default_version
    if number is None:
        return None
    if number not in states:
        return f"its default table version {number} does not exist; it has {sorted(states)}"
    active = [version for version, state in states.items() if state is TableVersionState.ACTIVE]
    if table.latest_active_table_version is None or number == max(active, default=0):
        return None
    return f"its default table version is {number}, but the newest active one is {max(active, default='none')}"


class _Walk:
    """One pass over versions; `at` is the current one."""

    def __init__(
        self, lake: MaintenanceContext, versions: Sequence[int], at: int, files: FileChecker, watch: ProgressCallback
    ) -> None:
        self._lake = lake
        self._versions = versions
        self._files = files
        self._watch = watch
        self.at = at
        self.problems: list[Problem] = []

    def snapshots(self) -> Iterator[MetastoreSnapshot]:
        """Yield the versions, and check the data files that each of them adds."""
        before: MetastoreSnapshot | None = None
        while self.at < len(self._versions):
            try:
                snapshot = self._lake.metastore.at_version(self._versions[self.at])
            except NotFoundError:
                self.at += 1  # it expired during the check
                continue
            for value in scan_changed_objects(self._lake, before, snapshot, _OBJECTS):
                if isinstance(value, Delta):
                    for file in value.manifest.entries:
                        self.problems += self._files.problems_of_data(file)
            yield snapshot
            before = snapshot
            self.at += 1
            self._watch(Progress("walking versions", self.at, len(self._versions)))


def _check_files(
    lake: MaintenanceContext, versions: Sequence[int], files: FileChecker, watch: ProgressCallback
) -> Iterator[Problem]:
    """Yield the problems of the files of the versions; an unreadable version does not stop the check."""
    at = 0
    while at < len(versions):
        walk = _Walk(lake, versions, at, files, watch)
        try:
            for path in lake.maintenance.files_of(walk.snapshots()):
                yield from files.problems_of_path(path)
        except FormatError as error:
            yield Problem(f"{_VERSION}{versions[walk.at]}", str(error))
        yield from walk.problems
        at = walk.at + 1


def _wrong_clock(lake: MaintenanceContext) -> Iterator[Problem]:
    """Yield a problem if the newest version is dated so far in the future that commits fail."""
    newest = lake.metastore.latest()
    try:
        check_clock(newest, lake.effects.now_millis(), lake.effects.clock_tolerance_millis)
    except FormatError as error:
        yield Problem(find_version_file(lake.store, newest.version) or f"{_VERSION}{newest.version}", str(error))


def _find_gaps(lake: MaintenanceContext, live: Sequence[int]) -> Iterator[Problem]:
    """Yield the manually deleted versions: the name after a live version is never freed."""
    for version, following in pairwise(live):
        places = version_paths_of(version)
        path = None if following == version + 1 else find_version_file(lake.store, version)
        if path is not None and find_version_file(lake.store, version + 1) is None:
            yield Problem(
                version_paths_of(version + 1)[places.index(path) - len(places)],
                f"the file is missing, but versions {version} and {following} around it exist",
            )


def _find_lost_versions(lake: MaintenanceContext, live: Sequence[int]) -> Iterator[Problem]:
    """Yield the other manually deleted versions, including the oldest; consecutive ones as one problem."""
    if not live or lake.maintenance.is_read_only or lake.store.exists(EXPORT_RECORD_PATH):
        return  # other programs delete versions completely, and a copy begins with its own version
    try:
        lost = find_lost_versions(lake.store, live[-1])
    except FormatError:
        return  # the file of the newest version is damaged, which is reported separately
    numbers = set(lost.values())
    for path, version in lost.items():
        if version - 1 in numbers:
            continue
        last = version
        while last + 1 in numbers:
            last += 1
        these = f"version {version} was" if last == version else f"versions {version} to {last} were"
        yield Problem(path, f"the file is missing: {these} deleted without expiry. Restore it from a copy")


def _find_lost_names(lake: MaintenanceContext, settings: LakehouseSettings, live: set[int]) -> Iterator[Problem]:
    if lake.store.exists(EXPORT_RECORD_PATH):
        return  # a copy has one version; the names are those of its source
    for name, location in settings.exported_snapshots.items():
        try:
            export = find_export(settings, name)
        except FormatError as error:
            yield Problem(location, str(error))
            continue
        if export.version not in live and export.pins_at(lake.effects.now_millis()):
            yield Problem(location, f"the export {name!r} names version {export.version}, which does not exist")

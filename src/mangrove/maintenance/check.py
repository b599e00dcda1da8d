"""The check of a whole lakehouse: every rule of the layout, every pointer, every data file.

Nothing is changed unless repair is asked for, and repair mends only what cannot
be wrong to mend: what the layout can complete by itself, and files that no
version needs.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from mangrove.errors import FormatError, InvalidInputError, NotFoundError
from mangrove.maintenance.checked_files import CheckedFiles, CountMany
from mangrove.maintenance.export_record import RECORD_PATH
from mangrove.maintenance.exported import export_named, export_versions
from mangrove.maintenance.maintained import Maintained
from mangrove.maintenance.needed import changed_objects
from mangrove.maintenance.progress import Progress, Watch, unwatched
from mangrove.maintenance.vacuum import vacuum
from mangrove.maintenance.version_files import lost_versions, version_file, version_files
from mangrove.metastore import Problem, Snapshot, Unopened, check_clock
from mangrove.model.locators import Kind
from mangrove.model.objects import Delta
from mangrove.model.settings import LakehouseSettings

__all__ = ["CheckReport", "check", "report_of_unopened", "spread"]

_PROBLEMS_MAX = 10_000
_VERSIONS_ONE_BY_ONE_MAX = 1_000
_VERSION = "version "
_ADVICE = re.compile(r"[.:;,]? [Rr]un `mangrove check`( to see what (it affects|else is affected|else is damaged))?")
_OBJECTS = tuple(kind for kind in Kind if kind is not Kind.LAKEHOUSE)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was looked at, each rule that was found broken, and what was mended."""

    versions: tuple[int, ...]
    versions_kept: int
    data_files: int
    files_elsewhere: int
    """Data files outside the lakehouse's root, at which nobody looked."""
    problems: tuple[Problem, ...]
    repaired: tuple[str, ...] = ()
    opens: int | None = None
    """Where the newest version cannot be opened, the newest one that still can be."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __len__(self) -> int:
        """Return how many problems there are, so that a sound lakehouse's report is as good as an empty list."""
        return len(self.problems)

    def __str__(self) -> str:
        elsewhere = f" ({self.files_elsewhere:,} more lie elsewhere)" if self.files_elsewhere else ""
        looked = f"{len(self.versions):,} of {self.versions_kept:,} versions, {self.data_files:,} data files{elsewhere}"
        lines = [f"repaired: {what}" for what in self.repaired]
        lines += [f"{problem.path}: {problem.rule}" for problem in self.problems]
        if not self.versions and self.problems:
            still = "no version" if self.opens is None else f"version {self.opens}, but none after it,"
            return "\n".join([*lines, f"the lakehouse cannot be opened: {still} can be read"])
        count = len(self.problems)
        verdict = "no problem" if self.is_sound else f"{count:,} problem{'' if count == 1 else 's'}"
        return "\n".join([*lines, f"{verdict} in {looked}"])


def spread(versions: Sequence[int], count: int) -> list[int]:
    """Return `count` of the versions, the newest and the oldest among them, the others evenly between.

    >>> spread([1, 2, 3, 4, 5], 3), spread([1, 2, 3], 1), spread([1, 2], 9)
    ([1, 3, 5], [3], [1, 2])
    """
    if count < 1:
        raise InvalidInputError(f"a sample of {count} versions shows nothing: ask for at least 1")
    if count == 1 or len(versions) <= count:
        return list(versions[-count:])
    last = len(versions) - 1
    return [versions[round(number * last / (count - 1))] for number in range(count)]


def check(
    lake: Maintained,
    *,
    sample: int | None = None,
    thorough: bool = False,
    count_rows: CountMany | None = None,
    referenced_root: str | None = None,
    repair: bool = False,
    watch: Watch = unwatched,
) -> CheckReport:
    """Look at everything that the versions reach, or a sample of the versions.

    Every rule of the layout is checked in the newest version and in those with a
    name; in the others each file that they do not share is read and every pointer
    followed. `thorough` checks every rule in every version, which reads shared
    files again for each of them. With `count_rows` the rows of all data files are
    counted at the end. A data file outside the root is a problem, unless it is below
    `referenced_root`.
    """
    repaired = _repaired(lake, watch) if repair else []
    told = _Told()
    kept, damaged = _kept(lake)
    versions = kept if sample is None else spread(kept, sample)
    files = CheckedFiles(lake.store, count_rows, referenced_root)
    settings = _settings(lake)
    named = set(export_versions(settings))
    ruled = [version for version in versions if thorough or version == kept[-1] or version in named]
    for problem in chain(
        damaged, _wrong_clock(lake), _broken_rules(lake, ruled, watch), _lost_names(lake, settings, set(kept))
    ):
        told.tell(problem)
    for problem in chain(_gaps(lake, kept), _lost(lake, kept), _walked(lake, versions, files, watch)):
        told.tell_if_unexplained(problem)
    for problem in files.problems_of_rows(watch):
        told.tell_if_unexplained(problem)
    return CheckReport(
        tuple(versions),
        len(kept),
        files.data_files,
        files.elsewhere,
        tuple(told.problems),
        tuple(repaired),
    )


def report_of_unopened(found: Unopened) -> CheckReport:
    """Return the report on a lakehouse that cannot be opened, of which nobody can look at all versions."""
    told = _Told()
    for problem in found.problems:
        told.tell(problem)
    return CheckReport((), 0, 0, 0, tuple(told.problems), opens=found.opens)


def _kept(lake: Maintained) -> tuple[list[int], list[Problem]]:
    try:
        return [commit.version for commit in lake.upkeep.kept()], []
    except FormatError as error:
        return _versions_up_to(lake, lake.metastore.latest().version), [Problem(lake.store.uri, str(error))]


def _settings(lake: Maintained) -> LakehouseSettings:
    """Return the newest settings, or plain ones where they are lost: the rules of the newest version tell of that."""
    try:
        return lake.metastore.latest().settings
    except FormatError:
        return LakehouseSettings()


class _Told:
    """The problems that were found, each thing once, and only as many as people can read."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._paths: set[str] = set()
        self._seen: set[Problem] = set()

    def tell(self, problem: Problem) -> None:
        """Take a problem that was not told yet; who reads it need not be told to run a check."""
        problem = replace(problem, rule=_ADVICE.sub("", problem.rule))
        if len(self.problems) < _PROBLEMS_MAX and problem not in self._seen:
            self._seen.add(problem)
            self.problems.append(problem)
            self._paths.add(problem.path)

    def tell_if_unexplained(self, problem: Problem) -> None:
        """Take a problem, unless something else is known to be wrong with the same file.

        That a version cannot be read is no news where it is known which of its
        files is the reason.
        """
        is_version = problem.path.startswith(_VERSION)
        if problem.path in self._paths or (is_version and any(path in problem.rule for path in self._paths)):
            return
        self.tell(problem)


def _versions_up_to(lake: Maintained, newest: int) -> list[int]:
    """Return the newest versions one by one, oldest first, where a damaged one stops the layout from listing them."""
    found: list[int] = []
    for version in range(newest, max(-1, newest - _VERSIONS_ONE_BY_ONE_MAX), -1):
        try:
            lake.metastore.at_version(version)
        except NotFoundError:
            break
        except FormatError:
            pass  # it is among the versions that are looked at, and told as a problem there
        found.append(version)
    return found[::-1]


def _repaired(lake: Maintained, watch: Watch) -> list[str]:
    done = lake.upkeep.repair()
    cleaned = vacuum(lake, watch=watch)
    return [*done, f"{cleaned} because nothing needs them"] if cleaned.paths else done


def _broken_rules(lake: Maintained, versions: Iterable[int], watch: Watch) -> Iterator[Problem]:
    for number, version in enumerate(versions, start=1):
        try:
            yield from lake.upkeep.problems(lake.metastore.at_version(version))
        except NotFoundError:
            continue  # it expired while the check went on
        except FormatError as error:
            yield Problem(f"{_VERSION}{version}", str(error))
        watch(Progress("checking the rules of versions", number))


class _Walk:
    """One pass over versions, from one of them on; `at` says how far it came."""

    def __init__(self, lake: Maintained, versions: Sequence[int], at: int, files: CheckedFiles, watch: Watch) -> None:
        self._lake = lake
        self._versions = versions
        self._files = files
        self._watch = watch
        self.at = at
        self.problems: list[Problem] = []

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield the versions, and look at the data files that each of them adds."""
        before: Snapshot | None = None
        while self.at < len(self._versions):
            try:
                snapshot = self._lake.metastore.at_version(self._versions[self.at])
            except NotFoundError:
                self.at += 1  # it expired while the check went on
                continue
            for value in changed_objects(self._lake, before, snapshot, _OBJECTS):
                if isinstance(value, Delta):
                    for file in value.manifest.entries:
                        self.problems += self._files.problems_of_data(file)
            yield snapshot
            before = snapshot
            self.at += 1
            self._watch(Progress("walking versions", self.at, len(self._versions)))


def _walked(lake: Maintained, versions: Sequence[int], files: CheckedFiles, watch: Watch) -> Iterator[Problem]:
    """Yield what is wrong with the files of the versions; a version that cannot be read does not hide the next."""
    at = 0
    while at < len(versions):
        walk = _Walk(lake, versions, at, files, watch)
        try:
            for path in lake.upkeep.files_of(walk.snapshots()):
                yield from files.problems_of_path(path)
        except FormatError as error:
            yield Problem(f"{_VERSION}{versions[walk.at]}", str(error))
        yield from walk.problems
        at = walk.at + 1


def _wrong_clock(lake: Maintained) -> Iterator[Problem]:
    """Yield that the newest version is dated so far in the future that nobody can commit after it."""
    newest = lake.metastore.latest()
    try:
        check_clock(newest, lake.effects.now_millis(), lake.effects.clock_tolerance_millis)
    except FormatError as error:
        yield Problem(version_file(lake.store, newest.version) or f"{_VERSION}{newest.version}", str(error))


def _gaps(lake: Maintained, kept: Sequence[int]) -> Iterator[Problem]:
    """Yield the versions that somebody deleted by hand: the name after a version that is kept is never freed."""
    for version, following in pairwise(kept):
        places = version_files(version)
        path = None if following == version + 1 else version_file(lake.store, version)
        if path is not None and version_file(lake.store, version + 1) is None:
            yield Problem(
                version_files(version + 1)[places.index(path) - len(places)],
                f"it is missing, though version {version} before it and version {following} after it are kept",
            )


def _lost(lake: Maintained, kept: Sequence[int]) -> Iterator[Problem]:
    """Yield the other versions that somebody deleted by hand, the oldest among them, those in a row as one."""
    if not kept or lake.upkeep.is_read_only or lake.store.exists(RECORD_PATH):
        return  # other programs leave nothing where a version was, and a copy begins with the version it is of
    try:
        lost = lost_versions(lake.store, kept[-1])
    except FormatError:
        return  # the newest version's own file is damaged: its rules tell of that
    numbers = set(lost.values())
    for path, version in lost.items():
        if version - 1 in numbers:
            continue
        last = version
        while last + 1 in numbers:
            last += 1
        these = f"version {version} was" if last == version else f"versions {version} to {last} were"
        yield Problem(path, f"it is missing: {these} deleted and did not expire. Put back what was there from a copy")


def _lost_names(lake: Maintained, settings: LakehouseSettings, kept: set[int]) -> Iterator[Problem]:
    if lake.store.exists(RECORD_PATH):
        return  # a copy has one version; the names are those of the lakehouse that it was made from
    for name, location in settings.exported_snapshots.items():
        try:
            version = export_named(settings, name).version
        except FormatError as error:
            yield Problem(location, str(error))
            continue
        if version not in kept:
            yield Problem(location, f"the export {name!r} names version {version}, which is not kept")

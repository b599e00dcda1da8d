"""What is broken in a catalog whose newest guard cannot be read, and which version still can be."""

from mangrove.effects import Effects
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.files import CatalogFiles
from mangrove.layouts.deltacat.paths import guard_path
from mangrove.layouts.deltacat.snapshot import CatalogSnapshot
from mangrove.layouts.deltacat.upkeep_problems import problems
from mangrove.layouts.deltacat.versions import read_guard, taken_versions
from mangrove.metastore import Problem, Unopened

__all__ = ["unopened_catalog"]

_VERSIONS_MAX = 1000


def unopened_catalog(effects: Effects) -> Unopened | None:
    """Return why the catalog under the store's root cannot be opened; None if it has no guards at all."""
    taken = taken_versions(effects.store)
    broken: list[Problem] = []
    for version in reversed(taken[-_VERSIONS_MAX:]):
        try:
            guard = read_guard(effects.store, version)
        except FormatError as error:
            broken.append(Problem(guard_path(version), f"version {version} cannot be opened: {error}"))
            continue
        if guard is not None and not guard.is_expired:
            snapshot = CatalogSnapshot(CatalogFiles(effects.store, guard.revision), guard)
            return Unopened((*(_with_advice(one, version) for one in broken), *problems(snapshot)), version)
    return Unopened(tuple(broken), None) if taken else None


def _with_advice(problem: Problem, opens: int) -> Problem:
    return Problem(
        problem.path,
        f"{problem.rule}. Version {opens} still opens. Copy the file from an export or a backup; if there is none, and "
        f"nobody else is at work, move it away: then version {opens} is the newest, and what came after it is lost",
    )

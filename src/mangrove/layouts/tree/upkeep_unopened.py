"""What is broken in a lakehouse whose newest version cannot be opened, and which version still can be."""

from mangrove.effects import Effects
from mangrove.errors import FormatError
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.paths import RootNames
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.layouts.tree.upkeep_problems import problems
from mangrove.layouts.tree.versions import find_root_names, read_root, taken_versions
from mangrove.metastore import Problem, Unopened

__all__ = ["unopened_tree"]

_VERSIONS_MAX = 1000


def unopened_tree(effects: Effects) -> Unopened | None:
    """Return why the lakehouse under the store's root cannot be opened; None if there is none."""
    found = find_root_names(effects.store)
    if found is None:
        return None
    names, _ = found
    broken: dict[str, str] = {}
    for version in reversed(taken_versions(effects.store, names)[-_VERSIONS_MAX:]):
        try:
            snapshot = _opened(effects, names, version, broken)
        except FormatError:
            continue
        if snapshot is not None:
            told = [Problem(path, f"{rule}. {_advice(path, snapshot)}") for path, rule in broken.items()]
            return Unopened((*told, *problems(snapshot)), snapshot.version)
    return Unopened(tuple(Problem(path, f"{rule}. {_NO_ADVICE}") for path, rule in broken.items()), None)


_NO_ADVICE = "No version before it can be opened either: copy the file from an export or a backup"


def _opened(effects: Effects, names: RootNames, version: int, broken: dict[str, str]) -> TreeSnapshot | None:
    """Return a version, None if it has expired; what stops that is noted under the file that is to blame."""
    path = names.path(version)
    try:
        root = read_root(effects.store, names, version)
        if root is None or root.is_expired:
            return None
        path = root.definition_path
        return TreeSnapshot(TreeFiles(effects.store), root)
    except FormatError as error:
        broken.setdefault(path, f"version {version} cannot be opened: {error}")
        raise


def _advice(path: str, snapshot: TreeSnapshot) -> str:
    restore = f"Version {snapshot.version} still opens. Copy the file from an export or a backup; if there is none,"
    if snapshot.root.revision.roots.is_root(path):
        return (
            f"{restore} and nobody else is at work, move it away: then version {snapshot.version} is the newest, and "
            "what came after it is lost"
        )
    return (
        f"{restore} copy {snapshot.root.definition_path} to its place: then the lakehouse's own settings are those of "
        f"version {snapshot.version} again, and nothing else is lost"
    )

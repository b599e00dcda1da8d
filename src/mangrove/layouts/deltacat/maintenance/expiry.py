"""Version expiry and crash repair of a catalog."""

from collections.abc import Iterable
from dataclasses import replace

from mangrove.betree.node import Node
from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.layouts.deltacat.commit import complete_log
from mangrove.layouts.deltacat.guards import Guard, encode_guard, encode_hint, read_live_guards
from mangrove.layouts.deltacat.paths import HINT_PATH, node_path
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot

__all__ = ["expire_versions", "repair_log_and_hint"]

_GUARDS_PER_READ = 128


def expire_versions(effects: Effects, newest: DeltaCatSnapshot, versions: Iterable[int]) -> None:
    """Replace the guards of these versions by expired markers; their names stay taken for ever.

    The former guards are first copied next to the index nodes, so that vacuum can keep
    the files they reference during the grace period.
    """
    going = sorted(set(versions))
    first = newest.guard.first
    if newest.version in going:
        raise InvalidInputError(f"version {newest.version} is the newest and cannot expire; nothing was changed")
    unknown = [version for version in going if not first <= version < newest.version]
    if unknown:
        raise NotFoundError(
            f"version {unknown[0]} cannot expire: it does not exist, or another program committed it. "
            "Nothing was changed"
        )
    for start in range(0, len(going), _GUARDS_PER_READ):
        guards = read_live_guards(newest.files.store, going[start : start + _GUARDS_PER_READ])
        retired = {node_path(effects.new_id()): guard for guard in guards}
        newest.files.write({path: encode_guard(guard) for path, guard in retired.items()})
        newest.files.write(
            {guard.path: encode_guard(_build_expired_guard(guard, path)) for path, guard in retired.items()}
        )


def repair_log_and_hint(newest: DeltaCatSnapshot) -> list[str]:
    """Write the newest version's log and the hint if missing or wrong, and return what was repaired."""
    files, guard = newest.files, newest.guard
    done: list[str] = []
    if guard.log is not None and not files.store.exists(guard.log_path):
        files.logged = ""
        complete_log(files, guard)
        done.append(f"{guard.log_path} was missing; DeltaCAT sees version {guard.version} now")
    (hint,) = files.store.read_many([HINT_PATH])
    if not guard.is_foreign and hint != encode_hint(guard.version):
        files.store.put(HINT_PATH, encode_hint(guard.version))
        before = "was missing" if hint is None else "named another version"
        done.append(f"{HINT_PATH} {before}; it now names version {guard.version}")
    return done


def _build_expired_guard(guard: Guard, retired_path: str) -> Guard:
    return replace(guard, root=Node(), written=(), log=None, is_expired=True, retired_path=retired_path)

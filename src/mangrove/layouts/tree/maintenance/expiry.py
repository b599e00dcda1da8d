"""Version expiry and hint repair of the tree layout.

A version expires when its root is replaced by one that says so. The names of the
versions that expired last stay taken, and so does the one after each version that
is kept: whoever slept meanwhile meets a taken name and not a free one. The root
that was there is written as a node first, so that vacuum can spare what it needs
until nobody can still be using it; then that node is garbage like any other.
"""

from collections.abc import Iterable

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.layouts.tree.paths import RootNames, newer_node_path
from mangrove.layouts.tree.root import Root, build_expired_root, encode_root
from mangrove.layouts.tree.versions import (
    decode_hint,
    encode_hint,
    list_taken_versions,
    read_live_root_files,
    read_live_roots,
)
from mangrove.model.settings import ORDER_MIN
from mangrove.storage.port import Store

__all__ = ["EXPIRED_NAMES_MAX", "expire_versions", "repair_hint"]

EXPIRED_NAMES_MAX = 10_000
"""How many names stay taken at least: a writer that finds its next one free slept through as many commits."""

_ROOTS_PER_READ = 128


def expire_versions(
    effects: Effects, newest: Root, versions: Iterable[int], names_max: int = EXPIRED_NAMES_MAX
) -> None:
    """Replace the roots of these versions by roots that say that they expired, where they do not say so already."""
    newest.revision.check_writable()
    going = sorted(set(versions))
    if newest.version in going:
        raise InvalidInputError(f"version {newest.version} is the newest and cannot expire; nothing was changed")
    unknown = [version for version in going if not 0 <= version < newest.version]
    if unknown:
        raise NotFoundError(f"there is no version {unknown[0]} that could expire; nothing was changed")
    names = newest.revision.roots
    now_millis = effects.now_millis()
    for start in range(0, len(going), _ROOTS_PER_READ):
        found = read_live_root_files(effects.store, names, going[start : start + _ROOTS_PER_READ])
        retired = {newer_node_path(effects.new_id()): (root, data) for root, data in found}
        effects.store.put_many({path: data for path, (_, data) in retired.items()})
        effects.store.put_many(
            {
                root.path: encode_root(build_expired_root(root, now_millis, path), ORDER_MIN, "none")
                for path, (root, _) in retired.items()
            }
        )
    if going:
        _free_old_names(effects.store, names, names_max)


def _free_old_names(store: Store, names: RootNames, names_max: int) -> None:
    """Free the names of the versions that expired long ago, but none that follows a version which is kept."""
    old = list_taken_versions(store, names)[:-names_max]
    kept = {root.version for root in read_live_roots(store, names, old)}
    store.delete_many(names.path(version) for version in old if version not in kept and version - 1 not in kept)


def repair_hint(effects: Effects, newest: Root) -> list[str]:
    """Write the hint anew if it does not name the newest version, and say so."""
    newest.revision.check_writable()
    path = newest.revision.hint_path
    (data,) = effects.store.read_many([path])
    if data == encode_hint(newest.version):
        return []
    effects.store.put(path, encode_hint(newest.version))
    if data is None:
        return [f"{path} was missing; it says now that version {newest.version} is the newest"]
    named = decode_hint(data)
    before = "could not be read" if named is None else f"named version {named}"
    return [f"{path} {before}; it says now that version {newest.version} is the newest"]

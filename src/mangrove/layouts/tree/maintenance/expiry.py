"""Version expiry and hint repair of the tree layout.

Expiry replaces the root of a version by an expired marker. The names of the most
recently expired versions stay taken, and so does the name after each live version:
a stalled writer finds its next name taken, never free. The former root is first
copied to a node file, so that vacuum can keep the files it references during the
grace period; later that node is garbage too.
"""

from collections.abc import Iterable

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.layouts.tree.paths import RootNames
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
"""The minimum number of names that stay taken; bounds how many commits a stalled writer may miss."""

_ROOTS_PER_READ = 128


def expire_versions(
    effects: Effects, newest: Root, versions: Iterable[int], names_max: int = EXPIRED_NAMES_MAX
) -> None:
    """Replace the roots of these versions by expired markers; versions already expired are skipped."""
    newest.revision.check_writable()
    going = sorted(set(versions))
    if newest.version in going:
        raise InvalidInputError(f"version {newest.version} is the newest and cannot expire; nothing was changed")
    unknown = [version for version in going if not 0 <= version < newest.version]
    if unknown:
        raise NotFoundError(f"version {unknown[0]} does not exist; nothing was changed")
    names = newest.revision.roots
    now_millis = effects.now_millis()
    for start in range(0, len(going), _ROOTS_PER_READ):
        found = read_live_root_files(effects.store, names, going[start : start + _ROOTS_PER_READ])
        retired = {newest.revision.node_path(effects.new_id()): (root, data) for root, data in found}
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
    """Free the names of versions that expired long ago, except those that follow a live version."""
    old = list_taken_versions(store, names)[:-names_max]
    retained = {root.version for root in read_live_roots(store, names, old)}
    store.delete_many(names.path(version) for version in old if version not in retained and version - 1 not in retained)


def repair_hint(effects: Effects, newest: Root) -> list[str]:
    """Rewrite the hint if it does not name the newest version, and return what was repaired."""
    newest.revision.check_writable()
    path = newest.revision.hint_path
    (data,) = effects.store.read_many([path])
    if data == encode_hint(newest.version):
        return []
    effects.store.put(path, encode_hint(newest.version))
    if data is None:
        return [f"{path} was missing; it now names version {newest.version}"]
    named = decode_hint(data)
    before = "could not be read" if named is None else f"named version {named}"
    return [f"{path} {before}; it now names version {newest.version}"]

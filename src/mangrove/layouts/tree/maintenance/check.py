"""Integrity checks of a tree version and diagnosis of unreadable lakehouses.

Everything is read from storage, bypassing the caches. Objects below a dropped
table are garbage and not a problem: they are unreachable. A root may be larger
than other nodes, because it takes all messages of its transaction.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from mangrove.betree.node import Entry, Node
from mangrove.betree.search import scan
from mangrove.betree.verify import verify_tree
from mangrove.effects import Effects
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.definitions import decode_schema_copy
from mangrove.layouts.tree.files import TreeFiles
from mangrove.layouts.tree.java_formats import list_java_revisions
from mangrove.layouts.tree.node_file import decode_node
from mangrove.layouts.tree.paths import RootNames
from mangrove.layouts.tree.revision import PREVIOUS_ROOT, ROLLBACK_FROM_ROOT
from mangrove.layouts.tree.rewrites import copies_schema, served_version_locator
from mangrove.layouts.tree.root import shape_of
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.layouts.tree.versions import decode_hint, find_root_names, list_taken_versions, read_root
from mangrove.metastore import OpenFailure, Problem
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    ViewLocator,
)
from mangrove.model.objects import Delta, Object, TableEntry, TableVersion
from mangrove.model.paths import check_path

__all__ = ["diagnose_tree", "find_problems"]

_OBJECTS_PER_READ = 512
_NODES_PER_READ = 32
_ANY_NAMESPACE_ID = "any"
"""A placeholder: tree keys below a table do not contain the id of its namespace."""


def find_problems(snapshot: TreeSnapshot) -> Iterator[Problem]:
    """Yield each violated invariant of the version; damage only masks problems below it."""
    store = snapshot.files.store
    path = snapshot.root.path
    try:
        root = read_root(store, snapshot.root.revision.roots, snapshot.version)
        if root is None or root.is_expired:
            yield Problem(path, "the version has expired; its files may be deleted")
            return
        path = root.definition_path or path
        fresh = TreeSnapshot(TreeFiles(store), root)
    except FormatError as error:
        yield Problem(path, str(error))
        return
    yield from _root_problems(fresh)
    yield from _find_lost_newest(fresh)
    nodes = _NodeChecker(fresh, snapshot.files)
    for broken in verify_tree(root.node, shape_of(fresh.settings, root.revision), nodes.read_or_loop):
        if broken.pointer not in nodes.broken:
            yield Problem(broken.pointer or root.path, broken.rule)
    yield from nodes.problems
    yield from _ObjectChecker(fresh, nodes).problems()


def _root_problems(snapshot: TreeSnapshot) -> Iterator[Problem]:
    root, names = snapshot.root, snapshot.root.revision.roots
    for path in (root.path, root.definition_path):
        try:
            snapshot.settings.check_file_path(path)
        except InvalidInputError as error:
            yield Problem(path, str(error))
    if snapshot.settings.is_strict_tree and root.key_names.renamed:
        yield Problem(root.path, "names of namespaces differ from those in keys, but the tree is strict")
    expected = names.path(root.version - 1) if root.version else None
    previous = root.system.get(PREVIOUS_ROOT)
    if previous != expected:
        yield Problem(root.path, f"{PREVIOUS_ROOT} is {previous!r}, but the previous version is at {expected!r}")
    rolled_back = root.system.get(ROLLBACK_FROM_ROOT)
    if rolled_back not in (None, expected):
        yield Problem(root.path, f"{ROLLBACK_FROM_ROOT} is {rolled_back!r}, but the previous version is {expected!r}")
    if expected is None:
        return
    try:
        before = read_root(snapshot.files.store, names, root.version - 1)
        # When versions expire, the name after a live version stays taken.
        one_more = (
            read_root(snapshot.files.store, names, root.version - 2) if before is None and root.version > 1 else None
        )
    except FormatError as error:
        yield Problem(expected, str(error))
        return
    if one_more is not None and not one_more.is_expired:
        yield Problem(expected, f"the file is missing, but versions {root.version} and {root.version - 2} exist")
    if before is None or root.version in root.clock_resets:
        return
    if 0 < root.created_at_millis <= before.created_at_millis:
        yield Problem(
            root.path,
            f"its creation time {root.created_at_millis} ms is not after that of version {before.version} "
            f"({before.created_at_millis} ms)",
        )


def _find_lost_newest(snapshot: TreeSnapshot) -> Iterator[Problem]:
    """Yield a problem if the hint names a version after the newest: the hint is written after its root."""
    store, names = snapshot.files.store, snapshot.root.revision.roots
    (data,) = store.read_many([snapshot.root.revision.hint_path])
    hinted = None if data is None else decode_hint(data)
    if hinted is None or not snapshot.version < hinted < 2**names.digits:
        return
    if not any(store.exists(names.path(version)) for version in (snapshot.version + 1, hinted)):
        yield Problem(
            names.path(hinted),
            f"the file is missing: the hint names version {hinted}, but the newest version is {snapshot.version}. "
            "Restore it from a copy before the next commit, or repair the hint",
        )


class _NodeChecker:
    """Reads nodes from storage, siblings in one batch; a broken node is a problem and counts as an empty leaf.

    The nodes are cached here and in the snapshot, so later checks do not read them again.
    """

    def __init__(self, snapshot: TreeSnapshot, came_from: TreeFiles) -> None:
        self._files = (snapshot.files, came_from)
        self._store = snapshot.files.store
        self._settings = snapshot.settings
        self._revisions = list_java_revisions(snapshot.root.revision.roots)
        self._siblings: dict[str, tuple[str, ...]] = {}
        self._ahead: dict[str, Node] = {}
        self._root_path = snapshot.root.path
        self.broken: set[str] = set()
        self.problems: list[Problem] = []
        self._announce(snapshot.root.node)

    def read(self, pointers: Sequence[str]) -> list[Node]:
        return [self._read(pointer) for pointer in pointers]

    def read_or_loop(self, pointers: Sequence[str]) -> list[Node]:
        """Return the nodes; a broken one references itself, so that `verify_tree` does not treat it as a leaf."""
        nodes = self.read(pointers)
        return [
            Node((), (), (pointer,)) if pointer in self.broken else node
            for pointer, node in zip(pointers, nodes, strict=True)
        ]

    def _read(self, pointer: str) -> Node:
        if pointer not in self._ahead and (cached := self._files[0].cached_node(pointer)) is not None:
            self._announce(cached)
            return cached
        if pointer not in self._ahead:
            requested = self._siblings.get(pointer, (pointer,))
            self._ahead = dict(zip(requested, self._decoded(requested), strict=True))
        node = self._ahead[pointer]
        self._announce(node)
        return node

    def _announce(self, node: Node) -> None:
        children = [child for child in node.children if isinstance(child, str)]
        for start in range(0, len(children), _NODES_PER_READ):
            together = tuple(children[start : start + _NODES_PER_READ])
            self._siblings |= dict.fromkeys(together, together)

    def _decoded(self, pointers: Sequence[str]) -> Iterator[Node]:
        sound = [pointer for pointer in pointers if self._is_path(pointer)]
        contents = dict(zip(sound, self._store.read_many(sound), strict=True))
        for pointer in pointers:
            yield self._node(pointer, contents.get(pointer))

    def _is_path(self, pointer: str) -> bool:
        try:
            check_path(pointer)
        except InvalidInputError as error:
            self._note(pointer, str(error))
            return False
        try:
            self._settings.check_file_path(pointer)
        except InvalidInputError as error:
            self.problems.append(Problem(pointer, str(error)))
        return True

    def _node(self, pointer: str, data: bytes | None) -> Node:
        if data is None:
            self._note(pointer, "the node file is missing")
            return Node()
        try:
            node = decode_node(data, pointer, self._revisions, order=self._settings.order).node
        except FormatError as error:
            self._note(pointer, str(error))
            return Node()
        size_max = self._settings.node_file_max_size_bytes + _count_inline_bytes(node)
        if len(data) > size_max:
            self.problems.append(
                Problem(pointer, f"the node file has {len(data)} bytes; at most {size_max} are allowed")
            )
        for files in self._files:
            files.cache_node(pointer, node, len(data))
        return node

    def _note(self, pointer: str, rule: str) -> None:
        if pointer not in self.broken:
            self.broken.add(pointer)
            self.problems.append(Problem(pointer or self._root_path, rule))


def _count_inline_bytes(node: Node) -> int:
    """Return the size of the inline definitions, which the size limit of a node does not include."""
    values = (*node.values, *(message.value or "" for message in node.buffer))
    return sum(len(value) for value in values if value.startswith("data:"))


class _ObjectChecker:
    """Checks the objects behind the tree keys kind by kind, parents before children."""

    def __init__(self, snapshot: TreeSnapshot, nodes: _NodeChecker) -> None:
        self._snapshot = snapshot
        self._nodes = nodes
        self._table_ids: set[str] = set()
        self._parents: dict[Locator, bool] = {}
        self._is_strict = snapshot.settings.is_strict_tree

    def problems(self) -> Iterator[Problem]:
        yield from self._keys()
        for kind in Kind:
            if kind is not Kind.LAKEHOUSE:
                yield from self._of_kind(kind)

    def _keys(self) -> Iterator[Problem]:
        try:
            for key, pointer in scan(self._snapshot.root.node, "", None, self._nodes.read):
                try:
                    self._snapshot.keys.encoding.parts_of(key, self._snapshot.keys.sizes)
                except FormatError as error:
                    yield Problem(self._path(pointer), str(error))
        except FormatError as error:
            yield Problem(self._snapshot.root.path, str(error))

    def _of_kind(self, kind: Kind) -> Iterator[Problem]:
        located = self._located(kind)
        while batch := list(islice(located, _OBJECTS_PER_READ)):
            for locator, pointer in batch:
                yield from self._place_problems(locator, pointer)
            values, broken = self._defined(batch)
            yield from broken
            self._table_ids |= {value.id for value in values if isinstance(value, TableEntry)}
            for value in values:
                if isinstance(value, Delta):
                    yield from self._file_problems(value)
            if kind is Kind.TABLE and self._is_strict and not broken:
                yield from self._copy_problems(batch, values)

    def _located(self, kind: Kind) -> Iterator[tuple[Locator, str]]:
        """Yield the objects of a kind, without those that `_keys` or `verify_tree` already reported."""
        keys = self._snapshot.keys
        first, end = keys.encoding.range_below(kind, (), keys.sizes)
        entries = scan(self._snapshot.root.node, first, end, self._nodes.read)
        while True:
            try:
                entry = next(entries, None)
                if entry is None:
                    return
                if keys.encoding.is_of_kind(entry.key, kind, keys.sizes):
                    yield self._locator(kind, entry), entry.value
            except FormatError:
                continue

    def _locator(self, kind: Kind, entry: Entry) -> Locator:
        _, parts = self._snapshot.keys.encoding.parts_of(entry.key, self._snapshot.keys.sizes)
        name = None
        if kind in (Kind.TABLE, Kind.VIEW):
            name = self._snapshot.root.key_names.name_filed_under(str(parts[0]))
        return self._snapshot.locator(entry.key, namespace=name, namespace_id=_ANY_NAMESPACE_ID)

    def _place_problems(self, locator: Locator, pointer: str) -> Iterator[Problem]:
        path = self._path(pointer)
        if pointer.startswith("data:"):
            if self._is_strict:
                name = "|".join(map(str, locator.parts))
                yield Problem(
                    path, f"the definition of the {locator.kind.word} {name} is inline, but the tree is strict"
                )
        else:
            try:
                self._snapshot.settings.check_file_path(pointer)
            except InvalidInputError as error:
                yield Problem(path, str(error))
        parent = self._parent_of(locator)
        if parent is not None and not self._is_there(parent):
            name = "|".join(map(str, locator.parts[1:] if locator.kind.is_below_table else locator.parts))
            yield Problem(path, f"the {locator.kind.word} {name} is below a {parent.kind.word} that does not exist")

    def _file_problems(self, delta: Delta) -> Iterator[Problem]:
        for file in delta.manifest.entries:
            try:
                self._snapshot.settings.check_data_path(file.location)
                # Statistics are decoded when they are used.
                tuple(file.statistics)
            except (InvalidInputError, FormatError) as error:
                yield Problem(file.location, str(error))

    def _copy_problems(self, tables: Sequence[tuple[Locator, str]], values: Sequence[Object]) -> Iterator[Problem]:
        """Yield the tables of a strict tree whose definition does not have the schema of its table version."""
        served = {
            pointer: locator
            for (_, pointer), table in zip(tables, values, strict=True)
            if isinstance(table, TableEntry)
            and copies_schema(table)
            and (locator := served_version_locator(table)) is not None
        }
        try:
            versions = self._snapshot.get_many(list(served.values()))
            for pointer, version in zip(served, versions, strict=True):
                if not isinstance(version, TableVersion) or version.schema is None:
                    continue
                copy = decode_schema_copy(self._snapshot.files.definition(Kind.TABLE, pointer))
                if copy != (version.version, version.schema, version.keys):
                    yield Problem(
                        pointer,
                        f"it does not have the schema and keys of table version {version.version}; alter the table",
                    )
        except FormatError:
            return  # a damaged definition is reported with the table versions

    def _parent_of(self, locator: Locator) -> Locator | None:
        match locator:
            case TableLocator() | ViewLocator():
                return locator.parent
            case StreamLocator() | PartitionLocator() | DeltaLocator() if locator.table_id in self._table_ids:
                return locator.parent
        return None

    def _is_there(self, locator: Locator) -> bool:
        if locator not in self._parents:
            # Neighbours share a parent, so a small cache suffices.
            if len(self._parents) >= _OBJECTS_PER_READ:
                self._parents.clear()
            self._parents[locator] = self._found(locator)
        return self._parents[locator]

    def _found(self, locator: Locator) -> bool:
        try:
            return self._snapshot.pointer(locator) is not None
        except FormatError:
            return True  # unknown, because a node above is damaged; that is already reported

    def _defined(self, requested: list[tuple[Locator, str]]) -> tuple[list[Object], list[Problem]]:
        try:
            return self._snapshot.load_objects(requested), []
        except FormatError as error:
            if len(requested) == 1:
                return [], [Problem(self._path(requested[0][1]), str(error))]
        half = len(requested) // 2
        left, right = self._defined(requested[:half]), self._defined(requested[half:])
        return [*left[0], *right[0]], [*left[1], *right[1]]

    def _path(self, pointer: str) -> str:
        return self._snapshot.root.path if not pointer or pointer.startswith("data:") else pointer


_VERSIONS_MAX = 1000


def diagnose_tree(effects: Effects) -> OpenFailure | None:
    """Return why the lakehouse at the store's root cannot be opened, or None if there is no lakehouse."""
    found = find_root_names(effects.store)
    if found is None:
        return None
    names, _ = found
    broken: dict[str, str] = {}
    for version in reversed(list_taken_versions(effects.store, names)[-_VERSIONS_MAX:]):
        try:
            snapshot = _try_open(effects, names, version, broken)
        except FormatError:
            continue
        if snapshot is not None:
            problems = [Problem(path, f"{rule}. {_advice(path, snapshot)}") for path, rule in broken.items()]
            return OpenFailure((*problems, *find_problems(snapshot)), snapshot.version)
    return OpenFailure(tuple(Problem(path, f"{rule}. {_NO_ADVICE}") for path, rule in broken.items()), None)


_NO_ADVICE = "No earlier version can be opened either: restore the file from an export or a backup"


def _try_open(effects: Effects, names: RootNames, version: int, broken: dict[str, str]) -> TreeSnapshot | None:
    """Return a version, or None if it has expired; an error is recorded under the file that caused it."""
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
    restore = (
        f"Version {snapshot.version} can be opened. Restore the file from an export or a backup; if there is none,"
    )
    if snapshot.root.revision.roots.is_root(path):
        return (
            f"{restore} and there are no writers, move it away: then version {snapshot.version} is the newest, and "
            "all later changes are lost"
        )
    return (
        f"{restore} copy {snapshot.root.definition_path} to its place: then the lakehouse has the settings of "
        f"version {snapshot.version} again, and nothing else is lost"
    )

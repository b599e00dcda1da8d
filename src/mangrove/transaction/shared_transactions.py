"""Shared transactions with their JSON codec, merge and publication.

A later save is rebased on earlier ones by the rules of a commit: new deltas follow
existing ones, and any other concurrent change of the same objects is a conflict.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias

from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, ConflictError, FormatError, InvalidInputError, NotFoundError
from mangrove.expressions.predicate_json import predicate_from_json, predicate_to_json
from mangrove.metastore import (
    Changes,
    DefaultVersion,
    Difference,
    Guarded,
    Isolation,
    Metastore,
    MetastoreSnapshot,
    ObjectRange,
    Parent,
    RowRange,
    assume_rows_changed,
)
from mangrove.model.json_codec import from_json, to_json
from mangrove.model.locators import (
    AliasLocator,
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.manifests import DataFile
from mangrove.model.names import check_text
from mangrove.model.objects import (
    AliasEntry,
    Delta,
    NamespaceEntry,
    Object,
    Partition,
    SharedTransactionEntry,
    Stream,
    TableEntry,
    TableVersion,
    ViewEntry,
)
from mangrove.model.properties import NO_PROPERTIES, Properties
from mangrove.rebase import assign_positions, build_conflict_error, check_default_versions, describe_object
from mangrove.transaction.catalog import CatalogReader, load_table_names
from mangrove.transaction.deltas import REWRITING_TYPES
from mangrove.transaction.group_commit import detect_conflicts, find_written_rows
from mangrove.transaction.table_versions import accepts_rows_of
from mangrove.transaction.transaction import commit_deadline_millis, name_conflicting_tables
from mangrove.transaction.version_diff import diff_snapshots, find_changing_commit
from mangrove.transaction.workspace import Workspace

__all__ = [
    "SharedTransactions",
    "SharedWork",
    "WorkComparison",
    "decode_work",
    "encode_work",
    "load_shared_transaction",
    "load_shared_work",
    "merge_work",
]

_FORM_VERSION: Final = 2
_FORM_VERSIONS_READ: Final = (1, 2)
"""Form 1 has no row ranges; a release that writes it would lose them."""
_IDENTITY: Final = "table id"
_KINDS: Final = {kind.word: kind for kind in Kind}
_CLASSES: Final[dict[Kind, tuple[type, type]]] = {
    Kind.NAMESPACE: (NamespaceLocator, NamespaceEntry),
    Kind.TABLE: (TableLocator, TableEntry),
    Kind.VIEW: (ViewLocator, ViewEntry),
    Kind.ALIAS: (AliasLocator, AliasEntry),
    Kind.TABLE_VERSION: (TableVersionLocator, TableVersion),
    Kind.STREAM: (StreamLocator, Stream),
    Kind.PARTITION: (PartitionLocator, Partition),
    Kind.DELTA: (DeltaLocator, Delta),
    Kind.SHARED_TRANSACTION: (SharedTransactionLocator, SharedTransactionEntry),
}


@dataclass(frozen=True, slots=True)
class SharedWork:
    """The staged changes of all participants, with their read sets."""

    transaction_id: str
    isolation: Isolation = Isolation.SNAPSHOT
    message: str = ""
    author: str = ""
    properties: Mapping[str, str] = NO_PROPERTIES
    puts: Mapping[Locator, Object] = field(default_factory=dict)
    deletes: frozenset[Locator] = frozenset()
    reads: frozenset[Locator] = frozenset()
    scans: frozenset[ObjectRange] = frozenset()
    guards: frozenset[Guarded] = frozenset()
    origins: Mapping[str, str] = NO_PROPERTIES
    rows_read: frozenset[RowRange] = frozenset()
    rows_guarded: frozenset[RowRange] = frozenset()
    streams_read: frozenset[StreamLocator] = frozenset()
    save_ids: tuple[str, ...] = ()
    """One id for each time that it was saved, in order: a rollback may remove the last ones."""

    def __post_init__(self) -> None:
        for name in ("transaction_id", "message", "author"):
            check_text(getattr(self, name), f"the {name} of a shared transaction")
        for one in self.save_ids:
            check_text(one, "the id of a save of a shared transaction")
        object.__setattr__(self, "properties", Properties(self.properties))
        object.__setattr__(self, "origins", Properties(self.origins))

    def workspace(self, base: MetastoreSnapshot) -> Workspace:
        """Return a workspace with the work on its base; reads and guards are recorded from now on."""
        workspace = Workspace(base)
        for locator, value in self.puts.items():
            workspace.staged.put(locator, value)
        workspace.staged.deletes |= self.deletes
        workspace.origins |= self.origins
        workspace.streams_read |= self.streams_read
        return workspace

    def changes(self, workspace: Workspace) -> Changes:
        """Return the work as changes to commit, with the participants' reads and guards."""
        changes = workspace.changes(self.transaction_id, self.message, self.author, self.properties)
        return replace(
            changes,
            reads=self.reads,
            scans=self.scans,
            guards=self.guards | changes.guards,
            rows_read=self.rows_read,
            rows_guarded=self.rows_guarded,
        )

    def after(self, workspace: Workspace) -> "SharedWork":
        """Return the work with the staged changes, reads and guards of a participant's workspace."""
        return replace(
            self,
            puts=dict(workspace.staged.puts),
            deletes=frozenset(workspace.staged.deletes),
            reads=frozenset(workspace.reads),
            scans=frozenset(workspace.scans),
            guards=frozenset(workspace.guards),
            origins=dict(workspace.origins),
            rows_read=frozenset(workspace.rows_read),
            rows_guarded=frozenset(workspace.rows_guarded),
            streams_read=frozenset(workspace.streams_read),
        )

    def list_written_tables(self) -> list[TableLocator]:
        """Return the tables whose default versions got rows, as far as the work contains their names."""
        ids = {locator.table_id for locator in self.puts if isinstance(locator, DeltaLocator)}
        guarded = {one.table for one in self.guards if isinstance(one, DefaultVersion) and one.identity.table_id in ids}
        put = {
            locator
            for locator, table in self.puts.items()
            if isinstance(locator, TableLocator) and isinstance(table, TableEntry) and table.id in ids
        }
        return sorted(guarded | put)


def encode_work(work: SharedWork) -> bytes:
    """Return the work as bytes; the encoding is deterministic."""
    data = {
        "form": _FORM_VERSION,
        "transaction": work.transaction_id,
        "isolation": work.isolation.value,
        "message": work.message,
        "author": work.author,
        "properties": dict(work.properties),
        "puts": [[_encode_locator(locator), to_json(value)] for locator, value in sorted(work.puts.items())],
        "deletes": _encode_locators(work.deletes),
        "reads": _encode_locators(work.reads),
        "scans": sorted(map(_encode_scan, work.scans), key=json.dumps),
        "guards": _encode_locators(item for item in work.guards if not isinstance(item, ObjectRange | DefaultVersion)),
        "guard_scans": sorted(
            (_encode_scan(item) for item in work.guards if isinstance(item, ObjectRange)), key=json.dumps
        ),
        "guard_versions": sorted(
            (_encode_default_version(item) for item in work.guards if isinstance(item, DefaultVersion)), key=json.dumps
        ),
        "origins": dict(work.origins),
        "rows_read": sorted(map(_encode_rows, work.rows_read), key=json.dumps),
        "rows_guarded": sorted(map(_encode_rows, work.rows_guarded), key=json.dumps),
        "streams_read": _encode_locators(work.streams_read),
        "saves": work.save_ids,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def decode_work(payload: bytes, where: str) -> SharedWork:
    """Return the work in the payload of a shared transaction."""
    try:
        data = json.loads(payload)
        if data["form"] not in _FORM_VERSIONS_READ:
            raise FormatError(f"{where} was written by another release of mangrove-lake; use that release to finish it")
        return SharedWork(
            data["transaction"],
            Isolation(data["isolation"]),
            data["message"],
            data["author"],
            data["properties"],
            dict(_decode_put(encoded, value, where) for encoded, value in data["puts"]),
            frozenset(map(_decode_locator, data["deletes"])),
            frozenset(map(_decode_locator, data["reads"])),
            frozenset(map(_decode_scan, data["scans"])),
            frozenset(
                [
                    *map(_decode_locator, data["guards"]),
                    *map(_decode_scan, data["guard_scans"]),
                    *map(_decode_default_version, data.get("guard_versions", ())),
                ]
            ),
            data["origins"],
            frozenset(_decode_rows(one, where) for one in data.get("rows_read", ())),
            frozenset(_decode_rows(one, where) for one in data.get("rows_guarded", ())),
            frozenset(map(_decode_stream, data.get("streams_read", ()))),
            tuple(data.get("saves", ())),
        )
    except (ValueError, TypeError, LookupError, AttributeError, InvalidInputError) as error:
        raise FormatError(f"{where} has an invalid payload ({error!r}); discard it") from error


def _encode_locators(locators: Iterable[Locator]) -> list[list[str | int]]:
    return [_encode_locator(locator) for locator in sorted(locators)]


def _encode_locator(locator: Locator) -> list[str | int]:
    return [locator.kind.word, *locator.parts]


def _decode_locator(encoded: Any) -> Locator:
    word, *parts = encoded
    located: Locator = _CLASSES[_KINDS[word]][0](*parts)
    return located


def _decode_put(encoded: Any, value: Any, where: str) -> tuple[Locator, Object]:
    locator = _decode_locator(encoded)
    made: Object = from_json(value, _CLASSES[locator.kind][1], f"{where}: {locator}")
    return locator, made


def _encode_scan(scan: ObjectRange) -> list[Any]:
    parent: list[str | int] | None
    match scan.parent:
        case None:
            parent = None
        case TableIdentity(namespace_id, table_id):
            parent = [_IDENTITY, namespace_id, table_id]
        case below:
            parent = _encode_locator(below)
    return [scan.kind.word, parent, scan.prefix]


def _decode_scan(data: Any) -> ObjectRange:
    word, encoded, prefix = data
    parent: Parent = None
    if encoded is not None:
        is_identity = encoded[0] == _IDENTITY
        parent = TableIdentity(*encoded[1:]) if is_identity else _decode_locator(encoded)  # type: ignore[assignment]
    return ObjectRange(_KINDS[word], parent, prefix)


def _encode_default_version(guard: DefaultVersion) -> list[str | int]:
    return [*guard.table.parts, guard.identity.namespace_id, guard.identity.table_id, guard.version]


def _decode_default_version(data: Any) -> DefaultVersion:
    namespace, name, namespace_id, table_id, version = data
    return DefaultVersion(TableLocator(namespace, name), TableIdentity(namespace_id, table_id), version)


def _encode_rows(rows: RowRange) -> list[Any]:
    return [
        _encode_locator(rows.stream),
        predicate_to_json(rows.predicate),
        [to_json(file) for file in rows.key_files],
    ]


def _decode_rows(data: Any, where: str) -> RowRange:
    encoded, predicate, files = data
    return RowRange(
        _decode_stream(encoded),
        predicate_from_json(predicate, where),
        tuple(from_json(one, DataFile, where) for one in files),
    )


def _decode_stream(encoded: Any) -> StreamLocator:
    locator = _decode_locator(encoded)
    if not isinstance(locator, StreamLocator):
        raise InvalidInputError(f"{locator} is not a stream")
    return locator


class WorkComparison(Protocol):
    """A `RowChangeDetector` that also compares the staged work of shared transactions."""

    def __call__(
        self,
        rows: RowRange,
        partitions: Collection[PartitionLocator],
        before: CatalogReader,
        after: CatalogReader,
    ) -> bool:
        """Return whether a row of the range was added, changed or deleted; only these partitions were written."""
        ...


_HaveRowsChanged: TypeAlias = Callable[[RowRange, Collection[PartitionLocator]], bool]
"""Whether rows were changed by other participants, who wrote to these partitions."""
_Written: TypeAlias = Mapping[Locator, Object | None]
"""The changes of a participant since the last known work; None for withdrawn or deleted objects."""


def merge_work(
    known: SharedWork,
    saved: SharedWork,
    mine: SharedWork,
    have_rows_changed: _HaveRowsChanged = lambda _rows, _partitions: True,
) -> SharedWork:
    """Return the saved work merged with `mine`; both are based on `known`.

    The reads and guards of `mine` are those added since `known`.
    """
    ours, theirs = _diff_work(known, mine), _diff_work(known, saved)
    clash = sorted(_find_conflicts(mine, ours, theirs, have_rows_changed))
    if clash or (known.origins != saved.origins and known.origins != mine.origins):
        what = describe_object(clash[0]) if clash else "the names of namespaces"
        raise ConflictError(
            f"{what}: another participant changed it since the shared transaction was joined. "
            "Nothing was saved; join again and repeat the changes"
        )
    puts = dict(saved.puts)
    for locator, value in _assign_positions(saved.puts, ours):
        if value is None:
            puts.pop(locator, None)
        else:
            puts[locator] = value
    return replace(
        saved,
        puts=puts,
        deletes=saved.deletes | mine.deletes,
        reads=saved.reads | mine.reads,
        scans=saved.scans | mine.scans,
        guards=saved.guards | mine.guards,
        origins=mine.origins if known.origins == saved.origins else saved.origins,
        rows_read=saved.rows_read | mine.rows_read,
        rows_guarded=saved.rows_guarded | mine.rows_guarded,
        streams_read=saved.streams_read | mine.streams_read,
    )


def _diff_work(before: SharedWork, after: SharedWork) -> _Written:
    put: dict[Locator, Object | None] = {
        locator: value for locator, value in after.puts.items() if before.puts.get(locator) != value
    }
    gone = (before.puts.keys() - after.puts.keys()) | (after.deletes - before.deletes - after.puts.keys())
    return put | dict.fromkeys(gone)


def _find_conflicts(
    mine: SharedWork, ours: _Written, theirs: _Written, have_rows_changed: _HaveRowsChanged
) -> set[Locator]:
    """Return the conflicts between both participants' work."""
    unlike = {one: value for one, value in ours.items() if one not in theirs or theirs[one] != value}
    changes = Changes(
        mine.transaction_id,
        {locator: value for locator, value in unlike.items() if value is not None},
        frozenset(locator for locator, value in unlike.items() if value is None),
        reads=mine.reads,
        scans=mine.scans,
        guards=mine.guards,
        rows_read=mine.rows_read,
        rows_guarded=mine.rows_guarded,
    )
    rows_changed = {
        min(partitions)
        for rows, partitions in find_written_rows(changes, mine.isolation, theirs).items()
        if have_rows_changed(rows, partitions)
    }
    # All participants mark rewritten partitions with the same transaction.
    rewritten_twice = _rewritten_partitions(ours) & _rewritten_partitions(theirs)
    moved_defaults = {
        guard.table
        for guard in changes.default_versions
        if isinstance(table := theirs.get(guard.table), TableEntry) and table.default_version != guard.version
    }
    return {
        *detect_conflicts(changes, mine.isolation, theirs),
        *rows_changed,
        *rewritten_twice,
        *moved_defaults,
        *_find_orphans(ours, theirs),
    }


def _rewritten_partitions(written: _Written) -> set[PartitionLocator]:
    return {
        locator.parent
        for locator, value in written.items()
        if isinstance(locator, DeltaLocator) and isinstance(value, Delta) and value.type in REWRITING_TYPES
    }


def _find_orphans(ours: _Written, theirs: _Written) -> set[Locator]:
    """Return the objects that one participant puts into a namespace that the other drops."""
    return {
        locator
        for putting, dropping in ((ours, theirs), (theirs, ours))
        for locator, value in putting.items()
        if isinstance(locator, TableLocator | ViewLocator)
        and value is not None
        and locator.parent in dropping
        and dropping[locator.parent] is None
    }


def _assign_positions(saved: Mapping[Locator, Object], ours: _Written) -> Iterator[tuple[Locator, Object | None]]:
    """Yield the new writes in order, with deltas moved behind the saved ones of their partition."""
    last: dict[PartitionLocator, int] = {}
    for locator in saved:
        if isinstance(locator, DeltaLocator):
            last[locator.parent] = max(last.get(locator.parent, 0), locator.position)
    for locator, value in sorted(ours.items(), key=lambda item: item[0]):
        if value is None or not isinstance(locator, DeltaLocator):
            yield locator, value
            continue
        position = max(locator.position, last.get(locator.parent, 0) + 1)
        last[locator.parent] = position
        yield replace(locator, position=position), value


_ATTEMPTS_MAX = 20


def load_shared_transaction(snapshot: MetastoreSnapshot, name: str, now_millis: int) -> SharedTransactionEntry:
    """Return the open shared transaction with that name."""
    value = snapshot.get(SharedTransactionLocator(name))
    if not isinstance(value, SharedTransactionEntry):
        raise NotFoundError(
            f"shared transaction {name!r} does not exist; it was published, discarded or never begun; see the history"
        )
    if now_millis >= value.expires_at_millis:
        raise InvalidInputError(
            f"shared transaction {name!r} expired {(now_millis - value.expires_at_millis) / 1000:.0f} s ago; "
            "begin it again with a longer time to live"
        )
    return value


def load_shared_work(shared: SharedTransactionEntry) -> SharedWork:
    """Return its last saved work."""
    return decode_work(shared.payload, f"shared transaction {shared.name!r}")


@dataclass(frozen=True, slots=True)
class SharedTransactions:
    """The shared transactions of one lakehouse."""

    effects: Effects
    metastore: Metastore
    have_rows_changed: WorkComparison = assume_rows_changed

    def listed(self) -> Iterator[SharedTransactionEntry]:
        """Yield the open shared transactions."""
        now_millis = self.effects.now_millis()
        for _, value in self.metastore.latest().children(Kind.SHARED_TRANSACTION, None):
            if isinstance(value, SharedTransactionEntry) and now_millis < value.expires_at_millis:
                yield value

    def begin(self, name: str, work: SharedWork, lives_millis: int) -> SharedTransactionEntry:
        """Begin a shared transaction on the newest version; an expired one of the same name is replaced."""
        newest, now_millis = self.metastore.latest(), self.effects.now_millis()
        there = newest.get(SharedTransactionLocator(name))
        if isinstance(there, SharedTransactionEntry) and now_millis < there.expires_at_millis:
            raise AlreadyExistsError(f"shared transaction {name!r} already exists; join it, or choose another name")
        newest.settings.check_object_name(Kind.SHARED_TRANSACTION, name)
        made = SharedTransactionEntry(
            name, newest.version, now_millis, now_millis + lives_millis, payload=encode_work(work)
        )
        self._put(newest, made, f"begin shared transaction {name}")
        return made

    def join(self, name: str) -> SharedTransactionEntry:
        """Return its last saved state."""
        return load_shared_transaction(self.metastore.latest(), name, self.effects.now_millis())

    def save(self, known: SharedTransactionEntry, mine: SharedWork) -> SharedTransactionEntry:
        """Save the participant's changes since `known`, merged with those that others saved meanwhile."""
        for attempt in range(_ATTEMPTS_MAX):
            newest = self.metastore.latest()
            there = self._same(newest, known)
            before, after = load_shared_work(known), load_shared_work(there)
            merged = merge_work(before, after, mine, self._compare_work(known.base_version, before, after))
            if merged == after:
                return there
            merged = replace(merged, save_ids=(*merged.save_ids, self.effects.new_id()))
            saved = replace(there, payload=encode_work(merged))
            if self._is_put(newest, saved, f"save shared transaction {known.name}", attempt):
                return saved
        raise AssertionError("the last attempt raises")

    def _compare_work(self, base_version: int, before: SharedWork, after: SharedWork) -> _HaveRowsChanged:
        def have_rows_changed(rows: RowRange, partitions: Collection[PartitionLocator]) -> bool:
            base = self.metastore.at_version(base_version)
            return self.have_rows_changed(rows, partitions, before.workspace(base), after.workspace(base))

        return have_rows_changed

    def extend(self, known: SharedTransactionEntry, lives_millis: int) -> SharedTransactionEntry:
        """Extend its time to live, counted from now."""
        for attempt in range(_ATTEMPTS_MAX):
            newest = self.metastore.latest()
            there = self._same(newest, known)
            longer = replace(there, expires_at_millis=self.effects.now_millis() + lives_millis)
            if self._is_put(newest, longer, f"extend shared transaction {known.name}", attempt):
                return longer
        raise AssertionError("the last attempt raises")

    def discard(self, name: str) -> None:
        """Discard it; its data files become garbage for vacuum."""
        for attempt in range(_ATTEMPTS_MAX):
            newest = self.metastore.latest()
            locator = SharedTransactionLocator(name)
            if newest.get(locator) is None:
                load_shared_transaction(newest, name, self.effects.now_millis())
            changes = Changes(
                self.effects.new_id(), deletes=frozenset([locator]), message=f"discard shared transaction {name}"
            )
            if self._is_committed(newest, changes, attempt):
                return
        raise AssertionError("the last attempt raises")

    def publish(self, known: SharedTransactionEntry) -> MetastoreSnapshot:
        """Commit all of its changes on the newest version and end it, in one commit."""
        for attempt in range(_ATTEMPTS_MAX):
            now_millis, newest = self.effects.now_millis(), self.metastore.latest()
            there = self._same(newest, known)
            work, workspace, ready = self._rebase(there, newest)
            locator = SharedTransactionLocator(there.name)
            final = replace(
                ready,
                deletes=ready.deletes | {locator},
                commit_before_millis=commit_deadline_millis(newest.settings, now_millis),
            )
            committed = self._committed(newest, final, work.isolation, attempt, workspace, locator)
            if committed is not None:
                return committed
        raise AssertionError("the last attempt raises")

    def find_conflict(self, known: SharedTransactionEntry) -> ConflictError | None:
        """Return the error that a publication would raise now, or None; nothing is written."""
        newest = self.metastore.latest()
        try:
            self._rebase(self._same(newest, known), newest)
        except ConflictError as error:
            return error
        return None

    def _rebase(
        self, there: SharedTransactionEntry, newest: MetastoreSnapshot
    ) -> tuple[SharedWork, Workspace, Changes]:
        """Return the saved work, its workspace, and its changes on the newest version."""
        work = load_shared_work(there)
        base = self.metastore.at_version(there.base_version)
        workspace = work.workspace(base)
        since = diff_snapshots(self.metastore, base, newest)
        return work, workspace, self._on_newest(work.changes(workspace), work.isolation, since, newest, workspace)

    def _committed(
        self,
        newest: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        attempt: int,
        workspace: Workspace,
        locator: SharedTransactionLocator,
    ) -> MetastoreSnapshot | None:
        """Return the version, or None if a participant saved concurrently and a retry is needed."""
        try:
            return self.metastore.commit(newest, changes, isolation, self.have_rows_changed).snapshot
        except ConflictError as error:
            is_saved_since = self.metastore.latest().get(locator) != newest.get(locator)
            if not is_saved_since or attempt == _ATTEMPTS_MAX - 1:
                raise name_conflicting_tables(error, workspace.met) from error
        return None

    def _on_newest(
        self,
        changes: Changes,
        isolation: Isolation,
        since: Iterable[Difference],
        newest: MetastoreSnapshot,
        workspace: Workspace,
    ) -> Changes:
        """Return the changes rebased on the newest version; raise `ConflictError` on a conflict."""
        found = {one.locator: one.after for one in since if one.locator.kind is not Kind.SHARED_TRANSACTION}
        new = {
            locator: value
            for locator, value in changes.puts.items()
            if isinstance(locator, DeltaLocator) or found.get(locator) != value
        }
        rest = replace(changes, puts=new)
        base = workspace.snapshot
        clash = (
            detect_conflicts(rest, isolation, found)
            or _find_narrowed_versions(rest, found, base)
            or _find_removed_parents(rest, found)
        )
        if not clash:
            # The rows of a partition are named by one of its new deltas.
            clash = [
                max(locator for locator in found if locator.parent in partitions)
                for rows, partitions in find_written_rows(rest, isolation, found).items()
                if self.have_rows_changed(rows, partitions, base, newest)
            ]
        if clash:
            concurrent_commit = find_changing_commit(self.metastore, clash[0], base, newest)
            error = build_conflict_error(
                concurrent_commit,
                [describe_object(clash[0])],
                f"Nothing was published: the shared transaction is based on version {base.version}. Discard it and "
                f"repeat its changes on version {concurrent_commit.version} or later",
            )
            raise name_conflicting_tables(error, _names_for(clash[0], newest, base))
        check_default_versions(rest, newest)
        return assign_positions(rest, newest)

    def _same(self, newest: MetastoreSnapshot, known: SharedTransactionEntry) -> SharedTransactionEntry:
        there = load_shared_transaction(newest, known.name, self.effects.now_millis())
        found, expected = load_shared_work(there), load_shared_work(known)
        if there.began_at_millis != known.began_at_millis or found.transaction_id != expected.transaction_id:
            raise ConflictError(
                f"shared transaction {known.name!r} is not the one that was joined, which was published or discarded"
            )
        if found.save_ids[: len(expected.save_ids)] != expected.save_ids:
            raise ConflictError(
                f"a rollback removed changes that were saved in shared transaction {known.name!r}. Join it again and "
                "repeat them"
            )
        return there

    def _is_put(self, newest: MetastoreSnapshot, value: SharedTransactionEntry, message: str, attempt: int) -> bool:
        puts: dict[Locator, Object] = {SharedTransactionLocator(value.name): value}
        return self._is_committed(newest, Changes(self.effects.new_id(), puts, message=message), attempt)

    def _put(self, newest: MetastoreSnapshot, value: SharedTransactionEntry, message: str) -> None:
        self._is_put(newest, value, message, _ATTEMPTS_MAX - 1)

    def _is_committed(self, newest: MetastoreSnapshot, changes: Changes, attempt: int) -> bool:
        """Commit and return whether it succeeded; a conflict on the shared transaction itself needs a retry."""
        limit_millis = commit_deadline_millis(newest.settings, self.effects.now_millis())
        try:
            self.metastore.commit(newest, replace(changes, commit_before_millis=limit_millis), Isolation.SNAPSHOT)
        except ConflictError:
            if attempt == _ATTEMPTS_MAX - 1:
                raise
            self.effects.pause(0.01 * 2 ** min(attempt, 6))
            return False
        return True


def _names_for(locator: Locator, *snapshots: MetastoreSnapshot) -> dict[TableIdentity, str]:
    """Return the name of the table that an object belongs to."""
    if not locator.kind.is_below_table:
        return {}
    namespace_id, table_id = locator.parts[:2]
    return load_table_names({TableIdentity(str(namespace_id), str(table_id))}, *snapshots)


def _find_narrowed_versions(
    changes: Changes, found: Mapping[Locator, Object | None], base: MetastoreSnapshot
) -> list[Locator]:
    """Return the table versions that changed since, so that they do not accept all rows of the base version."""
    written = {locator.parent.parent.parent for locator in changes.puts if isinstance(locator, DeltaLocator)}
    narrowed: list[Locator] = []
    for locator in sorted(written & found.keys()):
        was, now = base.get(locator), found[locator]
        if isinstance(was, TableVersion) and isinstance(now, TableVersion) and not accepts_rows_of(now, was):
            narrowed.append(locator)
    return narrowed


def _find_removed_parents(changes: Changes, found: Mapping[Locator, Object | None]) -> list[Locator]:
    """Return the partitions of new deltas that were removed since, as by a rollback of the table.

    A rollback to a version without the partition changes its stream, but the stream is equal afterwards.
    """
    parents = {locator.parent for locator in changes.puts if isinstance(locator, DeltaLocator)}
    return sorted(one for one in parents - changes.puts.keys() if found.get(one, one) is None)

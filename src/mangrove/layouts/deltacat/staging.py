"""Conversion of changes into revision files, name mappings and index messages."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from mangrove.betree.node import Message
from mangrove.betree.search import scan
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.layouts.deltacat.compatibility import check_deltacat_readable
from mangrove.layouts.deltacat.files import RevisionRef
from mangrove.layouts.deltacat.guards import WrittenKey
from mangrove.layouts.deltacat.index import (
    MappingEntry,
    NameEntry,
    RevisionEntry,
    TableDescendantLocator,
    deleted_key,
    folder_of,
    key_of_locator,
    mapping_key,
    name_key,
    name_of,
    object_key,
    parse_mapping_entry,
    parse_name_entry,
    range_of_kind,
)
from mangrove.layouts.deltacat.msgpack_maps import MsgpackMap, compute_checksum, encode_map
from mangrove.layouts.deltacat.object_codec import ObjectBody, encode_named_object
from mangrove.layouts.deltacat.paths import (
    MANGROVE_FOLDER,
    SETTINGS_FOLDER,
    NumberedFile,
    alias_folder,
    shared_transaction_folder,
    view_folder,
)
from mangrove.layouts.deltacat.revision import digest_of
from mangrove.layouts.deltacat.schema_codec import encode_scheme_id
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.layouts.deltacat.table_codec import (
    encode_delta,
    encode_partition,
    encode_partition_values,
    encode_stream,
    encode_table_version,
)
from mangrove.layouts.deltacat.transaction_log import LoggedOperation
from mangrove.metastore import Changes
from mangrove.model.locators import (
    AliasLocator,
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.objects import (
    AliasEntry,
    Delta,
    DeltaType,
    NamespaceEntry,
    Object,
    Partition,
    SharedTransactionEntry,
    Stream,
    StreamState,
    TableEntry,
    TableVersion,
    ViewEntry,
)
from mangrove.model.settings import LakehouseSettings
from mangrove.rebase import describe_object

__all__ = [
    "CREATE",
    "DELETE",
    "NAMED_KINDS",
    "UPDATE",
    "WRITTEN_SETTINGS_KEY",
    "StagedCatalogWrite",
    "WriteDraft",
    "stage_changes",
    "stage_named_objects",
    "stage_settings",
    "stage_table_descendants",
]

CREATE: Final = "create"
UPDATE: Final = "update"
DELETE: Final = "delete"


@dataclass(frozen=True, slots=True)
class StagedCatalogWrite:
    """The files and index messages of a transaction on top of one version."""

    files: Mapping[str, bytes]
    bodies: Mapping[str, ObjectBody]
    messages: Sequence[Message]
    operations: Sequence[LoggedOperation]
    written: Sequence[WrittenKey]


@dataclass
class WriteDraft:
    """Collects the writes of a transaction, with numbers that continue those of its base version."""

    base: DeltaCatSnapshot
    transaction: str
    _files: dict[str, bytes] = field(default_factory=dict)
    _bodies: dict[str, ObjectBody] = field(default_factory=dict)
    _values: dict[str, str | None] = field(default_factory=dict)
    _operations: list[LoggedOperation] = field(default_factory=list)
    _written: list[WrittenKey] = field(default_factory=list)

    def staged(self) -> StagedCatalogWrite:
        """Return all collected writes."""
        messages = [Message(key, value, self.transaction) for key, value in self._values.items()]
        return StagedCatalogWrite(self._files, self._bodies, messages, self._operations, self._written)

    def value_of(self, key: str) -> str | None:
        """Return the index value of a key after the transaction."""
        return self._values[key] if key in self._values else self.base.value_of(key)

    def set(self, key: str, value: str | None) -> None:
        """Set the index value of a key; None deletes it."""
        self._values[key] = value

    def touch(self, locator: Locator, key: str) -> None:
        """Record that the transaction wrote an object, for conflict detection."""
        self._written.append(WrittenKey(key, describe_object(locator)))

    def touch_key(self, written: WrittenKey) -> None:
        """Record that the transaction wrote a key without a locator."""
        self._written.append(written)

    def put(
        self, folder: str, current: RevisionEntry | None, value: Object | None, fields: MsgpackMap
    ) -> RevisionEntry:
        """Write the next revision of the object in `folder`; a value of None deletes it."""
        gone = None if current is not None else self.value_of(deleted_key(folder))
        number = current.number if current is not None else int(gone or 0)
        operation = DELETE if value is None else CREATE if current is None else UPDATE
        data = encode_map(fields)
        stored = RevisionEntry(number + 1, operation, self.transaction, checksum=compute_checksum(data))
        if value is None:
            self.set(deleted_key(folder), str(stored.number))
        elif gone is not None:
            self.set(deleted_key(folder), None)
        path = self.path_of(stored.file(folder))
        self._files[path] = data
        if value is not None:
            self._bodies[path] = ObjectBody(value, fields)
        return stored

    def note(self, folder: str, stored: RevisionEntry, fields: MsgpackMap, mapping_paths: Sequence[str] = ()) -> None:
        """Add a revision to the transaction log, unless DeltaCAT does not know its kind."""
        if not folder.startswith(MANGROVE_FOLDER):
            object_id = folder.rpartition("/")[2]
            revision_path = self.path_of(stored.file(folder))
            self._operations.append(
                LoggedOperation(stored.operation, object_id, fields, [revision_path], mapping_paths)
            )

    def note_mapping(self, target: str, paths: Sequence[str]) -> None:
        """Add mappings without a revision to the transaction log."""
        if paths:
            self._operations.append(LoggedOperation(UPDATE, target, {}, [], paths))

    def map(self, folder: str, target: str) -> list[str]:
        """Map a mapping folder to an id, and return the paths of the written files."""
        before = self._mapped(folder)
        if not folder or before.target == target:
            return []
        if "." in target:
            raise InvalidInputError(f"the id {target!r} contains a dot, which DeltaCAT does not support")
        return self._map(folder, before, self.base.files.revision.remapping if before.target else CREATE, target)

    def unmap(self, folder: str, target: str) -> list[str]:
        """Remove the mapping of a folder to that id, and return the paths of the written files."""
        before = self._mapped(folder)
        return self._map(folder, before, DELETE, target) if folder and before.target == target else []

    def path_of(self, file: NumberedFile) -> str:
        """Return the path of a numbered file in this format revision."""
        return self.base.files.revision.numbered_path(file.folder, file.number, file.file_name)

    def table_names(self, namespace_id: str) -> list[tuple[str, NameEntry]]:
        """Return the names of the tables of a namespace after the transaction, by index key."""
        first, end = range_of_kind(Kind.TABLE, namespace_id)
        keys = {key for key, _ in scan(self.base.guard.root, first, end, self.base.read_nodes)}
        keys |= {key for key in self._values if first <= key < end}
        values = [(key, self.value_of(key)) for key in sorted(keys)]
        return [(key, parse_name_entry(value)) for key, value in values if value is not None]

    def mapping_target(self, folder: str) -> str:
        """Return the id that a mapping folder maps to, or an empty string."""
        return self._mapped(folder).target

    def _mapped(self, folder: str) -> MappingEntry:
        return parse_mapping_entry(self.value_of(mapping_key(folder)))

    def _map(self, folder: str, before: MappingEntry, operation: str, target: str) -> list[str]:
        file = NumberedFile(folder, before.number + 1, operation, self.transaction, target)
        path = self.path_of(file)
        self._files[path] = b""
        self.set(mapping_key(folder), MappingEntry(file.number, "" if operation == DELETE else target).text)
        return [path]


_Locator: TypeAlias = NamespaceLocator | TableLocator | ViewLocator | SharedTransactionLocator | AliasLocator
NAMED_KINDS: Final = frozenset({Kind.NAMESPACE, Kind.TABLE, Kind.VIEW, Kind.SHARED_TRANSACTION, Kind.ALIAS})


def stage_named_objects(draft: WriteDraft, changes: Changes) -> None:
    """Stage all changes of namespaces, tables, views and shared transactions.

    An object exists as long as it has a name: a rename removes one name and adds
    another, so the object stays; this also holds for two objects that swap names.
    """
    staging = _NameStaging(draft, changes)
    for locator in sorted(changes.deletes):
        if isinstance(locator, _Locator):
            staging.leave(locator)
    for locator in sorted(changes.puts):
        if isinstance(locator, _Locator):
            staging.take(locator, changes.puts[locator])
    staging.remap_tables()
    staging.write_objects()


@dataclass
class _NameStaging:
    draft: WriteDraft
    changes: Changes
    _gained: Counter[str] = field(default_factory=Counter)
    _left: dict[str, _Locator] = field(default_factory=dict)
    _put: dict[str, tuple[_Locator, Object]] = field(default_factory=dict)
    _keys: dict[str, str] = field(default_factory=dict)
    _mapping_paths: dict[str, list[str]] = field(default_factory=dict)

    def leave(self, locator: _Locator) -> None:
        """Remove a name from its object."""
        key = self.draft.base.key_of(locator)
        self.draft.touch(locator, key or describe_object(locator))
        text = None if key is None else self.draft.value_of(key)
        if isinstance(locator, AliasLocator) and text is None:
            # An alias that only its mapping records.
            folder = self._mapping_folder(locator, self._namespace_id(locator))
            target = self.draft.mapping_target(folder)
            self.draft.note_mapping(target, self.draft.unmap(folder, target))
        elif key is not None and text is not None:
            self.draft.set(key, None)
            named = parse_name_entry(text)
            self._lose(named, locator)
            self._unmap(named, locator)

    def take(self, locator: _Locator, value: Object) -> None:
        """Add a name to an object."""
        namespace_id = self._namespace_id(locator)
        key = name_key(locator.kind, namespace_id, locator.name)
        self.draft.touch(locator, key)
        folder = _folder(value)
        self._put[folder] = (locator, value)
        self._keys[folder] = key
        text = self.draft.value_of(key)
        there = None if text is None else parse_name_entry(text)
        mapping_folder, target_id = self._mapping_folder(locator, namespace_id), _id(folder)
        if isinstance(value, AliasEntry):
            target_id = value.target_id
            if value.target_locator.parent != AliasLocator(value.name).named.parent:
                # A mapping is in the folder of a namespace, and leads only to tables of that namespace.
                mapping_folder = ""
        elif there is not None and there.folder == folder:
            return
        if there is not None:
            self._unmap(there, locator, unless=mapping_folder)
        if there is None or there.folder != folder:
            self._gained[folder] += 1
            if there is not None:
                self._lose(there, locator)
        self._map(key, NameEntry(folder, mapping_folder), target_id)

    def remap_tables(self) -> None:
        """Map the tables of each renamed namespace: the canonical string of a table contains its name.

        This is two empty files for each table of the namespace, and none where the
        canonical string has no parents. Aliases are changes of the transaction by themselves.
        """
        for folder, (locator, _) in list(self._put.items()):
            stored = self._stored(folder)
            if not isinstance(locator, NamespaceLocator) or stored is None or stored.name == self._keys[folder]:
                continue
            for key, named in self.draft.table_names(folder):
                mapping_folder = self._mapping_folder(TableLocator(locator.name, name_of(key)), folder)
                if mapping_folder != named.mapping_folder:
                    self._unmap(named, TableLocator(name_of(stored.name), name_of(key)))
                    self._map(key, NameEntry(named.folder, mapping_folder), _id(named.folder))

    def _map(self, key: str, named: NameEntry, target_id: str) -> None:
        self.draft.set(key, named.text)
        paths = self.draft.map(named.mapping_folder, target_id)
        self._mapping_paths.setdefault(named.folder, []).extend(paths)

    def _unmap(self, named: NameEntry, locator: _Locator, unless: str = "") -> None:
        """Remove the mapping of a name of the base version, from a folder other than `unless`.

        An index that was rebuilt from the files of another program may know an earlier folder.
        """
        folders = {named.mapping_folder}
        if not isinstance(locator, AliasLocator):
            folders.add(self._mapping_folder(locator, named.folder.partition("/")[0]))
        for folder in folders - {"", unless}:
            is_alias = isinstance(locator, AliasLocator)
            target_id = self.draft.mapping_target(folder) if is_alias else _id(named.folder)
            paths = self.draft.unmap(folder, target_id)
            self._mapping_paths.setdefault(named.folder, []).extend(paths)

    def write_objects(self) -> None:
        """Write a revision of each changed object, and a delete revision of each object without a name."""
        before = self._bodies_before()
        for folder, (_, value) in self._put.items():
            fields = encode_named_object(value, before.get(folder))
            self._write(folder, self._stored(folder), value, fields)
        for folder in self._mapping_paths.keys() - self._put.keys() - self._left.keys():
            self.draft.note_mapping(_id(folder), self._mapping_paths[folder])
        for folder, locator in self._left.items():
            stored = self._stored(folder)
            if folder in self._put or stored is None:
                continue
            names = stored.names + self._gained[folder]
            if names > 0:
                is_led_to = stored.name and self.draft.value_of(stored.name) is not None
                remaining = replace(stored, names=names, name=stored.name if is_led_to else "")
                self.draft.set(object_key(folder), remaining.text)
            else:
                self._write(folder, stored, None, encode_named_object(_tombstone_of_named(locator, folder), None))

    def _write(self, folder: str, current: RevisionEntry | None, value: Object | None, fields: MsgpackMap) -> None:
        stored = self.draft.put(folder, current, value, fields)
        names = (0 if current is None else current.names) + self._gained[folder]
        stored = replace(stored, names=names, name=self._keys.get(folder, ""))
        self.draft.set(object_key(folder), None if value is None else stored.text)
        mapping_paths = self._mapping_paths.get(folder, [])
        self.draft.note(folder, stored, fields, mapping_paths)
        if mapping_paths and folder.startswith(MANGROVE_FOLDER):
            # DeltaCAT does not know aliases, but their mappings.
            self.draft.note_mapping(_mapped_id_in(mapping_paths[-1]), mapping_paths)

    def _lose(self, named: NameEntry, locator: _Locator) -> None:
        self._gained[named.folder] -= 1
        self._left[named.folder] = locator

    def _stored(self, folder: str) -> RevisionEntry | None:
        return self.draft.base.stored_at(object_key(folder))

    def _bodies_before(self) -> dict[str, MsgpackMap]:
        requested = [
            RevisionRef(locator.kind, folder, stored)
            for folder, (locator, _) in self._put.items()
            if (stored := self._stored(folder)) is not None
        ]
        found = self.draft.base.files.bodies(requested)
        return {one.folder: body.fields for one, body in zip(requested, found, strict=True)}

    def _namespace_id(self, locator: _Locator) -> str:
        """Return the id of the namespace of a name; this transaction may create or rename it."""
        if isinstance(locator, AliasLocator):
            return self._namespace_id(locator.named)
        if not isinstance(locator, TableLocator | ViewLocator):
            return ""
        new = self.changes.puts.get(locator.parent)
        namespace_id = new.id if isinstance(new, NamespaceEntry) else self.draft.base.namespace_id(locator.namespace)
        if namespace_id is None:
            raise NotFoundError(f"the namespace of the {describe_object(locator)} does not exist; create it first")
        return namespace_id

    def _mapping_folder(self, locator: _Locator, namespace_id: str) -> str:
        """Return the folder that maps a name to an id; kinds unknown to DeltaCAT need none."""
        canonical = self.draft.base.files.revision.canonical
        match locator:
            case NamespaceLocator(name):
                return digest_of(canonical("", name))
            case TableLocator(namespace, name):
                return f"{namespace_id}/{digest_of(canonical(namespace, name))}"
            case AliasLocator():
                return self._mapping_folder(locator.named, namespace_id)
            case _:
                return ""


def _folder(value: Object) -> str:
    match value:
        case NamespaceEntry():
            return value.id
        case TableEntry():
            return f"{value.namespace_id}/{value.id}"
        case ViewEntry():
            return view_folder(value.id)
        case AliasEntry():
            return alias_folder(value.id)
        case SharedTransactionEntry():
            return shared_transaction_folder(digest_of(value.name))
        case _:
            raise AssertionError(f"{value} has no name")


def _mapped_id_in(mapping_path: str) -> str:
    return mapping_path.rpartition(".")[2]


def _id(folder: str) -> str:
    return folder.rpartition("/")[2]


def _tombstone_of_named(locator: _Locator, folder: str) -> Object:
    """Return the body of a delete revision, with the fields that DeltaCAT needs to read it."""
    match locator:
        case NamespaceLocator(name):
            return NamespaceEntry(folder, name)
        case TableLocator(_, name):
            return TableEntry(_id(folder), folder.rpartition("/")[0], name)
        case ViewLocator(_, name):
            return ViewEntry(_id(folder), name, "select 1")
        case SharedTransactionLocator(name):
            return SharedTransactionEntry(name, 0, 0, 0)
        case AliasLocator(name):
            return AliasEntry(_id(folder), name, name, _id(folder))


def stage_table_descendants(draft: WriteDraft, changes: Changes) -> None:
    """Stage all changes of objects below tables."""
    puts = {locator: value for locator, value in changes.puts.items() if isinstance(locator, TableDescendantLocator)}
    deletes = [locator for locator in changes.deletes if isinstance(locator, TableDescendantLocator)]
    if puts or deletes:
        staging = _DescendantStaging(draft, _newest_positions(puts) if draft.base.files.revision.maps_aliases else {})
        staging.read([*puts, *deletes])
        gone = {folder_of(locator) for locator in deletes}
        for locator in sorted(puts):
            staging.put(locator, puts[locator], gone)
        staging.lead_to_streams(puts)
        staging.move_partitions_on(puts)
        for locator in sorted(deletes):
            staging.delete(locator)


@dataclass
class _DescendantStaging:
    draft: WriteDraft
    newest_positions: Mapping[PartitionLocator, int]
    """The position of the newest delta of each partition with new deltas; DeltaCAT continues from there."""
    _current: dict[TableDescendantLocator, RevisionEntry | None] = field(default_factory=dict)
    _before: dict[TableDescendantLocator, ObjectBody] = field(default_factory=dict)
    _fields: dict[TableDescendantLocator, MsgpackMap] = field(default_factory=dict)

    def read(self, locators: Sequence[TableDescendantLocator]) -> None:
        """Read the objects and their parents as of the base version in one batch."""
        parents = {locator.parent for locator in locators if not isinstance(locator, TableVersionLocator)}
        base = self.draft.base
        there = sorted({*locators, *parents})
        self._current = {locator: base.stored_at(key_of_locator(locator)) for locator in there}
        known = [locator for locator in there if self._current[locator] is not None]
        self._before = {
            locator: body for locator, body in zip(known, base.bodies(known), strict=True) if body is not None
        }

    def put(self, locator: TableDescendantLocator, value: Object, gone: AbstractSet[str]) -> None:
        """Write a revision of an object, and map its alias to it if it is new or replaces another."""
        fields = self._fields_of(locator, value)
        mapping_paths: list[str] = []
        alias = self._alias(locator, value)
        if alias and getattr(value, "state", None) is StreamState.COMMITTED:
            there = self.draft.mapping_target(alias)
            parent, _, object_id = folder_of(locator).rpartition("/")
            if self._current[locator] is None or not there or f"{parent}/{there}" in gone:
                mapping_paths = self.draft.map(alias, object_id)
        self._write(locator, value, fields, mapping_paths)
        self.draft.touch(locator, key_of_locator(locator))

    def lead_to_streams(self, puts: Mapping[TableDescendantLocator, Object]) -> None:
        """Map the alias of each changed table version to its stream."""
        for locator, value in puts.items():
            if isinstance(locator, TableVersionLocator) and isinstance(value, TableVersion) and value.latest_stream_id:
                stream = StreamLocator(locator.namespace_id, locator.table_id, locator.version, value.latest_stream_id)
                if self.draft.value_of(key_of_locator(stream)) is not None:
                    # A stream of another format has its own alias; that of the table is always Mangrove's.
                    self.draft.map(self._alias(stream, Stream(stream.stream_id)), stream.stream_id)

    def move_partitions_on(self, puts: Mapping[TableDescendantLocator, Object]) -> None:
        """Write a revision of each partition that has new deltas but is not changed itself."""
        for partition in sorted(self.newest_positions.keys() - puts.keys()):
            before = self._before.get(partition)
            if before is not None:
                fields = dict(before.fields)
                self._move_on(partition, fields)
                self._write(partition, before.value, fields, [])

    def delete(self, locator: TableDescendantLocator) -> None:
        """Write the delete revision of an object."""
        key = key_of_locator(locator)
        self.draft.touch(locator, key)
        stored = self._current[locator]
        if stored is None:
            return
        fields = self._fields_of(locator, _tombstone_of_descendant(locator))
        before = self._before.get(locator)
        alias = "" if before is None else self._alias(locator, before.value)
        last = self.draft.put(folder_of(locator), stored, None, fields)
        self.draft.set(key, None)
        object_id = folder_of(locator).rpartition("/")[2]
        self.draft.note(folder_of(locator), last, fields, self.draft.unmap(alias, object_id))

    def _move_on(self, partition: PartitionLocator, fields: dict[str, Any]) -> None:
        before = fields.get("streamPosition")
        newest = self.newest_positions.get(partition)
        if newest is not None:
            fields["streamPosition"] = max(newest, before) if isinstance(before, int) else newest

    def _write(
        self, locator: TableDescendantLocator, value: Object, fields: dict[str, Any], mapping_paths: list[str]
    ) -> None:
        folder = folder_of(locator)
        if isinstance(locator, DeltaLocator) and isinstance(value, Delta):
            value = replace(value, position=locator.position)
        stored = self.draft.put(folder, self._current[locator], value, fields)
        self.draft.set(key_of_locator(locator), stored.text)
        self.draft.note(folder, stored, fields, mapping_paths)

    def _fields_of(self, locator: TableDescendantLocator, value: Object) -> dict[str, Any]:
        body = self._before.get(locator)
        before = None if body is None else body.fields
        match locator, value:
            case TableVersionLocator(), TableVersion():
                fields = encode_table_version(locator, value, before)
            case StreamLocator(), Stream():
                fields = encode_stream(locator, value, before, self._above(locator.parent))
            case PartitionLocator(), Partition():
                fields = encode_partition(locator, value, before, self._above(locator.parent))
                self._move_on(locator, fields)
            case DeltaLocator(), Delta():
                fields = encode_delta(locator, value, before, self._above(locator.parent))
            case _:
                raise AssertionError(f"{locator} does not locate {value}")
        self._fields[locator] = fields
        return fields

    def _above(self, parent: TableDescendantLocator) -> MsgpackMap | None:
        """Return the body of a parent after this transaction."""
        if parent in self._fields:
            return self._fields[parent]
        body = self._before.get(parent)
        return None if body is None else body.fields

    def _alias(self, locator: TableDescendantLocator, value: Object) -> str:
        """Return the folder by which DeltaCAT finds a stream or partition; empty if there is no alias."""
        revision = self.draft.base.files.revision
        if not revision.maps_aliases:
            return ""
        match locator, value:
            case StreamLocator(), Stream():
                canonical = revision.canonical("", value.format)
            case PartitionLocator(), Partition():
                scheme_id = encode_scheme_id(value.scheme_id, has_fields=bool(value.values))
                # DeltaCAT takes the text of a Python list, or of None where there are no values.
                canonical = revision.canonical("", str(encode_partition_values(value)), scheme_id)
            case _:
                return ""
        return f"{folder_of(locator.parent)}/{digest_of(canonical)}"


def _newest_positions(puts: Mapping[TableDescendantLocator, Object]) -> dict[PartitionLocator, int]:
    newest: dict[PartitionLocator, int] = {}
    for locator, value in puts.items():
        # Unordered deltas have positions outside the sequence.
        if isinstance(locator, DeltaLocator) and isinstance(value, Delta) and value.type is not DeltaType.ADD:
            newest[locator.parent] = max(newest.get(locator.parent, 0), locator.position)
    return newest


def _tombstone_of_descendant(locator: TableDescendantLocator) -> Object:
    """Return the body of a delete revision, with the fields that DeltaCAT needs to read it."""
    match locator:
        case TableVersionLocator():
            return TableVersion(locator.version, None)
        case StreamLocator():
            return Stream(locator.stream_id)
        case PartitionLocator():
            return Partition(locator.partition_id)
        case DeltaLocator():
            return Delta(DeltaType.APPEND)


WRITTEN_SETTINGS_KEY: Final = WrittenKey(object_key(SETTINGS_FOLDER), "the lakehouse definition")


def stage_changes(base: DeltaCatSnapshot, changes: Changes, transaction: str) -> StagedCatalogWrite:
    """Return the changes as files with revision numbers that follow those of `base`."""
    settings = changes.settings or base.settings
    for locator in changes.puts:
        if locator.kind in NAMED_KINDS:
            settings.check_object_name(locator.kind, str(locator.parts[-1]))
    if settings.is_readable_by_deltacat:
        check_deltacat_readable(base, changes)
    draft = WriteDraft(base, transaction)
    stage_named_objects(draft, changes)
    stage_table_descendants(draft, changes)
    if changes.settings is not None:
        stage_settings(draft, changes.settings)
    return draft.staged()


def stage_settings(draft: WriteDraft, settings: LakehouseSettings) -> None:
    """Stage a change of the lakehouse definition."""
    key = WRITTEN_SETTINGS_KEY.key
    current = draft.base.stored_at(key)
    requested = [] if current is None else [RevisionRef(Kind.LAKEHOUSE, SETTINGS_FOLDER, current)]
    before = [body.fields for body in draft.base.files.bodies(requested)]
    fields = encode_named_object(settings, before[0] if before else None)
    draft.set(key, draft.put(SETTINGS_FOLDER, current, settings, fields).text)
    draft.touch_key(WRITTEN_SETTINGS_KEY)

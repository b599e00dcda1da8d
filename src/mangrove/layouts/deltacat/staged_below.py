"""Staging what lies below tables: table versions, streams, partitions and deltas, parents before children."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from mangrove.layouts.deltacat.bodies import Body
from mangrove.layouts.deltacat.draft import Draft
from mangrove.layouts.deltacat.index import Stored
from mangrove.layouts.deltacat.keys import Below, folder_of, key_of_below
from mangrove.layouts.deltacat.packed import Packed
from mangrove.layouts.deltacat.revision import digest_of
from mangrove.layouts.deltacat.scheme_form import stored_scheme_id
from mangrove.layouts.deltacat.table_bodies import (
    delta_fields,
    partition_fields,
    partition_values_of,
    stream_fields,
    table_version_fields,
)
from mangrove.metastore import Changes
from mangrove.model.locators import DeltaLocator, PartitionLocator, StreamLocator, TableVersionLocator
from mangrove.model.objects import (
    Delta,
    DeltaType,
    Object,
    Partition,
    Stream,
    StreamState,
    TableVersion,
)

__all__ = ["stage_below"]


def stage_below(draft: Draft, changes: Changes) -> None:
    """Draft all changes of what lies below tables."""
    puts = {locator: value for locator, value in changes.puts.items() if isinstance(locator, Below)}
    deletes = [locator for locator in changes.deletes if isinstance(locator, Below)]
    if puts or deletes:
        staging = _Below(draft, _newest_positions(puts) if draft.base.files.revision.maps_aliases else {})
        staging.read([*puts, *deletes])
        gone = {folder_of(locator) for locator in deletes}
        for locator in sorted(puts):
            staging.put(locator, puts[locator], gone)
        staging.lead_to_streams(puts)
        staging.move_partitions_on(puts)
        for locator in sorted(deletes):
            staging.delete(locator)


@dataclass
class _Below:
    draft: Draft
    newest_positions: Mapping[PartitionLocator, int]
    """Where the newest delta of each partition stands that got some: DeltaCAT counts on from there."""
    _current: dict[Below, Stored | None] = field(default_factory=dict)
    _before: dict[Below, Body] = field(default_factory=dict)
    _fields: dict[Below, Packed] = field(default_factory=dict)

    def read(self, locators: Sequence[Below]) -> None:
        """Read at once what the objects and their parents are before this transaction."""
        parents = {locator.parent for locator in locators if not isinstance(locator, TableVersionLocator)}
        base = self.draft.base
        there = sorted({*locators, *parents})
        self._current = {locator: base.stored_at(key_of_below(locator)) for locator in there}
        known = [locator for locator in there if self._current[locator] is not None]
        self._before = {
            locator: body for locator, body in zip(known, base.bodies(known), strict=True) if body is not None
        }

    def put(self, locator: Below, value: Object, gone: AbstractSet[str]) -> None:
        """Write a revision of an object, and let its alias lead to it where it is new or takes another's place."""
        fields = self._fields_of(locator, value)
        mapping_paths: list[str] = []
        alias = self._alias(locator, value)
        if alias and getattr(value, "state", None) is StreamState.COMMITTED:
            there = self.draft.mapped_to(alias)
            parent, _, object_id = folder_of(locator).rpartition("/")
            if self._current[locator] is None or not there or f"{parent}/{there}" in gone:
                mapping_paths = self.draft.map(alias, object_id)
        self._write(locator, value, fields, mapping_paths)
        self.draft.touch(locator, key_of_below(locator))

    def lead_to_streams(self, puts: Mapping[Below, Object]) -> None:
        """Let the alias of each table version that is written lead to the stream that it says is its own."""
        for locator, value in puts.items():
            if isinstance(locator, TableVersionLocator) and isinstance(value, TableVersion) and value.latest_stream_id:
                stream = StreamLocator(locator.namespace_id, locator.table_id, locator.version, value.latest_stream_id)
                if self.draft.value_of(key_of_below(stream)) is not None:
                    # A stream of another format has an alias of its own; the table's is always ours.
                    self.draft.map(self._alias(stream, Stream(stream.stream_id)), stream.stream_id)

    def move_partitions_on(self, puts: Mapping[Below, Object]) -> None:
        """Write a revision of each partition that got deltas but is not itself written."""
        for partition in sorted(self.newest_positions.keys() - puts.keys()):
            before = self._before.get(partition)
            if before is not None:
                fields = dict(before.fields)
                self._move_on(partition, fields)
                self._write(partition, before.value, fields, [])

    def delete(self, locator: Below) -> None:
        """Write the last revision of an object."""
        key = key_of_below(locator)
        self.draft.touch(locator, key)
        stored = self._current[locator]
        if stored is None:
            return
        fields = self._fields_of(locator, _last_words(locator))
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

    def _write(self, locator: Below, value: Object, fields: dict[str, Any], mapping_paths: list[str]) -> None:
        folder = folder_of(locator)
        if isinstance(locator, DeltaLocator) and isinstance(value, Delta):
            value = replace(value, position=locator.position)
        stored = self.draft.put(folder, self._current[locator], value, fields)
        self.draft.set(key_of_below(locator), stored.text)
        self.draft.note(folder, stored, fields, mapping_paths)

    def _fields_of(self, locator: Below, value: Object) -> dict[str, Any]:
        body = self._before.get(locator)
        before = None if body is None else body.fields
        match locator, value:
            case TableVersionLocator(), TableVersion():
                fields = table_version_fields(locator, value, before)
            case StreamLocator(), Stream():
                fields = stream_fields(locator, value, before, self._above(locator.parent))
            case PartitionLocator(), Partition():
                fields = partition_fields(locator, value, before, self._above(locator.parent))
                self._move_on(locator, fields)
            case DeltaLocator(), Delta():
                fields = delta_fields(locator, value, before, self._above(locator.parent))
            case _:
                raise AssertionError(f"{locator} does not locate {value}")
        self._fields[locator] = fields
        return fields

    def _above(self, parent: Below) -> Packed | None:
        """Return the body of a parent as it will be after this transaction."""
        if parent in self._fields:
            return self._fields[parent]
        body = self._before.get(parent)
        return None if body is None else body.fields

    def _alias(self, locator: Below, value: Object) -> str:
        """Return the folder by which DeltaCAT finds a stream or partition; nothing for what has no alias."""
        revision = self.draft.base.files.revision
        if not revision.maps_aliases:
            return ""
        match locator, value:
            case StreamLocator(), Stream():
                canonical = revision.canonical("", value.format)
            case PartitionLocator(), Partition():
                scheme_id = stored_scheme_id(value.scheme_id, has_fields=bool(value.values))
                # DeltaCAT takes the text of a Python list, or of None where there are no values.
                canonical = revision.canonical("", str(partition_values_of(value)), scheme_id)
            case _:
                return ""
        return f"{folder_of(locator.parent)}/{digest_of(canonical)}"


def _newest_positions(puts: Mapping[Below, Object]) -> dict[PartitionLocator, int]:
    newest: dict[PartitionLocator, int] = {}
    for locator, value in puts.items():
        # What is added in no order takes positions far from those that are counted.
        if isinstance(locator, DeltaLocator) and isinstance(value, Delta) and value.type is not DeltaType.ADD:
            newest[locator.parent] = max(newest.get(locator.parent, 0), locator.position)
    return newest


def _last_words(locator: Below) -> Object:
    """Return what stands in the last revision of an object that is gone: enough for DeltaCAT to read past it."""
    match locator:
        case TableVersionLocator():
            return TableVersion(locator.version, None)
        case StreamLocator():
            return Stream(locator.stream_id)
        case PartitionLocator():
            return Partition(locator.partition_id)
        case DeltaLocator():
            return Delta(DeltaType.APPEND)

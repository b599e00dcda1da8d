"""Conversion of client snapshot changes to deltas for each log.

    only new files                       append
    removed files                        rewrite of those files into the new ones
    all files of a log removed           overwrite
    equality deletes                     delete by keys; new rows of the same commit stay
    position deletes                     position delete

The keys of an upsert file delete older rows, which would reappear without the file. If a
client removes such a file, all its rows are deleted by position and the file stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta
from mangrove.model.values import Value
from mangrove.tables.scan_plan import LiveFile, list_live_files
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import (
    PlannedDelta,
    PlannedWrite,
    build_append_delta,
    build_delete_delta,
    build_overwrite_delta,
    build_position_delete_delta,
    build_rewrite_delta,
    group_files_by_log,
)

__all__ = ["FileInLog", "LiveDataFile", "SnapshotChanges", "index_live_files", "plan_client_write"]

_Values = tuple[Value | None, ...]
FileInLog = tuple[_Values, DataFile]
"""A new file, with the partition values of its rows."""


@dataclass(frozen=True, slots=True)
class LiveDataFile:
    """A live data file and the partition values of its log."""

    log_values: _Values
    live: LiveFile


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """The file changes of a commit."""

    added: Sequence[FileInLog] = ()
    key_files: Sequence[FileInLog] = ()
    """Equality delete files."""
    removed: Sequence[LiveDataFile] = ()
    delete_files: Mapping[str, DataFile] = field(default_factory=dict)
    """Position delete files by the location of their data file, also for removed files that delete by key."""


def index_live_files(state: TableState) -> dict[str, LiveDataFile]:
    """Return the live data files by location."""
    return {
        live.file.location: LiveDataFile(log.values, live)
        for log in state.logs
        for live in list_live_files(log.deltas)
        if live.is_data
    }


def plan_client_write(state: TableState, changes: SnapshotChanges, properties: Mapping[str, str]) -> PlannedWrite:
    """Return the deltas of a commit; each has `properties`, by which a retry is detected."""
    live_by_location = index_live_files(state)
    added = group_files_by_log(state, changes.added)
    keys = group_files_by_log(state, changes.key_files)
    log_of = {location: one.log_values for location, one in live_by_location.items()}
    log_of |= {file.location: values for values, files in added.items() for file in files}
    deleted_rows = {location: file for location, file in changes.delete_files.items() if location in log_of}
    touched = dict.fromkeys(
        [*added, *keys, *(one.log_values for one in changes.removed), *map(log_of.__getitem__, deleted_rows)]
    )
    deltas = [
        PlannedDelta(values, _with(delta, properties))
        for values in touched
        for delta in _plan_deltas(
            [one.live for one in live_by_location.values() if one.log_values == values],
            [one.live for one in changes.removed if one.log_values == values],
            added.get(values, []),
            keys.get(values, []),
            [file for location, file in deleted_rows.items() if log_of[location] == values],
        )
    ]
    return PlannedWrite(tuple(deltas))


def _plan_deltas(
    live_files: Sequence[LiveFile],
    removed: Sequence[LiveFile],
    added: Sequence[DataFile],
    keys: Sequence[DataFile],
    delete_files: Sequence[DataFile],
) -> list[Delta]:
    """Return the deltas of one log, in order; equality deletes do not apply to added rows."""
    names = {live.file.location for live in removed}
    if names and not keys and all(live.file.location in names or not live.file.row_count for live in live_files):
        of_added = [file for file in delete_files if file.applies_to not in names]
        return [build_overwrite_delta(added), *([build_position_delete_delta(of_added)] if of_added else [])]
    replaced = [live.file.location for live in removed if not live.deletes_earlier_rows]
    by_columns = {file.key_ids: [one for one in keys if one.key_ids == file.key_ids] for file in keys}
    deltas = [build_delete_delta(files, key_ids) for key_ids, files in by_columns.items()]
    if deltas:
        # The key deletes of a delta do not apply to its own data files.
        deltas[-1] = build_delete_delta(by_columns[key_ids := list(by_columns)[-1]], key_ids, added)
    if replaced:
        deltas.append(build_rewrite_delta(replaced, [] if deltas else added))
    of_remaining = [file for file in delete_files if file.applies_to not in set(replaced)]
    if of_remaining:
        deltas.append(build_position_delete_delta(of_remaining, [] if deltas else added))
    return deltas or [build_append_delta(added)]


def _with(delta: Delta, properties: Mapping[str, str]) -> Delta:
    return replace(delta, properties={**delta.properties, **properties})

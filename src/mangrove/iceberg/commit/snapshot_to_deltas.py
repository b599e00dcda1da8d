"""Conversion of client snapshot changes to deltas for each log.

    only new files                       append
    files gone                           replace of those files, with the new ones
    all files of a log gone              replace of all
    equality deletes                     delete by keys; new rows of the same commit stay
    position deletes                     position delete

A file of an upsert hides older rows by its keys, and would let them come back if it
went. So its rows are hidden by their numbers, and it stays.
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
    """A file of rows that counts, and the log in which it stands."""

    log_values: _Values
    live: LiveFile


@dataclass(frozen=True, slots=True)
class SnapshotChanges:
    """What a commit does to the files of a table, in our words."""

    added: Sequence[FileInLog] = ()
    key_files: Sequence[FileInLog] = ()
    gone: Sequence[LiveDataFile] = ()
    delete_files: Mapping[str, DataFile] = field(default_factory=dict)
    """Files of row numbers by the location of the file whose rows they hide; those of `gone` that hide too."""


def index_live_files(state: TableState) -> dict[str, LiveDataFile]:
    """Return the files of rows that count, by their locations."""
    return {
        live.file.location: LiveDataFile(log.values, live)
        for log in state.logs
        for live in list_live_files(log.deltas)
        if live.is_data
    }


def plan_client_write(state: TableState, told: SnapshotChanges, properties: Mapping[str, str]) -> PlannedWrite:
    """Return the deltas of a commit; each carries `properties`, by which it is known again."""
    live_by_location = index_live_files(state)
    added = group_files_by_log(state, told.added)
    keys = group_files_by_log(state, told.key_files)
    log_of = {location: one.log_values for location, one in live_by_location.items()}
    log_of |= {file.location: values for values, files in added.items() for file in files}
    deleted_rows = {location: file for location, file in told.delete_files.items() if location in log_of}
    touched = dict.fromkeys(
        [*added, *keys, *(one.log_values for one in told.gone), *map(log_of.__getitem__, deleted_rows)]
    )
    deltas = [
        PlannedDelta(values, _with(delta, properties))
        for values in touched
        for delta in _deltas_of(
            [one.live for one in live_by_location.values() if one.log_values == values],
            [one.live for one in told.gone if one.log_values == values],
            added.get(values, []),
            keys.get(values, []),
            [file for location, file in deleted_rows.items() if log_of[location] == values],
        )
    ]
    return PlannedWrite(tuple(deltas))


def _deltas_of(
    alive: Sequence[LiveFile],
    gone: Sequence[LiveFile],
    coming: Sequence[DataFile],
    keys: Sequence[DataFile],
    delete_files: Sequence[DataFile],
) -> list[Delta]:
    """Return the deltas of one log, in order; the rows that come stand behind all keys that hide rows."""
    names = {live.file.location for live in gone}
    if names and not keys and all(live.file.location in names or not live.file.row_count for live in alive):
        of_new = [file for file in delete_files if file.applies_to not in names]
        return [build_overwrite_delta(coming), *([build_position_delete_delta(of_new)] if of_new else [])]
    replaced = [live.file.location for live in gone if not live.deletes_earlier_rows]
    by_columns = {file.key_ids: [one for one in keys if one.key_ids == file.key_ids] for file in keys}
    found = [build_delete_delta(files, key_ids) for key_ids, files in by_columns.items()]
    if found:
        # The files of one delta never hide each other's rows.
        found[-1] = build_delete_delta(by_columns[key_ids := list(by_columns)[-1]], key_ids, coming)
    if replaced:
        found.append(build_rewrite_delta(replaced, [] if found else coming))
    of_staying = [file for file in delete_files if file.applies_to not in set(replaced)]
    if of_staying:
        found.append(build_position_delete_delta(of_staying, [] if found else coming))
    return found or [build_append_delta(coming)]


def _with(delta: Delta, properties: Mapping[str, str]) -> Delta:
    return replace(delta, properties={**delta.properties, **properties})

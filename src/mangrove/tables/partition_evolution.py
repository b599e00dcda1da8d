"""Partition evolution: the files of all logs of a table in one log, in which each file records its scheme.

Deltas that are split into logs by one partition scheme cannot be split by another one without reading
the rows. A single log has files of any scheme.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from mangrove.errors import InvalidInputError
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.objects import Delta
from mangrove.tables.scan_plan import LiveFile, list_live_files
from mangrove.tables.table_state import PartitionLog, TableState, is_partition_determined_by_keys
from mangrove.tables.write_plan import (
    PlannedDelta,
    PlannedWrite,
    build_append_delta,
    build_delete_delta,
    build_position_delete_delta,
    build_upsert_delta,
)

__all__ = ["plan_merged_log"]


def plan_merged_log(state: TableState) -> PlannedWrite:
    """Return the deltas of one log with the files of all logs; no file is read or written.

    Keys of one log then apply to the earlier rows of all logs. They find the same rows, because they
    determine the partition; deletes by other columns are refused.
    """
    logs = [_list_files(state, log) for log in state.logs]
    if not any(live.deletes_earlier_rows for files in logs for live in files):
        logs = [[live for files in logs for live in files]]
        deltas = [delta for files in logs for delta in _build_deltas(state, files)]
    else:
        deltas = [
            delta
            for files in logs
            for _, same in groupby(files, key=lambda live: live.position)
            for delta in _build_deltas(state, list(same))
        ]
    return PlannedWrite(tuple(PlannedDelta((), delta) for delta in deltas))


def _list_files(state: TableState, log: PartitionLog) -> list[LiveFile]:
    """Return the live files of a log by position, with the partition values that the log implied."""
    found = []
    for live in list_live_files(log.deltas):
        file = replace(live.file, partition_values=log.values, partition_scheme_id=state.log_scheme.id)
        key_ids = file.key_ids or state.version.keys
        if live.deletes_earlier_rows and not is_partition_determined_by_keys(key_ids, state.log_scheme):
            raise InvalidInputError(
                f"{state.name} has rows that were deleted by columns in one partition, so its partitions cannot be "
                "changed; compact it with full=True first"
            )
        found.append(replace(live, file=file))
    return found


def _build_deltas(state: TableState, files: Sequence[LiveFile]) -> Iterator[Delta]:
    """Yield the deltas for files of one position: deletes by key come first, because they keep the rows beside them."""
    deletes = [live.file for live in files if live.file.kind is FileKind.KEY_DELETES]
    upserts = [live.file for live in files if live.is_data and live.deletes_earlier_rows]
    rows = [live.file for live in files if live.is_data and not live.deletes_earlier_rows]
    positions = [live.file for live in files if live.file.kind is FileKind.POSITION_DELETES]
    for key_ids, same in _group_by_keys(state, deletes):
        yield build_delete_delta(same, key_ids)
    for key_ids, same in _group_by_keys(state, upserts):
        yield build_upsert_delta(same, key_ids)
    if rows:
        yield build_append_delta(rows)
    if positions:
        yield build_position_delete_delta(positions)


def _group_by_keys(state: TableState, files: Sequence[DataFile]) -> Iterator[tuple[tuple[int, ...], list[DataFile]]]:
    by_keys: dict[tuple[int, ...], list[DataFile]] = {}
    for file in files:
        by_keys.setdefault(file.key_ids or state.version.keys, []).append(file)
    yield from by_keys.items()

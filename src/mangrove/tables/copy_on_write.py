"""Copy-on-write: writes that append rows or replace whole logs, for readers that merge no deltas.

An upsert or delete is merged with the rows of its logs at once, so that the log has
data files with live rows only.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mangrove.model.manifests import DataFile
from mangrove.model.objects import Delta, DeltaType
from mangrove.tables.scan_plan import list_live_files
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.tables.write_plan import PlannedDelta, PlannedWrite, build_overwrite_delta

__all__ = ["is_append_only", "plan_copy_on_write"]

_ADDING_TYPES = frozenset({DeltaType.APPEND, DeltaType.ADD})


def is_append_only(write: PlannedWrite) -> bool:
    """Return whether a write only adds rows."""
    return all(planned.delta.type in _ADDING_TYPES for planned in write.deltas)


def plan_copy_on_write(
    state: TableState, write: PlannedWrite, compact: Callable[[TableState], PlannedWrite]
) -> PlannedWrite:
    """Return a write with the same effect whose deltas append rows or replace a whole log.

    `state` has all logs, and `compact` merges the deltas of those it gets.
    """
    rewritten = [planned for planned in write.deltas if planned.delta.type not in _ADDING_TYPES]
    logs = {log.values: log for log in state.logs}
    after = {planned.log_values: _append_to_log(logs.get(planned.log_values), planned) for planned in rewritten}
    merged = tuple(after[one.log_values] for one in rewritten if one.delta.type is not DeltaType.REPLACE)
    compacted = compact(replace(state, logs=merged)).deltas if merged else ()
    files = {values: tuple(live.file for live in list_live_files(log.deltas)) for values, log in after.items()}
    files |= {planned.log_values: planned.delta.manifest.entries for planned in compacted}
    deltas = tuple(
        replace(planned, delta=_replace_log(planned.delta, files[planned.log_values]))
        if planned.log_values in files
        else planned
        for planned in write.deltas
    )
    return replace(write, deltas=deltas)


def _replace_log(delta: Delta, files: Sequence[DataFile]) -> Delta:
    """Return the delta that replaces a log, with the properties, author and chosen position of the planned one."""
    new = build_overwrite_delta(files)
    return replace(new, properties=delta.properties, author=delta.author, position=delta.position)


def _append_to_log(log: PartitionLog | None, planned: PlannedDelta) -> PartitionLog:
    log = log or PartitionLog(planned.log_values)
    return replace(log, deltas=(*log.deltas, replace(planned.delta, position=log.last_position + 1)))

"""Answers that need no Spark: rows about namespaces, tables, deltas, files and versions."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from mangrove.lakehouse.handles import LakeTable
from mangrove.model.manifests import FileKind
from mangrove.model.values import Value
from mangrove.tables.row_counts import RowCounts
from mangrove.tables.scan_plan import plan_scan
from mangrove.transaction.history import HistoryLine

__all__ = ["Answer", "Row", "count_rows", "delta_rows", "file_rows", "history_rows", "partition_rows"]

Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows with named columns of known types, as in "version bigint, message string"."""

    schema: str
    rows: tuple[Row, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.split()[0] for column in self.schema.split(", "))


def count_rows(counts: RowCounts) -> Answer:
    """Return the one row about what a statement did to rows."""
    row = (counts.inserted, counts.updated, counts.deleted)
    return Answer("rows_inserted bigint, rows_updated bigint, rows_deleted bigint", (row,))


def history_rows(lines: Iterable[HistoryLine]) -> Answer:
    """Return a row for each version."""
    return Answer(
        "version bigint, committed_at timestamp, message string, author string, transactions array<string>",
        tuple(
            (line.version, line.created_at, line.message, line.author, [record.id for record in line.transactions])
            for line in lines
        ),
    )


def delta_rows(table: LakeTable) -> Answer:
    """Return a row for each delta of a table."""
    rows = []
    for locator, delta in table.deltas():
        files = delta.manifest.entries
        data = sum(file.row_count for file in files if file.kind is FileKind.DATA)
        rows.append(
            (locator.partition_id, locator.position, delta.type.value, len(files), data, delta.manifest.size_bytes)
        )
    return Answer(
        "partition_id string, position bigint, type string, files bigint, rows bigint, size_bytes bigint", tuple(rows)
    )


def file_rows(table: LakeTable) -> Answer:
    """Return a row for each file that a read of the whole table opens."""
    state = table.state()
    plan = plan_scan(state)
    scheme = state.version.partition_scheme.fields
    rows = [
        (
            scan.file.location,
            scan.file.kind.value,
            scan.position,
            _partition(scan.log_values or scan.file.partition_values or (), [field.name for field in scheme]),
            scan.file.row_count,
            scan.file.size_bytes,
            len(scan.hidden_by),
        )
        for scan in plan.scans
    ]
    rows += [
        (one.file.location, one.file.kind.value, one.position, None, one.file.row_count, one.file.size_bytes, 0)
        for one in plan.key_files
        if one.file.kind is not FileKind.DATA
    ]
    return Answer(
        "location string, kind string, position bigint, partition string, rows bigint, size_bytes bigint, "
        "hidden_by bigint",
        tuple(rows),
    )


def partition_rows(table: LakeTable) -> Answer:
    """Return a row for each partition that rows lie in."""
    state = table.state()
    names = [field.name for field in state.version.partition_scheme.fields]
    found: dict[str, list[int]] = {}
    for scan in plan_scan(state).scans:
        values = scan.log_values or scan.file.partition_values or ()
        entry = found.setdefault(_partition(values, names) or "", [0, 0, 0])
        entry[0] += 1
        entry[1] += scan.file.row_count
        entry[2] += scan.file.size_bytes
    rows = tuple((partition, *numbers) for partition, numbers in sorted(found.items()))
    return Answer("partition string, files bigint, rows bigint, size_bytes bigint", rows)


def _partition(values: tuple[Value | None, ...], names: list[str]) -> str | None:
    if not values:
        return None
    return "/".join(
        f"{name}={'null' if value is None else str(value)}" for name, value in zip(names, values, strict=False)
    )

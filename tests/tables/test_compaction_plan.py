"""Which files a compaction writes again, and that a log means the same afterwards."""

import itertools
import random
from dataclasses import replace

import pytest

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.manifests import ARROW_STREAM, ColumnStatistics, DataFile
from mangrove.model.objects import Delta, TableVersion
from mangrove.model.partitioning import parse_partition_scheme
from mangrove.tables.compaction import (
    AUTO_COMPACTION,
    CLUSTER_BY,
    CompactionBounds,
    auto_compaction_bounds_of,
    is_compaction_due,
    plan_compaction,
    plan_table_compaction,
    resolve_clustering_columns,
)
from mangrove.tables.inline_flush import plan_inline_flushes
from mangrove.tables.scan_plan import list_live_files
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.tables.write_plan import build_append_delta, build_delete_delta, build_upsert_delta, plan_write
from mangrove.testing.table_model import apply_write

SCHEMA = parse_schema("id bigint not null, a int, b string, l array<int>")
KEY = SCHEMA.column("id").id


def table(**properties: str) -> TableState:
    version = TableVersion(1, SCHEMA, keys=(KEY,))
    named = {name.replace("_", "-").replace("--", "."): value for name, value in properties.items()}
    return TableState("s.t", "t", version, logs=(PartitionLog(),), properties=named)


def partitioned(logs: int) -> TableState:
    """Return a table with a log for each of the values 0, 1, … of a column."""
    scheme = parse_partition_scheme(["a"], SCHEMA)
    version = TableVersion(1, SCHEMA, partition_scheme=scheme)
    return TableState("s.t", "t", version, scheme, tuple(PartitionLog((value,)) for value in range(logs)))


def file(name: str, low: int, high: int, size: int = 10) -> DataFile:
    bounds = ColumnStatistics(KEY, null_count=0, minimum=low, maximum=high)
    return DataFile(name, size, 10, source_size_bytes=size, statistics=(bounds,))


def grown(state: TableState, *deltas: object) -> TableState:
    for delta in deltas:
        state = apply_write(state, plan_write({(): delta}))  # type: ignore[dict-item]
    return state


def test_small_files_are_merged_and_large_ones_are_not_rewritten() -> None:
    state = grown(
        table(), build_append_delta([file("large", 0, 9, 90)]), build_append_delta([file("a", 0, 9), file("b", 0, 9)])
    )
    compaction = plan_compaction(state, state.logs[0], 100)
    assert compaction is not None
    assert [scan.file.location for scan in compaction.merged.scans] == ["a", "b"]
    assert [one.location for one in compaction.delta([file("new", 0, 9)]).manifest.entries] == ["large", "new"]
    assert compaction.size_bytes == 20
    assert compaction.row_count == 20


def test_large_files_with_overlapping_key_ranges_are_rewritten() -> None:
    files = [file("a", 0, 10, 90), file("b", 9, 20, 90), file("c", 20, 30, 90)]
    state = grown(table(), *(build_append_delta([one]) for one in files))
    compaction = plan_compaction(state, state.logs[0], 100)
    assert compaction is not None
    assert [scan.file.location for scan in compaction.merged.scans] == ["a", "b"]
    alike = replace(state, properties={CLUSTER_BY: "a, b"})
    compaction = plan_compaction(alike, alike.logs[0], 100)
    assert compaction is not None
    assert compaction.merged.scans == ()


def test_a_full_compaction_rewrites_every_file() -> None:
    state = grown(table(), build_append_delta([file("a", 0, 10, 90)]))
    once = apply_write(state, plan_write({(): plan_compaction(state, state.logs[0], 100, FULL).delta([])}))  # type: ignore[union-attr]
    assert plan_compaction(state, state.logs[0], 100, FULL).row_count == 10  # type: ignore[union-attr]
    assert list_live_files(once.logs[0].deltas) == ()


FULL = CompactionBounds(is_full=True)


def test_bounded_work_takes_the_oldest_files_and_at_least_two() -> None:
    state = grown(table(), *(build_append_delta([file(f"f{number}", 0, 9)]) for number in range(5)))
    for bounds, wanted in [
        (CompactionBounds(files_max=3), ["f0", "f1", "f2"]),
        (CompactionBounds(bytes_max=35), ["f0", "f1", "f2"]),
        (CompactionBounds(files_max=1), ["f0", "f1"]),
    ]:
        compaction = plan_compaction(state, state.logs[0], 100, bounds)
        assert compaction is not None
        assert [scan.file.location for scan in compaction.merged.scans] == wanted
        assert list(compaction.removed_paths) == wanted


def test_bounds_are_for_all_logs_of_a_table_together_and_the_rest_is_counted() -> None:
    state = partitioned(3)
    for number in range(12):
        state = apply_write(state, plan_write({(number % 3,): build_append_delta([file(f"f{number}", 0, 9)])}))
    plan = plan_table_compaction(state, 100, CompactionBounds(files_max=6))
    assert [(one.log_values, len(one.merged.scans)) for one in plan.of_logs] == [((0,), 4), ((1,), 2)]
    assert (plan.files, plan.size_bytes, plan.files_left, plan.bytes_left) == (6, 60, 6, 60)
    whole = plan_table_compaction(state, 100)
    assert (whole.files, whole.files_left) == (12, 0)


def test_a_log_without_rewrites_does_not_count_against_the_bound() -> None:
    state = partitioned(2)
    for number in range(3):
        small, large = file(f"s{number}", 0, 9), file(f"l{number}", 9 * number, 9 * number + 8, 90)
        state = apply_write(state, plan_write({(0,): build_append_delta([small]), (1,): build_append_delta([large])}))
    plan = plan_table_compaction(state, 100, CompactionBounds(files_max=3))
    assert [(one.log_values, len(one.merged.scans)) for one in plan.of_logs] == [((0,), 3), ((1,), 0)]
    assert plan.files_left == 0


def test_a_bound_below_one_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="limit of 0 files"):
        CompactionBounds(files_max=0)


@pytest.mark.parametrize("seed", range(30))
def test_any_number_of_bounded_compactions_preserves_every_row(seed: int) -> None:
    """Files are their own rows here: which (key, writer) pairs are visible must never change."""
    chance = random.Random(seed)
    names = (f"f{number}" for number in itertools.count())
    rows: dict[str, dict[int, str]] = {}
    state = table()

    def new(contents: dict[int, str]) -> DataFile:
        name = next(names)
        rows[name] = contents
        return replace(file(name, min(contents), max(contents)), row_count=len(contents), key_ids=())

    def visible() -> set[tuple[int, str]]:
        alive = list_live_files(state.logs[0].deltas)
        delete_files = [(live.position, rows[live.file.location]) for live in alive if live.deletes_earlier_rows]
        return {
            (key, value)
            for live in alive
            if live.is_data
            for key, value in rows[live.file.location].items()
            if not any(position > live.position and key in keys for position, keys in delete_files)
        }

    for step in range(25):
        contents = {chance.randrange(10): f"{step}" for _ in range(3)}
        match chance.choice(["append", "upsert", "delete", "compact", "compact"]):
            case "append":
                fresh = {key + 100 * step: value for key, value in contents.items()}
                state = grown(state, build_append_delta([new(fresh)]))
            case "upsert":
                state = grown(state, build_upsert_delta([new(contents)], [KEY]))
            case "delete":
                state = grown(state, build_delete_delta([new(contents)], [KEY]))
            case "compact":
                bounds = CompactionBounds(files_max=chance.choice([1, 2, 3, None]))
                compaction = plan_compaction(state, state.logs[0], 100, bounds)
                if compaction is None:
                    continue
                before = visible()
                merged: dict[int, str] = {}
                for scan in compaction.merged.scans:
                    deleted_rows = {key for one in scan.equality_deletes for key in rows[one.file.location]}
                    merged |= {key: value for key, value in rows[scan.file.location].items() if key not in deleted_rows}
                added = [new(merged)] if merged else []
                # A newer write that came while the compaction ran.
                late = chance.random() < 0.5
                if late:
                    late_file = new({chance.randrange(10): "late"})
                    state = grown(state, build_upsert_delta([late_file], [KEY]))
                    before = visible()
                state = grown(state, compaction.delta(added))
                assert visible() == before


def test_rows_are_clustered_by_the_table_property_or_by_keys() -> None:
    assert resolve_clustering_columns(table()) == (KEY,)
    named = replace(table(), properties={CLUSTER_BY: " b,a "})
    assert resolve_clustering_columns(named) == (SCHEMA.column("b").id, SCHEMA.column("a").id)
    with pytest.raises(InvalidInputError, match="'l' has no order"):
        resolve_clustering_columns(replace(table(), properties={CLUSTER_BY: "l"}))


def test_auto_compaction_runs_only_if_enabled_and_due() -> None:
    state = grown(table(), *(build_append_delta([file(f"f{number}", 0, 9)]) for number in range(3)))
    told = {AUTO_COMPACTION: "true", "compaction.deltas-min": "3", "compaction.bytes-max": "1000"}
    assert is_compaction_due(told, state.logs)
    assert not is_compaction_due({}, state.logs)
    assert not is_compaction_due({**told, "compaction.deltas-min": "4"}, state.logs)
    assert auto_compaction_bounds_of(told) == CompactionBounds(bytes_max=1000)
    with pytest.raises(InvalidInputError, match="deltas-min 'many'"):
        is_compaction_due({**told, "compaction.deltas-min": "many"}, state.logs)


def inline(name: str, rows: int = 1) -> DataFile:
    return DataFile(name, 1, rows, content_type=ARROW_STREAM, inline_rows=b"x")


def append_inline(count: int) -> list[Delta]:
    return [build_append_delta([inline(f"inline{number}")]) for number in range(count)]


def flushed_files(state: TableState) -> list[str]:
    """Return the replaced files that are not among the last inline ones."""
    (flush,) = plan_inline_flushes(state)
    return [live.file.location for live in flush.files if not live.file.location.startswith("inline")]


def test_a_flush_replaces_the_files_before_it_that_are_small() -> None:
    sizes = {"large": 3 * 1024 * 1024, "first": 10, "second": 10}
    deltas = [build_append_delta([file(name, 0, 9, size)]) for name, size in sizes.items()]
    assert flushed_files(grown(table(), *deltas, *append_inline(64))) == ["first", "second"]
    many_rows = replace(file("many", 0, 9), row_count=65 * 4)
    state = grown(table(), *deltas, build_append_delta([many_rows]), *append_inline(64))
    assert flushed_files(state) == []
    assert plan_inline_flushes(grown(table(), *deltas, *append_inline(63))) == []


def test_a_flush_replaces_all_files_of_a_delta_or_none() -> None:
    keys = replace(inline("keys", 5), key_ids=(KEY,))
    for row_count, expected in ((10, ["data", "keys"]), (1000, [])):
        mixed = build_delete_delta([keys], [KEY], [replace(file("data", 0, 9), row_count=row_count)])
        reordered = replace(mixed, manifest=replace(mixed.manifest, entries=mixed.manifest.entries[::-1]))
        assert flushed_files(grown(table(), reordered, *append_inline(64))) == expected


def test_a_flush_does_not_read_files_that_are_not_parquet_or_outside_the_lakehouse() -> None:
    for other in (replace(file("a.csv", 0, 9), content_type="text/csv"), file("s3://bucket/a.parquet", 0, 9)):
        assert flushed_files(grown(table(), build_append_delta([other]), *append_inline(64))) == []

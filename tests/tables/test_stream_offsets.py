"""However a stream is cut into batches, it gives every unit of the history once and in order."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType, TableVersion
from mangrove.tables.change_feed import (
    BatchLimit,
    StreamOffset,
    StreamStep,
    StreamUnit,
    advance_offset,
    compute_fingerprint,
    find_changed_versions,
    is_append_compatible,
    offset_from_json,
    plan_initial_step,
    plan_step_between,
    select_batch_units,
)
from mangrove.tables.scan_plan import FileScan
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.tables.write_plan import (
    build_append_delta,
    build_compaction_delta,
    build_overwrite_delta,
    build_upsert_delta,
)

VERSION = TableVersion(1, parse_schema("id bigint not null, name string"), keys=(1,))


def file(name: str, rows: int = 1) -> DataFile:
    return DataFile(f"data/t/{name}.parquet", 10 * rows, rows)


def state(*deltas: tuple[int, Delta]) -> TableState:
    placed = tuple(
        Delta(one.type, one.manifest, position=at, replaces_through=one.replaces_through) for at, one in deltas
    )
    return TableState("s.t", "table-id", VERSION, logs=(PartitionLog((), placed),))


@st.composite
def histories(draw: st.DrawFn) -> list[StreamStep]:
    """Return a first step and some versions after it, each with files, a change or nothing."""
    steps = []
    version = 10
    for place in range(draw(st.integers(1, 6))):
        units = [
            StreamUnit(draw(st.integers(1, 5)), draw(st.integers(1, 50)), FileScan(file(f"{version}-{number}"), 1, ()))
            for number in range(draw(st.integers(0, 4)))
        ]
        if place and draw(st.booleans()) and draw(st.booleans()):
            units = [StreamUnit(1, 1)]
        steps.append(StreamStep(version, tuple(units), is_first=place == 0))
        version += draw(st.integers(1, 3))
    return steps


def after(steps: list[StreamStep], start: StreamOffset) -> list[StreamStep]:
    """Return the steps that the history gives after an offset."""
    return [step for step in steps if step.version > start.version or (step.is_first and start.is_first)]


limits = st.one_of(
    st.just(BatchLimit()),
    st.builds(BatchLimit, files=st.integers(1, 4)),
    st.builds(BatchLimit, rows=st.integers(1, 8)),
    st.builds(BatchLimit, size_bytes=st.integers(1, 90)),
)


@given(histories(), st.lists(limits, min_size=1, max_size=4))
def test_batches_of_any_size_give_every_unit_once_and_in_order(
    steps: list[StreamStep], allowed: list[BatchLimit]
) -> None:
    wanted = [unit for step in steps for unit in step.units]
    offset = StreamOffset("t", steps[0].version, is_first=True)
    taken: list[StreamUnit] = []
    for turn in range(len(wanted) + 1):
        limit = allowed[turn % len(allowed)]
        end = offset_from_json(json.loads(json.dumps(advance_offset(offset, after(steps, offset), limit).to_json())))
        if end == offset:
            break
        upto = [step for step in after(steps, offset) if step.version <= end.version + 1]
        batch = [unit for _, units in select_batch_units(offset, end, upto) for unit in units]
        assert batch
        total = StreamUnit(sum(unit.row_count for unit in batch), sum(unit.size_bytes for unit in batch))
        assert len(batch) == 1 or limit.holds(total, len(batch))
        taken += batch
        offset = end
    assert taken == wanted


def test_an_offset_passes_versions_that_added_no_rows() -> None:
    start = StreamOffset("t", 3, files=2, state="before")
    unit = StreamUnit(1, 1)
    assert advance_offset(start, [], BatchLimit()) is start
    assert advance_offset(replace(start, files=0), [StreamStep(5, ())], BatchLimit()) == StreamOffset("t", 5)
    steps = [StreamStep(4, (unit,) * 3), StreamStep(6, ()), StreamStep(8, (unit,))]
    assert advance_offset(start, steps, BatchLimit(files=1)) == StreamOffset("t", 7)
    empty = StreamOffset("t", 3, is_first=True)
    assert advance_offset(empty, [StreamStep(3, (), is_first=True), StreamStep(5, ())], BatchLimit()) is empty


@given(st.lists(st.integers(0, 2), min_size=2, max_size=40))
def test_changed_versions_are_found_without_reading_unchanged_ones(kinds: list[int]) -> None:
    looked: set[int] = set()
    # Each number that is not 0 adds a delta, so no state comes twice.
    counts = [sum(1 for kind in kinds[: place + 1] if kind) for place in range(len(kinds))]

    def logs_of(version: int) -> tuple[PartitionLog, ...]:
        looked.add(version)
        return state(*((at, build_append_delta([file(str(at))])) for at in range(1, counts[version] + 1))).logs

    found = list(find_changed_versions(0, len(kinds) - 1, logs_of))
    assert found == [place for place in range(1, len(kinds)) if kinds[place]]
    if not found:
        assert len(looked) <= 2


def test_appended_files_are_new_and_compacted_ones_are_not() -> None:
    before = state((1, build_append_delta([file("a")])), (2, build_append_delta([file("b")])))
    grown = state(
        (1, build_append_delta([file("a")])),
        (2, build_append_delta([file("b")])),
        (3, build_append_delta([file("c"), file("d")])),
    )
    step = plan_step_between(before, grown, 7)
    assert [unit.scan.file.location for unit in step.units if unit.scan] == ["data/t/c.parquet", "data/t/d.parquet"]
    small = state((3, build_append_delta([file("c"), file("d")])), (4, build_compaction_delta([file("ab", 2)], 2)))
    assert plan_step_between(grown, small, 8).units == ()
    assert compute_fingerprint(grown) != compute_fingerprint(small)
    assert len(plan_initial_step(small, 8).units) == 3


@pytest.mark.parametrize(
    "later",
    [
        state((1, build_append_delta([file("a")])), (2, build_upsert_delta([file("b")], (1,)))),
        state((1, build_append_delta([file("a")])), (2, Delta(DeltaType.DELETE, Manifest((file("k"),))))),
        state((2, build_overwrite_delta([file("z")]))),
        state(),
        # Rolled back, and something else was appended since.
        state((1, build_append_delta([file("other")]))),
        # Compacted together with rows that nobody has seen.
        state((2, build_compaction_delta([file("more", 5)], 2))),
        TableState("s.t", "table-id", VERSION),
    ],
)
def test_a_version_with_other_changes_is_one_unit(later: TableState) -> None:
    step = plan_step_between(state((1, build_append_delta([file("a")]))), later, 5)
    assert step.is_change
    assert len(step.units) == 1


def test_files_stay_compatible_until_keys_or_partitions_change() -> None:
    wider = TableVersion(1, parse_schema("id bigint not null, name string, more int"), keys=(1,))
    strict = TableVersion(1, parse_schema("id bigint not null, name string not null"), keys=(1,))
    other = TableVersion(1, parse_schema("id bigint not null, name string"), keys=(2,))
    was = TableState("s.t", "table-id", VERSION)
    assert is_append_compatible(was, TableState("s.renamed", "table-id", wider))
    for version in (strict, other):
        assert not is_append_compatible(was, TableState("s.t", "table-id", version))
    assert not is_append_compatible(was, TableState("s.t", "another-id", VERSION))


@pytest.mark.parametrize("given_offset", [{}, {"version": "x"}, {"table": "t", "version": 1, "files": None}])
def test_an_offset_of_another_source_is_rejected(given_offset: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="use a new checkpoint"):
        offset_from_json(given_offset)

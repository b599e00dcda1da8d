"""However a stream is cut into batches, it gives every unit of the history once and in order."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType, TableVersion
from mangrove.model.sql_text import parse_schema
from mangrove.tables.scan_plan import FileScan
from mangrove.tables.stream_fit import still_fits
from mangrove.tables.stream_offsets import BatchLimit, StreamOffset, advanced, offset_from_json, units_between
from mangrove.tables.stream_steps import Step, Unit, changed_versions, fingerprint, first_step, step_between
from mangrove.tables.table_state import Log, TableState
from mangrove.tables.writing import appended, compacted, overwritten, upserted

VERSION = TableVersion(1, parse_schema("id bigint not null, name string"), keys=(1,))


def file(name: str, rows: int = 1) -> DataFile:
    return DataFile(f"data/t/{name}.parquet", 10 * rows, rows)


def state(*deltas: tuple[int, Delta]) -> TableState:
    placed = tuple(
        Delta(one.type, one.manifest, position=at, replaces_through=one.replaces_through) for at, one in deltas
    )
    return TableState("s.t", "table-id", VERSION, logs=(Log((), placed),))


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Return a first step and some versions after it, each with files, a change or nothing."""
    steps = []
    version = 10
    for place in range(draw(st.integers(1, 6))):
        units = [
            Unit(draw(st.integers(1, 5)), draw(st.integers(1, 50)), FileScan(file(f"{version}-{number}"), 1, ()))
            for number in range(draw(st.integers(0, 4)))
        ]
        if place and draw(st.booleans()) and draw(st.booleans()):
            units = [Unit(1, 1)]
        steps.append(Step(version, tuple(units), is_first=place == 0))
        version += draw(st.integers(1, 3))
    return steps


def after(steps: list[Step], start: StreamOffset) -> list[Step]:
    """Return the steps that the history gives after an offset."""
    return [step for step in steps if step.version > start.version or (step.is_first and start.is_first)]


limits = st.one_of(
    st.just(BatchLimit()),
    st.builds(BatchLimit, files=st.integers(1, 4)),
    st.builds(BatchLimit, rows=st.integers(1, 8)),
    st.builds(BatchLimit, size_bytes=st.integers(1, 90)),
)


@given(histories(), st.lists(limits, min_size=1, max_size=4))
def test_batches_of_any_size_give_every_unit_once_and_in_order(steps: list[Step], allowed: list[BatchLimit]) -> None:
    wanted = [unit for step in steps for unit in step.units]
    offset = StreamOffset("t", steps[0].version, is_first=True)
    taken: list[Unit] = []
    for turn in range(len(wanted) + 1):
        limit = allowed[turn % len(allowed)]
        end = offset_from_json(json.loads(json.dumps(advanced(offset, after(steps, offset), limit).to_json())))
        if end == offset:
            break
        upto = [step for step in after(steps, offset) if step.version <= end.version + 1]
        batch = [unit for _, units in units_between(offset, end, upto) for unit in units]
        assert batch
        total = Unit(sum(unit.row_count for unit in batch), sum(unit.size_bytes for unit in batch))
        assert len(batch) == 1 or limit.holds(total, len(batch))
        taken += batch
        offset = end
    assert taken == wanted


@given(st.lists(st.integers(0, 2), min_size=2, max_size=40))
def test_versions_that_differ_are_found_without_looking_at_all_of_a_quiet_time(kinds: list[int]) -> None:
    looked: set[int] = set()
    # Each number that is not 0 adds a delta, so no state comes twice.
    counts = [sum(1 for kind in kinds[: place + 1] if kind) for place in range(len(kinds))]

    def logs_of(version: int) -> tuple[Log, ...]:
        looked.add(version)
        return state(*((at, appended([file(str(at))])) for at in range(1, counts[version] + 1))).logs

    found = list(changed_versions(0, len(kinds) - 1, logs_of))
    assert found == [place for place in range(1, len(kinds)) if kinds[place]]
    if not found:
        assert len(looked) <= 2


def test_appended_files_are_new_and_compacted_ones_are_not() -> None:
    before = state((1, appended([file("a")])), (2, appended([file("b")])))
    grown = state((1, appended([file("a")])), (2, appended([file("b")])), (3, appended([file("c"), file("d")])))
    step = step_between(before, grown, 7)
    assert [unit.scan.file.location for unit in step.units if unit.scan] == ["data/t/c.parquet", "data/t/d.parquet"]
    small = state((3, appended([file("c"), file("d")])), (4, compacted([file("ab", 2)], 2)))
    assert step_between(grown, small, 8).units == ()
    assert fingerprint(grown) != fingerprint(small)
    assert len(first_step(small, 8).units) == 3


@pytest.mark.parametrize(
    "later",
    [
        state((1, appended([file("a")])), (2, upserted([file("b")], (1,)))),
        state((1, appended([file("a")])), (2, Delta(DeltaType.DELETE, Manifest((file("k"),))))),
        state((2, overwritten([file("z")]))),
        state(),
        # Rolled back, and something else was appended since.
        state((1, appended([file("other")]))),
        # Compacted together with rows that nobody has seen.
        state((2, compacted([file("more", 5)], 2))),
        TableState("s.t", "table-id", VERSION),
    ],
)
def test_whatever_else_a_version_does_is_a_change_that_is_given_as_a_whole(later: TableState) -> None:
    step = step_between(state((1, appended([file("a")]))), later, 5)
    assert step.is_change
    assert len(step.units) == 1


def test_files_fit_as_long_as_keys_and_partitions_stay() -> None:
    wider = TableVersion(1, parse_schema("id bigint not null, name string, more int"), keys=(1,))
    strict = TableVersion(1, parse_schema("id bigint not null, name string not null"), keys=(1,))
    other = TableVersion(1, parse_schema("id bigint not null, name string"), keys=(2,))
    was = TableState("s.t", "table-id", VERSION)
    assert still_fits(was, TableState("s.renamed", "table-id", wider))
    for version in (strict, other):
        assert not still_fits(was, TableState("s.t", "table-id", version))
    assert not still_fits(was, TableState("s.t", "another-id", VERSION))


@pytest.mark.parametrize("given_offset", [{}, {"version": "x"}, {"table": "t", "version": 1, "files": None}])
def test_an_offset_of_somebody_else_is_refused(given_offset: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="use a new checkpoint"):
        offset_from_json(given_offset)

"""Which files of a log count, against the rules applied one by one."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mangrove.expressions.schema_text import parse_schema
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.objects import Delta, DeltaType, TableVersion
from mangrove.tables.scan_plan import LiveFile, list_live_files, plan_scan
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.tables.write_plan import (
    build_append_delta,
    build_compaction_delta,
    build_overwrite_delta,
    build_position_delete_delta,
    build_rewrite_delta,
)

SCHEMA = parse_schema("id bigint")
NAMES = "abcdef"


def file(name: str) -> DataFile:
    return DataFile(f"data/{name}", 1, 1)


names = st.lists(st.sampled_from(NAMES), max_size=3)
log_deltas = st.lists(
    st.one_of(
        names.map(lambda listed: build_append_delta([file(name) for name in listed])),
        names.map(lambda listed: build_overwrite_delta([file(name) for name in listed])),
        st.builds(
            lambda gone, listed: build_rewrite_delta(
                [f"data/{name}" for name in gone], [file(name) for name in listed]
            ),
            names.filter(bool),
            names,
        ),
        st.builds(
            lambda listed, through: build_compaction_delta([file(name) for name in listed], through),
            names,
            st.integers(1, 8),
        ),
    ),
    max_size=10,
).map(lambda deltas: [replace(delta, position=place) for place, delta in enumerate(deltas, 1)])


def applied(deltas: list[Delta]) -> list[LiveFile]:
    """Return the files that count, having gone through all of them for each delta."""
    alive: list[LiveFile] = []
    for delta in deltas:
        assert delta.position is not None
        stands_at = delta.position
        if delta.type is DeltaType.REPLACE and delta.replaced_locations:
            alive = [live for live in alive if live.file.location not in delta.replaced_locations]
        elif delta.type is DeltaType.REPLACE:
            stands_at = delta.replaces_through or delta.position
            alive = [live for live in alive if live.position > stands_at]
        alive += [LiveFile(entry, stands_at, deletes_earlier_rows=False) for entry in delta.manifest.entries]
    return sorted(alive, key=lambda live: live.position)


@given(log_deltas)
def test_live_files_are_those_remaining_after_applying_the_deltas(deltas: list[Delta]) -> None:
    assert list(list_live_files(deltas)) == applied(deltas)


class CountedLocation(str):
    """A location that counts how often it is looked at as a key, or compared."""

    times = 0
    __slots__ = ()

    def __hash__(self) -> int:
        CountedLocation.times += 1
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        CountedLocation.times += 1
        return str.__eq__(self, other)


def count_rewrite_comparisons(count: int) -> int:
    """Return how often locations are looked at where each of `count` files is rewritten by a delta of its own."""
    files = [replace(file(str(number)), location=CountedLocation(f"data/{number}")) for number in range(count)]
    deltas = [build_append_delta(files)]
    deltas += [build_rewrite_delta([f"data/{number}"], [file(f"new-{number}")]) for number in range(count)]
    CountedLocation.times = 0
    found = list_live_files(replace(delta, position=place) for place, delta in enumerate(deltas, 1))
    assert [live.file.location for live in found] == [f"data/new-{number}" for number in range(count)]
    return CountedLocation.times


def test_listing_live_files_after_many_rewrites_is_linear() -> None:
    few, many = count_rewrite_comparisons(100), count_rewrite_comparisons(200)
    assert few > 0
    assert many <= 3 * few


def numbers_of(count: int, everywhere: tuple[int, ...] = ()) -> int:
    """Return how often locations are looked at where each of `count` files has a file of deleted row numbers."""
    files = [replace(file(str(number)), location=CountedLocation(f"data/{number}")) for number in range(count)]
    gone = [
        DataFile(
            f"data/gone-{number}",
            1,
            1,
            kind=FileKind.POSITION_DELETES,
            applies_to=None if number in everywhere else CountedLocation(f"data/{number}"),
        )
        for number in range(count)
    ]
    deltas = (replace(build_append_delta(files), position=1), replace(build_position_delete_delta(gone), position=2))
    state = TableState("s.t", "t", TableVersion(1, SCHEMA), logs=(PartitionLog((), deltas),))
    CountedLocation.times = 0
    plan = plan_scan(state)
    times = CountedLocation.times
    for number, scan in enumerate(plan.scans):
        wanted = sorted({number, *everywhere})
        assert [one.location for one in scan.position_deletes] == [f"data/gone-{which}" for which in wanted]
    return times


def test_finding_position_deletes_of_many_files_is_linear() -> None:
    few, many = numbers_of(100), numbers_of(200)
    assert few > 0
    assert many <= 3 * few
    numbers_of(10, everywhere=(3, 7))

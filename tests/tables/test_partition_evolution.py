"""The merge of the logs of a partitioned table into one keeps rows, deletes and their order."""

import pytest

from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.objects import Delta, DeltaType, TableVersion
from mangrove.model.partitioning import parse_partition_scheme
from mangrove.tables.partition_evolution import plan_merged_log
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.tables.write_plan import (
    build_append_delta,
    build_delete_delta,
    build_overwrite_delta,
    build_position_delete_delta,
    build_upsert_delta,
)

SCHEMA = parse_schema("id bigint not null, day int not null")
SCHEME = parse_partition_scheme(["day"], SCHEMA)


def file(name: str) -> DataFile:
    return DataFile(f"data/{name}.parquet", 10, 1)


def positions(name: str) -> DataFile:
    return DataFile(f"data/{name}.parquet", 10, 1, FileKind.POSITION_DELETES)


def log(day: int, *deltas: Delta) -> PartitionLog:
    numbered = tuple(
        Delta(one.type, one.manifest, position=place, replaced_locations=one.replaced_locations)
        for place, one in enumerate(deltas, 1)
    )
    return PartitionLog((day,), numbered)


def state_of(*logs: PartitionLog, keys: tuple[int, ...] = ()) -> TableState:
    return TableState("t", "t", TableVersion(1, SCHEMA, keys=keys, partition_scheme=SCHEME), SCHEME, logs)


def list_merged(state: TableState) -> list[tuple[DeltaType, list[tuple[str, object]]]]:
    write = plan_merged_log(state)
    assert all(planned.log_values == () for planned in write.deltas)
    entries = [(planned.delta.type, planned.delta.manifest) for planned in write.deltas]
    for _, manifest in entries:
        assert {one.partition_scheme_id for one in manifest.entries} == {SCHEME.id}
    return [(kind, [(one.location, one.partition_values) for one in manifest.entries]) for kind, manifest in entries]


def test_files_without_keys_are_one_append_with_their_partition_values() -> None:
    first = log(1, build_append_delta([file("a")]), build_overwrite_delta([file("b"), file("c")]))
    second = log(2, build_append_delta([file("d")]), build_position_delete_delta([positions("e")]))
    assert list_merged(state_of(first, second)) == [
        (
            DeltaType.APPEND,
            [
                ("data/b.parquet", (1,)),
                ("data/c.parquet", (1,)),
                ("data/d.parquet", (2,)),
            ],
        ),
        (DeltaType.POSITION_DELETE, [("data/e.parquet", (2,))]),
    ]


def test_keys_stay_behind_the_rows_that_they_replace_and_before_those_that_came_later() -> None:
    first = log(1, build_append_delta([file("a")]), build_upsert_delta([file("b")], [1, 2]))
    second = log(
        2,
        build_append_delta([file("c")]),
        build_delete_delta([file("d")], [1, 2], [file("e")]),
        build_append_delta([file("f")]),
    )
    assert list_merged(state_of(first, second, keys=(1, 2))) == [
        (DeltaType.APPEND, [("data/a.parquet", (1,))]),
        (DeltaType.UPSERT, [("data/b.parquet", (1,))]),
        (DeltaType.APPEND, [("data/c.parquet", (2,))]),
        (DeltaType.DELETE, [("data/d.parquet", (2,))]),
        (DeltaType.APPEND, [("data/e.parquet", (2,))]),
        (DeltaType.APPEND, [("data/f.parquet", (2,))]),
    ]


def test_deletes_by_columns_that_do_not_determine_the_partition_are_refused() -> None:
    deleted = log(1, build_append_delta([file("a")]), build_delete_delta([file("b")], [1]))
    with pytest.raises(InvalidInputError, match="compact it"):
        plan_merged_log(state_of(deleted))
    replaced = log(
        1, *(build_append_delta([file("a")]), build_delete_delta([file("b")], [1]), build_overwrite_delta([]))
    )
    assert plan_merged_log(state_of(replaced)).deltas == ()

"""Which files a log of deltas means, which keys hide what, and what a read need not open."""

from dataclasses import replace
from typing import Any

import pytest

from mangrove.errors import InvalidInputError
from mangrove.expressions.parse import parse_predicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.manifests import ColumnStatistics, DataFile, FileKind
from mangrove.model.objects import Delta, DeltaType, TableVersion
from mangrove.model.partitioning import PartitionScheme, parse_partition_scheme
from mangrove.model.types import Column, Varchar
from mangrove.tables.scan_plan import ScanPlan, plan_scan
from mangrove.tables.table_state import PartitionLog, TableState, is_partition_determined_by_keys
from mangrove.tables.write_plan import (
    build_append_delta,
    build_compaction_delta,
    build_delete_delta,
    build_overwrite_delta,
    build_position_delete_delta,
    build_rewrite_delta,
    build_upsert_delta,
)

SCHEMA = parse_schema("id bigint not null, name string, day date")


def file(name: str, low: int = 0, high: int = 99, row_count: int = 10, **fields: Any) -> DataFile:
    statistics = (ColumnStatistics(1, null_count=0, minimum=low, maximum=high),)
    return DataFile(f"data/{name}", 100, row_count, statistics=statistics, schema_id=0, **fields)


def log_of(*deltas: Delta, first: int = 1) -> PartitionLog:
    return PartitionLog((), tuple(replace(delta, position=first + place) for place, delta in enumerate(deltas)))


def state_of(log: PartitionLog, **fields: Any) -> TableState:
    return TableState("s.t", "table-id", TableVersion(1, SCHEMA, keys=(1,), **fields), logs=(log,))


def names(plan: ScanPlan) -> list[str]:
    return [scan.file.location.removeprefix("data/") for scan in plan.scans]


def deleted_rows(plan: ScanPlan) -> dict[str, list[str]]:
    return {
        scan.file.location.removeprefix("data/"): [
            key.file.location.removeprefix("data/") for key in scan.equality_deletes
        ]
        for scan in plan.scans
    }


def test_an_upsert_deletes_rows_of_earlier_files_but_not_its_own() -> None:
    log = log_of(
        build_append_delta([file("a")]),
        build_upsert_delta([file("b"), file("c")], [1]),
        build_append_delta([file("d")]),
    )
    assert deleted_rows(plan_scan(state_of(log))) == {"a": ["b", "c"], "b": [], "c": [], "d": []}


def test_equality_deletes_apply_to_earlier_files_and_the_remaining_rows_are_read() -> None:
    log = log_of(
        build_append_delta([file("a")]),
        build_delete_delta([file("k")], [1], [file("s")]),
        build_append_delta([file("b")]),
    )
    plan = plan_scan(state_of(log))
    assert deleted_rows(plan) == {"a": ["k"], "s": [], "b": []}
    assert [key_file.key_ids for key_file in plan.key_files] == [(1,)]


def test_an_overwrite_removes_all_earlier_files() -> None:
    log = log_of(
        build_append_delta([file("a")]),
        build_delete_delta([file("k")], [1]),
        build_overwrite_delta([file("b")]),
        build_append_delta([file("c")]),
    )
    assert deleted_rows(plan_scan(state_of(log))) == {"b": [], "c": []}


def test_deltas_added_during_a_compaction_apply_to_its_rows() -> None:
    log = log_of(
        build_append_delta([file("a")]),
        build_upsert_delta([file("b")], [1]),
        build_upsert_delta([file("meanwhile")], [1]),
        build_compaction_delta([file("merged")], 2),
        build_append_delta([file("after")]),
    )
    assert deleted_rows(plan_scan(state_of(log))) == {"merged": ["meanwhile"], "meanwhile": [], "after": []}


def test_a_rewrite_takes_only_the_named_files_away() -> None:
    log = log_of(build_append_delta([file("a"), file("b")]), build_rewrite_delta(["data/a"], [file("c")]))
    assert names(plan_scan(state_of(log))) == ["b", "c"]


def test_an_overwrite_with_nothing_leaves_nothing() -> None:
    assert plan_scan(state_of(log_of(build_append_delta([file("a")]), build_overwrite_delta([])))) == ScanPlan(())


def test_equality_deletes_outside_the_bounds_of_a_file_do_not_apply_to_it() -> None:
    log = log_of(
        build_append_delta([file("low", 0, 9), file("high", 10, 19)]), build_upsert_delta([file("u", 12, 30)], [1])
    )
    assert deleted_rows(plan_scan(state_of(log))) == {"low": [], "high": ["u"], "u": []}


def test_a_file_pruned_by_a_predicate_is_skipped_with_its_reason() -> None:
    log = log_of(build_append_delta([file("low", 0, 9), file("high", 10, 19), file("none", row_count=0)]))
    plan = plan_scan(state_of(log), parse_predicate("id > 9", SCHEMA))
    assert names(plan) == ["high"]
    assert [(skipped.file.location, skipped.reason) for skipped in plan.skipped] == [
        ("data/low", "the statistics do not match"),
        ("data/none", "no rows"),
    ]


def test_an_upsert_pruned_by_a_predicate_on_other_columns_still_deletes() -> None:
    newer = replace(
        file("u"), statistics=(*file("u").statistics, ColumnStatistics(2, null_count=0, minimum="x", maximum="x"))
    )
    log = log_of(build_append_delta([file("a")]), build_upsert_delta([newer], [1]))
    assert deleted_rows(plan_scan(state_of(log), parse_predicate("name = 'a'", SCHEMA))) == {"a": ["u"]}


def test_equality_deletes_pruned_by_a_predicate_are_not_opened() -> None:
    log = log_of(build_append_delta([file("a", 0, 99)]), build_upsert_delta([file("u", 50, 60)], [1]))
    assert deleted_rows(plan_scan(state_of(log), parse_predicate("id < 10", SCHEMA))) == {"a": []}


def test_a_column_added_after_a_file_is_null_in_it() -> None:
    later = replace(SCHEMA, columns=(*SCHEMA.columns, Column(9, "note", Varchar())), schema_id=1, last_column_id=9)
    version = TableVersion(1, later, earlier_schemas=(SCHEMA,), keys=(1,))
    state = TableState("s.t", "table-id", version, logs=(log_of(build_append_delta([file("old")])),))
    assert names(plan_scan(state, parse_predicate("note = 'x'", later))) == []
    assert names(plan_scan(state, parse_predicate("note is null", later))) == ["old"]


def test_partitions_are_pruned_by_the_values_of_a_log_or_a_file() -> None:
    scheme = parse_partition_scheme(["name"], SCHEMA, "1")
    predicate = parse_predicate("name = 'x'", SCHEMA)
    version = TableVersion(1, SCHEMA, partition_scheme=scheme)
    logs = tuple(
        PartitionLog((value,), log_of(build_append_delta([file(value or "null")])).deltas) for value in ("x", "y", None)
    )
    by_log = TableState("s.t", "table-id", version, scheme, logs)
    assert names(plan_scan(by_log, predicate)) == ["x"]
    files = [file(value, partition_values=(value,)) for value in ("x", "y")]
    by_file = TableState("s.t", "table-id", version, logs=(log_of(build_append_delta(files)),))
    assert names(plan_scan(by_file, predicate)) == ["x"]
    changed = replace(version, earlier_partition_schemes=(parse_partition_scheme(["id"], SCHEMA, "0"),))
    in_doubt = TableState("s.t", "table-id", changed, logs=(log_of(build_append_delta(files)),))
    assert names(plan_scan(in_doubt, predicate)) == ["x", "y"]


def test_equality_deletes_of_one_log_do_not_apply_to_another() -> None:
    scheme = parse_partition_scheme(["name"], SCHEMA)
    version = TableVersion(1, SCHEMA, keys=(1, 2), partition_scheme=scheme)
    logs = (
        PartitionLog(("x",), log_of(build_append_delta([file("a")])).deltas),
        PartitionLog(("y",), log_of(build_append_delta([file("b")]), build_upsert_delta([file("u")], [1, 2])).deltas),
    )
    assert deleted_rows(plan_scan(TableState("s.t", "id", version, scheme, logs))) == {"a": [], "b": ["u"], "u": []}


def test_position_deletes_apply_to_their_data_file_or_to_all_if_none_is_named() -> None:
    of_one = DataFile("data/p", 1, 1, kind=FileKind.POSITION_DELETES, applies_to="data/a")
    of_any = DataFile("data/q", 1, 1, kind=FileKind.POSITION_DELETES)
    deltas = (
        build_append_delta([file("a")]),
        build_append_delta([file("b")]),
        build_position_delete_delta([of_one, of_any], [file("c")]),
    )
    plan = plan_scan(TableState("s.t", "id", TableVersion(1, SCHEMA), logs=(log_of(*deltas),)))
    assert {scan.file.location: scan.position_deletes for scan in plan.scans} == {
        "data/a": (of_one, of_any),
        "data/b": (of_any,),
        "data/c": (of_any,),
    }
    assert not any(scan.is_whole for scan in plan.scans)
    assert {one.location for one in plan.files()} == {"data/a", "data/b", "data/c", "data/p", "data/q"}


@pytest.mark.parametrize("positions", [[2, 1], [1, 1], [None]])
def test_an_unordered_log_is_rejected(positions: list[int | None]) -> None:
    with pytest.raises(InvalidInputError):
        PartitionLog((), tuple(Delta(DeltaType.APPEND, position=position) for position in positions))


@pytest.mark.parametrize(("keys", "decide"), [((1,), False), ((3,), True), ((1, 3), True)])
def test_keys_decide_the_partition_only_if_they_hold_its_columns(keys: tuple[int, ...], decide: bool) -> None:
    assert is_partition_determined_by_keys(keys, parse_partition_scheme(["months(day)"], SCHEMA)) is decide
    assert is_partition_determined_by_keys(keys, PartitionScheme())


def test_the_reason_why_keys_cannot_find_rows_is_reported() -> None:
    scheme = parse_partition_scheme(["day"], SCHEMA)
    with pytest.raises(InvalidInputError, match="do not determine the partition"):
        TableState("s.t", "id", TableVersion(1, SCHEMA, keys=(1,), partition_scheme=scheme), scheme).checked_keys("x")
    with pytest.raises(InvalidInputError, match="has no keys, which an upsert requires"):
        TableState("s.t", "id", TableVersion(1, SCHEMA)).checked_keys("an upsert")
    floats = TableVersion(1, parse_schema("f double not null"), keys=(1,))
    with pytest.raises(InvalidInputError, match="inexact type"):
        TableState("s.t", "id", floats).checked_keys("an upsert")

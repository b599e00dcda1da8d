"""Compaction in this process: bounded, clustered, and by itself where a table says so."""

from pathlib import Path
from typing import Any

import pytest

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.local.engine import LocalEngine
from mangrove.maintenance.progress import Progress
from mangrove.tables.compaction import CompactionBounds, CompactionReport
from mangrove.tables.predicate_text import bound_predicate
from mangrove.tables.scan_plan import plan_scan
from mangrove.testing.table_model import with_write


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    return lake


def rows_of(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])


def test_bounded_compactions_reach_the_end_and_keep_the_past(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id bigint not null, v int", keys=["id"])
    for number in range(6):
        table.upsert([{"id": number, "v": number}, {"id": number + 1, "v": number}])
    before, wanted = lake.version, rows_of(table)
    files = []
    for _ in range(4):
        table.compact(files_max=2)
        assert rows_of(table) == wanted
        files.append(len(table.scan().files()))
    assert files[-1] < files[0] < 6
    assert len(lake.at(before).table("s.t").scan().files()) == 6
    assert rows_of(lake.at(before).table("s.t")) == wanted


def test_who_watches_sees_every_file_go_by_and_the_report_says_what_is_left(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "id bigint not null, p int", partition_by=["p"])
    for number in range(6):
        table.append([{"id": number, "p": number % 2}])
    seen: list[Progress] = []
    report = table.compact(files_max=5, watch=seen.append)
    assert [(one.what, one.files_done, one.files_total) for one in (seen[0], seen[-1])] == [
        ("compacting s.t", 0, 5),
        ("compacting s.t", 5, 5),
    ]
    assert seen == sorted(seen, key=lambda one: one.bytes_done)
    assert seen[-1].bytes_done == seen[-1].bytes_total == report.bytes_read
    assert (report.logs, report.files_read, report.files_written, report.files_left) == (2, 5, 2, 1)
    assert report.bytes_left > 0
    assert table.compact().files_left == 0
    assert table.compact() == CompactionReport()


def test_a_table_that_is_told_to_compacts_itself(lake: Lakehouse) -> None:
    told = {"compaction.auto": "true", "compaction.deltas-min": "4"}
    table = lake.create_table("s.t", "id bigint, v int", properties=told)
    for number in range(9):
        table.append([{"id": number}])
    assert len(list(table.deltas())) < 4
    assert [row["id"] for row in rows_of(table)] == list(range(9))
    messages = [line.message for line in lake.history()]
    assert sum(message.startswith("compact") for message in messages) == 2


def test_a_transaction_of_several_statements_does_not_compact_by_itself(lake: Lakehouse) -> None:
    told = {"compaction.auto": "true", "compaction.deltas-min": "2"}
    lake.create_table("s.t", "id bigint", properties=told)
    with lake.transaction() as transaction:
        for number in range(4):
            transaction.table("s.t").append([{"id": number}])
    assert len(list(lake.table("s.t").deltas())) == 4


def test_files_of_a_table_with_keys_share_no_keys_after_a_compaction(lake: Lakehouse) -> None:

    table = lake.create_table("s.t", "id bigint not null, v int", keys=["id"])
    for first in range(3):
        table.append([{"id": number * 3 + first, "v": 0} for number in range(40)])
    engine = LocalEngine(lake.effects.store, lake.new_id, file_size_bytes=400)
    state = with_write(table.state(), engine.compact(table.state()))

    assert len(plan_scan(state).scans) >= 3
    for wanted in (0, 57, 119):
        assert len(plan_scan(state, bound_predicate(f"id = {wanted}", state.schema)).files()) <= 2


def test_a_z_order_prunes_by_each_of_its_columns(lake: Lakehouse) -> None:

    table = lake.create_table("s.t", "a bigint, b bigint", properties={"write.cluster-by": "a, b"})
    table.append([{"a": a, "b": b} for a in range(16) for b in range(16)])
    table.append([{"a": None, "b": 3}])
    engine = LocalEngine(lake.effects.store, lake.new_id, file_size_bytes=260)
    state = with_write(table.state(), engine.compact(table.state(), CompactionBounds(is_full=True)))
    total = len(plan_scan(state).scans)
    assert total >= 16
    for where in ("a = 5", "b = 5"):
        assert len(plan_scan(state, bound_predicate(where, state.schema)).scans) <= total // 2


def test_an_unknown_engine_is_refused(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "a bigint")
    with pytest.raises(InvalidInputError, match="'ray' is no engine"):
        table.compact(engine="ray")

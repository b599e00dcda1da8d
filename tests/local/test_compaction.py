"""Compaction in this process: bounded, clustered, and by itself where a table says so."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.expressions.parse import bind_predicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.local.engine import LocalEngine
from mangrove.maintenance.progress import Progress
from mangrove.model.locators import parse_table_name
from mangrove.model.objects import TableVersion
from mangrove.storage.memory import MemoryStore
from mangrove.tables.compaction import CompactionBounds, CompactionReport
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import TableState
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.table_model import apply_write
from mangrove.transaction.catalog import alter_table


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    return lake


def rows_of(table: Any) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])


def test_bounded_compactions_make_progress_and_keep_earlier_versions(lake: Lakehouse) -> None:
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


def test_compaction_reports_progress_and_the_remaining_files(lake: Lakehouse) -> None:
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


def test_auto_compaction_compacts_a_table_after_writes(lake: Lakehouse) -> None:
    told = {"compaction.auto": "true", "compaction.deltas-min": "4"}
    table = lake.create_table("s.t", "id bigint, v int", properties=told)
    for number in range(9):
        table.append([{"id": number}])
    assert len(list(table.deltas())) < 4
    assert [row["id"] for row in rows_of(table)] == list(range(9))
    messages = [line.message for line in lake.history()]
    assert sum(message.startswith("compact") for message in messages) == 2


def test_auto_compaction_runs_after_a_transaction(lake: Lakehouse) -> None:
    told = {"compaction.auto": "true", "compaction.deltas-min": "2"}
    lake.create_table("s.t", "id bigint", properties=told)
    with lake.transaction() as transaction:
        for number in range(4):
            transaction.table("s.t").append([{"id": number}])
        assert len(list(transaction.table("s.t").deltas())) == 4
    assert len(list(lake.table("s.t").deltas())) == 1


def test_rows_without_an_order_are_compacted_with_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    file_bytes = 1024 * 1024
    monkeypatch.setattr("mangrove.local.scan._IN_FLIGHT_BYTES_MAX", 2 * file_bytes)
    monkeypatch.setattr("mangrove.local.data_files._ENCODED_BYTES_MAX", 4 * file_bytes)
    monkeypatch.setattr("mangrove.local.data_files.FILES_PER_BATCH_MAX", 1)
    allocated: list[int] = []

    class ObservedStore(MemoryStore):
        """A store that records Arrow's memory at each write."""

        def put_many(self, objects: Mapping[str, bytes]) -> None:
            allocated.append(pa.total_allocated_bytes())
            super().put_many(objects)

    store = ObservedStore()
    engine = LocalEngine(store, build_deterministic_effects(store).new_id, file_size_bytes=2 * file_bytes)
    state = TableState("s.t", "table-id", TableVersion(1, parse_schema("v bigint")))
    for number in range(40):
        rows = pa.table({"v": pa.repeat(pa.scalar(number, pa.int64()), file_bytes // 8)})
        state = apply_write(state, engine.append(state, rows))
    del rows
    allocated.clear()
    before = pa.total_allocated_bytes()
    state = apply_write(state, engine.compact(state))
    assert len(allocated) == len(plan_scan(state).scans) == 20
    assert max(allocated) - before < 14 * file_bytes
    assert pc.unique(engine.read(state)["v"]).to_pylist() == list(range(40))


def test_files_of_a_table_with_keys_share_no_keys_after_a_compaction(lake: Lakehouse) -> None:

    table = lake.create_table("s.t", "id bigint not null, v int", keys=["id"])
    for first in range(3):
        table.append([{"id": number * 3 + first, "v": 0} for number in range(40)])
    engine = LocalEngine(lake.effects.store, lake._new_id, file_size_bytes=400)
    state = apply_write(table.state(), engine.compact(table.state()))

    assert len(plan_scan(state).scans) >= 3
    for wanted in (0, 57, 119):
        assert len(plan_scan(state, bind_predicate(f"id = {wanted}", state.schema)).files()) <= 2


def test_a_z_order_prunes_by_each_of_its_columns(lake: Lakehouse) -> None:

    table = lake.create_table("s.t", "a bigint, b bigint", properties={"write.cluster-by": "a, b"})
    table.append([{"a": a, "b": b} for a in range(16) for b in range(16)])
    table.append([{"a": None, "b": 3}])
    engine = LocalEngine(lake.effects.store, lake._new_id, file_size_bytes=260)
    state = apply_write(table.state(), engine.compact(table.state(), CompactionBounds(is_full=True)))
    total = len(plan_scan(state).scans)
    assert total >= 16
    for where in ("a = 5", "b = 5"):
        assert len(plan_scan(state, bind_predicate(where, state.schema)).scans) <= total // 2


def test_clustering_follows_columns_that_are_renamed(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "a bigint, b struct<c: bigint>", properties={"write.cluster-by": "A, b.c"})
    table.append([{"a": 1, "b": {"c": 2}}])
    before = lake.version
    table.update_schema().rename_column("a", "x.y").commit()
    assert lake.version == before + 1
    assert lake.table("s.t").properties["write.cluster-by"] == "`x.y`, b.c"
    table.update_schema().rename_column("b", "s").commit()
    assert lake.table("s.t").properties["write.cluster-by"] == "`x.y`, s.c"
    table.append([{"x.y": 0, "s": {"c": 1}}])
    assert table.compact().files_written == 1
    assert table.to_arrow().to_pylist() == [{"x.y": 0, "s": {"c": 1}}, {"x.y": 1, "s": {"c": 2}}]
    assert lake.at(before).table("s.t").properties["write.cluster-by"] == "A, b.c"


@pytest.mark.parametrize("dropped", ["b", "b.c"])
def test_a_column_by_which_rows_are_clustered_is_not_dropped_before_the_property_is(
    lake: Lakehouse, dropped: str
) -> None:
    table = lake.create_table("s.t", "a int, b struct<c: int, d: int>", properties={"write.cluster-by": "a, b.c"})
    before = lake.version
    with pytest.raises(InvalidInputError, match=r"column 'b.c' is used by write.cluster-by .* of s.t.*remove it first"):
        table.update_schema().drop_column(dropped).commit()
    assert lake.version == before
    table.update_schema().drop_column("b.d").commit()
    table.alter(remove=["write.cluster-by"])
    table.update_schema().drop_column("b").commit()
    assert table.schema is not None
    assert table.schema.names == ("a",)


def test_a_failed_auto_compaction_does_not_fail_the_committed_write(
    lake: Lakehouse, caplog: pytest.LogCaptureFixture
) -> None:
    table = lake.create_table("s.t", "id bigint")
    told = {"compaction.auto": "true", "compaction.deltas-min": "2", "write.cluster-by": "gone"}
    with lake.transaction() as transaction:
        # As programs leave it that know nothing of the property.
        alter_table(transaction.core.workspace, parse_table_name("s.t"), put=told)
    for number in range(3):
        table.append([{"id": number}])
    assert [row["id"] for row in rows_of(table)] == [0, 1, 2]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert caplog.messages[0].startswith("rows were written to s.t, and it could not compact itself: invalid write.cl")
    with pytest.raises(InvalidInputError, match=r"there is no column 'gone'.*set it to other columns or remove it"):
        table.compact()


def test_an_unexpected_error_of_auto_compaction_does_not_fail_the_committed_write(
    lake: Lakehouse, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("out of memory")

    table = lake.create_table("s.t", "id bigint", properties={"compaction.auto": "true", "compaction.deltas-min": "1"})
    monkeypatch.setattr("mangrove.lakehouse.lakehouse.maintain_table", fail)
    table.append([{"id": 1}])
    assert rows_of(table) == [{"id": 1}]
    (logged,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert logged.exc_info is not None
    assert logged.getMessage() == "rows were written to s.t, and it could not compact itself: out of memory"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("compaction.auto", "yes", "'true' or 'false'"),
        ("compaction.bytes-max", "0", "expected a positive integer"),
        ("compaction.deltas-min", "many", "expected a positive integer"),
        ("write.cluster-by", "id, nosuch", "there are id, l"),
        ("write.cluster-by", "l", "has no order"),
        ("write.cluster-by", "id.", "backticks"),
        ("write.delete-mode", "copy", "set it to 'auto' or 'position'"),
        ("write.delete-mode", "nope", "expected auto, keys, position, copy"),
    ],
)
def test_an_invalid_property_is_rejected_when_it_is_set(lake: Lakehouse, name: str, value: str, told: str) -> None:
    schema = "id bigint not null, l array<int>"
    table = lake.create_table("s.t", schema, keys=["id"], properties={"mine": "as I like"})
    before = lake.version
    with pytest.raises(InvalidInputError, match=told):
        lake.create_table("s.other", schema, keys=["id"], properties={name: value})
    with pytest.raises(InvalidInputError, match=told), lake.transaction() as transaction:
        transaction.table("s.t").alter({name: value})
    with pytest.raises(InvalidInputError, match=told):
        table.alter({name: value})
    assert lake.version == before
    assert lake.table("s.t").properties == {"mine": "as I like"}


def test_an_unknown_engine_is_refused(lake: Lakehouse) -> None:
    table = lake.create_table("s.t", "a bigint")
    with pytest.raises(InvalidInputError, match="unknown engine 'ray'"):
        table.compact(engine="ray")

"""A scan plan tells people what it reads and why it skips the rest."""

from dataclasses import replace

from mangrove.expressions.parse import bind_predicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.model.manifests import ColumnStatistics, DataFile, FileKind
from mangrove.model.objects import TableVersion
from mangrove.tables.scan_plan import plan_scan
from mangrove.tables.table_state import PartitionLog, TableState
from mangrove.tables.write_plan import build_append_delta, build_position_delete_delta, build_upsert_delta, plan_write
from mangrove.testing.table_model import apply_write

SCHEMA = parse_schema("id bigint not null, v int")
KEY = SCHEMA.column("id").id


def file(name: str, low: int, high: int, rows: int = 10) -> DataFile:
    return DataFile(name, 100, rows, statistics=(ColumnStatistics(KEY, null_count=0, minimum=low, maximum=high),))


def test_explain_reports_opened_compared_and_skipped_files() -> None:
    state = TableState("s.t", "t", TableVersion(1, SCHEMA, keys=(KEY,)), logs=(PartitionLog(),))
    for delta in (
        build_append_delta([file("a", 0, 9), file("b", 10, 1009, 1000), file("empty", 0, 0, 0)]),
        build_upsert_delta([file("c", 5, 6, 2)], [KEY]),
    ):
        state = apply_write(state, plan_write({(): delta}))
    plan = plan_scan(state, bind_predicate("id < 10", SCHEMA))
    assert plan.explain().splitlines() == [
        "reads 2 of 4 files: 12 of 1,012 rows, 200 bytes",
        "applies 2 equality deletes in 1 files to 1 of them",
        "skips 1: the statistics do not match",
        "skips 1: no rows",
    ]


def test_explain_reports_position_deletes() -> None:
    state = TableState("s.t", "t", TableVersion(1, SCHEMA), logs=(PartitionLog(),))
    state = apply_write(state, plan_write({(): build_append_delta([file("a", 0, 9)])}))
    numbers = replace(file("p", 0, 0, 1), kind=FileKind.POSITION_DELETES, applies_to="a", statistics=())
    state = apply_write(state, plan_write({(): build_position_delete_delta([numbers])}))
    assert "applies position deletes to 1 of them" in plan_scan(state).explain()

"""Spark with Iceberg's own JAR writes through the REST catalog: what it commits is what our readers find.

`make test-peers` installs it.
"""

from pathlib import Path

import pytest
from tests.rest.conftest import TOKEN, counted, served
from tests.rest.peer_process import ICEBERG_JAR, needs_iceberg_spark, peer

import mangrove
from mangrove.server.access import Access

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("iceberg-java"),
    needs_iceberg_spark,
]

BY_NUMBERS = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("delete", "update", "merge"))

ALL = "map('rewrite-all', 'true')"


def test_spark_writes_deletion_vectors_and_row_ids_of_format_version_3(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    ours = lake.create_table(
        "shop.ours", "id bigint not null, name string", keys=["id"], properties={"format-version": "3"}
    )
    ours.append([{"id": number, "name": "ours"} for number in range(5)])
    ours.upsert([{"id": 1, "name": "upserted"}])
    with (
        served(counted(lake), Access("127.0.0.1", TOKEN, is_writable=True)) as address,
        peer("iceberg_spark.py", ICEBERG_JAR, address, TOKEN, str(lake.version)) as ask,
    ):
        for statement in (
            "use lake",
            f"alter table shop.ours set tblproperties ({BY_NUMBERS})",
            "delete from shop.ours where id = 0",
            "delete from shop.ours where id = 3",
            "update shop.ours set name = 'spark' where id = 2",
            "create table shop.old using iceberg as select id from range(4)",
            f"alter table shop.old set tblproperties ('format-version' = '3', {BY_NUMBERS})",
            "delete from shop.old where id = 1",
        ):
            ask(statement)
        row_ids = ask("select id, name, _row_id from shop.ours order by id")
        ask(f"call system.rewrite_data_files(table => 'shop.ours', options => {ALL})")
        rewritten = ask("select id, name, _row_id from shop.ours order by id")
        files = ask("select distinct file_format from shop.old.delete_files")
        old = ask("select id, _row_id from shop.old order by id")
    assert row_ids == rewritten == [["1", "upserted", "5"], ["2", "spark", "2"], ["4", "ours", "4"]]
    assert set(ours.to_arrow()["name"].to_pylist()) == {"ours", "spark", "upserted"}
    assert (files, old) == ([["PUFFIN"]], [["0", "0"], ["2", "2"], ["3", "3"]])
    assert lake.maintenance.check().problems == ()


def test_spark_creates_fills_changes_and_replaces_tables(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    ours = lake.create_table("shop.ours", "id bigint not null, name string", keys=["id"])
    ours.append([{"id": number, "name": "ours"} for number in range(5)])
    ours.upsert([{"id": 1, "name": "upserted"}])
    access = Access("127.0.0.1", TOKEN, is_writable=True)
    with (
        served(counted(lake), access) as address,
        peer("iceberg_spark.py", ICEBERG_JAR, address, TOKEN, str(lake.version)) as ask,
    ):
        *_, deleted_rows, shown, replaced, view = [
            ask(statement)
            for statement in (
                "use lake",
                f"alter table shop.ours set tblproperties ({BY_NUMBERS})",
                "delete from shop.ours where id in (0, 1)",
                "insert into shop.ours values (10, 'spark')",
                "create table shop.parts (id bigint not null, ts timestamp, s string) using iceberg "
                "partitioned by (days(ts), bucket(4, id), truncate(2, s))",
                "insert into shop.parts values (1, timestamp '2026-01-01 10:00:00', 'abc'), (2, null, 'xyz')",
                "delete from shop.parts where id = 2",
                f"create table shop.made using iceberg tblproperties ({BY_NUMBERS}) as "
                "select id, cast(id as string) as s from range(20)",
                "delete from shop.made where id in (3, 4)",
                "update shop.made set s = 'changed' where id in (5, 6)",
                "update shop.made set s = 'again' where id = 6",
                "merge into shop.made t using (select 7L as id, 'merged' as s union all select 100L, 'new') u "
                "on t.id = u.id when matched then update set s = u.s when not matched then insert *",
                "alter table shop.made add column extra int",
                "alter table shop.made rename column s to label",
                f"call system.rewrite_position_delete_files(table => 'shop.made', options => {ALL})",
                f"call system.rewrite_data_files(table => 'shop.made', options => {ALL})",
                "create table shop.again using iceberg as select 1L as id",
                "create or replace table shop.again using iceberg as select 'text' as id, 2 as more",
                "create table shop.bare using iceberg",
                "alter table shop.bare add columns (id bigint)",
                "insert into shop.bare values (7)",
                "create view shop.seen as select id from shop.ours",
                "select id, label from shop.made order by id",
                "select id, name from shop.ours order by id",
                "select * from shop.again",
                "select * from shop.seen order by id",
            )
        ]
    made = sorted((row["id"], row["label"]) for row in lake.table("shop.made").to_arrow().to_pylist())
    assert [[str(number), label] for number, label in made] == deleted_rows
    changed = {5: "changed", 6: "again", 7: "merged", 100: "new"}
    assert dict(made) == {
        number: changed.get(number, str(number)) for number in [*range(20), 100] if number not in (3, 4)
    }
    assert sorted(ours.to_arrow()["id"].to_numpy().tolist()) == [2, 3, 4, 10]
    assert [row[0] for row in shown] == [row[0] for row in view] == ["2", "3", "4", "10"]
    assert lake.table("shop.again").to_arrow().to_pylist() == [{"id": "text", "more": 2}]
    assert replaced == [["text", "2"]]
    assert lake.table("shop.bare").to_arrow()["id"].to_pylist() == [7]
    assert lake.table("shop.parts").to_arrow()["id"].to_pylist() == [1]
    assert lake.maintenance.check().problems == ()
    ours.upsert([{"id": 10, "name": "ours again"}])
    assert sorted(ours.to_arrow()["id"].to_numpy().tolist()) == [2, 3, 4, 10]


def test_spark_rolls_a_table_back_and_forward_and_tags_snapshots(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("shop")
    ours = lake.create_table("shop.ours", "id bigint not null, name string", keys=["id"])
    ours.append([{"id": number, "name": "ours"} for number in range(3)])
    first = lake.version
    ours.upsert([{"id": 1, "name": "upserted"}])
    ours.delete("id = 2")
    with (
        served(counted(lake), Access("127.0.0.1", TOKEN, is_writable=True)) as address,
        peer("iceberg_spark.py", ICEBERG_JAR, address, TOKEN, str(lake.version)) as ask,
    ):
        ask("use lake")
        snapshots = [int(one) for (one,) in ask("select snapshot_id from shop.ours.snapshots order by committed_at")]
        ask(f"call system.rollback_to_snapshot('shop.ours', {snapshots[0]})")
        restored = ask("select id, name from shop.ours order by id")
        ours_restored = sorted(row["name"] for row in lake.table("shop.ours").to_arrow().to_pylist())
        ask(f"call system.set_current_snapshot('shop.ours', {snapshots[-1]})")
        forward = ask("select id, name from shop.ours order by id")
        ask(f"alter table shop.ours create tag opening as of version {snapshots[0]} retain 7 days")
        ask("alter table shop.ours create tag closing")
        tagged = ask("select id, name from shop.ours version as of 'opening' order by id")
        ask("alter table shop.ours drop tag closing")
        refs = ask("select name, type, max_reference_age_in_ms from shop.ours.refs order by name")
    assert restored == [["0", "ours"], ["1", "ours"], ["2", "ours"]]
    assert ours_restored == ["ours"] * 3
    assert forward == [["0", "ours"], ["1", "upserted"]]
    assert tagged == restored
    assert refs == [["main", "BRANCH", "None"], ["opening", "TAG", str(7 * 24 * 3_600_000)]]
    assert [one.version for one in lake.tags()] == [first]
    assert lake.at(first).table("shop.ours").count() == 3
    assert lake.maintenance.check().problems == ()

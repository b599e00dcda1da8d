"""Statements that change tables on DuckDB: rows, definitions, transactions and procedures, in each layout."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.table_properties import DATA_FILES_ONLY

import mangrove
from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.spark.availability import has_active_session
from mangrove.sql.session import SqlSession
from mangrove.tables.write_plan import RowCounts

ROOT = Path(__file__).parents[2]
UPDATED = RowCounts(updated=1)


@pytest.fixture(params=LAYOUTS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("shop")
    orders = lake.create_table(
        "shop.orders", "id bigint not null, who string, amount decimal(10,2) default 1.50", keys=["id"]
    )
    orders.append([{"id": 1, "who": "ana", "amount": 10}, {"id": 2, "who": "ben", "amount": 20}])
    return lake


@pytest.fixture
def session(lake: Lakehouse) -> Iterator[SqlSession]:
    session = SqlSession(lake, engine="duckdb")
    yield session
    session.close()


def ids(session: SqlSession, table: str = "shop.orders") -> list[Any]:
    return session.run(f"select * from {table} order by 1").rows()


def test_rows_are_inserted_from_values_and_queries_with_defaults(session: SqlSession) -> None:
    session.run("insert into shop.orders (id, who) values (3, 'cy')")
    session.run("insert into shop.orders values (4, null, default), (5, 'eve', 2)")
    result = session.run("insert into shop.orders select id + 10, upper(who), amount * 2 from shop.orders where id < 3")
    assert result.message == "rows: 2 inserted"
    assert [(row[0], row[1], str(row[2])) for row in ids(session)] == [
        (1, "ana", "10.00"),
        (2, "ben", "20.00"),
        (3, "cy", "1.50"),
        (4, None, "1.50"),
        (5, "eve", "2.00"),
        (11, "ANA", "20.00"),
        (12, "BEN", "40.00"),
    ]


def test_an_invalid_value_for_a_column_changes_nothing(session: SqlSession, lake: Lakehouse) -> None:
    before = lake.version
    with pytest.raises(InvalidInputError, match="use a cast"):
        session.run("insert into shop.orders values ('x', 'y', 1)")
    with pytest.raises(InvalidInputError, match="could not compute the rows"):
        session.run("insert into shop.orders values (9, 'y', 12345678901)")
    assert lake.version == before


def test_rows_are_updated_deleted_and_merged(session: SqlSession) -> None:
    assert session.run("update shop.orders set amount = amount + id where who like 'a%'").message == "rows: 1 updated"
    assert session.run("delete from shop.orders o where o.id = 1 + 1").message == "rows: 1 deleted"
    session.run(
        "merge into shop.orders t using (select * from values (1, 'ann'), (7, 'gus') as v(id, who)) s on t.id = s.id "
        "when matched then update set who = s.who when not matched then insert (id, who) values (s.id, s.who)"
    )
    assert [(row[0], row[1], str(row[2])) for row in ids(session)] == [(1, "ann", "11.00"), (7, "gus", "1.50")]


def test_conditions_and_values_of_changes_may_be_subqueries(session: SqlSession) -> None:
    session.run("create table shop.vip (who string, extra decimal(10,2))")
    session.run("insert into shop.vip values ('ana', 5), ('zoe', 7)")
    assert (
        session.run("update shop.orders set amount = (select max(extra) from shop.vip) where id = 2").counts == UPDATED
    )
    session.run(
        "update shop.orders o set amount = o.amount + (select extra from shop.vip v where v.who = o.who) "
        "where exists (select 1 from shop.vip where vip.who = o.who)"
    )
    assert [(row[0], str(row[2])) for row in ids(session)] == [(1, "15.00"), (2, "7.00")]
    session.run("delete from shop.orders where id < 5 and who not in (select who from shop.vip)")
    assert [row[0] for row in ids(session)] == [1]
    session.run("with v as (select * from shop.vip) delete from shop.orders where who in (select who from v)")
    assert ids(session) == []


def test_a_merge_computes_functions_and_subqueries_on_both_sides(session: SqlSession) -> None:
    session.run("create table shop.days (id bigint, day string)")
    session.run("insert into shop.days values (1, '2026-04-05'), (2, '2026-01-02'), (3, '2026-11-30')")
    merged = session.run(
        "merge into shop.orders t using shop.days s on t.id = s.id and startswith(t.who, 'b') "
        "when matched and quarter(to_date(s.day)) = 1 then update set amount = s.id * (select count(*) from shop.days) "
        "when not matched and s.id in (select max(id) from shop.days) "
        "then insert (id, who, amount) values (s.id, replace(s.day, '-', ''), month(to_date(s.day))) "
        "when not matched by source and contains(t.who, 'n') then update set who = concat(right(who, 1), '!')"
    )
    assert merged.counts == RowCounts(inserted=1, updated=2)
    assert [(row[0], row[1], str(row[2])) for row in ids(session)] == [
        (1, "a!", "10.00"),
        (2, "ben", "6.00"),
        (3, "20261130", "11.00"),
    ]


def test_a_change_opens_only_files_that_a_part_of_its_condition_does_not_rule_out(
    session: SqlSession, lake: Lakehouse
) -> None:
    lake.table("shop.orders").alter(DATA_FILES_ONLY).append([{"id": 9, "who": "zoe"}])
    (lost,) = (scan.file.location for scan in lake.table("shop.orders").scan("id = 9").plan.scans)
    (Path(lake.uri.removeprefix("file://")) / lost).unlink()
    # Opening the lost file would fail.
    changed = session.run("update shop.orders set who = 'x' where id < 5 and startswith(who, 'a')")
    assert changed.counts == UPDATED


def test_what_duckdb_does_not_compute_as_spark_needs_spark_in_changes_too(session: SqlSession, lake: Lakehouse) -> None:
    before = lake.version
    for text in (
        "delete from shop.orders where soundex(who) = 'A500'",
        "update shop.orders set who = soundex(who)",
        "merge into shop.orders t using shop.orders s on t.id = s.id when matched and soundex(t.who) = '' then delete",
    ):
        with pytest.raises(InvalidInputError, match=r"line 1, column .* needs Spark"):
            session.run(text)
    with pytest.raises(InvalidInputError, match="column `nope` does not exist"):
        session.run("delete from shop.orders where id in (select nope from shop.orders)")
    assert lake.version == before


def test_checks_and_defaults_that_only_spark_computes_are_refused_and_start_no_spark(
    session: SqlSession, lake: Lakehouse
) -> None:
    before = lake.version
    for text in (
        "create table shop.new (who string, check (soundex(who) = 'A500'))",
        "alter table shop.orders add constraint sound check (soundex(who) <> '')",
    ):
        with pytest.raises(InvalidInputError, match=r"line 1, column .*soundex.* needs Spark"):
            session.run(text)
    assert lake.version == before
    session.run("create table shop.made (id bigint, who string default soundex('x'))")
    with pytest.raises(InvalidInputError, match=r"line 1, column .* needs Spark"):
        session.run("insert into shop.made (id) values (1)")
    assert not has_active_session()


def test_overwrites_replace_all_rows_or_some(session: SqlSession) -> None:
    session.run("insert into shop.orders replace where id = 1 select 1, 'new', 5.0")
    assert [row[1] for row in ids(session)] == ["new", "ben"]
    session.run("insert overwrite shop.orders select 8, 'only', 1")
    assert [row[0] for row in ids(session)] == [8]
    session.run("truncate table shop.orders")
    assert ids(session) == []


def test_a_table_is_created_from_a_query(session: SqlSession) -> None:
    session.run(
        "create table shop.sums as select who, sum(amount) as total, count(*) as n from shop.orders group by who"
    )
    assert [(row[0], str(row[1]), row[2]) for row in ids(session, "shop.sums")] == [
        ("ana", "10.00", 1),
        ("ben", "20.00", 1),
    ]


def test_definitions_views_and_procedures_run(session: SqlSession) -> None:
    results = list(
        session.script(
            "create table shop.more (id bigint, note string) partitioned by (id);"
            "alter table shop.more add columns (n int);"
            "create view shop.big as select id from shop.orders where amount > 15;"
            "insert into shop.more values (1, 'x', 2);"
            "call compact('shop.more'); select * from shop.big; drop view shop.big; drop table shop.more"
        )
    )
    assert results[5].rows() == [(2,)]


def test_a_transaction_reads_its_own_changes_and_rolls_back(session: SqlSession, lake: Lakehouse) -> None:
    before = lake.version
    session.run("begin")
    session.run("insert into shop.orders values (3, 'cy', 1)")
    session.run("savepoint one")
    session.run("delete from shop.orders where id < 3")
    assert session.run("select count(*) from shop.orders").rows() == [(1,)]
    session.run("rollback to savepoint one")
    assert session.run("select count(*) from shop.orders").rows() == [(3,)]
    session.run("commit")
    assert lake.version == before + 1
    list(session.script("begin; delete from shop.orders; rollback"))
    assert lake.table("shop.orders").count() == 3


def test_a_failed_statement_of_a_transaction_changes_nothing(session: SqlSession, lake: Lakehouse) -> None:
    session.run("begin")
    session.run("insert into shop.orders values (3, 'cy', 1)")
    with pytest.raises(InvalidInputError, match="needs Spark"):
        session.run("insert into shop.orders select 4, soundex('x'), 1")
    session.run("commit")
    assert lake.table("shop.orders").count() == 3


def test_a_view_that_exists_is_not_replaced(session: SqlSession) -> None:
    session.run("create temporary view v as select 1 as a")
    with pytest.raises(AlreadyExistsError, match="temporary view v already exists"):
        session.run("create temporary view v as select 2 as a")
    session.run("drop view v")


def test_the_page_about_sql_runs_without_spark(tmp_path: Path) -> None:
    script, page = ROOT / "tests" / "docs" / "page_code.py", ROOT / "docs" / "how-to" / "sql.md"
    done = subprocess.run(
        [sys.executable, script, page], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_statements_take_canonical_strings_in_backticks(session: SqlSession, lake: Lakehouse) -> None:
    staged, empty = lake.table("shop.orders").create_stream("reload"), lake.version
    staged.append([{"id": 9, "who": "staged", "amount": 1}])
    stream = "shop|orders|1|reload|deltacat"
    lake.create_view("shop.cheap", "select id from shop.orders where amount < 15")
    assert session.run(f"select count(*) from files('{stream}')").rows() == [(1,)]
    session.run(f"update `{stream}` set who = 'changed' where id = 9")
    assert session.run(f"select who from `{stream}`").rows() == [("changed",)]
    assert session.run("select id from `shop|cheap`").rows() == [(1,)]
    assert session.run("describe `shop|cheap`").rows()[0][0] == "id"
    assert session.run(f"select id from changes('{stream}', {empty})").rows()[0] == (9,)
    session.run(f"create table `shop|copy` like `{stream}`")
    session.run("alter table `shop|copy` rename to `shop|moved`")
    assert session.run("describe history `shop|moved`").rows()
    assert [row[1] for row in session.run("show tables in shop").rows()] == ["moved", "orders"]
    session.run("drop table `shop|moved`")
    with pytest.raises(InvalidInputError, match="names a stream; expected a table"):
        session.run(f"drop table `{stream}`")
    assert session.run(f"call compact('{stream}')").rows()[0][0] == "shop.orders.version_1 (stream reload)"


def test_statements_take_locators_in_backticks(session: SqlSession, lake: Lakehouse) -> None:
    table = lake.table("shop.orders")
    opened = table.opened()
    for locator in (table.identity, opened.version_locator, opened.stream_locator):
        assert session.run(f"select count(*) from `{locator}`").rows() == [(2,)]
    session.run(f"update `{opened.version_locator}` set who = 'cy' where id = 1")
    with pytest.raises(InvalidInputError, match="names a table version; expected a table"):
        session.run(f"drop table `{opened.version_locator}`")
    session.run(f"alter table `{table.identity}` rename to shop.sales")
    assert session.run(f"select who from `{opened.stream_locator}` where id = 1").rows() == [("cy",)]
    session.run(f"drop table `{table.identity}`")
    assert session.run("show tables in shop").rows() == []


def test_the_files_of_a_table_without_a_schema_are_listed_with_type_and_size(
    session: SqlSession, lake: Lakehouse
) -> None:
    lake.create_table("shop.raw", schemaless=True).add_files({"a.csv": b"id\n1\n", "b.png": b"xyz"})
    query = "select content_type, size_bytes from files('shop.raw') order by size_bytes"
    assert session.run(query).rows() == [("image/png", 3), ("text/csv", 5)]
    lake.table("shop.orders").compact()
    assert session.run("select content_type from files('shop.orders')").rows() == [("application/parquet",)]


def test_a_table_is_rolled_back_within_a_transaction(session: SqlSession, lake: Lakehouse) -> None:
    before, count = lake.version, lake.table("shop.orders").count()
    session.run("delete from shop.orders")
    session.run("begin")
    assert session.run(f"call rollback_table('shop.orders', {before})").rows() == [("shop.orders", str(before))]
    session.run("commit")
    assert (lake.version, lake.table("shop.orders").count()) == (before + 2, count)


def test_procedures_take_table_versions_and_streams_by_their_names(session: SqlSession, lake: Lakehouse) -> None:
    session.run(
        "call create_table_version('shop.orders', stream_id => 'first', properties => map('owner', 'ana', 'k', 'v'))"
    )
    assert lake.table("shop.orders.version_2").properties == {"owner": "ana", "k": "v"}
    session.run("call create_stream('shop.orders.version_2', 'reload')")
    stream = "shop|orders|2|reload|deltacat"
    assert session.run(f"call commit_stream('{stream}')").rows() == [("shop.orders.version_2", "reload")]
    assert session.run("call drop_stream('shop.orders.version_2', 'first')").rows() == [
        ("shop.orders.version_2", "first")
    ]
    session.run("call set_table_version_state('shop.orders.version_2', 'beta')")
    assert session.run("call set_table_version_state('shop|orders|2', state => 'active')").rows() == [
        ("shop.orders", 2, "active", True)
    ]
    session.run("call set_table_version_state('shop.orders', 2, 'deprecated')")
    assert session.run("call drop_table_version('shop|orders|2')").rows() == [("shop.orders", 2)]
    for text, message in (
        ("call drop_table_version('shop.orders')", "choose a table version of shop.orders to drop"),
        ("call commit_stream('shop.orders')", "choose a stream of shop.orders to commit"),
        ("call drop_table_version('shop|orders|1', 2)", "names table version 1, but version is 2"),
        ("call set_table_version_state('shop.orders', 'active')", "choose a table version of shop.orders"),
        ("call create_table_version('shop.orders', properties => map('a'))", "a value for each key"),
    ):
        with pytest.raises(InvalidInputError, match=message.replace("|", r"\|")):
            session.run(text)


def test_the_properties_of_a_version_are_changed_without_those_of_the_table(
    session: SqlSession, lake: Lakehouse
) -> None:
    session.run("alter table shop.orders set tblproperties (owner = 'ana')")
    session.run("call create_table_version('shop.orders')")
    session.run("alter table shop.orders.version_2 set tblproperties (owner = 'ben', note = 'new')")
    session.run("alter table `shop|orders|2` unset tblproperties (note)")
    session.run("comment on table shop.orders.version_2 is 'newer'")
    assert session.run("show tblproperties shop.orders.version_2").rows() == [("owner", "ben")]
    assert session.run("show tblproperties shop.orders").rows() == [("owner", "ana")]
    assert (lake.table("shop.orders").description, lake.table("shop|orders|2").description) == (None, "newer")


def test_partitions_and_deltas_have_ids_positions_authors_and_properties(session: SqlSession) -> None:
    session.run("create table shop.visits (id bigint, area string) partitioned by (area)")
    made = session.run("""call create_partition('shop.visits', 'up', partition_values => '["north"]')""")
    assert made.rows() == [("shop.visits", "up")]
    assert session.run("select * from partitions('shop.visits')").rows() == [("area=north", 0, 0, 0, "up")]
    session.run(
        "insert into shop.visits with (author = 'loader', position = 40, 'property.Source' = 'a.csv') "
        "values (1, 'north')"
    )
    assert session.run("select rows, partition_id from partitions('shop.visits')").rows() == [(1, "up")]
    ((*delta, properties),) = session.run(
        "select partition_id, position, author, properties from deltas('shop.visits')"
    ).rows()
    assert (delta, dict(properties)) == (["up", 40, "loader"], {"Source": "a.csv"})
    session.run("insert into shop.visits with more as (select 2 as id) select id, 'south' from more")
    assert session.run("select count(*) from partitions('shop.visits')").rows() == [(2,)]
    for options, message in (("postion = 1", "invalid option postion"), ("position = 'x'", "invalid option position")):
        with pytest.raises(InvalidInputError, match=message):
            session.run(f"insert into shop.visits with ({options}) values (3, 'north')")
    with pytest.raises(InvalidInputError, match="describe appended rows"):
        session.run("insert overwrite shop.visits with (author = 'x') values (3, 'north')")


def test_a_table_is_created_with_a_chosen_version_and_stream(session: SqlSession, lake: Lakehouse) -> None:
    session.run("create table shop.items (id bigint) options (version = 4, stream_id = 'main')")
    (listed,) = lake.table("shop.items").versions()
    assert (listed.version, listed.stream_id) == (4, "main")
    with pytest.raises(InvalidInputError, match="invalid option version = 'four'"):
        session.run("create table shop.others (id bigint) options (version = 'four')")


def test_tables_without_a_schema_are_created_described_and_read(session: SqlSession, lake: Lakehouse) -> None:
    session.run("create table shop.raw () comment 'as delivered' tblproperties (owner = 'ana')")
    lake.table("shop.raw").add_files({"a.csv": b"id\n1\n2\n"})
    assert session.run("select sum(id) from shop.raw").rows() == [(3,)]
    assert session.run("describe shop.raw").rows() == []
    assert ("Property owner", "ana", None) in session.run("describe extended shop.raw").rows()
    assert session.run("select files, size_bytes from partitions('shop.raw')").rows() == [(1, 7)]
    session.run("create table shop.copy like shop.raw")
    assert lake.table("shop.copy").schema is None
    ((statement,),) = session.run("show create table shop.raw").rows()
    session.run(statement.replace("raw", "again"))
    assert (lake.table("shop.again").schema, lake.table("shop.again").description) == (None, "as delivered")
    session.run("call create_table_version('shop.orders', schemaless => true)")
    assert lake.table("shop.orders.version_2").schema is None


def test_functions_take_canonical_strings_of_partitions_and_follow_a_table_through_renames(
    session: SqlSession, lake: Lakehouse
) -> None:
    table = lake.create_table("shop.visits", "id bigint, kind string", partition_by=["kind"])
    created = lake.version
    table.append([{"id": 1, "kind": "a|b"}])
    ((partition, _),) = table.partitions()
    for name in (lake.resolve(partition).canonical, str(partition)):
        assert "\\u007c" in name
        for literal in (f"'{name}'", f"r'{name}'"):
            assert len(session.run(f"select * from deltas({literal})").rows()) == 1
            assert len(session.run(f"select * from files({literal})").rows()) == 1
        assert session.run(f"select id from `{name}`").rows() == [(1,)]
    first = lake.version
    table.append([{"id": 2, "kind": "c"}])
    lake.rename_table("shop.visits", "shop.seen")
    lake.create_table("shop.visits", "id bigint, kind string").append([{"id": 9, "kind": "z"}])
    lake.table("shop.seen").append([{"id": 3, "kind": "c"}])
    names = ["shop.seen", "shop|seen", "shop|seen|1", str(table.identity), str(partition.parent)]
    for name in names:
        assert sorted(session.run(f"select id from changes('{name}', {first})").rows()) == [(2,), (3,)]
        assert session.run(f"select id from changes('{name}', {first}, {first + 1})").rows() == [(2,)]
        literal = name if "." in name else f"`{name}`"
        assert session.run(f"describe history {literal}").rows()[-1][0] == created
        assert len(session.run(f"select * from history('{name}')").rows()) == 5
    with pytest.raises(NotFoundError, match=r"shop\.seen does not exist as of"):
        session.run(f"select * from `shop|seen` version as of {first}")
    lake.create_alias("store", "shop")
    with pytest.raises(NotFoundError, match=r"store\.seen does not exist as of"):
        session.run(f"select * from store.seen version as of {first}")


def test_an_export_takes_canonical_strings(session: SqlSession, tmp_path: Path) -> None:
    session.run(f"call export('{tmp_path}/copy', 'copy', 'partial', tables => 'shop|orders')")
    assert mangrove.open(tmp_path / "copy").table("shop.orders").to_arrow().num_rows == 2
    with pytest.raises(InvalidInputError, match="is a table version; expected a table or namespace"):
        session.run(f"call export('{tmp_path}/other', 'other', 'partial', tables => 'shop|orders|1')")

"""Definitions, information and transactions in SQL, none of which needs Spark."""

from pathlib import Path
from typing import Any

import pytest

import mangrove
from mangrove import AlreadyExistsError, ConflictError, InvalidInputError, Lakehouse, NotFoundError
from mangrove.model.types import Int64
from mangrove.sql.session import SqlSession


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    return mangrove.create(tmp_path / "lake", layout=request.param)


@pytest.fixture
def session(lake: Lakehouse) -> SqlSession:
    return SqlSession(lake)


def run(session: SqlSession, text: str) -> list[Any]:
    """Run a script, and return the rows of its last statement."""
    return list(session.script(text))[-1].rows()


def test_show_create_table_round_trips(session: SqlSession, lake: Lakehouse) -> None:
    text = (
        "create table sales.orders (id bigint not null, note string default 'x', amount decimal(10,2) comment 'net',"
        " ts timestamp, primary key (id), constraint positive check (amount > 0))"
        " partitioned by (days(ts)) cluster by (amount) comment 'what was sold' tblproperties (owner = 'ana')"
    )
    run(session, f"create namespace sales comment 'of sales' with properties (region = 'eu'); {text}")
    table = lake.table("sales.orders")
    assert (table.keys, table.partition_by, table.checks) == (("id",), ("days(ts)",), {"positive": "amount > 0"})
    assert table.properties == {"owner": "ana", "write.cluster-by": "amount"}
    assert lake.namespace("sales").properties == {"region": "eu"}
    said = run(session, "show create table sales.orders")[0][0]
    run(session, f"drop table sales.orders; {said}")
    assert run(session, "show create table sales.orders")[0][0] == said
    run(session, "create table sales.copy like sales.orders")
    assert lake.table("sales.copy").schema == lake.table("sales.orders").schema


def test_columns_with_spaces_and_dots_in_their_names_can_be_altered(session: SqlSession, lake: Lakehouse) -> None:
    run(
        session,
        "create namespace s; create table s.t (`x.y z` int, a int) cluster by (`x.y z`);"
        " alter table s.t alter column `x.y z` type bigint; alter table s.t alter column `x.y z` comment 'odd';"
        " alter table s.t alter column `x.y z` set default 3; alter table s.t alter column `x.y z` set not null;"
        " alter table s.t add column `b c` int after `x.y z`; alter table s.t rename column `b c` to `c d`",
    )
    schema = lake.table("s.t").schema
    assert schema is not None
    odd = schema.column("x.y z")
    assert (odd.type, odd.comment, odd.default, odd.nullable) == (Int64(), "odd", "3", False)
    assert schema.names == ("x.y z", "c d", "a")
    run(session, "alter table s.t drop column `c d`; alter table s.t cluster by none")


def test_properties_follow_columns_and_are_refused_where_they_could_not_be_followed(
    session: SqlSession, lake: Lakehouse
) -> None:
    run(session, "create namespace s; create table s.t (a int, b int, primary key (a)) cluster by (b)")
    run(session, "alter table s.t rename column b to c")
    assert lake.table("s.t").properties == {"write.cluster-by": "c"}
    version = lake.version
    for text in (
        "create table s.u (a int, primary key (a)) tblproperties ('write.delete-mode' = 'copy')",
        "alter table s.t set tblproperties ('write.delete-mode' = 'nope')",
        "alter table s.t set tblproperties ('write.cluster-by' = 'b')",
        "alter table s.t drop column c",
    ):
        with pytest.raises(InvalidInputError, match=r"write\.(delete-mode|cluster-by)"):
            run(session, text)
    assert lake.version == version


def test_if_not_exists_and_or_replace_are_respected(session: SqlSession, lake: Lakehouse) -> None:
    run(session, "create namespace if not exists s; create namespace if not exists s; use s; create table t (a int)")
    with pytest.raises(AlreadyExistsError, match="line 1, column 14"):
        run(session, "create table t (b int)")
    run(session, "create table if not exists t (b int)")
    first = lake.table("s.t")
    assert run(session, "show columns in t") == [("a",)]
    run(session, "create or replace table t (b int)")
    assert run(session, "show columns in t") == [("b",)]
    assert lake.table("s.t").id != first.id
    with pytest.raises(NotFoundError, match="does not exist"):
        run(session, "replace table u (a int)")
    run(session, "drop table t; drop table if exists t")
    with pytest.raises(NotFoundError):
        run(session, "drop table t")
    with pytest.raises(InvalidInputError, match="empty"):
        run(session, "create table t (a int); drop namespace s")
    run(session, "drop namespace s cascade")
    assert run(session, "show namespaces") == []


def test_columns_are_added_moved_renamed_widened_and_dropped(session: SqlSession) -> None:
    run(session, "create namespace s; use s; create table t (a int, b struct<c: int>)")
    run(
        session,
        "alter table t add columns (d string comment 'new' first, e decimal(4,1) after a);"
        "alter table t add column b.f string; alter table t rename column e to g;"
        "alter table t drop column if exists x;"
        "alter table t alter column a type bigint; alter table t alter column a comment 'wide';"
        "alter table t alter column a set default 5; alter table t alter column d after b;"
        "alter table t alter column g set not null; alter table t alter column g first",
    )
    assert run(session, "describe t") == [
        ("g", "decimal(4,1)", None),
        ("a", "bigint", "wide"),
        ("b", "struct<c: int, f: string>", None),
        ("d", "string", "new"),
    ]
    assert ("default", "5") in run(session, "describe t a")
    assert ("nullable", "false") in run(session, "describe t g")
    run(session, "alter table t alter column a drop default; alter table t alter column g drop not null")
    run(session, "alter table t drop columns (b, d)")
    assert run(session, "show columns from t") == [("g",), ("a",)]
    with pytest.raises(InvalidInputError, match="not wider"):
        run(session, "alter table t alter column a type int")


def test_constraints_properties_and_comments_change(session: SqlSession, lake: Lakehouse) -> None:
    run(session, "create namespace s; use s; create table t (a int)")
    run(session, "alter table t add constraint small check (a < 10); alter table t add check (a > 0)")
    assert lake.table("s.t").checks == {"small": "a < 10", "check_1": "a > 0"}
    run(session, "alter table t drop constraint small; alter table t drop constraint if exists small")
    run(session, "alter table t set tblproperties (x = '1', y.z = '2'); alter table t unset tblproperties (x)")
    assert run(session, "show tblproperties t") == [("y.z", "2")]
    with pytest.raises(NotFoundError, match="IF EXISTS"):
        run(session, "alter table t unset tblproperties (x)")
    run(session, "comment on table t is 'about t'; comment on namespace s is 'about s'; alter table t cluster by (a)")
    assert (lake.table("s.t").description, lake.namespace("s").description) == ("about t", "about s")
    run(session, "alter table t cluster by none; alter table t rename to u; alter namespace s rename to r")
    assert run(session, "show tables in r") == [("r", "u")]
    details = dict(row[:2] for row in run(session, "describe extended r.u"))
    assert (details["Comment"], details["Constraint check_1"]) == ("about t", "CHECK (a > 0)")


@pytest.mark.parametrize(
    ("text", "blamed"),
    [
        ("create table v like nope", "nope"),
        ("alter table t rename to u", "u"),
        ("alter table nope rename to u", "nope"),
        ("alter table t rename to nope.u", "nope"),
        ("use nope", "nope"),
        ("describe history nope", "nope"),
        ("drop namespace nope", "nope"),
    ],
)
def test_an_error_reports_the_position_of_the_wrong_name(session: SqlSession, text: str, blamed: str) -> None:
    run(session, "create namespace s; use s; create table t (a int); create table u (a int)")
    with pytest.raises((NotFoundError, AlreadyExistsError)) as refusal:
        run(session, text)
    assert str(refusal.value).startswith(f"line 1, column {text.rindex(' ' + blamed) + 2}: ")


def test_a_check_with_a_subquery_is_rejected_with_its_position(session: SqlSession, lake: Lakehouse) -> None:
    run(session, "create namespace s; use s; create table t (a int)")
    version = lake.version
    for text in (
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a IN (SELECT b FROM u))",
        "CREATE TABLE u (a INT, CHECK (a > 0 AND EXISTS (SELECT 1)))",
        "CREATE TABLE u (a INT CHECK (a = (FROM u |> SELECT max(a))))",
    ):
        with pytest.raises(InvalidInputError, match="contains a subquery") as refusal:
            session.run(text)
        place = max(text.rfind("SELECT b"), text.rfind("SELECT 1"), text.rfind("FROM u |>"))
        assert str(refusal.value).startswith(f"line 1, column {place + 1}: ")
    with pytest.raises(InvalidInputError, match="check 'c' contains a subquery"):
        lake.table("s.t").update_schema().add_check("c", "a in (select 1)").commit()
    assert lake.version == version


def test_an_invalid_check_is_rejected_on_definition(session: SqlSession, lake: Lakehouse) -> None:
    run(session, "create namespace s; create table s.t (a int)")
    before = lake.version
    for condition, message in {
        "nope > 0": "'first'.*there is no column 'nope'",
        "a + 1": "'first'.*take conditions",
    }.items():
        with pytest.raises((InvalidInputError, NotFoundError), match=message):
            run(session, f"create table s.u (a int, constraint first check ({condition}))")
        with pytest.raises((InvalidInputError, NotFoundError), match=message):
            run(session, f"alter table s.t add constraint first check ({condition})")
        with pytest.raises((InvalidInputError, NotFoundError), match=message):
            lake.create_table("s.u", "a int", checks={"first": condition})
    assert lake.version == before


def test_names_that_require_backticks_are_printed_with_them(session: SqlSession) -> None:
    run(session, "create namespace s; create table s.`Ü` (`order` int, `größe` int, primary key (`order`))")
    said = run(session, "show create table s.`Ü`")[0][0]
    assert said == "CREATE TABLE s.`Ü` (\n  `order` int not null,\n  `größe` int,\n  PRIMARY KEY (`order`)\n)"
    run(session, f"drop table s.`Ü`; {said}")
    assert run(session, "show create table s.`Ü`")[0][0] == said


def test_external_tables_print_their_location(session: SqlSession, lake: Lakehouse) -> None:
    run(
        session,
        "create namespace s; create external table s.x (a int) using csv location 's3://b/x/' options (sep ';')",
    )
    table = lake.table("s.x")
    assert (table.location, table.value.table_format, dict(table.value.format_properties)) == (
        "s3://b/x/",
        "csv",
        {"sep": ";"},
    )


def test_lists_are_filtered_as_in_spark(session: SqlSession) -> None:
    run(session, "create namespace s; use s; create table ab (x int); create table ac (x int); create table b (x int)")
    assert run(session, "show tables like 'a*'") == [("s", "ab"), ("s", "ac")]
    assert run(session, "show tables in s like 'ab|B'") == [("s", "ab"), ("s", "b")]
    assert run(session, "show history limit 1")[0][2] == "create table b (x int)"
    assert run(session, "show current namespace") == [("s",)]


def test_transactions_keep_definitions_until_they_commit(session: SqlSession, lake: Lakehouse) -> None:
    run(session, "create namespace s; use s")
    before = lake.version
    run(session, "begin transaction message 'two'; create table t (a int); savepoint one; create table u (a int)")
    assert run(session, "show tables") == [("s", "t"), ("s", "u")]
    assert list(lake.tables("s")) == []
    run(session, "savepoint two; drop table t; rollback to one")
    with pytest.raises(NotFoundError, match="existing savepoints: one"):
        run(session, "rollback to two")
    with pytest.raises(AlreadyExistsError):
        run(session, "create table t (b int)")
    assert (session.in_transaction, session.isolation) == (True, "snapshot")
    assert next(iter(session.script("commit"))).version == before + 1
    assert run(session, "show tables") == [("s", "t")]
    assert lake.history()[0].message == "two"
    with pytest.raises(InvalidInputError, match="no transaction is open"):
        run(session, "commit")
    with pytest.raises(InvalidInputError, match="cannot be nested"):
        run(session, "begin; begin")
    with pytest.raises(InvalidInputError, match="COMMIT or ROLLBACK first"):
        run(session, "call check()")
    session.close()
    assert not session.in_transaction


def test_a_savepoint_set_again_is_removed_by_a_rollback_to_an_earlier_one(session: SqlSession) -> None:
    run(session, "create namespace s; use s; begin; savepoint one; create table t (a int); savepoint two")
    run(session, "create table u (a int); savepoint one; rollback to two")
    with pytest.raises(NotFoundError, match="existing savepoints: two"):
        run(session, "rollback to one")
    assert run(session, "show tables") == [("s", "t")]


def test_a_failed_statement_of_several_steps_is_rolled_back_completely(session: SqlSession) -> None:
    run(session, "create namespace s; use s; create table t (a int)")
    text = "alter table t add columns (b int, a string)"
    with pytest.raises(InvalidInputError, match="a"):
        run(session, text)
    assert run(session, "show columns in t") == [("a",)]
    run(session, "begin")
    with pytest.raises(InvalidInputError, match="a"):
        run(session, text)
    assert run(session, "show columns in t") == [("a",)]


def test_procedures_report_their_results(session: SqlSession, lake: Lakehouse) -> None:
    run(session, "create namespace s; create table s.t (a int)")
    lake.table("s.t").append([{"a": 1}])
    lake.table("s.t").append([{"a": 2}])
    assert run(session, "call compact('s.t')") == [("s.t", 2, 1)]
    assert run(session, "use s; call compact(table => 't')") == [("s.t", 1, 1)]
    assert run(session, "call compact('t', full => true, engine => 'local')") == [("s.t", 1, 1)]
    assert [row[2] for row in run(session, "describe history t")][-2:] == ["append to s.t", "create table s.t (a int)"]
    assert run(session, "show history for t limit 1") == run(session, "describe history t")[:1]
    assert run(session, "show exports") == []
    assert run(session, "call check()") == []
    version = lake.version
    assert run(session, "call rollback(to => 2, message => 'back')") == [(version, version + 1)]
    assert run(session, "call expire(dry_run => true)")[0][0] == 0
    assert run(session, "call vacuum(true)")[0][0] == 0
    for text, message in {
        "call nothing()": "expected one of aliases, check, commit_stream, compact",
        "call compact()": "requires table",
        "call compact('s.t', 5, 6, 7, 8, 9)": "arguments are given",
        "call check(depth => 4)": "no argument depth",
        "call vacuum(true, dry_run => true)": "remove one of them",
    }.items():
        with pytest.raises((InvalidInputError, NotFoundError), match=message):
            run(session, text)


def test_procedures_take_parameters(session: SqlSession, lake: Lakehouse) -> None:
    run(session, "create namespace s; create table s.t (a int)")
    lake.table("s.t").append([{"a": 1}])
    lake.table("s.t").append([{"a": 2}])
    assert session.run("call compact(?, full => ?)", ["s.t", True]).rows() == [("s.t", 2, 1)]
    named = {"table": "s.t", "properties": {"owner": "ana's"}}
    session.run("call create_table_version(:table, properties => :properties)", named)
    assert lake.table("s.t", version=2).properties["owner"] == "ana's"
    refused: list[tuple[str, Any, str]] = [
        (
            "call compact(:name)",
            {"table": "s.t"},
            r"column 14: no argument for parameter 'name'; given arguments: table",
        ),
        ("call compact(:name)", ["s.t"], "no argument for parameter 'name'; given arguments: none"),
        ("call compact(?)", None, "column 14: the statement has more parameters than the 0 given arguments"),
        ("call compact(?)", [["s.t"]], "column 14: unsupported argument type list"),
        ("call compact(?)", [None], "compact requires table"),
    ]
    for text, arguments, message in refused:
        with pytest.raises(InvalidInputError, match=message):
            session.run(text, arguments)


def test_names_for_completion_are_the_existing_ones(session: SqlSession) -> None:
    run(session, "create namespace s; create namespace r; create table s.t (a int); create table r.u (a int)")
    assert session.names("s") == ["s", "s.t"]


def test_names_with_too_many_parts_are_rejected_and_similar_names_are_suggested(session: SqlSession) -> None:
    run(session, "create namespace sales; create table sales.orders (a int)")
    with pytest.raises(InvalidInputError, match="has 3 parts"):
        run(session, "describe a.b.c")
    with pytest.raises(NotFoundError, match=r"line 2, column 10: .*did you mean sales.orders\?"):
        run(session, "show namespaces;\ndescribe sales.ordres")
    with pytest.raises(NotFoundError, match=r"table or view sales\.x does not exist; run SHOW TABLES IN sales"):
        run(session, "describe sales.x")
    with pytest.raises(
        NotFoundError, match=r"table or view nope\.x does not exist; namespace nope does not exist either"
    ):
        run(session, "describe nope.x")


def test_a_replaced_view_that_a_query_names_conflicts_only_at_serializable(lake: Lakehouse) -> None:
    lake.create_namespace("sales")
    lake.create_view("sales.daily", "select 1 as n")
    careless, careful = lake.transaction(), lake.transaction("serializable")
    for transaction in (careless, careful):
        assert transaction.sql("select n from sales.daily", engine="duckdb").to_arrow().to_pylist() == [{"n": 1}]
        transaction.create_table(f"sales.{transaction.isolation.value}", "id int")
    lake.sql("create or replace view sales.daily as select 2 as n", engine="duckdb")
    careless.commit()
    with pytest.raises(ConflictError, match=r"view sales\.daily"):
        careful.commit()

"""What statements ask for, taken apart."""

import pytest

from mangrove.errors import InvalidInputError
from mangrove.sql.parse.grammar import parse_statement
from mangrove.sql.parse.statements import (
    AddColumns,
    AlterColumn,
    AlterTable,
    BeginStatement,
    CallStatement,
    CommitStatement,
    CreateTable,
    Delete,
    ExecuteImmediate,
    Explain,
    Insert,
    Merge,
    MultiInsert,
    Query,
    RollbackStatement,
    SavepointStatement,
    ShowStatement,
    TemporaryView,
    Update,
)


def test_a_table_is_created_with_keys_checks_partitions_and_properties() -> None:
    found = parse_statement(
        "create or replace table s.t (id bigint not null primary key comment 'the id', -- first\n"
        " price decimal(10,2) default 5.0 check (price > 0), tags map<string,array<int>>,\n"
        " constraint late check (day(ts) in (1, 2)), ts timestamp)\n"
        "partitioned by (days(ts), bucket(4, id)) cluster by (price) comment 'what is sold'\n"
        "tblproperties (owner = 'ana', 'write.delete-mode' = position, a.b = true)"
    )
    assert isinstance(found, CreateTable)
    assert found.name.parts == ("s", "t")
    assert found.columns is not None
    assert "".join(found.columns.split()) == (
        "idbigintnotnullcomment'theid',pricedecimal(10,2)default5.0,tagsmap<string,array<int>>,tstimestamp"
    )
    assert found.keys == ("id",)
    assert [(check.name, check.condition) for check in found.checks] == [
        (None, "price > 0"),
        ("late", "day(ts) in (1, 2)"),
    ]
    assert found.partition_by == ("days(ts)", "bucket(4, id)")
    assert found.cluster_by == ("price",)
    assert found.properties == {"owner": "ana", "write.delete-mode": "position", "a.b": "true"}
    assert found.or_replace


def test_a_merge_has_its_clauses_in_order_with_conditions_and_values() -> None:
    text = (
        "merge into s.t as a using (select * from u) b on a.id = b.id and case when x then y end = 1 "
        "when matched and b.gone then delete when matched then update set n = a.n + 1, m = f(1, 2) "
        "when not matched and b.x in (select 1) then insert (id, n) values (b.id, 0) "
        "when not matched then insert * when not matched by source then update set n = null"
    )
    found = parse_statement(text)
    assert isinstance(found, Merge)
    assert (found.alias, found.source.text, found.source_alias) == ("a", "(select * from u)", "b")
    assert found.condition.text == "a.id = b.id and case when x then y end = 1"
    assert [(clause.group, clause.action) for clause in found.clauses] == [
        ("matched", "delete"),
        ("matched", "update"),
        ("not matched", "insert"),
        ("not matched", "insert all"),
        ("not matched by source", "update"),
    ]
    assert [(one.column, one.value.text) for one in found.clauses[1].assignments] == [
        (("n",), "a.n + 1"),
        (("m",), "f(1, 2)"),
    ]
    pieces = [found.condition, *(clause.condition for clause in found.clauses if clause.condition)]
    assert all(text[piece.start :].startswith(piece.text) for piece in pieces)


def test_rows_are_inserted_by_position_by_name_and_into_partitions() -> None:
    by_place = parse_statement("insert into t (a, `b c`) values (1, 2)")
    assert isinstance(by_place, Insert)
    assert (by_place.columns, by_place.query.piece.text) == (("a", "b c"), "values (1, 2)")
    by_name = parse_statement("insert overwrite table s.t by name select 1 as a")
    assert isinstance(by_name, Insert)
    assert (by_name.by_name, by_name.overwrite) == (True, True)
    partition = parse_statement("insert overwrite t partition (d = 'x', e) (select 1)")
    assert isinstance(partition, Insert)
    assert [(name, value and value.text) for name, value in partition.partition] == [("d", "'x'"), ("e", None)]
    assert partition.query.piece.text == "(select 1)"


def test_a_with_clause_before_an_insert_keeps_text_positions() -> None:
    text = "with c as (select 1 as a) insert into t select a from c"
    found = parse_statement(text)
    assert isinstance(found, Insert)
    assert found.query.piece.text.split() == "with c as (select 1 as a) select a from c".split()  # noqa: SIM905
    assert found.query.piece.start == 0
    assert found.query.piece.text.index("select a") == text.index("select a")


def test_multi_inserts_share_the_from_clause_and_keep_text_positions() -> None:
    text = (
        "with c as (select 1 as a) from c join d using (a) insert into t select a where a > 1 "
        "insert overwrite u (b) select a"
    )
    found = parse_statement(text)
    assert isinstance(found, MultiInsert)
    assert [(one.table.parts, one.columns, one.overwrite) for one in found.inserts] == [
        (("t",), (), False),
        (("u",), ("b",), True),
    ]
    first, second = (" ".join(one.query.piece.text.split()) for one in found.inserts)
    assert first == "with c as (select 1 as a) from c join d using (a) select a where a > 1"
    assert second == "with c as (select 1 as a) from c join d using (a) select a"
    assert found.inserts[1].query.piece.text.rindex("select a") == text.rindex("select a")


@pytest.mark.parametrize("text", ["from t select a", "from t", "with c as (select 1) from c select *"])
def test_a_query_that_begins_with_from_is_not_an_insert(text: str) -> None:
    assert isinstance(parse_statement(text), Query)


def test_an_alias_of_a_source_may_name_its_columns() -> None:
    found = parse_statement("merge into t using (values (1, 2)) as s (a, b) on t.a = s.a when matched then delete")
    assert isinstance(found, Merge)
    assert (found.source_alias, found.source_columns) == ("s", ("a", "b"))


def test_the_values_of_a_merge_may_be_positional() -> None:
    found = parse_statement("merge into t using s on true when not matched then insert values (s.a, default)")
    assert isinstance(found, Merge)
    assert [(one.column, one.value.text) for one in found.clauses[0].assignments] == [((), "s.a"), ((), "default")]


def test_a_name_may_be_computed() -> None:
    found = parse_statement("delete from identifier(:t) where a = 1", 0, lambda piece: f"s.`{piece.text}`")
    assert isinstance(found, Delete)
    assert found.table.parts == ("s", ":t")
    assert isinstance(parse_statement("select * from identifier(:t)", 0, lambda _: "never"), Query)


def test_the_text_and_the_arguments_of_execute_immediate_are_expressions() -> None:
    found = parse_statement("execute immediate 'select ' || :x using 1 + 1 as a, f(2, 3) as b")
    assert isinstance(found, ExecuteImmediate)
    assert found.text.text == "'select ' || :x"
    assert [(name, piece.text) for name, piece in found.arguments] == [("a", "1 + 1"), ("b", "f(2, 3)")]
    into = parse_statement("execute immediate 'select 1, ?' into x, session.y using 2")
    assert isinstance(into, ExecuteImmediate)
    assert into.into is not None
    assert (into.into.text, len(into.arguments)) == ("x, session.y", 1)
    with pytest.raises(InvalidInputError, match="name all or none"):
        parse_statement("execute immediate 'x' using 1, 2 as b")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("begin declare x int; insert into t values (x); end", "INSERT"),
        ("begin if a then select 1; else update t set a = 1; end if; end", "UPDATE"),
        ("begin while a do delete from t; end while; end", "DELETE"),
        ("begin create table s.t (id int); end", "CREATE"),
        ("begin select 1; create or replace view v as select 1; end", "CREATE"),
        ("begin if a then drop table t; end if; end", "DROP"),
        ("begin alter table t add column a int; end", "ALTER"),
    ],
)
def test_a_block_that_changes_rows_or_tables_is_rejected_with_position_and_remedy(text: str, word: str) -> None:
    expected = rf"column {text.upper().index(word) + 1}: .*{word} .*BEGIN TRANSACTION.*txn\.sql"
    with pytest.raises(InvalidInputError, match=expected):
        parse_statement(text)


@pytest.mark.parametrize(
    "text",
    [
        "begin declare insert int; select insert; end",
        "begin create or replace temporary view v as select 1; select * from v; drop view v; end",
        "begin select create from t; end",
    ],
)
def test_a_block_that_reads_and_keeps_to_temporary_views_is_left_to_spark(text: str) -> None:
    assert isinstance(parse_statement(text), Query)


def test_updates_and_deletes_have_aliases_and_conditions() -> None:
    update = parse_statement("update s.t x set a.b = 5, c = (select max(d) from u where e) where x.f between 1 and 2")
    assert isinstance(update, Update)
    assert (update.alias, [one.column for one in update.assignments]) == ("x", [("a", "b"), ("c",)])
    assert update.condition is not None
    assert update.condition.text == "x.f between 1 and 2"
    delete = parse_statement("delete from t")
    assert isinstance(delete, Delete)
    assert (delete.alias, delete.condition) == (None, None)


def test_a_from_inside_a_value_is_not_a_clause_of_an_update() -> None:
    found = parse_statement("update t set a = b is distinct from c, d = extract(day from ts) where d > 1")
    assert isinstance(found, Update)
    assert [one.value.text for one in found.assignments] == ["b is distinct from c", "extract(day from ts)"]


def test_transactions_are_distinguished_from_blocks_of_spark() -> None:
    assert parse_statement("begin") == BeginStatement()
    assert parse_statement("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE") == BeginStatement("serializable")
    assert parse_statement("start transaction message 'why'") == BeginStatement(None, "why")
    assert parse_statement("commit message 'done'") == CommitStatement("done")
    assert parse_statement("rollback") == RollbackStatement()
    assert parse_statement("rollback to savepoint a") == RollbackStatement("a")
    assert parse_statement("savepoint a") == SavepointStatement("a")
    assert isinstance(parse_statement("begin select 1; end"), Query)


def test_a_trailing_as_of_clause_applies_to_the_whole_statement() -> None:
    found = parse_statement("select * from a, b at lake version 41")
    assert isinstance(found, Query)
    assert (found.piece.text, found.at) == ("select * from a, b", 41)
    explained = parse_statement("explain extended select 1 at lake timestamp '2026-01-01'")
    assert isinstance(explained, Explain)
    assert (explained.head, explained.query.at) == ("explain extended ", "2026-01-01")


def test_columns_are_added_at_positions_and_altered() -> None:
    added = parse_statement(
        "alter table t add columns (a int first, s.b struct<x: int, y: string> comment 'c' after d)"
    )
    assert isinstance(added, AlterTable)
    assert isinstance(added.action, AddColumns)
    assert [(one.path, one.is_first, one.after) for one in added.action.columns] == [
        (("a",), True, None),
        (("s", "b"), False, "d"),
    ]
    altered = parse_statement("alter table t alter column a type decimal(12, 2)")
    assert isinstance(altered, AlterTable)
    assert altered.action == AlterColumn(("a",), "type", "decimal(12, 2)")


def test_procedures_accept_positional_and_named_arguments() -> None:
    found = parse_statement("call export('s3://b/x', name => 'n', version => 4, dry => true, none => null)")
    assert isinstance(found, CallStatement)
    assert found.positional == ("s3://b/x",)
    assert found.named == {"name": "n", "version": 4, "dry": True, "none": None}


def test_statements_known_only_to_spark_are_passed_to_spark() -> None:
    for text in ["select 1", "create function f as 'x'", "show functions", "describe query select 1", "set a = b", "x"]:
        assert isinstance(parse_statement(text), Query)
    assert isinstance(parse_statement("create temp view v as select 1"), TemporaryView)
    shown = parse_statement("show tables in s like 'a*'")
    assert isinstance(shown, ShowStatement)
    assert shown.pattern == "a*"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("create table t (a)", "line 1, column 18: unexpected '\\)'; expected the type of column 'a'"),
        ("begin isolation level chaos", "unexpected 'chaos'; expected SNAPSHOT or SERIALIZABLE"),
        ("merge into t using s on a = b", "unexpected end of statement; expected WHEN MATCHED"),
        ("drop table t u", "unexpected 'u'; expected the end of the statement"),
        ("update t set a 5", "unexpected '5'; expected ="),
        (
            "update t set b = 1, a = x.a from x where x.b = t.b",
            "column 29: UPDATE … FROM is not supported; use MERGE INTO",
        ),
        ("create temporary view s.v as select 1", "column 23: a temporary view belongs to the session"),
        ("create table t (a int not null unique)", "column 32: UNIQUE is not supported; .* PRIMARY KEY"),
        ("create table t (a int, constraint u unique (a))", "column 37: UNIQUE is not supported"),
        ("create table t (a int references u (a))", "column 23: foreign keys are not supported"),
        ("create table t (a int, foreign key (a) references u (a))", "column 24: foreign keys are not supported"),
        ("create table t (a int, b int generated always as (a + 1))", "column 30: generated columns are not supported"),
        ("create table t (a int primary key, b int primary key)", "column 42: a table has one primary key"),
        ("create table t (a int primary key, primary key (a))", "column 36: a table has one primary key"),
        ("create table t (a int, primary key (a, A))", "column 24: the primary key has a duplicate column: a, A"),
        ("update t set a = x.a from x, y where x.b = y.b", "column 22: UPDATE … FROM is not supported; use MERGE INTO"),
        ("update t set a = 1, (b, c) = (2, 3)", "column 21: a column list cannot be set at once"),
        ("delete from t as x using u where x.a = u.a", "column 20: DELETE … USING is not supported; use MERGE INTO"),
        (
            "insert into t values (1) on conflict (a) do update set b = 2",
            "column 26: ON CONFLICT is not supported; use M",
        ),
        ("insert into t select * from u on duplicate key update b = 2", "column 31: ON DUPLICATE KEY is not supported"),
        ("insert or ignore into t values (1)", "column 1: INSERT OR is not supported; use MERGE INTO"),
        ("upsert into t values (1)", "UPSERT INTO is not supported; use MERGE INTO"),
        ("replace into t values (1)", "REPLACE INTO is not supported; use MERGE INTO"),
        ("insert into t default values", "column 15: DEFAULT VALUES is not supported; use VALUES"),
        ("insert into t values (1) returning *", "column 26: RETURNING is not supported"),
        (
            "with q as (select 1) update t set a = 1 where b in (select * from q) returning b + 1",
            "RETURNING is not supported",
        ),
        ("delete from t where a = 'x' returning a", "column 29: RETURNING is not supported"),
        ("merge into t using u on t.a = u.a when matched then delete returning t.a", "RETURNING is not supported"),
        ("merge into t using u on t.a = u.a when matched then do nothing", "column 48: DO NOTHING is not supported"),
        ("call compact('t', full => true, 5)", "a named argument"),
        ("load data inpath '/x' into table s.o", "column 1: LOAD DATA is for Hive tables .* INSERT INTO"),
    ],
)
def test_a_syntax_error_reports_the_expected_token_and_its_position(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_statement(text)


@pytest.mark.parametrize(
    "text",
    [
        "insert into default values (1)",
        "insert into s.default values (1)",
        "update returning set returning = returning + 1 where returning in (1) or t.returning is null",
        "delete from t returning where returning.a = 1",
        "insert into t select a returning from u returning join v on conflict = a",
        "insert into t select returning, conflict as returning from u where f(returning) > 1",
        "merge into t using returning on returning.a = t.a when matched then update set returning = returning.b",
    ],
)
def test_keywords_of_other_dialects_may_be_names(text: str) -> None:
    assert isinstance(parse_statement(text), Insert | Update | Delete | Merge)


def test_keywords_of_other_constraints_may_be_columns() -> None:
    found = parse_statement("create table t (`unique` int comment 'unique', identity string default 'references')")
    assert isinstance(found, CreateTable)
    assert found.columns == "`unique` int comment 'unique', identity string default 'references'"

"""What is asked of a table through views, WITH clauses, derived tables, set operations and joins changes no answer."""

import datetime
import decimal
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from tests.sql.random_queries import ARROW, COLUMNS, SCHEMA, VIEWS, Case, answer, cases, conditions, tables

from mangrove.expressions.predicates import Predicate, render_predicate_sql
from mangrove.expressions.schema_text import parse_schema
from mangrove.local.scan import build_predicate_mask, coalesce_to_false
from mangrove.sql.parse.table_refs import find_table_refs, parse_query_tables
from mangrove.sql.parse.tokens import tokenize
from mangrove.sql.pushdown.constant_folding import ConstantResolver
from mangrove.sql.pushdown.predicates import PredicatePushdown, PushedPredicate
from mangrove.sql.pushdown.pruning_predicates import build_table_predicate
from mangrove.sql.pushdown.scopes import TypedColumns


def predicates_in(
    query: str, views: Mapping[str, str], above: PushedPredicate = (), time_zone: str = "UTC"
) -> dict[str, Predicate | None]:
    """Return for each table, by its name, what a query needs of it; all of `views` are looked into."""
    tokens = tokenize(query)
    parsed = parse_query_tables(query, tokens)
    pushed_predicates = PredicatePushdown(lambda table: columns_of(table, views), above if parsed.is_prunable else ())
    found: dict[str, Predicate | None] = {}
    for table_ref in find_table_refs(parsed, tokens):
        pushed = (
            pushed_predicates.on_table(parsed.requested[table_ref.start]) if table_ref.start in parsed.requested else ()
        )
        if table_ref.parts[-1] in views:
            found |= predicates_in(views[table_ref.parts[-1]], views, pushed, time_zone)
        else:
            found[table_ref.parts[-1]] = build_table_predicate(pushed, SCHEMA, ConstantResolver(lambda: time_zone))
    return found


def columns_of(table: exp.Table, views: Mapping[str, str]) -> TypedColumns | None:
    if table.name not in views:
        return COLUMNS
    text = views[table.name]
    return PredicatePushdown(lambda inner: columns_of(inner, views)).scopes.columns(
        parse_query_tables(text, tokenize(text)).tree
    )


def short_of(table: pa.Table, predicate: Predicate | None, kept: int) -> pa.Table:
    """Return the table without rows that do not fulfil the predicate, but for those whose bits are set."""
    if predicate is None:
        return table
    meant = coalesce_to_false(build_predicate_mask(table, predicate, SCHEMA)).to_pylist()
    return table.filter(pa.array([one or bool(kept >> place & 1) for place, one in enumerate(meant)], pa.bool_()))


@settings(max_examples=300)
@given(cases(), st.lists(tables, min_size=3, max_size=3), st.sampled_from([0, 0, 0b101010, 0b010101]))
def test_predicate_pushdown_does_not_change_results(case: Case, found: list[list[dict[str, Any]]], kept: int) -> None:
    whole = {name: pa.Table.from_pylist(found[number % len(found)], ARROW) for number, name in enumerate(case.names)}
    requested = predicates_in(case.query, case.views)
    needed = {name: short_of(table, requested[name], kept) for name, table in whole.items() if name in requested}
    texts = {name: predicate and render_predicate_sql(predicate, SCHEMA) for name, predicate in requested.items()}
    assert answer(case, {**whole, **needed}) == answer(case, whole), f"{case} needs {texts}"


@settings(max_examples=100)
@given(conditions(), tables, st.sampled_from(["", " |> limit 1 |> where a = 1", " |> set a = 0 |> where a = 0"]))
def test_only_the_first_predicates_of_a_pipe_are_pushed_down(
    requested: list[str], found: list[dict[str, Any]], behind: str
) -> None:
    whole = pa.Table.from_pylist(found, ARROW)
    predicate = predicates_in(f"from t{''.join(f' |> where {one}' for one in requested)}{behind}", {})["t"]
    case = Case(f"select * from t where {' and '.join(f'({one})' for one in requested)}", {}, ("t",))
    assert answer(case, {"t": short_of(whole, predicate, 0)}) == answer(case, {"t": whole})


def pushed_predicate(table: str, query: str, time_zone: str = "UTC") -> str | None:
    """Return as text what a query needs of a table."""
    predicate = predicates_in(query, VIEWS, time_zone=time_zone)[table]
    return None if predicate is None else render_predicate_sql(predicate, SCHEMA)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from (select * from t) where a = 1", "a = 1"),
        ("select * from (select b as a, a as b from t) x where x.a = 1", "b = 1"),
        ("select * from t as t (b, a, s, d, m, n) where a = 1", "b = 1"),
        ("select x from renamed where x = 1 and y > 2", "(a = 1 and b > 2)"),
        ("select * from named where `when` = '2026-01-01'", "d = date '2026-01-01'"),
        ("select * from united where a = 1", "a = 1"),
        ("select * from kinds where kind = 1 and a = 2", "a = 2"),
        ("select * from kinds where kind in (2, 3)", "(false or false)"),
        ("with c as (select a, b from t) select * from c where a = 1", "a = 1"),
        ("with c (k) as (select a from t) select * from c x join c y on x.k = 1 and y.k = 2", "(a = 1 or a = 2)"),
        ("with c as (select a from t), e as (select * from c where a > 0) select * from e where a < 2",
         "(a > 0 and a < 2)"),
        ("select a, count(*) from (select a from t group by a) group by a having a = 1", "a = 1"),
        ("select s, count(*) from t group by s, a having a = 1 and count(*) > 2", "a = 1"),
        ("select b as a, count(*) from t group by b having a = 1", "b = 1"),
        ("select b as a, count(*) from t group by b, a having t.a = 1", "a = 1"),
        ("select b as a, count(*) from t group by b, a having a = 1", None),
        ("select max(a) as a from t group by b having a = 1", None),
        ("select s, max(a) from t group by s having max(a) = 1", None),
        ("select s, count(*) from t group by s having s = 'x' or count(*) > 2", None),
        ("select a, count(*) from t group by rollup (a) having a = 1", None),
        ("select a, count(*) from t group by all having a = 1", "a = 1"),
        ("select year(n) as y, count(*) from t group by 1 having y < 2026", "n < timestamp_ntz '2026-01-01 00:00:00'"),
        ("select a, sum(rand()) from t group by a having a = 1", None),
        ("select u.a from u left join t on u.a = t.a group by u.a, t.b having t.b is null", None),
        ("select u.a from u left join t on u.a = t.a group by u.a, t.b having t.b = 1", "b = 1"),
        ("select a, row_number() over (order by count(*)) from t group by a having a = 1 limit 3", "a = 1"),
        ("select * from t where a <=> 1", "a = 1"),
        ("select * from t where null <=> a", "a is null"),
        ("select * from t where not (a <=> 1)", "(a is null or a <> 1)"),
        ("select * from t where not (a <=> b)", None),
        ("select * from u left join t on u.a = t.a where t.a <=> null", None),
        ("select t.* from t left join (select 1 as k from u) x on t.b = x.k where t.a <=> x.k", None),
        ("from t |> where a = 1", "a = 1"),
        ("from t |> where a = 1 or b = 2 |> where s = 'x' |> select a", "((a = 1 or b = 2) and s = 'x')"),
        ("from t |> where a = 1 |> limit 3 |> where b = 2", "a = 1"),
        ("from t |> where a = 1 |> set a = 2 |> drop b |> where s = 'x'", "a = 1"),
        ("from t |> where a = ? |> select b, ?", None),
        ("from t |> limit 3 |> where a = 1", None),
        ("from u |> where a = 1 |> join t on t.a = u.a |> where t.b = 2", None),
        ("select * from (from t |> limit 3 |> where a = 1)", None),
        ("select * from limited where a = 1", None),
        ("select * from (select a as k, sum(b) as v from t group by a) where k = 1 and v > 2", "a = 1"),
        ("select * from (select distinct a from t) where a = 1", "a = 1"),
        ("select * from (select s, a from t union all select s, 0 from u) where a = 1", "a = 1"),
        ("select * from (select s, year(n) from t) as x (who, y) where y < 2026",
         "n < timestamp_ntz '2026-01-01 00:00:00'"),
        ("select * from z.t join y.t using (a) where a = 1", "a = 1"),
        ("select z.t.a from z.t where z.t.a = 1", "a = 1"),
        ("select * from (select * from t) where 1 = 0", "false"),
        ("select * from t left join u on t.a = u.a where true and 1 = 1", None),
        ("select * from u left join t on false", "false"),
        ("select * from (select a, row_number() over (partition by a order by b) as r from t) where a = 1 and r = 1",
         "a = 1"),
        ("select a from t except select a from u", None),
        ("select * from (select a from t except select a from u) where a = 1", "a = 1"),
        ("select * from (select a from u intersect select a from t) where a = 1", "a = 1"),
        ("select * from t join u on t.a = u.b where u.b = 7", "a = 7"),
        ("select * from t join u using (a) where a = 7", "a = 7"),
        ("select * from u left join t using (a) where a = 7", "a = 7"),
        ("select * from u left join t on t.b = u.a where u.a in (1, 2)", "(b = 1 or b = 2)"),
        ("select * from u left semi join t on t.a = u.a where u.a = 7", "a = 7"),
        ("select * from t left semi join u on t.a = 7", "a = 7"),
        ("select * from u left anti join t on t.a = u.a where u.a = 7", "a = 7"),
        ("select * from renamed join u on x = u.a where u.a between 1 and 2", "(a >= 1 and a <= 2)"),
        ("select * from t where (a = 1 and length(s) > 2) or (a = 2 and s > m)", "(a = 1 or a = 2)"),
        ("select * from t where a in (1, null)", "(a = 1)"),
        ("select * from t where year(n) = 2026",
         "(n >= timestamp_ntz '2026-01-01 00:00:00' and n < timestamp_ntz '2027-01-01 00:00:00')"),
        ("select * from t where date(n) >= '2026-01-02'", "n >= timestamp_ntz '2026-01-02 00:00:00'"),
        ("select * from t where trunc(d, 'MM') = '2026-02-01'",
         "(d >= date '2026-02-01' and d < date '2026-03-01')"),
        ("select * from monthly where month < '2026-02-01' and day > '2025-12-31'",
         "(n < timestamp_ntz '2026-02-01 00:00:00' and n >= timestamp_ntz '2026-01-01 00:00:00')"),
        ("select * from t where d < date '2024-01-31' + interval '1' month", "d < date '2024-02-29'"),
        ("select * from t where d >= date '1998-12-01' - interval 90 day", "d >= date '1998-09-02'"),
        ("select * from t where left(s, 2) = 'ab'", "s like 'ab%'"),
    ],
)  # fmt: skip
def test_predicates_are_pushed_down_through_views_subqueries_and_joins(query: str, expected: str | None) -> None:
    assert pushed_predicate("t", query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "select * from (select * from t limit 3) where a = 1",
        "select * from ((select a from t) union all (select a from u) limit 3) where a = 1",
        "select * from (select a, sum(b) as v from t group by a) where v = 1",
        "select * from (select a, count(*) as v from t group by rollup (a)) where a is null",
        "select * from (select a, row_number() over (order by b) as r from t) where a = 1",
        "select * from (select a, sum(b) over w as r from t window w as (partition by a)) where a = 1",
        "select * from (select a, rand() as r from t) where a = 1",
        "select * from (select a, monotonically_increasing_id() as r from t) where a = 1",
        "select * from (select a from t) tablesample (5 rows) where a = 1",
        "select * from (select a + 1 as a from t) where a = 1",
        "select * from (select a, b as a from t) where a = 1",
        "select * from (select a from t union all select s from u) where a = 1",
        "select * from (select a from t union all by name select a from u) where a = 1",
        "with c as (select a from t) select * from c where a = 1 union all select * from c",
        "with c as (select a from t) select * from u where exists (select 1 from c) and u.a = 1",
        "with recursive c as (select a from t union all select a + 1 from c where a < 3) select * from c where a = 1",
        "select * from u left join (select 1 as one, a from t) x on x.a = u.a where x.one is null",
        "select * from u left join t on t.a = u.a where u.b = 7",
        "select z.t.a from z.t as x where z.t.a = 1",
        "select * from u left join (select 1 as one, a from t) x on x.a = u.a where not (1 = x.one)",
        "select * from u right join t on t.a = u.a where u.a is null",
        "select * from u full join t on t.a = u.a where u.a = 7",
        "select * from t left join u on t.a = u.a and u.a = 7",
        "select * from t left anti join u on t.a = 7",
        "select * from t join u on t.a = u.m where u.m = 7",
        "select * from t join u on t.a <=> u.a where u.a = 7",
        "select * from t join u on t.a = u.a or t.b = 1 where u.a = 7",
        "select * from u, lateral (select * from t) x where x.a = 1",
        "select * from t where a in (select b from u where b = 1)",
        "select * from t where not (a = 1 and s > m)",
        "select * from t where month(n) = 1",
        "select * from t where date_trunc('month', n) = '2026-01-02'",
        "select * from t where date_trunc('week', n) = '2026-01-05'",
        "select * from t where d < '2026-01-01' + interval '1' day",
    ],
)
def test_predicates_are_not_pushed_through_operators_that_depend_on_other_rows(query: str) -> None:
    assert pushed_predicate("t", query) is None


def test_years_and_days_of_a_time_with_a_zone_are_pushed_down_only_if_the_session_is_in_utc() -> None:
    schema = parse_schema("z timestamp")
    for condition in ("year(z) = 2026", "cast(z as date) = '2026-01-01'", "date_trunc('day', z) = '2026-01-01'"):
        query = f"select * from t where {condition}"
        table = next(iter(parse_query_tables(query, tokenize(query)).tables.values()))
        pushed = PredicatePushdown(lambda _: [(one.name, one.type) for one in schema.columns]).on_table(table)
        assert build_table_predicate(pushed, schema, ConstantResolver(lambda: "Etc/UTC")) is not None
        assert build_table_predicate(pushed, schema, ConstantResolver(lambda: "Asia/Tokyo")) is None


@pytest.mark.parametrize(
    ("condition", "arguments", "expected"),
    [
        ("a = :low", {"low": 3}, "a = 3"),
        ("s = :who and a > :low", {"low": 3, "who": "it's"}, "(s = 'it\\'s' and a > 3)"),
        ("a between ? and ?", [1, 2], "(a >= 1 and a <= 2)"),
        ("d >= :day", {"day": datetime.date(2026, 1, 2)}, "d >= date '2026-01-02'"),
        ("d >= :day", {"day": "2026-01-02"}, "d >= date '2026-01-02'"),
        ("m < ?", [decimal.Decimal("1.25")], "m < 1.25"),
        ("a = :low", {"low": "3"}, None),
        ("a = :low", {"low": 1.5}, None),
        ("a = :low", {"low": None}, None),
        ("a = :low", {}, None),
        ("a = ?", [], None),
        ("n = :moment", {"moment": datetime.datetime(2026, 1, 2)}, None),
    ],
)
def test_parameters_are_pushed_down_as_their_values(condition: str, arguments: Any, expected: str | None) -> None:
    query = f"select * from t where {condition}"
    table = next(iter(parse_query_tables(query, tokenize(query)).tables.values()))
    pushed = PredicatePushdown(lambda _: COLUMNS).on_table(table)
    predicate = build_table_predicate(pushed, SCHEMA, ConstantResolver(lambda: "UTC", arguments))
    assert (None if predicate is None else render_predicate_sql(predicate, SCHEMA)) == expected

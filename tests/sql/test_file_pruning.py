"""What a query needs of a table: leaving all other rows out never changes its answer, as DuckDB gives it."""

import datetime
import decimal
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sql.random_queries import connect_peer

from mangrove.expressions.predicates import Predicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.local.scan import build_predicate_mask, coalesce_to_false
from mangrove.sql.parse.table_refs import find_table_refs, parse_query_tables
from mangrove.sql.parse.tokens import tokenize
from mangrove.sql.pushdown.constant_folding import ConstantResolver
from mangrove.sql.pushdown.predicates import PredicatePushdown
from mangrove.sql.pushdown.pruning_predicates import build_table_predicate

SCHEMA = parse_schema("a int, b bigint, s string, d date, m decimal(6,2), f double, n timestamp_ntz, x boolean")
COLUMNS: list[tuple[str, pa.DataType]] = [
    ("a", pa.int32()),
    ("b", pa.int64()),
    ("s", pa.string()),
    ("d", pa.date32()),
    ("m", pa.decimal128(6, 2)),
    ("f", pa.float64()),
    ("n", pa.timestamp("us")),
    ("x", pa.bool_()),
]
ARROW = pa.schema(COLUMNS)
DAYS = [datetime.date(2026, 1, day) for day in (1, 2, 3)]
rows = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-2, 3),
        "b": st.none() | st.integers(-2, 3),
        "s": st.none() | st.sampled_from(["", "a", "ab", "b", "B", "é"]),
        "d": st.none() | st.sampled_from(DAYS),
        "m": st.none() | st.sampled_from([decimal.Decimal(text) for text in ("-1.00", "0.50", "1.00", "1.25")]),
        "f": st.none() | st.sampled_from([-1.0, 0.0, 0.5, 1.25, float("inf"), float("nan")]),
        "n": st.none() | st.sampled_from([datetime.datetime(2026, 1, day, 12) for day in (1, 2)]),
        "x": st.none() | st.booleans(),
    }
)
UTC = ConstantResolver(lambda: "UTC")
NUMBERS = ["-2", "0", "1", "1.25", "0.5", "3.999", "(2)"]
OPERATORS = ["=", "<>", "!=", "<", "<=", ">", ">="]
LITERALS = {
    "a": NUMBERS,
    "b": NUMBERS,
    "m": NUMBERS,
    "f": NUMBERS,
    "s": ["'a'", "'ab'", "''", "'c'"],
    "d": ["'2026-01-02'", "date '2026-01-01'"],
    "n": ["'2026-01-01 12:00:00'", "'2026-01-02'"],
    "x": ["true", "false"],
}


@st.composite
def conditions(draw: st.DrawFn, prefix: str = "", depth: int = 2) -> str:
    """Conditions of every kind, also of those that are left to Spark."""
    if depth and draw(st.booleans()):
        left, right = draw(conditions(prefix, depth - 1)), draw(conditions(prefix, depth - 1))
        return draw(
            st.sampled_from([f"{left} and {right}", f"({left} or {right})", f"not ({left})", f"({left}) and {right}"])
        )
    column = draw(st.sampled_from(sorted(LITERALS)))
    name = prefix + column
    one, two = (draw(st.sampled_from(LITERALS[column])) for _ in range(2))
    operator = draw(st.sampled_from(OPERATORS))
    return draw(
        st.sampled_from(
            [
                f"{name} {operator} {one}",
                f"{one} {operator} {name}",
                f"{name} between {one} and {two}",
                f"{name} not between {one} and {two}",
                f"{name} in ({one}, {two})",
                f"{name} not in ({one}, {two})",
                f"{name} in ({one}, null)",
                f"{name} not in ({one}, null)",
                f"{name} is null",
                f"{name} is not null",
                f"{prefix}x",
                f"not {prefix}x",
                f"{prefix}s like 'a%'",
                f"{prefix}s not like 'ab'",
                f"{prefix}a + 1 > 2",
                f"coalesce({prefix}a, 0) = 0",
                f"{prefix}a = {prefix}b",
            ]
        )
    )


def predicates(query: str) -> dict[str, Predicate | None]:
    """Return for each table, by its alias, what a query needs of it."""
    tokens = tokenize(query)
    parsed = parse_query_tables(query, tokens)
    tables = [parsed.tables[table_ref.start] for table_ref in find_table_refs(parsed, tokens)]
    pushed_predicates = PredicatePushdown(lambda _: [(column.name, column.type) for column in SCHEMA.columns])
    return {
        table.alias_or_name: build_table_predicate(pushed_predicates.on_table(table), SCHEMA, UTC) for table in tables
    }


def needed(table: pa.Table, predicate: Predicate | None) -> pa.Table:
    return (
        table if predicate is None else table.filter(coalesce_to_false(build_predicate_mask(table, predicate, SCHEMA)))
    )


def answer(query: str, **tables: pa.Table) -> Counter[str]:
    for name, table in tables.items():
        connect_peer().register(name, table)
    return Counter(repr(row) for row in connect_peer().execute(query).fetchall())


@settings(max_examples=150)
@given(st.lists(rows, max_size=8), conditions())
def test_file_pruning_by_a_predicate_does_not_change_results(found: list[dict[str, Any]], condition: str) -> None:
    table = pa.Table.from_pylist(found, ARROW)
    query = f"select * from t where {condition}"
    assert answer(query, t=needed(table, predicates(query)["t"])) == answer(query, t=table)


@settings(max_examples=150)
@given(
    st.lists(rows, max_size=4),
    st.lists(rows, max_size=4),
    st.sampled_from(
        ["join", "left join", "right join", "full join", "left semi join", "left anti join", "cross join", ","]
    ),
    conditions("l.", 1),
    conditions("r.", 1),
    conditions("l.", 1) | conditions("r.", 1),
)
def test_pruning_before_a_join_does_not_change_results(
    left: list[dict[str, Any]], right: list[dict[str, Any]], join: str, of_left: str, of_right: str, where: str
) -> None:
    spoken = {"left semi join": "semi join", "left anti join": "anti join"}.get(join, join)
    sees_right = spoken == join
    on = "" if join in ("cross join", ",") else f"on l.a = r.a and {of_left} and {of_right}"
    condition = where if sees_right or "r." not in where else of_left
    query = f"select l.* {', r.*' if sees_right else ''} from t l {join} u r {on} where {condition}"
    requested = query.replace(join, spoken)
    one, two = pa.Table.from_pylist(left, ARROW), pa.Table.from_pylist(right, ARROW)
    found = predicates(query)
    assert answer(requested, t=needed(one, found["l"]), u=needed(two, found["r"])) == answer(requested, t=one, u=two)


@pytest.mark.parametrize(
    "condition",
    [
        "a = 1",
        "a in (1, 2) and s like 'x%'",
        "t.a < 3 or d >= date '2026-01-01'",
        "not (m between 1 and 2.5)",
        "n < '2026-01-01 00:00:00' and f > -1.5",
        "x = true",
        "x and a = 1",
        "not x",
    ],
)
def test_simple_predicates_are_pushed_down(condition: str) -> None:
    assert predicates(f"select * from s.t where {condition}")["t"] is not None


@pytest.mark.parametrize(
    "query",
    [
        "select * from t where a = '1'",
        "select * from t where s = 1",
        "select * from t where f < 1e3",
        "select * from t where s like 'a\\\\_%'",
        'select * from t where s = "a"',
        "select * from t where s = 'a' 'b'",
        "select * from t where other.a = 1",
        "select * from t tablesample (5 rows) where a = 1",
        "select * from t pivot (sum(a) for b in (1, 2)) where a = 1",
        "select count(*) from t having count(*) > 1",
        "select * from u left join t on u.a = t.a where t.a is null",
        "select * from u where exists (select 1 from t) and a = 1",
        "from t |> aggregate count(*) group by a |> where a = 1",
        "select * from t natural join u where a = 1",
    ],
)
def test_uncertain_predicates_prune_nothing(query: str) -> None:
    tokens = tokenize(query)
    parsed = parse_query_tables(query, tokens)
    assert not parsed.is_prunable or predicates(query)["t"] is None


def test_a_time_without_a_zone_is_pushed_down_only_if_the_session_is_in_utc() -> None:
    query = "select * from t where z > '2026-01-01 00:00:00'"
    schema = parse_schema("z timestamp")
    table = next(iter(parse_query_tables(query, tokenize(query)).tables.values()))
    pushed = PredicatePushdown(lambda _: [(column.name, column.type) for column in schema.columns]).on_table(table)
    assert build_table_predicate(pushed, schema, UTC) is not None
    assert build_table_predicate(pushed, schema, ConstantResolver(lambda: "Europe/Madrid")) is None

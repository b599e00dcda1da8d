"""What is asked of a table through views, WITH clauses, derived tables, set operations and joins changes no answer."""

import datetime
import decimal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from mangrove.local.masks import is_true, meant_rows
from mangrove.model.sql_text import parse_schema
from mangrove.sql.constants import Constants
from mangrove.sql.demands import Demand, Demands
from mangrove.sql.mentions import mentions, parsed_query
from mangrove.sql.pruning import certain_predicate
from mangrove.sql.scopes import Columns
from mangrove.sql.tokens import tokenize
from mangrove.tables.predicate_sql import predicate_sql
from mangrove.tables.predicates import Predicate

SCHEMA = parse_schema("a int, b bigint, s string, d date, m decimal(6,2), n timestamp_ntz")
ARROW_COLUMNS: list[tuple[str, pa.DataType]] = [
    ("a", pa.int32()),
    ("b", pa.int64()),
    ("s", pa.string()),
    ("d", pa.date32()),
    ("m", pa.decimal128(6, 2)),
    ("n", pa.timestamp("us")),
]
ARROW = pa.schema(ARROW_COLUMNS)
COLUMNS: Columns = [(column.name, column.type) for column in SCHEMA.columns]
KINDS = {"a": "number", "b": "number", "s": "text", "d": "day", "m": "number", "n": "time"}
LITERALS = {
    "number": ["0", "1", "2", "-1", "1.5"],
    "text": ["'a'", "'ab'", "'b'"],
    "day": ["'2025-12-31'", "date '2026-01-01'", "date '2025-12-01' + interval '1' month"],
    "time": ["'2026-01-01 12:00:00'", "date '2026-01-01'"],
}
DAYS = [datetime.date(2025, 12, 31), datetime.date(2026, 1, 1), datetime.date(2026, 2, 1)]
rows = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(0, 2),
        "b": st.none() | st.integers(0, 2),
        "s": st.none() | st.sampled_from(["a", "ab", "b"]),
        "d": st.none() | st.sampled_from(DAYS),
        "m": st.none() | st.sampled_from([decimal.Decimal(text) for text in ("0.00", "1.00", "1.50")]),
        "n": st.none() | st.sampled_from([datetime.datetime(2025, 12, 31, 23), datetime.datetime(2026, 1, 1, 12)]),
    }
)
tables = st.lists(rows, min_size=1, max_size=6)


def predicates_in(
    query: str, views: Mapping[str, str], above: Demand = (), time_zone: str = "UTC"
) -> dict[str, Predicate | None]:
    """Return for each table, by its name, what a query needs of it; all of `views` are looked into."""
    tokens = tokenize(query)
    parsed = parsed_query(query, tokens)
    assert parsed.is_prunable
    demands = Demands(lambda table: columns_of(table, views), above)
    found: dict[str, Predicate | None] = {}
    for mention in mentions(parsed, tokens):
        demand = demands.on_table(parsed.tables[mention.start])
        if mention.parts[-1] in views:
            found |= predicates_in(views[mention.parts[-1]], views, demand, time_zone)
        else:
            found[mention.parts[-1]] = certain_predicate(demand, SCHEMA, Constants(lambda: time_zone))
    return found


def columns_of(table: exp.Table, views: Mapping[str, str]) -> Columns | None:
    if table.name not in views:
        return COLUMNS
    text = views[table.name]
    return Demands(lambda inner: columns_of(inner, views)).scopes.columns(parsed_query(text, tokenize(text)).tree)


@dataclass
class Writer:
    """Writes a random query; each table and view gets a name of its own, so that each can be short of other rows."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    names: list[str] = field(default_factory=list)
    views: dict[str, str] = field(default_factory=dict)
    clauses: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    count: int = 0

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def source(self, depth: int) -> tuple[str, dict[str, str]]:
        """Return what may stand after FROM, without an alias, and the kinds of its columns."""
        kind = self.one_of("table", "table", "derived", "view", "clause") if depth else "table"
        if kind == "clause" and self.clauses:
            return self.one_of(*self.clauses)  # type: ignore[no-any-return]
        if kind == "derived":
            text, columns = self.query(depth - 1)
            return f"({text})", columns
        if kind == "view":
            outside, self.clauses = self.clauses, []
            text, columns = self.query(depth - 1)
            self.clauses = outside
            name = self.fresh("view")
            self.views[name] = text
            return name, columns
        name = self.fresh("t")
        self.names.append(name)
        return name, KINDS

    def query(self, depth: int) -> tuple[str, dict[str, str]]:
        shape = self.one_of("one", "one", "two", "two", "set", "with") if depth else "one"
        if shape == "with":
            text, columns = self.query(depth - 1)
            name = self.fresh("c")
            self.clauses.append((name, columns))
            body, outside = self.query(depth)
            self.clauses.remove((name, columns))
            if body.startswith("with"):
                body = f"select * from ({body}) as {self.fresh('w')}"
            return f"with {name} as ({text}) {body}", outside
        if shape == "set":
            return self.combined(depth)
        if shape == "two":
            return self.joined(depth)
        return self.single(depth)

    def single(self, depth: int) -> tuple[str, dict[str, str]]:
        source, columns = self.source(depth)
        alias = self.fresh("x")
        references = [(self.one_of(name, f"{alias}.{name}"), kind) for name, kind in columns.items()]
        where = self.one_of("", f" where {self.condition(references)}")
        tail = f" from {source} as {alias}{where}"
        form = self.one_of("star", "some", "some", "group", "distinct", "limit", "window", "literal")
        if form == "star":
            return f"select *{tail}", columns
        keys = self.draw(st.lists(st.sampled_from(references), min_size=1, max_size=3, unique=True))
        named = {f"k{number}": kind for number, (_, kind) in enumerate(keys)}
        items = ", ".join(f"{reference} as k{number}" for number, (reference, _) in enumerate(keys))
        plain = ", ".join(reference for reference, _ in keys)
        order = " order by " + ", ".join(f"{number + 1} nulls first" for number in range(len(keys)))
        match form:
            case "group":
                return f"select {items}, count(*) as many{tail} group by {plain}", {**named, "many": "number"}
            case "distinct":
                return f"select distinct {items}{tail}", named
            case "limit":
                return f"select {items}{tail}{order} limit 2", named
            case "window":
                over = f"count(*) over (partition by {keys[0][0]})"
                return f"select {items}, {over} as many{tail}", {**named, "many": "number"}
            case "literal":
                return f"select {items}, 1 as one{tail}", {**named, "one": "number"}
            case _:
                return f"select {items}{tail}", named

    def joined(self, depth: int) -> tuple[str, dict[str, str]]:
        source, columns = self.source(depth - 1)
        alias = self.fresh("j")
        text, visible = f"{source} as {alias}", [(f"{alias}.{name}", kind) for name, kind in columns.items()]
        for _ in range(self.one_of(1, 1, 2)):
            text, visible = self.join(text, visible, depth)
        where = self.one_of("", f" where {self.condition(visible)}", f" where {self.condition(visible)}")
        if self.draw(st.booleans()):
            where += f" {'and' if where else 'where'} {self.equality(visible, visible)}"
        chosen = self.draw(st.lists(st.sampled_from(visible), min_size=1, max_size=3, unique=True))
        items = ", ".join(f"{reference} as j{number}" for number, (reference, _) in enumerate(chosen))
        return f"select {items} from {text}{where}", {f"j{number}": kind for number, (_, kind) in enumerate(chosen)}

    def join(self, text: str, left: list[tuple[str, str]], depth: int) -> tuple[str, list[tuple[str, str]]]:
        """Return what stands after FROM with one source more, and the columns that can be named behind it."""
        source, columns = self.source(depth - 1)
        kind = self.one_of("join", "left join", "right join", "full join", "semi join", "anti join", "cross join")
        alias = self.fresh("j")
        right = [(f"{alias}.{name}", kind) for name, kind in columns.items()]
        bare = [reference.split(".")[1] for reference, _ in left]
        shared = [
            reference.split(".")[1]
            for reference, other in left
            if columns.get(reference.split(".")[1]) == other and bare.count(reference.split(".")[1]) == 1
        ]
        on = ""
        if kind != "cross join":
            on = f" on {self.equality(left, right)} and {self.condition(self.one_of(left, right))}"
            if shared and kind in ("join", "left join", "semi join", "anti join") and self.draw(st.booleans()):
                on = f" using ({self.one_of(*shared)})"
        return f"{text} {kind} {source} as {alias}{on}", left if kind in ("semi join", "anti join") else left + right

    def equality(self, left: list[tuple[str, str]], right: list[tuple[str, str]]) -> str:
        pairs = [(x, y) for x, kind in left for y, other in right if kind == other]
        return " = ".join(self.draw(st.permutations(self.one_of(*pairs)))) if pairs else "1 = 1"

    def combined(self, depth: int) -> tuple[str, dict[str, str]]:
        (one, of_one), (two, of_two) = self.source(depth - 1), self.source(depth - 1)
        pairs = [(x, y) for x, kind in of_one.items() for y, other in of_two.items() if kind == other]
        if not pairs:
            return f"select * from {one} as u", of_one
        chosen = self.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2, unique=True))
        first = ", ".join(f"p.{x} as u{number}" for number, (x, _) in enumerate(chosen))
        second = ", ".join(f"q.{y}" for _, y in chosen)
        operator = self.one_of("union all", "union", "intersect", "except")
        text = f"select {first} from {one} as p {operator} select {second} from {two} as q"
        return text, {f"u{number}": of_one[x] for number, (x, _) in enumerate(chosen)}

    def condition(self, references: list[tuple[str, str]], depth: int = 1) -> str:
        if depth and self.draw(st.booleans()):
            left, right = self.condition(references, 0), self.condition(references, 0)
            return self.one_of(f"{left} and {right}", f"({left} or {right})", f"not ({left})")  # type: ignore[no-any-return]
        name, kind = self.one_of(*references)
        one, two = self.one_of(*LITERALS[kind]), self.one_of(*LITERALS[kind])
        forms = [
            *(f"{name} {operator} {one}" for operator in ("=", "=", "=", "<>", "<", ">=")),
            f"{name} between {one} and {two}",
            f"{name} in ({one}, {two})",
            f"{name} in ({one}, null)",
            *[f"{name} is null"] * 3,
            f"{name} is not null",
        ]
        if kind == "number":
            forms += [f"{name} + 1 > 1", f"coalesce({name}, 0) = 0"]
        elif kind == "text":
            forms += [f"{name} like 'a%'", f"left({name}, 1) = 'a'", f"substring({name}, 1, 2) <> 'ab'"]
        else:
            forms += [f"year({name}) {self.one_of('=', '<', '>=')} 2026", f"cast({name} as date) > '2025-12-31'"]
        if kind == "time":
            forms.append(f"date_trunc('month', {name}) {self.one_of('=', '<=')} '2026-01-01 00:00:00'")
        return self.one_of(*forms)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Case:
    """A query, its views in the order in which they can be made, and the tables that all of them name."""

    query: str
    views: dict[str, str]
    names: tuple[str, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    writer = Writer(draw)
    text, _ = writer.query(draw(st.sampled_from([1, 1, 2, 3])))
    return Case(text, writer.views, tuple(writer.names))


CONNECTION = duckdb.connect(config={"threads": 1})


def answer(case: Case, found: Mapping[str, pa.Table]) -> Counter[str]:
    for name, table in found.items():
        CONNECTION.register(name, table)
    for name, text in case.views.items():
        CONNECTION.execute(f"create or replace temp view {name} as {text}")
    return Counter(repr(row) for row in CONNECTION.execute(case.query).fetchall())


def short_of(table: pa.Table, predicate: Predicate | None, kept: int) -> pa.Table:
    """Return the table without rows that do not fulfil the predicate, but for those whose bits are set."""
    if predicate is None:
        return table
    meant = is_true(meant_rows(table, predicate, SCHEMA)).to_pylist()
    return table.filter(pa.array([one or bool(kept >> place & 1) for place, one in enumerate(meant)], pa.bool_()))


@settings(max_examples=300)
@given(cases(), st.lists(tables, min_size=3, max_size=3), st.sampled_from([0, 0, 0b101010, 0b010101]))
def test_rows_that_nothing_asks_for_can_be_left_out(case: Case, found: list[list[dict[str, Any]]], kept: int) -> None:
    whole = {name: pa.Table.from_pylist(found[number % len(found)], ARROW) for number, name in enumerate(case.names)}
    asked = predicates_in(case.query, case.views)
    needed = {name: short_of(table, asked[name], kept) for name, table in whole.items() if name in asked}
    texts = {name: predicate and predicate_sql(predicate, SCHEMA) for name, predicate in asked.items()}
    assert answer(case, {**whole, **needed}) == answer(case, whole), f"{case} needs {texts}"


VIEWS = {
    "renamed": "select a as x, b as y, s from t",
    "united": "select * from t union all select * from u",
    "kinds": "select 1 as kind, a from t union all select 2 as kind, a from u",
    "monthly": "select date_trunc('month', n) as month, cast(n as date) as day, count(*) as many from t group by 1, 2",
    "named": "select * from (select a, d from t) as view_query(`x`, `when`)",
}


def asked_of(table: str, query: str, time_zone: str = "UTC") -> str | None:
    """Return as text what a query needs of a table."""
    predicate = predicates_in(query, VIEWS, time_zone=time_zone)[table]
    return None if predicate is None else predicate_sql(predicate, SCHEMA)


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
        ("select a, count(*) from (select a from t group by a) group by a having a = 1", None),
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
def test_conditions_reach_the_table_through_what_lies_between(query: str, expected: str | None) -> None:
    assert asked_of("t", query) == expected


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
def test_conditions_do_not_pass_what_looks_at_other_rows(query: str) -> None:
    assert asked_of("t", query) is None


def test_years_and_days_of_a_time_with_a_zone_count_only_where_the_session_is_in_utc() -> None:
    schema = parse_schema("z timestamp")
    for condition in ("year(z) = 2026", "cast(z as date) = '2026-01-01'", "date_trunc('day', z) = '2026-01-01'"):
        query = f"select * from t where {condition}"
        table = next(iter(parsed_query(query, tokenize(query)).tables.values()))
        demand = Demands(lambda _: [(one.name, one.type) for one in schema.columns]).on_table(table)
        assert certain_predicate(demand, schema, Constants(lambda: "Etc/UTC")) is not None
        assert certain_predicate(demand, schema, Constants(lambda: "Asia/Tokyo")) is None


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
def test_parameters_count_as_the_values_that_come_with_them(
    condition: str, arguments: Any, expected: str | None
) -> None:
    query = f"select * from t where {condition}"
    table = next(iter(parsed_query(query, tokenize(query)).tables.values()))
    demand = Demands(lambda _: COLUMNS).on_table(table)
    predicate = certain_predicate(demand, SCHEMA, Constants(lambda: "UTC", arguments))
    assert (None if predicate is None else predicate_sql(predicate, SCHEMA)) == expected

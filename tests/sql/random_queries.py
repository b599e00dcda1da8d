"""Random queries over tables of the same columns, with views, WITH clauses, joins and sets, and DuckDB's answers."""

import datetime
import decimal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

from mangrove.expressions.schema_text import parse_schema
from mangrove.sql.pushdown.scopes import TypedColumns

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
COLUMNS: TypedColumns = [(column.name, column.type) for column in SCHEMA.columns]
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


VIEWS = {
    "renamed": "select a as x, b as y, s from t",
    "united": "select * from t union all select * from u",
    "kinds": "select 1 as kind, a from t union all select 2 as kind, a from u",
    "monthly": "select date_trunc('month', n) as month, cast(n as date) as day, count(*) as many from t group by 1, 2",
    "limited": "from t |> limit 3",
    "named": "select * from (select a, d from t) as view_query(`x`, `when`)",
}


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
                text = f"select {items}, count(*) as many{tail} group by {plain}"
                keys_asked = [*keys, *((f"k{number}", kind) for number, (_, kind) in enumerate(keys))]
                having = self.one_of("", f" having {self.condition(keys_asked)}", " having count(*) > 1")
                return text + having, {**named, "many": "number"}
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
            f"{name} is not distinct from {self.one_of(one, 'null')}",
            f"{one} is distinct from {name}",
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


@st.composite
def conditions(draw: st.DrawFn) -> list[str]:
    """One to three conditions on the columns of a table."""
    writer = Writer(draw)
    return [writer.condition(list(KINDS.items())) for _ in range(draw(st.integers(1, 3)))]


@cache
def connect_peer() -> duckdb.DuckDBPyConnection:
    """Return the connection to DuckDB that answers all queries; a fixture closes it."""
    return duckdb.connect(config={"threads": 1})


def answer(case: Case, found: Mapping[str, pa.Table]) -> Counter[str]:
    connection = connect_peer()
    for name, table in found.items():
        connection.register(name, table)
    for name, text in case.views.items():
        connection.execute(f"create or replace temp view {name} as {text}")
    return Counter(repr(row) for row in connection.execute(case.query).fetchall())

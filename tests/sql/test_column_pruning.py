"""Columns that the text of a query cannot need are not read, and no answer depends on them."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sql.random_queries import ARROW, SCHEMA, VIEWS, Case, answer, cases, tables

from mangrove.sql.parse.table_refs import analyze_query
from mangrove.sql.pushdown.column_pruning import ColumnPruning, Names, select_read_columns


def columns_in(query: str, views: Mapping[str, str], above: Names = None) -> dict[str, list[str]]:
    """Return for each table, by its name, the columns that a query reads; all of `views` are looked into."""
    read = analyze_query(query)
    needed = ColumnPruning(read, lambda: above)
    found: dict[str, set[str]] = {}
    for table_ref in read.table_refs:
        name, names = table_ref.parts[-1], needed.of_table(read.parsed.tables[table_ref.start])
        inside = columns_in(views[name], views, names) if name in views else {name: _read(names)}
        for one, columns in inside.items():
            found.setdefault(one, set()).update(columns)
    return {name: [column for column in ARROW.names if column in columns] for name, columns in found.items()}


def _read(names: Names) -> list[str]:
    return list(select_read_columns(SCHEMA, names) or ARROW.names)


@settings(max_examples=300)
@given(cases(), st.lists(tables, min_size=3, max_size=3))
def test_pruning_unreferenced_columns_does_not_change_results(case: Case, found: list[list[dict[str, Any]]]) -> None:
    whole = {name: pa.Table.from_pylist(found[number % len(found)], ARROW) for number, name in enumerate(case.names)}
    read = columns_in(case.query, case.views)
    narrow = {name: table.select(read[name]) for name, table in whole.items() if name in read}
    assert answer(case, {**whole, **narrow}) == answer(case, whole), f"{case} reads {read}"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select a from t", "a"),
        ("select A from t where t.S = 'x'", "as"),
        ("select count(*) from t", "a"),
        ("select a * 2 from t", "a"),
        ("select * from t", "absdmn"),
        ("select a, t.* from t", "absdmn"),
        ("select u.*, t.a from t join u using (b)", "ab"),
        ("select t.a from t join u on t.b = u.s", "ab"),
        ("select * except (a) from t", "absdmn"),
        ("select s from (select * except (a) from t)", "as"),
        ("select a from (select * from t) where b = 1", "ab"),
        ("select x.a from (select * from t) as x", "a"),
        ("select x.a, y.s from (select * from t) as x join u as y on x.b = y.b", "ab"),
        ("with c as (select * from t) select a from c union all select b from c", "ab"),
        ("with c as (select * from t) select * from c", "absdmn"),
        ("with c (p, q, r, x, y, z) as (select * from t) select p from c", "absdmn"),
        ("with recursive c as (select * from t union all select * from c) select a from c", "absdmn"),
        ("select p from t as t (p, q, r, x, y, z)", "absdmn"),
        ("select a from (select * from t union all select * from u)", "absdmn"),
        ("select a from (select distinct * from t)", "absdmn"),
        ("select a from (select * from t order by b limit 1)", "ab"),
        ("select a from (select * from t order by 2 limit 1)", "absdmn"),
        ("select a from (select * from t order by all limit 1)", "absdmn"),
        ("select a from (select * from t group by all)", "absdmn"),
        ("select a from t order by b", "ab"),
        ("select a, sum(b) over (partition by s order by d) from t qualify m > 1", "absdm"),
        ("select * from u where exists (select * from t where t.b = u.a)", "b"),
        ("select * from u where a in (select * from t)", "absdmn"),
        ("select * from u where a = (select max(b) from t)", "ab"),
        ("select (select max(struct(t.*)) from u) from t", "absdmn"),
        ("select a from t, lateral (select *)", "absdmn"),
        ("select struct(*) from t", "absdmn"),
        ("select count(t.*) from t", "absdmn"),
        ("select count(distinct *) from t", "absdmn"),
        ("select a from t natural join u", "absdmn"),
        ("select * from (select a, b, s from t) pivot (sum(a) for s in ('x'))", "absdmn"),
        ("select a from t unpivot (value for name in (a, b))", "absdmn"),
        ("from t", "absdmn"),
        ("from t |> where a = 1 |> select b", "absdmn"),
        ("from t select a", "a"),
        ("select /*+ repartition(d) */ a from t", "ad"),
        ("select identifier('a') from t", "absdmn"),
        ("select `(a|b)` from t", "absdmn"),
        ("select `a` from t", "a"),
        ("select a from t version as of 3", "a"),
        ("select a from t tablesample (10 rows)", "absdmn"),
        ("select s.x.y, b.z from t", "bs"),
        ("select explode(s) from t lateral view explode(d) as e", "sd"),
        ("select s from named_after", "bs"),
        ("select x from (select * from renamed)", "abs"),
        ("select * from starred", "absdmn"),
        ("select a from starred where d is null", "ad"),
        ("select x.a from starred as x join u on x.b = u.s", "ab"),
    ],
)  # fmt: skip
def test_the_required_columns_are_those_that_the_text_references(query: str, expected: str) -> None:
    views = {**VIEWS, "starred": "select * from t", "named_after": "select s, b as x from t"}
    assert "".join(columns_in(query, views)["t"]) == expected


def test_if_no_column_is_required_a_narrow_one_is_read() -> None:
    assert select_read_columns(SCHEMA, frozenset()) == ("a",)
    assert select_read_columns(SCHEMA, frozenset({"a", "nothing"})) == ("a",)
    assert select_read_columns(SCHEMA, frozenset(ARROW.names)) is None

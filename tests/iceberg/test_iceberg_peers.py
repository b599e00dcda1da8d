"""Tables of every kind as PyIceberg reads them from their metadata files, and what `to_arrow` says of the same."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg import expressions
from pyiceberg.table import StaticTable
from tests.iceberg.peer_cases import CASES, PLAIN_COLUMNS, PLAIN_ROWS

import mangrove
from mangrove.effects import wait_for_pending
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table

pytestmark = pytest.mark.slow

E: Any = expressions


def comparable(value: Any) -> Any:
    """Return a value that is equal to itself, with -0.0 apart from 0.0, as engines hand values over."""
    match value:
        case float():
            return repr(value)
        case dict():
            return {name: comparable(inner) for name, inner in value.items()}
        case list() | tuple():
            return [comparable(inner) for inner in value]
        case _:
            return value


def in_order(rows: Any) -> list[Any]:
    return sorted((comparable(row) for row in rows.to_pylist()), key=repr)


def opened(table: Table) -> StaticTable:
    return StaticTable.from_metadata(table.iceberg())


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    found = mangrove.create(tmp_path / "a lake", layout=request.param)
    found.create_namespace("s")
    return found


@pytest.mark.parametrize("case", CASES)
def test_pyiceberg_reads_the_rows_that_the_table_has(
    lake: Lakehouse, case: str, request: pytest.FixtureRequest
) -> None:
    if case == "null lists of structs":
        request.applymarker(pytest.mark.xfail(strict=True, reason="PyIceberg reads them as empty lists"))
    table = CASES[case](lake)
    assert in_order(opened(table).scan().to_arrow()) == in_order(table.to_arrow())


def test_a_converted_lakehouse_is_published_with_the_same_rows(lake: Lakehouse, tmp_path: Path) -> None:
    names = ["every type", "upserted in partitions", "deleted by position", "evolved"]
    tables = [CASES[name](lake) for name in names]
    lake.maintenance.convert(tmp_path / "other", layout="deltacat" if lake.layout == "tree" else "tree")
    converted = mangrove.open(tmp_path / "other")
    for table in tables:
        found = converted.table(table.locator)
        assert in_order(opened(found).scan().to_arrow()) == in_order(table.to_arrow())


def test_a_copied_lakehouse_publishes_its_own_files(lake: Lakehouse, tmp_path: Path) -> None:
    table = CASES["upserted"](lake)
    rows = in_order(opened(table).scan().to_arrow())
    shutil.copytree(tmp_path / "a lake", tmp_path / "copy")
    copied = mangrove.open(tmp_path / "copy").table(table.locator)
    wait_for_pending(lake.effects, 60.0)
    shutil.rmtree(tmp_path / "a lake")
    assert in_order(opened(copied).scan().to_arrow()) == rows


TERMS = ["every type", *(name for name in CASES if "(" in name or name in PLAIN_COLUMNS)]


class PlainTables:
    """Tables of plain columns, divided by none or by any of them, as they are and as they are shown."""

    def __init__(self, lake: Lakehouse) -> None:
        self.tables = {term: CASES[term](lake) for term in TERMS}
        self.shown = {term: opened(table) for term, table in self.tables.items()}

    def __repr__(self) -> str:
        return "tables"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> PlainTables:
    lake = mangrove.create(tmp_path_factory.mktemp("lake"))
    lake.create_namespace("s")
    return PlainTables(lake)


KINDS = {"<": "LessThan", "<=": "LessThanOrEqual", ">": "GreaterThan", ">=": "GreaterThanOrEqual", "=": "EqualTo"}


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, str, str, int]:
    term = draw(st.sampled_from(TERMS))
    own = [name for name in PLAIN_COLUMNS if name == term or term.endswith((f" {name})", f"({name})"))]
    column = draw(st.sampled_from(own or list(PLAIN_COLUMNS)))
    return term, column, draw(st.sampled_from([*KINDS, "null", "not null"])), draw(st.integers(0, len(PLAIN_ROWS) - 1))


def matches(found: Any, word: str, value: Any) -> bool:
    """Return whether a row matches as Arrow says it: what is NaN matches no comparison."""
    match word:
        case "null" | "not null":
            return (word == "null") is (found is None)
        case _ if found is None:
            return False
        case "<" | "<=":
            return bool(found < value) or (word == "<=" and bool(found == value))
        case ">" | ">=":
            return bool(found > value) or (word == ">=" and bool(found == value))
        case _:
            return bool(found == value)


@settings(max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(condition=conditions())
def test_pyiceberg_finds_each_row_that_matches_a_condition(
    tables: PlainTables, condition: tuple[str, str, str, int]
) -> None:
    term, column, word, which = condition
    rows = tables.tables[term].to_arrow(["id", column]).to_pylist()
    # PyIceberg takes an infinite number for one that no `float` can be.
    values = [row[column] for row in rows if row[column] is not None and repr(row[column]) not in ("nan", "-inf")]
    value = values[which % len(values)]
    wanted = sorted(row["id"] for row in rows if matches(row[column], word, value))
    if word in KINDS:
        predicate = getattr(E, KINDS[word])(column, value)
    else:
        predicate = E.IsNull(column) if word == "null" else E.NotNull(column)
    found = tables.shown[term].scan(row_filter=predicate, selected_fields=("id",)).to_arrow()
    ids: list[Any] = found["id"].to_pylist()
    assert sorted(ids) == wanted

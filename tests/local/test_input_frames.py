"""Rows as people hand them in: what is nearly right is taken exactly, or refused in one sentence."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

import mangrove
from mangrove import InvalidInputError
from mangrove.lakehouse.table import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = mangrove.create(tmp_path / "lake")
    lake.create_namespace("lab")
    return lake.create_table("lab.t", "id bigint, day string, x double, d decimal(38,10)", keys=["id"])


def _rows(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_arrow(["id", "day", "x"]).sort_by("id").to_pylist()
    return found


FRAME = pd.DataFrame({"id": [3, 3, 4], "x": [1.0, 2.0, 3.0]})
SUMS = [{"id": 3, "day": None, "x": 3.0}, {"id": 4, "day": None, "x": 3.0}]


@pytest.mark.parametrize("verb", ["append", "upsert", "overwrite"])
def test_a_named_index_of_a_pandas_frame_is_a_column(table: Table, verb: str) -> None:
    getattr(table, verb)(FRAME.groupby("id").sum())
    assert _rows(table) == SUMS


def test_an_upsert_of_a_frame_with_an_index_keeps_the_columns_that_it_lacks(table: Table) -> None:
    table.append([{"id": 3, "day": "monday", "x": 9.0}])
    table.upsert(FRAME.groupby("id").sum())
    assert _rows(table) == [{"id": 3, "day": "monday", "x": 3.0}, SUMS[1]]


def test_the_levels_of_an_index_are_columns_with_case_insensitive_names(table: Table) -> None:
    frame = pd.DataFrame({"ID": [1, 2], "day": ["monday", "tuesday"], "x": [1.0, 2.0]}).set_index(["ID", "day"])
    table.append(frame)
    assert _rows(table) == [{"id": 1, "day": "monday", "x": 1.0}, {"id": 2, "day": "tuesday", "x": 2.0}]


def test_keys_to_delete_may_be_an_index(table: Table) -> None:
    table.append(FRAME.groupby("id").sum())
    table.delete_keys(pd.DataFrame(index=pd.Index([3], name="id")))
    assert _rows(table) == SUMS[1:]


def test_a_table_created_from_a_frame_has_its_index_as_a_column(table: Table) -> None:
    made = table.catalog.create_table("lab.sums", as_=FRAME.groupby("id").sum())
    assert made.to_arrow().to_pylist() == [{"id": 3, "x": 3.0}, {"id": 4, "x": 3.0}]


@pytest.mark.parametrize(
    "frame",
    [
        FRAME.drop_duplicates("id", keep="last"),
        FRAME.drop_duplicates("id", keep="last").set_axis(["a", "b"]),
        FRAME.drop_duplicates("id", keep="last").set_index("id", drop=False),
    ],
    ids=["numbers", "no name", "the column itself"],
)
def test_a_redundant_index_is_omitted(table: Table, frame: Any) -> None:
    table.append(frame)
    assert [row["id"] for row in _rows(table)] == [3, 4]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (lambda: FRAME.rename_axis("week"), r"'week', which is no column of the table: call reset_index\(\)"),
        (lambda: FRAME.set_index([FRAME["x"], [7, 8, 9]]), r"a part without a name: call reset_index\(\)"),
        (lambda: FRAME.rename_axis("id"), r"'id' is a column of the pandas frame and its index, with other values"),
        (lambda: pd.DataFrame([[1, 2]], columns=["id", "id"]), "the column 'id' twice: rename one"),
        (lambda: FRAME["x"], r"given as Series: call to_frame\(\)"),
        (lambda: FRAME.groupby("id"), "given as DataFrameGroupBy"),
        (lambda: pl.Series("id", [1]), r"given as Series: call to_frame\(\)"),
        (lambda: pl.LazyFrame({"id": [1]}), r"given as LazyFrame: call collect\(\)"),
        (lambda: ({"id": number} for number in range(2)), r"given as generator: call list\("),
        (lambda: [None], "holds None at place 0: each row is a dict"),
        (lambda: [{"id": 1}, [1, 2]], "holds a value of type list at place 1: each row is a dict"),
        (lambda: {"id": 1}, "given as dict: give a Spark"),
        (lambda: None, "given as NoneType: give a Spark"),
    ],
)
def test_unsupported_row_inputs_are_rejected_with_a_remedy(table: Table, rows: Callable[[], object], told: str) -> None:
    before = len(list(table.history()))
    with pytest.raises(InvalidInputError, match=told):
        table.append(rows())
    assert len(list(table.history())) == before


@pytest.mark.parametrize("what", [None, True, 3])
def test_a_delete_of_neither_a_condition_nor_keys_is_refused(table: Table, what: object) -> None:
    with pytest.raises(InvalidInputError, match="delete expects a condition as SQL text"):
        table.delete(what)  # type: ignore[arg-type]


def test_delete_takes_a_condition_and_delete_keys_takes_a_frame(table: Table) -> None:
    table.append([{"id": 1}])
    with pytest.raises(InvalidInputError, match="delete rows by their keys with delete_keys"):
        table.delete([{"id": 1}])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="delete rows by a condition with delete"):
        table.delete_keys("id = 1")
    table.delete_keys([{"id": 1}])
    assert table.to_arrow().num_rows == 0


def test_a_whole_number_of_more_than_64_bits_fits_into_a_decimal(table: Table) -> None:
    table.append([{"id": 1, "d": 10**27}, {"id": 2, "d": Decimal("1.5")}, {"id": 3, "d": -(10**27)}, {"id": 4}])
    found = table.to_arrow(["id", "d"]).sort_by("id")["d"].to_pylist()
    assert found == [Decimal(10**27), Decimal("1.5"), Decimal(-(10**27)), None]
    with pytest.raises(InvalidInputError, match="'d'"):
        table.append([{"id": 5, "d": 10**28}])

"""The rows that DeltaCAT 2.0 wrote are read by both engines, as of every version, across its renames and merges."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove.errors import NotFoundError
from mangrove.lakehouse.table_snapshot import TableSnapshot

pytestmark = pytest.mark.interop
_FIXTURE = Path(__file__).parents[1] / "compat" / "fixtures" / "deltacat-2"
_ORDERS = [(number, letter, number) for number, letter in enumerate("abcdef", 1)]
_WITH_CITY = [*((*row, None) for row in _ORDERS[:5]), (6, "f", 6, "X")]
_USERS = [(1, "n1", 10), (2, "n2", 20), (3, "n3", 30)]
_MERGED = [(1, "n1", 10), (2, "n2b", 21), (3, "n3", 30), (4, "n4", 40)]
_AS_OF: dict[int, dict[str, list[tuple[Any, ...]]]] = {
    1: {},
    2: {"sales.orders": _ORDERS[:3]},
    3: {"sales.orders": _ORDERS[:4]},
    5: {"sales.orders": _WITH_CITY},
    6: {"sales.orders": _WITH_CITY, "sales.users": _USERS},
    7: {"sales.orders": _WITH_CITY, "sales.users": _MERGED},
    8: {"sales.orders": _WITH_CITY, "sales.users": _MERGED[1:]},
    9: {"sales.purchases": _WITH_CITY, "sales.users": _MERGED[1:]},
    10: {"sales.purchases": [*_WITH_CITY, (7, "g", 7, "Y")], "sales.users": [*_MERGED[1:], (9, "n9", 90)]},
    12: {"sales.purchases": [(100, "z", 1, "W")], "sales.users": [*_MERGED[1:], (9, "n9", 90)]},
    14: {"sales2.purchases": [(100, "z", 1, "W")], "sales2.users": [*_MERGED[1:], (9, "n9", 90)]},
}
"""What the program that wrote the catalog had put into its tables with a schema, after each of its steps."""


def _rows(table: TableSnapshot, engine: str) -> list[tuple[Any, ...]]:
    if engine == "spark":
        return sorted(tuple(row) for row in table.to_spark().collect())
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_rows_of_deltacat_are_read_as_of_every_version(engine: str, spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    shutil.copytree(_FIXTURE, tmp_path / "catalog")
    lake = mangrove.open(tmp_path / "catalog")
    for version, tables in _AS_OF.items():
        past = lake.at(version)
        for name, rows in tables.items():
            assert _rows(past.table(name), engine) == rows, f"{name} as of version {version}"
    with pytest.raises(NotFoundError):
        lake.at(9).table("sales.orders")


def test_a_statement_reads_only_its_columns_from_files_of_other_programs(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    shutil.copytree(_FIXTURE, tmp_path / "catalog")
    lake = mangrove.open(tmp_path / "catalog")
    names = lake.sql("SELECT name FROM sales2.users WHERE age > 21")
    assert sorted(row.name for row in names.collect()) == ["n3", "n4", "n9"]
    (row,) = lake.sql("EXPLAIN SELECT count(*) FROM sales2.users WHERE age > 21").collect()
    assert row.plan.endswith("; columns age")

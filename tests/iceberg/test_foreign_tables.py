"""Tables of every kind as DuckDB reads them from their metadata files, and Iceberg's Java through the REST catalog.

Both run in a Python of their own, which `make test-peers` installs.
"""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.iceberg.peer_cases import CASES, CASES_WITHOUT_TIMES
from tests.rest.conftest import TOKEN, counted, served
from tests.rest.peer_process import ICEBERG_JAR, needs_iceberg_duckdb, needs_iceberg_spark, peer

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.server.access import Access

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("iceberg-java")]


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    found = mangrove.create(tmp_path / "a lake", layout=request.param)
    found.create_namespace("s")
    return found


def kept(table: Table, path: Path) -> Path:
    """Write the rows of a table into a file that both engines read by themselves."""
    pq.write_table(table.to_arrow(), path)
    return path


def difference(one: str, two: str) -> str:
    """Return a query for the rows that only one of two queries gives."""
    return f"(({one}) EXCEPT ALL ({two})) UNION ALL (({two}) EXCEPT ALL ({one}))"


@needs_iceberg_duckdb
def test_duckdb_reads_tables_of_every_kind(lake: Lakehouse, tmp_path: Path) -> None:
    found = {}
    with peer("iceberg_duckdb.py") as ask:
        for number, (case, build) in enumerate(CASES.items()):
            table = build(lake)
            rows = kept(table, tmp_path / f"{number}.parquet")
            both = f"iceberg_scan('{table.iceberg()}')", f"read_parquet('{rows}')"
            found[case] = ask(difference(*(f"SELECT * FROM {one}" for one in both)))
    assert found == {case: [] for case in CASES}


@needs_iceberg_spark
def test_icebergs_java_reads_tables_of_every_kind(lake: Lakehouse, tmp_path: Path) -> None:
    found = {}
    tables = {case: build(lake) for case, build in CASES_WITHOUT_TIMES.items()}
    with (
        served(counted(lake), Access("127.0.0.1", TOKEN)) as address,
        peer("iceberg_spark.py", ICEBERG_JAR, address, TOKEN, str(lake.version)) as ask,
    ):
        for number, (case, table) in enumerate(tables.items()):
            rows = kept(table, tmp_path / f"{number}.parquet")
            both = f"lake.s.`{table.locator.name}`", f"parquet.`{rows}`"
            # Maps cannot be compared in Spark, and texts can.
            found[case] = ask(difference(*(f"SELECT to_json(struct(*)) FROM {one}" for one in both)))
    assert found == {case: [] for case in tables}

"""SQL on nanosecond timestamps: DuckDB computes with all digits, and what would round them is refused."""

from pathlib import Path

import pandas  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse

NANOS = 1_700_000_000_123_456_789
TEXT = "2023-11-14 22:13:20.123456789"


@pytest.fixture(params=["0", "100000"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    """Make a table of rows in files, which DuckDB reads itself, or of inline rows, which Arrow reads."""
    lake = mangrove.create(tmp_path / "lake")
    run(lake, "create namespace s")
    run(
        lake,
        "create table s.t (id int, at timestamp_ns, seen timestamptz_ns) "
        f"tblproperties ('write.inline-rows-max-bytes' = '{request.param}')",
    )
    for number in (1, 2):
        at = pa.array([NANOS + number - 1], pa.timestamp("ns"))
        rows = {"id": pa.array([number], pa.int32()), "at": at, "seen": at.cast(pa.timestamp("ns", "UTC"))}
        lake.table("s.t").append(pa.table(rows))
    return lake


def run(lake: Lakehouse, text: str) -> pa.Table:
    found: pa.Table = lake.sql(text, engine="duckdb").to_arrow()
    return found


def nanos_of(rows: pa.Table, name: str) -> list[int | None]:
    found: list[int | None] = rows.column(name).cast(pa.int64()).to_pylist()
    return found


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        (f"at > '{TEXT}'", [2]),
        (f"seen = '{TEXT}'", [1]),
        (f"seen = '{TEXT}Z'", [1]),
        (f"at between '{TEXT}' and '{TEXT}'", [1]),
        (f"at in ('{TEXT}')", [1]),
        (f"at = cast('{TEXT}' as timestamp_ns)", [1]),
        (f"seen < cast('{TEXT[:-1]}' as timestamptz_ns)", []),
        (f"not at = '{TEXT}'", [2]),
    ],
)
def test_conditions_have_nanoseconds(lake: Lakehouse, condition: str, ids: list[int]) -> None:
    assert run(lake, f"select id from s.t where {condition} order by id")["id"].to_pylist() == ids


def test_queries_return_all_digits(lake: Lakehouse) -> None:
    rows = run(lake, "select * from s.t order by at desc")
    assert rows.schema.types[1:] == [pa.timestamp("ns"), pa.timestamp("ns", "UTC")]
    assert nanos_of(rows, "at") == nanos_of(rows, "seen") == [NANOS + 1, NANOS]
    ends = run(lake, "select min(at) as low, max(seen) as high, count(distinct at) as n from s.t")
    assert (nanos_of(ends, "low"), nanos_of(ends, "high"), ends["n"].to_pylist()) == ([NANOS], [NANOS + 1], [2])
    joined = run(lake, "select a.id from s.t a join s.t b on a.at = b.at group by a.id, a.at order by 1")
    assert joined["id"].to_pylist() == [1, 2]


def test_statements_write_all_digits(lake: Lakehouse) -> None:
    run(lake, f"insert into s.t values (3, cast('{TEXT}' as timestamp_ns), cast('{TEXT}' as timestamptz_ns))")
    run(lake, "insert into s.t select id + 10, at, seen from s.t where id < 3")
    run(lake, "create table s.u as select * from s.t")
    copied = run(lake, "select at, seen from s.u order by id")
    assert nanos_of(copied, "at") == nanos_of(copied, "seen") == [NANOS, NANOS + 1, NANOS, NANOS, NANOS + 1]
    run(lake, f"delete from s.t where at = '{TEXT}' and id > 10")
    run(lake, "update s.t set id = id + 100 where at > '2023-11-14 22:13:20.123456789'")
    run(
        lake,
        "merge into s.u t using s.t s on t.at = s.at and t.id = s.id when matched then update set id = -t.id "
        "when not matched then insert *",
    )
    assert run(lake, "select id from s.u order by id")["id"].to_pylist() == [-3, -1, 2, 11, 12, 102, 112]
    described = run(lake, "describe s.u")
    assert described["data_type"].to_pylist() == ["int", "timestamp_ns", "timestamptz_ns"]


def test_parameters_of_pandas_have_all_digits(lake: Lakehouse) -> None:
    moment = pandas.Timestamp(NANOS + 7, tz="UTC")
    lake.sql("insert into s.t (id, seen) values (?, ?)", [7, moment], engine="duckdb")
    assert nanos_of(run(lake, "select seen from s.t where id = 7"), "seen") == [NANOS + 7]
    found = lake.sql("select id from s.t where seen = ?", [moment], engine="duckdb").to_arrow()
    assert found["id"].to_pylist() == [7]


@pytest.mark.parametrize(
    "text",
    [
        "select year(at) from s.t",
        "select date_trunc('day', at) from s.t",
        "select cast(at as timestamp_ntz) from s.t",
        "select a.id from s.t a join s.t b on a.at = b.seen",
        f"select id from s.t where at = timestamp_ntz '{TEXT}'",
        f"delete from s.t where id = cast(1 as int) or at = timestamp_ntz '{TEXT}'",
        f"insert into s.t values (3, '{TEXT}', null)",
        "select id from s.t where at > 'yesterday'",
    ],
)
def test_what_would_round_is_refused(lake: Lakehouse, text: str) -> None:
    with pytest.raises(InvalidInputError):
        run(lake, text)
    assert nanos_of(run(lake, "select at from s.t order by id"), "at") == [NANOS, NANOS + 1]

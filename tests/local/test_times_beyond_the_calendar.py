"""Times before the year 1 and after 9999, which files hold and Python's calendar does not: no row is lost by them."""

import datetime
import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mangrove
from mangrove import InvalidInputError, expr
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.table import Table
from mangrove.tables.write_plan import RowCounts

EPOCH = datetime.date(1970, 1, 1)
FIRST_DAY, LAST_DAY = (datetime.date.min - EPOCH).days, (datetime.date.max - EPOCH).days
DAYS = [0, LAST_DAY + 1, FIRST_DAY - 1, 2**31 - 1, -(2**31)]
MICROS = [0, (LAST_DAY + 1) * 86_400_000_000, FIRST_DAY * 86_400_000_000 - 1, 2**63 - 1, -(2**63) + 1]


def rows_of(days: list[int], micros: list[int]) -> pa.Table:
    moments = pa.array(micros, pa.int64())
    return pa.table(
        {
            "id": pa.array(range(len(days)), pa.int64()),
            "d": pa.array(days, pa.int32()).cast(pa.date32()),
            "t": moments.cast(pa.timestamp("us", "UTC")),
            "n": moments.cast(pa.timestamp("us")),
        }
    )


FAR = rows_of(DAYS, MICROS)
FRESH = itertools.count()


def new_table(place: str, *, keys: tuple[str, ...] = (), partition_by: tuple[str, ...] = ()) -> Table:
    lake = mangrove.create(place)
    lake.create_namespace("s")
    return lake.create_table(
        "s.t", "id bigint, d date, t timestamp, n timestamp_ntz", keys=keys, partition_by=partition_by
    )


def newest(table: Table) -> int:
    catalog = table.catalog
    assert isinstance(catalog, Lakehouse)
    return catalog.version


def ids(table: Table, where: str) -> list[int]:
    return sorted(table.to_arrow(["id"], where)["id"].to_numpy().tolist())


def test_rows_with_far_times_reach_arrow_pandas_polars_and_duckdb(tmp_path: Path) -> None:
    table = new_table(str(tmp_path))
    table.append(FAR)
    assert table.to_arrow().equals(FAR.cast(table.to_arrow().schema))
    frame = table.to_pandas()
    assert frame["t"].astype("int64").tolist() == MICROS
    assert frame["d"].dt.year.tolist()[:2] == [1970, 10000]
    assert len(table.to_polars()) == len(table.to_duckdb().fetchall()) == len(DAYS)


def test_far_times_inside_a_structure_are_refused_by_pandas_alone(tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "s struct<d: date>")
    table.append(pa.table({"s": pa.StructArray.from_arrays([FAR["d"].combine_chunks()], ["d"])}))
    with pytest.raises(InvalidInputError, match=r"rows of s\.t .* use to_arrow"):
        table.to_pandas()
    assert table.to_arrow().flatten()["s.d"].cast(pa.int32()).to_pylist() == DAYS


@pytest.mark.parametrize("keys", [("id",), ("d",), ("t",), ("n",)])
def test_rows_with_far_times_are_changed_and_compacted_like_others(tmp_path: Path, keys: tuple[str, ...]) -> None:
    table = new_table(str(tmp_path), keys=keys)
    table.append(FAR)
    before = newest(table)
    table.upsert(FAR.set_column(0, "id", pa.array(range(5) if keys == ("id",) else range(10, 15), pa.int64())))
    with pytest.raises(InvalidInputError, match="occur more than once"):
        table.upsert(pa.concat_tables([FAR, FAR]))
    first = 0 if keys == ("id",) else 10
    assert table.update({"id": expr(f"id + {20 - first}")}, "d > date '9999-12-31'") == RowCounts(updated=2)
    assert table.delete("t < timestamp '1900-01-01 00:00:00'") == RowCounts(deleted=2)
    assert ids(table, "id >= 0") == [first, 21, 23]
    changed = table.changes(before)
    assert changed.num_rows == (8 if keys != ("id",) else 6)
    table.compact()
    assert ids(table, "n > timestamp_ntz '9999-12-31 00:00:00'") == [21, 23]
    table.delete_keys(FAR.select(list(keys)))
    assert ids(table, "id >= 0") == ([] if keys != ("id",) else [21, 23])


@given(
    st.lists(st.lists(st.sampled_from(DAYS) | st.integers(-(2**31), 2**31 - 1), max_size=4), max_size=4),
    st.dates(),
    st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]),
)
def test_predicates_compare_days_outside_the_python_calendar(
    files: list[list[int]], day: datetime.date, operator: str
) -> None:
    table = new_table(f"memory://far-days-{next(FRESH)}")
    kept = [file for file in files if file]
    for file in kept:
        table.append(rows_of(file, [0] * len(file)))
    number = (day - EPOCH).days
    holds = {
        "<": number.__gt__,
        "<=": number.__ge__,
        ">": number.__lt__,
        ">=": number.__le__,
        "=": number.__eq__,
        "<>": number.__ne__,
    }[operator]
    found = table.to_arrow(["d"], f"d {operator} date '{day.isoformat()}'")["d"].cast(pa.int32()).to_numpy().tolist()
    assert sorted(found) == sorted(one for file in kept for one in file if holds(one))


@pytest.mark.parametrize("scheme", ["d", "days(d)", "years(t)", "months(t)", "days(n)", "hours(t)", "bucket(4, d)"])
def test_far_times_as_partition_values_are_rejected_and_nothing_is_committed(tmp_path: Path, scheme: str) -> None:
    table = new_table(str(tmp_path), partition_by=(scheme,))
    version = newest(table)
    with pytest.raises(InvalidInputError, match="outside the years 1 to 9999"):
        table.append(FAR)
    assert newest(table) == version
    assert table.to_arrow().num_rows == 0


def test_errors_print_rows_with_far_times(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), keys=("id",))
    with pytest.raises(InvalidInputError, match="10000-01-01"):
        table.append(FAR.set_column(0, "id", pa.array([0, None, 2, 3, 4], pa.int64())))
    table.update_schema().add_check("old", "d < date '2000-01-01'").commit()
    with pytest.raises(InvalidInputError, match="10000-01-01"):
        table.append(FAR)
    assert table.to_arrow().num_rows == 0


def test_a_merge_inserts_rows_whose_keys_are_all_far(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), keys=("d",))
    table.append(FAR.slice(0, 2))
    merge = table.merge(FAR.slice(1, 3), "t.d = s.d").when_not_matched_insert()
    assert merge.execute() == RowCounts(inserted=2)
    assert ids(table, "true") == [0, 1, 2, 3]

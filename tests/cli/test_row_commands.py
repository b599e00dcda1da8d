"""Rows go into a table from files and come out again, without Spark."""

import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.table_properties import DATA_FILES_ONLY

import mangrove
from mangrove.model.schema_text import format_type

COLUMNS = "id bigint not null, amount decimal(10,2), ts timestamp, day date, name string"
CSV = """id,amount,ts,day,name
1,2.50,2026-01-01T00:00:00Z,2026-01-01,ana
2,,2026-01-02T00:00:00Z,,bo
"""
LINES = """{"id": 2, "amount": "3.50", "day": "2026-02-02"}
{"id": 3, "name": "cy", "ts": "2026-01-03T00:00:00Z"}
"""


@pytest.fixture
def orders(lake: str, run: Any, tmp_path: Path) -> str:
    """Add an empty table to the lakehouse, and files beside it."""
    assert run("create", lake, "sales.rows", "--key", "id", "--schema", COLUMNS).code == 0
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.jsonl").write_text(LINES)
    pq.write_table(pa.table({"id": [7, 8], "name": ["x", "y"]}), str(tmp_path / "c.parquet"))
    return lake


def test_rows_of_every_file_format_round_trip(run: Any, orders: str, tmp_path: Path) -> None:
    for name, rows in (("a.csv", 2), ("c.parquet", 2)):
        assert run("ingest", orders, "sales.rows", str(tmp_path / name), "--json").json["rows"] == rows
    assert run("ingest", orders, "sales.rows", str(tmp_path / "b.jsonl"), "--mode", "upsert").code == 0
    found = {row["id"]: row for row in run("read", orders, "sales.rows", "--json").json}
    assert found[1] == {
        "id": 1, "amount": "2.50", "ts": "2026-01-01T00:00:00+00:00", "day": "2026-01-01", "name": "ana",
    }  # fmt: skip
    assert (found[2]["amount"], found[2]["day"], found[2]["name"]) == ("3.50", "2026-02-02", None)
    assert (found[3]["name"], found[7]["name"], sorted(found)) == ("cy", "x", [1, 2, 3, 7, 8])


def test_ingest_adds_columns_and_converts_types_where_it_is_asked_to(run: Any, orders: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "day": ["2026-02-02"]}), str(tmp_path / "text.parquet"))
    (tmp_path / "more.jsonl").write_text('{"id": 2, "city": "Oslo"}\n')
    for file, option in (("text.parquet", "--cast"), ("more.jsonl", "--evolve")):
        words = ("ingest", orders, "sales.rows", str(tmp_path / file))
        assert run(*words).code == 2
        assert run(*words, option, "--mode", "upsert").code == 2
        assert run(*words, option).code == 0
    found = run("read", orders, "sales.rows", "--columns", "id,day,city", "--json").json
    assert sorted(tuple(row.values()) for row in found) == [(1, "2026-02-02", None), (2, None, "Oslo")]


def test_nan_round_trips_in_csv_and_is_text_in_json(run: Any, lake: str, tmp_path: Path) -> None:
    assert run("create", lake, "sales.lab", "--schema", "id int, x double, y float, n int, name string").code == 0
    (tmp_path / "x.csv").write_text(
        "id,x,y,n,name\n1,NaN,nan,1,NaN\n2,,,,\n3,NA,NULL,NaN,NA\n4,inf, -Infinity,2,x\n5, 1.5 ,-2.5, 3,y\n"
    )
    assert run("ingest", lake, "sales.lab", str(tmp_path / "x.csv")).code == 0
    read = run("read", lake, "sales.lab", "--json")
    found = [tuple(row.values()) for row in sorted(read.json, key=lambda row: int(row["id"]))]
    assert found == [
        (1, "NaN", "NaN", 1, "NaN"), (2, None, None, None, ""), (3, None, None, None, "NA"),
        (4, "Infinity", "-Infinity", 2, "x"), (5, 1.5, -2.5, 3, "y"),
    ]  # fmt: skip
    assert run("read", lake, "sales.lab", "--where", "x is null", "--columns", "id", "--json").json == [
        {"id": 2}, {"id": 3},
    ]  # fmt: skip


def test_a_timestamp_without_a_zone_in_csv_is_in_utc(run: Any, orders: str, tmp_path: Path) -> None:
    (tmp_path / "ts.csv").write_text(
        "id,ts\n1,2026-01-01 10:00:00\n2,2026-01-01T10:00:00+01:00\n3,\n4, 2026-01-01 \n5,2026-01-01T10:00:00.5Z\n"
    )
    assert run("ingest", orders, "sales.rows", str(tmp_path / "ts.csv")).code == 0
    found = {row["id"]: row["ts"] for row in run("read", orders, "sales.rows", "--json").json}
    assert found == {
        1: "2026-01-01T10:00:00+00:00", 2: "2026-01-01T09:00:00+00:00", 3: None, 4: "2026-01-01T00:00:00+00:00",
        5: "2026-01-01T10:00:00.500000+00:00",
    }  # fmt: skip


def test_csv_with_a_heading_alone_has_no_rows(run: Any, orders: str, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("id,amount,ts\n")
    assert run("ingest", orders, "sales.rows", str(tmp_path / "none.csv"), "--json").json["rows"] == 0


def test_the_heading_of_csv_may_be_in_any_case(run: Any, lake: str, tmp_path: Path) -> None:
    assert run("create", lake, "sales.lab", "--schema", "Id int, x double, d decimal(20,2), name string").code == 0
    (tmp_path / "x.csv").write_text("ID,X,D,Name\n1,NaN,123456789012345678.25,007\n")
    assert run("ingest", lake, "sales.lab", str(tmp_path / "x.csv")).code == 0
    (found,) = run("read", lake, "sales.lab", "--json").json
    assert found == {"Id": 1, "x": "NaN", "d": "123456789012345678.25", "name": "007"}


def test_several_files_are_one_commit(run: Any, orders: str, tmp_path: Path) -> None:
    before = mangrove.open(orders).version
    done = run("ingest", orders, "sales.rows", str(tmp_path / "a.csv"), str(tmp_path / "c.parquet"), "--json")
    assert (done.json["rows"], done.json["version"]) == (4, before + 1)
    (change,) = run("diff", orders, str(before), "--json").json["changes"]
    assert change["rows_added"] == 4


def test_an_overwrite_replaces_the_partitions_of_the_rows_in_the_file(run: Any, lake: str, tmp_path: Path) -> None:
    assert run("create", lake, "sales.days", "--schema", "day date, n int", "--partition-by", "day").code == 0
    (tmp_path / "all.csv").write_text("day,n\n2026-01-01,1\n2026-01-02,2\n2026-01-02,3\n")
    (tmp_path / "new.csv").write_text("day,n\n2026-01-02,20\n")
    words = ("ingest", lake, "sales.days")
    assert run(*words, str(tmp_path / "all.csv")).code == 0
    assert run(*words, str(tmp_path / "new.csv"), "--mode", "overwrite-partitions").code == 0
    assert sorted(row["n"] for row in run("read", lake, "sales.days", "--json").json) == [1, 20]
    both = (str(tmp_path / "all.csv"), str(tmp_path / "new.csv"), "--mode", "overwrite-partitions")
    assert run(*words, *both).code == 2


def test_read_chooses_columns_rows_and_versions(run: Any, orders: str, tmp_path: Path) -> None:
    run("ingest", orders, "sales.rows", str(tmp_path / "a.csv"))
    chosen = run("read", orders, "sales.rows", "--columns", "name, id", "--where", "amount > 1", "--json")
    assert chosen.json == [{"name": "ana", "id": 1}]
    assert "1 row; there are more" in run("read", orders, "sales.rows", "--limit", "1").out
    assert run("read", orders, "sales.rows", "--at", "4", "--json").json == []
    assert "ana" in run("read", orders, "sales.rows").out


def test_compact_keeps_the_rows_of_a_table(run: Any, orders: str, tmp_path: Path) -> None:
    run("ingest", orders, "sales.rows", str(tmp_path / "a.csv"))
    run("ingest", orders, "sales.rows", str(tmp_path / "b.jsonl"), "--mode", "upsert")
    before = run("read", orders, "sales.rows", "--json").json
    assert run("compact", orders, "sales.rows", "--json").json["compacted"] is True
    after = run("read", orders, "sales.rows", "--json").json
    assert sorted(after, key=lambda row: int(row["id"])) == sorted(before, key=lambda row: int(row["id"]))
    assert run("check", orders).code == 0


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("x.csv", b"id,nope\n1,2\n", "nope"),
        ("x.csv", b"id,n\xe9me\n1,x\n", "line 1 holds the byte 0xe9"),
        ("x.csv", b"id,name\n1,caf\xe9\n", "line 2 holds the byte 0xe9"),
        ("x.jsonl", b'{"id": 1, "name": "caf\xe9"}\n', "not UTF-8"),
        ("x.csv", b"", "x.csv"),
        ("x.jsonl", b"", "x.jsonl"),
        ("x.parquet", b"", "x.parquet"),
        ("x.csv", b"id,day\n1,not a day\n", "x.csv"),
        ("x.csv", b"id,ts\n1,no moment\n", "column ts: Failed to parse string: 'no moment'"),
        ("x.jsonl", b"{", "x.jsonl"),
        ("x.parquet", b"no parquet", "x.parquet"),
        ("x.txt", b"1", ".parquet"),
    ],
)
def test_a_file_with_an_incompatible_schema_changes_nothing(
    run: Any, orders: str, tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    (tmp_path / name).write_bytes(content)
    before = mangrove.open(orders).version
    done = run("ingest", orders, "sales.rows", str(tmp_path / "a.csv"), str(tmp_path / name))
    assert (done.code, told in done.err) == (2, True), done.err
    assert mangrove.open(orders).version == before


def test_an_invalid_predicate_is_rejected(run: Any, orders: str) -> None:
    assert run("read", orders, "sales.rows", "--where", "amount >").code == 2
    assert run("read", orders, "sales.nothing").code == 1


def test_a_folder_as_spark_lays_it_out_is_ingested_with_the_values_of_its_folders(
    run: Any, orders: str, tmp_path: Path
) -> None:
    for number, (day, name) in enumerate([("2026-11-01", "a%2Fb c"), ("__HIVE_DEFAULT_PARTITION__", "ü")]):
        folder = tmp_path / "old.parquet" / f"day={day}" / f"name={name}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), str(folder / "part-0.parquet"))
        (folder / ".part-0.parquet.crc").write_bytes(b"x")
    (tmp_path / "old.parquet" / "_SUCCESS").write_bytes(b"")
    before = mangrove.open(orders).version
    for place in ("old.parquet", "old.parquet/"):
        done = run("ingest", orders, "sales.rows", str(tmp_path / place), "--json", "--mode", "upsert")
        assert (done.json["rows"], done.json["files"]) == (2, 2)
    assert mangrove.open(orders).version == before + 2
    found = run("read", orders, "sales.rows", "--json", "--columns", "id,day,name").json
    assert sorted(found, key=lambda row: row["id"]) == [
        {"id": 0, "day": "2026-11-01", "name": "a/b c"},
        {"id": 1, "day": None, "name": "ü"},
    ]


@pytest.mark.parametrize(
    ("folders", "told"),
    [
        ("day=yesterday", "holds no date32"),
        ("colour=red", "colour"),
        ("", "has no file with suffix"),
    ],
)
def test_an_invalid_folder_changes_nothing(run: Any, orders: str, tmp_path: Path, folders: str, told: str) -> None:
    before = mangrove.open(orders).version
    folder = tmp_path / "old" / folders
    folder.mkdir(parents=True)
    if folders:
        pq.write_table(pa.table({"id": [1]}), str(folder / "part-0.parquet"))
    else:
        (folder / "notes.txt").write_text("nothing")
    done = run("ingest", orders, "sales.rows", str(tmp_path / "old"))
    assert done.code in (1, 2)
    assert told in done.err
    assert mangrove.open(orders).version == before


def test_times_outside_the_years_of_the_calendar_are_read_as_text(lake: str, run: Any) -> None:
    days = pa.array([0, 2_932_897, -719_163], pa.int32()).cast(pa.date32())
    mangrove.open(lake).create_table("sales.far", as_=pa.table({"day": days}))
    assert run("read", lake, "sales.far", "--json").json == [
        {"day": "1970-01-01"},
        {"day": "10000-01-01"},
        {"day": "0000-12-31"},
    ]
    assert "10000-01-01" in run("read", lake, "sales.far").out


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv", b"id,amount\n1,2.5\nx,3.5\n", r"row 2 of column 'id', which is bigint: holds 'x'\): correct"),
        ("a.csv", b"id,amount\n1,123456789012\n", r"row 1 of column 'amount', which is decimal\(10,2\): holds '123"),
        ("a.csv", b"id,amount\n1,1.234\n", r"row 1 of column 'amount', which is decimal\(10,2\): Rescaling"),
        ("a.csv", b"id,day\n1,2026-02-01\n2,2026-13-45\n", r"row 2 of column 'day', which is date: holds '2026-13-45'"),
        ("a.csv", b"id,name\n1,a\n2\n", r"Row #3: Expected 2 columns, got 1: 2\)"),
        ("a.json", b'[{"id": 1}]', r"each object on a line of its own, and call the file \.jsonl"),
        ("a.csv.gz", b"", "unpack it first"),
        ("a.xlsx", b"", "save the sheet as CSV"),
        ("a.parquet", b"", r"as parquet \(Parquet file size is 0 bytes\): correct"),
        ("a.pq", b"PAR1 nothing PAR1", "smaller than the size reported by footer"),
    ],
)
def test_the_error_for_an_unreadable_file_names_row_column_and_remedy(
    orders: str, run: Any, tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    before = mangrove.open(orders).version
    done = run("ingest", orders, "sales.rows", str(tmp_path / name))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert re.search(said, done.err), done.err
    assert mangrove.open(orders).version == before


def test_a_path_that_is_not_a_file_is_reported(orders: str, run: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    assert "is neither a file nor a folder; copy" in run("ingest", orders, "sales.rows", str(tmp_path / "pipe.csv")).err
    for command in (["ingest", orders, "sales.rows"], ["inspect"], ["sql", orders, "--file"]):
        done = run(*command, str(tmp_path / "a.csv" / "x.csv"))
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "x.csv does not exist; " in done.err
        assert "a.csv is a file, not a folder" in done.err


def test_damaged_rows_are_reported_in_one_line(orders: str, run: Any, tmp_path: Path) -> None:
    mangrove.open(orders).table("sales.rows").alter(DATA_FILES_ONLY)
    assert run("ingest", orders, "sales.rows", str(tmp_path / "a.csv")).code == 0
    (file,) = Path(orders).rglob("*.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[:8] + bytes(255 - byte for byte in whole[8:60]) + whole[60:])
    done = run("read", orders, "sales.rows")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "is damaged or no Parquet file: " in done.err
    assert done.err.endswith(". Run `mangrove check`\n")
    assert ".. Run" not in done.err


def test_ingest_creates_a_table_with_the_columns_of_its_file(run: Any, lake: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name,day,amount\n1,Ana,2026-11-01,2.5\n2,Bo,,\n")
    (tmp_path / "b.jsonl").write_text('{"id": 3, "name": "Cy"}\n')
    files = (str(tmp_path / "a.csv"), str(tmp_path / "b.jsonl"))
    before = mangrove.open(lake).version
    assert "does not exist" in run("ingest", lake, "new.people", *files).err
    done = run("ingest", lake, "new.people", *files, "--create", "--json").json
    assert (done["rows"], done["version"]) == (3, before + 1)
    people = mangrove.open(lake).table("new.people")
    assert people.schema is not None
    assert [(one.name, format_type(one.type)) for one in people.schema.columns] == [
        ("id", "bigint"), ("name", "string"), ("day", "date"), ("amount", "double"),
    ]  # fmt: skip
    assert people.to_arrow(["id", "amount"]).to_pylist()[0] == {"id": 1, "amount": 2.5}
    assert run("ingest", lake, "new.people", *files, "--create", "--json").json["rows"] == 3
    assert people.count() == 6


def test_profile_describes_each_column(run: Any, orders: str, tmp_path: Path) -> None:
    run("ingest", orders, "sales.rows", str(tmp_path / "a.csv"))
    profiles = {one["name"]: one for one in run("profile", orders, "sales.rows", "--json").json}
    assert (profiles["amount"]["count"], profiles["amount"]["nulls"], profiles["amount"]["maximum"]) == (2, 1, "2.50")
    assert profiles["id"]["histogram"] == {"bins": [1, 2, 2], "counts": [1, 1]}
    assert (profiles["name"]["type"], profiles["name"]["minimum"], profiles["name"]["histogram"]) == (
        "string", "ana", None,
    )  # fmt: skip
    shown = run("profile", orders, "sales.rows", "--columns", "id,name", "--where", "id = 1").out
    assert [line.split() for line in shown.splitlines()[2:]] == [
        ["id", "bigint", "0", "1", "1", "1"], ["name", "string", "0", "1", "ana", "ana"], ["1", "row"],
    ]  # fmt: skip


def test_changes_prints_the_rows_that_differ(run: Any, orders: str, tmp_path: Path) -> None:
    run("ingest", orders, "sales.rows", str(tmp_path / "a.csv"))
    before = mangrove.open(orders).version
    run("ingest", orders, "sales.rows", str(tmp_path / "b.jsonl"), "--mode", "upsert")
    changed = run("changes", orders, "sales.rows", str(before), "--json").json
    assert sorted((row["id"], row["_change_type"]) for row in changed) == [
        (2, "update_after"), (2, "update_before"), (3, "insert"),
    ]  # fmt: skip
    assert run("changes", orders, "sales.rows", str(before), str(before), "--json").json == []
    assert "1 row; there are more" in run("changes", orders, "sales.rows", str(before), "--limit", "1").out
    assert run("changes", orders, "sales.rows", str(before + 1), str(before)).code == 2

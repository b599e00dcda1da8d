"""Rows in every format, on stdout and in files, as they are read."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mangrove

COMMAND = [sys.executable, "-c", "from mangrove.cli.main import main; main()"]
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": 'a,"b"', "rate": 0.5, "tags": ["x", None]},
    {"id": 2, "name": None, "rate": None, "tags": []},
]


@pytest.fixture
def typed(lake: str) -> str:
    """Add a table with a nested column and nulls."""
    mangrove.open(lake).create_table("sales.typed", as_=ROWS)
    return lake


def test_each_format_contains_the_same_rows(run: Any, typed: str, tmp_path: Path) -> None:
    words = ("read", typed, "sales.typed")
    assert run(*words, "--json").json == run(*words, "--format", "json").json == ROWS
    assert [json.loads(line) for line in run(*words, "--format", "ndjson").out.splitlines()] == ROWS
    assert list(csv.reader(io.StringIO(run(*words, "--format", "csv").out))) == [
        ["id", "name", "rate", "tags"], ["1", "a,\"b\"", "0.5", '["x", null]'], ["2", "", "", "[]"],
    ]  # fmt: skip
    assert run(*words, "-o", str(tmp_path / "x.parquet"), "--json").json["rows"] == 2
    assert pq.read_table(str(tmp_path / "x.parquet")).to_pylist() == ROWS


def test_a_file_has_the_format_of_its_suffix_unless_another_is_given(run: Any, typed: str, tmp_path: Path) -> None:
    words = ("read", typed, "sales.typed", "--columns", "id", "-o")
    assert "wrote 2 rows" in run(*words, str(tmp_path / "x.csv")).out
    assert run(*words, str(tmp_path / "x.jsonl")).code == run(*words, str(tmp_path / "x.txt"), "--format", "json").code
    assert (tmp_path / "x.csv").read_text() == "id\n1\n2\n"
    assert (tmp_path / "x.jsonl").read_text() == '{"id": 1}\n{"id": 2}\n'
    assert json.loads((tmp_path / "x.txt").read_text()) == [{"id": 1}, {"id": 2}]


def test_a_table_without_rows_is_valid_in_every_format(run: Any, lake: str, tmp_path: Path) -> None:
    words = ("read", lake, "sales.orders", "--columns", "id,customer")
    assert run(*words, "--format", "json").json == []
    assert run(*words, "--format", "ndjson").out == ""
    assert run(*words, "--format", "csv").out == "id,customer\n"
    assert run(*words).out.splitlines()[-1] == "0 rows"
    assert run(*words, "-o", str(tmp_path / "x.parquet")).code == 0
    assert pq.read_table(str(tmp_path / "x.parquet")).column_names == ["id", "customer"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format", "csv", "--json"), "exclude each other"),
        (("-o", "{tmp}/x"), "names no format"),
        (("-o", "{tmp}/x.csv", "--format", "table"), "redirect the output"),
        (("-o", "{tmp}/none/x.csv"), "cannot write"),
        (("--format", "xml"), "xml"),
    ],
)
def test_an_unwritable_output_is_reported_in_one_sentence(
    run: Any, typed: str, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    done = run("read", typed, "sales.typed", *(word.format(tmp=tmp_path) for word in words))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err


def test_columns_stay_aligned_when_later_rows_are_wider_and_control_characters_are_escaped(
    run: Any, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"n{number}" for number in range(2500)] + ["two\nlines", "\x1b[31mred", "東京", None]
    mangrove.open(lake).create_table("sales.wide", as_=pa.table({"id": range(len(names)), "name": names}))
    monkeypatch.delenv("COLUMNS")
    lines = run("read", lake, "sales.wide", "--limit", "5000").out.splitlines()
    assert len(lines) == len(names) + 3
    assert lines[0].split() == ["id", "name"]
    assert lines[2].endswith(" 0   n0")
    assert [line.split("   ")[1] for line in lines[-5:-1]] == ["two\\nlines", "\\x1b[31mred", "東京", "null"]
    assert len({line.index("n") for line in lines[1002:2002]}) == 1


def test_a_narrow_terminal_folds_cells(run: Any, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mangrove.open(lake).create_table("sales.long", as_=pa.table({"id": [1], "text": ["word " * 30]}))
    monkeypatch.setenv("COLUMNS", "40")
    shown = run("read", lake, "sales.long").out
    assert max(map(len, shown.splitlines())) <= 40
    assert shown.count("word") == 30


@pytest.mark.parametrize("row_format", ["ndjson", "table"])
def test_a_reader_of_the_first_rows_gets_them_without_a_read_of_the_last_file(lake: str, row_format: str) -> None:
    opened = mangrove.open(lake)
    table = opened.create_table("sales.many", "id bigint, text string")
    with opened.transaction() as transaction:
        for number in range(30):
            rows = pa.table({"id": pa.repeat(number, 2000), "text": pa.repeat("x" * 100, 2000)})
            transaction.table("sales.many").append(rows)
    last = table.files()[-1].location
    # A read of all rows reports the damage.
    (Path(lake) / last).write_bytes(b"damaged")
    words = [*COMMAND, "read", lake, "sales.many", "--format", row_format, "--limit", "100000"]
    whole = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (whole.returncode, "damaged" in whole.stderr) == (1, True)
    pipe = ["bash", "-c", '"$@" | head -3', "bash", *words]
    first = subprocess.run(pipe, capture_output=True, text=True, check=False)
    assert (first.stderr, len(first.stdout.splitlines())) == ("", 3)


def test_the_rows_of_a_query_have_the_same_formats(run: Any, typed: str, tmp_path: Path) -> None:
    words = ("sql", typed, "--engine", "duckdb", "select * from sales.typed order by id")
    assert run(*words, "--format", "json").json == ROWS
    for row_format in ("csv", "ndjson"):
        read = run("read", typed, "sales.typed", "--format", row_format).out
        assert run(*words, "--format", row_format).out == read
    assert "wrote 1 row" in run(*words, "-o", str(tmp_path / "x.parquet"), "--limit", "1").out
    assert pq.read_table(str(tmp_path / "x.parquet")).to_pylist() == ROWS[:1]


def test_arguments_are_the_values_of_named_parameters(run: Any, typed: str) -> None:
    words = ("sql", typed, "--engine", "duckdb", "--format", "json", "select :n + 1 as n, :text as text, :none as none")
    given = ("--argument", "n=1", "--argument", "text=a'b=c", "--argument", "none=null")
    assert run(*words, *given).json == [{"n": 2, "text": "a'b=c", "none": None}]
    assert run(*words, "--argument", 'text="5"', *given[:2], *given[-2:]).json[0]["text"] == "5"
    assert "--argument 'n' is invalid" in run(*words, "--argument", "n").err
    assert "no argument for parameter" in run(*words, *given[:2]).err


def test_messages_of_a_script_are_not_among_its_rows(run: Any, typed: str) -> None:
    script = "begin; delete from sales.typed where id = 1; commit; select id from sales.typed"
    done = run("sql", typed, "--engine", "duckdb", script, "--format", "csv")
    assert (done.code, done.out, "committed as version" in done.err) == (0, "id\n2\n", True)


def test_a_file_takes_the_rows_of_one_query_and_no_other_format(run: Any, typed: str, tmp_path: Path) -> None:
    words = ("sql", typed, "--engine", "duckdb", "select 1 as a;\nselect 2 as a")
    refused = run(*words, "-o", str(tmp_path / "x.csv"))
    assert (refused.code, "line 2: a second statement has rows" in refused.err) == (2, True)
    assert "exclude each other" in run(*words, "--format", "csv", "--json").err

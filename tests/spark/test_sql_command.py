"""SQL from the command line, on Spark: one statement, a script, a file, in every form of output."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mangrove
from mangrove.cli.main import main

pytestmark = pytest.mark.interop


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> str:
    """Make a lakehouse with a table of three rows."""
    made = mangrove.create(tmp_path / "lake")
    made.create_namespace("shop")
    table = made.create_table("shop.people", "id bigint not null, name string, city string", keys=["id"])
    table.append([{"id": 1, "name": "Ana", "city": "Oslo"}, {"id": 2, "name": "Bo", "city": None}])
    table.append([{"id": 3, "name": "Çem", "city": "Oslo"}])
    return str(tmp_path / "lake")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("COLUMNS", "80")

    def ran(*words: str, given: str | None = None) -> tuple[int, str, str]:
        if given is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        with pytest.raises(SystemExit) as ended:
            main(words)
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out, told.err

    return ran


def test_rows_are_printed_as_a_table_json_and_csv(run: Callable[..., tuple[int, str, str]], lake: str) -> None:
    query = "select id, name, city from shop.people order by id"
    code, shown, _ = run("sql", lake, query)
    assert (code, shown.splitlines()[0].split()) == (0, ["id", "name", "city"])
    assert shown.splitlines()[-1] == "3 rows"
    code, told, _ = run("sql", lake, query, "--json")
    assert json.loads(told)["rows"][1] == {"id": 2, "name": "Bo", "city": None}
    code, told, _ = run("sql", lake, "select double('nan') a, array(-double('inf')) b", "--json")
    assert json.loads(told, parse_constant=pytest.fail)["rows"] == [{"a": "NaN", "b": ["-Infinity"]}]
    code, rows, _ = run("sql", lake, query, "--format", "csv")
    assert rows == "id,name,city\n1,Ana,Oslo\n2,Bo,\n3,Çem,Oslo\n"


def test_a_limit_reports_that_more_rows_exist(run: Callable[..., tuple[int, str, str]], lake: str) -> None:
    _, shown, _ = run("sql", lake, "select id from shop.people", "--limit", "2")
    assert "2 rows; there are more" in shown


def test_a_script_from_a_file_or_stdin_commits_atomically_and_prints_each_result(
    run: Callable[..., tuple[int, str, str]], lake: str, tmp_path: Path
) -> None:
    script = (
        "begin;\ninsert into shop.people values (4, 'Di', 'Lima');\ncommit;\nselect count(*) as n from shop.people;\n"
    )
    (tmp_path / "load.sql").write_text(script)
    code, told, _ = run("sql", lake, "--file", str(tmp_path / "load.sql"), "--json")
    answers = [json.loads(line) for line in told.splitlines()]
    assert (code, [one["line"] for one in answers], answers[-1]["rows"]) == (0, [1, 2, 3, 4], [{"n": 4}])
    code, shown, said = run("sql", lake, "--stats", given="select count(distinct id) as n from shop.people")
    assert (code, "4" in shown.split()) == (0, True)
    assert "shop.people: 3 files read, 0 skipped" in said
    assert "requests of Spark are not counted" in said


def test_a_script_stops_at_the_first_error_with_its_line_and_an_open_transaction_is_rolled_back(
    run: Callable[..., tuple[int, str, str]], lake: str
) -> None:
    before = mangrove.open(lake).version
    code, shown, said = run("sql", lake, "select 1 as one;\nselect * from shop.nosuch;\ndrop table shop.people")
    assert (code, "one" in shown, "line 2" in said) == (1, True, True)
    code, _, said = run("sql", lake, "begin; insert into shop.people values (9, 'x', 'y')")
    assert (code, "rolled back" in said) == (2, True)
    assert mangrove.open(lake).version == before


@pytest.mark.parametrize(("form", "lines"), [((), 1), (("--format", "csv"), 3), (("--json",), 1)])
def test_a_query_error_at_run_time_is_one_sentence_with_its_line(
    run: Callable[..., tuple[int, str, str]], lake: str, form: tuple[str, ...], lines: int
) -> None:
    before = mangrove.open(lake).version
    script = "begin;\ninsert into shop.people values (9, 'x', 'y');\nselect id / 0 from shop.people"
    code, _, said = run("sql", lake, script, *form)
    assert (code, "line 3: Division by zero" in said, said.count("\n")) == (2, True, lines)
    assert mangrove.open(lake).version == before


def test_a_statement_error_at_run_time_is_reported_with_its_position(
    run: Callable[..., tuple[int, str, str]], lake: str
) -> None:
    code, _, said = run("sql", lake, "create table shop.y as select cast(name as int) as a from shop.people")
    assert (code, said.splitlines()[0].startswith("mangrove: line 1, column 14:")) == (2, True)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("",), None),
        (("select 1", "--file", "x.sql"), None),
        (("select 1", "--format", "csv", "--json"), None),
        ((), "  \n"),
    ],
)
def test_missing_or_conflicting_statement_arguments_are_rejected(
    run: Callable[..., tuple[int, str, str]], lake: str, words: tuple[str, ...], given: str | None
) -> None:
    code, shown, said = run("sql", lake, *words, given=given)
    assert (code, shown, said.count("\n")) == (2, "", 1)


def test_a_command_that_needs_spark_late_restarts_with_pandas(lake: str) -> None:
    words = ["compact", lake, "shop.people", "--engine", "spark", "--json", "--stats"]
    ended = subprocess.run(
        [sys.executable, "-c", "from mangrove.cli.main import main; main()", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr
    (stats,) = ended.stderr.splitlines()
    assert json.loads(stats)["storage"]["without_spark"] is True
    assert json.loads(ended.stdout)

"""Long lists on a terminal are cut, with a line that says how to see the rest; programs and pipes get all of them."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.table_properties import DATA_FILES_ONLY

import mangrove
from mangrove.cli.listing import LINES_MAX

MANY = LINES_MAX + 5


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make a lakehouse with many of everything, which tests only look at."""
    place = str(tmp_path_factory.mktemp("large"))
    lake = mangrove.create(place)
    with lake.transaction(message="many") as transaction:
        transaction.create_namespace("s")
        for number in range(MANY):
            transaction.create_namespace(f"n{number:04}")
            transaction.create_table(f"s.t{number:04}", "id int")
        transaction.create_view("s.v", "select 1")
    return place


@pytest.fixture
def terminal(run: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `mangrove` where a person looks at what it says, on a terminal that is wide and without colours."""
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    return run


@pytest.mark.parametrize("words", [[], ["s"]])
def test_a_terminal_lists_the_first_entries_and_how_to_see_more(large: str, terminal: Any, words: list[str]) -> None:
    shown = terminal("ls", large, *words).out.splitlines()
    assert f"the first {LINES_MAX}; there are more: use --limit" in shown[-1]
    assert sum("0" in line for line in shown[:-1]) == LINES_MAX
    assert len(terminal("ls", large, *words, "--json").json) == MANY + 1
    assert "there are more" not in terminal("ls", large, *words, "--limit", str(MANY + 1)).out
    assert len(terminal("ls", large, *words, "--prefix", "t000" if words else "n000", "--json").json) == 10


def test_a_pipe_gets_every_name(large: str, run: Any) -> None:
    shown = run("ls", large, "s").out
    assert f"s.t{MANY - 1:04}" in shown
    assert "s.v" in shown
    assert "there are more" not in shown


def test_a_limit_reports_more_entries_only_if_they_exist(large: str, run: Any) -> None:
    assert "the first 2; there are more" in run("ls", large, "s", "--limit", "2").out
    assert len(run("ls", large, "s", "--limit", "2", "--json").json) == 2
    assert "there are more" not in run("ls", large, "s", "--limit", "1", "--prefix", "v").out
    assert "there are more" in run("ls", large, "s", "--limit", "0").out


def test_the_log_lists_fifty_versions_as_text_and_all_as_json(tmp_path: Path, run: Any) -> None:
    lake = mangrove.create(tmp_path / "lake")
    for number in range(55):
        lake.create_namespace(f"n{number}")
    place = str(tmp_path / "lake")
    shown = run("history", place).out
    assert "the first 50; there are more: use --limit, or --before 6 for the next ones" in shown
    assert "there are more" not in run("history", place, "--before", "6").out
    assert "the first 50" in run("history", place, "--graph").out
    assert [line["version"] for line in run("history", place, "--json").json] == list(range(55, -1, -1))
    assert len(run("history", place, "--json", "--limit", "3").json) == 3


def test_a_long_diff_is_truncated_only_on_a_terminal(large: str, terminal: Any) -> None:
    shown = terminal("diff", large, "0").out.splitlines()
    every = terminal("diff", large, "0", "--json").json["changes"]
    assert len(every) == 2 * MANY + 2
    assert shown[-1] == f"… and {len(every) - LINES_MAX} more; --json lists all"
    assert len(shown) == LINES_MAX + 2


def test_a_check_with_many_problems_still_ends_with_its_result(tmp_path: Path, terminal: Any) -> None:
    lake = mangrove.create(tmp_path)
    lake.create_namespace("s")
    with lake.transaction() as transaction:
        table = transaction.create_table("s.t", "id int", properties=DATA_FILES_ONLY)
        for number in range(MANY):
            table.append([{"id": number}])
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    shown = terminal("check", str(tmp_path)).out.splitlines()
    assert len(shown) == LINES_MAX + 2
    assert shown[-2] == "… and 5 more; --json lists all"
    assert shown[-1].startswith(f"{MANY} problems in ")

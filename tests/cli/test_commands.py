"""What holds for every command: help, JSON, statistics, errors, colours, start-up."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest

import mangrove
from mangrove.cli.main import COMMANDS
from mangrove.cli.main import mangrove as group
from mangrove.effects import wait_for_pending
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.maintenance import Maintenance
from mangrove.lakehouse.table import Table
from mangrove.model.paths import TEMPORARY_PREFIX

CONTEXT = click.Context(group)


def spawn(words: Sequence[str], **environment: str) -> subprocess.Popen[str]:
    """Start the command as people do."""
    return subprocess.Popen(
        [sys.executable, "-c", "from mangrove.cli.main import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**{name: value for name, value in os.environ.items() if name != "MANGROVE_LAKE"}, **environment},
    )


def ended(words: Sequence[str], **environment: str) -> tuple[int, str, str]:
    process = spawn(words, **environment)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_a_valid_example(run: Any, name: str) -> None:
    done = run(name, "--help")
    assert done.code == 0
    example = done.out.partition("Example:")[2]
    assert f"mangrove {name}" in example
    assert "--json" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_the_overview_summarizes_each_command_as_its_help_does(name: str) -> None:
    command = group.get_command(CONTEXT, name)
    assert command is not None
    assert command.name == name
    sentence = COMMANDS[name][1].rstrip(".")
    assert (command.help or "").startswith(sentence), (sentence, command.help)


def test_the_overview_names_every_command_and_the_version(run: Any) -> None:
    shown = run("--help").out
    assert all(f"  {name} " in shown for name in COMMANDS)
    assert run("--version").out == f"mangrove {version('mangrove-lake')}\n"
    assert (run().code, run("nosuch").code) == (2, 2)


def test_commands_have_the_names_of_methods() -> None:
    methods = {name for kind in (Lakehouse, Table, Maintenance) for name in dir(kind)}
    others = {name for name in COMMANDS if name.replace("-", "_") not in methods}
    assert others == {
        "init", "ls", "show", "create", "ingest", "read", "shell", "alias", "inspect", "tree", "serve", "completion",
    }  # fmt: skip


@pytest.mark.parametrize(("word", "meant"), [("raed", "read"), ("roll-back", "rollback"), ("tags", "tag")])
def test_a_misspelled_command_is_answered_with_the_closest_one(run: Any, word: str, meant: str) -> None:
    done = run(word, "./lake")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"unknown command {word!r}; did you mean {meant!r}? See `mangrove --help`" in done.err


def test_a_misspelled_option_is_answered_with_the_closest_one(run: Any) -> None:
    done = run("read", "./lake", "sales.orders", "--colums", "id")
    assert "no such option '--colums'; did you mean '--columns'? See `mangrove read --help`" in done.err


def _row_file(folder: Path) -> str:
    (folder / "rows.csv").write_text("id,customer\n1,ana\n")
    return str(folder / "rows.csv")


def _add_file(lake: str) -> str:
    (added,) = mangrove.open(lake).create_table("sales.raw", schemaless=True).add_files({"a.bin": b"a"})
    return added.location


def every_command(lake: str, tmp_path: Path) -> dict[str, list[str]]:
    return {
        "init": [str(tmp_path / "new")],
        "ls": [lake],
        "show": [lake, "sales.orders"],
        "alias": [lake],
        "access": [lake],
        "files": [lake, "sales.orders"],
        "remove-files": [lake, "sales.raw", _add_file(lake)],
        "create": [lake, "more"],
        "ingest": [lake, "sales.orders", _row_file(tmp_path)],
        "read": [lake, "sales.orders"],
        "profile": [lake, "sales.orders"],
        "changes": [lake, "sales.orders", "3"],
        "delete": [lake, "sales.orders", "id = 7"],
        "update": [lake, "sales.orders", "--set", "amount=amount + 1"],
        "iceberg": [lake, "sales.orders"],
        "alter": [lake, "more", "--property", "owner=ana"],
        "rename": [lake, "more", "moved"],
        "drop": [lake, "moved"],
        "undo": [lake, "3"],
        "history": [lake],
        "diff": [lake, "1"],
        "rollback": [lake, "2"],
        "tag": [lake],
        "export": [lake, str(tmp_path / "copy"), "kept"],
        "convert": [lake, str(tmp_path / "converted")],
        "expire": [lake],
        "vacuum": [lake],
        "compact": [lake],
        "check": [lake],
        "repair-clock": [lake],
        "upgrade-format": [lake],
        "compact-metadata": [lake],
        "inspect": [f"{lake}/_00000000000000000000000000000000.ipc"],
        "tree": [lake],
        "versions": [lake, "sales.orders"],
        "create-version": [lake, "sales.orders"],
        "set-state": [lake, "sales.orders", "2=beta"],
        "drop-version": [lake, "sales.orders", "2"],
        "streams": [lake, "sales.orders"],
        "create-stream": [lake, "sales.orders", "reload"],
        "commit-stream": [lake, "sales.orders", "reload"],
        "drop-stream": [lake, "sales.orders", mangrove.open(lake).table("sales.orders").streams()[0].id],
        "partitions": [lake, "sales.orders"],
        "create-partition": [lake, "sales.orders", "sunday", "[]"],
        "deltas": [lake, "sales.orders"],
        "completion": ["zsh"],
    }


LONG = {"serve", "shell", "sql"}
"""Commands that start Spark or a server, whose tests are elsewhere."""


def test_every_command_answers_in_json_alone_and_counts_its_requests(run: Any, lake: str, tmp_path: Path) -> None:
    every = every_command(lake, tmp_path)
    assert set(every) == set(COMMANDS) - LONG
    for name, words in every.items():
        done = run(name, *words, "--json", "--stats")
        assert done.code == 0, (name, done.err)
        assert done.json is not None
        counted = json.loads(done.err)["storage"]
        assert (counted["total"] > 0) == (name != "completion"), name


LOOKING = {
    ("ls",): 8,
    ("ls", "sales"): 8,
    ("show",): 8,
    ("show", "sales"): 8,
    ("show", "sales.orders"): 8,
    ("tree",): 8,
    ("read", "sales.orders"): 9,
    ("history",): 8 + 32,
    ("diff", "1"): 10,
}
"""The most requests of a command: 1 for an export's record, 2 for hints, 3 for the root and what could follow it,
1 for the settings, and 1 for a version that is newer still; then what the command itself reads."""


@pytest.mark.parametrize("words", LOOKING)
def test_reading_commands_take_few_requests_and_no_listing(run: Any, lake: str, words: tuple[str, ...]) -> None:
    opened = mangrove.open(lake)
    opened.table("sales.orders").append([{"id": 1}])
    wait_for_pending(opened.effects, 60.0)
    name, *rest = words
    done = run(name, lake, *rest, "--json", "--stats")
    counted = json.loads(done.err)["storage"]
    assert counted["total"] <= LOOKING[words]
    assert counted["total"] == counted["reads"]


def test_the_text_output_of_every_command_has_at_most_80_columns_and_no_colours(
    run: Any, lake: str, tmp_path: Path
) -> None:
    for name, words in every_command(lake, tmp_path).items():
        done = run(name, *words)
        assert (done.code, done.err) == (0, ""), name
        assert "\x1b" not in done.out
        if name not in (
            "completion",
            "convert",
            "drop-stream",
            "expire",
            "export",
            "files",
            "iceberg",
            "init",
            "rollback",
        ):  # sentences stay whole
            assert max(map(len, done.out.splitlines())) <= 80, name


def test_stats_prints_one_line(run: Any, lake: str) -> None:
    done = run("ls", lake, "--stats")
    assert done.err.startswith("storage: ")
    assert "requests (" in done.err
    assert done.err.count("\n") == 1


def test_vacuum_finds_files_of_a_killed_writer_with_and_without_stats(run: Any, lake: str) -> None:
    (Path(lake) / f"{TEMPORARY_PREFIX}left").write_bytes(b"half")
    for words in ([], ["--stats"]):
        found = run("vacuum", lake, "--alone", "--dry-run", "--json", *words).json["paths"]
        # A hint that is being written in the background is a temporary file too.
        assert f"{TEMPORARY_PREFIX}left" in found
    assert run("vacuum", lake, "--alone", "--stats").code == 0
    assert not (Path(lake) / f"{TEMPORARY_PREFIX}left").exists()


def test_the_error_for_a_missing_lakehouse_is_one_sentence_with_a_remedy(run: Any, tmp_path: Path) -> None:
    done = run("ls", str(tmp_path / "none"))
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert "create one" in done.err


def test_an_error_is_a_json_object_for_programs(run: Any, tmp_path: Path) -> None:
    done = run("ls", str(tmp_path / "none"), "--json")
    assert json.loads(done.err)["error"] == "NotFoundError"
    usage = run("ls", "--json", "--nosuch")
    assert json.loads(usage.err)["exit_code"] == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ls",), "MANGROVE_LAKE"),
        (("ls", "nosuch://x/y"), "scheme"),
        (("ls", "/tmp/x", "--option", "region"), "key=value"),
        (("ls", "/tmp/x", "--option", "region=eu"), "no options"),
        (("history", "/tmp/x", "--limit", "many"), "--help"),
        (("completion", "tcsh"), "tcsh"),
    ],
)
def test_a_usage_error_exits_with_2_and_a_remedy(run: Any, words: tuple[str, ...], told: str) -> None:
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert done.err.count("\n") == 1


def test_the_lakehouse_is_taken_from_the_environment(run: Any, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANGROVE_LAKE", lake)
    assert run("ls", "sales", "--limit", "1", "--json").json[0]["name"] == "sales.orders"
    assert run("diff", "1", "2", "--json").json["after"] == 2
    assert run("ls", lake, "sales", "--json").json == run("ls", "sales", "--json").json
    monkeypatch.chdir(lake)
    assert run("ls", ".", "sales", "--json").json == run("ls", "sales", "--json").json


def test_a_relative_path_is_resolved_from_the_working_directory(
    run: Any, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(lake).parent)
    for place in ("lake", "./lake", "../" + Path(lake).parent.name + "/lake"):
        assert run("show", place, "--json").json["uri"] == Path(lake).as_uri() + "/"


def test_an_unexpected_error_is_reported_in_one_sentence(run: Any, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("mangrove.cli.context.open_store", broken)
    done = run("ls", lake)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "ZeroDivisionError: by nothing" in done.err


def test_an_interrupted_command_reports_the_interruption(run: Any, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mangrove.cli.context.open_store", interrupted)
    done = run("ls", lake)
    assert (done.code, "interrupted" in done.err) == (1, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_commands(run: Any, shell: str) -> None:
    assert "_MANGROVE_COMPLETE" in run("completion", shell).out


def test_completion_offers_commands_with_the_typed_prefix() -> None:
    code, out, _ = ended([], _MANGROVE_COMPLETE="bash_complete", COMP_WORDS="mangrove ro", COMP_CWORD="1")
    assert (code, out.split()) == (0, ["plain,rollback"])


def imported_by(*words: str) -> set[str]:
    """Return all modules that the real command imports, run as people do."""
    code = (
        "import sys\nfrom mangrove.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "print('imported:', *sorted(name for name, module in sys.modules.items() if module is not None))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "MANGROVE_LAKE"}
    answer = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, check=True, text=True, env=environment
    )
    return set(answer.stdout.rpartition("imported:")[2].split())


HEAVY = {
    "duckdb", "google.protobuf", "importlib.metadata", "mangrove.expressions.parse", "mangrove.lakehouse.lakehouse",
    "mangrove.lakehouse.maintenance", "mangrove.lakehouse.table", "mangrove.local", "mangrove.server",
    "mangrove.spark.engine", "mangrove.sql", "mangrove.tables",
    "numpy", "pandas", "polars", "prompt_toolkit", "pyarrow", "pyarrow.compute",
    "pyarrow.dataset", "pyarrow.parquet", "pyiceberg", "pyspark", "rich.progress", "sqlglot", "starlette",
}  # fmt: skip
"""What takes long to import."""
TO_OPEN = {"google.protobuf", "numpy", "pyarrow"}
"""Arrow imports numpy."""
MODULES_MAX = 148
"""How many modules of the package a command imports at most that reads only metadata; the whole package has 368."""

SQL_MODULES_MAX = 280
"""How many modules of the package a query on DuckDB imports at most."""


def test_help_imports_nothing_heavy_and_nothing_of_the_lakehouse() -> None:
    imported = imported_by("--help")
    assert not imported & (HEAVY | {"rich"})
    ours = {name for name in imported if name.startswith("mangrove.")}
    assert ours == {
        "mangrove.cli",
        "mangrove.cli.main",
        "mangrove.cli.environment",
        "mangrove.errors",
        "mangrove.wiring",
    }


@pytest.mark.parametrize("name", ["ls", "history", "show", "diff", "tree"])
def test_a_catalog_command_imports_only_arrow_and_protobuf_of_the_heavy_modules(
    lake: str, tmp_path: Path, name: str
) -> None:
    words = every_command(lake, tmp_path)[name][1:]
    imported = imported_by(name, lake, *words)
    assert imported & HEAVY <= TO_OPEN
    assert sum(one.startswith("mangrove.") for one in imported) <= MODULES_MAX


@pytest.mark.parametrize("what", ["id, count(distinct customer)", "count(*), max(ts)"])
def test_a_query_imports_only_what_reads_its_tables_and_computes_on_duckdb(lake: str, what: str) -> None:
    group = " group by id" if what.startswith("id") else ""
    imported = imported_by("sql", lake, f"select {what} from sales.orders{group}")
    assert not imported & {"pandas", "polars", "prompt_toolkit", "pyarrow.dataset", "pyspark", "rich.progress"}
    assert sum(one.startswith("mangrove.") for one in imported) <= SQL_MODULES_MAX


@pytest.mark.parametrize("words", [("read", "sales.orders"), ("check",)])
def test_a_command_about_rows_does_not_wait_for_spark(lake: str, words: tuple[str, ...]) -> None:
    name, *rest = words
    mangrove.open(lake).table("sales.orders").append([{"id": 1}])
    slow = {"pyarrow.dataset", "pyspark"}
    assert not imported_by(name, lake, *rest) & slow


def test_concurrent_commands_both_commit(lake: str) -> None:
    started = [spawn(["create", lake, f"at_once_{number}"]) for number in range(2)]
    assert [process.communicate(timeout=120) and process.returncode for process in started] == [0, 0]
    assert {"at_once_0", "at_once_1"} <= {one.name for one in mangrove.open(lake).namespaces()}


def test_one_of_two_concurrent_creations_of_the_same_object_fails(lake: str) -> None:
    started = [spawn(["create", lake, "same"]) for _ in range(2)]
    told = [process.communicate(timeout=120)[1] for process in started]
    assert sorted(process.returncode for process in started) == [0, 1]
    assert sum("already" in one for one in told) == 1


def test_a_closed_standard_output_causes_no_error_message(lake: str) -> None:
    process = spawn(["history", lake, "--limit", "1"])
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    complaint = process.stderr.read()
    process.wait(timeout=120)
    process.stderr.close()
    assert complaint == ""

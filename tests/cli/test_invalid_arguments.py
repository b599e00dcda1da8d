"""Every command with nonsense: one sentence, the right exit code, and nothing changed."""

from pathlib import Path
from typing import Any

import pytest

import mangrove
from mangrove.cli.main import COMMANDS

WITHOUT_LAKE = {"completion", "inspect"}
REST = {
    "create": ["more"],
    "versions": ["sales.orders"],
    "create-version": ["sales.orders"],
    "set-state": ["sales.orders", "1=beta"],
    "drop-version": ["sales.orders", "1"],
    "streams": ["sales.orders"],
    "create-stream": ["sales.orders"],
    "commit-stream": ["sales.orders", "reload"],
    "drop-stream": ["sales.orders", "reload"],
    "partitions": ["sales.orders"],
    "create-partition": ["sales.orders", "sunday", "[]"],
    "deltas": ["sales.orders"],
    "ingest": ["sales.orders", "rows.csv"],
    "read": ["sales.orders"],
    "profile": ["sales.orders"],
    "changes": ["sales.orders", "1"],
    "alter": ["sales", "--property", "owner=bo"],
    "undo": ["3"],
    "tag": ["kept"],
    "rename": ["sales", "moved"],
    "drop": ["sales"],
    "diff": ["1"],
    "rollback": ["1"],
    "export": ["copy", "kept"],
    "convert": ["elsewhere"],
    "delete": ["sales.orders", "id = 1"],
    "update": ["sales.orders", "--set", "amount=1"],
    "sql": ["select 1"],
    "iceberg": ["sales.orders"],
    "files": ["sales.orders"],
    "remove-files": ["sales.raw", "a.bin"],
}
"""What each command needs after LAKE."""
OPENING = [name for name in COMMANDS if name not in WITHOUT_LAKE | {"init"}]


@pytest.mark.parametrize("name", OPENING)
def test_a_location_without_a_lakehouse_is_reported(run: Any, tmp_path: Path, name: str) -> None:
    done = run(name, str(tmp_path / "none"), *REST.get(name, []))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1), done.err
    assert "no lakehouse" in done.err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", [*OPENING, "init"])
def test_a_file_in_the_place_of_a_folder_is_named(run: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    done = run(name, str(tmp_path / "file"), *REST.get(name, []))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert "is a file" in done.err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_error_for_an_unknown_option_refers_to_the_help(run: Any, lake: str, name: str) -> None:
    before = mangrove.open(lake).version
    done = run(name, lake, *REST.get(name, []), "--nosuch")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"`mangrove {name} --help`" in done.err
    assert mangrove.open(lake).version == before


@pytest.mark.parametrize(
    "words",
    [
        ("ls", "", "x"), ("ls", "~nosuchuser/lake"), ("ls", "{lake}", "nosuch"), ("ls", "{lake}", "--at", "never"),
        ("show", "{lake}", "a.b.c"), ("show", "{lake}", ""), ("show", "{lake}", "sales.nosuch"),
        ("create", "{lake}", "two words"), ("create", "{lake}", "sales.new", "--schema", "id nosuch"),
        ("create", "{lake}", "sales.new", "--schema", "@nosuch.sql"), ("create", "{lake}", "new", "--property", "x"),
        ("rename", "{lake}", "sales", "sales"), ("rename", "{lake}", "sales.orders", "nosuch.orders"),
        ("drop", "{lake}", "nosuch"), ("drop", "{lake}", "sales.orders", "--cascade"),
        ("read", "{lake}", "sales"), ("read", "{lake}", "sales.orders", "--columns", "nosuch"),
        ("read", "{lake}", "sales.orders", "--where", "'"), ("read", "{lake}", "sales.daily"),
        ("ingest", "{lake}", "sales.orders", "nosuch.csv"), ("ingest", "{lake}", "sales.nosuch", "nosuch.csv"),
        ("diff", "{lake}", "0", "99"), ("diff", "{lake}", "nosuch"), ("rollback", "{lake}", "99"),
        ("export", "{lake}", "copy", ""), ("export", "{lake}", "{lake}", "x"),
        ("export", "{lake}", "copy", "x", "--at", "99"), ("tag", "{lake}", "x", "--drop"),
        ("tag", "{lake}", "x", "--drop", "--at", "1"), ("compact", "{lake}", "sales.nosuch"),
        ("vacuum", "{lake}", "--grace", "-1d"), ("check", "{lake}", "--sample", "0"), ("tree", "{lake}", "--at", "99"),
        ("inspect", "{lake}"), ("inspect", "/"), ("inspect", "nosuch"), ("history", "{lake}", "--before", "x"),
    ],
)  # fmt: skip
def test_an_invalid_argument_is_reported_in_one_sentence_and_changes_nothing(
    run: Any, lake: str, words: tuple[str, ...]
) -> None:
    before = mangrove.open(lake).version
    done = run(*(word.format(lake=lake) for word in words))
    assert done.code in (1, 2)
    assert (done.out, done.err.count("\n")) == ("", 1), done.err
    assert "internal error" not in done.err
    assert mangrove.open(lake).version == before

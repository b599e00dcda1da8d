"""The command convert makes a lakehouse of the other layout that every other command works on."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def lake(run: Any, tmp_path: Path) -> str:
    uri = str(tmp_path / "lake")
    for words in (["init", uri], ["create", uri, "sales"], ["create", uri, "sales.orders", "--schema", "id bigint"]):
        assert run(*words).code == 0
    rows = tmp_path / "rows.csv"
    rows.write_text("id\n1\n2\n3\n")
    assert run("ingest", uri, "sales.orders", str(rows)).code == 0
    return uri


def test_a_converted_lakehouse_has_the_same_history_and_rows(run: Any, lake: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    done = run("convert", lake, copy, "--json", "--stats")
    assert done.code == 0, done.err
    assert done.json["is_sound"]
    assert (done.json["layout"], done.json["versions"], done.json["comparison"]["rows"]) == ("deltacat", 4, 3)
    assert run("show", copy, "--json").json["layout"] == "deltacat"
    assert run("history", copy, "--json").json == run("history", lake, "--json").json
    assert run("read", copy, "sales.orders", "--json").json == run("read", lake, "sales.orders", "--json").json
    assert run("check", copy).code == 0
    record = run("inspect", f"{copy}/_mangrove_conversion.json", "--json")
    assert (record.code, "record of a conversion" in record.out) == (0, True)


def test_the_target_layout_and_format_revision_can_be_chosen(run: Any, lake: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    done = run("convert", lake, copy, "--layout", "deltacat-2", "--history", "latest")
    assert done.code == 0, done.err
    assert "1 versions" in done.out
    assert "no difference" in done.out
    assert (tmp_path / "copy" / "txn" / "success").is_dir()
    refused = run("convert", lake, str(tmp_path / "other"), "--layout", "tree-2")
    assert refused.code == 2
    assert "tree-older" in refused.err


def test_an_existing_target_is_rejected(run: Any, lake: str, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    done = run("convert", lake, str(tmp_path / "taken"))
    assert done.code == 1
    assert "notes.txt" in done.err


def test_a_strict_tree_is_created_and_converted_both_ways(run: Any, lake: str, tmp_path: Path) -> None:
    strict, back = str(tmp_path / "strict"), str(tmp_path / "back")
    assert run("convert", lake, strict, "--strict", "--json").json["is_sound"]
    assert run("convert", strict, back, "--no-strict", "--json").json["is_sound"]
    assert [run("show", uri, "--json").json["layout"] for uri in (lake, strict, back)] == ["tree"] * 3
    shown = [run("show", uri, "--json").json["properties"].get("tree.strict") for uri in (lake, strict, back)]
    assert shown == [None, "true", None]
    assert run("read", strict, "sales.orders", "--json").json == run("read", lake, "sales.orders", "--json").json
    assert run("init", str(tmp_path / "new"), "--strict").code == 0
    assert run("show", str(tmp_path / "new"), "--json").json["properties"] == {"tree.strict": "true"}
    assert run("init", str(tmp_path / "older"), "--layout", "tree-older", "--no-strict").code == 0
    assert run("show", str(tmp_path / "older"), "--json").json["properties"] == {}
    refused = run("init", str(tmp_path / "no"), "--layout", "deltacat", "--strict")
    assert (refused.code, "cannot be strict" in refused.err) == (2, True)

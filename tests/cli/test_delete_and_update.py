"""Rows that are there, changed from the command line."""

from pathlib import Path
from typing import Any

import pytest

import mangrove


@pytest.fixture
def filled(run: Any, lake: str, tmp_path: Path) -> str:
    (tmp_path / "rows.csv").write_text("id,customer,amount\n1,ana,10.00\n2,bo,20.00\n3,cy,30.00\n")
    assert run("ingest", lake, "sales.orders", str(tmp_path / "rows.csv")).code == 0
    return lake


def amounts(run: Any, lake: str) -> dict[int, str]:
    return {row["id"]: row["amount"] for row in run("read", lake, "sales.orders", "--json").json}


def test_update_changes_and_counts_the_matching_rows(run: Any, filled: str) -> None:
    done = run("update", filled, "sales.orders", "--set", "amount=amount * 2", "--where", "id >= 2", "--json")
    assert (done.code, done.json["updated"]) == (0, 2)
    assert amounts(run, filled) == {1: "10.00", 2: "40.00", 3: "60.00"}


def test_delete_removes_the_matching_rows_except_from_earlier_versions(run: Any, filled: str) -> None:
    before = mangrove.open(filled).version
    done = run("delete", filled, "sales.orders", "customer = 'bo'")
    assert (done.code, done.out) == (0, f"1 row deleted in sales.orders, as of version {before + 1}\n")
    assert set(amounts(run, filled)) == {1, 3}
    assert len(run("read", filled, "sales.orders", "--at", str(before), "--json").json) == 3


@pytest.mark.parametrize(
    "words",
    [
        ("delete", "sales.orders", ""),
        ("delete", "sales.orders", "nosuch = 1"),
        ("update", "sales.orders", "--set", "amount"),
        ("update", "sales.orders", "--set", "nosuch=1"),
        ("update", "sales.orders", "--set", "amount=1", "--where", "nosuch = 1"),
        ("update", "sales.orders"),
    ],
)
def test_an_invalid_update_or_delete_is_rejected(run: Any, filled: str, words: tuple[str, ...]) -> None:
    before = mangrove.open(filled).version
    done = run(words[0], filled, *words[1:])
    assert (done.code in (1, 2), done.out, done.err.count("\n")) == (True, "", 1), done.err
    assert mangrove.open(filled).version == before


def test_compact_rewrites_every_table_that_needs_it(run: Any, filled: str, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("id,customer,amount\n2,bo,25.00\n")
    assert run("ingest", filled, "sales.orders", str(tmp_path / "more.csv"), "--mode", "upsert").code == 0
    before = amounts(run, filled)
    assert run("compact", filled, "--json").json["compacted"] == ["sales.orders"]
    assert amounts(run, filled) == before
    assert "none of 1 tables needs" in run("compact", filled).out


def test_a_bounded_compaction_reports_the_remaining_work(run: Any, filled: str, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "more.csv").write_text(f"id,customer,amount\n{number},bo,25.00\n")
        assert run("ingest", filled, "sales.orders", str(tmp_path / "more.csv"), "--mode", "upsert").code == 0
    done = run("compact", filled, "sales.orders", "--files-max", "2", "--engine", "local")
    assert "sales.orders: 2 files (" in done.out
    assert "were compacted into 1; 2 files (" in done.out
    told = run("compact", filled, "--json").json
    assert told["reports"]["sales.orders"]["files_left"] == 0
    assert "needs no compaction" in run("compact", filled, "sales.orders").out

"""The commands about versions, on a real lakehouse in a folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mangrove
from mangrove.cli.catalog import diff_columns
from mangrove.cli.history import build_graph_rows
from mangrove.expressions.schema_text import parse_column, parse_schema
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.schema import Schema
from mangrove.model.transaction_record import TransactionRecord
from mangrove.transaction.history import ROLLED_BACK_TO, HistoryEntry


def line(version: int, to: int | None = None) -> HistoryEntry:
    properties = {} if to is None else {ROLLED_BACK_TO: str(to)}
    record = TransactionRecord(f"t{version}", properties=properties)
    return HistoryEntry(version, version + 1, (record,), None if to is None else version - 1)


def drawn(lines: list[HistoryEntry]) -> list[str]:
    return [f"{row.marks} {'' if row.line is None else row.line.version}".rstrip() for row in build_graph_rows(lines)]


def test_a_timeline_without_rollbacks_is_one_line() -> None:
    assert drawn([line(2), line(1), line(0)]) == ["● 2", "● 1", "● 0"]


def test_rolled_back_versions_are_drawn_in_a_second_lane() -> None:
    found = drawn([line(5), line(4, to=1), line(3), line(2), line(1), line(0)])
    assert found == ["● 5", "● 4", "├─╮", "│ ● 3", "│ ● 2", "├─╯", "● 1", "● 0"]


def test_a_rolled_back_rollback_is_drawn_in_a_third_lane() -> None:
    found = drawn([line(5, to=2), line(4, to=0), line(3), line(2), line(1), line(0)])
    assert found == ["● 5", "├─╮", "│ ● 4", "│ ├─╮", "│ │ ● 3", "│ ├─╯", "├─╯", "● 2", "● 1", "● 0"]


def test_the_log_lists_every_version_newest_first(run: Any, lake: str) -> None:
    found = run("history", lake, "--json").json
    assert [one["version"] for one in found] == [3, 2, 1, 0]
    assert found[1]["message"] == "create table sales.orders"
    assert found[0]["created_at"].endswith("Z")
    assert "create table sales.orders" in run("history", lake).out


def test_the_log_accepts_limit_and_before(run: Any, lake: str) -> None:
    assert [one["version"] for one in run("history", lake, "--limit", "2", "--json").json] == [3, 2]
    assert [one["version"] for one in run("history", lake, "--before", "2", "--json").json] == [1, 0]
    assert run("history", lake, "--limit", "0").code == 2


def test_a_rollback_restores_dropped_objects_and_is_drawn_in_the_graph(run: Any, lake: str) -> None:
    run("drop", lake, "sales", "--cascade")
    done = run("rollback", lake, "3", "--json")
    assert done.json == {"version": 5, "to": 3, "rolled_back_from": 4}
    assert run("show", lake, "sales.orders").code == 0
    graph = run("history", lake, "--graph").out
    assert "├─╮" in graph
    assert "│ ●" in graph


def test_a_rollback_can_be_previewed(run: Any, lake: str) -> None:
    done = run("rollback", lake, "1", "--dry-run", "--json")
    dropped = [one["name"] for one in done.json["changes"] if one["change"] == "dropped"]
    assert dropped == ["sales.orders", "sales.daily"]
    assert mangrove.open(lake).version == 3


def test_a_rollback_of_one_table_keeps_the_others(run: Any, lake: str) -> None:
    run("alter", lake, "sales.orders", "--property", "owner=ana")
    run("drop", lake, "sales.daily")
    preview = run("rollback", lake, "3", "--table", "sales.orders", "--dry-run", "--json").json
    assert [(one["name"], one["change"]) for one in preview["changes"]] == [("sales.orders", "changed")]
    done = run("rollback", lake, "3", "--table", "sales.orders", "--message", "back", "--author", "ana", "--json")
    assert done.json == {"version": 6, "to": 3, "table": "sales.orders"}
    opened = mangrove.open(lake)
    assert dict(opened.table("sales.orders").properties) == {}
    assert list(opened.views("sales")) == []
    assert (opened.history()[0].message, opened.history()[0].author) == ("back", "ana")
    again = run("rollback", lake, "3", "--table", "sales.orders")
    assert (again.code, "is the same in version 3" in again.err) == (2, True)


def test_the_preview_of_a_rollback_of_one_table_is_what_the_rollback_changes(run: Any, lake: str) -> None:
    opened = mangrove.open(lake)
    with opened.table("sales.orders").update_schema() as columns:
        columns.add_column("note", "string")
    opened.rename_table("sales.orders", "sales.sold")
    before = opened.version
    preview = run("rollback", lake, "3", "--table", "sales.sold", "--dry-run", "--json").json
    assert mangrove.open(lake).version == before
    run("rollback", lake, "3", "--table", "sales.sold")
    made = run("diff", lake, str(before), "--json").json
    assert preview["changes"] == made["changes"]
    assert [(one["name"], one["change"]) for one in made["changes"]] == [("sales.sold", "changed")]
    assert (preview["before"], preview["after"]) == (before, 3)


def test_a_rollback_by_the_library_is_drawn_in_the_graph(run: Any, lake: str) -> None:
    mangrove.open(lake).rollback(1)
    assert "├─╮" in run("history", lake, "--graph").out
    assert run("history", lake, "--json").json[0]["rolled_back_to"] == 1


def test_a_rollback_to_the_newest_version_is_refused(run: Any, lake: str) -> None:
    assert run("rollback", lake, "3").code == 2
    assert mangrove.open(lake).version == 3


def test_a_diff_lists_added_namespaces_tables_columns_and_views(run: Any, lake: str) -> None:
    found = run("diff", lake, "0", "--json").json
    assert [(one["kind"], one["change"], one["name"]) for one in found["changes"]] == [
        ("namespace", "added", "sales"),
        ("table", "added", "sales.orders"),
        ("view", "added", "sales.daily"),
    ]
    assert found["changes"][1]["columns"][0]["after"] == "id bigint not null"
    drawn = run("diff", lake, "0").out
    assert "+ table sales.orders" in drawn
    assert "    + column amount decimal(10,2)" in drawn


def test_columns_are_compared_by_their_ids() -> None:
    before = parse_schema("a int, b string, c double")
    columns = (replace(before.columns[0], name="renamed"), before.columns[2], parse_column("d date", after=3))
    found = diff_columns(before, Schema(columns))
    assert [(one.before, one.after) for one in found] == [
        ("a int", "renamed int"),
        ("b string", None),
        (None, "d date"),
    ]


def test_a_diff_counts_rows_and_bytes(run: Any, lake: str) -> None:
    opened = mangrove.open(lake)
    opened.create_table("sales.plain", "a int")
    file = DataFile("data/x.parquet", size_bytes=2048, row_count=7)
    with opened.transaction() as transaction:
        transaction.add_delta("sales.plain", [], Delta(DeltaType.APPEND, Manifest((file,))))
    (table,) = run("diff", lake, "4", "5", "--json").json["changes"]
    assert (table["name"], table["change"], table["deltas_added"]) == ("sales.plain", "changed", 1)
    assert (table["rows_added"], table["bytes_added"]) == (7, 2048)
    assert "+ 7 rows, 2.0 KiB in 1 delta" in run("diff", lake, "4", "5").out
    (back,) = run("diff", lake, "5", "4", "--json").json["changes"]
    assert (back["rows_removed"], back["rows_added"]) == (7, 0)
    assert run("show", lake, "sales.plain", "--json").json["data"]["rows_written"] == 7


def test_a_renamed_table_is_one_change(run: Any, lake: str) -> None:
    run("rename", lake, "sales.orders", "sales.purchases")
    (table,) = run("diff", lake, "3", "--json").json["changes"]
    assert (table["change"], table["name_before"], table["name"]) == ("renamed", "sales.orders", "sales.purchases")


def test_a_diff_of_a_version_with_itself_reports_no_differences(run: Any, lake: str) -> None:
    assert "no differences" in run("diff", lake, "2", "2").out


@pytest.mark.parametrize("words", [("diff", "99"), ("diff", "1", "99"), ("rollback", "99"), ("ls", "--at", "99")])
def test_the_error_names_a_missing_version(run: Any, lake: str, words: tuple[str, ...]) -> None:
    done = run(words[0], lake, *words[1:])
    assert (done.code, done.out) == (1, "")
    assert "version 99" in done.err


def test_an_invalid_time_is_rejected(run: Any, lake: str) -> None:
    done = run("show", lake, "--at", "2026-13-45")
    assert (done.code, "2026-13-45" in done.err) == (2, True)


def test_an_export_opens_as_a_lakehouse_and_keeps_its_version(run: Any, lake: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    done = run("export", lake, copy, "year-end", "--at", "2", "--json")
    assert (done.json["export"]["version"], done.json["mode"]) == (2, "full")
    assert [entry["name"] for entry in run("ls", copy, "sales", "--json").json] == ["sales.orders"]
    assert run("show", lake, "--json").json["exports"] == {"year-end": 2}
    assert run("ls", lake, "sales", "--at", "year-end", "--json").json == run("ls", copy, "sales", "--json").json


@pytest.mark.parametrize("words", [("show", "--at", "nonsense"), ("rollback", "nonsense"), ("diff", "nonsense")])
def test_the_error_for_an_invalid_as_of_value_lists_the_valid_forms(
    run: Any, lake: str, words: tuple[str, ...]
) -> None:
    done = run(words[0], lake, *words[1:])
    assert (done.code, done.out) == (1, "")
    assert "export 'nonsense' does not exist" in done.err
    assert "the number of a version, a time such as 2026-11-01, or the name of an export" in done.err


def test_undo_reverts_one_version_and_keeps_later_ones(run: Any, lake: str) -> None:
    assert run("create", lake, "wrong").code == 0
    version = mangrove.open(lake).version
    assert run("create", lake, "right").code == 0
    done = run("undo", lake, str(version), "--message", "the wrong name", "--author", "ana", "--json")
    assert done.json == {"version": version + 2, "undone": version}
    assert [one.name for one in mangrove.open(lake).namespaces()] == ["right", "sales"]
    (newest,) = run("history", lake, "--limit", "1", "--json").json
    assert (newest["message"], newest["author"]) == ("the wrong name", "ana")


def test_undo_rejects_objects_that_a_later_version_changed_and_changes_nothing(run: Any, lake: str) -> None:
    assert run("alter", lake, "sales", "--property", "owner=bo").code == 0
    before = mangrove.open(lake).version
    done = run("undo", lake, "1")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert mangrove.open(lake).version == before


def test_a_tag_names_a_version_for_every_command_and_is_never_moved(run: Any, lake: str) -> None:
    assert run("tag", lake, "--json").json == []
    assert run("tag", lake, "first", "--at", "2", "--json").json["tag"]["version"] == 2
    assert run("show", lake, "--at", "first", "--json").json["version"] == 2
    moved = run("tag", lake, "first", "--at", "1")
    assert (moved.code, moved.err.count("\n")) == (1, 1)
    assert [(one["name"], one["version"]) for one in run("tag", lake, "--json").json] == [("first", 2)]
    assert "first" in run("tag", lake).out
    assert run("tag", lake, "first", "--drop").code == 0
    assert run("show", lake, "--at", "first").code == 1


@pytest.mark.parametrize(
    "words", [("--drop",), ("x", "--drop", "--at", "1"), ("--at", "1"), ("7up",), ("x", "--at", "99")]
)
def test_an_invalid_tag_is_rejected_and_changes_nothing(run: Any, lake: str, words: tuple[str, ...]) -> None:
    before = mangrove.open(lake).version
    done = run("tag", lake, *words)
    assert (done.code in (1, 2), done.out, done.err.count("\n")) == (True, "", 1)
    assert mangrove.open(lake).version == before

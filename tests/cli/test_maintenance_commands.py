"""The commands that keep a lakehouse in order, on a real lakehouse in a folder."""

import shutil
from pathlib import Path
from typing import Any

import mangrove
from mangrove.lakehouse.opening import open_on_store
from mangrove.model.paths import TEMPORARY_PREFIX
from mangrove.storage.opening import open_store
from mangrove.testing.effects import Clock, build_deterministic_effects


def test_a_sound_lakehouse_passes_the_check(run: Any, lake: str) -> None:
    done = run("check", lake, "--json")
    assert (done.code, done.json["is_sound"], done.json["versions_kept"]) == (0, True, 4)
    assert "no problem" in run("check", lake, "--sample", "2").out


def test_check_finds_a_missing_file_and_fails(run: Any, lake: str) -> None:
    # Short definitions lie in the tree itself.
    assert run("create", lake, "sales.long", "--schema", "id bigint", "--property", f"note={'x' * 2000}").code == 0
    definitions = [path for path in Path(lake).rglob("*.binpb") if not path.name.startswith("_lakehouse_def")]
    assert definitions
    definitions[0].unlink()
    done = run("check", lake)
    assert done.code == 1
    assert definitions[0].name in "".join(done.out.split())
    assert run("check", lake, "--json").json["problems"]


def test_check_works_on_a_lakehouse_that_cannot_be_opened(run: Any, lake: str) -> None:
    (definition,) = Path(lake).glob("_lakehouse_def_*")
    definition.unlink()
    assert run("ls", lake).code == 1
    done = run("check", lake, "--json")
    assert (done.code, done.json["opens"]) == (1, None)
    assert [problem["path"] for problem in done.json["problems"]] == [definition.name]
    assert "the lakehouse cannot be opened" in run("check", lake).out


def test_a_wrong_hint_is_repaired(run: Any, lake: str, tmp_path: Path) -> None:
    # A copy, because the last command may still be writing its hint in the background.
    copy = tmp_path / "copy"
    # The hint may be written at this moment, and its temporary file be gone before it is copied.
    shutil.copytree(lake, copy, ignore=shutil.ignore_patterns(f"{TEMPORARY_PREFIX}*"))
    hint = copy / "_latest_hint.txt"
    hint.write_text("not a number")
    done = run("check", str(copy), "--repair")
    assert done.code == 0
    assert "repaired" in done.out
    assert hint.read_text() == "3"


def test_check_can_test_the_store_for_exclusive_creates(run: Any, lake: str) -> None:
    done = run("check", lake, "--store", "--json")
    assert (done.code, done.json["is_sound"]) == (0, True)
    assert list(Path(lake).rglob("*probe*")) == []


def test_vacuum_deletes_files_that_only_expired_versions_reference(run: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "lake")
    assert run("init", place, "--keep", "1ms").code == 0
    for number in range(6):
        assert run("create", place, f"n{number}").code == 0
    assert run("expire", place, "--json").json["versions"] == []
    told = run("expire", place, "--alone", "--dry-run", "--json")
    assert told.json["dry_run"] is True
    assert run("expire", place, "--alone", "--json").json["versions"] == told.json["versions"] == [0, 1, 2, 3]
    (tmp_path / "lake" / "data").mkdir()
    (tmp_path / "lake" / "data" / "left.parquet").write_bytes(b"left behind")
    assert run("vacuum", place, "--json").json["paths"] == []
    assert "data/left.parquet" in run("vacuum", place, "--alone", "--dry-run").out
    assert "data/left.parquet" in run("vacuum", place, "--alone", "--json").json["paths"]
    assert run("vacuum", place, "--alone", "--json").json["paths"] == []
    assert run("check", place).code == 0
    assert run("vacuum", place, "--grace", "soon").code == 2
    assert mangrove.open(place).version == 6


def test_a_compact_tree_holds_the_same_without_messages(run: Any, lake: str) -> None:
    before = run("ls", lake, "sales", "--json").json
    assert run("tree", lake, "--json").json["root"]["messages"] > 0
    assert run("compact-metadata", lake, "--json").json == {"version": 4}
    assert run("ls", lake, "sales", "--json").json == before
    root = run("tree", lake, "--json").json["root"]
    assert (root["messages"], root["keys"] > 0) == (0, True)


def test_an_older_lakehouse_is_upgraded_once(run: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "lake")
    run("init", place, "--layout", "tree-older")
    run("create", place, "sales")
    assert run("upgrade-format", place, "--json").json == {"version": 2, "upgraded": True}
    assert run("upgrade-format", place, "--json").json == {"version": 2, "upgraded": False}
    assert [one["name"] for one in run("ls", place, "--json").json] == ["sales"]


def test_repeating_an_export_after_a_commit_reports_its_version(run: Any, lake: str, tmp_path: Path) -> None:
    words = ("export", lake, str(tmp_path / "copy"), "year-end")
    held = run(*words, "--json").json["export"]["version"]
    assert run(*words).code == 0
    assert run("create", lake, "later").code == 0
    again = run(*words)
    newest = mangrove.open(lake).version
    assert (again.code, f"with version {held}, but the newest is {newest}" in again.err) == (1, True), again.err
    assert run(*words, "--at", str(held)).code == 0


def test_versions_dated_in_the_future_are_reported_and_repaired(run: Any, lake: str) -> None:
    assert "nothing to repair" in run("repair-clock", lake).out
    ahead = Clock(now_millis=8_000_000_000_000)
    open_on_store(build_deterministic_effects(open_store(lake), ahead, first_id=10**9)).create_namespace("later")
    version = mangrove.open(lake).version
    refused = run("create", lake, "more")
    assert refused.code == 1
    assert "repair-clock" in refused.err
    assert run("check", lake).code == 1
    assert run("repair-clock", lake, "--json").json == {"version": version + 1, "repaired": True}
    assert run("check", lake).code == 0
    assert run("create", lake, "more").code == 0

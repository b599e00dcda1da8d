"""Lakehouses that earlier states of the code wrote are read, checked and written."""

import json
import tarfile
from pathlib import Path

import pytest
from tests.compat.write_old_lakehouse import read_versions
from tests.support.archives import extract_archive

import mangrove
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.opening import open_on_store
from mangrove.storage.local import LocalStore
from mangrove.storage.uri import parse_root_uri
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.wiring import LocalEngines

ARCHIVES = sorted(Path(__file__).parent.glob("fixtures/old_lakehouses/*.tar.xz"))


def test_there_is_a_lakehouse_of_every_layout() -> None:
    layouts = [path.name.removesuffix(".tar.xz").partition("-")[2] for path in ARCHIVES]
    assert {layout: layouts.count(layout) for layout in LAYOUTS} == dict.fromkeys(LAYOUTS, 5)


def test_newer_parts_of_the_format_are_read_as_they_were_written(tmp_path: Path) -> None:
    for archive in (path for path in ARCHIVES if path.name.startswith("44bb1e4")):
        with tarfile.open(archive) as packed:
            extract_archive(packed, tmp_path / archive.name)
        lake = mangrove.open(tmp_path / archive.name / "lakehouse")
        table = lake.table("newer.inline")
        assert [one.version for one in table.versions()] == [1, 2]
        # Strict trees have no inline rows.
        is_strict = "tree-older" in archive.name
        assert [file.is_inline for file in table.scan().files()] == [not is_strict] * 2
        assert [alias.name for alias in lake.aliases()] == ["newer.other"]
        assert [tag.name for tag in lake.tags()] == ["kept"]
        assert [str(grant) for grant in lake.access.grants()] == ["read on table newer.inline to analyst"]
        assert lake.table("newer.third").properties["format-version"] == "3"


def open_when_it_was_written(folder: Path) -> mangrove.Lakehouse:
    """Open a lakehouse with the clock of its last commit: its shared transaction expires a day after that."""
    clock = Clock(mangrove.open(folder).history()[0].created_at_millis + 1)
    effects = build_deterministic_effects(LocalStore(parse_root_uri(folder)), clock)
    return open_on_store(effects, engines=LocalEngines)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_an_old_lakehouse_is_read_in_every_version_checked_and_written(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        extract_archive(packed, tmp_path)
    lake = open_when_it_was_written(tmp_path / "lakehouse")
    expected = json.loads((tmp_path / "expected.json").read_bytes())
    assert read_versions(lake) == expected
    assert lake.maintenance.check().is_sound
    lake.join_shared("load").publish()
    lake.table("shop.by_day").append([{"day": 4, "amount": 1.0}])
    orders = lake.table("shop.orders")
    orders.upsert([{"id": 1, "note": "now"}])
    assert {row["id"]: row["note"] for row in orders.to_arrow().to_pylist()} == {
        0: "note 0", 1: "now", 3: "note 3", 4: "note 4", 7: "new", 20: "shared",
    }  # fmt: skip
    again = mangrove.open(tmp_path / "lakehouse")
    assert len(again.table("shop.by_day").to_arrow()) == len(expected[str(len(expected) - 1)]["shop.by_day"]) + 1
    assert again.maintenance.check().is_sound

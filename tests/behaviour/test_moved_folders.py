"""A process has a lakehouse open while its folder is moved, deleted or recreated: no row is lost silently."""

import shutil
from pathlib import Path

import pytest

import mangrove
from mangrove.effects import wait_for_pending
from mangrove.errors import StorageError
from mangrove.lakehouse.table import Table

GONE = "was moved, deleted or recreated since it was opened"


def made(place: Path, layout: str, rows: int, table: str = "n.t") -> Table:
    lake = mangrove.create(place, layout=layout)
    lake.create_namespace("n")
    created = lake.create_table(table, "id bigint")
    for number in range(rows):
        created.append([{"id": number}])
    # Hints are written in the background: a folder is moved or deleted whole only when none is on its way.
    wait_for_pending(lake.effects, 60.0)
    return created


def numbers(place: Path, table: str = "n.t") -> list[int]:
    return sorted(row["id"] for row in mangrove.open(place).table(table).to_arrow().to_pylist())


def test_a_moved_lakehouse_rejects_writes_and_opens_at_its_new_location(tmp_path: Path, layout: str) -> None:
    table = made(tmp_path / "lake", layout, rows=2)
    (tmp_path / "lake").rename(tmp_path / "moved")
    with pytest.raises(StorageError, match=GONE):
        table.append([{"id": 2}])
    assert not (tmp_path / "lake").exists()
    assert numbers(tmp_path / "moved") == [0, 1]
    assert mangrove.check(tmp_path / "moved").is_sound


def test_a_lakehouse_that_was_moved_back_accepts_writes_again(tmp_path: Path, layout: str) -> None:
    table = made(tmp_path / "lake", layout, rows=1)
    (tmp_path / "lake").rename(tmp_path / "moved")
    with pytest.raises(StorageError, match=GONE):
        table.append([{"id": 1}])
    (tmp_path / "moved").rename(tmp_path / "lake")
    table.append([{"id": 2}])
    assert numbers(tmp_path / "lake") == [0, 2]


def test_a_deleted_lakehouse_rejects_writes_and_stays_deleted(tmp_path: Path, layout: str) -> None:
    table = made(tmp_path / "lake", layout, rows=2)
    shutil.rmtree(tmp_path / "lake")
    with pytest.raises(StorageError, match=GONE):
        table.append([{"id": 2}])
    assert not (tmp_path / "lake").exists()


def test_a_handle_of_a_deleted_lakehouse_does_not_write_to_a_recreated_one(tmp_path: Path, layout: str) -> None:
    stale = made(tmp_path / "lake", layout, rows=3)
    shutil.rmtree(tmp_path / "lake")
    fresh = made(tmp_path / "lake", layout, rows=3, table="n.other")
    for _ in range(2):
        with pytest.raises(StorageError, match=GONE):
            stale.append([{"id": 3}])
    fresh.append([{"id": 3}])
    assert numbers(tmp_path / "lake", "n.other") == [0, 1, 2, 3]
    assert mangrove.check(tmp_path / "lake").is_sound

"""Whenever the power fails, the lakehouse opens and holds every commit that was acknowledged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.storage.power_failure import Disk, Tree, record_calls

from mangrove.errors import MangroveError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.local import LocalStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.uri import parse_root_uri
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import LakehouseEngines

Rows = list[dict[str, Any]]


def commit_often(folder: Path, layout: str, acknowledge: Callable[[Lakehouse, Rows], None]) -> None:
    """Create a lakehouse and commit to it: files, inline rows, a rollback and an expiry."""
    store = LocalStore(parse_root_uri(folder))
    settings = LakehouseSettings(order=4, maximum_version_age_millis=0, minimum_versions_to_keep=1)
    effects = build_deterministic_effects(store)
    lake = create_on_store(effects, layout=layout, settings=settings, engines=LakehouseEngines)
    lake.create_namespace("s")
    table = lake.create_table("s.t", "id bigint", properties={"write.inline-rows-max-bytes": "0"})
    rows: Rows = []
    acknowledge(lake, rows)
    for number in range(3):
        table.append([{"id": number}])
        rows.append({"id": number})
        acknowledge(lake, rows)
    lake.rollback(lake.version - 1)
    acknowledge(lake, rows[:-1])
    lake.maintenance.expire(alone=True)
    lake.maintenance.vacuum(alone=True)
    acknowledge(lake, rows[:-1])


def find_losses(folder: Path, layout: str) -> list[str]:
    """Let the power fail after every call, and return what was lost then."""
    folder.mkdir()
    seen: set[frozenset[tuple[str, bytes]]] = set()
    acknowledged: list[tuple[int, Rows]] = []
    remains: list[tuple[Tree, int]] = []

    def remember(disk: Disk) -> None:
        for tree in disk.list_remains():
            key = frozenset(tree.items()) | {("acknowledged", b"%d" % len(acknowledged))}
            if key not in seen:
                seen.add(key)
                remains.append((tree, len(acknowledged)))

    def acknowledge(lake: Lakehouse, rows: Rows) -> None:
        acknowledged.append((lake.version, [*rows]))
        remember(disk)

    disk = Disk(folder, remember)
    with record_calls(disk):
        commit_often(folder, layout, acknowledge)
    assert len(remains) > 50
    return [loss for tree, known in remains if known and (loss := find_loss(tree, acknowledged, known))]


def find_loss(tree: Tree, acknowledged: list[tuple[int, Rows]], known: int) -> str:
    """Return what a disk lacks of the last acknowledged commit, or a text without characters."""
    store = MemoryStore()
    store.put_many({path: data for path, data in tree.items() if "/.mangrove-tmp-" not in f"/{path}"})
    version, rows = acknowledged[known - 1]
    following = acknowledged[known][1] if known < len(acknowledged) else rows
    try:
        lake = open_on_store(build_deterministic_effects(store, first_id=10**6), engines=LakehouseEngines)
        found = sorted(lake.table("s.t").to_arrow().to_pylist(), key=lambda row: row["id"])
    except MangroveError as error:
        return f"after version {version}: {error}"
    is_there = lake.version >= version and found in (rows, following)
    return "" if is_there else f"version {lake.version} has {found}, where version {version} had {rows}"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_after_a_power_failure_at_any_call_the_lakehouse_holds_every_acknowledged_commit(
    tmp_path: Path, layout: str
) -> None:
    assert find_losses(tmp_path / "lake", layout) == []


@pytest.mark.parametrize("module", ["local", "local_folders"])
def test_a_missing_fsync_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setattr(f"mangrove.storage.{module}.fsync_descriptor", lambda _: None)
    assert find_losses(tmp_path / "lake", "tree")

"""A cache between a store and its readers: what it saves, and that nobody could tell otherwise that it is there."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.table_properties import DATA_FILES_ONLY

from mangrove.effects import Effects, build_effects
from mangrove.errors import FormatError, NotFoundError
from mangrove.lakehouse.cache import CacheSettings, is_immutable_path
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS, create_layout, open_layout
from mangrove.lakehouse.maintenance import build_conversion_target
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.maintenance.convert.conversion import DataMode, HistoryMode, convert_lakehouse
from mangrove.maintenance.export import ExportMode, export_version
from mangrove.maintenance.export_records import open_export
from mangrove.metastore import Changes, Metastore
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.metastore_contract import MakeMetastore, MetastoreContract
from mangrove.wiring import LocalEngines

LARGE_ROWS = 400_000
"""So many that their file is read by ranges."""


class RecordingStore(MemoryStore):
    """Remembers what was read from it, and refuses to replace what a cache may hold by then."""

    def __init__(self) -> None:
        super().__init__("memory://behind/")
        self.read_paths: list[str] = []

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.read_paths.append(path)
        return super().read(path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        self.read_paths += paths
        return super().read_many(paths)

    def put(self, path: str, data: bytes) -> None:
        assert not is_immutable_path(path) or path not in self.read_paths or super().read(path) == data, path
        super().put(path, data)

    def lasting_since(self, work: Callable[[], object]) -> list[str]:
        """Return which files that never change are read by some work."""
        self.read_paths.clear()
        work()
        return [path for path in self.read_paths if is_immutable_path(path)]

    def paths(self) -> list[str]:
        return [entry.path for entry in self.list()]


@pytest.fixture
def behind() -> RecordingStore:
    return RecordingStore()


@pytest.fixture
def handles(behind: RecordingStore, clock: Clock, tmp_path: Path) -> Callable[..., Effects]:
    """Return how each process sees the store, with ids of its own: through a cache, and this one unless said."""
    first_id = 0

    def handle(folder: str | None = "cache", bytes_max: int = 1_000_000_000) -> Effects:
        nonlocal first_id
        first_id += 10**6
        store = behind if folder is None else CacheSettings(str(tmp_path / folder), bytes_max).before(behind)
        return build_deterministic_effects(store, clock, first_id)

    return handle


@pytest.fixture
def made(handles: Callable[..., Effects], layout: str, strict: bool | None) -> Lakehouse:
    """Make a lakehouse with many tables, of which one has rows, without a cache."""
    lake = create_on_store(handles(None), layout=layout, strict=strict, engines=LocalEngines)
    lake.create_namespace("n")
    with lake.transaction() as transaction:
        for number in range(60):
            transaction.create_table(f"n.t{number:02d}", "id int")
    rows = lake.create_table("n.rows", "id bigint not null, a double", keys=["id"], properties=DATA_FILES_ONLY)
    rows.append([{"id": number, "a": number / 3} for number in range(10)])
    rows.upsert([{"id": 3, "a": 0.5}])
    rows.delete("id = 4")
    return lake


def opened(effects: Effects) -> Lakehouse:
    return open_on_store(effects, engines=LocalEngines)


def read_everything_visible(lake: Lakehouse) -> tuple[object, ...]:
    """Look at all that `ls`, `show` and `read` tell."""
    names = [str(one) for one in lake.tables("n")]
    table = lake.table("n.rows")
    rows = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    return [str(one) for one in lake.namespaces()], names, table.schema, lake.settings, rows


def large_rows() -> pa.Table:
    drawn = random.Random(1)
    columns = {name: [drawn.random() for _ in range(LARGE_ROWS)] for name in "ab"}
    return pa.table({"id": range(LARGE_ROWS), **columns})


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_second_process_requests_only_the_newest_version(
    made: Lakehouse, behind: RecordingStore, handles: Callable[..., Effects]
) -> None:
    expected = read_everything_visible(made)
    assert behind.lasting_since(lambda: read_everything_visible(opened(handles())))
    seen: list[object] = []
    assert behind.lasting_since(lambda: seen.append(read_everything_visible(opened(handles())))) == []
    assert seen == [expected]
    # Hints, the newest root or guard, and the names after it, which are free; no more of them than without a cache.
    through_cache = len(behind.read_paths)
    behind.read_paths.clear()
    read_everything_visible(opened(handles(None)))
    assert through_cache == len([path for path in behind.read_paths if not is_immutable_path(path)])


def test_repeated_reads_are_served_from_the_cache(
    made: Lakehouse, behind: RecordingStore, handles: Callable[..., Effects]
) -> None:
    made.create_table("n.large", "id bigint not null, a double, b double", keys=["id"]).append(large_rows())
    assert max(len(behind.read(path)) for path in behind.paths()) > 4 * 1024 * 1024

    def read_all(lake: Lakehouse) -> list[pa.Table]:
        large = lake.table("n.large")
        return [
            large.to_arrow(),
            large.to_arrow(where="id = 5000"),
            large.to_arrow(columns=["a"]),
            lake.table("n.rows").to_arrow(where="a > 0.2"),
        ]

    first = opened(handles())
    expected = read_all(first)
    found: list[list[pa.Table]] = []
    assert behind.lasting_since(lambda: found.append(read_all(first))) == []
    assert behind.lasting_since(lambda: found.append(read_all(opened(handles())))) == []
    assert [*found, read_all(made)] == [expected] * 3


def test_other_columns_of_a_file_cost_no_more_requests_than_without_a_cache(
    made: Lakehouse, behind: RecordingStore, handles: Callable[..., Effects]
) -> None:
    made.create_table("n.large", "id bigint not null, a double, b double").append(large_rows())
    looks: list[dict[str, Any]] = [{"columns": ["a"]}, {"columns": ["id"]}, {}]
    cached, plain = opened(handles()), opened(handles(None))
    for look in looks:
        requested = behind.lasting_since(partial(cached.table("n.large").to_arrow, **look))
        without = behind.lasting_since(partial(plain.table("n.large").to_arrow, **look))
        assert len([path for path in requested if path.startswith("data/")]) <= len(without)


def test_commits_of_another_process_are_visible_immediately(made: Lakehouse, handles: Callable[..., Effects]) -> None:
    readers = [opened(handles()), opened(handles()), opened(handles("elsewhere"))]
    for number in range(5):
        made.table("n.rows").upsert([{"id": 100 + number, "a": 1.0}, {"id": 1, "a": float(number)}])
        made.create_table(f"n.new{number}", "id int")
        expected = read_everything_visible(made)
        assert [read_everything_visible(reader) for reader in readers] == [expected] * 3


def test_concurrent_writers_with_caches_lose_nothing(handles: Callable[..., Effects], made: Lakehouse) -> None:
    writers = [opened(handles()), opened(handles()), opened(handles("elsewhere"))]
    for turn in range(4):
        transactions = [writer.transaction() for writer in writers]
        for number, transaction in enumerate(transactions):
            transaction.table("n.rows").append([{"id": 1_000 + 10 * turn + number, "a": 0.0}])
        for transaction in transactions:
            transaction.commit()
    expected = read_everything_visible(made)
    assert [read_everything_visible(one) for one in [*writers, opened(handles())]] == [expected] * 4
    assert made.table("n.rows").to_arrow().num_rows == 9 + 12
    assert made.maintenance.check().problems == ()


def test_rollback_rename_and_drop_through_one_handle_are_seen_through_another(
    made: Lakehouse, handles: Callable[..., Effects]
) -> None:
    one, other = opened(handles()), opened(handles("elsewhere"))
    before, expected = one.version, read_everything_visible(other)
    one.rename_table("n.rows", "n.renamed")
    assert other.table("n.renamed").to_arrow().num_rows == 9
    with pytest.raises(NotFoundError):
        other.table("n.rows")
    one.drop_table("n.renamed")
    with pytest.raises(NotFoundError):
        other.table("n.renamed")
    other.rollback(to=before)
    assert read_everything_visible(one) == read_everything_visible(other) == read_everything_visible(made) == expected


def test_an_expired_version_is_not_found_even_if_its_files_are_cached(
    made: Lakehouse, behind: RecordingStore, handles: Callable[..., Effects], clock: Clock
) -> None:
    one, other = opened(handles()), opened(handles())
    old = one.version
    assert one.at(old).table("n.rows").to_arrow() == other.at(old).table("n.rows").to_arrow()
    one.drop_table("n.rows")
    one.create_namespace("later")
    clock.now_millis += 1_000 * 24 * 60 * 60 * 1_000
    made.alter(minimum_versions_to_keep=1, maximum_version_age_millis=1)
    assert one.maintenance.expire(alone=True).versions
    assert other.version == one.version
    for lake in (other, opened(handles()), opened(handles("elsewhere"))):
        with pytest.raises(NotFoundError):
            lake.at(old)
    gone = set(behind.paths())
    assert one.maintenance.vacuum(alone=True).paths
    gone -= set(behind.paths())
    assert any(path.startswith("data/") for path in gone)
    assert [one.name for one in other.namespaces()] == ["later", "n"]
    assert made.maintenance.check().problems == ()


def test_vacuum_removes_deleted_files_from_its_own_cache(
    made: Lakehouse, handles: Callable[..., Effects], tmp_path: Path, clock: Clock
) -> None:
    lake = opened(handles())
    assert lake.table("n.rows").to_arrow().num_rows == 9
    lake.drop_table("n.rows")
    clock.now_millis += 1_000 * 24 * 60 * 60 * 1_000
    lake.alter(minimum_versions_to_keep=1, maximum_version_age_millis=1)
    lake.maintenance.expire(alone=True)
    lake.maintenance.vacuum(alone=True)
    assert made.maintenance.check().problems == ()
    assert not any(b"PAR1" in file.read_bytes() for file in files_in(tmp_path / "cache"))


def test_a_damaged_file_of_the_cache_is_read_again(
    made: Lakehouse, behind: RecordingStore, handles: Callable[..., Effects], tmp_path: Path
) -> None:
    expected = read_everything_visible(opened(handles()))
    for number, file in enumerate(files_in(tmp_path / "cache")):
        held = file.read_bytes()
        file.write_bytes([held[:-1], b"", held[:-1] + bytes([held[-1] ^ 1]), b"x" * len(held)][number % 4])
    found: list[object] = []
    assert behind.lasting_since(lambda: found.append(read_everything_visible(opened(handles()))))
    assert found == [expected]
    assert behind.lasting_since(lambda: read_everything_visible(opened(handles()))) == []
    assert read_everything_visible(made) == expected


@pytest.mark.parametrize("trouble", ["a file is in the way", "nothing fits", "deleted while in use"])
def test_an_unusable_cache_only_costs_speed(
    made: Lakehouse, handles: Callable[..., Effects], tmp_path: Path, trouble: str
) -> None:
    (tmp_path / "in-the-way").write_bytes(b"")
    folder = "in-the-way/below" if trouble == "a file is in the way" else "cache"
    lake = opened(handles(folder, 1 if trouble == "nothing fits" else 10**9))
    for number in range(2):
        assert read_everything_visible(lake) == read_everything_visible(made)
        lake.table("n.rows").upsert([{"id": 50, "a": float(number)}])
        if trouble == "deleted while in use":
            for file in files_in(tmp_path / "cache"):
                file.unlink()
    assert lake.maintenance.check().problems == ()
    assert (tmp_path / "in-the-way").read_bytes() == b""


def checked(lake: Lakehouse) -> list[str]:
    """Return what is wrong with a lakehouse, also with one that no longer opens."""
    try:
        return [problem.path for problem in lake.maintenance.check().problems]
    except FormatError as error:
        return [str(error)]


def test_check_bypasses_the_cache(made: Lakehouse, behind: RecordingStore, handles: Callable[..., Effects]) -> None:
    lake = opened(handles())
    expected = read_everything_visible(made)
    seen = behind.lasting_since(lambda: read_everything_visible(lake))
    data = [path for path in seen if path.startswith("data/")]
    for path in [data[0], *(path for path in seen if path not in data)][:3]:
        was = behind.read(path)
        behind.delete_many([path])
        missing = checked(lake)
        MemoryStore.put(behind, path, was[:-5] + b"wrong")
        damaged = checked(lake)
        MemoryStore.put(behind, path, was)
        assert missing, path
        assert damaged, path
    assert lake.maintenance.check().problems == ()
    assert read_everything_visible(lake) == expected


def test_a_repaired_file_is_read_after_a_check(
    made: Lakehouse, behind: RecordingStore, handles: Callable[..., Effects]
) -> None:
    expected = read_everything_visible(made)
    path = max(path for path in behind.paths() if path.startswith("data/"))
    was = behind.read(path)
    MemoryStore.put(behind, path, was[:-5] + b"damag")
    lake = opened(handles())
    with pytest.raises(FormatError):
        lake.table("n.rows").to_arrow()
    MemoryStore.put(behind, path, was)
    assert lake.maintenance.check().problems == ()
    assert read_everything_visible(lake) == expected


@pytest.mark.parametrize("mode", ["minimal", "full"])
def test_an_export_is_read_through_caches_and_checked_without_them(
    made: Lakehouse, behind: RecordingStore, handles: Callable[..., Effects], tmp_path: Path, mode: str
) -> None:
    copy = MemoryStore(f"memory://{mode}/")
    export_version(made.maintenance.context(), copy, "kept", mode=ExportMode(mode))
    cache = CacheSettings(str(tmp_path / "cache"))
    expected = read_everything_visible(made)[-1]

    def opened_copy() -> Lakehouse:
        store = open_export(cache.before(copy), lambda _: cache.before(behind))
        return opened(replace(handles(), store=store))

    assert read_everything_visible(opened_copy())[-1] == expected
    assert behind.lasting_since(lambda: read_everything_visible(opened_copy())) == []
    (path, *_) = (path for path in behind.paths() if path.startswith("data/"))
    lake = opened_copy()
    behind.delete_many([path])
    assert read_everything_visible(lake)[-1] == expected
    assert bool(lake.maintenance.check().problems) == (mode == "minimal")


def test_repeated_conversions_to_a_location_never_reuse_a_path_for_other_content(layout: str) -> None:
    seen: dict[str, bytes] = {}
    for turn, history in enumerate([HistoryMode.ALL, HistoryMode.ALL, HistoryMode.LATEST]):
        lake = create_on_store(build_effects(MemoryStore("memory://source/")), layout="tree", engines=LocalEngines)
        lake.create_namespace("n")
        rows = lake.create_table("n.rows", "id bigint", keys=["id"], properties=DATA_FILES_ONLY)
        for number in range(3):
            rows.append([{"id": 10 * turn + number}])
            lake.alter_namespace("n", {"turn": f"{turn} {number}"})
        # DeltaCAT's names hold the source's transaction, and what they lead to is known by its checksum.
        for data in DataMode if layout.startswith("tree") else [DataMode.COPY]:
            place = RecordingStore()
            convert_lakehouse(
                lake.maintenance.context(), build_conversion_target(place, layout), history=history, data=data
            )
            made = {path: place.read(path) for path in place.paths() if is_immutable_path(path)}
            assert {path for path in made.keys() & seen.keys() if made[path] != seen[path]} == set()
            seen |= made


class TestAMetastoreBehindACache(MetastoreContract):
    """All that the contract asks for."""

    @pytest.fixture(params=LAYOUTS)
    def make_metastore(self, request: pytest.FixtureRequest, tmp_path: Path) -> MakeMetastore:
        def make(effects: Effects) -> Metastore:
            cached = replace(effects, store=CacheSettings(str(tmp_path)).before(effects.store))
            try:
                return open_layout(cached).metastore
            except NotFoundError:
                return create_layout(cached, request.param, LakehouseSettings(), Changes("made")).metastore

        return make

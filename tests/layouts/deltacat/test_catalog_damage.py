"""A flipped bit in any file of a catalog is noticed, and what others put between its files is left alone."""

import pytest

from mangrove.effects import Effects
from mangrove.errors import FormatError
from mangrove.layouts.deltacat.foreign_catalog import list_numbered_files
from mangrove.layouts.deltacat.metastore import DeltaCatMetastore, create_catalog, open_catalog
from mangrove.layouts.deltacat.paths import HINT_PATH, parse_numbered_path
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, DeltaCatRevision
from mangrove.maintenance.check import check_lakehouse
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.vacuum import vacuum_files
from mangrove.metastore import Changes, Problem
from mangrove.model.locators import (
    Kind,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.objects import NamespaceEntry, Partition, Stream, TableEntry, TableVersion, ViewEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_delta

PARTITION = PartitionLocator("n", "t", 1, "s", "p")


@pytest.fixture
def effects() -> Effects:
    return build_deterministic_effects(MemoryStore("memory://catalog/"))


@pytest.fixture(params=[SEED, DELTACAT_2], ids=["seed", "2"])
def catalog(request: pytest.FixtureRequest, effects: Effects) -> DeltaCatMetastore:
    revision: DeltaCatRevision = request.param
    catalog = create_catalog(effects, LakehouseSettings(), Changes("made"), revision)
    commit_objects(
        catalog,
        catalog.latest(),
        (NamespaceLocator("sales"), NamespaceEntry("n", "sales", {"owner": "ana"})),
        (TableLocator("sales", "orders"), TableEntry("t", "n", "orders")),
        (ViewLocator("sales", "daily"), ViewEntry("v", "daily", "select 1")),
        (TableVersionLocator("n", "t", 1), TableVersion(1, None, latest_stream_id="s")),
        (StreamLocator("n", "t", 1, "s"), Stream("s")),
        (PARTITION, Partition("p")),
    )
    for first in range(1, 240, 80):
        deltas = [make_delta(PARTITION, position, note="some text of ours") for position in range(first, first + 80)]
        commit_objects(catalog, catalog.latest(), *deltas)
    commit_objects(catalog, catalog.latest(), settings=LakehouseSettings(name="renamed"))
    return catalog


def _problems(effects: Effects) -> list[Problem]:
    try:
        catalog = open_catalog(effects)
        return list(check_lakehouse(MaintenanceContext(effects, catalog, catalog)))
    except FormatError as error:
        return [Problem("the newest version", str(error))]


def test_a_flipped_bit_is_noticed_in_every_kind_of_file(catalog: DeltaCatMetastore, effects: Effects) -> None:
    assert _problems(effects) == []
    kinds: dict[str, list[str]] = {}
    for entry in effects.store.list():
        if isinstance(entry, ObjectInfo) and entry.size and entry.path != HINT_PATH:
            first, depth = entry.path.split("/")[0], entry.path.count("/")
            kind = "/".join(entry.path.split("/")[:2]) if first == "mangrove" else f"{first} {depth}"
            kinds.setdefault(kind, []).append(entry.path)
    assert len(kinds) >= 10
    assert "mangrove/node" in kinds
    for paths in kinds.values():
        for path in (paths[0], paths[-1]):
            intact = effects.store.read(path)
            for place in {0, len(intact) // 2, len(intact) - 1}:
                flipped = bytearray(intact)
                flipped[place] ^= 1 << (place % 8)
                effects.store.put(path, bytes(flipped))
                assert _problems(effects), f"bit {place % 8} of byte {place} of {path}"
            effects.store.put(path, intact)
    assert _problems(effects) == []


def test_a_damaged_body_is_refused_when_it_is_read(catalog: DeltaCatMetastore, effects: Effects) -> None:
    (path,) = (entry.path for entry in effects.store.list("n/t/1/s/p/5/") if isinstance(entry, ObjectInfo))
    effects.store.put(path, effects.store.read(path).replace(b"some text", b"same text"))
    with pytest.raises(FormatError, match="checksum"):
        open_catalog(effects).latest().get(make_delta(PARTITION, 5)[0])


def test_foreign_files_are_ignored_by_vacuum_and_reported_by_check(
    catalog: DeltaCatMetastore, effects: Effects
) -> None:
    strangers = ["n/t/notes.txt", "n/.DS_Store", "backup/a/b.csv", "mangrove/version/notes.txt", "mangrove/view/x.txt"]
    for path in strangers:
        effects.store.put(path, b"mine")
    opened = open_catalog(effects)
    lake = MaintenanceContext(effects, opened, opened)
    assert vacuum_files(lake, alone=True).paths == ()
    assert all(effects.store.exists(path) for path in strangers)
    assert {problem.path for problem in _problems(effects)} == {"n/t/notes.txt", "n/.DS_Store"}
    assert len(list(opened.objects(opened.latest(), Kind.DELTA))) == 240


def test_check_finds_a_missing_name_mapping_despite_an_aborted_attempt(
    catalog: DeltaCatMetastore, effects: Effects
) -> None:
    mappings = [path for path, file in list_numbered_files(effects.store) if file.object_folder is None]
    # A namespace and a table have names that DeltaCAT knows; a table's versions and streams have numbers and forms.
    assert len(mappings) >= 2
    for path in mappings:
        effects.store.delete_many([path])
        aborted = path.replace(parse_numbered_path(path).transaction, "1700000000000_aborted")
        effects.store.put(aborted, b"")
        (problem,) = _problems(effects)
        assert problem.path.rpartition("/")[0] == path.rpartition("/")[0]
        assert f"to {parse_numbered_path(path).target} is missing" in problem.rule
        effects.store.put(path, b"")
        assert _problems(effects) == [], "a leftover beside the file is garbage, and no problem"


def test_check_finds_a_missing_file_that_removes_a_name_mapping(catalog: DeltaCatMetastore, effects: Effects) -> None:
    before = set(dict(list_numbered_files(effects.store)))
    commit_objects(catalog, catalog.latest(), deletes=[TableLocator("sales", "orders")])
    ended = [
        path for path, file in list_numbered_files(effects.store) if path not in before and file.object_folder is None
    ]
    assert ended
    effects.store.delete_many(ended)
    assert [problem for problem in _problems(effects) if "removes the mapping of a name is missing" in problem.rule]

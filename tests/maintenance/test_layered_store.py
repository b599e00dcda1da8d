"""A store on top of another reads what it lacks, but never a version."""

import pytest

from mangrove.errors import FormatError, NotFoundError
from mangrove.layouts.tree.paths import RootNames
from mangrove.maintenance.export_records import (
    EXPORT_RECORD_PATH,
    ExportRecord,
    LayeredStore,
    encode_export_record,
    open_export,
)
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo, Store

ROOT = RootNames(digits=32).path(8)


@pytest.fixture
def above() -> MemoryStore:
    return MemoryStore("memory://above/")


@pytest.fixture
def below() -> MemoryStore:
    store = MemoryStore("memory://below/")
    store.put_many({"data/a": b"below", ROOT: b"version 8", "_latest_hint.txt": b"8"})
    return store


def test_objects_missing_in_the_upper_layer_are_read_from_the_lower_one(above: MemoryStore, below: MemoryStore) -> None:
    store = LayeredStore(above, below)
    assert store.read("data/a", 1, 2) == b"el"
    assert store.read_many(["data/a", "data/b"]) == [b"below", None]
    assert store.size("data/a") == 5
    assert store.exists("data/a")
    above.put("data/a", b"up")
    assert store.read("data/a") == b"up"
    assert store.read_many(["data/a"]) == [b"up"]
    assert store.size("data/a") == 2


def test_each_path_is_resolved_to_the_root_of_its_layer(above: MemoryStore, below: MemoryStore) -> None:
    middle = MemoryStore("memory://middle/")
    middle.put("data/b", b"")
    above.put("data/c", b"")
    store = LayeredStore(above, LayeredStore(middle, below))
    assert store.uris == ("memory://above/", "memory://middle/", "memory://below/")
    assert store.roots_of(["data/a", "data/b", "data/c"]) == [below.uri, middle.uri, above.uri]
    assert store.roots_of([]) == []


@pytest.mark.parametrize("path", [ROOT, "_latest_hint.txt", RootNames(digits=64).path(8)])
def test_versions_of_the_lower_layer_are_not_visible(above: MemoryStore, below: MemoryStore, path: str) -> None:
    below.put(path, b"there")
    store = LayeredStore(above, below)
    assert store.read_many([path]) == [None]
    assert store.size(path) is None
    assert not store.exists(path)
    with pytest.raises(NotFoundError):
        store.read(path)


def test_writes_deletes_and_listings_are_above_only(above: MemoryStore, below: MemoryStore) -> None:
    store = LayeredStore(above, below)
    assert store.uri == above.uri
    store.put("a", b"1")
    store.put_many({"b": b"2"})
    assert store.create(ROOT, b"ours")
    store.delete_many(["a", "data/a"])
    assert [entry.path for entry in store.list() if isinstance(entry, ObjectInfo)] == [ROOT, "b"]
    assert below.read("data/a") == b"below"
    assert below.read(ROOT) == b"version 8"


def test_a_store_without_a_partial_export_is_opened_unchanged(above: MemoryStore) -> None:
    def refuse(uri: str) -> Store:
        raise AssertionError(uri)

    assert open_export(above, refuse) is above
    above.put(EXPORT_RECORD_PATH, encode_export_record(ExportRecord("memory://below/", "x", 1, "full")))
    assert open_export(above, refuse) is above


def test_a_minimal_export_of_a_minimal_export_reads_through_both(above: MemoryStore, below: MemoryStore) -> None:
    middle = MemoryStore("memory://middle/")
    stores = {store.uri: store for store in (middle, below)}
    above.put(EXPORT_RECORD_PATH, encode_export_record(ExportRecord(middle.uri, "x", 1, "minimal")))
    middle.put(EXPORT_RECORD_PATH, encode_export_record(ExportRecord(below.uri, "x", 1, "minimal")))
    assert open_export(above, lambda uri: stores[uri]).read("data/a") == b"below"


def test_an_export_of_itself_is_refused(above: MemoryStore) -> None:
    above.put(EXPORT_RECORD_PATH, encode_export_record(ExportRecord(above.uri, "x", 1, "minimal")))
    with pytest.raises(FormatError, match="itself"):
        open_export(above, lambda _: above)

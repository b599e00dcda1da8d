"""Lakehouses of the Java programs, opened as any other: every version, by number and by time, and never written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.layouts.tree.metastore import TreeMetastore, open_tree
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator
from mangrove.model.objects import NamespaceEntry, TableEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import make_namespace

FIXTURES = Path(__file__).parent / "fixtures"
TRINITYLAKE, OLYMPIA = "trinitylake-java", "olympia-java"
CONTENTS = {
    TRINITYLAKE: [{}, {"default": ["table"]}, {"default": ["a", "table"]}],
    OLYMPIA: [{}, {"ns1": ["a", "b"]}, {"ns1": ["b"]}],
}


def copied(name: str) -> MemoryStore:
    store, folder = MemoryStore(), FIXTURES / name
    for path in folder.rglob("*"):
        if path.is_file():
            store.put(path.relative_to(folder).as_posix(), path.read_bytes())
    return store


def contents(store: MemoryStore) -> dict[str, bytes]:
    return {entry.path: store.read(entry.path) for entry in store.list()}


@pytest.fixture(params=CONTENTS)
def name(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def store(name: str) -> MemoryStore:
    return copied(name)


@pytest.fixture
def metastore(store: MemoryStore) -> TreeMetastore:
    return open_tree(build_deterministic_effects(store))


def held(metastore: TreeMetastore, version: int) -> dict[str, list[str]]:
    snapshot = metastore.at_version(version)
    spaces = [way for way, _ in snapshot.children(Kind.NAMESPACE, None) if isinstance(way, NamespaceLocator)]
    return {space.name: [str(way.parts[-1]) for way, _ in snapshot.children(Kind.TABLE, space)] for space in spaces}


def test_every_version_has_the_namespaces_and_tables_that_it_had(name: str, metastore: TreeMetastore) -> None:
    assert metastore.latest().version == 2
    assert [held(metastore, version) for version in range(3)] == CONTENTS[name]
    with pytest.raises(NotFoundError):
        metastore.at_version(3)


def test_objects_are_found_by_name(name: str, metastore: TreeMetastore) -> None:
    newest = metastore.latest()
    for space, tables in CONTENTS[name][2].items():
        found = newest.get(NamespaceLocator(space))
        assert isinstance(found, NamespaceEntry)
        assert found.name == space
        for table_name in tables:
            table = newest.get(TableLocator(space, table_name))
            assert isinstance(table, TableEntry)
            assert (table.name, table.namespace_id) == (table_name, found.id)
    assert newest.get(TableLocator("nowhere", "none")) is None


def test_time_travel_works_as_in_lakehouses_of_mangrove(metastore: TreeMetastore) -> None:
    times = {line.version: line.created_at_millis for line in metastore.history()}
    assert sorted(times) == [0, 1, 2]
    for version, millis in times.items():
        assert metastore.at_time(millis).version == version
    assert [line.version for line in metastore.list_retained()] == [0, 1, 2]


def test_differences_list_the_changes_of_each_commit(name: str, metastore: TreeMetastore) -> None:
    found = [str(item.locator) for item in metastore.differences(metastore.at_version(1), metastore.at_version(2))]
    assert found == {TRINITYLAKE: ["default.a"], OLYMPIA: ["ns1.a"]}[name]


def test_their_files_are_named_and_sound(name: str, store: MemoryStore, metastore: TreeMetastore) -> None:
    versions = [metastore.at_version(version) for version in range(3)]
    needed = set(metastore.files_of(versions))
    assert needed <= set(contents(store))
    assert [problem for snapshot in versions for problem in metastore.problems(snapshot)] == []


@pytest.mark.parametrize("newest_hint", [b"0", b"7", b"\xff"])
def test_a_wrong_hint_does_not_hide_the_newest_version(name: str, store: MemoryStore, newest_hint: bytes) -> None:
    for path in ("_latest_hint.txt", "vn/latest"):
        if store.exists(path):
            store.put(path, newest_hint)
    assert open_tree(build_deterministic_effects(store)).latest().version == 2


def test_a_write_is_rejected_with_a_remedy(store: MemoryStore, metastore: TreeMetastore) -> None:
    before, newest = contents(store), metastore.latest()
    attempts: list[Callable[[], object]] = [
        lambda: metastore.commit(newest, Changes("x", puts=dict([make_namespace("n")])), Isolation.SNAPSHOT),
        lambda: metastore.commit(newest, Changes("x", settings=LakehouseSettings()), Isolation.SERIALIZABLE),
        lambda: metastore.compact(Changes("x")),
        lambda: metastore.upgrade(Changes("x")),
        lambda: metastore.roll_back(metastore.at_version(0), Changes("x")),
        lambda: metastore.expire([0]),
        metastore.repair,
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInputError, match=r"Java program is read-only; nothing was changed; .*convert"):
            attempt()
    assert contents(store) == before

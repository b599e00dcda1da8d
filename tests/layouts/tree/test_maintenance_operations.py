"""Upkeep of the tree layout: differences, rollback, the files that versions need, expiry, and repair."""

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.effects import Effects
from mangrove.errors import ConflictError, InvalidInputError, NotFoundError
from mangrove.expressions.schema_text import parse_schema
from mangrove.layouts.tree.maintenance.expiry import expire_versions
from mangrove.layouts.tree.metastore import TreeMetastore, create_tree, open_tree
from mangrove.layouts.tree.revision import NEWER, OLDER, TreeRevision
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.layouts.tree.versions import read_root
from mangrove.metastore import Changes, Difference, MetastoreMaintenance, MetastoreSnapshot
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
)
from mangrove.model.objects import NamespaceEntry, Object, Partition, Stream, TableEntry, TableVersion
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.opening import open_store
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.faulty_store import Faults, FaultyStore, SimulatedCrash
from mangrove.testing.metastore_contract import commit_objects, make_delta, make_namespace, make_table

SMALL = LakehouseSettings(order=4)
APART = LakehouseSettings(order=4, properties={"tree.inline-definition-max-bytes": "0"})
BELOW = [Kind.TABLE_VERSION, Kind.STREAM, Kind.PARTITION, Kind.DELTA]


@pytest.fixture
def effects() -> Effects:
    return build_deterministic_effects(MemoryStore())


@pytest.fixture(params=[NEWER, OLDER], ids=["newer", "older"])
def revision(request: pytest.FixtureRequest) -> TreeRevision:
    assert isinstance(request.param, TreeRevision)
    return request.param


def made(effects: Effects, settings: LakehouseSettings = SMALL, revision: TreeRevision = NEWER) -> TreeMetastore:
    metastore = create_tree(effects, settings, Changes("made"), revision)
    commit_objects(metastore, metastore.latest(), make_namespace("sales"))
    return metastore


def opened(effects: Effects) -> TreeMetastore:
    return open_tree(build_deterministic_effects(effects.store, first_id=10**9))


def everything(metastore: TreeMetastore, snapshot: MetastoreSnapshot) -> dict[Locator, Object]:
    kinds = [kind for kind in Kind if kind is not Kind.LAKEHOUSE]
    return dict(pair for kind in kinds for pair in metastore.objects(snapshot, kind))


def as_dictionaries_differ(before: dict[Locator, Object], after: dict[Locator, Object]) -> list[Difference]:
    return [
        Difference(locator, before.get(locator), after.get(locator))
        for locator in sorted(before.keys() | after.keys())
        if before.get(locator) != after.get(locator)
    ]


def some_history(metastore: TreeMetastore, commits: int, seed: int = 1) -> None:
    """Make tables that come, change, go and are renamed with their namespaces, and data below them."""
    chance = random.Random(seed)
    for number in range(commits):
        newest = metastore.latest()
        tables = list(metastore.objects(newest, Kind.TABLE))
        spaces = [(way, value) for way, value in newest.children(Kind.NAMESPACE, None)]
        choice = chance.random()
        if choice < 0.15 or not spaces:
            commit_objects(metastore, newest, make_namespace(f"n{chance.randrange(6)}"))
        elif choice < 0.25:
            way, value = chance.choice(spaces)
            assert isinstance(value, NamespaceEntry)
            new = f"r{number}"
            commit_objects(
                metastore, newest, (NamespaceLocator(new), NamespaceEntry(value.id, new)), deletes=frozenset([way])
            )
        elif choice < 0.4 and tables:
            commit_objects(metastore, newest, deletes=frozenset([chance.choice(tables)[0]]))
        elif choice < 0.6 and tables:
            _, value = chance.choice(tables)
            assert isinstance(value, TableEntry)
            partition = PartitionLocator(value.namespace_id, value.id, 1, "s", "p")
            below: list[tuple[Locator, Object]] = [
                (partition.parent.parent, TableVersion(1, None)),
                (partition.parent, Stream("s")),
                (partition, Partition("p")),
            ]
            commit_objects(metastore, newest, *below, make_delta(partition, number + 1))
        else:
            way, value = chance.choice(spaces)
            assert isinstance(value, NamespaceEntry)
            commit_objects(
                metastore, newest, make_table(value.name, f"t{chance.randrange(40)}", value.id, description=str(number))
            )


def test_the_tree_metastore_implements_the_maintenance_interface(effects: Effects) -> None:
    maintenance: MetastoreMaintenance = made(effects)
    assert [line.version for line in maintenance.list_retained()] == [0, 1]


def test_the_differences_of_two_versions_equal_those_of_dictionaries(effects: Effects, revision: TreeRevision) -> None:
    metastore = made(effects, revision=revision)
    some_history(metastore, 40)
    versions = [metastore.at_version(line.version) for line in metastore.list_retained()]
    held = [everything(metastore, snapshot) for snapshot in versions]
    chance = random.Random(2)
    pairs = [(number, number + 1) for number in range(len(versions) - 1)]
    pairs += [(chance.randrange(len(versions)), chance.randrange(len(versions))) for _ in range(30)]
    for one, other in pairs:
        found = list(metastore.differences(versions[one], versions[other]))
        assert found == as_dictionaries_differ(held[one], held[other])


def test_all_objects_of_a_kind_equal_the_listings_of_their_parents(effects: Effects, revision: TreeRevision) -> None:
    metastore = made(effects, revision=revision)
    some_history(metastore, 60, seed=3)
    newest = metastore.latest()
    spaces = [way for way, _ in newest.children(Kind.NAMESPACE, None)]
    listed = {
        way: value for space in spaces if isinstance(space, NamespaceLocator) for way, value in tables_in(newest, space)
    }
    assert dict(metastore.objects(newest, Kind.TABLE)) == listed


def tables_in(snapshot: MetastoreSnapshot, space: NamespaceLocator) -> Iterator[tuple[Locator, Object]]:
    return snapshot.children(Kind.TABLE, space)


def test_objects_below_a_table_have_locators_with_the_original_namespace(effects: Effects) -> None:
    metastore = made(effects)
    way, value = make_table("sales", "orders", "born-here")
    version = TableVersionLocator("born-here", value.id, 1)
    stream = StreamLocator("born-here", value.id, 1, "s")
    partition = PartitionLocator("born-here", value.id, 1, "s", "p")
    delta = make_delta(partition, 7)
    before = metastore.latest()
    below: list[tuple[Locator, Object]] = [
        (version, TableVersion(1, None)),
        (stream, Stream("s")),
        (partition, Partition("p")),
        delta,
    ]
    after = commit_objects(metastore, before, (way, value), *below).snapshot
    found = [difference.locator for difference in metastore.differences(before, after)]
    assert found == [way, version, stream, partition, delta[0]]
    assert [located for kind in BELOW for located, _ in metastore.objects(after, kind)] == found[1:]
    (stored,) = [value for _, value in metastore.objects(after, Kind.DELTA)]
    assert stored == after.get(delta[0])
    assert isinstance(delta[0], DeltaLocator)


def test_a_definition_rewritten_unchanged_is_not_a_difference(effects: Effects) -> None:
    metastore = made(effects, APART)
    way, value = make_table("sales", "orders")
    before = commit_objects(metastore, metastore.latest(), (way, value)).snapshot
    after = commit_objects(metastore, before, (way, value)).snapshot
    assert list(metastore.differences(before, after)) == []


def test_an_upgrade_is_not_a_difference(effects: Effects) -> None:
    metastore = made(effects, revision=OLDER)
    some_history(metastore, 30, seed=4)
    before = metastore.latest()
    upgraded = metastore.upgrade(Changes("upgrade"))
    assert list(metastore.differences(before, upgraded)) == []
    after = commit_objects(metastore, upgraded, make_namespace("after-the-upgrade")).snapshot
    assert [str(found.locator) for found in metastore.differences(before, after)] == ["`after-the-upgrade`"]


def test_the_difference_of_one_table_among_many_reads_one_tree_path_and_one_definition() -> None:
    store = CountingStore(MemoryStore())
    metastore = made(build_deterministic_effects(store), LakehouseSettings(order=16))
    commit_objects(metastore, metastore.latest(), *(make_table("sales", f"t{number:05d}") for number in range(5_000)))
    metastore.compact(Changes("compaction"))
    version = metastore.latest().version
    commit_objects(metastore, metastore.latest(), make_table("sales", "t02500", description="changed"))
    fresh = open_tree(build_deterministic_effects(store, first_id=10**9))
    one, other = fresh.at_version(version), fresh.at_version(version + 1)
    before = store.requests
    assert [str(found.locator) for found in fresh.differences(one, other)] == ["sales.t02500"]
    assert (store.requests - before).total <= 5


def test_a_rollback_restores_everything_and_can_itself_be_rolled_back(effects: Effects, revision: TreeRevision) -> None:
    metastore = made(effects, revision=revision)
    some_history(metastore, 40, seed=5)
    newest = metastore.latest()
    past = metastore.at_version(17)
    after = metastore.roll_back(past, Changes("oops", message="undo", author="ana"))
    assert (after.version, after.commit.rolled_back_from) == (newest.version + 1, newest.version)
    assert (after.commit.message, after.commit.author) == ("undo", "ana")
    fresh = opened(effects)
    assert everything(fresh, fresh.latest()) == everything(metastore, past)
    assert list(fresh.differences(fresh.at_version(17), fresh.latest())) == []
    fresh.roll_back(fresh.at_version(newest.version), Changes("redo"))
    assert everything(fresh, fresh.latest()) == everything(metastore, newest)
    commit_objects(fresh, fresh.latest(), make_namespace("later"))
    assert NamespaceLocator("later") in everything(fresh, fresh.latest())
    assert list(fresh.problems(fresh.latest())) == []


def test_a_rollback_to_before_the_upgrade_stays_in_the_newer_format_revision(effects: Effects) -> None:
    metastore = made(effects, revision=OLDER)
    some_history(metastore, 30, seed=6)
    # The table id takes the place of the namespace id, because no table has these versions.
    locator, narrow = TableVersionLocator("t", "t", 1), TableVersion(1, parse_schema("id int"))
    commit_objects(metastore, metastore.latest(), (locator, narrow))
    past = metastore.latest()
    metastore.upgrade(Changes("upgrade"))
    commit_objects(metastore, metastore.latest(), make_namespace("later"))
    after = metastore.roll_back(past, Changes("back"))
    assert after.root.revision.name == "newer"
    assert everything(metastore, after) == everything(metastore, past)
    fresh = opened(effects)
    assert everything(fresh, fresh.latest()) == everything(metastore, past)
    wide = TableVersion(1, parse_schema("id int, name string"))
    commit_objects(metastore, metastore.latest(), (locator, wide))
    kept = replace(narrow, schema=replace(parse_schema("id int"), last_column_id=2))
    assert everything(metastore, metastore.roll_back(past, Changes("again"))) == {
        **everything(metastore, past),
        locator: kept,
    }


def test_a_rollback_replaces_concurrent_commits(effects: Effects, monkeypatch: pytest.MonkeyPatch) -> None:
    metastore, concurrent_commit = made(effects), opened(effects)
    base = metastore.latest()
    commit_objects(concurrent_commit, concurrent_commit.latest(), make_table("sales", "unseen"))
    monkeypatch.setattr(metastore, "latest", lambda: base)
    after = metastore.roll_back(metastore.at_version(0), Changes("back"))
    assert (after.version, after.commit.rolled_back_from) == (3, 2)
    assert everything(concurrent_commit, concurrent_commit.latest()) == {}


def test_a_rollback_preserves_the_ids_of_columns_that_a_concurrent_commit_adds(
    effects: Effects, revision: TreeRevision, monkeypatch: pytest.MonkeyPatch
) -> None:
    metastore, concurrent_commit = made(effects, revision=revision), opened(effects)
    locator = TableVersionLocator("n", "t", 1)
    commit_objects(metastore, metastore.latest(), (locator, TableVersion(1, parse_schema("id int"))))
    base = metastore.latest()
    wide = TableVersion(1, parse_schema("id int, name string"))
    commit_objects(concurrent_commit, concurrent_commit.latest(), (locator, wide))
    monkeypatch.setattr(metastore, "latest", lambda: base)
    restored = metastore.roll_back(base, Changes("back")).get(locator)
    assert isinstance(restored, TableVersion)
    assert restored.schema is not None
    assert (restored.schema.names, restored.schema.last_column_id) == (("id",), 2)
    assert list(concurrent_commit.problems(concurrent_commit.latest())) == []


def test_concurrent_rollbacks_conflict(effects: Effects, monkeypatch: pytest.MonkeyPatch) -> None:
    metastore, concurrent_commit = made(effects), opened(effects)
    base = metastore.latest()
    concurrent_commit.roll_back(concurrent_commit.at_version(0), Changes("theirs"))
    monkeypatch.setattr(metastore, "latest", lambda: base)
    with pytest.raises(ConflictError, match="rolled back by transaction theirs"):
        metastore.roll_back(base, Changes("ours"))


def test_a_commit_concurrent_with_a_rollback_conflicts(effects: Effects) -> None:
    metastore, other = made(effects), opened(effects)
    base = other.latest()
    metastore.roll_back(metastore.at_version(0), Changes("back"))
    with pytest.raises(ConflictError, match="rolled back by transaction back in version 2"):
        commit_objects(other, base, make_table("sales", "unrelated"))


def test_a_rollback_restores_settings_but_keeps_export_names(effects: Effects) -> None:
    metastore = made(effects, LakehouseSettings(name="first"))
    exported = LakehouseSettings(name="second", exported_snapshots={"year-end": "x#version=1"})
    commit_objects(metastore, metastore.latest(), settings=exported)
    after = metastore.roll_back(metastore.at_version(1), Changes("back"))
    assert after.settings.name == "first"
    assert dict(after.settings.exported_snapshots) == {"year-end": "x#version=1"}
    assert opened(effects).latest().settings == after.settings


def test_a_rollback_to_an_expired_version_or_with_other_changes_is_refused(effects: Effects) -> None:
    metastore = made(effects)
    past = metastore.at_version(0)
    with pytest.raises(InvalidInputError, match="cannot contain other changes"):
        metastore.roll_back(past, Changes("x", puts=dict([make_namespace("n")])))
    metastore.expire([0])
    with pytest.raises(NotFoundError, match="version 0 has expired"):
        metastore.roll_back(past, Changes("x"))
    assert opened(effects).latest().version == 1


def test_the_files_of_a_version_are_sufficient_to_read_a_copy(effects: Effects, revision: TreeRevision) -> None:
    metastore = made(effects, APART, revision)
    some_history(metastore, 50, seed=7)
    snapshot = metastore.at_version(33)
    elsewhere = MemoryStore()
    paths = list(metastore.files_of([snapshot]))
    assert len(paths) == len(set(paths))
    for path in paths:
        elsewhere.put(path, effects.store.read(path))
    copied = open_tree(build_deterministic_effects(elsewhere))
    assert copied.latest().version == 33
    assert everything(copied, copied.latest()) == everything(metastore, snapshot)
    commit_objects(copied, copied.latest(), make_namespace("in-the-copy"))
    assert list(copied.problems(copied.latest())) == []


def test_files_shared_by_versions_are_listed_once() -> None:
    store = CountingStore(MemoryStore())
    metastore = made(build_deterministic_effects(store), LakehouseSettings(order=16))
    commit_objects(metastore, metastore.latest(), *(make_table("sales", f"t{number:04d}") for number in range(1_000)))
    for number in range(20):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:04d}", description="changed"))
    versions = [metastore.at_version(line.version) for line in metastore.list_retained()]
    paths = list(metastore.files_of(versions))
    assert len(paths) == len(set(paths))
    on_storage = {entry.path for entry in store.list()} - {NEWER.hint_path}
    assert set(paths) == on_storage


def test_every_node_and_definition_is_owned_and_roots_and_the_hint_are_never_garbage(
    effects: Effects, revision: TreeRevision
) -> None:
    metastore = made(effects, APART, revision)
    some_history(metastore, 60, seed=8)
    roots = {revision.roots.path(line.version) for line in metastore.list_retained()}
    for entry in effects.store.list():
        assert metastore.owns(entry.path) == (entry.path not in roots | {revision.hint_path})


@pytest.mark.parametrize(
    "path",
    [
        "data/t/part-0.parquet",
        "1011/0000/1010/01001110-node.ipc",
        "0000/0000/0000/00000000-node-6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8.ipc",
        "node-6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8.ipc",
        "x/_lakehouse_def_6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8.binpb",
        "README.md",
        "vn/latest",
    ],
)
def test_a_foreign_file_is_not_owned(effects: Effects, path: str) -> None:
    assert not made(effects).owns(path)


def test_an_expired_version_is_not_found_and_the_others_are_retained(effects: Effects, revision: TreeRevision) -> None:
    metastore = made(effects, revision=revision)
    for number in range(20):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    metastore.expire([*range(10), 15])
    kept = [10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21]
    for reader in (metastore, opened(effects)):
        assert [line.version for line in reader.list_retained()] == kept
        assert [line.version for line in reader.history()] == kept[::-1]
        assert reader.latest().version == 21
        for version in (0, 9, 15):
            with pytest.raises(NotFoundError, match="expired"):
                reader.at_version(version)
        assert reader.at_version(14).version == 14
    metastore.expire([9, 10])
    assert [line.version for line in opened(effects).list_retained()] == kept[1:]


def test_time_travel_to_the_time_of_an_expired_version_is_rejected(effects: Effects) -> None:
    metastore = made(effects)
    for number in range(20):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    times = {line.version: line.created_at_millis for line in metastore.list_retained()}
    metastore.expire([version for version in range(15) if version != 3])
    for reader in (metastore, opened(effects)):
        assert reader.at_time(times[3]).version == 3
        assert reader.at_time(times[17]).version == 17
        with pytest.raises(NotFoundError, match=r"version 7, the newest at .* has expired"):
            reader.at_time(times[7])


@pytest.mark.parametrize(
    ("versions", "error"), [([21], InvalidInputError), ([5, 22], NotFoundError), ([-1], NotFoundError)]
)
def test_the_newest_and_unknown_versions_cannot_expire(
    effects: Effects, versions: list[int], error: type[Exception]
) -> None:
    metastore = made(effects)
    for number in range(20):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    before = {entry.path: effects.store.read(entry.path) for entry in effects.store.list()}
    with pytest.raises(error, match="nothing was changed"):
        metastore.expire(versions)
    assert {entry.path: effects.store.read(entry.path) for entry in effects.store.list()} == before


@pytest.mark.parametrize("names_max", [1, 4, 10_000])
def test_a_stale_hint_that_names_an_exported_version_does_not_make_it_the_newest(
    effects: Effects, names_max: int
) -> None:
    metastore = made(effects)
    for number in range(40):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    exported = {3, 4, 17, 31}
    expire_versions(effects, metastore.latest().root, set(range(36)) - exported, names_max)
    for hint in range(45):
        effects.store.put(NEWER.hint_path, b"%d" % hint)
        assert opened(effects).latest().version == 41
    effects.store.delete_many([NEWER.hint_path])
    fresh = opened(effects)
    assert [line.version for line in fresh.list_retained()] == [3, 4, 17, 31, *range(36, 42)]
    assert commit_objects(fresh, fresh.latest(), make_table("sales", "later")).snapshot.version == 42


@pytest.mark.parametrize("names_max", [4, 10_000])
@pytest.mark.parametrize("slept_at", [2, 3, 16, 17, 30, 35, 36, 40])
def test_a_reader_that_slept_through_an_expiry_finds_the_newest_version(
    effects: Effects, slept_at: int, names_max: int
) -> None:
    metastore = made(effects)
    for number in range(slept_at - 1):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    sleeper = opened(effects)
    assert sleeper.latest().version == slept_at
    for number in range(slept_at - 1, 40):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    exported = {3, 17} | {slept_at}
    expire_versions(effects, metastore.latest().root, set(range(36)) - exported, names_max)
    assert sleeper.latest().version == 41
    assert commit_objects(sleeper, sleeper.latest(), make_table("sales", "later")).snapshot.version == 42


def test_a_stale_writer_commits_nothing_after_an_expiry(effects: Effects) -> None:
    metastore = made(effects)
    sleeper = opened(effects)
    base = sleeper.latest()
    for number in range(10):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number}"))
    metastore.expire(range(9))
    with pytest.raises(ConflictError, match="version 2 after it has expired"):
        commit_objects(sleeper, base, make_table("sales", "late"))
    with pytest.raises(ConflictError, match="has expired"):
        commit_objects(sleeper, base, settings=LakehouseSettings(name="late"))
    assert opened(effects).latest().version == 11
    assert TableLocator("sales", "late") not in everything(metastore, metastore.latest())


def test_versions_expire_on_local_disk_as_in_memory(tmp_path: Path) -> None:
    store = open_store(f"{tmp_path}/lake")
    metastore = made(build_deterministic_effects(store))
    for number in range(10):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number}"))
    metastore.expire([0, 1, 2, 4])
    fresh = opened(build_deterministic_effects(store))
    assert [line.version for line in fresh.list_retained()] == [3, *range(5, 12)]
    assert commit_objects(fresh, fresh.latest(), make_table("sales", "later")).snapshot.version == 12


@cache
def twenty_tables() -> dict[str, bytes]:
    """Return the files of a lakehouse of 22 versions."""
    store = MemoryStore()
    metastore = made(build_deterministic_effects(store))
    for number in range(20):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    return {entry.path: store.read(entry.path) for entry in store.list()}


@given(st.integers(0, 2**32), st.sets(st.integers(0, 20)), st.sampled_from([1, 5, 10_000]))
def test_an_expiry_that_was_interrupted_leaves_a_sound_lakehouse_and_can_be_repeated(
    seed: int, going: set[int], names_max: int
) -> None:
    below = MemoryStore()
    below.put_many(twenty_tables())
    effects = build_deterministic_effects(below)
    metastore = opened(effects)
    crashing = FaultyStore(below, Faults(seed=seed, crash=0.3))
    with suppress(SimulatedCrash):
        expire_versions(build_deterministic_effects(crashing), metastore.latest().root, going, names_max)
    fresh = opened(effects)
    assert fresh.latest().version == 21
    assert {line.version for line in fresh.list_retained()} >= set(range(22)) - going
    expire_versions(effects, metastore.latest().root, going, names_max)
    for hint in (0, 3, 11, 20):
        below.put(NEWER.hint_path, b"%d" % hint)
        assert opened(effects).latest().version == 21
    assert {line.version for line in fresh.list_retained()} == set(range(22)) - going


def test_the_transaction_of_an_expired_version_is_still_known(effects: Effects) -> None:
    metastore = made(effects)
    commit_objects(metastore, metastore.latest(), make_table("sales", "a"))
    root = metastore.at_version(1).root
    metastore.expire([1])
    there = read_root(effects.store, root.revision.roots, 1)
    assert there is not None
    assert (there.is_expired, there.transaction_id) == (True, root.transaction_id)


@pytest.mark.parametrize(
    ("hint", "said"),
    [(None, "was missing"), (b"\xff", "could not be read"), (b"0", "named version 0"), (b"9", "named version 9")],
)
def test_repair_rewrites_a_wrong_hint_and_reports_it(
    effects: Effects, revision: TreeRevision, hint: bytes | None, said: str
) -> None:
    metastore = made(effects, revision=revision)
    if hint is None:
        effects.store.delete_many([revision.hint_path])
    else:
        effects.store.put(revision.hint_path, hint)
    fresh = opened(effects)
    (done,) = fresh.repair()
    assert said in done
    assert effects.store.read(revision.hint_path) == b"1"
    assert fresh.repair() == []
    assert metastore.repair() == []


def test_maintenance_rejects_snapshots_of_another_lakehouse(effects: Effects) -> None:
    metastore, other = made(effects), made(build_deterministic_effects(MemoryStore()))
    with pytest.raises(InvalidInputError, match="another metastore"):
        metastore.differences(metastore.latest(), other.latest())
    assert isinstance(metastore.latest(), TreeSnapshot)

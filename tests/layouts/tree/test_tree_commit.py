"""Commits of the tree layout: what is on storage, what a reader finds, and the defects that others had."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from mangrove.betree.verify import verify_tree
from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, ConflictError, FormatError, InvalidInputError, NotFoundError
from mangrove.layouts.tree.commit import commit_rebuilt_tree, create_root, rebase_changes
from mangrove.layouts.tree.metastore import TreeMetastore, create_tree, open_tree
from mangrove.layouts.tree.paths import RootNames
from mangrove.layouts.tree.revision import NEWER, OLDER, ROLLBACK_FROM_ROOT, TreeRevision
from mangrove.layouts.tree.root import Root, list_written_since, shape_of
from mangrove.layouts.tree.snapshot import TreeSnapshot
from mangrove.metastore import Changes, Isolation, assume_rows_changed
from mangrove.model.locators import Kind, NamespaceLocator, TableLocator
from mangrove.model.objects import TableEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.model.version_search import find_newest_version, find_version_at
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_namespace, make_table

SMALL = LakehouseSettings(order=4)


@pytest.fixture
def effects() -> Effects:
    return build_deterministic_effects(MemoryStore())


def made(effects: Effects, settings: LakehouseSettings = SMALL, revision: TreeRevision = NEWER) -> TreeMetastore:
    metastore = create_tree(effects, settings, Changes("made"), revision)
    commit_objects(metastore, metastore.latest(), make_namespace("sales"))
    return metastore


def opened(effects: Effects) -> TreeMetastore:
    """Open the lakehouse as a process would that knows nothing of it."""
    return open_tree(build_deterministic_effects(effects.store, first_id=10**9))


def tables(metastore: TreeMetastore) -> list[str]:
    newest = metastore.latest()
    return [str(way.parts[-1]) for way, _ in newest.children(Kind.TABLE, NamespaceLocator("sales"))]


def assert_sound(snapshot: TreeSnapshot) -> None:
    assert (
        list(verify_tree(snapshot.root.node, shape_of(snapshot.settings, snapshot.root.revision), snapshot.read_nodes))
        == []
    )


def paths(effects: Effects) -> Iterator[str]:
    return (entry.path for entry in effects.store.list())


@pytest.mark.parametrize("revision", [NEWER, OLDER], ids=["newer", "older"])
@pytest.mark.parametrize("order", [3, 4, 128])
def test_a_fresh_reader_finds_everything_after_many_commits_with_random_names(
    effects: Effects, revision: TreeRevision, order: int
) -> None:
    metastore = made(effects, LakehouseSettings(order=order), revision)
    names = [f"{number:08x}" for number in random.Random(1).sample(range(2**32), 300)]
    for name in names:
        commit_objects(metastore, metastore.latest(), make_table("sales", name))
    fresh = opened(effects)
    assert tables(fresh) == sorted(names)
    assert all(fresh.latest().get(TableLocator("sales", name)) is not None for name in names)
    assert_sound(fresh.latest())


def test_a_fresh_reader_finds_the_remaining_objects_after_updates_and_deletes(effects: Effects) -> None:
    metastore, chance = made(effects), random.Random(2)
    model: dict[str, TableEntry] = {}
    for _ in range(400):
        name = f"t{chance.randrange(60):02d}"
        way, value = make_table("sales", name, description=str(chance.random()))
        if name in model and chance.random() < 0.5:
            del model[name]
            commit_objects(metastore, metastore.latest(), deletes=frozenset([way]))
        else:
            model[name] = value
            commit_objects(metastore, metastore.latest(), (way, value))
    fresh = opened(effects)
    found = {way.parts[-1]: value for way, value in fresh.latest().children(Kind.TABLE, NamespaceLocator("sales"))}
    assert found == model
    assert_sound(fresh.latest())


def test_creating_a_lakehouse_over_an_existing_one_is_rejected(effects: Effects) -> None:
    made(effects)
    before = list(paths(effects))
    with pytest.raises(AlreadyExistsError, match="open it"):
        create_tree(effects, SMALL, Changes("again"))
    assert list(paths(effects)) == before


def test_opening_an_empty_location_is_rejected_and_writes_nothing(effects: Effects) -> None:
    with pytest.raises(NotFoundError, match="no lakehouse at memory://"):
        open_tree(effects)
    assert list(paths(effects)) == []


@pytest.mark.parametrize(
    "hint", [b"7", b"7\n", b"", b"\xff\xfe", b"0", b"3", b"8", b"999999999", b"-1", b"x" * 10_000, None]
)
@pytest.mark.parametrize("revision", [NEWER, OLDER], ids=["newer", "older"])
def test_the_newest_version_is_found_with_any_hint(
    effects: Effects, hint: bytes | None, revision: TreeRevision
) -> None:
    metastore = made(effects, revision=revision)
    for number in range(6):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number}"))
    if hint is None:
        effects.store.delete_many([revision.hint_path])
    else:
        effects.store.put(revision.hint_path, hint)
    assert opened(effects).latest().version == 7


@pytest.mark.parametrize("newest", [0, 1, 2, 3, 7, 8, 100, 12345])
@pytest.mark.parametrize("known", [0, 1, 5, 100])
def test_the_newest_version_is_found_in_as_many_probes_as_the_gap_has_digits_twice(known: int, newest: int) -> None:
    known = min(known, newest)
    probes: list[int] = []

    def exists(version: int) -> bool:
        probes.append(version)
        return version <= newest

    assert find_newest_version(exists, known) == newest
    assert len(probes) <= 2 * (newest - known + 1).bit_length() + 1


@pytest.mark.parametrize("oldest_kept", [0, 1, 7, 40])
def test_a_time_is_found_by_bisection_also_where_the_oldest_versions_have_expired(oldest_kept: int) -> None:
    def created_at(version: int) -> int | None:
        return 1000 + 10 * version if version >= oldest_kept else None

    for millis in range(1000 + 10 * oldest_kept, 1410):
        assert find_version_at(created_at, 40, millis) == min(40, (millis - 1000) // 10)
    with pytest.raises(NotFoundError):
        find_version_at(created_at, 40, 1000 + 10 * oldest_kept - 1)


@pytest.mark.parametrize("digits", [32, 64])
def test_roots_keep_the_width_that_the_lakehouse_has(effects: Effects, digits: int) -> None:
    metastore = made(effects, revision=NEWER.with_roots(RootNames(digits)))
    commit_objects(metastore, metastore.latest(), make_table("sales", "a"))
    fresh = opened(effects)
    commit_objects(fresh, fresh.latest(), make_table("sales", "b"))
    roots = [path for path in paths(effects) if path.endswith(".ipc") and path.startswith("_")]
    assert {len(path) for path in roots} == {digits + len("_.ipc")}
    assert tables(opened(effects)) == ["a", "b"]


def test_a_rollback_conflicts_with_every_concurrent_change(effects: Effects) -> None:
    metastore = made(effects)
    base = metastore.latest()
    system = {**base.root.system, ROLLBACK_FROM_ROOT: base.root.path, "transaction": "the-rollback"}
    rolled_back = Root(base.version + 1, base.root.node, system, base.root.revision, base.root.key_names)
    assert create_root(effects, rolled_back, base.settings)
    with pytest.raises(ConflictError, match="rolled back by transaction the-rollback in version 2"):
        commit_objects(metastore, base, make_table("sales", "unrelated"))
    assert metastore.latest().commit.rolled_back_from == 1


def test_unknown_system_rows_are_preserved(effects: Effects) -> None:
    metastore = made(effects)
    base = metastore.latest()
    system = {**base.root.system, "from_the_future": "kept", "transaction": "x"}
    assert create_root(effects, Root(2, base.root.node, system, base.root.revision, base.root.key_names), base.settings)
    after = commit_objects(metastore, metastore.latest(), make_table("sales", "a")).snapshot
    assert isinstance(after, TreeSnapshot)
    assert after.root.system["from_the_future"] == "kept"


def test_compaction_keeps_everything_and_the_history(effects: Effects) -> None:
    metastore = made(effects)
    for number in range(60):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    before = tables(metastore)
    after = metastore.compact(Changes("compaction", message="smaller"))
    assert tables(opened(effects)) == before
    assert after.commit.message == "smaller"
    assert (
        list(
            verify_tree(
                after.root.node, shape_of(after.settings, after.root.revision), after.read_nodes, compacted=True
            )
        )
        == []
    )
    assert [
        str(way.parts[-1]) for way, _ in metastore.at_version(5).children(Kind.TABLE, NamespaceLocator("sales"))
    ] == [f"t{number:02d}" for number in range(4)]


def test_concurrent_commits_during_a_compaction_are_preserved(
    effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    metastore, concurrent_commit = made(effects), opened(effects)
    for number in range(40):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    base = metastore.latest()
    monkeypatch.setattr(metastore, "latest", lambda: base)
    for number in range(40, 50):
        commit_objects(
            concurrent_commit,
            concurrent_commit.latest(),
            make_table("sales", f"t{number:02d}"),
            deletes=frozenset([TableLocator("sales", "t00")]),
        )
    after = metastore.compact(Changes("compaction"))
    assert after.version == concurrent_commit.latest().version
    assert tables(opened(effects)) == [f"t{number:02d}" for number in range(1, 50)]


def test_an_older_lakehouse_is_upgraded_by_an_ordinary_commit(effects: Effects) -> None:
    metastore = made(effects, revision=OLDER)
    for number in range(30):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    before = metastore.latest()
    upgraded = metastore.upgrade(Changes("upgrade", message="newer"))
    assert upgraded.version == before.version + 1
    fresh = opened(effects)
    assert fresh.latest().root.revision.name == "newer"
    assert tables(fresh) == [f"t{number:02d}" for number in range(30)]
    assert_sound(fresh.latest())
    commit_objects(fresh, fresh.latest(), make_table("sales", "later"))
    assert len(tables(opened(effects))) == 31
    assert opened(effects).at_version(before.version).root.revision.name == "older"
    assert opened(effects).upgrade(Changes("again")).version == fresh.latest().version


def test_a_commit_on_a_version_before_an_upgrade_conflicts(effects: Effects) -> None:
    metastore = made(effects, revision=OLDER)
    locator, value = make_table("sales", "t")
    commit_objects(metastore, metastore.latest(), (locator, value))
    before = metastore.latest()
    metastore.upgrade(Changes("upgrade"))
    commit_objects(metastore, metastore.latest(), (locator, replace(value, description="first")))
    for late in (metastore, opened(effects)):
        with pytest.raises(ConflictError, match="the format was upgraded by transaction upgrade in version 3"):
            commit_objects(late, late.at_version(before.version), (locator, replace(value, description="second")))
    with pytest.raises(ConflictError, match="the format was upgraded by transaction upgrade in version 3"):
        commit_rebuilt_tree(effects, before.files, before, Changes("compact"), before.root.node)
    assert opened(effects).latest().get(locator) == replace(value, description="first")
    assert_sound(opened(effects).latest())


def test_a_missing_node_is_named_and_does_not_read_as_empty(effects: Effects) -> None:
    metastore = made(effects)
    for number in range(60):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    lost = metastore.latest().root.node.children[0]
    assert isinstance(lost, str)
    effects.store.delete_many([lost])
    with pytest.raises(FormatError, match=lost.rpartition("/")[2]):
        tables(opened(effects))


def test_inline_and_separate_definitions_are_read(effects: Effects) -> None:
    always_apart = LakehouseSettings(properties={"tree.inline-definition-max-bytes": "0"})
    metastore = made(effects, always_apart)
    assert any("-namespace-sales-" in path for path in paths(effects))
    way, value = make_table("sales", "small")
    together = LakehouseSettings(properties={"tree.inline-definition-max-bytes": "100000"})
    commit_objects(metastore, metastore.latest(), settings=together)
    commit_objects(metastore, metastore.latest(), (way, value))
    assert not any("-table-small-" in path for path in paths(effects))
    assert opened(effects).latest().get(way) == value
    assert opened(effects).latest().get(NamespaceLocator("sales")) is not None


def test_a_commit_on_a_snapshot_of_another_lakehouse_is_refused(effects: Effects) -> None:
    metastore, other = made(effects), made(build_deterministic_effects(MemoryStore(), Clock()))
    with pytest.raises(InvalidInputError, match="another metastore"):
        metastore.commit(other.latest(), Changes("x", puts=dict([make_namespace("n")])), Isolation.SNAPSHOT)


class RecordedRoots(list[Root]):
    """Roots that record which of them were used."""

    def __init__(self, roots: Iterable[Root]) -> None:
        super().__init__(roots)
        self.used: set[int] = set()

    def __getitem__(self, index: Any) -> Any:
        self.used.add(range(len(self))[index])
        return super().__getitem__(index)


def test_a_writer_uses_few_of_the_versions_that_it_missed(effects: Effects) -> None:
    metastore = made(effects, LakehouseSettings())
    base = metastore.latest()
    for number in range(60):
        commit_objects(metastore, metastore.latest(), make_table("sales", f"t{number:02d}"))
    missed = RecordedRoots(metastore.at_version(base.version + 1 + number).root for number in range(60))
    changes = Changes("ours", puts=dict([make_table("sales", "ours")]), guards=frozenset([NamespaceLocator("sales")]))
    newest = metastore.latest()
    assert newest.version == base.version + 60
    assert rebase_changes(base, missed, newest, changes, Isolation.SERIALIZABLE, assume_rows_changed) == changes
    assert len(missed.used) <= 20
    taken = replace(changes, puts=dict([make_table("sales", "t30", "another")]))
    with pytest.raises(ConflictError, match=r"table sales\.t30"):
        rebase_changes(base, missed, newest, taken, Isolation.SERIALIZABLE, assume_rows_changed)


def test_transactions_of_different_versions_that_are_rebased_on_one_meet_only_what_is_new_to_each(
    effects: Effects,
) -> None:
    metastore = made(effects, LakehouseSettings())
    older = metastore.latest()
    newer = commit_objects(metastore, older, make_table("sales", "orders")).snapshot
    newest = commit_objects(metastore, newer, make_table("sales", "stock")).snapshot
    ours = Changes("ours", puts=dict([make_table("sales", "orders", "another")]))
    assert metastore.rebase(newer, ours, Isolation.SNAPSHOT) == (newest, ours)
    with pytest.raises(ConflictError, match=r"table sales\.orders"):
        metastore.rebase(older, ours, Isolation.SNAPSHOT)


@pytest.mark.parametrize("count", [200, 4000])
def test_only_few_new_nodes_stay_in_memory_with_a_version_and_are_shown_with_it(effects: Effects, count: int) -> None:
    metastore = made(effects, LakehouseSettings())
    commit_objects(metastore, metastore.latest(), *(make_table("sales", f"t{number}") for number in range(count)))
    snapshot = commit_objects(metastore, metastore.latest(), make_table("sales", "flushes")).snapshot
    assert isinstance(snapshot, TreeSnapshot)
    assert snapshot.root.node.children
    assert bool(snapshot.new_nodes) == (count == 200)
    assert metastore.encode_version(snapshot).keys() == {snapshot.root.path, *snapshot.new_nodes}


@pytest.mark.parametrize("settings", [SMALL, LakehouseSettings()])
@pytest.mark.parametrize("seed", range(5))
def test_two_roots_show_all_that_was_written_between_them_or_nothing(
    effects: Effects, settings: LakehouseSettings, seed: int
) -> None:
    chance = random.Random(seed)
    metastore = made(effects, settings)
    for number in range(40):
        newest = metastore.latest()
        name = f"t{chance.randrange(8)}"
        kind = chance.randrange(12)
        if kind == 0:
            metastore.roll_back(
                metastore.at_version(chance.randrange(1, newest.version + 1)), Changes(f"back-{number}")
            )
        elif kind == 1:
            metastore.compact(Changes(f"compact-{number}"))
        elif kind == 2:
            changed = replace(newest.settings, properties={"note": str(number)})
            metastore.commit(newest, Changes(f"set-{number}", settings=changed), Isolation.SNAPSHOT)
        elif kind == 3 and newest.get(TableLocator("sales", name)) is not None:
            commit_objects(metastore, newest, deletes=frozenset([TableLocator("sales", name)]))
        else:
            commit_objects(metastore, newest, make_table("sales", name, f"id-{number}"))
    roots = [metastore.at_version(version).root for version in range(metastore.latest().version + 1)]
    known = 0
    for before, base in enumerate(roots):
        for later in roots[before + 1 :]:
            written = list_written_since(base, later)
            if written is not None:
                between = roots[before + 1 : later.version + 1]
                assert set(written) == {message.key for root in between for message in root.written}
                assert not any(root.is_rollback or root.definition_path != base.definition_path for root in between)
                known += 1
    assert known

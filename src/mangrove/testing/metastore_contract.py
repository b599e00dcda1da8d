"""The contract tests for metastores, including isolation."""

import random
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import pytest

from mangrove.effects import Effects
from mangrove.errors import ConflictError, InvalidInputError, NotFoundError
from mangrove.expressions.predicates import IsNull
from mangrove.metastore import (
    Changes,
    CommitResult,
    Isolation,
    Metastore,
    MetastoreSnapshot,
    ObjectRange,
    RowChangeDetector,
    RowRange,
    assume_rows_changed,
)
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.objects import (
    Delta,
    DeltaType,
    NamespaceEntry,
    Object,
    Partition,
    Stream,
    TableEntry,
    TableVersion,
    ViewEntry,
)
from mangrove.model.settings import INTENTS_PROPERTY
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects
from mangrove.transaction.process_group_commit import ProcessGroupCommitter

__all__ = [
    "PARTITION",
    "IntentContract",
    "IsolationContract",
    "MakeMetastore",
    "MetastoreContract",
    "RebaseContract",
    "commit_objects",
    "list_table_names",
    "make_delta",
    "make_delta_locator",
    "make_id",
    "make_namespace",
    "make_table",
]


def make_id() -> str:
    """Return a new id; the same one in every run of a Hypothesis example, because Hypothesis seeds `random`."""
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def make_namespace(name: str, **fields: Any) -> tuple[NamespaceLocator, NamespaceEntry]:
    """Return a namespace with a new id, and its locator."""
    return NamespaceLocator(name), NamespaceEntry(make_id(), name, **fields)


def make_table(where: str, name: str, namespace_id: str = "home", **fields: Any) -> tuple[TableLocator, TableEntry]:
    """Return a table with a new id, and its locator."""
    return TableLocator(where, name), TableEntry(make_id(), namespace_id, name, **fields)


def make_delta(partition: PartitionLocator, position: int, **properties: str) -> tuple[DeltaLocator, Delta]:
    """Return an append at a position of a partition."""
    return make_delta_locator(partition, position), Delta(DeltaType.APPEND, properties=properties)


def make_delta_locator(below: PartitionLocator, position: int) -> DeltaLocator:
    """Return the locator of a position of a partition."""
    return below.at(position)


def commit_objects(
    metastore: Metastore,
    base: MetastoreSnapshot,
    *objects: tuple[Locator, Object],
    isolation: Isolation = Isolation.SNAPSHOT,
    **fields: Any,
) -> CommitResult:
    """Commit objects and other given changes on `base`."""
    puts: Mapping[Locator, Object] = dict(objects)
    return metastore.commit(base, Changes(make_id(), puts=puts, **fields), isolation)


def list_table_names(snapshot: MetastoreSnapshot, where: str, **fields: Any) -> list[str]:
    """Return the names of the tables in a namespace."""
    return [str(locator.parts[-1]) for locator, _ in snapshot.children(Kind.TABLE, NamespaceLocator(where), **fields)]


PARTITION = PartitionLocator("home", "table-id", 1, "stream-id", "partition-id")


MakeMetastore: TypeAlias = Callable[[Effects], Metastore]
"""Creates a lakehouse if the store has none; otherwise opens the existing one."""


class IsolationContract:
    """Isolation tests, which `MetastoreContract` inherits."""

    @pytest.fixture
    def make_metastore(self) -> MakeMetastore:
        """Return the function that creates or opens the metastore of the layout."""
        raise AssertionError("override this fixture")

    @pytest.fixture
    def clock(self) -> Clock:
        """Return the clock that the metastore reads."""
        return Clock()

    @pytest.fixture
    def effects(self, clock: Clock) -> Effects:
        """Return the effects for the metastore."""
        return build_deterministic_effects(MemoryStore(), clock)

    @pytest.fixture
    def metastore(self, make_metastore: MakeMetastore, effects: Effects) -> Metastore:
        """Return a new, empty metastore."""
        return make_metastore(effects)

    def test_concurrent_creations_of_different_tables_both_commit(self, metastore: Metastore) -> None:
        base = commit_objects(metastore, metastore.latest(), make_namespace("sales")).snapshot
        commit_objects(metastore, base, make_table("sales", "a"))
        after = commit_objects(metastore, base, make_table("sales", "b")).snapshot
        assert list_table_names(after, "sales") == ["a", "b"]

    def test_a_transaction_is_in_the_history_if_a_concurrent_commit_made_the_same_changes(
        self, metastore: Metastore
    ) -> None:
        (locator, sales) = make_namespace("sales")
        base = commit_objects(metastore, metastore.latest(), (locator, sales)).snapshot
        assert isinstance(sales, NamespaceEntry)
        owned = replace(sales, properties={"owner": "ana"})
        for transaction_id in ("first", "second"):
            changes = Changes(transaction_id, puts={locator: owned})
            found = metastore.commit(base, changes, Isolation.SNAPSHOT).snapshot
            assert [record.id for record in found.commit.transactions] == [transaction_id]
        assert found.version == base.version + 2
        assert found.get(locator) == owned

    def test_a_conflict_names_the_object_the_concurrent_commit_and_its_version(self, metastore: Metastore) -> None:
        base = commit_objects(metastore, metastore.latest(), make_namespace("sales")).snapshot
        concurrent_commit = commit_objects(metastore, base, make_table("sales", "orders"))
        with pytest.raises(ConflictError) as caught:
            commit_objects(metastore, base, make_table("sales", "orders"))
        for part in (
            "sales.orders",
            concurrent_commit.changes.transaction_id,
            f"version {concurrent_commit.snapshot.version}",
            "repeat",
        ):
            assert part in str(caught.value)
        assert metastore.latest().version == concurrent_commit.snapshot.version

    @pytest.mark.parametrize("isolation", list(Isolation))
    def test_a_concurrent_change_of_a_read_object_conflicts_only_at_serializable(
        self, metastore: Metastore, isolation: Isolation
    ) -> None:
        read, written = make_table("sales", "read"), make_table("sales", "written")
        base = commit_objects(metastore, metastore.latest(), make_namespace("sales"), read).snapshot
        commit_objects(metastore, base, (read[0], TableEntry(read[1].id, "home", "read", description="changed")))
        if isolation is Isolation.SNAPSHOT:
            assert (
                commit_objects(
                    metastore, base, written, reads=frozenset([read[0]]), isolation=isolation
                ).snapshot.version
                == base.version + 2
            )
        else:
            with pytest.raises(ConflictError, match=r"sales\.read"):
                commit_objects(metastore, base, written, reads=frozenset([read[0]]), isolation=isolation)

    @pytest.mark.parametrize("isolation", list(Isolation))
    def test_a_new_table_in_a_listed_namespace_conflicts_only_at_serializable(
        self, metastore: Metastore, isolation: Isolation
    ) -> None:
        base = commit_objects(metastore, metastore.latest(), make_namespace("sales"), make_namespace("other")).snapshot
        commit_objects(metastore, base, make_table("sales", "new"))
        scans = frozenset([ObjectRange(Kind.TABLE, NamespaceLocator("sales"))])
        if isolation is Isolation.SNAPSHOT:
            assert (
                commit_objects(
                    metastore, base, make_table("other", "x"), scans=scans, isolation=isolation
                ).snapshot.version
                == base.version + 2
            )
        else:
            with pytest.raises(ConflictError, match=r"sales\.new"):
                commit_objects(metastore, base, make_table("other", "x"), scans=scans, isolation=isolation)

    def test_a_listing_does_not_conflict_with_changes_outside_it(self, metastore: Metastore) -> None:
        base = commit_objects(metastore, metastore.latest(), make_namespace("a"), make_namespace("ab")).snapshot
        commit_objects(metastore, base, make_table("ab", "new"))
        scans = frozenset([ObjectRange(Kind.TABLE, NamespaceLocator("a"))])
        after = commit_objects(
            metastore, base, make_table("a", "x"), scans=scans, isolation=Isolation.SERIALIZABLE
        ).snapshot
        assert after.version == base.version + 2

    @pytest.mark.parametrize("have_changed", [False, True])
    @pytest.mark.parametrize("isolation", list(Isolation))
    def test_rows_are_compared_if_their_stream_was_written_and_only_then(
        self, metastore: Metastore, isolation: Isolation, have_changed: bool
    ) -> None:
        compared: list[tuple[RowRange, set[PartitionLocator], int, int]] = []

        def compare(
            rows: RowRange,
            partitions: Collection[PartitionLocator],
            before: MetastoreSnapshot,
            after: MetastoreSnapshot,
        ) -> bool:
            compared.append((rows, set(partitions), before.version, after.version))
            return have_changed

        read, guarded = RowRange(PARTITION.parent, IsNull(1)), RowRange(PARTITION.parent, IsNull(2))
        elsewhere = RowRange(replace(PARTITION.parent, stream_id="another"))
        base = commit_objects(
            metastore, metastore.latest(), make_namespace("n"), (PARTITION, Partition("partition-id"))
        ).snapshot
        commit_objects(metastore, base, make_namespace("m"))
        changes = Changes(
            make_id(),
            puts=dict([make_namespace("o")]),
            rows_read=frozenset([read, elsewhere]),
            rows_guarded=frozenset([guarded]),
        )
        committed = metastore.commit(base, changes, isolation, compare).snapshot
        assert not compared
        last = commit_objects(metastore, committed, make_delta(PARTITION, 1)).snapshot
        expected = [guarded] if isolation is Isolation.SNAPSHOT else [read, guarded]
        late = replace(changes, transaction_id=make_id(), puts=dict([make_namespace("p")]))
        if have_changed:
            with pytest.raises(ConflictError, match=f"in version {last.version}"):
                metastore.commit(committed, late, isolation, compare)
            expected = expected[:1]
        else:
            assert metastore.commit(committed, late, isolation, compare).snapshot.version == last.version + 1
        assert compared == [(rows, {PARTITION}, committed.version, last.version) for rows in expected]

    @pytest.mark.parametrize("isolation", list(Isolation))
    def test_creating_a_table_in_a_concurrently_dropped_namespace_conflicts(
        self, metastore: Metastore, isolation: Isolation
    ) -> None:
        base = commit_objects(metastore, metastore.latest(), make_namespace("sales")).snapshot
        commit_objects(metastore, base, deletes=frozenset([NamespaceLocator("sales")]))
        guards = frozenset([NamespaceLocator("sales")])
        with pytest.raises(ConflictError, match="namespace sales"):
            commit_objects(metastore, base, make_table("sales", "orders"), guards=guards, isolation=isolation)

    @pytest.mark.parametrize("isolation", list(Isolation))
    def test_dropping_a_namespace_conflicts_with_a_concurrent_table_creation_in_it(
        self, metastore: Metastore, isolation: Isolation
    ) -> None:
        base = commit_objects(metastore, metastore.latest(), make_namespace("sales")).snapshot
        commit_objects(metastore, base, make_table("sales", "orders"))
        below = frozenset([ObjectRange(Kind.TABLE, NamespaceLocator("sales"))])
        with pytest.raises(ConflictError, match=r"sales\.orders"):
            commit_objects(
                metastore, base, deletes=frozenset([NamespaceLocator("sales")]), guards=below, isolation=isolation
            )

    def test_deltas_of_concurrent_transactions_get_consecutive_positions(self, metastore: Metastore) -> None:
        base = commit_objects(metastore, metastore.latest(), (PARTITION, Partition("partition-id"))).snapshot
        commit_objects(
            metastore, base, make_delta(PARTITION, 1, writer="first"), make_delta(PARTITION, 2, writer="first")
        )
        second = commit_objects(
            metastore, base, make_delta(PARTITION, 1, writer="second"), make_delta(PARTITION, 2, writer="second")
        )
        assert sorted(locator.parts[-1] for locator in second.changes.puts) == [3, 4]
        found = [
            (value.position, value.properties["writer"])
            for _, value in second.snapshot.children(Kind.DELTA, PARTITION)
            if isinstance(value, Delta)
        ]
        assert found == [(1, "first"), (2, "first"), (3, "second"), (4, "second")]
        last = second.snapshot.last_child(Kind.DELTA, PARTITION)
        assert last == make_delta_locator(PARTITION, 4)

    def test_writing_just_what_a_concurrent_commit_wrote_is_no_conflict(self, metastore: Metastore) -> None:
        base = metastore.latest()
        same = (PARTITION, Partition("partition-id", ("x",)))
        commit_objects(metastore, base, same, make_delta(PARTITION, 1))
        after = commit_objects(metastore, base, same, make_delta(PARTITION, 1)).snapshot
        assert len(list(after.children(Kind.DELTA, PARTITION))) == 2

    def test_making_a_partition_agrees_with_what_concurrent_commits_did_to_it_after_they_made_it(
        self, metastore: Metastore
    ) -> None:
        base = metastore.latest()
        made = (PARTITION, Partition("partition-id", ("x",)))
        rewritten = Partition("partition-id", ("x",), properties={"rewritten-by": "another writer"})
        first = commit_objects(metastore, base, made, make_delta(PARTITION, 1)).snapshot
        commit_objects(metastore, first, (PARTITION, rewritten), make_delta(PARTITION, 2))
        after = commit_objects(metastore, base, made, make_delta(PARTITION, 1)).snapshot
        assert after.get(PARTITION) == rewritten
        assert len(list(after.children(Kind.DELTA, PARTITION))) == 3

    def test_rewriting_a_partition_conflicts_with_a_concurrent_rewrite_but_not_with_its_creation(
        self, metastore: Metastore
    ) -> None:
        base = metastore.latest()
        commit_objects(metastore, base, (PARTITION, Partition("partition-id", ("x",))), make_delta(PARTITION, 1))
        mine = Partition("partition-id", ("x",), properties={"rewritten-by": "me"})
        after = commit_objects(metastore, base, (PARTITION, mine), make_delta(PARTITION, 1)).snapshot
        assert after.get(PARTITION) == mine
        other = Partition("partition-id", ("x",), properties={"rewritten-by": "another"})
        with pytest.raises(ConflictError, match="partition"):
            commit_objects(metastore, base, (PARTITION, other), make_delta(PARTITION, 1))

    def test_concurrent_changes_of_the_lakehouse_definition_conflict(self, metastore: Metastore) -> None:
        base = metastore.latest()
        settings = replace(base.settings, name="renamed")
        after = commit_objects(metastore, base, settings=settings).snapshot
        assert after.settings.name == "renamed"
        assert metastore.at_version(0).settings.name != "renamed"
        with pytest.raises(ConflictError, match="definition"):
            commit_objects(metastore, base, settings=settings)
        assert commit_objects(metastore, base, make_namespace("sales")).snapshot.settings.name == "renamed"

    def test_concurrent_commits_of_threads_lose_nothing(self, metastore: Metastore) -> None:
        newest = _commit_by_threads(metastore, 20)
        assert newest.version == 81
        assert len(list_table_names(newest, "sales")) == 80


class _RebasingMetastore:
    """A metastore that rebases changes on the newest version in memory before it commits them."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metastore, name)

    def commit(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> CommitResult:
        newest, rebased = self._metastore.rebase(base, changes, isolation, have_rows_changed)
        return self._metastore.commit(newest, rebased, isolation, have_rows_changed)


class RebaseContract(IsolationContract):
    """The isolation tests for changes that are rebased before their commit, as a group commit does."""

    @pytest.fixture
    def metastore(self, make_metastore: MakeMetastore, effects: Effects) -> Any:
        """Return a new, empty metastore that rebases before each commit."""
        return _RebasingMetastore(make_metastore(effects))

    def test_rebased_changes_are_based_on_the_newest_version_in_memory(self, metastore: Metastore) -> None:
        base = commit_objects(metastore, metastore.latest(), make_namespace("sales")).snapshot
        newest = commit_objects(metastore, base, make_table("sales", "a")).snapshot
        changes = Changes(make_id(), puts=dict([make_table("sales", "b")]))
        for older in (base, newest):
            snapshot, rebased = metastore.rebase(older, changes, Isolation.SERIALIZABLE)
            assert (snapshot.version, rebased) == (newest.version, changes)

    def test_versions_of_other_processes_are_read_for_a_rebase(
        self, make_metastore: MakeMetastore, metastore: Metastore, effects: Effects
    ) -> None:
        base = commit_objects(metastore, metastore.latest(), make_namespace("sales")).snapshot
        other = make_metastore(effects)
        for name in "abc":
            commit_objects(other, other.latest(), make_table("sales", name))
        metastore.latest()
        changes = Changes(make_id(), puts=dict([make_table("sales", "b")]))
        with pytest.raises(ConflictError, match=r"sales\.b"):
            metastore.rebase(base, changes, Isolation.SNAPSHOT)


class _IntentMetastore:
    """A metastore that publishes each transaction as an intent, on the version on which it began."""

    def __init__(self, metastore: Metastore, effects: Effects) -> None:
        self._metastore = metastore
        self._effects = effects

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metastore, name)

    def commit(
        self,
        base: MetastoreSnapshot,
        changes: Changes,
        isolation: Isolation,
        have_rows_changed: RowChangeDetector = assume_rows_changed,
    ) -> CommitResult:
        process = ProcessGroupCommitter(self._effects, self._metastore, is_contended=True)
        return process.commit(base, changes, isolation, have_rows_changed)


class IntentContract(IsolationContract):
    """The isolation tests for transactions that are published as intents."""

    @pytest.fixture
    def metastore(self, make_metastore: MakeMetastore, effects: Effects) -> Any:
        """Return a new, empty metastore whose transactions are published as intents."""
        metastore = make_metastore(effects)
        first = metastore.latest()
        properties = {**first.settings.properties, INTENTS_PROPERTY: "true"}
        commit_objects(metastore, first, settings=replace(first.settings, properties=properties))
        return _IntentMetastore(metastore, effects)

    def test_concurrent_commits_of_threads_lose_nothing(self, metastore: Metastore) -> None:
        newest = _commit_by_threads(metastore, 10)
        assert len(list_table_names(newest, "sales")) == 40
        assert sum(len(commit.transactions) for commit in metastore.history() if commit.version > 2) == 40


class MetastoreContract(IsolationContract):
    """Tests of the metastore contract; inherit from this in a test module and override the fixture `make_metastore`."""

    def test_a_new_lakehouse_is_version_0_and_empty(self, metastore: Metastore) -> None:
        newest = metastore.latest()
        assert newest.version == 0
        assert list(newest.children(Kind.NAMESPACE, None)) == []
        assert newest.settings.order == 128

    def test_only_one_commit_takes_the_next_version_and_the_other_is_not_rebased(self, metastore: Metastore) -> None:
        base = commit_objects(metastore, metastore.latest(), make_namespace("sales")).snapshot
        first = metastore.commit_next(base, Changes(make_id(), puts=dict([make_table("sales", "a")])))
        assert first is not None
        assert first.snapshot.version == base.version + 1
        assert metastore.commit_next(base, Changes(make_id(), puts=dict([make_table("sales", "b")]))) is None
        assert list_table_names(metastore.latest(), "sales") == ["a"]

    def test_later_versions_are_read_up_to_the_newest(
        self, make_metastore: MakeMetastore, metastore: Metastore, effects: Effects
    ) -> None:
        base, other = metastore.latest(), make_metastore(effects)
        assert list(metastore.load_later(base, 2)) == []
        for name in ("a", "b", "c"):
            commit_objects(other, other.latest(), make_namespace(name))
        for count, expected in ((1, [1]), (2, [1, 2]), (4, [1, 2, 3])):
            assert [one.version for one in metastore.load_later(base, count)] == expected
        assert metastore.latest_since(0) is not None

    def test_changes_are_affected_by_every_write_that_concerns_them_and_stay_affected(
        self, metastore: Metastore
    ) -> None:
        space, table = make_namespace("sales"), make_table("sales", "a")
        base = commit_objects(metastore, metastore.latest(), space, table).snapshot
        appended = commit_objects(metastore, base, make_delta(PARTITION, 1)).snapshot
        later = [
            appended,
            commit_objects(metastore, appended, (table[0], replace(table[1], properties={"a": "b"}))).snapshot,
        ]
        later.append(commit_objects(metastore, later[-1], table).snapshot)
        append = Changes(make_id(), puts=dict([make_delta(PARTITION, 1)]))
        reads = replace(append, reads=frozenset([table[0]]))
        rows = replace(append, rows_guarded=frozenset([RowRange(PARTITION.parent)]))
        snapshot, serializable = Isolation.SNAPSHOT, Isolation.SERIALIZABLE
        for changes, isolation, affected in (
            (append, serializable, [False, False, False]),
            (reads, snapshot, [False, False, False]),
            (reads, serializable, [False, True, True]),
            (rows, snapshot, [True, True, True]),
            (Changes(make_id(), puts=dict([table])), snapshot, [False, True, True]),
        ):
            found = [metastore.is_affected(base, later[: count + 1], changes, isolation) for count in range(3)]
            assert found == affected
        later.append(commit_objects(metastore, later[-1], make_namespace("other")).snapshot)
        assert metastore.is_affected(base, later, append, snapshot)

    def test_a_put_object_exists_from_the_next_version_on(self, metastore: Metastore) -> None:
        before = metastore.latest()
        locator, value = make_namespace("sales", properties={"owner": "ana"}, description="What we sold")
        after = commit_objects(metastore, before, (locator, value)).snapshot
        assert (before.version, after.version) == (0, 1)
        assert after.get(locator) == value
        assert before.get(locator) is None
        assert metastore.at_version(0).get(locator) is None

    def test_a_newly_opened_metastore_reads_committed_objects(
        self, make_metastore: MakeMetastore, metastore: Metastore, effects: Effects
    ) -> None:
        locator, value = make_namespace("sales")
        commit_objects(metastore, metastore.latest(), (locator, value))
        other = make_metastore(build_deterministic_effects(effects.store, first_id=10**6))
        assert other.latest().get(locator) == value
        sales = make_table("sales", "orders", value.id)
        commit_objects(other, other.latest(), sales)
        assert metastore.latest().get(sales[0]) == sales[1]

    def test_every_kind_of_object_round_trips(self, metastore: Metastore) -> None:
        version = TableVersionLocator("home", "table-id", 1)
        stream = StreamLocator("home", "table-id", 1, "stream-id")
        objects: dict[Locator, Object] = dict(
            [
                make_namespace("sales"),
                make_table("sales", "orders", properties={"a": "b"}),
                (ViewLocator("sales", "daily"), ViewEntry(make_id(), "daily", "select 1", reads=("sales.orders",))),
                (version, TableVersion(1, None, latest_stream_id="stream-id")),
                (stream, Stream("stream-id")),
                (PARTITION, Partition("partition-id", ("2026-11-15", 7, None))),
            ]
        )
        locator, value = make_delta(PARTITION, 1, note="first")
        after = commit_objects(metastore, metastore.latest(), *objects.items(), (locator, value)).snapshot
        assert {found: after.get(found) for found in objects} == objects
        stored = after.get(locator)
        assert isinstance(stored, Delta)
        assert (stored.type, stored.properties, stored.position) == (value.type, value.properties, 1)
        assert after.get_many([*objects, locator, NamespaceLocator("nowhere")]) == [*objects.values(), stored, None]

    def test_a_deleted_object_remains_in_earlier_versions(self, metastore: Metastore) -> None:
        sales, orders = make_namespace("sales"), make_table("sales", "orders")
        before = commit_objects(metastore, metastore.latest(), sales, orders).snapshot
        after = commit_objects(metastore, before, deletes=frozenset([orders[0]])).snapshot
        assert after.get(orders[0]) is None
        assert list_table_names(after, "sales") == []
        assert list_table_names(metastore.at_version(before.version), "sales") == ["orders"]

    def test_children_are_listed_in_order_by_prefix_and_page(self, metastore: Metastore) -> None:
        names = [f"t{number:03d}" for number in range(120)] + ["other"]
        after = commit_objects(
            metastore, metastore.latest(), make_namespace("sales"), *(make_table("sales", name) for name in names)
        ).snapshot
        assert list_table_names(after, "sales") == sorted(names)
        assert list_table_names(after, "sales", prefix="t00") == [f"t00{digit}" for digit in range(10)]
        assert list_table_names(after, "sales", after=TableLocator("sales", "t117")) == ["t118", "t119"]
        assert list_table_names(after, "sales", prefix="t01", after=TableLocator("sales", "t018")) == ["t019"]

    def test_children_of_many_parents_equal_the_children_of_each(self, metastore: Metastore) -> None:
        partitions = [replace(PARTITION, partition_id=f"p{number:03d}") for number in range(40)]
        snapshot = metastore.latest()
        for position in (1, 2):
            deltas = [make_delta(one, position, of=one.partition_id) for one in partitions[position::3]]
            snapshot = commit_objects(
                metastore, snapshot, *deltas, *((one, Partition(one.partition_id)) for one in partitions)
            ).snapshot
        for requested in (partitions, partitions[30:2:-7], partitions[:1], []):
            alone = [found for one in sorted(requested) for found in snapshot.children(Kind.DELTA, one)]
            assert list(snapshot.children_of(Kind.DELTA, requested)) == alone
            last = [snapshot.last_child(Kind.DELTA, one) for one in requested]
            assert snapshot.last_children(Kind.DELTA, requested) == last
        assert len(list(snapshot.children_of(Kind.DELTA, partitions))) == 13 + 13
        assert list(snapshot.children_of(Kind.DELTA, partitions[:1] * 2)) == []

    def test_listing_a_namespace_returns_only_its_tables(self, metastore: Metastore) -> None:
        spaces = ["a", "ab", "a-b", "b", "ä", "表"]
        after = commit_objects(
            metastore,
            metastore.latest(),
            *(make_namespace(name) for name in spaces),
            *(make_table(name, f"in-{name}") for name in spaces),
        ).snapshot
        assert [locator.parts[0] for locator, _ in after.children(Kind.NAMESPACE, None)] == sorted(spaces)
        assert {name: list_table_names(after, name) for name in spaces} == {name: [f"in-{name}"] for name in spaces}

    def test_names_of_many_bytes_work_and_too_long_ones_are_refused(self, metastore: Metastore) -> None:
        long_name, too_long = "表" * 33, "表" * 34
        after = commit_objects(
            metastore, metastore.latest(), make_namespace("sales"), make_table("sales", long_name)
        ).snapshot
        assert list_table_names(after, "sales") == [long_name]
        with pytest.raises(InvalidInputError, match="100"):
            commit_objects(metastore, after, make_table("sales", too_long))
        assert metastore.latest().version == after.version

    def test_renaming_a_table_keeps_its_id(self, metastore: Metastore) -> None:
        (old, value), sales = make_table("sales", "orders"), make_namespace("sales")
        before = commit_objects(metastore, metastore.latest(), sales, (old, value)).snapshot
        new = TableLocator("sales", "purchases")
        renamed = TableEntry(value.id, value.namespace_id, "purchases")
        after = commit_objects(metastore, before, (new, renamed), deletes=frozenset([old])).snapshot
        assert (after.get(old), after.get(new)) == (None, renamed)
        assert before.get(old) == value

    def test_renaming_a_namespace_keeps_all_that_is_in_it(self, metastore: Metastore) -> None:
        (old, value) = make_namespace("sales")
        tables = [make_table("sales", name, value.id) for name in ("orders", "users")]
        before = commit_objects(metastore, metastore.latest(), (old, value), *tables).snapshot
        after = commit_objects(
            metastore, before, (NamespaceLocator("shop"), NamespaceEntry(value.id, "shop")), deletes=frozenset([old])
        ).snapshot
        assert list_table_names(after, "shop") == ["orders", "users"]
        assert after.get(TableLocator("shop", "users")) == tables[1][1]
        assert after.get(TableLocator("sales", "users")) is None
        assert list_table_names(metastore.at_version(before.version), "sales") == ["orders", "users"]
        more = commit_objects(metastore, after, make_table("shop", "stock", value.id)).snapshot
        assert list_table_names(more, "shop") == ["orders", "stock", "users"]

    def test_a_new_namespace_under_a_freed_name_is_empty(self, metastore: Metastore) -> None:
        (old, value) = make_namespace("sales")
        before = commit_objects(
            metastore, metastore.latest(), (old, value), make_table("sales", "orders", value.id)
        ).snapshot
        moved = commit_objects(
            metastore, before, (NamespaceLocator("shop"), NamespaceEntry(value.id, "shop")), deletes=frozenset([old])
        ).snapshot
        again = commit_objects(metastore, moved, make_namespace("sales"), make_table("sales", "fresh")).snapshot
        assert list_table_names(again, "sales") == ["fresh"]
        assert list_table_names(again, "shop") == ["orders"]

    def test_two_namespaces_can_swap_their_names(self, metastore: Metastore) -> None:
        (one, first), (two, second) = make_namespace("one"), make_namespace("two")
        before = commit_objects(
            metastore,
            metastore.latest(),
            (one, first),
            (two, second),
            make_table("one", "in-first"),
            make_table("two", "in-second"),
        ).snapshot
        after = commit_objects(
            metastore, before, (one, NamespaceEntry(second.id, "one")), (two, NamespaceEntry(first.id, "two"))
        ).snapshot
        assert list_table_names(after, "one") == ["in-second"]
        assert list_table_names(after, "two") == ["in-first"]

    def test_empty_changes_create_no_version(self, metastore: Metastore) -> None:
        assert commit_objects(metastore, metastore.latest()).snapshot.version == 0
        assert metastore.latest().version == 0

    def test_the_history_lists_authors_and_messages_newest_first(self, metastore: Metastore) -> None:
        made = [
            commit_objects(
                metastore,
                metastore.latest(),
                make_namespace(f"n{number}"),
                message=f"made {number}",
                author="ana",
                properties={"job": "nightly"},
            )
            for number in range(40)
        ]
        history = list(metastore.history())
        assert [line.version for line in history] == list(range(40, -1, -1))
        assert history[0].transaction_id == made[-1].changes.transaction_id
        assert (history[0].message, history[0].author) == ("made 39", "ana")
        assert history[0].properties == {"job": "nightly"}
        assert [line.version for line in metastore.history(before=3)] == [2, 1, 0]

    def test_time_travel_by_time_finds_the_newest_version_of_that_time(
        self, metastore: Metastore, clock: Clock
    ) -> None:
        clock.tick_millis = 1000
        clock.now_millis += 1000
        for number in range(30):
            commit_objects(metastore, metastore.latest(), make_namespace(f"n{number}"))
        times = {line.version: line.created_at_millis for line in metastore.history()}
        for version, millis in times.items():
            assert metastore.at_time(millis).version == version
            assert metastore.at_time(millis + 1).version == version
        assert metastore.at_time(times[30] + 10**9).version == 30
        with pytest.raises(NotFoundError, match="later time"):
            metastore.at_time(times[0] - 1)

    def test_times_grow_even_when_the_clock_jumps_back(self, metastore: Metastore, clock: Clock) -> None:
        for number in range(10):
            clock.now_millis -= 100_000
            commit_objects(metastore, metastore.latest(), make_namespace(f"n{number}"))
        times = [line.created_at_millis for line in metastore.history()]
        assert all(later > earlier for later, earlier in pairwise(times))

    @pytest.mark.parametrize("version", [-1, 2, 10**6])
    def test_a_missing_version_is_not_found(self, metastore: Metastore, version: int) -> None:
        commit_objects(metastore, metastore.latest(), make_namespace("sales"))
        assert metastore.at_version(1).version == 1
        with pytest.raises(NotFoundError, match="version"):
            metastore.at_version(version)


def _commit_by_threads(metastore: Metastore, count: int) -> MetastoreSnapshot:
    """Create this many tables in each of four threads, one commit each, and return the newest version."""
    commit_objects(metastore, metastore.latest(), make_namespace("sales"))

    def work(worker: int) -> None:
        for number in range(count):
            commit_objects(metastore, metastore.latest(), make_table("sales", f"w{worker}-{number:02d}"))

    workers = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return metastore.latest()

"""How every layout's metastore keeps transactions apart: the part of the contract on rivals."""

import threading
from collections.abc import Callable
from typing import TypeAlias

import pytest

from mangrove.effects import Effects
from mangrove.errors import ConflictError
from mangrove.metastore import Isolation, Metastore, Scan
from mangrove.model.locators import Kind, NamespaceLocator
from mangrove.model.objects import Delta, Partition, Table
from mangrove.storage.memory import MemoryStore
from mangrove.testing.contract_objects import PARTITION, delta_at, delta_locator, names_of, namespace, put, table
from mangrove.testing.effects import Clock, repeatable_effects

__all__ = ["IsolationContract", "MakeMetastore"]

MakeMetastore: TypeAlias = Callable[[Effects], Metastore]
"""Makes a new lakehouse where the store has none, and opens the one that is there otherwise."""


class IsolationContract:
    """Inherited by the whole contract."""

    @pytest.fixture
    def make_metastore(self) -> MakeMetastore:
        """Return how the layout makes or opens its metastore."""
        raise AssertionError("override this fixture")

    @pytest.fixture
    def clock(self) -> Clock:
        """Return the clock that the metastore reads."""
        return Clock()

    @pytest.fixture
    def effects(self, clock: Clock) -> Effects:
        """Return the effects that the metastore is given."""
        return repeatable_effects(MemoryStore(), clock)

    @pytest.fixture
    def metastore(self, make_metastore: MakeMetastore, effects: Effects) -> Metastore:
        """Return a new, empty metastore."""
        return make_metastore(effects)

    def test_two_transactions_that_create_different_tables_both_stay(self, metastore: Metastore) -> None:
        base = put(metastore, metastore.latest(), namespace("sales")).snapshot
        put(metastore, base, table("sales", "a"))
        after = put(metastore, base, table("sales", "b")).snapshot
        assert names_of(after, "sales") == ["a", "b"]

    def test_a_conflict_names_the_object_the_rival_and_its_version(self, metastore: Metastore) -> None:
        base = put(metastore, metastore.latest(), namespace("sales")).snapshot
        rival = put(metastore, base, table("sales", "orders"))
        with pytest.raises(ConflictError) as caught:
            put(metastore, base, table("sales", "orders"))
        for part in ("sales.orders", rival.changes.transaction_id, f"version {rival.snapshot.version}", "repeat"):
            assert part in str(caught.value)
        assert metastore.latest().version == rival.snapshot.version

    @pytest.mark.parametrize("isolation", list(Isolation))
    def test_only_a_serializable_transaction_minds_that_what_it_read_was_changed(
        self, metastore: Metastore, isolation: Isolation
    ) -> None:
        read, written = table("sales", "read"), table("sales", "written")
        base = put(metastore, metastore.latest(), namespace("sales"), read).snapshot
        put(metastore, base, (read[0], Table(read[1].id, "home", "read", description="changed")))
        if isolation is Isolation.SNAPSHOT:
            assert put(metastore, base, written, reads=frozenset([read[0]]), isolation=isolation).snapshot.version == 3
        else:
            with pytest.raises(ConflictError, match=r"sales\.read"):
                put(metastore, base, written, reads=frozenset([read[0]]), isolation=isolation)

    @pytest.mark.parametrize("isolation", list(Isolation))
    def test_only_a_serializable_transaction_minds_a_new_table_in_what_it_listed(
        self, metastore: Metastore, isolation: Isolation
    ) -> None:
        base = put(metastore, metastore.latest(), namespace("sales"), namespace("other")).snapshot
        put(metastore, base, table("sales", "new"))
        scans = frozenset([Scan(Kind.TABLE, NamespaceLocator("sales"))])
        if isolation is Isolation.SNAPSHOT:
            assert put(metastore, base, table("other", "x"), scans=scans, isolation=isolation).snapshot.version == 3
        else:
            with pytest.raises(ConflictError, match=r"sales\.new"):
                put(metastore, base, table("other", "x"), scans=scans, isolation=isolation)

    def test_a_listing_is_not_disturbed_by_what_lies_elsewhere(self, metastore: Metastore) -> None:
        base = put(metastore, metastore.latest(), namespace("a"), namespace("ab")).snapshot
        put(metastore, base, table("ab", "new"))
        scans = frozenset([Scan(Kind.TABLE, NamespaceLocator("a"))])
        after = put(metastore, base, table("a", "x"), scans=scans, isolation=Isolation.SERIALIZABLE).snapshot
        assert after.version == 3

    @pytest.mark.parametrize("isolation", list(Isolation))
    def test_creating_in_a_namespace_that_was_dropped_meanwhile_is_refused(
        self, metastore: Metastore, isolation: Isolation
    ) -> None:
        base = put(metastore, metastore.latest(), namespace("sales")).snapshot
        put(metastore, base, deletes=frozenset([NamespaceLocator("sales")]))
        guards = frozenset([NamespaceLocator("sales")])
        with pytest.raises(ConflictError, match="namespace sales"):
            put(metastore, base, table("sales", "orders"), guards=guards, isolation=isolation)

    @pytest.mark.parametrize("isolation", list(Isolation))
    def test_dropping_a_namespace_in_which_a_table_was_created_meanwhile_is_refused(
        self, metastore: Metastore, isolation: Isolation
    ) -> None:
        base = put(metastore, metastore.latest(), namespace("sales")).snapshot
        put(metastore, base, table("sales", "orders"))
        below = frozenset([Scan(Kind.TABLE, NamespaceLocator("sales"))])
        with pytest.raises(ConflictError, match=r"sales\.orders"):
            put(metastore, base, deletes=frozenset([NamespaceLocator("sales")]), guards=below, isolation=isolation)

    def test_deltas_of_two_transactions_follow_each_other(self, metastore: Metastore) -> None:
        base = put(metastore, metastore.latest(), (PARTITION, Partition("partition-id"))).snapshot
        put(metastore, base, delta_at(PARTITION, 1, writer="first"), delta_at(PARTITION, 2, writer="first"))
        second = put(metastore, base, delta_at(PARTITION, 1, writer="second"), delta_at(PARTITION, 2, writer="second"))
        assert sorted(way.parts[-1] for way in second.changes.puts) == [3, 4]
        found = [
            (value.position, value.properties["writer"])
            for _, value in second.snapshot.children(Kind.DELTA, PARTITION)
            if isinstance(value, Delta)
        ]
        assert found == [(1, "first"), (2, "first"), (3, "second"), (4, "second")]
        last = second.snapshot.last_child(Kind.DELTA, PARTITION)
        assert last == delta_locator(PARTITION, 4)

    def test_writing_just_what_a_rival_wrote_is_no_conflict(self, metastore: Metastore) -> None:
        base = metastore.latest()
        same = (PARTITION, Partition("partition-id", ("x",)))
        put(metastore, base, same, delta_at(PARTITION, 1))
        after = put(metastore, base, same, delta_at(PARTITION, 1)).snapshot
        assert len(list(after.children(Kind.DELTA, PARTITION))) == 2

    def test_making_a_partition_agrees_with_what_rivals_did_to_it_after_they_made_it(
        self, metastore: Metastore
    ) -> None:
        base = metastore.latest()
        made = (PARTITION, Partition("partition-id", ("x",)))
        rewritten = Partition("partition-id", ("x",), properties={"rewritten-by": "rival"})
        first = put(metastore, base, made, delta_at(PARTITION, 1)).snapshot
        put(metastore, first, (PARTITION, rewritten), delta_at(PARTITION, 2))
        after = put(metastore, base, made, delta_at(PARTITION, 1)).snapshot
        assert after.get(PARTITION) == rewritten
        assert len(list(after.children(Kind.DELTA, PARTITION))) == 3

    def test_rewriting_a_new_partition_follows_who_made_it_and_not_who_rewrote_it(self, metastore: Metastore) -> None:
        base = metastore.latest()
        put(metastore, base, (PARTITION, Partition("partition-id", ("x",))), delta_at(PARTITION, 1))
        mine = Partition("partition-id", ("x",), properties={"rewritten-by": "me"})
        after = put(metastore, base, (PARTITION, mine), delta_at(PARTITION, 1)).snapshot
        assert after.get(PARTITION) == mine
        other = Partition("partition-id", ("x",), properties={"rewritten-by": "another"})
        with pytest.raises(ConflictError, match="partition"):
            put(metastore, base, (PARTITION, other), delta_at(PARTITION, 1))

    def test_the_lakehouses_own_definition_has_one_writer_at_a_time(self, metastore: Metastore) -> None:
        base = metastore.latest()
        settings = base.settings.__class__(name="renamed")
        after = put(metastore, base, settings=settings).snapshot
        assert after.settings.name == "renamed"
        assert metastore.at_version(0).settings.name != "renamed"
        with pytest.raises(ConflictError, match="definition"):
            put(metastore, base, settings=settings)
        assert put(metastore, base, namespace("sales")).snapshot.settings.name == "renamed"

    def test_threads_that_commit_at_once_lose_nothing(self, metastore: Metastore) -> None:
        put(metastore, metastore.latest(), namespace("sales"))

        def work(worker: int) -> None:
            for number in range(20):
                put(metastore, metastore.latest(), table("sales", f"w{worker}-{number:02d}"))

        workers = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        newest = metastore.latest()
        assert newest.version == 81
        assert len(names_of(newest, "sales")) == 80

"""What every layout's metastore must do: one suite of tests that each of them runs."""

from dataclasses import replace
from itertools import pairwise

import pytest

from mangrove.effects import Effects
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.metastore import Metastore
from mangrove.model.locators import (
    Kind,
    Locator,
    NamespaceLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.objects import (
    Delta,
    Namespace,
    Object,
    Partition,
    Stream,
    Table,
    TableVersion,
    View,
)
from mangrove.testing.contract_objects import PARTITION, delta_at, fresh_id, names_of, namespace, put, table
from mangrove.testing.effects import Clock, repeatable_effects
from mangrove.testing.isolation_contract import IsolationContract, MakeMetastore

__all__ = ["MakeMetastore", "MetastoreContract", "delta_at", "namespace", "put", "table"]


class MetastoreContract(IsolationContract):
    """Inherit from this in a test module, and override `make_metastore` with a fixture of the layout's own."""

    def test_a_new_lakehouse_is_version_0_and_empty(self, metastore: Metastore) -> None:
        newest = metastore.latest()
        assert newest.version == 0
        assert list(newest.children(Kind.NAMESPACE, None)) == []
        assert newest.settings.order == 128

    def test_what_was_put_is_there_in_the_next_version_and_not_in_the_one_before(self, metastore: Metastore) -> None:
        before = metastore.latest()
        way, value = namespace("sales", properties={"owner": "ana"}, description="What we sold")
        after = put(metastore, before, (way, value)).snapshot
        assert (before.version, after.version) == (0, 1)
        assert after.get(way) == value
        assert before.get(way) is None
        assert metastore.at_version(0).get(way) is None

    def test_another_opener_sees_what_was_committed(
        self, make_metastore: MakeMetastore, metastore: Metastore, effects: Effects
    ) -> None:
        way, value = namespace("sales")
        put(metastore, metastore.latest(), (way, value))
        other = make_metastore(repeatable_effects(effects.store, first_id=10**6))
        assert other.latest().get(way) == value
        sales = table("sales", "orders", value.id)
        put(other, other.latest(), sales)
        assert metastore.latest().get(sales[0]) == sales[1]

    def test_every_kind_of_object_comes_back_as_it_was(self, metastore: Metastore) -> None:
        version = TableVersionLocator("home", "table-id", 1)
        stream = StreamLocator("home", "table-id", 1, "stream-id")
        objects: dict[Locator, Object] = dict(
            [
                namespace("sales"),
                table("sales", "orders", properties={"a": "b"}),
                (ViewLocator("sales", "daily"), View(fresh_id(), "daily", "select 1", reads=("sales.orders",))),
                (version, TableVersion(1, None, latest_stream_id="stream-id")),
                (stream, Stream("stream-id")),
                (PARTITION, Partition("partition-id", ("2026-11-15", 7, None))),
            ]
        )
        way, value = delta_at(PARTITION, 1, note="first")
        after = put(metastore, metastore.latest(), *objects.items(), (way, value)).snapshot
        assert {found: after.get(found) for found in objects} == objects
        stored = after.get(way)
        assert isinstance(stored, Delta)
        assert (stored.type, stored.properties, stored.position) == (value.type, value.properties, 1)
        assert after.get_many([*objects, way, NamespaceLocator("nowhere")]) == [*objects.values(), stored, None]

    def test_what_was_deleted_is_gone_and_stays_in_the_versions_before(self, metastore: Metastore) -> None:
        sales, orders = namespace("sales"), table("sales", "orders")
        before = put(metastore, metastore.latest(), sales, orders).snapshot
        after = put(metastore, before, deletes=frozenset([orders[0]])).snapshot
        assert after.get(orders[0]) is None
        assert names_of(after, "sales") == []
        assert names_of(metastore.at_version(before.version), "sales") == ["orders"]

    def test_children_come_in_order_with_prefix_and_paging(self, metastore: Metastore) -> None:
        names = [f"t{number:03d}" for number in range(120)] + ["other"]
        after = put(
            metastore, metastore.latest(), namespace("sales"), *(table("sales", name) for name in names)
        ).snapshot
        assert names_of(after, "sales") == sorted(names)
        assert names_of(after, "sales", prefix="t00") == [f"t00{digit}" for digit in range(10)]
        assert names_of(after, "sales", after=TableLocator("sales", "t117")) == ["t118", "t119"]
        assert names_of(after, "sales", prefix="t01", after=TableLocator("sales", "t018")) == ["t019"]

    def test_what_lies_below_many_parents_is_what_lies_below_each(self, metastore: Metastore) -> None:
        partitions = [replace(PARTITION, partition_id=f"p{number:03d}") for number in range(40)]
        snapshot = metastore.latest()
        for position in (1, 2):
            deltas = [delta_at(one, position, of=one.partition_id) for one in partitions[position::3]]
            snapshot = put(
                metastore, snapshot, *deltas, *((one, Partition(one.partition_id)) for one in partitions)
            ).snapshot
        for asked in (partitions, partitions[30:2:-7], partitions[:1], []):
            alone = [found for one in sorted(asked) for found in snapshot.children(Kind.DELTA, one)]
            assert list(snapshot.children_of(Kind.DELTA, asked)) == alone
            last = [snapshot.last_child(Kind.DELTA, one) for one in asked]
            assert snapshot.last_children(Kind.DELTA, asked) == last
        assert len(list(snapshot.children_of(Kind.DELTA, partitions))) == 13 + 13
        assert list(snapshot.children_of(Kind.DELTA, partitions[:1] * 2)) == []

    def test_listing_one_namespace_never_shows_anothers_tables(self, metastore: Metastore) -> None:
        spaces = ["a", "ab", "a-b", "b", "ä", "表"]
        after = put(
            metastore,
            metastore.latest(),
            *(namespace(name) for name in spaces),
            *(table(name, f"in-{name}") for name in spaces),
        ).snapshot
        assert [way.parts[0] for way, _ in after.children(Kind.NAMESPACE, None)] == sorted(spaces)
        assert {name: names_of(after, name) for name in spaces} == {name: [f"in-{name}"] for name in spaces}

    def test_names_of_many_bytes_work_and_too_long_ones_are_refused(self, metastore: Metastore) -> None:
        long_name, too_long = "表" * 33, "表" * 34
        after = put(metastore, metastore.latest(), namespace("sales"), table("sales", long_name)).snapshot
        assert names_of(after, "sales") == [long_name]
        with pytest.raises(InvalidInputError, match="100"):
            put(metastore, after, table("sales", too_long))
        assert metastore.latest().version == after.version

    def test_renaming_a_table_keeps_its_id(self, metastore: Metastore) -> None:
        (old, value), sales = table("sales", "orders"), namespace("sales")
        before = put(metastore, metastore.latest(), sales, (old, value)).snapshot
        new = TableLocator("sales", "purchases")
        renamed = Table(value.id, value.namespace_id, "purchases")
        after = put(metastore, before, (new, renamed), deletes=frozenset([old])).snapshot
        assert (after.get(old), after.get(new)) == (None, renamed)
        assert before.get(old) == value

    def test_renaming_a_namespace_keeps_all_that_is_in_it(self, metastore: Metastore) -> None:
        (old, value) = namespace("sales")
        tables = [table("sales", name, value.id) for name in ("orders", "users")]
        before = put(metastore, metastore.latest(), (old, value), *tables).snapshot
        after = put(
            metastore, before, (NamespaceLocator("shop"), Namespace(value.id, "shop")), deletes=frozenset([old])
        ).snapshot
        assert names_of(after, "shop") == ["orders", "users"]
        assert after.get(TableLocator("shop", "users")) == tables[1][1]
        assert after.get(TableLocator("sales", "users")) is None
        assert names_of(metastore.at_version(before.version), "sales") == ["orders", "users"]
        more = put(metastore, after, table("shop", "stock", value.id)).snapshot
        assert names_of(more, "shop") == ["orders", "stock", "users"]

    def test_a_new_namespace_under_a_freed_name_is_empty(self, metastore: Metastore) -> None:
        (old, value) = namespace("sales")
        before = put(metastore, metastore.latest(), (old, value), table("sales", "orders", value.id)).snapshot
        moved = put(
            metastore, before, (NamespaceLocator("shop"), Namespace(value.id, "shop")), deletes=frozenset([old])
        ).snapshot
        again = put(metastore, moved, namespace("sales"), table("sales", "fresh")).snapshot
        assert names_of(again, "sales") == ["fresh"]
        assert names_of(again, "shop") == ["orders"]

    def test_two_namespaces_can_swap_their_names(self, metastore: Metastore) -> None:
        (one, first), (two, second) = namespace("one"), namespace("two")
        before = put(
            metastore,
            metastore.latest(),
            (one, first),
            (two, second),
            table("one", "in-first"),
            table("two", "in-second"),
        ).snapshot
        after = put(metastore, before, (one, Namespace(second.id, "one")), (two, Namespace(first.id, "two"))).snapshot
        assert names_of(after, "one") == ["in-second"]
        assert names_of(after, "two") == ["in-first"]

    def test_changes_of_nothing_make_no_version(self, metastore: Metastore) -> None:
        assert put(metastore, metastore.latest()).snapshot.version == 0
        assert metastore.latest().version == 0

    def test_the_history_says_who_did_what_newest_first(self, metastore: Metastore) -> None:
        made = [
            put(
                metastore,
                metastore.latest(),
                namespace(f"n{number}"),
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

    def test_a_time_names_the_version_that_was_the_newest_then(self, metastore: Metastore, clock: Clock) -> None:
        clock.tick_millis = 1000
        clock.now_millis += 1000
        for number in range(30):
            put(metastore, metastore.latest(), namespace(f"n{number}"))
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
            put(metastore, metastore.latest(), namespace(f"n{number}"))
        times = [line.created_at_millis for line in metastore.history()]
        assert all(later > earlier for later, earlier in pairwise(times))

    @pytest.mark.parametrize("version", [-1, 2, 10**6])
    def test_a_version_that_is_not_there_is_not_found(self, metastore: Metastore, version: int) -> None:
        put(metastore, metastore.latest(), namespace("sales"))
        assert metastore.at_version(1).version == 1
        with pytest.raises(NotFoundError, match="version"):
            metastore.at_version(version)

"""Random histories of a lakehouse: what people do to one, drawn by hypothesis, committed through the port."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from mangrove.maintenance.convert_retelling import Kept
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    SharedTransactionLocator,
    StreamLocator,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.manifests import DataFile, Manifest
from mangrove.model.objects import (
    Namespace,
    Object,
    Table,
    View,
)
from mangrove.storage.port import Store
from mangrove.testing import strategies

__all__ = ["Story", "told"]

_NAMES = ("a", "b", "ä.b")
_KINDS = tuple(kind for kind in Kind if kind is not Kind.LAKEHOUSE)


@dataclass
class Story:
    """A lakehouse to which things happen."""

    draw: st.DrawFn
    store: Store
    metastore: Kept
    new_id: Callable[[], str]
    live: dict[Locator, Object] = field(default_factory=dict)

    def commit(self, puts: dict[Locator, Object], deletes: frozenset[Locator] = frozenset(), **more: object) -> None:
        """Commit changes with a message, an author and properties of their own."""
        settings = self.draw(st.none() | st.sampled_from(["x", "y"]))
        newest = self.metastore.latest()
        definition = newest.settings if settings is None else replace(newest.settings, properties={"set": settings})
        is_silent = not puts and not deletes
        changes = Changes(
            self.new_id(),
            puts=puts,
            deletes=deletes,
            settings=definition if settings is not None or is_silent else None,
            message=self.draw(st.sampled_from(["", "löad\n2"])),
            author=self.draw(st.sampled_from(["", "ana"])),
            properties=self.draw(st.sampled_from([{}, {"k": "v"}])),
            **more,  # type: ignore[arg-type]
        )
        self.metastore.commit(newest, changes, Isolation.SNAPSHOT)
        for locator in deletes:
            del self.live[locator]
        self.live |= puts

    def some(self, kind: type) -> list[Locator]:
        """Return what is there of a kind."""
        return sorted(locator for locator in self.live if isinstance(locator, kind))

    def one(self, kind: type) -> Locator | None:
        """Return one of a kind, if there is any."""
        found = self.some(kind)
        return self.draw(st.sampled_from(found)) if found else None

    def create_namespace(self) -> None:
        """Make a namespace, or say something else about one."""
        locator = NamespaceLocator(self.draw(st.sampled_from(_NAMES)))
        before = self.live.get(locator)
        made = self.draw(strategies.namespaces())
        object_id = before.id if isinstance(before, Namespace) else self.new_id()
        self.commit({locator: replace(made, id=object_id, name=locator.name)})

    def create_table(self) -> None:
        """Make a table with all that lies below one."""
        namespace = self.one(NamespaceLocator)
        if not isinstance(namespace, NamespaceLocator):
            return
        at = TableLocator(namespace.name, self.draw(st.sampled_from(_NAMES)))
        if at in self.live:
            return
        home = self.live[namespace]
        assert isinstance(home, Namespace)
        table_id, stream_id, partition_id = self.new_id(), self.new_id(), self.new_id()
        made = self.draw(strategies.tables())
        version = TableVersionLocator(home.id, table_id, 1)
        stream = StreamLocator(*version.parts, stream_id)  # type: ignore[arg-type, call-arg]
        partition = PartitionLocator(*stream.parts, partition_id)  # type: ignore[arg-type, call-arg]
        self.commit(
            {
                at: replace(made, id=table_id, namespace_id=home.id, name=at.name, latest_table_version=1),
                version: replace(self.draw(strategies.table_versions()), version=1, latest_stream_id=stream_id),
                stream: replace(self.draw(strategies.streams()), id=stream_id),
                partition: replace(self.draw(strategies.partitions()), id=partition_id),
            }
        )

    def append(self) -> None:
        """Add a delta of any type."""
        partition = self.one(PartitionLocator)
        if not isinstance(partition, PartitionLocator):
            return
        positions = [way.position for way in self.some(DeltaLocator) if way.parent == partition]
        position = max(positions, default=0) + self.draw(st.integers(1, 3))
        delta = self.draw(strategies.deltas())
        path = f"data/{self.new_id()}.parquet"
        self.store.put(path, b"rows")
        manifest = Manifest((DataFile(path, 4, 1),), id=self.new_id())
        way = DeltaLocator(*partition.parts, position)  # type: ignore[arg-type, call-arg]
        self.commit({way: replace(delta, manifest=manifest, position=position)})

    def delete_delta(self) -> None:
        """Take a delta away."""
        delta = self.one(DeltaLocator)
        if delta is not None:
            self.commit({}, frozenset([delta]))

    def create_view(self) -> None:
        """Make a view, or replace one."""
        namespace = self.one(NamespaceLocator)
        if isinstance(namespace, NamespaceLocator):
            at = ViewLocator(namespace.name, self.draw(st.sampled_from(["v", "w"])))
            before = self.live.get(at)
            made = self.draw(strategies.views())
            view_id = before.id if isinstance(before, View) else self.new_id()
            self.commit({at: replace(made, id=view_id, name=at.name)})

    def rename_table(self) -> None:
        """Give a table another name."""
        at = self.one(TableLocator)
        if not isinstance(at, TableLocator):
            return
        to = TableLocator(at.namespace, self.draw(st.sampled_from(_NAMES)))
        table = self.live[at]
        assert isinstance(table, Table)
        if to not in self.live:
            self.commit({to: replace(table, name=to.name)}, frozenset([at]))

    def rename_namespace(self) -> None:
        """Give a namespace another name, with all that lies in it."""
        at = self.one(NamespaceLocator)
        if not isinstance(at, NamespaceLocator):
            return
        to = NamespaceLocator(self.draw(st.sampled_from(_NAMES)))
        namespace = self.live[at]
        assert isinstance(namespace, Namespace)
        if to in self.live:
            return
        inside = [way for way in self.live if isinstance(way, TableLocator | ViewLocator) and way.namespace == at.name]
        puts: dict[Locator, Object] = {to: replace(namespace, name=to.name)}
        puts |= {replace(way, namespace=to.name): self.live[way] for way in inside}
        self.commit(puts, frozenset([at, *inside]))

    def drop_table(self) -> None:
        """Drop a table with all that lies below it."""
        at = self.one(TableLocator)
        if at is None:
            return
        table = self.live[at]
        assert isinstance(table, Table)
        below = [way for way in self.live if getattr(way, "table_id", None) == table.id]
        self.commit({}, frozenset([at, *below]))

    def begin_shared(self) -> None:
        """Begin a shared transaction on some version."""
        made = self.draw(strategies.shared_transactions())
        newest = self.metastore.latest().version
        base = self.draw(st.integers(0, newest))
        at = SharedTransactionLocator(self.draw(st.sampled_from(["s", "t"])))
        self.commit({at: replace(made, name=at.name, base_version=base)})

    def name_a_version(self) -> None:
        """Give a version a name."""
        newest = self.metastore.latest()
        named = {"year-end": f"#version={self.draw(st.integers(0, newest.version))}"}
        settings = replace(newest.settings, exported_snapshots=named)
        self.metastore.commit(newest, Changes(self.new_id(), settings=settings), Isolation.SNAPSHOT)

    def say_nothing(self) -> None:
        """Make a version that changes no object."""
        self.commit({})

    def roll_back(self) -> None:
        """Roll back to some version."""
        newest = self.metastore.latest().version
        target = self.metastore.at_version(self.draw(st.integers(0, newest)))
        self.metastore.roll_back(target, Changes(self.new_id(), message="back"))
        self.live = {}
        for kind in _KINDS:
            self.live |= dict(self.metastore.objects(target, kind))


_STEPS: tuple[Callable[[Story], None], ...] = (
    Story.create_namespace,
    Story.create_table,
    Story.create_table,
    Story.append,
    Story.append,
    Story.delete_delta,
    Story.create_view,
    Story.rename_table,
    Story.rename_namespace,
    Story.drop_table,
    Story.begin_shared,
    Story.name_a_version,
    Story.say_nothing,
    Story.roll_back,
)


@st.composite
def told(draw: st.DrawFn, store: Store, metastore: Kept, new_id: Callable[[], str]) -> Story:
    """Draw a history and commit it, one version for each thing that happens."""
    story = Story(draw, store, metastore, new_id)
    story.create_namespace()
    story.create_table()
    for step in draw(st.lists(st.sampled_from(_STEPS), max_size=10)):
        step(story)
    return story

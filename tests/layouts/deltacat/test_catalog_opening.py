"""Making and opening catalogs, and guards that are damaged."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.betree.node import Node
from mangrove.errors import AlreadyExistsError, FormatError, InvalidInputError, NotFoundError
from mangrove.layouts.deltacat.guards import decode_guard, encode_guard
from mangrove.layouts.deltacat.index import (
    TableDescendantLocator,
    decode_node,
    encode_node,
    key_of_locator,
    locator_from_key,
    name_key,
    name_of,
    range_below,
    range_of_kind,
)
from mangrove.layouts.deltacat.metastore import create_catalog, has_catalog, open_catalog
from mangrove.layouts.deltacat.msgpack_maps import decode_with_checksum, encode_with_checksum
from mangrove.layouts.deltacat.paths import VERSION_FOLDER, guard_path
from mangrove.layouts.deltacat.revision import DELTACAT_2, SEED, DeltaCatRevision
from mangrove.metastore import Changes, Isolation
from mangrove.model.locators import Kind, Locator, NamespaceLocator, TableLocator
from mangrove.model.objects import NamespaceEntry, TableEntry
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.testing.metastore_contract import commit_objects, make_namespace
from mangrove.testing.strategies import locators


@pytest.fixture(params=[SEED, DELTACAT_2], ids=["seed", "deltacat-2"])
def revision(request: pytest.FixtureRequest) -> DeltaCatRevision:
    assert isinstance(request.param, DeltaCatRevision)
    return request.param


def test_a_catalog_is_created_only_once_and_records_its_format_revision(revision: DeltaCatRevision) -> None:
    effects = build_deterministic_effects(MemoryStore())
    assert not has_catalog(effects.store)
    with pytest.raises(NotFoundError, match="no catalog"):
        open_catalog(effects)
    create_catalog(effects, LakehouseSettings(name="mine"), Changes("made", message="first"), revision)
    assert has_catalog(effects.store)
    with pytest.raises(AlreadyExistsError, match="already"):
        create_catalog(effects, LakehouseSettings(), Changes("again"), revision)
    opened = open_catalog(effects)
    assert opened.revision is revision
    assert opened.latest().settings.name == "mine"
    assert [line.message for line in opened.history()] == ["first"]


def test_the_seed_revision_is_the_default_and_has_the_specified_paths() -> None:
    effects = build_deterministic_effects(MemoryStore())
    catalog = create_catalog(effects, LakehouseSettings(), Changes("made"))
    assert catalog.revision is SEED
    unique = "20444dca-7e3d-4dd2-af70-23b8bc890966"
    puts = {
        NamespaceLocator("MyNamespace"): NamespaceEntry("ns-id", "MyNamespace"),
        TableLocator("MyNamespace", "MyTable"): TableEntry("t-id", "ns-id", "MyTable"),
    }
    catalog.commit(catalog.latest(), Changes(unique, puts=puts), Isolation.SNAPSHOT)  # type: ignore[arg-type]
    paths = [entry.path for entry in effects.store.list() if unique in entry.path]
    transaction = next(path for path in paths if path.startswith("txn/")).removeprefix("txn/")
    assert transaction.endswith(f"_{unique}")
    first = f"00000000000000000001_create_{transaction}"
    assert paths == sorted(
        [
            f"bf8e02bda063f4de2378ec304938c7b21fdf873f/{first}.ns-id",
            f"ns-id/1caf260945a7fc2b42a65815b669ca2526ecd126/{first}.t-id",
            f"ns-id/rev/{first}.mpk",
            f"ns-id/t-id/rev/{first}.mpk",
            f"txn/{transaction}",
        ]
    )
    assert effects.store.read(paths[0]) == b""


def test_a_snapshot_of_another_catalog_is_rejected_as_a_base(revision: DeltaCatRevision) -> None:
    one, two = (
        create_catalog(build_deterministic_effects(MemoryStore()), LakehouseSettings(), Changes("made"), revision)
        for _ in range(2)
    )
    with pytest.raises(InvalidInputError, match="another metastore"):
        commit_objects(one, two.latest(), make_namespace("sales"))


def test_versions_without_hint_and_first_guards_are_found_by_listing(revision: DeltaCatRevision) -> None:
    effects = build_deterministic_effects(MemoryStore())
    catalog = create_catalog(effects, LakehouseSettings(), Changes("made"), revision)
    for number in range(5):
        commit_objects(catalog, catalog.latest(), make_namespace(f"n{number}"))
    effects.store.delete_many(["mangrove/latest", guard_path(0), guard_path(1)])
    assert open_catalog(effects).latest().version == 5
    assert [line.version for line in open_catalog(effects).history()] == [5, 4, 3, 2]


@given(place=st.integers(0, 10**6), bit=st.integers(0, 7), is_cut=st.booleans())
def test_a_guard_or_node_with_one_changed_bit_is_refused_with_its_path(place: int, bit: int, is_cut: bool) -> None:
    effects = build_deterministic_effects(MemoryStore())
    create_catalog(effects, LakehouseSettings(), Changes("made"))
    guard = effects.store.read(guard_path(0))
    node = encode_node(Node(("a", "b"), ("1", "2")))
    assert encode_guard(decode_guard(guard, "p")) == guard
    assert encode_node(decode_node(node, "p")) == node
    reading: list[tuple[bytes, Callable[[bytes, str], object]]] = [(guard, decode_guard), (node, decode_node)]
    for sound, read in reading:
        damaged = bytearray(sound)
        damaged[place % len(sound)] ^= 1 << bit
        if is_cut:
            damaged = damaged[: place % len(sound)]
        with pytest.raises(FormatError, match="where/it/lies"):
            read(bytes(damaged), "where/it/lies")


def test_a_guard_of_a_later_release_is_rejected_with_a_remedy() -> None:
    effects = build_deterministic_effects(MemoryStore())
    create_catalog(effects, LakehouseSettings(), Changes("made"))
    (path,) = [entry.path for entry in effects.store.list(VERSION_FOLDER)]
    fields = decode_with_checksum(effects.store.read(path), path) | {"major_version": 2}
    effects.store.put(path, encode_with_checksum(fields))
    with pytest.raises(FormatError, match="use a newer release"):
        open_catalog(effects)


@given(locators())
def test_an_index_key_below_a_table_is_decoded_to_its_locator(locator: Locator) -> None:
    if isinstance(locator, TableDescendantLocator):
        assert locator_from_key(key_of_locator(locator)) == locator


@given(st.lists(locators(), max_size=8))
def test_keys_sort_as_locators_do(found: list[Locator]) -> None:
    below = [locator for locator in found if isinstance(locator, TableDescendantLocator)]
    assert [locator_from_key(key) for key in sorted(map(key_of_locator, below))] == sorted(below)


@given(locators())
def test_an_index_key_is_in_the_range_of_its_parent_and_kind(locator: Locator) -> None:
    if isinstance(locator, TableDescendantLocator):
        key = key_of_locator(locator)
        for first, end in (range_of_kind(locator.kind), range_below(locator.kind, locator.parent, "", "", None)):
            assert first <= key < end
        after = range_below(locator.kind, locator.parent, "", "", locator)
        assert not after.first <= key < after.end
    elif isinstance(locator, NamespaceLocator):
        key = name_key(Kind.NAMESPACE, "", locator.name)
        assert name_of(key) == locator.name
        found = range_below(Kind.NAMESPACE, None, "", locator.name[:1], None)
        assert found.first <= key < found.end

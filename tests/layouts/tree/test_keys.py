"""Proofs that tree keys are what the specification says, sort as their parts do, and never clash."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.tree.keys import (
    NEWER_KEYS,
    OLDER_KEYS,
    KeyEncoding,
    KeyNames,
    KeyParts,
    LocatorKeyCodec,
    NameSizes,
    Part,
    encode_schema_id,
    locator_of_parts,
    parts_of_locator,
)
from mangrove.model.locators import (
    AliasLocator,
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
from mangrove.model.names import ID_BYTES_MAX

SIZES = NameSizes(namespace_bytes_max=8, table_bytes_max=12)
ID = "6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8"
ENCODINGS = pytest.mark.parametrize("encoding", [NEWER_KEYS, OLDER_KEYS], ids=["newer", "older"])


def texts(bytes_max: int) -> st.SearchStrategy[str]:
    characters = st.one_of(
        st.sampled_from("!ab=BCDEJ~\u00ff\ud7ff\ue000\U0010ffff"),
        st.characters(exclude_categories=["Cs"], min_codepoint=0x21, exclude_characters=["/", "\x7f"]),
    )
    return st.text(characters, min_size=1, max_size=bytes_max).filter(lambda text: len(text.encode()) <= bytes_max)


NAMESPACES = texts(8)
TABLES = texts(12)
IDENTIFIERS = st.one_of(st.uuids().map(str), texts(ID_BYTES_MAX), st.sampled_from(["a", "ab", "b" * 36, "b" * 37]))
VERSIONS = st.integers(0, 10**20 - 1)
POSITIONS = st.integers(0, 10**20 - 1)

PARTS: dict[Kind, tuple[st.SearchStrategy[str] | st.SearchStrategy[int], ...]] = {
    Kind.NAMESPACE: (NAMESPACES,),
    Kind.TABLE: (NAMESPACES, TABLES),
    Kind.VIEW: (NAMESPACES, TABLES),
    Kind.SHARED_TRANSACTION: (IDENTIFIERS,),
    Kind.TABLE_VERSION: (IDENTIFIERS, VERSIONS),
    Kind.STREAM: (IDENTIFIERS, VERSIONS, IDENTIFIERS),
    Kind.PARTITION: (IDENTIFIERS, VERSIONS, IDENTIFIERS, IDENTIFIERS),
    Kind.DELTA: (IDENTIFIERS, VERSIONS, IDENTIFIERS, IDENTIFIERS, POSITIONS),
    Kind.ALIAS: (texts(8 + 1 + 12),),
}


def ways(*kinds: Kind) -> st.SearchStrategy[KeyParts]:
    def way(kind: Kind) -> st.SearchStrategy[KeyParts]:
        parts: st.SearchStrategy[tuple[Part, ...]] = st.tuples(*PARTS[kind])
        return parts.map(lambda drawn: KeyParts(kind, drawn))

    return st.sampled_from(kinds or tuple(PARTS)).flatmap(way)


@pytest.mark.parametrize(
    ("schema_id", "word"), [(0, "A==="), (1, "B==="), (2, "C==="), (3, "D==="), (4, "E==="), (8, "I===")]
)
def test_a_schema_id_is_one_character_of_the_base64_alphabet_with_padding(schema_id: int, word: str) -> None:
    assert encode_schema_id(schema_id) == word


@pytest.mark.parametrize(
    ("kind", "parts", "key"),
    [
        (Kind.NAMESPACE, ("default",), "B===default "),
        (Kind.TABLE, ("default", "table"), "C===default table   "),
        (Kind.VIEW, ("default", "daily"), "D===default daily   "),
        (Kind.SHARED_TRANSACTION, ("load",), "E===load" + " " * 33),
        (Kind.TABLE_VERSION, (ID, 1), f"F==={ID} 00000000000000000001"),
        (Kind.STREAM, (ID, 1, "s"), f"G==={ID} 00000000000000000001s" + " " * 36),
        (Kind.PARTITION, (ID, 1, ID, ID), f"H==={ID} 00000000000000000001{ID} {ID} "),
        (Kind.DELTA, (ID, 1, ID, ID, 42), f"I==={ID} 00000000000000000001{ID} {ID} 00000000000000000042"),
    ],
)
def test_the_newer_revision_puts_the_schema_id_first(kind: Kind, parts: tuple[Part, ...], key: str) -> None:
    assert NEWER_KEYS.key_of(kind, parts, NameSizes(8, 8)) == key


@pytest.mark.parametrize(
    ("kind", "parts", "key"),
    [
        (Kind.NAMESPACE, ("default",), " default B==="),
        (Kind.TABLE, ("default", "table"), " default table   D==="),
        (Kind.VIEW, ("default", "daily"), " J===default daily   J==="),
        (Kind.TABLE_VERSION, (ID, 1), f" F==={ID} 00000000000000000001F==="),
    ],
)
def test_the_older_revision_starts_with_a_space_and_ends_with_the_schema_id(
    kind: Kind, parts: tuple[Part, ...], key: str
) -> None:
    assert OLDER_KEYS.key_of(kind, parts, NameSizes(8, 8)) == key


@ENCODINGS
@given(way=ways())
def test_a_tree_key_round_trips_through_its_parts(encoding: KeyEncoding, way: KeyParts) -> None:
    assert encoding.parts_of(encoding.key_of(*way, SIZES), SIZES) == way


@ENCODINGS
@given(one=ways(), other=ways())
def test_two_objects_never_share_a_tree_key(encoding: KeyEncoding, one: KeyParts, other: KeyParts) -> None:
    assert (encoding.key_of(*one, SIZES) == encoding.key_of(*other, SIZES)) == (one == other)


@ENCODINGS
@given(st.data())
def test_tree_keys_of_one_kind_sort_as_their_parts_do(encoding: KeyEncoding, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(tuple(PARTS)))
    some = data.draw(st.lists(ways(kind), max_size=8))
    by_parts = sorted(some, key=lambda way: way.parts)
    assert sorted(some, key=lambda way: encoding.key_of(kind, way.parts, SIZES)) == by_parts
    assert sorted(some, key=lambda way: encoding.key_of(kind, way.parts, SIZES).encode()) == by_parts


@ENCODINGS
@given(st.data())
def test_a_range_holds_exactly_the_children(encoding: KeyEncoding, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(tuple(PARTS)))
    present = data.draw(st.lists(st.one_of(ways(kind), ways()), min_size=1, max_size=12, unique=True))
    of_kind = [way.parts for way in present if way.kind is kind] or [data.draw(ways(kind)).parts]
    level = data.draw(st.integers(0, len(of_kind[0]) - 1))
    parent = data.draw(st.sampled_from(of_kind))[:level]
    wanted = {way for way in present if way.kind is kind and way.parts[:level] == parent}
    first, end = encoding.range_below(kind, parent, SIZES)
    found = {
        way
        for way in present
        if first <= (key := encoding.key_of(*way, SIZES)) < end and encoding.is_of_kind(key, kind, SIZES)
    }
    assert found == wanted


@ENCODINGS
@given(st.data())
def test_a_range_can_start_after_a_name_and_be_limited_to_a_prefix(encoding: KeyEncoding, data: st.DataObject) -> None:
    names = data.draw(st.lists(TABLES, min_size=1, max_size=10, unique=True))
    prefix = data.draw(st.one_of(st.just(""), TABLES, st.sampled_from(names).map(lambda name: name[:1])))
    after = data.draw(st.one_of(st.none(), TABLES, st.sampled_from(names)))
    first, end = encoding.range_below(Kind.TABLE, ("ns",), SIZES, name_prefix=prefix, after=after)
    found = [name for name in sorted(names) if first <= encoding.key_of(Kind.TABLE, ("ns", name), SIZES) < end]
    assert found == [name for name in sorted(names) if name.startswith(prefix) and (after is None or name > after)]
    assert first <= end


@ENCODINGS
@pytest.mark.parametrize("last", ["a", "\ud7ff", "\U0010ffff", "b\U0010ffff\U0010ffff"])
def test_a_range_ends_right_after_the_last_name_with_the_prefix(encoding: KeyEncoding, last: str) -> None:
    first, end = encoding.range_below(Kind.TABLE, ("ns",), SIZES, name_prefix=last)
    end.encode()
    for name in (last, last + "!", last + "z"):
        assert first <= encoding.key_of(Kind.TABLE, ("ns", name), SIZES) < end
    assert encoding.key_of(Kind.TABLE, ("nt", "!"), SIZES) >= end
    for other in ("\ue000", "c"):
        key = encoding.key_of(Kind.TABLE, ("ns", other), SIZES)
        assert (first <= key < end) == other.startswith(last)


@ENCODINGS
def test_a_range_of_deltas_can_start_after_a_position(encoding: KeyEncoding) -> None:
    parent = (ID, 1, ID, ID)
    first, end = encoding.range_below(Kind.DELTA, parent, SIZES, after=9)
    keys = [encoding.key_of(Kind.DELTA, (*parent, position), SIZES) for position in (8, 9, 10, 11)]
    assert [first <= key < end for key in keys] == [False, False, True, True]


@ENCODINGS
def test_listing_one_namespace_does_not_show_the_tables_of_another_with_a_longer_name(encoding: KeyEncoding) -> None:
    first, end = encoding.range_below(Kind.TABLE, ("a",), SIZES)
    assert first <= encoding.key_of(Kind.TABLE, ("a", "b"), SIZES) < end
    for namespace in ("ab", "aa", "b", "a!"):
        assert not first <= encoding.key_of(Kind.TABLE, (namespace, "b"), SIZES) < end


@ENCODINGS
@pytest.mark.parametrize("name", ["", " ", "a b", "a\n", "\0", "a\x7f", "a/b", "\ud800", "/", "x" * 9, "ü" * 5])
def test_forbidden_characters_and_names_of_too_many_bytes_are_refused(encoding: KeyEncoding, name: str) -> None:
    with pytest.raises(InvalidInputError, match="namespace name"):
        encoding.key_of(Kind.NAMESPACE, (name,), SIZES)


@ENCODINGS
def test_a_multi_byte_name_is_padded_by_its_bytes(encoding: KeyEncoding) -> None:
    key = encoding.key_of(Kind.NAMESPACE, ("üñ",), SIZES)
    assert len(key.encode()) == len(encoding.key_of(Kind.NAMESPACE, ("ab",), SIZES))


@ENCODINGS
@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (Kind.TABLE, ("ns",)),
        (Kind.TABLE, ("ns", "t", "x")),
        (Kind.TABLE, ("ns", 3)),
        (Kind.TABLE_VERSION, (ID, "1")),
        (Kind.TABLE_VERSION, (ID, -1)),
        (Kind.TABLE_VERSION, (ID, 10**20)),
        (Kind.TABLE_VERSION, ("i" * 101, 1)),
        (Kind.DELTA, (ID, 1, ID, ID, 10**20)),
    ],
)
def test_invalid_key_parts_are_rejected(encoding: KeyEncoding, kind: Kind, parts: tuple[Part, ...]) -> None:
    with pytest.raises(InvalidInputError):
        encoding.key_of(kind, parts, SIZES)


@ENCODINGS
@pytest.mark.parametrize(
    "ask",
    [
        lambda keys: keys.range_below(Kind.TABLE, ("ns", "t"), SIZES),
        lambda keys: keys.range_below(Kind.TABLE, (), SIZES, name_prefix="a"),
        lambda keys: keys.range_below(Kind.TABLE, (), SIZES, after="a"),
        lambda keys: keys.range_below(Kind.TABLE, ("ns",), SIZES, name_prefix="a "),
        lambda keys: keys.range_below(Kind.TABLE_VERSION, (ID,), SIZES, name_prefix="1"),
    ],
)
def test_an_invalid_range_is_rejected(encoding: KeyEncoding, ask: Callable[[KeyEncoding], object]) -> None:
    with pytest.raises(InvalidInputError):
        ask(encoding)


@ENCODINGS
@given(
    text=st.one_of(
        st.text(), ways().map(lambda way: OLDER_KEYS.key_of(*way, SIZES)[1:]), st.text("ABC= a", max_size=30)
    )
)
def test_a_text_is_a_tree_key_only_if_it_round_trips(encoding: KeyEncoding, text: str) -> None:
    try:
        way = encoding.parts_of(text, SIZES)
    except FormatError:
        return
    assert encoding.key_of(*way, SIZES) == text


@pytest.mark.parametrize(
    "key", ["", "A===x", "C===ns", "C===ns              ", "Z===default table   ", "\ud800===ns     "]
)
def test_an_invalid_tree_key_is_a_format_error(key: str) -> None:
    with pytest.raises(FormatError, match="tree key"):
        NEWER_KEYS.parts_of(key, SIZES)


def test_kinds_with_ambiguous_keys_cannot_be_encoded() -> None:
    same = dict.fromkeys(PARTS, "x")
    with pytest.raises(ValueError, match="same tree key"):
        KeyEncoding(before=same, after=same)


def test_a_name_size_below_one_byte_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        NameSizes(0, 8)


LOCATORS: list[tuple[Locator, tuple[Part, ...]]] = [
    (NamespaceLocator("ns"), ("ns",)),
    (TableLocator("ns", "t"), ("ns", "t")),
    (ViewLocator("ns", "v"), ("ns", "v")),
    (SharedTransactionLocator("load"), ("load",)),
    (AliasLocator("ns|other"), ("ns|other",)),
    (TableVersionLocator("n1", "t1", 2), ("t1", 2)),
    (StreamLocator("n1", "t1", 2, "s1"), ("t1", 2, "s1")),
    (PartitionLocator("n1", "t1", 2, "s1", "p1"), ("t1", 2, "s1", "p1")),
    (DeltaLocator("n1", "t1", 2, "s1", "p1", 7), ("t1", 2, "s1", "p1", 7)),
]


@pytest.mark.parametrize(("locator", "parts"), LOCATORS)
def test_keys_below_a_table_contain_only_the_table_id(locator: Locator, parts: tuple[Part, ...]) -> None:
    assert parts_of_locator(locator) == KeyParts(locator.kind, parts)


@ENCODINGS
@pytest.mark.parametrize(("locator", "_parts"), LOCATORS)
def test_a_tree_key_round_trips_through_its_locator(encoding: KeyEncoding, locator: Locator, _parts: object) -> None:
    key = encoding.key_of(*parts_of_locator(locator), SIZES)
    assert locator_of_parts(encoding.parts_of(key, SIZES), namespace_id="n1") == locator


@pytest.mark.parametrize("locator", [TableLocator("new", "t"), ViewLocator("new", "v")])
def test_tables_of_a_renamed_namespace_keep_their_keys(locator: TableLocator | ViewLocator) -> None:
    way = parts_of_locator(locator, namespace_key_name="old")
    assert way.parts == ("old", locator.name)
    assert locator_of_parts(way, namespace="new") == locator


def test_decoding_a_locator_below_a_table_requires_the_namespace_id() -> None:
    with pytest.raises(InvalidInputError, match="namespace"):
        locator_of_parts(KeyParts(Kind.TABLE_VERSION, ("t1", 2)))


@pytest.mark.parametrize("way", [KeyParts(Kind.LAKEHOUSE, ()), KeyParts(Kind.TABLE, ("ns",))])
def test_parts_of_no_object_have_no_locator(way: KeyParts) -> None:
    with pytest.raises(InvalidInputError):
        locator_of_parts(way, namespace_id="n1")


def test_the_lakehouse_has_no_tree_key() -> None:
    with pytest.raises(InvalidInputError, match="lakehouse"):
        NEWER_KEYS.key_of(Kind.LAKEHOUSE, (), SIZES)


def test_a_number_of_too_many_digits_is_refused_before_an_id_that_is_too_short() -> None:
    with pytest.raises(InvalidInputError, match="expected an integer of up to 20 digits"):
        NEWER_KEYS.key_of(Kind.STREAM, ("t" * 36, 10**20, "s" * 35), SIZES)


@pytest.mark.parametrize("encoding", [NEWER_KEYS, OLDER_KEYS])
def test_the_names_of_tables_are_decoded_together_only_if_each_key_has_one(encoding: KeyEncoding) -> None:
    codec = LocatorKeyCodec(encoding, SIZES, KeyNames())
    keys = [codec.key_of(TableLocator("shop", name)) for name in ("a", "orders", "x" * 12)]
    assert codec.table_names_in(keys) == ["a", "orders", "x" * 12]
    two, none = (keys[0].replace("a           ", text) for text in ("a b         ", " " * 12))
    for damaged in ([two, none], [none, two], [two], [none], [*keys, keys[0][:-1]]):
        assert codec.table_names_in(damaged) is None
    assert codec.table_names_in([codec.key_of(TableLocator("shop", "größe"))]) is None


@pytest.mark.parametrize("encoding", [NEWER_KEYS, OLDER_KEYS])
def test_the_positions_of_deltas_are_decoded_together_only_if_they_are_in_one_partition(encoding: KeyEncoding) -> None:
    codec = LocatorKeyCodec(encoding, SIZES, KeyNames())
    partition = PartitionLocator("n", "t", 1, "s", "p")
    keys = [codec.key_of(partition.at(position)) for position in (1, 2, 10**18)]
    assert codec.delta_positions_in(keys) == [1, 2, 10**18]
    other = codec.key_of(PartitionLocator("n", "t", 1, "s", "q").at(3))
    text, wide = (keys[0].replace("0" * 19 + "1", found) for found in ("0" * 19 + "x", "0" * 19 + "\u0663"))
    for unusual in ([*keys, other], [*keys, text], [*keys, wide], [*keys, keys[0][:-1]], [*keys, keys[0] + "0"]):
        assert codec.delta_positions_in(unusual) is None
    assert codec.delta_positions_in([codec.key_of(TableLocator("shop", "orders"))]) is None

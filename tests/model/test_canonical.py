"""Canonical strings of all six kinds of objects, printed and parsed."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError
from mangrove.model.canonical import CanonicalName, LocatorById, parse_canonical, parse_locator, parse_object_name
from mangrove.model.locators import (
    LARGEST_INTEGER,
    DeltaLocator,
    Kind,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
)
from mangrove.testing.strategies import ids, names, values

_ORDINALS = st.integers(1, LARGEST_INTEGER)
_VALUES = st.lists(st.none() | values(), max_size=3).map(tuple)
_STREAM = (names(), names(), _ORDINALS, ids(), ids())


@given(
    st.one_of(
        st.builds(CanonicalName, names()),
        st.builds(CanonicalName, names(), names()),
        st.builds(CanonicalName, names(), names(), _ORDINALS),
        st.builds(CanonicalName, *_STREAM),
        st.builds(CanonicalName, *_STREAM, ids(), _VALUES),
        st.builds(CanonicalName, *_STREAM, ids(), _VALUES, _ORDINALS),
    )
)
def test_every_canonical_string_round_trips(name: CanonicalName) -> None:
    parsed = parse_canonical(str(name))
    assert str(parsed) == str(name)
    assert parsed.kind is name.kind
    if name.parent is not None:
        assert str(name).startswith(f"{name.parent}|")
        assert parse_canonical(str(name.parent)).kind is name.parent.kind


def test_a_delta_has_the_strings_of_all_its_ancestors() -> None:
    day = datetime.date(2026, 11, 16)
    delta = CanonicalName("shop", "orders", 1, "s1", "deltacat", "p1", (day, "a|b"), 42)
    assert str(delta) == r'shop|orders|1|s1|deltacat|p1|[{"date":"2026-11-16"},"a\u007cb"]|42'
    assert parse_canonical(str(delta)) == delta
    ancestors = [delta]
    while (parent := ancestors[-1].parent) is not None:
        ancestors.append(parent)
    assert [one.kind for one in ancestors] == [
        Kind.DELTA, Kind.PARTITION, Kind.STREAM, Kind.TABLE_VERSION, Kind.TABLE, Kind.NAMESPACE
    ]  # fmt: skip


def test_dotted_names_and_canonical_strings_of_tables_name_the_same() -> None:
    assert parse_object_name("shop.`orders.2026`") == parse_canonical("shop|orders.2026")
    assert parse_object_name("shop") == CanonicalName("shop")


@pytest.mark.parametrize(
    "text",
    ["", "|", "a|", "a|b|0", "a|b|01", "a|b|x", "a|b|1|s", "a|b|1|s|f|p", "a|b|1|s|f|p|1", "a|b|1|s|f|p|[|1", "a b",
     "a|b|1|s|f|p|[]|0", "a|b|1|s|f|p|[]|1|x", 'a|b|1|s|f|p|[{"x":1}]',
     pytest.param(f"a|b|1|s|f|p|{'[' * 100_000}", id="nested")],
)  # fmt: skip
def test_an_invalid_canonical_string_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_canonical(text)


def test_bars_in_partition_values_may_be_plain() -> None:
    name = CanonicalName("shop", "orders", 1, "main", "deltacat", "p", ("a|b", "]|7"), 3)
    plain = str(name).replace("\\u007c", "|")
    assert plain == 'shop|orders|1|main|deltacat|p|["a|b","]|7"]|3'
    assert parse_canonical(plain) == parse_canonical(str(name)) == name
    locator = DeltaLocator("n", "t", 1, "main", "p", 3, format="deltacat", partition_values=("a|b",))
    assert str(parse_locator(str(locator).replace("\\u007c", "|"))) == str(locator)


def test_parts_without_those_above_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="missing"):
        CanonicalName("shop", None, 1)
    with pytest.raises(InvalidInputError, match="missing"):
        CanonicalName("shop", "orders", 1, "s1")


_LOCATORS = st.one_of(
    st.builds(NamespaceLocator, names()),
    st.builds(TableLocator, names(), names()),
    st.builds(TableIdentity, ids(), ids()),
    st.builds(TableVersionLocator, ids(), ids(), _ORDINALS),
    st.builds(StreamLocator, ids(), ids(), _ORDINALS, ids(), format=st.none() | ids()),
    st.builds(
        PartitionLocator, ids(), ids(), _ORDINALS, ids(), ids(),
        format=st.none() | ids(), partition_values=st.none() | _VALUES,
    ),
    st.builds(
        DeltaLocator, ids(), ids(), _ORDINALS, ids(), ids(), _ORDINALS,
        format=st.none() | ids(), partition_values=st.none() | _VALUES,
    ),
)  # fmt: skip


@given(_LOCATORS)
def test_every_locator_is_parsed_from_its_string(
    locator: NamespaceLocator | TableLocator | LocatorById,
) -> None:
    parsed = parse_locator(str(locator))
    assert (parsed, type(parsed), str(parsed)) == (locator, type(locator), str(locator))


@pytest.mark.parametrize(
    "text",
    ["|", "|n", "|n|", "|n|t|0", "|n|t|x", "|n|t|1|s", "|n|t|1||", "|n|t|1|s|f|p", "|n|t|1|s|f||[]", "|n|t|1|s||p|1|1",
     "|n|t|1|s||p|[]|0", "|n|t|1|s||p|[]|1|x", "||n|t|1"],
)  # fmt: skip
def test_an_invalid_string_of_a_locator_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_locator(text)


def test_the_string_of_a_locator_is_no_canonical_string() -> None:
    with pytest.raises(InvalidInputError, match="is the string of a locator, with ids; expected a canonical string"):
        parse_canonical("|n1|t1|1")


def test_a_canonical_string_below_a_table_is_no_locator() -> None:
    with pytest.raises(InvalidInputError, match="has names and no ids, so it is no locator; look it up with resolve"):
        parse_locator("shop|orders|1")

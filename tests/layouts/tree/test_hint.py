"""Proofs that a hint is written as specified and that no hint can do harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.layouts.tree.versions import decode_hint, encode_hint


def test_a_hint_is_written_in_decimal_digits_without_a_newline() -> None:
    assert encode_hint(100) == b"100"


@given(st.integers(0, 2**64 - 1))
def test_a_hint_round_trips(version: int) -> None:
    assert decode_hint(encode_hint(version)) == version


@pytest.mark.parametrize("data", [b"100\n", b"100\r\n", b" 100", b"\t100 \n\n", b"0100"])
def test_a_hint_with_a_newline_or_blanks_is_understood(data: bytes) -> None:
    assert decode_hint(data) == 100


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"latest", b"-1", b"+1", b"1_0", b"1 2", b"0x10", b"1.0", b"\xff\xfe1", "١".encode(), b"\x001"],
)
def test_an_empty_or_invalid_hint_is_ignored(data: bytes) -> None:
    assert decode_hint(data) is None


@pytest.mark.parametrize(
    "data",
    [b"18446744073709551616", b"9" * 5_000_000, b" " * 5_000_000 + b"1"],
    # Names of five million characters would be sent between test processes.
    ids=["one-too-large", "too-many-digits", "too-many-spaces"],
)
def test_a_hint_beyond_the_largest_version_is_ignored(data: bytes) -> None:
    assert decode_hint(data) is None


@given(st.binary(max_size=80))
def test_arbitrary_hint_content_never_raises(data: bytes) -> None:
    version = decode_hint(data)
    assert version is None or str(version).encode() in data

"""The hash of buckets is the one that everybody else computes."""

import mmh3
from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.murmur import murmur3


@given(st.binary(max_size=40))
def test_the_hash_is_that_of_the_compiled_library(data: bytes) -> None:
    assert murmur3(data) == mmh3.hash(data, 0, signed=False)

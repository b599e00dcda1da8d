"""Comparison of keys on Arrow tables."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.local.keys import build_key_mask
from mangrove.model.types import Column, Int16, Int64

LIMITS = {16: 2**15, 64: 2**63}


@pytest.mark.parametrize("bits", LIMITS)
@given(data=st.data())
def test_integer_keys_are_found_whatever_their_range(bits: int, data: st.DataObject) -> None:
    ends = st.sampled_from([-LIMITS[bits], LIMITS[bits] - 1])
    keys = st.lists(st.none() | st.integers(-5, 5) | ends, max_size=6)
    rows, selected = data.draw(keys), data.draw(keys)
    arrow: Any = {16: pa.int16(), 64: pa.int64()}[bits]
    tables = [pa.table({"id": pa.array(values, arrow)}) for values in (rows, selected)]
    column = Column(1, "id", Int16() if bits == 16 else Int64())
    mask = build_key_mask(tables[0], tables[1], [column])
    assert mask.to_pylist() == [key is not None and key in selected for key in rows]

"""Comparison of keys on Arrow tables."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.local.keys import build_key_mask, find_visible_rows
from mangrove.model.types import (
    Binary,
    Boolean,
    Column,
    DataType,
    Date,
    Decimal,
    Fixed,
    Int16,
    Int64,
    Time,
    TimestampTz,
)

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


@pytest.mark.parametrize("is_pair", [False, True])
@pytest.mark.parametrize(
    ("data_type", "arrow", "values"),
    [
        (Boolean(), pa.bool_(), [True, False]),
        (Decimal(20, 3), pa.decimal128(20, 3), [1, 2]),
        (Date(), pa.date32(), [1, 2]),
        (TimestampTz(), pa.timestamp("us", "UTC"), [1, 2]),
        (Time(), pa.time64("us"), [1, 2]),
        (Binary(), pa.binary(), [b"\0", b""]),
        (Fixed(2), pa.binary(2), [b"\0a", b"\0b"]),
        (Int16(), pa.int16(), [-1, 1]),
    ],
)
def test_keys_of_every_type_are_deleted(data_type: DataType, arrow: Any, values: list[Any], *, is_pair: bool) -> None:
    names = ["a", "b"] if is_pair else ["a"]
    columns = [Column(place, name, data_type) for place, name in enumerate(names)]
    both, one = (pa.table({name: pa.array(part, arrow) for name in names}) for part in (values, values[1:]))
    masks = find_visible_rows([(both, 1), (both, 2)], [(one, 2)], columns)
    assert [mask.to_pylist() for mask in masks] == [[True, False], [True, True]]


@pytest.mark.parametrize("offset", [-400_000, 2**63 - 600_001])
def test_sorted_keys_have_the_same_deleted_rows_as_keys_in_any_order(offset: int) -> None:
    def build(start: int, step: int, *, is_shuffled: bool) -> pa.Table:
        keys = list(range(offset + start, offset + 600_001, step))
        # Keys are sorted except for the first one, which is moved to the end.
        return pa.table({"id": pa.array([*keys[1:], keys[0]] if is_shuffled else keys, pa.int64())})

    def find(*, is_shuffled: bool) -> list[list[bool]]:
        parts = [(build(0, 5, is_shuffled=is_shuffled), 1), (build(3, 70, is_shuffled=is_shuffled), 3)]
        deletes = [(build(3, 70, is_shuffled=is_shuffled), 3), (build(0, 700, is_shuffled=is_shuffled), 4)]
        deletes += [(build(10, 210, is_shuffled=is_shuffled), 2)]
        masks = find_visible_rows(parts, deletes, [Column(1, "id", Int64())])
        return [mask.to_pylist() for mask in masks]

    found = find(is_shuffled=False)
    assert found == [[mask[-1], *mask[:-1]] for mask in find(is_shuffled=True)]
    numbers = range(0, 600_001, 5)
    assert found[0] == [(at - 3) % 70 != 0 and at % 700 != 0 and (at - 10) % 210 != 0 for at in numbers]
    assert found[1] == [at % 700 != 0 for at in range(3, 600_001, 70)]


def test_large_integers_are_compared_exactly_beside_null() -> None:
    rows = pa.table({"id": [2**60 + 1, 2**60 + 2, 2**60 + 3]})
    selected = pa.table({"id": [2**60 + 2, None]})
    assert build_key_mask(rows, selected, [Column(1, "id", Int64())]).to_pylist() == [False, True, False]

"""Column profiles: counts, distinct and frequent values, bounds and histograms, in one pass over record batches."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, Final

import mmh3
import pyarrow as pa
import pyarrow.compute as pc

from mangrove.local.python_rows import to_python_value
from mangrove.model.arrow_schema import schema_from_arrow
from mangrove.model.schema_text import format_type
from mangrove.tables.column_profile import ColumnProfile, Histogram

__all__ = ["BINS_MAX", "EXACT_DISTINCT_MAX", "profile_columns"]

BINS_MAX: Final = 32
"""Maximum number of bins of a histogram."""

EXACT_DISTINCT_MAX: Final = 16_384
"""Up to this many distinct values are counted exactly; more are estimated with an error of about 1 %."""

_FREQUENT_MAX: Final = 10
_HASHES: Final = 2**64
_EXPONENT_MIN: Final = -1000
_FLOAT_BITS: Final = 53


def profile_columns(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> list[ColumnProfile]:
    """Return the profile of each column of the schema, in bounded memory.

    >>> batch = pa.record_batch({"id": [1, 2, None, 2]})
    >>> [(one.name, one.type, one.nulls, one.distinct, one.maximum) for one in profile_columns([batch], batch.schema)]
    [('id', 'bigint', 1, 2, 2)]
    """
    columns = [_ColumnCounter(one.type) for one in schema]
    for batch in batches:
        for column, values in zip(columns, batch.columns, strict=True):
            column.add(values)
    types = [format_type(column.type) for column in schema_from_arrow(schema).columns] if columns else []
    return [column.build(name, of) for column, name, of in zip(columns, schema.names, types, strict=True)]


class _ColumnCounter:
    """Running statistics of one column."""

    def __init__(self, arrow: pa.DataType) -> None:
        decoded = arrow.value_type if isinstance(arrow, pa.DictionaryType) else arrow
        self._is_nested = pa.types.is_nested(decoded)
        self._bins = _BinCounter(decoded) if _is_binned(decoded) else None
        self._hashes = _DistinctCounter()
        self._count = self._nulls = 0
        self._bounds: Any = pa.array([None, None], decoded)

    def add(self, values: Any) -> None:
        """Add the values of one batch."""
        self._count += len(values)
        self._nulls += values.null_count
        if self._is_nested or values.null_count == len(values):
            return
        decoded = values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
        self._hashes.add(decoded)
        bounds = pc.min_max(pa.concat_arrays([self._bounds, _drop_nan(decoded)]))
        self._bounds = pa.array([bounds["min"], bounds["max"]], decoded.type)
        if self._bins is not None:
            self._bins.add(decoded)

    def build(self, name: str, of: str) -> ColumnProfile:
        """Return the profile."""
        minimum, maximum = map(to_python_value, self._bounds)
        return ColumnProfile(
            name,
            of,
            self._count,
            self._nulls,
            None if self._is_nested else self._hashes.estimate(),
            self._hashes.is_exact,
            minimum,
            maximum,
            None if self._bins is None else self._bins.build(),
            () if self._is_nested else self._hashes.list_frequent(self._bounds.type),
        )


@dataclass(slots=True)
class _DistinctCounter:
    """Number of distinct values: the k smallest hashes are evenly spaced, so the k-th gives the density of all.

    Values that are rare so far are forgotten if there are too many; if they occur later, counting starts at zero.
    """

    is_exact: bool = True
    _limit: int = _HASHES
    _smallest: set[int] = field(default_factory=set)
    _counts: Counter[Any] = field(default_factory=Counter)
    """The occurrences of values, as text."""

    def add(self, values: Any) -> None:
        """Add values."""
        counted = values.drop_null().value_counts()
        distinct = counted.field("values")
        texts = (distinct if _is_text(distinct.type) else distinct.cast(pa.string())).to_pylist()
        self._counts.update(dict(zip(texts, counted.field("counts").to_pylist(), strict=True)))
        hashes = (mmh3.hash64(one, signed=False)[0] for one in texts)
        self._smallest.update(one for one in hashes if one < self._limit)
        if len(self._counts) > 2 * EXACT_DISTINCT_MAX:
            self._counts = Counter(dict(self._counts.most_common(EXACT_DISTINCT_MAX)))
        if len(self._smallest) > 2 * EXACT_DISTINCT_MAX:
            self._shrink()

    def estimate(self) -> int:
        """Return the number of distinct values."""
        if len(self._smallest) > EXACT_DISTINCT_MAX:
            self._shrink()
        if self.is_exact:
            return len(self._smallest)
        return round((EXACT_DISTINCT_MAX - 1) * _HASHES / max(self._smallest))

    def list_frequent(self, arrow: pa.DataType) -> tuple[tuple[Any, int], ...]:
        """Return the most frequent values of a type and their counts."""
        repeated = (one for one in self._counts.items() if one[1] > 1)
        found = nsmallest(_FREQUENT_MAX, repeated, key=lambda one: (-one[1], one[0]))
        texts = pa.array([text for text, _ in found], arrow if _is_text(arrow) else pa.string())
        # All NaN are one object, so that equal profiles compare equal.
        values = (math.nan if one != one else one for one in map(to_python_value, texts.cast(arrow)))
        return tuple((value, count) for value, (_, count) in zip(values, found, strict=True))

    def _shrink(self) -> None:
        self._smallest = set(sorted(self._smallest)[:EXACT_DISTINCT_MAX])
        self._limit = max(self._smallest)
        self.is_exact = False


class _BinCounter:
    """Counts of numbers in bins whose width is a power of two, doubled while the numbers need more than BINS_MAX bins.

    The width follows from the bounds alone, so the order of the numbers does not matter.
    """

    def __init__(self, arrow: pa.DataType) -> None:
        self._type = arrow
        self._is_fractional = pa.types.is_floating(arrow) or pa.types.is_decimal(arrow)
        self._exponent = _EXPONENT_MIN if self._is_fractional else 0
        self._counts: Counter[int] = Counter()
        self._low, self._high = math.inf, -math.inf

    def add(self, values: Any) -> None:
        """Add the finite ones of values that are not all null."""
        numbers = _to_finite_floats(values)
        if not len(numbers):
            return
        bounds: Any = pc.min_max(numbers).as_py()
        self._low, self._high = min(self._low, bounds["min"]), max(self._high, bounds["max"])
        exponent = max(self._exponent, _width_exponent(self._low, self._high))
        widened: Counter[int] = Counter()
        for number, count in self._counts.items():
            widened[number >> (exponent - self._exponent)] += count
        places = pc.floor(pc.multiply(numbers, math.ldexp(1, -exponent))).cast(pa.int64())
        widened.update({one["values"]: one["counts"] for one in places.value_counts().to_pylist()})
        self._exponent, self._counts = exponent, widened

    def build(self) -> Histogram | None:
        """Return the histogram, or None without finite values."""
        if not self._counts:
            return None
        bins = range(min(self._counts), max(self._counts) + 1)
        edges = [self._low, *(math.ldexp(one, self._exponent) for one in bins[1:]), self._high]
        return Histogram(tuple(map(self._restore, edges)), tuple(self._counts[one] for one in bins))

    def _restore(self, edge: float) -> Any:
        if self._is_fractional:
            return edge
        if not pa.types.is_temporal(self._type):
            return int(edge)
        stored = _stored_integer(self._type)
        # The largest integers are rounded up as floats.
        return to_python_value(pa.scalar(min(int(edge), 2 ** (stored.bit_width - 1) - 1), stored).cast(self._type))


def _width_exponent(low: float, high: float) -> int:
    """Return the smallest exponent of two whose bins are at most BINS_MAX, and wide enough for exact bin numbers."""
    exponent = max(math.frexp(max(abs(low), abs(high)))[1] - _FLOAT_BITS, _EXPONENT_MIN)
    while math.floor(math.ldexp(high, -exponent)) - math.floor(math.ldexp(low, -exponent)) >= BINS_MAX:
        exponent += 1
    return exponent


def _to_finite_floats(values: Any) -> Any:
    integers = values.cast(_stored_integer(values.type)) if pa.types.is_temporal(values.type) else values
    numbers = pc.cast(integers, pa.float64(), safe=False)
    return numbers.filter(pc.is_finite(numbers))


def _stored_integer(arrow: Any) -> Any:
    """Return the integer type with which Arrow stores a temporal type."""
    return pa.int32() if arrow.bit_width == 32 else pa.int64()


def _is_binned(arrow: pa.DataType) -> bool:
    kind = pa.types
    return kind.is_integer(arrow) or kind.is_floating(arrow) or kind.is_decimal(arrow) or kind.is_temporal(arrow)


def _is_text(arrow: pa.DataType) -> bool:
    kind = pa.types
    return kind.is_string(arrow) or kind.is_binary(arrow) or kind.is_fixed_size_binary(arrow)


def _drop_nan(values: Any) -> Any:
    return values.filter(pc.invert(pc.is_nan(values))) if pa.types.is_floating(values.type) else values

"""Row numbers as Arrow arrays."""

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["build_row_numbers"]


def build_row_numbers(count: int, start: int = 0) -> "pa.Int64Array":
    """Return `count` numbers from `start` on, computed by Arrow.

    >>> build_row_numbers(3).to_pylist()
    [0, 1, 2]
    """
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), pa.scalar(start - 1, pa.int64()))

"""The rows of the comparison, exchanged with workers as Arrow files."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("name", pa.string()),
    pa.field("v", pa.float64()),
]
SCHEMA = pa.schema(_FIELDS)
KEY = "id"


def make_rows(count: int, first: int = 0) -> pa.Table:
    """Return rows ordered by id, whose other columns are in no order.

    >>> make_rows(2).to_pylist()
    [{'id': 0, 'name': 'name 0', 'v': 0.0}, {'id': 1, 'name': 'name 7919', 'v': 0.6180339867714792}]
    """
    ids: Any = pa.array(range(first, first + count), pa.int64())
    numbers: Any = pc.cast(_modulo(pc.multiply(ids, 7919), 1_000_003), pa.string())
    names = pc.binary_join_element_wise("name", numbers, " ")
    values = pc.divide(pc.cast(_modulo(pc.multiply(ids, 2_654_435_761), 2**32), pa.float64()), 2.0**32)
    return pa.table([ids, names, values], schema=SCHEMA)


def make_updates(rows: pa.Table, number: int, count: int) -> pa.Table:
    """Return new values for `count` rows spread over the table; each number selects others."""
    step = rows.num_rows // count
    places = pc.add(pc.multiply(pa.array(range(count), pa.int64()), step), number % step)
    picked = rows.take(places)
    return picked.set_column(2, SCHEMA.field("v"), pc.add(picked["v"], float(number + 1)))


def write_rows(rows: pa.Table, path: Path) -> str:
    """Write an Arrow file and return its path."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return str(path)


def read_rows(path: str) -> pa.Table:
    """Return the rows of an Arrow file, mapped into memory."""
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


def digest_rows(rows: pa.Table) -> dict[str, Any]:
    """Return a summary that is equal for equal rows in any order.

    >>> digest_rows(make_rows(2))
    {'rows': 2, 'ids': 1, 'characters': 15, 'v': 0.618034}
    """
    names: Any = pc.cast(rows["name"], pa.string())
    total = pc.sum(rows["v"]).as_py() or 0.0
    return {
        "rows": rows.num_rows,
        "ids": pc.sum(rows["id"]).as_py() or 0,
        "characters": pc.sum(pc.utf8_length(names)).as_py() or 0,
        "v": float(f"{total:.6g}"),
    }


def _modulo(numbers: Any, divisor: int) -> Any:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor))

"""Row sections of a node file and their bounds-checked Arrow IPC encoding.

Arrow validates the metadata of a file, but the contents only on request: without
validation, an out-of-bounds string offset crashes the process. Arrow also trusts
the uncompressed size of a compressed buffer, so these sizes are summed and limited
before decompression.

The schema metadata contains a checksum of the file. It is not a row, because a
program that rewrites a node would copy the row, but creates a new schema.

system rows    key and value, in any order, before the first row that has neither
key table      that row, with the leftmost child; then sorted keys, each with
               the child to its right; then empty rows, N rows in all
write buffer   messages, oldest first; no value means delete
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import mmh3
import pyarrow as pa

from mangrove.betree.node import Message, MessageColumns, Node
from mangrove.errors import FormatError, InvalidInputError

__all__ = [
    "BYTES_MAX",
    "COMPRESSIONS",
    "EXPANDED_BYTES_MAX",
    "LAST_TRANSACTION",
    "N_KEYS",
    "N_MESSAGES",
    "NodeRows",
    "NodeSections",
    "TextColumn",
    "decode_columns",
    "decode_newer_rows",
    "decode_older_rows",
    "encode_columns",
    "encode_newer_rows",
    "encode_older_rows",
    "read_key_table",
    "read_system_section",
]

BYTES_MAX = 16 * 1024 * 1024
EXPANDED_BYTES_MAX = 256 * 1024 * 1024

_CHECKSUM = b"mangrove.checksum"
_CHECKSUM_PLACE = b"here-the-checksum-will-be-filled"
_MAGIC = b"ARROW1"
_CONTINUATION = 0xFFFFFFFF
_RECORD_BATCH_HEADER = 3
_UINT16, _UINT32, _INT32 = (struct.Struct(shape).unpack_from for shape in ("<H", "<I", "<i"))
_TEXT = (pa.string(), pa.large_string())
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
_WRITE_OPTIONS = {
    "none": pa.ipc.IpcWriteOptions(use_threads=False),
    "lz4": pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False),
    "zstd": pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False),
}
COMPRESSIONS = tuple(_WRITE_OPTIONS)


def encode_columns(columns: Mapping[str, Sequence[str | None]], compression: str) -> bytes:
    """Return an Arrow IPC file with one record batch of these columns, all of the same length."""
    options = _WRITE_OPTIONS.get(compression)
    if options is None:
        raise InvalidInputError(f"unknown compression of node files {compression!r}; expected one of {COMPRESSIONS}")
    try:
        arrays = [_build_text_array(column) for column in columns.values()]
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"a string contains a lone surrogate, which UTF-8 cannot encode: {error}") from None
    schema = _schema(tuple(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return _with_checksum(sink.getvalue().to_pybytes())


def _build_text_array(column: Sequence[str | None]) -> Any:
    """Return the column as an array. A leaf has no children, and Arrow reads each null of a list separately."""
    return pa.nulls(len(column), pa.string()) if column.count(None) == len(column) else pa.array(column, pa.string())


def decode_columns(
    data: bytes,
    path: str,
    names: Sequence[str],
    *,
    bytes_max: int = BYTES_MAX,
    expanded_bytes_max: int = EXPANDED_BYTES_MAX,
) -> dict[str, list[str | None]]:
    """Return those of the named columns that exist in the file at `path`; other columns are ignored."""
    if len(data) > bytes_max:
        raise _format_error(path, f"it has {len(data)} bytes; at most {bytes_max} are allowed")
    try:
        expanded = _expanded_bytes(data, path)
    except struct.error:
        raise _format_error(path, "it is truncated, or its metadata has offsets outside the file") from None
    if expanded > expanded_bytes_max:
        raise _format_error(
            path, f"it declares an uncompressed size of {expanded} bytes; at most {expanded_bytes_max} are allowed"
        )
    try:
        return _read(data, path, names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _format_error(path, f"Arrow cannot read it ({_first_line(error)})") from None


def _read(data: bytes, path: str, names: Sequence[str]) -> dict[str, list[str | None]]:
    buffer = pa.py_buffer(data)
    reader = pa.ipc.open_file(buffer, options=_READ_OPTIONS)
    claimed = (reader.schema.metadata or {}).get(_CHECKSUM)
    if claimed is not None and claimed != _checksum(_around_checksum(data, claimed)):
        raise _format_error(path, "checksum mismatch")
    if claimed is None and _CHECKSUM in _first_message(data):
        raise _format_error(path, "only one of the two copies of its schema has the checksum")
    if reader.num_record_batches != 1:
        raise _format_error(path, f"it has {reader.num_record_batches} record batches; expected one")
    there = reader.schema.names
    requested = [index for index, name in enumerate(there) if name in names]
    if len({there[index] for index in requested}) != len(requested):
        raise _format_error(path, f"duplicate column names: {there}")
    if len(requested) < len(there):
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=requested)
        reader = pa.ipc.open_file(buffer, options=options)
    batch = reader.get_batch(0)
    batch.validate(full=True)
    for field in batch.schema:
        if field.type not in _TEXT:
            raise _format_error(path, f"column {field.name!r} has type {field.type}; expected string")
    return {name: column.to_pylist() for name, column in zip(batch.schema.names, batch.columns, strict=True)}


@cache
def _schema(names: tuple[str, ...]) -> "pa.Schema":
    return pa.schema([pa.field(name, pa.string()) for name in names], metadata={_CHECKSUM: _CHECKSUM_PLACE})


def _first_message(data: bytes) -> bytes:
    """Return the copy of the schema before the columns."""
    (size,) = _numbers("<i", data, 12)
    return data[16 : 16 + size]


def _with_checksum(data: bytes) -> bytes:
    first, between, last = _around_checksum(data, _CHECKSUM_PLACE)
    checksum = _checksum((first, between, last))
    return b"".join((first, checksum, between, checksum, last))


def _around_checksum(data: bytes, checksum: bytes) -> tuple[memoryview, memoryview, memoryview]:
    """Return the bytes before, between and after the two copies of the checksum.

    One copy of the schema is before the columns and one after them, so the first and
    the last occurrence are the right ones whatever the columns contain.
    """
    view, size = memoryview(data), len(checksum)
    first, last = data.find(checksum), data.rfind(checksum)
    return view[:first], view[first + size : last], view[last + size :]


def _checksum(parts: Iterable[memoryview]) -> bytes:
    return mmh3.mmh3_x64_128_digest(b"".join(map(mmh3.mmh3_x64_128_digest, parts))).hex().encode()


def _expanded_bytes(data: bytes, path: str) -> int:
    """Return the declared uncompressed size of all record batches; 0 if nothing is compressed.

    This walks the file as Arrow does, from the footer to each record batch to its
    buffers; a compressed buffer starts with its uncompressed size. An invalid structure
    raises `struct.error`.
    """
    (footer_size,) = _numbers("<i", data, len(data) - len(_MAGIC) - 4)
    if not data.startswith(_MAGIC) or not data.endswith(_MAGIC) or footer_size <= 0:
        raise struct.error("invalid magic bytes or footer size")
    footer_start = len(data) - len(_MAGIC) - 4 - footer_size
    if footer_start < 0:
        raise struct.error("negative offset")
    footer = _target(data, footer_start)
    if _vector(data, _field(data, footer, 2), 24):
        raise _format_error(path, "it has dictionaries; expected string columns")
    total = 0
    for block in _vector(data, _field(data, footer, 3), 24):
        offset, metadata_size = _numbers("<qi", data, block)
        total += _expanded_bytes_of_batch(data, offset, offset + metadata_size)
    return total


def _expanded_bytes_of_batch(data: bytes, start: int, body: int) -> int:
    (first_word,) = _numbers("<I", data, start)
    message = _target(data, start + (8 if first_word == _CONTINUATION else 4))
    header_kind, header = _field(data, message, 1), _field(data, message, 2)
    if header_kind is None or header is None or _numbers("<B", data, header_kind) != (_RECORD_BATCH_HEADER,):
        raise struct.error("a message is not a record batch")
    batch = _target(data, header)
    if _field(data, batch, 3) is None:
        return 0
    total = 0
    buffers = _vector(data, _field(data, batch, 2), 16)
    for offset, size in struct.iter_unpack("<qq", data[buffers.start : buffers.stop]):
        if size >= 8:
            (unpacked_size,) = _numbers("<q", data, body + offset)
            # -1 means that this buffer is not compressed.
            total += max(unpacked_size, 0)
    return total


def _numbers(shape: str, data: bytes, at: int) -> tuple[int, ...]:
    if at < 0:
        raise struct.error("negative offset")
    numbers: tuple[int, ...] = struct.unpack_from(shape, data, at)
    return numbers


def _target(data: bytes, at: int) -> int:
    """Return the target of the offset at `at`, which is not negative."""
    target: int = at + _UINT32(data, at)[0]
    return target


def _field(data: bytes, table: int, index: int) -> int | None:
    """Return the position of a field of a table, or None if it is absent."""
    fields: int = table - _INT32(data, table)[0]
    if fields < 0:
        raise struct.error("negative offset")
    if _UINT16(data, fields)[0] < 6 + 2 * index:
        return None
    offset: int = _UINT16(data, fields + 4 + 2 * index)[0]
    return table + offset if offset else None


def _vector(data: bytes, field: int | None, item_size: int) -> range:
    """Return the positions of the items of a vector."""
    if field is None:
        return range(0)
    vector = _target(data, field)
    (length,) = _UINT32(data, vector)
    if length * item_size > len(data):
        raise struct.error("a vector is longer than the file")
    return range(vector + 4, vector + 4 + length * item_size, item_size)


def _format_error(path: str, rule: str) -> FormatError:
    return FormatError(f"{path!r} is not a node file: {rule}. Run `mangrove check` to see what else is damaged")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]


N_KEYS = "n_keys"
LAST_TRANSACTION = "last_transaction"
N_MESSAGES = "n_messages"

TextColumn = Sequence[str | None]


class NodeRows(NamedTuple):
    """The columns of a node file under uniform names."""

    keys: TextColumn
    values: TextColumn
    children: TextColumn
    transactions: TextColumn
    path: str = ""

    def broken(self, rule: str) -> FormatError:
        """Return the error for a file with invalid rows."""
        return FormatError(f"node file {self.path!r} is invalid: {rule}. Run `mangrove check`")


class NodeSections(NamedTuple):
    """The decoded sections of a node file."""

    system: Mapping[str, str]
    node: Node


def encode_newer_rows(node: Node, system: Mapping[str, str], order: int) -> NodeRows:
    """Return the rows of a node in which each message has a transaction id."""
    head, empty = len(system), order - 1 - len(node.keys)
    keys, values, transactions = _split_messages(node.buffer)
    return NodeRows(
        keys=[*system, None, *node.keys, *[None] * empty, *keys],
        values=[*system.values(), None, *node.values, *[None] * empty, *values],
        children=[*[None] * head, *_children(node, order), *[None] * len(keys)],
        transactions=[*[None] * (head + order), *transactions],
    )


def _split_messages(messages: Sequence[Message]) -> tuple[TextColumn, TextColumn, TextColumn]:
    if isinstance(messages, MessageColumns):
        return messages.keys, messages.values, messages.transactions
    return tuple(zip(*messages, strict=True)) if messages else ((), (), ())  # type: ignore[return-value]


def encode_older_rows(node: Node, system: Mapping[str, str], order: int) -> NodeRows:
    """Return the rows of a node in the older format revision, which has no column for transaction ids.

    Two additional system rows of a root record which of its last messages belong to
    its transaction; conflict detection needs these only.
    """
    if system and node.buffer:
        last = node.buffer[-1].transaction
        count = next((i for i, message in enumerate(reversed(node.buffer)) if message.transaction != last), None)
        count = len(node.buffer) if count is None else count
        system = {**system, LAST_TRANSACTION: last, N_MESSAGES: str(count)}
    return encode_newer_rows(node, system, order)._replace(transactions=())


def decode_newer_rows(rows: NodeRows, order: int | None) -> NodeSections:
    """Return the sections of rows in which exactly the messages have a transaction."""
    system, start = read_system_section(rows)
    end = start + list(rows.transactions[start:]).count(None)
    transactions = rows.transactions[end:]
    if None in transactions:
        raise rows.broken("a row between messages has no transaction")
    keys, values, children = read_key_table(rows, start, end, system, order)
    return NodeSections(system, _node(rows, keys, values, children, _messages(rows, end, transactions)))


def decode_older_rows(rows: NodeRows, order: int | None) -> NodeSections:
    """Return the sections of rows in which only the position separates messages from keys."""
    system, start = read_system_section(rows)
    end = _older_table_end(rows, start, system, order)
    keys, values, children = read_key_table(rows, start, end, system, order)
    named = {name: value for name, value in system.items() if name not in (LAST_TRANSACTION, N_MESSAGES)}
    count = _number(rows, system, N_MESSAGES) or 0
    others = len(rows.keys) - end - count
    if others < 0:
        raise rows.broken(f"{N_MESSAGES} is {count}, more than the number of messages")
    transactions = [""] * others + [system.get(LAST_TRANSACTION, "")] * count
    return NodeSections(named, _node(rows, keys, values, children, _messages(rows, end, transactions)))


def read_system_section(rows: NodeRows) -> tuple[dict[str, str], int]:
    """Return the system rows and the start of the key table."""
    start = _find_empty(rows.keys, 0, len(rows.keys))
    if start == len(rows.keys) or rows.values[start] is not None:
        raise rows.broken("the key table has no opening row without key and value")
    system: dict[str, str] = {}
    for key, value in zip(rows.keys[:start], rows.values[:start], strict=True):
        if key is None or value is None or key in system:
            raise rows.broken(f"the system row {key!r} has no value or is a duplicate")
        system[key] = value
    return system, start


def read_key_table(
    rows: NodeRows, start: int, end: int, system: Mapping[str, str], order: int | None
) -> tuple[TextColumn, TextColumn, tuple[str, ...]]:
    """Return keys, values and children of the key table from `start` to `end`."""
    filled = _find_empty(rows.keys, start + 1, end)
    count = filled - start - 1
    for column in (rows.keys, rows.values, rows.children):
        if len(column[filled:end]) != list(column[filled:end]).count(None):
            raise rows.broken("a non-empty row follows the first empty row of the key table")
    if order is not None and count > order - 1:
        raise rows.broken(f"it has {count} keys; a node of order {order} has at most {order - 1}")
    claimed = _number(rows, system, N_KEYS)
    if claimed is not None and claimed != count:
        raise rows.broken(f"{N_KEYS} is {claimed}, but there are {count} keys")
    children = tuple([child for child in rows.children[start:filled] if child is not None])
    return rows.keys[start + 1 : filled], rows.values[start + 1 : filled], children


def _node(
    rows: NodeRows, keys: TextColumn, values: TextColumn, children: tuple[str, ...], buffer: Sequence[Message]
) -> Node:
    # The key table ends before the first row without a key.
    known_values = values if None not in values else [value for value in values if value is not None]
    try:
        return Node(tuple(cast("Sequence[str]", keys)), tuple(cast("Sequence[str]", known_values)), children, buffer)
    except ValueError as error:
        raise rows.broken(str(error)) from None


def _messages(rows: NodeRows, start: int, transactions: TextColumn) -> Sequence[Message]:
    keys, values = rows.keys[start:], rows.values[start:]
    if None in keys or list(rows.children[start:]).count(None) != len(keys):
        raise rows.broken("a message must have a key and no child")
    # Neither a key nor a transaction is None here.
    return MessageColumns(cast("Sequence[str]", keys), values, cast("Sequence[str]", transactions)) if keys else ()


def _find_empty(column: TextColumn, start: int, end: int) -> int:
    """Return the place of the first row from `start` on that is empty, or `end`."""
    try:
        return column.index(None, start, end)
    except ValueError:
        return end


def _older_table_end(rows: NodeRows, start: int, system: Mapping[str, str], order: int | None) -> int:
    """Return the end of the key table: from the order, else from the recorded count, else from the empty rows."""
    total = len(rows.keys)
    if order is not None:
        if total < start + order:
            raise rows.broken(f"the key table has {total - start} rows, but the order is {order}")
        return start + order
    claimed = _number(rows, system, N_KEYS)
    if claimed is None:
        empty = next((i for i in range(start + 1, total) if rows.keys[i] is None), None)
        if empty is None and rows.children[start] is None and total > start + 1:
            raise rows.broken("the order of the tree is required to separate keys from messages")
        childless = next((i for i in range(start + 1, total) if rows.children[i] is None), total)
        end = childless if empty is None else empty
    else:
        end = min(start + 1 + claimed, total)
    return next((i for i in range(end, total) if rows.keys[i] is not None), total)


def _children(node: Node, order: int) -> list[str | None]:
    names: list[str | None] = []
    for child in node.children:
        if not isinstance(child, str):
            raise ValueError("a child is not written yet and has no path")
        names.append(child)
    return names + [None] * (order - len(names))


def _number(rows: NodeRows, system: Mapping[str, str], name: str) -> int | None:
    text = system.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise rows.broken(f"{name} is {text[:40]!r}, which is not a number")
    return int(text)

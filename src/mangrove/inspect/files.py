"""Decoding of any metadata file by its path and content.

The name of a file has its kind, and the names of the two layouts are disjoint: those of the tree
layout end in `.ipc` and `.binpb`, those of the DeltaCAT layout in `.mpk` or in a transaction id.
"""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from mangrove.betree.node import Node
from mangrove.errors import FormatError, InvalidInputError
from mangrove.expressions.schema_text import format_schema
from mangrove.inspect.tree_shape import format_tree_key
from mangrove.layouts.deltacat.guards import decode_guard
from mangrove.layouts.deltacat.index import decode_node as decode_index_node
from mangrove.layouts.deltacat.msgpack_maps import decode_map, decode_with_checksum
from mangrove.layouts.deltacat.paths import parse_numbered_path
from mangrove.layouts.deltacat.schema_codec import decode_schema
from mangrove.layouts.tree.definition_files import decode_inline_pointer, verify_and_strip_checksum
from mangrove.layouts.tree.definitions import decode_definition
from mangrove.layouts.tree.java_formats import OLYMPIA_JAVA, TRINITYLAKE_JAVA
from mangrove.layouts.tree.keys import KeyEncoding, NameSizes
from mangrove.layouts.tree.node_file import decode_node
from mangrove.layouts.tree.revision import NEWER, OLDER
from mangrove.layouts.tree.versions import decode_hint
from mangrove.maintenance.convert.replay import CONVERSION_PATH, decode_conversion
from mangrove.maintenance.export_records import EXPORT_RECORD_PATH, decode_export_record
from mangrove.model.json_codec import Json, to_json
from mangrove.model.locators import Kind

__all__ = [
    "BufferRow",
    "InspectedFile",
    "KeyRow",
    "decode_wire_fields",
    "format_index_key",
    "inspect_file",
]

_INDEX_KIND_NAMES: Final = {"o": "revisions in", "x": "deleted from", "y": "names in"}
"""Prefixes of index keys of the DeltaCAT layout that are not object kinds."""


def format_index_key(key: str) -> str:
    r"""Return a key of the DeltaCAT layout's index as its kind and parts.

    >>> format_index_key("1\tsales"), format_index_key("o\t1bcc694f")
    ('namespace sales', 'revisions in 1bcc694f')
    """
    first, *parts = key.split("\t")
    kinds = {str(kind.value): kind.word for kind in Kind}
    return " ".join([_INDEX_KIND_NAMES.get(first) or kinds.get(first, first), *parts])


_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_DEPTH_MAX = 16


def decode_wire_fields(data: bytes, where: str) -> list[Json]:
    """Decode protobuf fields without a schema: numbers and values in order, nested where bytes parse as a message.

    >>> decode_wire_fields(bytes([0x08, 0x96, 0x01, 0x12, 0x02, 0x68, 0x69]), "here")
    [{'field': 1, 'value': 150}, {'field': 2, 'value': 'hi'}]
    """
    fields = _fields(data, _DEPTH_MAX)
    if fields is None:
        raise FormatError(f"{where} is not a protobuf message; run `mangrove check` on the lakehouse")
    return fields


def _fields(data: bytes, depth: int) -> list[Json] | None:
    fields: list[Json] = []
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, wire_type = tag >> 3, tag & 7
        value: Json
        if place < 0 or number == 0 or depth == 0:
            return None
        if wire_type == _VARINT:
            value, place = _varint(data, place)
            if place < 0:
                return None
        elif wire_type == _SIZED:
            size, place = _varint(data, place)
            if place < 0 or place + size > len(data):
                return None
            value = _decode_sized(data[place : place + size], depth)
            place += size
        elif wire_type in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if wire_type == _EIGHT_BYTES else 4
            if place + size > len(data):
                return None
            value = f"0x{data[place : place + size].hex()}"
            place += size
        else:
            return None
        fields.append({"field": number, "value": value})
    return fields


def _decode_sized(data: bytes, depth: int) -> Json:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable():
        return text
    inner = _fields(data, depth - 1)
    return inner if inner is not None else f"0x{data.hex()}"


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the varint at an offset and the next offset, which is negative if there is none."""
    number = 0
    for count, byte in enumerate(data[place : place + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return number, place + count + 1
    return 0, -1


_REVISIONS = (NEWER, OLDER, TRINITYLAKE_JAVA.revision, OLYMPIA_JAVA.revision)
_ROOT = re.compile(r"(?:.*/)?(?:_([01]{32}|[01]{64})\.ipc|vn/([01]{64}))")
_HINT = re.compile(r"(?:.*/)?(?:_latest_hint(?:\.txt)?|vn/latest|mangrove/latest)")
_DEFINITION = re.compile(r"(?:.*/)?(?:[01]{8}-)?(?P<word>[a-z]+)-.*\.binpb")
_LOG = re.compile(r".*/txn/.*")
_KIND_NAMES = {kind.word.replace(" ", ""): kind for kind in Kind if kind is not Kind.LAKEHOUSE} | {
    "txn": Kind.SHARED_TRANSACTION
}


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A row of a node's key table; the first one has a child only."""

    key: str | None
    value: str | None
    child: str | None
    definition: Json = None
    """The inline definition of the value, if it is not a path."""


@dataclass(frozen=True, slots=True)
class BufferRow:
    """A message of a write buffer; None deletes the key."""

    key: str
    value: str | None
    transaction: str
    definition: Json = None
    """The inline definition of the value, if it is not a path."""


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """The kind of a file, its fields, and for a node its rows."""

    path: str
    what: str
    size_bytes: int
    fields: Json = None
    rows: tuple[KeyRow, ...] = ()
    buffer: tuple[BufferRow, ...] = ()


def inspect_file(path: str, data: bytes) -> InspectedFile:
    """Decode the file at `path`."""
    name = path.rpartition("/")[2]
    for matches, read in _READERS:
        if matches(path, name):
            return read(path, data)
    if not data:
        return _mapping(path)
    if data[:4] == b"PAR1":
        raise InvalidInputError(f"{path} is a Parquet data file; read its table instead")
    raise InvalidInputError(
        f"{path} is not a metadata file of either layout; give one, such as ./lake/_latest_hint.txt"
    )


def _node(path: str, data: bytes) -> InspectedFile:
    file = decode_node(data, path, _REVISIONS)
    root = _ROOT.fullmatch(path)
    what = f"root node of version {int((root[1] or root[2])[::-1], 2)}" if root else "node"
    kind = "leaf" if file.node.is_leaf else f"{len(file.node.children)} children"
    description = f"{what} ({kind}), format revision: {file.revision.name}"
    return _with_rows(
        path,
        description,
        data,
        dict(file.system),
        file.node,
        lambda key: format_tree_key(key, file.revision.keys, NameSizes()),
        lambda key, value: _decode_inline_definition(file.revision.keys, key, value),
    )


def _decode_inline_definition(encoding: KeyEncoding, key: str, value: str | None) -> Json:
    """Return the inline definition of a value; None if it is a path or another program wrote it."""
    definition = None if value is None else decode_inline_pointer(value, "a node")
    if definition is None:
        return None
    try:
        kind, _ = encoding.parts_of(key, NameSizes())
        return to_json(decode_definition(kind, definition, "a node")[0])
    except FormatError:
        return None


def _no_inline_definition(_: str, __: str | None) -> Json:
    return None


def _with_rows(
    path: str,
    what: str,
    data: bytes,
    fields: Json,
    node: Node,
    format_key: Callable[[str], str],
    decode_inline: Callable[[str, str | None], Json] = _no_inline_definition,
) -> InspectedFile:
    children = [child if isinstance(child, str) else "(not written)" for child in node.children]
    first = [KeyRow(None, None, children[0])] if children else []
    rest = [
        KeyRow(
            format_key(key), _value_text(value), children[place + 1] if children else None, decode_inline(key, value)
        )
        for place, (key, value) in enumerate(zip(node.keys, node.values, strict=True))
    ]
    buffer = tuple(
        BufferRow(
            format_key(one.key),
            None if one.value is None else _value_text(one.value),
            one.transaction,
            decode_inline(one.key, one.value),
        )
        for one in node.buffer
    )
    return InspectedFile(path, what, len(data), fields, (*first, *rest), buffer)


def _value_text(value: str) -> str:
    definition = decode_inline_pointer(value, "a node")
    return value if definition is None else f"(inline definition of {len(definition)} bytes)"


def _definition(path: str, data: bytes) -> InspectedFile:
    name = path.rpartition("/")[2]
    match = _DEFINITION.fullmatch(path)
    word = "lakehouse" if name.startswith("_lakehouse_def_") else "" if match is None else match["word"]
    kind = Kind.LAKEHOUSE if word == "lakehouse" else _KIND_NAMES.get(word)
    if kind is not None and "/def/" not in path:
        definition = verify_and_strip_checksum(data, kind, path)
        try:
            value, unknown = decode_definition(kind, definition, path)
        except FormatError:
            kind = None
        else:
            more = ", with fields that this release does not know" if unknown else ""
            return InspectedFile(path, f"definition of a {kind.word}{more}", len(data), to_json(value))
    return InspectedFile(
        path, "definition by another program, by field number", len(data), decode_wire_fields(data, path)
    )


def _inspect_msgpack(path: str, data: bytes) -> InspectedFile:
    if "/mangrove/version/" in path or path.endswith("/mangrove/adopted.mpk"):
        guard = decode_guard(data, path)
        fields = {name: value for name, value in decode_with_checksum(data, path).items() if name != "root"}
        what = f"guard of version {guard.version}, format revision: {guard.revision.name}"
        return _with_rows(path, what, data, _plain(fields), guard.root, format_index_key)
    if "/mangrove/node/" in path:
        node = decode_index_node(data, path)
        return _with_rows(path, "node of the index", data, None, node, format_index_key)
    fields = decode_map(data, path)
    try:
        file = parse_numbered_path(path)
        what = f"revision {file.number} ({file.operation}) of an object, by transaction {file.transaction}"
    except FormatError:
        what = "MessagePack"
    return InspectedFile(path, what, len(data), _plain(fields))


def _log(path: str, data: bytes) -> InspectedFile:
    what = next((word for word in ("success", "failed", "running", "paused") if f"/txn/{word}/" in path), "success")
    return InspectedFile(
        path, f"log of a transaction ({what})", len(data), _plain(decode_map(data, path)) if data else None
    )


def _hint(path: str, data: bytes) -> InspectedFile:
    version = decode_hint(data)
    content = "cannot be read, which is harmless" if version is None else f"names version {version}"
    return InspectedFile(path, f"hint at the newest version: {content}", len(data), {"version": version})


def _record(path: str, data: bytes) -> InspectedFile:
    record = decode_export_record(data, path)
    fields: Json = {
        "source": record.source, "name": record.name, "version": record.version, "mode": record.mode,
        "tables": list(record.tables),
    }  # fmt: skip
    return InspectedFile(path, "record of an export", len(data), fields)


def _conversion(path: str, data: bytes) -> InspectedFile:
    return InspectedFile(path, "record of a conversion", len(data), asdict(decode_conversion(data, path)))


def _mapping(path: str) -> InspectedFile:
    try:
        file = parse_numbered_path(path)
    except FormatError:
        raise InvalidInputError(f"{path} is empty, and its name does not belong to either layout") from None
    fields: Json = {"target": file.target, "operation": file.operation, "transaction": file.transaction}
    return InspectedFile(path, f"mapping {file.number} of a name to an object's id", 0, fields)


def _plain(value: Any) -> Json:
    """Return a MessagePack value as JSON; bytes become an Arrow schema or hexadecimal digits."""
    match value:
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case bytes():
            try:
                return {"schema": format_schema(decode_schema(value, "a schema")[0])}
            except (FormatError, InvalidInputError):
                return {"bytes": value.hex()}
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


_READERS: tuple[tuple[Callable[[str, str], bool], Callable[[str, bytes], InspectedFile]], ...] = (
    (lambda path, _: _HINT.fullmatch(path) is not None, _hint),
    (lambda _, name: name == EXPORT_RECORD_PATH, _record),
    (lambda _, name: name == CONVERSION_PATH, _conversion),
    (lambda path, name: name.endswith(".ipc") or _ROOT.fullmatch(path) is not None, _node),
    (lambda path, name: name.endswith(".binpb") or "/def/" in path, _definition),
    (lambda _, name: name.endswith(".mpk"), _inspect_msgpack),
    (lambda path, _: _LOG.fullmatch(path) is not None, _log),
)

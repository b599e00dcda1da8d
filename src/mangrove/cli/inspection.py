"""What any file of either layout holds, found out from its path and its bytes.

A file says little about where it belongs. Its kind is in its name, and names of
the two layouts do not meet: the tree layout ends them in `.ipc` and `.binpb`, the
DeltaCAT layout in `.mpk` or in a transaction's id.
"""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from mangrove.betree.node import Node
from mangrove.cli.key_text import index_key_text, key_text
from mangrove.cli.protobuf_text import wire_fields
from mangrove.errors import FormatError, InvalidInputError
from mangrove.layouts.deltacat.guard import decode_guard
from mangrove.layouts.deltacat.index import decode_node as decode_index_node
from mangrove.layouts.deltacat.packed import unpack, unseal
from mangrove.layouts.deltacat.paths import numbered_file
from mangrove.layouts.deltacat.schema_form import schema_of_bytes
from mangrove.layouts.tree.definitions import decode_definition
from mangrove.layouts.tree.hint import decode_hint
from mangrove.layouts.tree.java_dialects import OLYMPIA_JAVA, TRINITYLAKE_JAVA
from mangrove.layouts.tree.keys import KeyEncoding, NameSizes
from mangrove.layouts.tree.node_file import decode_node
from mangrove.layouts.tree.pointers import inlined
from mangrove.layouts.tree.revision import NEWER, OLDER
from mangrove.layouts.tree.seal import unsealed
from mangrove.maintenance.convert_record import CONVERSION_PATH, decode_conversion
from mangrove.maintenance.export_record import RECORD_PATH, decode_record
from mangrove.model.json_form import Json, to_json
from mangrove.model.locators import Kind
from mangrove.model.sql_text import schema_text

__all__ = ["BufferRow", "Inspected", "KeyRow", "inspected"]

_REVISIONS = (NEWER, OLDER, TRINITYLAKE_JAVA.revision, OLYMPIA_JAVA.revision)
_ROOT = re.compile(r"(?:.*/)?(?:_([01]{32}|[01]{64})\.ipc|vn/([01]{64}))")
_HINT = re.compile(r"(?:.*/)?(?:_latest_hint(?:\.txt)?|vn/latest|mangrove/latest)")
_DEFINITION = re.compile(r"(?:.*/)?(?:[01]{8}-)?(?P<word>[a-z]+)-.*\.binpb")
_LOG = re.compile(r".*/txn/.*")
_WORDS = {kind.word.replace(" ", ""): kind for kind in Kind if kind is not Kind.LAKEHOUSE} | {
    "txn": Kind.SHARED_TRANSACTION
}


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A row of a node's key table; the first one has a child only."""

    key: str | None
    value: str | None
    child: str | None
    definition: Json = None
    """What the value holds itself, where it does not lead to a file."""


@dataclass(frozen=True, slots=True)
class BufferRow:
    """A message of a write buffer; None deletes the key."""

    key: str
    value: str | None
    transaction: str
    definition: Json = None
    """What the value holds itself, where it does not lead to a file."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """What a file is, what it says in fields, and for a node its rows."""

    path: str
    what: str
    size_bytes: int
    fields: Json = None
    rows: tuple[KeyRow, ...] = ()
    buffer: tuple[BufferRow, ...] = ()


def inspected(path: str, data: bytes) -> Inspected:
    """Return what the file at `path` holds."""
    name = path.rpartition("/")[2]
    for is_such, read in _READERS:
        if is_such(path, name):
            return read(path, data)
    if not data:
        return _mapping(path)
    if data[:4] == b"PAR1":
        raise InvalidInputError(f"{path} is a Parquet file with rows of a table: read the table it belongs to instead")
    raise InvalidInputError(
        f"{path} is no file of either layout: give one of a lakehouse, such as ./lake/_latest_hint.txt"
    )


def _node(path: str, data: bytes) -> Inspected:
    file = decode_node(data, path, _REVISIONS)
    root = _ROOT.fullmatch(path)
    what = f"root node of version {int((root[1] or root[2])[::-1], 2)}" if root else "node"
    kind = "leaf" if file.node.is_leaf else f"{len(file.node.children)} children"
    said = f"{what} ({kind}), format revision: {file.revision.name}"
    return _with_rows(
        path,
        said,
        data,
        dict(file.system),
        file.node,
        lambda key: key_text(key, file.revision.keys, NameSizes()),
        lambda key, value: _held(file.revision.keys, key, value),
    )


def _held(encoding: KeyEncoding, key: str, value: str | None) -> Json:
    """Return the definition that a value holds itself; None where it leads to a file, or another program wrote it."""
    definition = None if value is None else inlined(value, "a node")
    if definition is None:
        return None
    try:
        kind, _ = encoding.parts_of(key, NameSizes())
        return to_json(decode_definition(kind, definition, "a node")[0])
    except FormatError:
        return None


def _nothing_held(_: str, __: str | None) -> Json:
    return None


def _with_rows(
    path: str,
    what: str,
    data: bytes,
    fields: Json,
    node: Node,
    said: Callable[[str], str],
    held: Callable[[str, str | None], Json] = _nothing_held,
) -> Inspected:
    children = [child if isinstance(child, str) else "(not written)" for child in node.children]
    first = [KeyRow(None, None, children[0])] if children else []
    rest = [
        KeyRow(said(key), _value_text(value), children[place + 1] if children else None, held(key, value))
        for place, (key, value) in enumerate(zip(node.keys, node.values, strict=True))
    ]
    buffer = tuple(
        BufferRow(
            said(one.key),
            None if one.value is None else _value_text(one.value),
            one.transaction,
            held(one.key, one.value),
        )
        for one in node.buffer
    )
    return Inspected(path, what, len(data), fields, (*first, *rest), buffer)


def _value_text(value: str) -> str:
    definition = inlined(value, "a node")
    return value if definition is None else f"(a definition of {len(definition)} bytes inside)"


def _definition(path: str, data: bytes) -> Inspected:
    name = path.rpartition("/")[2]
    match = _DEFINITION.fullmatch(path)
    word = "lakehouse" if name.startswith("_lakehouse_def_") else "" if match is None else match["word"]
    kind = Kind.LAKEHOUSE if word == "lakehouse" else _WORDS.get(word)
    if kind is not None and "/def/" not in path:
        definition = unsealed(data, kind, path)
        try:
            value, unknown = decode_definition(kind, definition, path)
        except FormatError:
            kind = None
        else:
            more = ", with fields that this release does not know" if unknown else ""
            return Inspected(path, f"definition of a {kind.word}{more}", len(data), to_json(value))
    return Inspected(path, "definition by another program, by field number", len(data), wire_fields(data, path))


def _packed(path: str, data: bytes) -> Inspected:
    if "/mangrove/version/" in path or path.endswith("/mangrove/adopted.mpk"):
        guard = decode_guard(data, path)
        fields = {name: value for name, value in unseal(data, path).items() if name != "root"}
        what = f"guard of version {guard.version}, format revision: {guard.revision.name}"
        return _with_rows(path, what, data, _plain(fields), guard.root, index_key_text)
    if "/mangrove/node/" in path:
        node = decode_index_node(data, path)
        return _with_rows(path, "node of the index", data, None, node, index_key_text)
    fields = unpack(data, path)
    try:
        file = numbered_file(path)
        what = f"revision {file.number} ({file.operation}) of an object, by transaction {file.transaction}"
    except FormatError:
        what = "MessagePack"
    return Inspected(path, what, len(data), _plain(fields))


def _log(path: str, data: bytes) -> Inspected:
    what = next((word for word in ("success", "failed", "running", "paused") if f"/txn/{word}/" in path), "success")
    return Inspected(path, f"log of a transaction ({what})", len(data), _plain(unpack(data, path)) if data else None)


def _hint(path: str, data: bytes) -> Inspected:
    version = decode_hint(data)
    said = "cannot be read, which is harmless" if version is None else f"names version {version}"
    return Inspected(path, f"hint at the newest version: {said}", len(data), {"version": version})


def _record(path: str, data: bytes) -> Inspected:
    record = decode_record(data, path)
    fields: Json = {
        "source": record.source, "name": record.name, "version": record.version, "mode": record.mode,
        "tables": list(record.tables),
    }  # fmt: skip
    return Inspected(path, "record of an export", len(data), fields)


def _conversion(path: str, data: bytes) -> Inspected:
    return Inspected(path, "record of a conversion", len(data), asdict(decode_conversion(data, path)))


def _mapping(path: str) -> Inspected:
    try:
        file = numbered_file(path)
    except FormatError:
        raise InvalidInputError(f"{path} is empty, and its name is none of either layout") from None
    fields: Json = {"target": file.target, "operation": file.operation, "transaction": file.transaction}
    return Inspected(path, f"mapping {file.number} of a name to an object's id", 0, fields)


def _plain(value: Any) -> Json:
    """Return what MessagePack held as JSON; bytes are an Arrow schema, or hexadecimal digits."""
    match value:
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case bytes():
            try:
                return {"schema": schema_text(schema_of_bytes(value, "a schema")[0])}
            except (FormatError, InvalidInputError):
                return {"bytes": value.hex()}
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


_READERS: tuple[tuple[Callable[[str, str], bool], Callable[[str, bytes], Inspected]], ...] = (
    (lambda path, _: _HINT.fullmatch(path) is not None, _hint),
    (lambda _, name: name == RECORD_PATH, _record),
    (lambda _, name: name == CONVERSION_PATH, _conversion),
    (lambda path, name: name.endswith(".ipc") or _ROOT.fullmatch(path) is not None, _node),
    (lambda path, name: name.endswith(".binpb") or "/def/" in path, _definition),
    (lambda _, name: name.endswith(".mpk"), _packed),
    (lambda path, _: _LOG.fullmatch(path) is not None, _log),
)

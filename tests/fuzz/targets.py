"""Fuzz targets: each decodes bytes as one kind of untrusted input, and raises `MangroveError` or nothing.

The first byte chooses between the readers of a target. Where a file has a checksum, the
target adds the right one, because a fuzzer would hardly ever get beyond it.
"""

import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from starlette.testclient import TestClient

from mangrove.effects import build_effects
from mangrove.errors import MangroveError
from mangrove.expressions.parse import parse_expression, parse_predicate
from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.commit.manifest_reader import ClientFileIO, TableLocation
from mangrove.inspect.files import inspect_file
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.lakehouse.time_travel import parse_as_of, parse_duration_millis
from mangrove.layouts.deltacat.guards import decode_guard
from mangrove.layouts.deltacat.index import decode_node as decode_index_node
from mangrove.layouts.deltacat.index import parse_mapping_entry, parse_revision_entry
from mangrove.layouts.deltacat.msgpack_maps import encode_map
from mangrove.layouts.deltacat.object_codec import decode_body
from mangrove.layouts.deltacat.paths import parse_numbered_path
from mangrove.layouts.deltacat.schema_codec import decode_schema
from mangrove.layouts.deltacat.transaction_log import parse_log_path
from mangrove.layouts.tree.definitions import decode_definition
from mangrove.layouts.tree.java_formats import OLYMPIA_JAVA, TRINITYLAKE_JAVA
from mangrove.layouts.tree.keys import NameSizes
from mangrove.layouts.tree.node_rows import encode_columns
from mangrove.layouts.tree.revision import NEWER, OLDER
from mangrove.layouts.tree.root import decode_root
from mangrove.local.inline_rows import InlineRowsReader
from mangrove.local.parquet import DataFileReader
from mangrove.model.canonical import parse_canonical, parse_locator, parse_object_name
from mangrove.model.locators import Kind, parse_table_name, parse_view_name
from mangrove.model.manifests import ARROW_STREAM, DataFile
from mangrove.model.paths import check_location
from mangrove.server.access import Access
from mangrove.server.app import build_app
from mangrove.sql.parse.grammar import parse_statement
from mangrove.sql.parse.table_refs import analyze_query
from mangrove.sql.parse.tokens import split_script
from mangrove.storage.memory import MemoryStore
from mangrove.storage.uri import parse_root_uri
from mangrove.transaction.shared_transactions import decode_work

__all__ = ["TARGETS", "run_target"]

Decoder: TypeAlias = Callable[[bytes], object]

_SCHEMA: Final = parse_schema(
    "id bigint not null, name string, price decimal(10,2), at timestamp, tags array<string>, place struct<city: string>"
)
_REVISIONS: Final = (NEWER, OLDER, TRINITYLAKE_JAVA.revision, OLYMPIA_JAVA.revision)
_ROOT_PATH: Final = f"_{'0' * 64}.ipc"
_INSPECTED: Final = (
    "_latest_hint.txt",
    "00000000-node-1.ipc",
    "00000000-table-1.binpb",
    "catalog/mangrove/version/1.mpk",
    "catalog/mangrove/node/1.mpk",
    "catalog/txn/success/1",
    "export.json",
)
_REST_PATHS: Final = (
    "v1/namespaces",
    "v1/namespaces/sales/properties",
    "v1/namespaces/sales/tables",
    "v1/namespaces/sales/tables/orders",
    "v1/namespaces/sales/register",
    "v1/namespaces/sales/views",
    "v1/tables/rename",
    "v1/transactions/commit",
)


def run_target(name: str, data: bytes) -> None:
    """Decode the data; every exception but `MangroveError` is a bug."""
    with suppress(MangroveError):
        TARGETS[name](data)


def _choose(*decoders: Decoder) -> Decoder:
    """Return a decoder that lets the first byte choose between several."""

    def decode(data: bytes) -> object:
        return decoders[data[0] % len(decoders)](data[1:]) if data else None

    return decode


def _read_text(parse: Callable[[str], object]) -> Decoder:
    return lambda data: parse(data.decode("utf-8", "replace"))


def _decode_root(data: bytes) -> object:
    """Decode a root whose rows are lines of cells, with the names of columns of a revision."""
    if not data:
        return None
    revision = _REVISIONS[data[0] % len(_REVISIONS)]
    lines = [line.split("\t") for line in data[1:].decode("utf-8", "replace").split("\n")]
    names = revision.columns.names
    columns: dict[str, list[str | None]] = {
        name: [(line[place] if place < len(line) else "") or None for line in lines] for place, name in enumerate(names)
    }
    return _use_root(encode_columns(columns, "none"))


def _use_root(data: bytes) -> object:
    root = decode_root(data, 1, _ROOT_PATH, _REVISIONS)
    keys = [*root.node.keys, *(message.key for message in root.node.buffer)]
    for key in keys:
        with suppress(MangroveError):
            root.revision.keys.parts_of(key, NameSizes())
    return root.commit, root.changed, root.clock_resets, root.created_at_millis


def _with_checksum(decode: Callable[[bytes, str], object]) -> Decoder:
    return lambda data: decode(encode_map({"crc32": zlib.crc32(data), "content": data}), "a.mpk")


def _decode_inline_rows(data: bytes) -> object:
    file = DataFile("data/t/1", len(data), data[0] if data else 0, content_type=ARROW_STREAM, inline_rows=data[1:])
    return InlineRowsReader(file).read_all(_SCHEMA.columns)


def _decode_data_file(data: bytes) -> object:
    store = MemoryStore()
    store.put("data/t/1.parquet", data)
    return DataFileReader(store, DataFile("data/t/1.parquet", len(data), 1)).read_all(_SCHEMA.columns)


def _decode_manifest_list(data: bytes) -> object:
    store = MemoryStore()
    store.put("data/t/list.avro", data)
    files = ClientFileIO(store, TableLocation("memory://unnamed/data/t", "t"))
    return files.manifests("memory://unnamed/data/t/list.avro")


@functools.cache
def _sample_objects() -> Mapping[str, tuple[bytes, int]]:
    store = MemoryStore()
    lake = create_on_store(build_effects(store))
    lake.create_namespace("sales")
    lake.create_table("sales.orders", _SCHEMA, keys=["id"]).append([{"id": 1, "name": "a"}])
    return store._objects


def _send_rest_body(data: bytes) -> object:
    """Send a body to a route of the REST catalog; a response of the kind 5xx is a bug."""
    if not data:
        return None
    store = MemoryStore()
    store._objects = dict(_sample_objects())
    app = build_app(open_on_store(build_effects(store)), Access("127.0.0.1", is_writable=True))
    client = TestClient(app, base_url="http://127.0.0.1/iceberg")
    answer = client.post(_REST_PATHS[data[0] % len(_REST_PATHS)], content=data[1:])
    assert answer.status_code < 500, answer.text
    return answer


def _inspect(data: bytes) -> object:
    return inspect_file(_INSPECTED[data[0] % len(_INSPECTED)], data[1:]) if data else None


def _of_each_kind(decode: Callable[[Kind, bytes], object]) -> Decoder:
    return _choose(*(functools.partial(decode, kind) for kind in Kind))


def _read_texts(parsers: Sequence[Callable[[str], object]]) -> Decoder:
    return _choose(*map(_read_text, parsers))


TARGETS: Final[Mapping[str, Decoder]] = {
    "arrow-schema": lambda data: decode_schema(data, "a.mpk"),
    "avro": _decode_manifest_list,
    "data-file": _decode_data_file,
    "index-values": _read_texts((parse_mapping_entry, parse_revision_entry)),
    "inline-rows": _decode_inline_rows,
    "inspect": _inspect,
    "messagepack": _choose(
        _with_checksum(decode_guard),
        _with_checksum(decode_index_node),
        _of_each_kind(lambda kind, data: decode_body(kind, data, "a/b/1/c/d/2", "a.mpk")),
    ),
    "names": _read_texts(
        (
            parse_canonical,
            parse_locator,
            parse_object_name,
            parse_table_name,
            parse_view_name,
            parse_numbered_path,
            parse_log_path,
            parse_as_of,
            parse_duration_millis,
        )
    ),
    "node": _use_root,
    "node-rows": _decode_root,
    "protobuf": _of_each_kind(lambda kind, data: decode_definition(kind, data, "a.binpb")),
    "rest": _send_rest_body,
    "shared-work": lambda data: decode_work(data, "a"),
    "sql": _read_texts((split_script, parse_statement, analyze_query)),
    "sql-expression": _read_texts((parse_expression, parse_schema, functools.partial(parse_predicate, schema=_SCHEMA))),
    "uri": _read_texts((parse_root_uri, check_location)),
}
"""The decoder of each target."""

"""A reader of the tree layout, in both format revisions, written from docs/format/tree.md alone."""

import base64
import datetime
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from tests.independent_readers.protobuf_wire import Definitions, parse_proto
from tests.independent_readers.table_rows import Json, Key, Objects

PROTO: Final = Path(__file__).parents[2] / "proto" / "mangrove_tree.proto"
_INLINE: Final = "data:application/protobuf;base64,"
_MARKER: Final = bytes.fromhex("f0ff0701")
_CHECKSUM_TAG: Final = bytes.fromhex("fdff07")
_EXTENSION_MIN: Final = 100
"""From this number on, the fields of TrinityLake's messages are Mangrove extensions."""
_TRINITYLAKE_MESSAGES: Final = ("Lakehouse", "Namespace", "Table", "View", "Schema", "Column")
_NEWER_KINDS: Final = ("namespace", "table", "view")
_OLDER_KINDS: Final = ("namespace", "table")
"""The kinds of objects whose keys TrinityLake defines, in each format revision."""
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "namespace": ("namespace name",),
    "table": ("namespace name", "table name"),
    "view": ("namespace name", "table name"),
    "shared transaction": ("id",),
    "table version": ("id", "number"),
    "stream": ("id", "number", "id"),
    "partition": ("id", "number", "id", "id"),
    "delta": ("id", "number", "id", "id", "number"),
    "alias": ("id",),
}
_NEWER_IDS: Final = dict(zip("BCDEFGHIJ", _PARTS, strict=True))
_OLDER_IDS: Final = {**_NEWER_IDS, "D": "table", "J": "view", "K": "alias"}
del _OLDER_IDS["C"]
_SETTINGS_DEFAULTS: Final[dict[str, Any]] = {
    "order": 128,
    "namespace_name_max_size_bytes": 100,
    "table_name_max_size_bytes": 100,
    "file_path_max_size_bytes": 200,
    "node_file_max_size_bytes": 1 << 20,
    "maximum_version_age_millis": 604_800_000,
    "minimum_versions_to_keep": 3,
}
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_UTC: Final = datetime.UTC


class Node(NamedTuple):
    """The sections of a node file."""

    system: dict[str, str]
    keys: list[tuple[str, str]]
    children: list[str]
    buffer: list[tuple[str, str | None]]


class TreeReader:
    """Reads the versions of a lakehouse from its files.

    Without `extensions` it reads what the specification of TrinityLake describes and nothing else: no `data:`
    values, no system rows, kinds and fields that only Mangrove writes.
    """

    def __init__(self, files: Mapping[str, bytes], *, extensions: bool = True) -> None:
        self._files = files
        self._extensions = extensions
        self._proto = parse_proto(PROTO.read_text("utf-8"))
        if not extensions:
            _remove_extension_fields(self._proto)
        self._digits = next(len(match[1]) for path in files if (match := re.fullmatch(r"_([01]{32,64})\.ipc", path)))

    def find_newest_version(self) -> int:
        """Return the newest version: the hint, or any later one that has a root."""
        hints = [self._files.get(name, b"").strip() for name in ("_latest_hint.txt", "_latest_hint")]
        version = next((int(hint) for hint in hints if hint.isdigit() and self._root_path(int(hint)) in self._files), 0)
        while self._root_path(version + 1) in self._files:
            version += 1
        return version

    def read_commit(self, version: int) -> Json:
        """Return the history entry of a version."""
        system = self._read_node(self._root_path(version), None).system
        rollback = system.get("rollback_from_root")
        return {
            "created_at_millis": int(system.get("created_at_millis", "0")),
            "transaction_id": system.get("transaction"),
            "message": system.get("commit_message", ""),
            "author": system.get("commit_author", ""),
            "properties": json.loads(system.get("commit_properties", "{}")),
            "rolled_back_from": None if rollback is None else int(rollback[1 : 1 + self._digits][::-1], 2),
        }

    def read_settings(self, version: int) -> Json:
        """Return the definition of the lakehouse."""
        system = self._read_node(self._root_path(version), None).system
        path = system["lakehouse_def"] if "lakehouse_def" in system else system["lakehouse"]
        return _SETTINGS_DEFAULTS | self._proto.decode("Lakehouse", _strip_checksum(self._files[path], "lakehouse"))

    def list_values(self, version: int | None = None) -> dict[Key, str]:
        """Return the values of all keys: the path of each definition, or the definition itself."""
        number = self.find_newest_version() if version is None else version
        settings = self.read_settings(number)
        root = self._read_node(self._root_path(number), settings["order"])
        renamed = json.loads(root.system.get("renamed_namespaces", "{}")) if self._extensions else {}
        names = {key_name: name for name, key_name in renamed.items()}
        values: dict[Key, str] = {}
        for text, value in self._read_subtree(root, settings["order"]).items():
            kind = self._find_kind(text)
            if kind is not None:
                parts = list(_split_key(text, kind, settings))
                if kind in ("table", "view"):
                    parts[0] = names.get(parts[0], parts[0])
                values[kind, *parts] = value
        return values

    def read_objects(self, version: int | None = None) -> Objects:
        """Return all objects of a version, or of the newest one."""
        return {key: self._read_definition(key[0], value) for key, value in self.list_values(version).items()}

    def _find_kind(self, text: str) -> str | None:
        """Return the kind of a tree key, or None if it is unknown; keys of the older revision start with a space."""
        is_older = text.startswith(" ")
        kind = _OLDER_IDS.get(text[-4]) if is_older else _NEWER_IDS.get(text[0])
        return kind if self._extensions or kind in (_OLDER_KINDS if is_older else _NEWER_KINDS) else None

    def _read_definition(self, kind: str, value: str) -> Json:
        if self._extensions and value.startswith(_INLINE):
            definition = base64.b64decode(value.removeprefix(_INLINE), validate=True)
        elif value in self._files:
            definition = _strip_checksum(self._files[value], kind)
        else:
            raise LookupError(f"there is no definition of a {kind} at {value[:60]}")
        message, convert = _CONVERTERS[kind]
        return convert(self._proto.decode(message, definition))

    def _read_subtree(self, node: Node, order: int) -> dict[str, str]:
        """Return the keys of a node and of all below it; a value in a node overrides those below it."""
        values: dict[str, str] = {}
        for child in node.children:
            values |= self._read_subtree(self._read_node(child, order), order)
        values |= dict(node.keys)
        for key, value in node.buffer:
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        return values

    def _read_node(self, path: str, order: int | None) -> Node:
        """Return a node; only the older revision needs the order to separate keys from messages."""
        rows = pa.ipc.open_file(io.BytesIO(self._files[path])).read_all().to_pydict()
        keys, values = rows["key"], rows["value"] if "value" in rows else rows["pvalue"]
        start = next(place for place, key in enumerate(keys) if key is None)
        if "txn" in rows:
            end = next((place for place, txn in enumerate(rows["txn"]) if txn is not None), len(keys))
        else:
            end = start + (order or 1)
        return Node(
            dict(zip(keys[:start], values[:start], strict=True)),
            [(keys[place], values[place]) for place in range(start, end) if keys[place] is not None],
            [child for child in rows["pnode"][start:end] if child is not None],
            list(zip(keys[end:], values[end:], strict=True)),
        )

    def _root_path(self, version: int) -> str:
        return f"_{format(version, f'0{self._digits}b')[::-1]}.ipc"


def _split_key(text: str, kind: str, settings: Json) -> Iterator[Any]:
    """Yield the parts of a tree key."""
    is_older = text.startswith(" ")
    data = (text[1:-4] if is_older else text[4:]).encode()
    if is_older and kind not in _OLDER_KINDS:
        data = data[4:]
    for shape in _PARTS[kind]:
        if shape == "number":
            yield int(data[:20])
            data = data[20:]
        elif shape == "id":
            end = max(data.index(b" "), 36)
            yield data[:end].rstrip(b" ").decode()
            data = data[end + 1 :]
        else:
            size = settings[f"{shape.partition(' ')[0]}_name_max_size_bytes"]
            yield data[:size].rstrip(b" ").decode()
            data = data[size:]


def _strip_checksum(data: bytes, kind: str) -> bytes:
    if data[-7:-4] != _CHECKSUM_TAG:
        if data.startswith(_MARKER):
            raise ValueError(f"the definition of a {kind} is truncated")
        return data
    if zlib.crc32(data[:-7], zlib.crc32(kind.encode())) != int.from_bytes(data[-4:], "little"):
        raise ValueError(f"the definition of a {kind} does not match its checksum")
    return data[:-7].removeprefix(_MARKER)


def _remove_extension_fields(proto: Definitions) -> None:
    for message in _TRINITYLAKE_MESSAGES:
        fields = proto.messages[message]
        proto.messages[message] = {number: one for number, one in fields.items() if number < _EXTENSION_MIN}


_TYPES: Final = {
    "BOOLEAN": "boolean",
    "INT2": "smallint",
    "INT4": "int",
    "INT8": "bigint",
    "FLOAT4": "float",
    "FLOAT8": "double",
    "DATE": "date",
    "TIME": "time",
    "TIMETZ": "timetz",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMPTZ": "timestamp",
    "BINARY": "binary",
}


def _convert_type(column: Json) -> Json:
    match column["type"]:
        case "DECIMAL":
            return f"decimal({column.get('precision') or 38},{column.get('scale', 0)})"
        case "CHAR" | "FIXED" as word:
            return f"{word.lower()}({column.get('length') or 1})"
        case "VARCHAR":
            return f"varchar({column['length']})" if column.get("length") else "string"
        case "STRUCT":
            return {"struct": [_convert_column(one) for one in column["struct_fields"]]}
        case "LIST":
            return {"list": _convert_column(column["list_element"]) | {"name": "element"}}
        case "MAP":
            key = _convert_column(column["map_key"]) | {"name": "key", "nullable": False}
            return {"map": {"key": key, "value": _convert_column(column["map_value"]) | {"name": "value"}}}
        case word:
            return _TYPES[word]


def _convert_column(column: Json) -> Json:
    shared = {name: column.get(name) for name in ("id", "name", "nullable", "comment", "properties")}
    return shared | {"type": _convert_type(column), "default": column.get("default_sql")}


def _convert_schema(schema: Json) -> Json:
    if schema is None:
        return None
    columns = [_convert_column(column) for column in schema["columns"]]
    return {
        "columns": columns,
        "schema_id": schema.get("schema_id", 0),
        "last_column_id": schema.get("last_column_id", max(_list_ids(schema["columns"]), default=0)),
    }


def _list_ids(columns: list[Json]) -> Iterator[int]:
    for column in columns:
        yield column["id"]
        inner = [column[name] for name in ("map_key", "map_value", "list_element") if name in column]
        yield from _list_ids(column["struct_fields"] + inner)


def _convert_transform(field: Json) -> str:
    word = field["transform"].removeprefix("TRANSFORM_").lower()
    return f"{word}({field['parameter']})" if word in ("bucket", "truncate") else word


def _convert_partition_scheme(scheme: Json) -> Json:
    fields = [
        {"source_id": one["source_id"], "transform": _convert_transform(one), "name": one["name"]}
        for one in scheme["fields"]
    ]
    return scheme | {"fields": fields}


def _convert_sort_scheme(scheme: Json) -> Json:
    fields = [
        {
            "source_id": one["source_id"],
            "direction": "desc" if one["is_descending"] else "asc",
            "nulls": "last" if one["are_nulls_last"] else "first",
            "transform": _convert_transform(one),
        }
        for one in scheme["fields"]
    ]
    return scheme | {"fields": fields}


def _convert_value(name: str, stored: Any) -> Json:
    micros = datetime.timedelta(microseconds=1)
    match name:
        case "double":
            return {"float": stored if stored - stored == 0 else str(stored)}
        case "decimal":
            return {"decimal": stored}
        case "binary":
            return {"binary": stored.hex()}
        case "date":
            return {"date": (_EPOCH + datetime.timedelta(days=stored)).date().isoformat()}
        case "timestamp":
            return {"timestamp": (_EPOCH + stored * micros).isoformat()}
        case "timestamp_tz":
            return {"timestamptz": (_EPOCH.replace(tzinfo=_UTC) + stored * micros).isoformat()}
        case "time":
            return {"time": (_EPOCH + stored * micros).time().isoformat()}
        case "time_tz":
            return {"timetz": (_EPOCH + stored * micros).time().replace(tzinfo=_UTC).isoformat()}
        case _:
            return stored


def _convert_values(values: list[Json]) -> list[Json]:
    """Return partition values; a null has no field."""
    return [next((_convert_value(name, stored) for name, stored in value.items()), None) for value in values]


def _convert_statistics(statistics: Json) -> Json:
    converted = {}
    for name, stored in statistics.items():
        bound, _, kind = name.partition("_")
        if bound in ("minimum", "maximum"):
            converted[bound] = _convert_value(kind, stored)
        else:
            converted[name] = stored
    return converted


def _convert_file(file: Json) -> Json:
    values, rows = file.get("partition_values"), file.get("inline_rows")
    return {
        "content_type": "application/parquet",
        "content_encoding": "identity",
        **file,
        "kind": file["kind"].removeprefix("FILE_KIND_").lower(),
        "partition_values": None if values is None else _convert_values(values["values"]),
        "statistics": [_convert_statistics(one) for one in file["statistics"]],
        "inline_rows": None if rows is None else rows.hex(),
    }


def _convert_table(table: Json) -> Json:
    shared = {name: value for name, value in table.items() if name not in ("primary_keys", "schema_table_version")}
    # In a strict tree they are copies of those of a table version, for readers that know no table versions.
    are_copies = table.get("schema_table_version") is not None
    return shared | {
        "table_type": table.get("table_type", "MANAGED").lower(),
        "schema": None if are_copies else _convert_schema(table.get("schema")),
        "keys": [] if are_copies else table["primary_keys"],
    }


def _convert_view(view: Json) -> Json:
    shared = {name: value for name, value in view.items() if name != "representation"}
    representation = view["representation"]
    return shared | {
        "sql": representation["sql"],
        "dialect": representation["dialect"],
        "schema": _convert_schema(view.get("schema")),
    }


def _convert_state(word: str) -> str:
    return word.rpartition("STATE_")[2].lower()


def _convert_shared_transaction(transaction: Json) -> Json:
    return transaction | {"state": _convert_state(transaction["state"]), "payload": transaction["payload"].hex()}


def _convert_table_version(version: Json) -> Json:
    return version | {
        "schema": _convert_schema(version.get("schema")),
        "earlier_schemas": [_convert_schema(one) for one in version["earlier_schemas"]],
        "partition_scheme": _convert_partition_scheme(version["partition_scheme"]),
        "earlier_partition_schemes": [_convert_partition_scheme(one) for one in version["earlier_partition_schemes"]],
        "sort_scheme": _convert_sort_scheme(version["sort_scheme"]),
        "earlier_sort_schemes": [_convert_sort_scheme(one) for one in version["earlier_sort_schemes"]],
        "state": _convert_state(version["state"]),
    }


def _convert_stream(stream: Json) -> Json:
    return stream | {"state": _convert_state(stream["state"])}


def _convert_partition(partition: Json) -> Json:
    return partition | {"state": _convert_state(partition["state"]), "values": _convert_values(partition["values"])}


def _convert_delta(delta: Json) -> Json:
    manifest = {
        "entries": [_convert_file(file) for file in delta["files"]],
        "id": delta.get("manifest_id"),
        "author": delta.get("manifest_author"),
    }
    return {
        "type": delta["type"].removeprefix("DELTA_TYPE_").lower(),
        "manifest": manifest,
        **{name: delta.get(name) for name in ("properties", "author", "replaces_through", "replaced_locations")},
    }


_CONVERTERS: Final[dict[str, tuple[str, Callable[[Json], Json]]]] = {
    "namespace": ("Namespace", dict),
    "table": ("Table", _convert_table),
    "view": ("View", _convert_view),
    "shared transaction": ("SharedTransaction", _convert_shared_transaction),
    "table version": ("TableVersion", _convert_table_version),
    "stream": ("Stream", _convert_stream),
    "partition": ("Partition", _convert_partition),
    "delta": ("Delta", _convert_delta),
    "alias": ("Alias", dict),
}

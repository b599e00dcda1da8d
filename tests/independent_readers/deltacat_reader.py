"""A reader of the DeltaCAT layout, in both format revisions, written from docs/format/deltacat.md alone."""

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgpack  # type: ignore[import-untyped]
import pyarrow as pa
from tests.independent_readers.table_rows import Json, Key, Objects

_NUMBERED: Final = re.compile(r"(.+?)(?:/\d+/\d+)?/(\d{20})_([a-z]+)_(\d+_[^_/]+)\.([^./]+)")
_LOG: Final = re.compile(r"txn/(?:success/\d+/\d+/\d+/\d+/\d+/)?(\d+)[_-]([^_/]+)(?:/(\d+))?")
_KINDS: Final = ("namespace", "table", "table version", "stream", "partition", "delta")
"""The kinds of objects by the depth of their folder."""
_NAMED_KINDS: Final = {"1": "namespace", "2": "table", "3": "view", "4": "shared transaction", "9": "alias"}
"""The kinds of objects with names, by the first part of their index keys."""
_OWN_FOLDERS: Final = ("mangrove/", "txn/", "data/", "version/", "compute/")
_NO_FIELDS: Final = "deadbeef-7277-49a4-a195-fdc8ed235d42"
_ENTRY_KINDS: Final = {"data": "data", "positional_delete": "position_deletes", "equality_delete": "key_deletes"}


class Revision(NamedTuple):
    """A revision file of an object, or a mapping file of a name."""

    path: str
    folder: str
    number: int
    operation: str
    transaction: str
    target: str


class DeltaCatReader:
    """Reads the versions of a catalog from its files.

    Without `extensions` it ignores the folder `mangrove/`: it reads the transaction log, and resolves names by
    their digests.
    """

    def __init__(self, files: Mapping[str, bytes], *, extensions: bool = True) -> None:
        self._files = files
        self._extensions = extensions
        self._names_parents = not any(path.startswith("txn/success/") for path in files)
        self._numbered = [
            Revision(path, match[1], int(match[2]), match[3], match[4], match[5])
            for path in files
            if not path.startswith(_OWN_FOLDERS) and (match := _NUMBERED.fullmatch(path))
        ]

    def find_newest_version(self) -> int:
        """Return the newest version: of the guards, or of the transactions in the log."""
        if not self._extensions:
            return len(self.list_transactions()) - 1
        hint = self._files.get("mangrove/latest", b"").strip()
        version = int(hint) if hint.isdigit() and _guard_path(int(hint)) in self._files else 0
        while _guard_path(version + 1) in self._files:
            version += 1
        return version

    def list_transactions(self) -> list[str]:
        """Return the committed transactions in the order of their end times; each is one version."""
        ended = []
        for path, data in self._files.items():
            if match := _LOG.fullmatch(path):
                end = int(match[3]) if match[3] else msgpack.unpackb(data)["end_time"]
                ended.append((end, f"{match[1]}_{match[2]}"))
        return [transaction for _, transaction in sorted(ended)]

    def read_commit(self, version: int) -> Json:
        """Return the history entry of a version."""
        return self._read_guard(version)["commit"]

    def read_settings(self, version: int) -> Json:
        """Return the definition of the lakehouse, which only Mangrove has."""
        index = self._read_index(version)
        return json.loads(self._read_body("mangrove/settings", index["o\tmangrove/settings"])["mangrove"])

    def read_objects(self, version: int | None = None) -> Objects:
        """Return all objects of a version, or of the newest one."""
        number = self.find_newest_version() if version is None else version
        return dict(self._read_indexed(number) if self._extensions else self._read_logged(number))

    def resolve_namespace(self, name: str, version: int) -> str | None:
        """Return the folder of a namespace by the digest of its name or of an alias, or None."""
        state = _LoggedState(self._numbered, self.list_transactions()[: version + 1])
        folder = state.resolve(_digest(name))
        return folder if folder is not None and state.is_live(folder) else None

    def resolve_table(self, namespace: str, name: str, version: int) -> str | None:
        """Return the folder of a table by the digests of its names or aliases, or None."""
        state = _LoggedState(self._numbered, self.list_transactions()[: version + 1])
        return self._resolve_table(state, namespace, name)

    def _read_indexed(self, version: int) -> Iterator[tuple[Key, Json]]:
        index = self._read_index(version)
        entries = [(*key.split("\t"), value) for key, value in index.items()]
        names = {value.split(" ")[0]: name for kind, name, *_, value in entries if kind == "1"}
        for kind, *parts, value in entries:
            if kind in _NAMED_KINDS:
                folder = value.split(" ")[0]
                body = self._read_body(folder, index[f"o\t{folder}"])
                own = parts if kind in "149" else [names[parts[0]], parts[1]]
                yield (_NAMED_KINDS[kind], *own), _convert_named(_NAMED_KINDS[kind], folder, body)
            elif kind in "5678":
                numbered = [str(int(part)) if place in (2, 5) else part for place, part in enumerate(parts)]
                folder = "/".join(numbered)
                yield _key_of_folder(folder), _convert(folder, self._read_body(folder, value))

    def _read_logged(self, version: int) -> Iterator[tuple[Key, Json]]:
        """Yield what the log and the digests of names lead to, without the index."""
        state = _LoggedState(self._numbered, self.list_transactions()[: version + 1])
        for folder, one in state.objects.items():
            if not state.is_live(folder):
                continue
            body = msgpack.unpackb(self._files[one.path])
            if folder.count("/") > 1:
                yield _key_of_folder(folder), _convert(folder, body)
            elif "/" not in folder:
                name = body["namespaceLocator"]["namespace"]
                if state.resolve(_digest(name)) == folder:
                    yield ("namespace", name), _convert_named("namespace", folder, body)
            else:
                namespace = self._read_namespace_name(state, folder.partition("/")[0])
                name = body["tableLocator"]["tableName"]
                if self._resolve_table(state, namespace, name) == folder:
                    yield ("table", namespace, name), _convert_named("table", folder, body)

    def _resolve_table(self, state: "_LoggedState", namespace: str, name: str) -> str | None:
        namespace_id = state.resolve(_digest(namespace))
        canonical = f"{namespace}|{name}" if self._names_parents else name
        folder = f"{namespace_id}/{state.resolve(f'{namespace_id}/{_digest(canonical)}')}"
        return folder if state.is_live(folder) else None

    def _read_namespace_name(self, state: "_LoggedState", namespace_id: str) -> str:
        body = msgpack.unpackb(self._files[state.objects[namespace_id].path])
        return str(body["namespaceLocator"]["namespace"])

    def _read_guard(self, version: int) -> Json:
        return _decode_with_checksum(self._files[_guard_path(version)])

    def _read_index(self, version: int) -> dict[str, str]:
        return self._read_subtree(self._read_guard(version)["root"])

    def _read_subtree(self, node: Json) -> dict[str, str]:
        entries: dict[str, str] = {}
        for child in node["children"]:
            entries |= self._read_subtree(_decode_with_checksum(self._files[child]))
        entries |= zip(node["keys"], node["values"], strict=True)
        for key, value, _ in node["buffer"]:
            if value is None:
                entries.pop(key, None)
            else:
                entries[key] = value
        return entries

    def _read_body(self, folder: str, entry: str) -> Json:
        """Return the body of the revision that an index value names, having compared its checksum."""
        number, operation, transaction, _, _, *checksum = entry.split(" ")
        name = f"{int(number):020}_{operation}_{transaction}.mpk"
        flat = f"{folder}/rev/{name}"
        data = self._files[flat if flat in self._files else _fan_out(f"{folder}/rev", int(number), name)]
        if checksum and f"{zlib.crc32(data):08x}" != checksum[0]:
            raise ValueError(f"{folder}: revision {number} does not match its checksum")
        return msgpack.unpackb(data)


class _LoggedState:
    """The newest committed revisions and mappings after some transactions."""

    def __init__(self, numbered: list[Revision], transactions: list[str]) -> None:
        newest: dict[str, Revision] = {}
        committed = set(transactions)
        for one in numbered:
            if one.transaction in committed and (one.folder not in newest or newest[one.folder].number < one.number):
                newest[one.folder] = one
        live = {folder: one for folder, one in newest.items() if one.operation != "delete"}
        self.objects = {folder.removesuffix("/rev"): one for folder, one in live.items() if folder.endswith("/rev")}
        self.mappings = {folder: one.target for folder, one in live.items() if not folder.endswith("/rev")}

    def resolve(self, mapping_folder: str) -> str | None:
        return self.mappings.get(mapping_folder)

    def is_live(self, folder: str) -> bool:
        """Return whether an object and all of its ancestors exist."""
        parts = folder.split("/")
        return all("/".join(parts[: depth + 1]) in self.objects for depth in range(len(parts)))


def _digest(canonical: str) -> str:
    return hashlib.sha1(canonical.encode()).hexdigest()


def _guard_path(version: int) -> str:
    return f"mangrove/version/{version:020}.mpk"


def _fan_out(folder: str, number: int, name: str) -> str:
    level_1 = -(-number // 10**6) * 10**6
    level_2 = -(-(number - (level_1 - 10**6)) // 1000) * 1000
    return f"{folder}/{level_1}/{level_2}/{name}"


def _decode_with_checksum(data: bytes) -> Json:
    outer = msgpack.unpackb(data)
    if zlib.crc32(outer["content"]) != outer["crc32"]:
        raise ValueError("a map does not match its checksum")
    return msgpack.unpackb(outer["content"], strict_map_key=False)


def _key_of_folder(folder: str) -> Key:
    parts = folder.split("/")
    own = [int(part) if place in (2, 5) else part for place, part in enumerate(parts)]
    return (_KINDS[len(parts) - 1], *own[1:])


def _convert(folder: str, body: Json) -> Json:
    return _CONVERTERS[_KINDS[folder.count("/")]](body, folder)


def _convert_named(kind: str, folder: str, body: Json) -> Json:
    """Return an object with a name; DeltaCAT has no fields for views, shared transactions and aliases."""
    return _CONVERTERS[kind](body, folder) if kind in _CONVERTERS else _extras(body)


def _extras(fields: Json) -> Json:
    """Return the fields that DeltaCAT does not have."""
    return json.loads(fields.get("mangrove") or "{}")


def _convert_namespace(body: Json, folder: str) -> Json:
    return {
        "id": folder,
        "name": body["namespaceLocator"]["namespace"],
        "properties": body["properties"],
        **_extras(body),
    }


def _convert_table(body: Json, folder: str) -> Json:
    namespace_id, _, table_id = folder.partition("/")
    return {
        "id": table_id,
        "namespace_id": namespace_id,
        "name": body["tableLocator"]["tableName"],
        "description": body["description"],
        "properties": body["properties"],
        "latest_table_version": _convert_number(body["latest_table_version"]),
        "latest_active_table_version": _convert_number(body["latest_active_table_version"]),
        **_extras(body),
    }


def _convert_table_version(body: Json, _: str) -> Json:
    extras = _extras(body)
    schema, merge_keys = (None, []) if body["schema"] is None else _convert_schema(body["schema"])
    keys = extras.get("keys", [])
    schemas = [_convert_schema(data)[0] for data in body["schemas"] or []]
    partition_scheme = _convert_scheme(body["partitionScheme"], extras.get("partition_schemes", []))
    sort_scheme = _convert_scheme(body["sortScheme"], extras.get("sort_schemes", []))
    return {
        "version": int(body["tableVersionLocator"]["tableVersion"]),
        "schema": schema,
        "earlier_schemas": [one for one in schemas if schema is None or one["schema_id"] != schema["schema_id"]],
        "keys": keys if set(keys) == set(merge_keys) else merge_keys,
        "partition_scheme": partition_scheme,
        "earlier_partition_schemes": [
            _convert_scheme(one, extras.get("partition_schemes", []))
            for one in body["partitionSchemes"]
            if _scheme_id(one["id"]) != partition_scheme["id"]
        ],
        "sort_scheme": sort_scheme,
        "earlier_sort_schemes": [
            _convert_scheme(one, extras.get("sort_schemes", []))
            for one in body["sortSchemes"]
            if _scheme_id(one["id"]) != sort_scheme["id"]
        ],
        "state": body["state"],
        "description": body["description"],
        "properties": body["properties"],
        "content_types": body["contentTypes"],
        "watermark": body["watermark"],
        "previous_version": _convert_number(body["previous_table_version"]),
        "latest_stream_id": extras.get("latest_stream_id"),
    }


def _convert_stream(body: Json, folder: str) -> Json:
    return {
        "id": folder.rpartition("/")[2],
        "format": body["streamLocator"]["format"],
        "partition_scheme_id": _scheme_id(body["partitionScheme"]["id"]),
        "state": body["state"],
        "previous_id": body["previousStreamId"],
        "watermark": body["watermark"],
    }


def _convert_partition(body: Json, folder: str) -> Json:
    extras = _extras(body)
    return {
        "id": folder.rpartition("/")[2],
        "values": extras.get("values", []),
        "scheme_id": _scheme_id(body["partitionSchemeId"]),
        "state": body["state"],
        "previous_id": body["previousPartitionId"],
        "content_types": body["contentTypes"],
        "properties": extras.get("properties", {}),
    }


def _convert_delta(body: Json, _: str) -> Json:
    manifest = body["manifest"]
    return {
        "type": body["type"],
        "manifest": {
            "entries": [_convert_entry(entry) for entry in manifest["entries"]],
            "id": manifest["id"],
            "author": manifest["author"],
        },
        "properties": body["properties"],
        **_extras(body),
    }


def _convert_entry(entry: Json) -> Json:
    meta, extras = entry["meta"], _extras(entry)
    if extras.pop("has_no_partition_values", False):
        extras["partition_values"] = []
    return {
        "location": entry["url"],
        "size_bytes": meta["content_length"],
        "row_count": meta["record_count"],
        "kind": _ENTRY_KINDS[meta["entry_type"]],
        "content_type": meta["content_type"],
        "content_encoding": meta["content_encoding"],
        "schema_id": meta["schema_id"],
        "sort_scheme_id": meta["sort_scheme_id"],
        "source_size_bytes": meta["source_content_length"],
        **extras,
    }


def _convert_number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _scheme_id(stored: str) -> str:
    return "0" if stored == _NO_FIELDS else stored


def _convert_scheme(stored: Json, exact: list[Json]) -> Json:
    """Return the exact form of a scheme; a scheme without fields may have none."""
    scheme_id = _scheme_id(stored["id"])
    return next((one for one in exact if one["id"] == scheme_id), {"fields": [], "id": scheme_id, "name": None})


def _convert_schema(data: bytes) -> tuple[Json, list[int]]:
    """Return a schema, and the ids of its merge keys."""
    arrow = pa.ipc.read_schema(pa.py_buffer(data))
    columns = [_convert_field(field) for field in arrow]
    metadata = arrow.metadata or {}
    keys = [
        column["id"]
        for column, field in zip(columns, arrow, strict=True)
        if (field.metadata or {}).get(b"DELTACAT:merge_key") == b"True"
    ]
    schema = {
        "columns": columns,
        "schema_id": int(metadata[b"DELTACAT:schema_id"]),
        "last_column_id": int(metadata[b"mangrove.last_column_id"]),
    }
    return schema, keys


def _convert_field(field: Any, name: str | None = None) -> Json:
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    metadata.pop("DELTACAT:merge_key", None)
    return {
        "id": int(metadata.pop("PARQUET:field_id")),
        "name": name or field.name,
        "nullable": field.nullable,
        "comment": metadata.pop("comment", None),
        "default": metadata.pop("mangrove.default", None),
        "type": metadata.pop("mangrove.type", None) or _convert_type(field.type),
        "properties": metadata,
    }


_TYPES: Final[dict[Any, str]] = {
    pa.bool_(): "boolean",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.timestamp("us"): "timestamp_ntz",
    pa.timestamp("us", "UTC"): "timestamp",
}


def _convert_type(arrow: Any) -> Json:
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_fixed_size_binary(arrow):
        return f"fixed({arrow.byte_width})"
    if pa.types.is_struct(arrow):
        return {"struct": [_convert_field(arrow.field(place)) for place in range(arrow.num_fields)]}
    if pa.types.is_map(arrow):
        key, value = _convert_field(arrow.key_field, "key"), _convert_field(arrow.item_field, "value")
        return {"map": {"key": key, "value": value}}
    if pa.types.is_list(arrow):
        return {"list": _convert_field(arrow.value_field, "element")}
    return _TYPES[arrow]


_CONVERTERS: Final[dict[str, Callable[[Json, str], Json]]] = {
    "namespace": _convert_namespace,
    "table": _convert_table,
    "table version": _convert_table_version,
    "stream": _convert_stream,
    "partition": _convert_partition,
    "delta": _convert_delta,
}

"""The rows of a table, merged from the files of its deltas as docs/format/rows.md describes.

Objects are in the JSON form of that page, by kind and parts:

    ("namespace", name)   ("table", namespace, name)   ("view", namespace, name)   ("shared transaction", name)
    ("table version", table id, number)                    ("stream", table id, number, stream id)
    ("partition", table id, number, stream id, partition id)
    ("delta", table id, number, stream id, partition id, position)
    ("alias", canonical string)
"""

import io
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

Json: TypeAlias = Any
Key: TypeAlias = tuple[Any, ...]
Objects: TypeAlias = dict[Key, Json]

_ARROW: Final[dict[str, Any]] = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timetz": pa.time64("us"),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
}
_SIZED: Final = re.compile(r"(decimal|char|varchar|fixed)\((\d+)(?:,(\d+))?\)")
_FOOTER_CHECKSUM: Final = b"mangrove.footer.crc32="
_FIELD_ID: Final = b"PARQUET:field_id"
_POSITION_COLUMNS: Final = [{"id": 2147483546, "type": "string"}, {"id": 2147483545, "type": "bigint"}]
"""The columns `file_path` and `pos` of a file of position deletes."""


@dataclass
class _LiveFile:
    entry: Json
    position: int
    deletes_earlier_rows: bool


def read_rows(files: Mapping[str, bytes], objects: Objects, namespace: str, name: str) -> Any:
    """Return the rows of a managed table as a pyarrow Table, or refuse it if it has no readable version."""
    table = objects["table", namespace, name]
    number = table.get("latest_active_table_version") or table["latest_table_version"]
    state = objects["table version", table["id"], number]["state"]
    if state in ("unreleased", "beta", "deleted"):
        raise LookupError(f"{namespace}.{name} has no active table version")
    return read_rows_of_version(files, objects, table["id"], number)


def resolve_table(objects: Objects, namespace: str, name: str) -> Key:
    """Return the key of a table by its name or by an alias of it or of its namespace."""
    space = objects.get(("alias", namespace), {"target": namespace})["target"]
    alias = objects.get(("alias", f"{space}|{name}"), {"target": f"{space}|{name}"})["target"]
    return ("table", *alias.split("|"))


def read_rows_of_version(
    files: Mapping[str, bytes], objects: Objects, table_id: str, number: int, stream_id: str | None = None
) -> Any:
    """Return the rows of one table version, which are those of its newest stream, or of another stream of it."""
    version = objects["table version", table_id, number]
    columns = version["schema"]["columns"]
    rows: list[list[Any]] = []
    for deltas in _list_partitions(objects, (table_id, number, stream_id or version["latest_stream_id"])):
        rows += _merge_deltas(files, columns, version.get("keys", []), deltas)
    fields = [build_field(column) for column in columns]
    arrays = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(fields)]
    return pa.table(arrays, schema=pa.schema(fields))


def read_files(files: Mapping[str, bytes], objects: Objects, table_id: str, number: int) -> dict[str, bytes]:
    """Return the live files of a table version without a schema by location."""
    stream = (table_id, number, objects["table version", table_id, number]["latest_stream_id"])
    live = [one.entry for deltas in _list_partitions(objects, stream) for one in list_live_files(deltas)]
    return {entry["location"]: files[entry["location"]] for entry in live}


def _list_partitions(objects: Objects, stream: Key) -> Iterator[dict[int, Json]]:
    """Yield the deltas of each committed partition of a stream, by position."""
    for key in sorted(key for key in objects if key[0] == "partition" and key[1:4] == stream):
        if objects[key]["state"] == "committed":
            yield {one[5]: objects[one] for one in objects if one[0] == "delta" and one[1:5] == key[1:]}


def list_live_files(deltas: Mapping[int, Json]) -> list[_LiveFile]:
    """Return the files that the deltas of one partition leave, by position."""
    live: list[_LiveFile] = []
    for number in sorted(deltas):
        delta, position = deltas[number], number
        if delta["type"] == "replace":
            through = delta.get("replaces_through")
            if locations := delta.get("replaced_locations"):
                live = [one for one in live if one.entry["location"] not in locations]
            else:
                live = [one for one in live if one.position > (number if through is None else through)]
            position = number if through is None else through
        for entry in delta["manifest"].get("entries", []):
            is_upsert = delta["type"] == "upsert" and entry["kind"] == "data"
            live.append(_LiveFile(entry, position, is_upsert or entry["kind"] == "key_deletes"))
    return sorted(live, key=lambda one: one.position)


def _merge_deltas(
    files: Mapping[str, bytes], columns: list[Json], table_keys: list[int], deltas: Mapping[int, Json]
) -> Iterator[list[Any]]:
    live = list_live_files(deltas)
    positions = {row for one in live if one.entry["kind"] == "position_deletes" for row in _read_positions(files, one)}
    by_id = {column["id"]: column for column in columns}
    newest: dict[tuple[Any, ...], int] = {}
    for one in live:
        if one.deletes_earlier_rows:
            ids = tuple(one.entry.get("key_ids") or table_keys)
            for values in _read_entry(files, one.entry, [by_id[key] for key in ids]):
                newest[ids, tuple(values)] = one.position
    for one in live:
        if one.entry["kind"] != "data":
            continue
        for place, row in enumerate(_read_entry(files, one.entry, columns)):
            value_of = dict(zip(by_id, row, strict=True))
            is_deleted = (one.entry["location"], place) in positions or any(
                newest.get((ids, tuple(value_of[key] for key in ids)), 0) > one.position
                for ids in {ids for ids, _ in newest}
            )
            if not is_deleted:
                yield row


def _read_positions(files: Mapping[str, bytes], one: _LiveFile) -> set[tuple[str, int]]:
    return {(path, row) for path, row in read_columns(files[one.entry["location"]], _POSITION_COLUMNS)}


def _read_entry(files: Mapping[str, bytes], entry: Json, columns: list[Json]) -> list[list[Any]]:
    """Return the rows of an entry, which are in its file or inline."""
    rows = entry.get("inline_rows")
    if rows is None:
        return read_columns(files[entry["location"]], columns)
    return _select_columns(pa.ipc.open_stream(bytes.fromhex(rows)).read_all(), columns)


def read_columns(data: bytes, columns: list[Json]) -> list[list[Any]]:
    """Return the rows of a Parquet file with these columns."""
    return _select_columns(_read_parquet(data), columns)


@lru_cache(maxsize=1000)
def _read_parquet(data: bytes) -> Any:
    """Return the content of a data file, which most versions of a history share."""
    _verify_footer(data)
    return pq.read_table(io.BytesIO(data))


def _select_columns(stored: Any, columns: list[Json]) -> list[list[Any]]:
    """Return rows with these columns, matched by id, or by name if no column has an id."""
    has_ids = any(_FIELD_ID in (field.metadata or {}) for field in stored.schema)
    arrays = []
    for column in columns:
        place = _find_field(list(stored.schema), column, has_ids=has_ids)
        if place is None:
            arrays.append([None] * stored.num_rows)
        else:
            source = stored.schema.field(place).type
            values = stored.column(place).to_pylist()
            arrays.append([_convert(value, source, column["type"], has_ids=has_ids) for value in values])
    return [list(row) for row in zip(*arrays, strict=True)]


def _verify_footer(data: bytes) -> None:
    """Compare the footer with its checksum, which only files of Mangrove have."""
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") :]
    start = footer.rfind(_FOOTER_CHECKSUM) + len(_FOOTER_CHECKSUM)
    digits = footer[start : start + 8]
    if start >= len(_FOOTER_CHECKSUM) and digits != b"0" * 8:
        zeroed = footer[:start] + b"0" * 8 + footer[start + 8 :]
        if digits != f"{zlib.crc32(zeroed):08x}".encode():
            raise ValueError("the footer of a data file does not match its checksum")


def _find_field(fields: list[Any], column: Json, *, has_ids: bool) -> int | None:
    for place, field in enumerate(fields):
        if has_ids and (field.metadata or {}).get(_FIELD_ID) == str(column["id"]).encode():
            return place
        if not has_ids and field.name.casefold() == column["name"].casefold():
            return place
    return None


def _convert(value: Any, source: Any, type_: Json, *, has_ids: bool) -> Any:
    """Return a value of a file as one of the current type; columns in a struct are matched like those of the table."""
    if value is None or isinstance(type_, str):
        return value
    if "struct" in type_:
        fields = [source.field(place) for place in range(source.num_fields)]
        fields_by_name = {}
        for column in type_["struct"]:
            place = _find_field(fields, column, has_ids=has_ids)
            stored = None if place is None else value[fields[place].name]
            inner = None if place is None else fields[place].type
            fields_by_name[column["name"]] = _convert(stored, inner, column["type"], has_ids=has_ids)
        return fields_by_name
    if "list" in type_:
        inner = type_["list"]["type"]
        return [_convert(one, source.value_type, inner, has_ids=has_ids) for one in value]
    key, item = type_["map"]["key"]["type"], type_["map"]["value"]["type"]
    return [
        (
            _convert(one, source.key_type, key, has_ids=has_ids),
            _convert(other, source.item_type, item, has_ids=has_ids),
        )
        for one, other in value
    ]


def build_field(column: Json) -> Any:
    """Return the Arrow field of a column."""
    return pa.field(column["name"], build_type(column["type"]), column["nullable"])


def build_type(type_: Json) -> Any:
    """Return the Arrow type of a type in JSON form."""
    if isinstance(type_, dict):
        if "struct" in type_:
            return pa.struct([build_field(column) for column in type_["struct"]])
        if "list" in type_:
            return pa.list_(build_field(type_["list"]))
        return pa.map_(build_field(type_["map"]["key"]), build_field(type_["map"]["value"]))
    match = _SIZED.fullmatch(type_)
    if match is None:
        return _ARROW[type_]
    if match[1] == "decimal":
        return pa.decimal128(int(match[2]), int(match[3]))
    return pa.binary(int(match[2])) if match[1] == "fixed" else pa.string()

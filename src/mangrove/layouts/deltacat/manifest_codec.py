"""The codec between manifests and DeltaCAT maps."""

from collections.abc import Sequence
from typing import Any, Final

from mangrove.errors import InvalidInputError
from mangrove.layouts.deltacat.fields import EXTRAS, BodyFields, add_extras
from mangrove.model.json_codec import Json, from_json, to_json
from mangrove.model.manifests import (
    IDENTITY_ENCODING,
    PARQUET,
    Author,
    DataFile,
    FileKind,
    Manifest,
)

__all__ = ["decode_author", "decode_manifest", "encode_author", "encode_manifest"]

_ENTRY_TYPES: Final = {
    FileKind.DATA: "data",
    FileKind.POSITION_DELETES: "positional_delete",
    FileKind.KEY_DELETES: "equality_delete",
}
_EXACT: Final = (
    "partition_values",
    "partition_scheme_id",
    "bucket",
    "applies_to",
    "key_ids",
    "statistics",
    "inline_rows",
)
"""Fields that DeltaCAT does not have."""


def encode_manifest(manifest: Manifest) -> dict[str, Any]:
    """Return the map of a manifest."""
    entries = [_entry_map(entry) for entry in manifest.entries]
    return {
        "id": manifest.id,
        "meta": _sum_of([entry["meta"] for entry in entries]),
        "entries": entries,
        "author": encode_author(manifest.author),
    }


def decode_manifest(stored: BodyFields) -> Manifest:
    """Return the manifest of a map."""
    return Manifest(
        tuple(_entry_of(entry) for entry in stored.each("entries")), stored.maybe("id", str), decode_author(stored)
    )


def encode_author(author: Author | None) -> dict[str, Any] | None:
    """Return the map of an author."""
    return None if author is None else {"name": author.name, "version": author.version}


def decode_author(stored: BodyFields) -> Author | None:
    """Return the author that a map names, or None."""
    if stored.maybe("author", dict) is None:
        return None
    author = stored.inner("author")
    name = author.maybe("name", str)
    return None if name is None else Author(name, author.maybe("version", str))


def _entry_map(file: DataFile) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "record_count": file.row_count,
        "content_length": file.size_bytes,
        "source_content_length": file.source_size_bytes,
        "content_type": file.content_type,
        "content_encoding": file.content_encoding,
        "entry_type": _ENTRY_TYPES[file.kind],
        "schema_id": file.schema_id,
        "sort_scheme_id": file.sort_scheme_id,
    }
    every = to_json(file)
    assert isinstance(every, dict)
    extras: dict[str, Json] = {name: every.get(name) for name in _EXACT}
    if file.partition_values == ():
        extras["has_no_partition_values"] = True
    return add_extras({"url": file.location, "meta": meta, "mandatory": True}, extras)


def _entry_of(stored: BodyFields) -> DataFile:
    meta = stored.inner("meta")
    kinds = {word: kind for kind, word in _ENTRY_TYPES.items()}
    word = meta.maybe("entry_type", str) or "data"
    if word not in kinds:
        raise stored.refused(f"unknown entry type {word!r}")
    extras = dict(stored.extras)
    if extras.pop("has_no_partition_values", False):
        extras["partition_values"] = []
    url = stored.maybe("url", str) or stored.must("uri", str)
    plain: dict[str, Json] = {
        "location": f"file://{url}" if url.startswith("/") else url,
        "size_bytes": meta.must("content_length", int),
        "row_count": meta.must("record_count", int),
        "kind": kinds[word].value,
        "content_type": _else(meta.maybe("content_type", str), PARQUET),
        "content_encoding": _else(meta.maybe("content_encoding", str), IDENTITY_ENCODING),
        "schema_id": meta.maybe("schema_id", int),
        "sort_scheme_id": meta.maybe("sort_scheme_id", str),
        "source_size_bytes": _whole(meta.raw.get("source_content_length")),
    }
    exact = {name: value for name, value in extras.items() if name in _EXACT}
    if not exact:
        try:
            return DataFile(**(plain | {"kind": kinds[word]}))  # type: ignore[arg-type]
        except InvalidInputError as error:
            raise stored.refused(str(error)) from error
    return from_json(plain | exact, DataFile, f"an entry's {EXTRAS}")


def _sum_of(metas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return DeltaCAT's summary of a manifest: total counts, and values common to all entries."""
    if not metas:
        return {"record_count": 0, "content_length": 0, "content_type": PARQUET, "content_encoding": IDENTITY_ENCODING}
    added = {
        name: sum(meta[name] or 0 for meta in metas)
        for name in ("record_count", "content_length", "source_content_length")
    }
    first = metas[0]
    common = {name: first[name] for name in first if all(meta[name] == first[name] for meta in metas)}
    return common | added


def _else(value: str | None, default: str) -> str:
    return default if value is None else value


def _whole(value: object) -> int | None:
    """Return a size as an integer; DeltaCAT may have estimated a fraction."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

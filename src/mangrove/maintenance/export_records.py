"""Export records and the layered store that opens an incomplete export.

A lakehouse definition records an export as its name and the location of its root
node, or the equivalent file of another layout, whose name contains the version. If a
version has no file of its own, the location is that of the lakehouse with the
version as a fragment: `s3://archive/lake/#version=41`. The fragment `#version=41&until=1790000000000`
pins the version until a time.

A tag of one table, which Iceberg clients make, is a name with the table's id: `table/<table id>/<tag>`.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from posixpath import commonprefix

from mangrove.errors import FormatError, InvalidInputError, NotFoundError, StorageError
from mangrove.maintenance.version_files import is_version_file, parse_version_location
from mangrove.model.names import check_text
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.cache import CachingStore, UncachedStore
from mangrove.storage.port import ListEntry, ObjectInfo, Store

__all__ = [
    "EXPORT_RECORD_PATH",
    "Export",
    "ExportRecord",
    "LayeredStore",
    "TableTag",
    "bypass_cache",
    "check_export_name",
    "decode_export_record",
    "encode_export_record",
    "find_export",
    "format_export_location",
    "format_table_tag",
    "list_export_versions",
    "list_exports",
    "list_table_tags",
    "open_export",
    "parse_pin_end",
]

EXPORT_RECORD_PATH = "_mangrove_export.json"


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """The source, name, version and mode of an export."""

    source: str
    name: str
    version: int
    mode: str
    tables: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        texts = (self.source, self.name, self.mode, *self.tables)
        if not all(isinstance(text, str) for text in texts) or type(self.version) is not int:
            raise FormatError(f"invalid types in an export record: {self!r}")


def encode_export_record(record: ExportRecord) -> bytes:
    """Return the record as JSON.

    >>> decode_export_record(encode_export_record(ExportRecord("s3://b/lake/", "year-end", 41, "full")), "here").version
    41
    """
    return json.dumps(asdict(record), ensure_ascii=False, indent=1).encode()


def decode_export_record(data: bytes, where: str) -> ExportRecord:
    """Return the export record in a file."""
    try:
        fields = json.loads(data)
        return ExportRecord(**{**fields, "tables": tuple(fields["tables"])})
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(
            f"{where} is not a valid export record ({error!r}); export again to another location"
        ) from error


_FRAGMENT = re.compile(r"#version=([0-9]+)(?:&until=([0-9]+))?")
_NAME_CHARACTERS_MAX = 200
_TABLE_TAGS = "table/"
_NAMES_MAX = 20
"""Maximum number of names in an error message."""


@dataclass(frozen=True, slots=True)
class Export:
    """A named, pinned version."""

    name: str
    version: int
    location: str
    """The location of its root node: a path in the lakehouse itself, or a URI."""

    def __post_init__(self) -> None:
        check_export_name(self.name)

    def __str__(self) -> str:
        return f"{self.name}: version {self.version} at {self.location}"

    def pins_at(self, now_millis: int) -> bool:
        """Return whether the version must not expire at a time."""
        until_millis = parse_pin_end(self.location)
        return until_millis is None or now_millis < until_millis


def check_export_name(name: str) -> None:
    """Raise an error for a name that time travel would parse as a number or a time."""
    check_text(name, "the name of an export")
    if not name or len(name) > _NAME_CHARACTERS_MAX or name != name.strip() or not name[0].isalpha():
        raise InvalidInputError(
            f"invalid export name {name!r}; a name starts with a letter, has no leading or trailing space "
            f"and at most {_NAME_CHARACTERS_MAX} characters"
        )


def format_export_location(uri: str, version: int, path: str | None, until_millis: int | None = None) -> str:
    """Return the recorded location of a version with a file at a path below `uri`, or without a file.

    With `until_millis` the version is pinned until then.
    """
    if until_millis is not None:
        return f"{uri}#version={version}&until={until_millis}"
    return f"{uri}#version={version}" if path is None else f"{uri}{path}"


def list_exports(settings: LakehouseSettings) -> list[Export]:
    """Return the exports in the lakehouse definition, by name."""
    return [_export(name, location) for name, location in settings.exported_snapshots.items()]


def list_export_versions(settings: LakehouseSettings) -> dict[str, int]:
    """Return the named versions by name, without those whose location has no version."""
    found = {name: _version_of(location) for name, location in settings.exported_snapshots.items()}
    return {name: version for name, version in found.items() if version is not None}


@dataclass(frozen=True, slots=True)
class TableTag:
    """A named version, as a tag of a table."""

    version: int
    is_own: bool = False
    """Whether the name belongs to this table alone."""
    until_millis: int | None = None
    """The time until which the version is pinned; None for as long as the name is recorded."""


def format_table_tag(table_id: str, tag: str) -> str:
    """Return the name under which the tag of one table is recorded.

    >>> format_table_tag("0f2f7c70", "year-end")
    'table/0f2f7c70/year-end'
    """
    return f"{_TABLE_TAGS}{table_id}/{tag}"


def list_table_tags(settings: LakehouseSettings, table_id: str) -> dict[str, TableTag]:
    """Return the tags of a table: the names of versions, which all tables share, and its own ones."""
    named = list_export_versions(settings)
    prefix = format_table_tag(table_id, "")
    shared = {name: TableTag(version) for name, version in named.items() if not name.startswith(_TABLE_TAGS)}
    own = {
        name.removeprefix(prefix): TableTag(
            version, is_own=True, until_millis=parse_pin_end(settings.exported_snapshots[name])
        )
        for name, version in named.items()
        if name.startswith(prefix)
    }
    return shared | own


def find_export(settings: LakehouseSettings, name: str, otherwise: str = "") -> Export:
    """Return the export with that name; `otherwise` is added to the error message."""
    recorded: Mapping[str, str] = settings.exported_snapshots
    if not isinstance(name, str) or name not in recorded:
        # A tag of one table is not listed: its table may be hidden from the caller.
        names = [one for one in recorded if not one.startswith(_TABLE_TAGS)]
        listed = ", ".join(names[:_NAMES_MAX]) + ", …" * (len(names) > _NAMES_MAX)
        known = f"existing exports: {listed}" if names else "there are no exports"
        raise NotFoundError(f"export {name!r} does not exist; {known}{otherwise}")
    return _export(name, recorded[name])


def _export(name: str, location: str) -> Export:
    version = _version_of(location)
    if version is None:
        raise FormatError(
            f"the export {name!r} is recorded at {location!r}, which does not contain its version. "
            "Drop its name if it is not needed; until then no version is deleted"
        )
    return Export(name, version, location)


def _version_of(location: str) -> int | None:
    fragment = _FRAGMENT.search(location)
    return parse_version_location(location) if fragment is None else int(fragment[1])


def parse_pin_end(location: str) -> int | None:
    """Return the time in milliseconds until which a recorded location pins its version; None if there is no end."""
    fragment = _FRAGMENT.search(location)
    return None if fragment is None or fragment[2] is None else int(fragment[2])


class LayeredStore:
    """Writes to and lists the upper store; reads fall back to the lower one.

    Only the upper store decides which versions exist: root nodes and hints are never
    read from the lower store, where the same version numbers have other content.
    """

    def __init__(self, above: Store, below: Store) -> None:
        self._above = above
        self._below = below
        # Versions of the copy are committed by the upper store: an exclusive create needs nothing else.
        self.create = above.create

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._above.uri

    @property
    def identity(self) -> str:
        """Text that is different for two storages with the same URI."""
        return self._above.identity

    @property
    def layers(self) -> tuple[Store, Store]:
        """The upper store and the lower one."""
        return self._above, self._below

    @property
    def uris(self) -> tuple[str, ...]:
        """The roots of all layers, the upper one first."""
        return (self._above.uri, *(self._below.uris if isinstance(self._below, LayeredStore) else (self._below.uri,)))

    def roots_of(self, paths: Sequence[str]) -> list[str]:
        """Return the root of the layer that has each object, for readers that open files themselves."""
        here = {entry.path for entry in self._above.list(commonprefix(list(paths))) if isinstance(entry, ObjectInfo)}
        lacking = [path for path in paths if path not in here]
        deeper = self._below.roots_of(lacking) if isinstance(self._below, LayeredStore) else None
        roots = dict(zip(lacking, deeper or [self._below.uri] * len(lacking), strict=True))
        return [roots.get(path, self._above.uri) for path in paths]

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        try:
            return self._above.read(path, start, length)
        except NotFoundError:
            if is_version_file(path):
                raise
            return self._below.read(path, start, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes; None if neither store has it."""
        found = self._above.read_many(paths)
        lacking = [number for number, data in enumerate(found) if data is None and not is_version_file(paths[number])]
        if lacking:
            below = self._below.read_many([paths[number] for number in lacking])
            for number, data in zip(lacking, below, strict=True):
                found[number] = data
        return found

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        size = self._above.size(path)
        return self._below.size(path) if size is None and not is_version_file(path) else size

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        return self._above.exists(path) or (not is_version_file(path) and self._below.exists(path))

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield the entries of the upper store under `prefix`."""
        return self._above.list(prefix, start_after=start_after, delimiter=delimiter)

    def put(self, path: str, data: bytes) -> None:
        """Write the object to the upper store."""
        self._above.put(path, data)

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects to the upper store."""
        self._above.put_many(objects)

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects in the upper store."""
        self._above.delete_many(paths)


def bypass_cache(store: Store) -> Store:
    """Return the store without caches in any layer; the same store if it has none."""
    if isinstance(store, CachingStore):
        return UncachedStore(store)
    if isinstance(store, LayeredStore):
        above, below = map(bypass_cache, store.layers)
        return store if (above, below) == store.layers else LayeredStore(above, below)
    return store


_COMPLETE = "full"
_LAYERS_MAX = 8


def open_export(
    store: Store, open_store: Callable[[str], Store], check_source: Callable[[Store, str], None] | None = None
) -> Store:
    """Return the store to open a lakehouse through: itself, or on top of what it is an incomplete export of.

    The record in a place is untrusted and can name any source. `check_source` refuses a source that does not
    record an export to a URI. Only Spark tasks leave it out, because their driver has checked the source.
    """
    layers = [store]
    while len(layers) <= _LAYERS_MAX:
        data = _read_record(layers[-1])
        record = None if data is None else decode_export_record(data, f"{EXPORT_RECORD_PATH} in {layers[-1].uri}")
        if record is None or record.mode == _COMPLETE:
            return layers[0] if len(layers) == 1 else _stack_layers(layers, check_source)
        layers.append(open_store(record.source))
    raise FormatError(
        f"{store.uri} is an export of itself, or nested more than {_LAYERS_MAX} times; "
        f"see {EXPORT_RECORD_PATH} in each of them"
    )


def _stack_layers(layers: list[Store], check_source: Callable[[Store, str], None] | None) -> Store:
    def stack(below: Store, above: Store) -> Store:
        if check_source is not None:
            check_source(below, above.uri)
        return LayeredStore(above, below)

    return reduce(stack, reversed(layers))


def _read_record(store: Store) -> bytes | None:
    """Return the export record of a location; it is the first read, so it also reports store errors."""
    try:
        (data,) = store.read_many([EXPORT_RECORD_PATH])
    except StorageError as error:
        raise StorageError(str(error).removeprefix(f"{EXPORT_RECORD_PATH!r} in ")) from error
    return data

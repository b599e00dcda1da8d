"""Context of one command invocation: output format, storage options, cache and opened stores."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rich.console import RenderableType

from mangrove.cli.terminal import draw, supports_unicode
from mangrove.effects import Effects, build_effects, wait_for_pending
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.cache import CacheSettings, build_cache_settings
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import EnginesFactory, open_on_store, resolve_store
from mangrove.maintenance.progress import ProgressCallback, format_bytes, ignore_progress
from mangrove.model.json_codec import Json
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.storage.local import LocalStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import expand_location, parse_root_uri

if TYPE_CHECKING:
    from mangrove.cli.sql import WriteGate


__all__ = [
    "CACHE_BYTES_VARIABLE",
    "CACHE_VARIABLE",
    "LAKE_VARIABLE",
    "CommandContext",
    "format_storage_stats",
    "is_location",
    "parse_key_values",
    "resolve_cache",
    "split_location",
]

LAKE_VARIABLE = "MANGROVE_LAKE"
"""The environment variable that stands for LAKE where it is left out."""
CACHE_VARIABLE = "MANGROVE_CACHE"
"""The environment variable that names the folder of a cache where no option does."""
CACHE_BYTES_VARIABLE = "MANGROVE_CACHE_BYTES"
"""The environment variable that says how much a cache holds where no option does."""


def is_location(word: str) -> bool:
    """Return whether a word can only be a place: no name of a table, version or export holds a slash.

    >>> is_location("./lake"), is_location("."), is_location("sales.orders")
    (True, True, False)
    """
    return "/" in word or word in {".", ".."}


def split_location(location: str) -> tuple[str, str]:
    """Return the folder in which a file lies, and the file's name.

    >>> split_location("s3://bucket/lake/_latest_hint.txt")
    ('s3://bucket/lake', '_latest_hint.txt')
    """
    folder, _, name = location.rpartition("/")
    if not name or not folder or folder.endswith("/"):
        raise InvalidInputError(f"{location!r} names no file: give one, such as ./lake/_latest_hint.txt")
    return folder, name


def parse_key_values(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return what was given as `key=value`, several times.

    >>> parse_key_values(["owner=ana", "note=a=b"], "--property")
    {'owner': 'ana', 'note': 'a=b'}
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidInputError(f"{option} {text!r} has no value: write {option} key=value")
        if key in found:
            raise InvalidInputError(f"{option} {key} was given twice: give it once")
        found[key] = value
    return found


class _CountingLocalStore(CountingStore):
    """Counts, and still shows vacuum what killed writers left on disk."""

    def __init__(self, store: LocalStore, check: Callable[[StoreRequests], None]) -> None:
        super().__init__(store, check)
        self._local = store

    def leftovers(self) -> Iterator[ObjectInfo]:
        return self._local.leftovers()

    def delete_leftovers(self, paths: Iterable[str]) -> None:
        self._local.delete_leftovers(paths)


@runtime_checkable
class _StartsSpark(Protocol):
    """Engines of which Spark starts when something needs it; it asks storage by itself, and nobody counts that."""

    @property
    def has_started(self) -> bool:
        """Whether something needed Spark until now."""
        ...


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What every command is given."""

    as_json: bool = False
    with_stats: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict)
    cache: CacheSettings | None = None
    _counted: list[CountingStore] = field(default_factory=list)
    _effects: list[Effects] = field(default_factory=list)
    _opened: list[Lakehouse] = field(default_factory=list)

    def store(self, location: str | os.PathLike[str], gate: "WriteGate | None" = None) -> Store:
        """Return the store at a URI, or at a folder as seen from here; a gate may refuse its writes."""
        store = open_store(location, self.storage_options)
        if isinstance(store, LocalStore) and os.path.isfile(_folder_of(store)):
            raise InvalidInputError(f"{location} is a file: name the folder of a lakehouse")
        return self._counting(store, gate)

    def store_of_files(self, folder: str, place: str) -> Store:
        """Return the store of a folder in which files of others lie; `place` is what a person called the file."""
        store = open_store(folder, self.storage_options)
        if isinstance(store, LocalStore):
            path = _folder_of(store)
            if os.path.isfile(path):
                raise NotFoundError(f"{place} is not there: {path} is a file, and nothing lies in it")
            if os.path.exists(path) and not os.path.isdir(path):
                raise InvalidInputError(f"{place} is neither a file nor a folder: copy what comes from it into a file")
        return self._counting(store)

    def _counting(self, store: Store, gate: "WriteGate | None" = None) -> Store:
        if not self.with_stats and gate is None:
            return store
        check = _check_nothing if gate is None else gate.check
        counting = _CountingLocalStore(store, check) if isinstance(store, LocalStore) else CountingStore(store, check)
        self._counted.append(counting)
        return counting

    def file(self, location: str) -> tuple[str, bytes]:
        """Return the path and the bytes of a file, at a URI or as seen from here."""
        folder, name = split_location(expand_location(location, os.getcwd()))
        store = self.store_of_files(folder, location)
        try:
            return f"{folder}/{name}", store.read(name)
        except NotFoundError as error:
            is_folder = next(iter(store.list(f"{name}/")), None) is not None
            told = "is a folder: name a file in it" if is_folder else "is not there: check the path of the file"
            raise NotFoundError(f"{location} {told}") from error

    def effects(self, location: str) -> Effects:
        """Return the outside world around the store at a location."""
        return self._around(self.store(location))

    def open(self, location: str, engines: EnginesFactory | None = None, gate: "WriteGate | None" = None) -> Lakehouse:
        """Open the lakehouse at a location, with engines where rows are read or written.

        Once `gate` is closed, this object writes and commits nothing more.
        """
        store = resolve_store(location, lambda place: self.store(place, gate), self.cache)
        lake = open_on_store(self._around(store), engines=engines)
        self._opened.append(lake)
        return lake

    def answer(self, value: Json, drawing: Callable[[], RenderableType]) -> None:
        """Say what came of it: to a program as JSON, to a person as it is drawn."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, ensure_ascii=not supports_unicode(sys.stdout), indent=2) + "\n")
            return
        draw(drawing())

    @contextmanager
    def watching(self, what: str) -> Iterator[ProgressCallback]:
        """Show how far long work has come, once it has taken a second, where a person is looking."""
        if self.as_json or not sys.stderr.isatty():
            yield ignore_progress
            return
        # Bars take long to import, and most commands are over before one is needed.
        from mangrove.cli.terminal import ProgressBar  # noqa: PLC0415

        with ProgressBar(what) as bar:
            yield bar.watch

    def _around(self, store: Store) -> Effects:
        effects = build_effects(store)
        self._effects.append(effects)
        return effects

    def finish(self) -> None:
        """Leave the hint behind, and say what was asked of storage, if that was wanted."""
        for effects in self._effects:
            wait_for_pending(effects)
        if not self.with_stats:
            return
        made = sum((store.requests for store in self._counted), StoreRequests())
        engines: list[object] = [lake.engines for lake in self._opened]
        used_spark = any(isinstance(one, _StartsSpark) and one.has_started for one in engines)
        counted = {**asdict(made), "total": made.total, "without_spark": used_spark}
        text = json.dumps({"storage": counted}) if self.as_json else format_storage_stats(made, used_spark=used_spark)
        sys.stderr.write(text + "\n")


def _check_nothing(_: StoreRequests) -> None:
    """Let every request pass."""


def resolve_cache(folder: str | None, bytes_max: int | None) -> CacheSettings | None:
    """Return the cache that options or the environment name; there a bound may stand without a folder."""
    return build_cache_settings(folder, bytes_max) if folder else None


def _folder_of(store: LocalStore) -> str:
    return parse_root_uri(store.uri).path.rstrip("/")


def format_storage_stats(made: StoreRequests, *, used_spark: bool = False) -> str:
    """Return what was asked of storage, in one line; what Spark asked by itself was not counted.

    >>> format_storage_stats(StoreRequests(reads=2, creates=1, bytes_read=2048))
    'storage: 3 requests (2 reads, 1 create), 2.0 KiB read, 0 bytes written'
    """
    kinds = ("reads", "sizes", "lists", "puts", "creates", "deletes")
    counts = [(getattr(made, kind), kind) for kind in kinds]
    listed = ", ".join(f"{count:,} {kind if count != 1 else kind[:-1]}" for count, kind in counts if count)
    of_which = f" ({listed})" if listed else ""
    plural = "" if made.total == 1 else "s"
    read, written = format_bytes(made.bytes_read), format_bytes(made.bytes_written)
    also = "; what Spark asked is not counted" if used_spark else ""
    return f"storage: {made.total:,} request{plural}{of_which}, {read} read, {written} written{also}"

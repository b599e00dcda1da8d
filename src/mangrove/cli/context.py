"""Context of one command invocation: output format, storage options, cache and opened stores."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rich.console import RenderableType

from mangrove.cli.progress_bar import ProgressBar
from mangrove.cli.terminal import draw, supports_unicode
from mangrove.effects import Effects, build_effects, wait_for_pending
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.cache import CacheSettings, build_cache_settings
from mangrove.lakehouse.layout_detection import OpenedLayout, open_layout
from mangrove.lakehouse.store_resolution import resolve_store
from mangrove.maintenance.progress import ProgressCallback, format_bytes, ignore_progress
from mangrove.model.json_codec import Json
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.storage.local import LocalStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import expand_location, parse_root_uri
from mangrove.wiring import open_on_store

if TYPE_CHECKING:
    from mangrove.cli.cancellable_session import WriteFence
    from mangrove.lakehouse.lakehouse import Lakehouse
    from mangrove.lakehouse.opening import EnginesFactory


__all__ = [
    "CommandContext",
    "format_storage_stats",
    "is_location",
    "parse_key_values",
    "resolve_cache",
    "split_location",
]


def is_location(word: str) -> bool:
    """Return whether a word is a location: names of tables, versions and exports contain no slash.

    >>> is_location("./lake"), is_location("."), is_location("sales.orders")
    (True, True, False)
    """
    return "/" in word or word in {".", ".."}


def split_location(location: str) -> tuple[str, str]:
    """Return the folder and the name of a file.

    >>> split_location("s3://bucket/lake/_latest_hint.txt")
    ('s3://bucket/lake', '_latest_hint.txt')
    """
    folder, _, name = location.rpartition("/")
    if not name or not folder or folder.endswith("/"):
        raise InvalidInputError(f"{location!r} is not a file; give the path of a file, such as ./lake/_latest_hint.txt")
    return folder, name


def parse_key_values(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return the key-value pairs of a repeated option.

    >>> parse_key_values(["owner=ana", "note=a=b"], "--property")
    {'owner': 'ana', 'note': 'a=b'}
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidInputError(f"{option} {text!r} is invalid; expected {option} key=value")
        if key in pairs:
            raise InvalidInputError(f"{option} {key} is given twice; give it once")
        pairs[key] = value
    return pairs


class _CountingLocalStore(CountingStore):
    """A counting store that still lists the temporary files of killed writers for vacuum."""

    def __init__(self, store: LocalStore, check: Callable[[StoreRequests], None]) -> None:
        super().__init__(store, check)
        self._local = store

    def leftovers(self) -> Iterator[ObjectInfo]:
        return self._local.leftovers()

    def delete_leftovers(self, paths: Iterable[str]) -> None:
        self._local.delete_leftovers(paths)


@runtime_checkable
class _StartsSpark(Protocol):
    """Engines that start Spark when it is needed; Spark's own storage requests are not counted."""

    @property
    def has_started(self) -> bool:
        """Whether Spark was started."""
        ...


@dataclass(frozen=True, slots=True)
class CommandContext:
    """Common state of a command invocation, passed to every command."""

    as_json: bool = False
    with_stats: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict)
    cache: CacheSettings | None = None
    _counted: list[CountingStore] = field(default_factory=list)
    _effects: list[Effects] = field(default_factory=list)
    _opened: "list[Lakehouse]" = field(default_factory=list)

    def store(self, location: str | os.PathLike[str], fence: "WriteFence | None" = None) -> Store:
        """Return the store at a URI or a folder path; a fence may reject its writes."""
        store = open_store(location, self.storage_options)
        if isinstance(store, LocalStore) and os.path.isfile(_folder_of(store)):
            raise InvalidInputError(f"{location} is a file; give the folder of a lakehouse")
        return self._counting(store, fence)

    def store_of_files(self, folder: str, location: str) -> Store:
        """Return the store of a folder of input files; `location` is the path that the user gave."""
        store = open_store(folder, self.storage_options)
        if isinstance(store, LocalStore):
            path = _folder_of(store)
            if os.path.isfile(path):
                raise NotFoundError(f"{location} does not exist; {path} is a file, not a folder")
            if os.path.exists(path) and not os.path.isdir(path):
                raise InvalidInputError(f"{location} is neither a file nor a folder; copy its content into a file")
        return self._counting(store)

    def _counting(self, store: Store, fence: "WriteFence | None" = None) -> Store:
        if not self.with_stats and fence is None:
            return store
        check = _check_nothing if fence is None else fence.check
        counting = _CountingLocalStore(store, check) if isinstance(store, LocalStore) else CountingStore(store, check)
        self._counted.append(counting)
        return counting

    def file(self, location: str) -> tuple[str, bytes]:
        """Return the path and the bytes of the file at a URI or path."""
        folder, name = split_location(expand_location(location, os.getcwd()))
        store = self.store_of_files(folder, location)
        try:
            return f"{folder}/{name}", store.read(name)
        except NotFoundError as error:
            is_folder = next(iter(store.list(f"{name}/")), None) is not None
            problem = "is a folder; give a file in it" if is_folder else "does not exist; check the path"
            raise NotFoundError(f"{location} {problem}") from error

    def effects(self, location: str) -> Effects:
        """Return the effects (store, clock and ids) of a location."""
        return self._around(self.store(location))

    def open_metastore(self, location: str) -> OpenedLayout:
        """Open the versions of the lakehouse at a location, for commands that only read metadata.

        This imports neither the table API nor what it needs, such as the SQL parser.
        """
        return open_layout(self._around(resolve_store(location, self.store, self.cache)))

    def open(
        self, location: str, engines: "EnginesFactory | None" = None, fence: "WriteFence | None" = None
    ) -> "Lakehouse":
        """Open the lakehouse at a location. `engines` is required to read or write rows.

        The lakehouse rejects all writes and commits once `fence` is closed.
        """
        store = resolve_store(location, lambda place: self.store(place, fence), self.cache)
        lake = open_on_store(self._around(store), engines)
        self._opened.append(lake)
        return lake

    def answer(self, value: Json, drawing: Callable[[], RenderableType]) -> None:
        """Print the result: `value` with --json, otherwise `drawing`."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, ensure_ascii=not supports_unicode(sys.stdout), indent=2) + "\n")
            return
        draw(drawing())

    @contextmanager
    def watching(self, what: str) -> Iterator[ProgressCallback]:
        """Show a progress bar on a terminal once the work has taken a second."""
        if self.as_json or not sys.stderr.isatty():
            yield ignore_progress
            return
        with ProgressBar(what) as bar:
            yield bar.watch

    def _around(self, store: Store) -> Effects:
        effects = build_effects(store)
        self._effects.append(effects)
        return effects

    def finish(self) -> None:
        """Wait for pending background writes, and print the storage statistics with --stats."""
        for effects in self._effects:
            wait_for_pending(effects)
        if not self.with_stats:
            return
        requests = sum((store.requests for store in self._counted), StoreRequests())
        engines: list[object] = [lake.engines for lake in self._opened]
        used_spark = any(isinstance(one, _StartsSpark) and one.has_started for one in engines)
        counted = {**asdict(requests), "total": requests.total, "without_spark": used_spark}
        line = format_storage_stats(requests, used_spark=used_spark)
        text = json.dumps({"storage": counted}) if self.as_json else line
        sys.stderr.write(text + "\n")


def _check_nothing(_: StoreRequests) -> None:
    """Allow every request."""


def resolve_cache(folder: str | None, bytes_max: int | None) -> CacheSettings | None:
    """Return the cache settings, or None without a folder; a size without a folder is ignored."""
    return build_cache_settings(folder, bytes_max) if folder else None


def _folder_of(store: LocalStore) -> str:
    return parse_root_uri(store.uri).path.rstrip("/")


def format_storage_stats(requests: StoreRequests, *, used_spark: bool = False) -> str:
    """Return the storage requests as one line; Spark's own requests are not counted.

    >>> format_storage_stats(StoreRequests(reads=2, creates=1, bytes_read=2048))
    'storage: 3 requests (2 reads, 1 create), 2.0 KiB read, 0 bytes written'
    """
    kinds = ("reads", "sizes", "lists", "puts", "creates", "deletes")
    counts = [(getattr(requests, kind), kind) for kind in kinds]
    listed = ", ".join(f"{count:,} {kind if count != 1 else kind[:-1]}" for count, kind in counts if count)
    of_which = f" ({listed})" if listed else ""
    plural = "" if requests.total == 1 else "s"
    read, written = format_bytes(requests.bytes_read), format_bytes(requests.bytes_written)
    note = "; requests of Spark are not counted" if used_spark else ""
    return f"storage: {requests.total:,} request{plural}{of_which}, {read} read, {written} written{note}"

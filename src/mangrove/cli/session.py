"""One run of a command: how it was asked to answer, and the stores that it opened."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rich.console import RenderableType

from mangrove.cli.places import folder_and_name
from mangrove.cli.screen import draw, speaks_unicode
from mangrove.effects import Effects, real_effects, settle
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.caching import Cache, cache_in
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import EnginesMaker, open_on, store_to_open
from mangrove.maintenance.progress import Watch, said_bytes, unwatched
from mangrove.model.json_form import Json
from mangrove.storage.counting import CountingStore, Requests
from mangrove.storage.local import LocalStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import in_full, parse_root

if TYPE_CHECKING:
    # Most commands run no statement that Ctrl-C ends.
    from mangrove.cli.cancelling import WriteGate

__all__ = ["Session", "given_cache", "stats_text"]


class _CountingLocalStore(CountingStore):
    """Counts, and still shows vacuum what killed writers left on disk."""

    def __init__(self, store: LocalStore, check: Callable[[Requests], None]) -> None:
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
class Session:
    """What every command is given."""

    as_json: bool = False
    with_stats: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict)
    cache: Cache | None = None
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
        folder, name = folder_and_name(in_full(location, os.getcwd()))
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

    def open(self, location: str, engines: EnginesMaker | None = None, gate: "WriteGate | None" = None) -> Lakehouse:
        """Open the lakehouse at a location, with engines where rows are read or written.

        Once `gate` is closed, this object writes and commits nothing more.
        """
        store = store_to_open(location, lambda place: self.store(place, gate), self.cache)
        lake = open_on(self._around(store), engines=engines)
        self._opened.append(lake)
        return lake

    def answer(self, value: Json, drawing: Callable[[], RenderableType]) -> None:
        """Say what came of it: to a program as JSON, to a person as it is drawn."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, ensure_ascii=not speaks_unicode(sys.stdout), indent=2) + "\n")
            return
        draw(drawing())

    @contextmanager
    def watching(self, what: str) -> Iterator[Watch]:
        """Show how far long work has come, once it has taken a second, where a person is looking."""
        if self.as_json or not sys.stderr.isatty():
            yield unwatched
            return
        # Bars take long to import, and most commands are over before one is needed.
        from mangrove.cli.progress_bar import ProgressBar  # noqa: PLC0415

        with ProgressBar(what) as bar:
            yield bar.watch

    def _around(self, store: Store) -> Effects:
        effects = real_effects(store)
        self._effects.append(effects)
        return effects

    def finish(self) -> None:
        """Leave the hint behind, and say what was asked of storage, if that was wanted."""
        for effects in self._effects:
            settle(effects)
        if not self.with_stats:
            return
        made = sum((store.requests for store in self._counted), Requests())
        engines: list[object] = [lake.engines for lake in self._opened]
        used_spark = any(isinstance(one, _StartsSpark) and one.has_started for one in engines)
        counted = {**asdict(made), "total": made.total, "without_spark": used_spark}
        text = json.dumps({"storage": counted}) if self.as_json else stats_text(made, used_spark=used_spark)
        sys.stderr.write(text + "\n")


def _check_nothing(_: Requests) -> None:
    """Let every request pass."""


def given_cache(folder: str | None, bytes_max: int | None) -> Cache | None:
    """Return the cache that options or the environment name; there a bound may stand without a folder."""
    return cache_in(folder, bytes_max) if folder else None


def _folder_of(store: LocalStore) -> str:
    return parse_root(store.uri).path.rstrip("/")


def stats_text(made: Requests, *, used_spark: bool = False) -> str:
    """Return what was asked of storage, in one line; what Spark asked by itself was not counted.

    >>> stats_text(Requests(reads=2, creates=1, bytes_read=2048))
    'storage: 3 requests (2 reads, 1 create), 2.0 KiB read, 0 bytes written'
    """
    kinds = ("reads", "sizes", "lists", "puts", "creates", "deletes")
    counts = [(getattr(made, kind), kind) for kind in kinds]
    listed = ", ".join(f"{count:,} {kind if count != 1 else kind[:-1]}" for count, kind in counts if count)
    of_which = f" ({listed})" if listed else ""
    plural = "" if made.total == 1 else "s"
    read, written = said_bytes(made.bytes_read), said_bytes(made.bytes_written)
    also = "; what Spark asked is not counted" if used_spark else ""
    return f"storage: {made.total:,} request{plural}{of_which}, {read} read, {written} written{also}"

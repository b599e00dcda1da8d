"""Replay of source versions as commits in the destination, with resumption after a crash.

The clock replays the history of the source, and ids are derived from the source's
versions: a repeated run after a crash writes the same files and no others. The ids
depend on all options that determine file content, so that a file name never has two
meanings, even if the destination was emptied and converted to again.
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, ConflictError, FormatError
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.convert.history import (
    ConversionMapping,
    VersionStep,
    build_step_changes,
    find_rollback_target,
    iterate_steps,
)
from mangrove.maintenance.convert.survey import Survey
from mangrove.maintenance.progress import Progress, ProgressCallback
from mangrove.metastore import Changes, Commit, Isolation, Metastore, MetastoreMaintenance, MetastoreSnapshot
from mangrove.model.settings import LakehouseSettings
from mangrove.storage.port import Store

__all__ = [
    "CONVERSION_PATH",
    "ConversionRecord",
    "ConversionTarget",
    "HistoryReplay",
    "MaintainedMetastore",
    "decode_conversion",
    "encode_conversion",
]

CONVERSION_PATH = "_mangrove_conversion.json"


@dataclass(frozen=True, slots=True)
class ConversionRecord:
    """The source, target layout and extent of a conversion."""

    source: str
    layout: str
    history: str
    data: str
    first_version: int
    """The source version that became version 0; it determines all other version numbers."""
    strict: bool = False
    """Whether the destination is a strict tree."""

    def __post_init__(self) -> None:
        texts = (self.source, self.layout, self.history, self.data)
        numbers = (type(self.first_version), type(self.strict))
        if not all(isinstance(text, str) for text in texts) or numbers != (int, bool):
            raise FormatError(f"invalid types in a conversion record: {self!r}")

    def __str__(self) -> str:
        return f"a conversion of {self.source} from version {self.first_version} on ({self.history}, {self.data})"


def encode_conversion(record: ConversionRecord) -> bytes:
    """Return the record as JSON.

    >>> record = ConversionRecord("s3://b/lake/", "deltacat", "all", "copy", 0)
    >>> decode_conversion(encode_conversion(record), "here") == record
    True
    """
    return json.dumps(asdict(record), ensure_ascii=False, indent=1).encode()


def decode_conversion(data: bytes, where: str) -> ConversionRecord:
    """Return the conversion record in a file."""
    try:
        return ConversionRecord(**json.loads(data))
    except (ValueError, TypeError) as error:
        raise FormatError(
            f"{where} is not a valid conversion record ({error!r}); convert to another location"
        ) from error


class MaintainedMetastore(Metastore, MetastoreMaintenance, Protocol):
    """A metastore that also implements maintenance, as both layouts do."""


@dataclass(frozen=True, slots=True)
class ConversionTarget:
    """The destination, and how a lakehouse of its layout is created and opened."""

    store: Store
    layout: str
    """The layout with its format revision, as given at creation."""
    ids_without_dots: bool
    """Whether the layout does not support ids with a dot."""
    unknown_properties: frozenset[str]
    """Lakehouse properties that the layout does not support."""
    strict: bool
    """Whether the destination is a strict tree."""
    inlines_rows: bool
    """Whether rows are inline by default; otherwise inline rows are written as data files."""
    make: Callable[[Effects, LakehouseSettings, Changes], MaintainedMetastore]
    open: Callable[[Effects], MaintainedMetastore | None]
    """Returns the existing lakehouse, or None."""


class HistoryReplay:
    """The destination during conversion, with the time and ids of the replayed version."""

    def __init__(
        self,
        source: MaintenanceContext,
        place: ConversionTarget,
        versions: Sequence[int],
        conversion_mapping: ConversionMapping,
        record: ConversionRecord,
    ) -> None:
        self._source = source
        self._record = record
        self._place = place
        self._versions = versions
        self._carrying = conversion_mapping
        self._now_millis = 0
        self._seed, self._ids_made = "", 0
        self._effects = Effects(
            store=place.store,
            now_millis=lambda: self._now_millis,
            new_id=self._new_id,
            pause=source.effects.pause,
            # Hints are written at the end, which saves one request per version.
            later=lambda _: None,
        )
        self._made = place.open(self._effects)
        self._newest: MetastoreSnapshot | None = None

    @property
    def made(self) -> MaintenanceContext:
        """The destination, once it has a version."""
        assert self._made is not None, "the destination has no version yet"
        return MaintenanceContext(self._effects, self._made, self._made)

    def run(self, survey: Survey, watch: ProgressCallback) -> int:
        """Commit the missing versions, and return how many existed already."""
        done = self._done()
        for number, step in enumerate(iterate_steps(self._source, self._versions, done), start=done):
            self._replay_version(number, step, survey)
            watch(Progress("converting versions", number + 1, len(self._versions)))
        return done

    def _done(self) -> int:
        """Return the number of existing versions; raise an error if the destination has other commits."""
        if self._made is None:
            return 0
        self._newest = self._made.latest()
        newest = self._newest.commit
        place = newest.version
        self._now_millis = newest.created_at_millis
        if place < len(self._versions):
            step = self._source.metastore.at_version(self._versions[place]).commit
            if newest.transaction_id == _transaction_id(step, self._source.store.uri):
                return place + 1
        raise AlreadyExistsError(
            f"{self._place.store.uri} has other commits since it was converted (version {newest.version}); "
            "convert to another location"
        )

    def _replay_version(self, number: int, step: VersionStep, survey: Survey) -> None:
        commit = step.commit
        uri = self._source.store.uri
        self._now_millis = commit.created_at_millis
        transaction_id = _transaction_id(commit, uri)
        before = self._versions[:number][-1:]
        self._seed, self._ids_made = f"{self._record!r} {before} {commit.version} {transaction_id}", 0
        changes = build_step_changes(self._source, step, self._carrying, transaction_id)
        if self._made is None:
            assert changes.settings is not None, "the first version has its definition with it"
            self._made = self._place.make(self._effects, changes.settings, changes)
            self._newest = self._made.latest()
            return
        target = None if commit.rolled_back_from is None else find_rollback_target(self._source, self._versions, number)
        if commit.rolled_back_from is not None and target is None:
            survey.note(
                f"version {commit.version} is a rollback to an unconverted version; it becomes an ordinary version"
            )
        assert self._newest is not None, "there is a first version"
        is_earlier = 0 < commit.created_at_millis < self._newest.commit.created_at_millis
        made = self._committed(replace(changes, resets_clock=is_earlier), target)
        if made.version != number:
            raise _concurrent_writer_error(self._place.store.uri, made.version)
        self._newest = made
        if made.commit.created_at_millis != commit.created_at_millis:
            survey.note(
                f"version {commit.version} has the time of the previous version; its time is increased by a millisecond"
            )

    def _committed(self, changes: Changes, target: int | None) -> MetastoreSnapshot:
        """Return the destination's next version: a rollback, or the changes on the newest."""
        assert self._made is not None, "there is a first version"
        assert self._newest is not None, "there is a first version"
        if target is None:
            return self._made.commit(self._newest, changes, Isolation.SERIALIZABLE).snapshot
        bare = replace(changes, puts={}, deletes=frozenset(), settings=None)
        return self._made.roll_back(self._made.at_version(target), bare)

    def _new_id(self) -> str:
        """Return a deterministic id in the form of a version 4 UUID."""
        self._ids_made += 1
        digest = hashlib.sha256(f"{self._seed} {self._ids_made}".encode()).digest()
        return str(uuid.UUID(bytes=digest[:16], version=4))


def _transaction_id(commit: Commit, uri: str) -> str:
    """Return the transaction id of a replayed version; other programs do not always record one."""
    return commit.transaction_id or f"converted-{hashlib.sha256(uri.encode()).hexdigest()[:8]}-{commit.version}"


def _concurrent_writer_error(uri: str, version: int) -> ConflictError:
    return ConflictError(
        f"a concurrent writer committed version {version} to {uri} during the conversion; stop it and convert again"
    )

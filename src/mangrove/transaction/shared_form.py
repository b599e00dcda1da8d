"""What a shared transaction has staged, as JSON: the form in which its participants hand it to each other."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mangrove.errors import FormatError, InvalidInputError
from mangrove.metastore import Changes, Isolation, Parent, Scan, Snapshot
from mangrove.model.json_form import from_json, to_json
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    NamespaceLocator,
    PartitionLocator,
    StreamLocator,
    TableIdentity,
    TableLocator,
    TableVersionLocator,
    ViewLocator,
)
from mangrove.model.names import check_text
from mangrove.model.objects import (
    Delta,
    Namespace,
    Object,
    Partition,
    Stream,
    Table,
    TableVersion,
    View,
)
from mangrove.model.properties import NO_PROPERTIES, Properties
from mangrove.transaction.workspace import Workspace

__all__ = ["SharedWork", "decode_work", "encode_work"]

_FORM: Final = 1
_IDENTITY: Final = "table id"
_KINDS: Final = {kind.word: kind for kind in Kind}
_CLASSES: Final[dict[Kind, tuple[type, type]]] = {
    Kind.NAMESPACE: (NamespaceLocator, Namespace),
    Kind.TABLE: (TableLocator, Table),
    Kind.VIEW: (ViewLocator, View),
    Kind.TABLE_VERSION: (TableVersionLocator, TableVersion),
    Kind.STREAM: (StreamLocator, Stream),
    Kind.PARTITION: (PartitionLocator, Partition),
    Kind.DELTA: (DeltaLocator, Delta),
}


@dataclass(frozen=True, slots=True)
class SharedWork:
    """All that was staged by those who joined, and what they read for it."""

    transaction_id: str
    isolation: Isolation = Isolation.SNAPSHOT
    message: str = ""
    author: str = ""
    properties: Mapping[str, str] = NO_PROPERTIES
    puts: Mapping[Locator, Object] = field(default_factory=dict)
    deletes: frozenset[Locator] = frozenset()
    reads: frozenset[Locator] = frozenset()
    scans: frozenset[Scan] = frozenset()
    guards: frozenset[Locator | Scan] = frozenset()
    origins: Mapping[str, str] = NO_PROPERTIES

    def __post_init__(self) -> None:
        for name in ("transaction_id", "message", "author"):
            check_text(getattr(self, name), f"the {name} of a shared transaction")
        object.__setattr__(self, "properties", Properties(self.properties))
        object.__setattr__(self, "origins", Properties(self.origins))

    def workspace(self, base: Snapshot) -> Workspace:
        """Return the work as a participant sees it on its base; what it reads and guards from now on is noted anew."""
        workspace = Workspace(base)
        for locator, value in self.puts.items():
            workspace.staged.put(locator, value)
        workspace.staged.deletes |= self.deletes
        workspace.origins |= self.origins
        return workspace

    def changes(self, workspace: Workspace) -> Changes:
        """Return all of it as what is to be committed, with what its participants read and guarded."""
        changes = workspace.changes(self.transaction_id, self.message, self.author, self.properties)
        return replace(changes, reads=self.reads, scans=self.scans, guards=self.guards | changes.guards)

    def after(self, workspace: Workspace) -> "SharedWork":
        """Return the work as a participant's workspace has it now, with only what that one read and guarded."""
        return replace(
            self,
            puts=dict(workspace.staged.puts),
            deletes=frozenset(workspace.staged.deletes),
            reads=frozenset(workspace.reads),
            scans=frozenset(workspace.scans),
            guards=frozenset(workspace.guards),
            origins=dict(workspace.origins),
        )


def encode_work(work: SharedWork) -> bytes:
    """Return the work as bytes, the same for the same work."""
    data = {
        "form": _FORM,
        "transaction": work.transaction_id,
        "isolation": work.isolation.value,
        "message": work.message,
        "author": work.author,
        "properties": dict(work.properties),
        "puts": [[_way(locator), to_json(value)] for locator, value in sorted(work.puts.items())],
        "deletes": _ways(work.deletes),
        "reads": _ways(work.reads),
        "scans": sorted(map(_scan, work.scans), key=json.dumps),
        "guards": _ways(item for item in work.guards if not isinstance(item, Scan)),
        "guard_scans": sorted((_scan(item) for item in work.guards if isinstance(item, Scan)), key=json.dumps),
        "origins": dict(work.origins),
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def decode_work(payload: bytes, where: str) -> SharedWork:
    """Return the work that a shared transaction's payload holds."""
    try:
        data = json.loads(payload)
        if data["form"] != _FORM:
            raise FormatError(f"{where} was written by another release of mangrove-lake: use that one to end it")
        return SharedWork(
            data["transaction"],
            Isolation(data["isolation"]),
            data["message"],
            data["author"],
            data["properties"],
            dict(_put(way, value, where) for way, value in data["puts"]),
            frozenset(map(_locator, data["deletes"])),
            frozenset(map(_locator, data["reads"])),
            frozenset(map(_scanned, data["scans"])),
            frozenset([*map(_locator, data["guards"]), *map(_scanned, data["guard_scans"])]),
            data["origins"],
        )
    except (ValueError, TypeError, LookupError, AttributeError, InvalidInputError) as error:
        raise FormatError(f"{where} does not say what was staged in it ({error!r}): discard it") from error


def _ways(locators: Iterable[Locator]) -> list[list[str | int]]:
    return [_way(locator) for locator in sorted(locators)]


def _way(locator: Locator) -> list[str | int]:
    return [locator.kind.word, *locator.parts]


def _locator(way: Any) -> Locator:
    word, *parts = way
    located: Locator = _CLASSES[_KINDS[word]][0](*parts)
    return located


def _put(way: Any, value: Any, where: str) -> tuple[Locator, Object]:
    locator = _locator(way)
    made: Object = from_json(value, _CLASSES[locator.kind][1], f"{where}: {locator}")
    return locator, made


def _scan(scan: Scan) -> list[Any]:
    parent: list[str | int] | None
    match scan.parent:
        case None:
            parent = None
        case TableIdentity(namespace_id, table_id):
            parent = [_IDENTITY, namespace_id, table_id]
        case below:
            parent = _way(below)
    return [scan.kind.word, parent, scan.prefix]


def _scanned(data: Any) -> Scan:
    word, way, prefix = data
    parent: Parent = None
    if way is not None:
        is_identity = way[0] == _IDENTITY
        parent = TableIdentity(*way[1:]) if is_identity else _locator(way)  # type: ignore[assignment]
    return Scan(_KINDS[word], parent, prefix)

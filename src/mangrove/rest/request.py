"""REST requests and resolution of the namespaces, tables and views that they name.

Engines probe names such as `db.table.files` for metadata tables. An invalid name is
therefore answered with not found: engines treat any other error as a failure.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.iceberg.publish.metadata_writer import PublishedTable, SnapshotFiles
from mangrove.iceberg.publish.table_revisions import TableRevision
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.objects import NamespaceEntry, TableEntry, TableType, ViewEntry
from mangrove.rest.settings import RestSettings
from mangrove.rest.warehouses import open_version, parse_prefix
from mangrove.storage.lru import LruCache
from mangrove.transaction.catalog import load_namespace, load_table, load_view

__all__ = [
    "NAMESPACE_SEPARATOR",
    "CachedTable",
    "RestRequest",
    "ServedLakehouse",
    "check_addressable",
    "decode_token",
    "encode_token",
    "explain_rename",
    "find_namespace",
    "find_namespace_by_levels",
    "find_table",
    "find_view",
    "is_addressable",
    "is_publishable",
    "parse_namespace",
    "parse_namespace_path",
    "parse_properties",
    "parse_table_identifier",
    "parse_view_identifier",
    "require_text",
]

_REQUEST_CHARACTERS_MAX: Final = 4_000
_DEPTH_MAX: Final = 200
"""Columns are nested at most 32 levels deep, and each level takes at most three levels of JSON."""


@dataclass(frozen=True, slots=True)
class CachedTable:
    """A published table and the newest version in which it was found to have this state."""

    version: int
    newest: TableRevision
    labels: Mapping[str, object]
    published: PublishedTable


_CACHED_DELTAS_MAX: Final = 100_000
"""Number of deltas of all cached tables."""
_CACHED_FILES_MAX: Final = 100_000
"""Number of files of all snapshots whose files are cached for scan planning."""


@dataclass(frozen=True, slots=True)
class ServedLakehouse:
    """The served lakehouse and the server's access settings."""

    lake: Lakehouse
    is_writable: bool = False
    is_secret: Callable[[str], bool] | None = field(default=None, repr=False)
    """Whether a text is the server's token; None if the server has no token."""
    settings: RestSettings = field(default_factory=RestSettings)
    published_tables: LruCache[CachedTable] = field(default_factory=lambda: LruCache(_CACHED_DELTAS_MAX), repr=False)
    snapshot_files: LruCache[SnapshotFiles] = field(default_factory=lambda: LruCache(_CACHED_FILES_MAX), repr=False)
    """The files of snapshots by table id and snapshot id, for scan planning."""


@dataclass(frozen=True, slots=True)
class RestRequest:
    """An untrusted request."""

    served: ServedLakehouse
    path_parameters: Mapping[str, str]
    """Decoded values of `{namespace}`, `{table}` and so on."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Values by lower-case header name."""
    body: bytes = b""

    def __post_init__(self) -> None:
        for name, value in (*self.path_parameters.items(), *self.query.items()):
            if len(value) > _REQUEST_CHARACTERS_MAX:
                raise InvalidInputError(
                    f"{name[:40]!r} has {len(value)} characters; at most {_REQUEST_CHARACTERS_MAX} are allowed"
                )

    @property
    def version(self) -> int | None:
        """The version in the prefix of the path, or None for the newest."""
        prefix = self.path_parameters.get("prefix")
        return None if prefix is None else parse_prefix(prefix)

    @property
    def is_writable(self) -> bool:
        """Whether the server accepts writes to the version of the path."""
        return self.served.is_writable and self.version is None

    def open_snapshot(self, version: int | None = None) -> Snapshot:
        """Return the snapshot of the path's prefix, else of `version`, else the newest."""
        path_version = self.version
        return open_version(self.served.lake, version if path_version is None else path_version)

    def document(self) -> dict[str, Any]:
        """Return the JSON object of the request body."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"the request body is not JSON ({error}); send a JSON object") from error
        if not isinstance(document, dict):
            raise InvalidInputError("the request body is not a JSON object; send a JSON object")
        _check_depth(document)
        return document


def _check_depth(document: object) -> None:
    """Raise InvalidInputError if the document is nested too deeply for recursive readers."""
    level = [document]
    for _ in range(_DEPTH_MAX):
        inside = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = [*chain.from_iterable(inside)]
        if not level:
            return
    raise InvalidInputError(f"the request body has more than {_DEPTH_MAX} nesting levels; reduce the nesting")


def encode_token(value: object) -> str:
    """Return a JSON value as an opaque token for clients, which is safe in URLs."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def decode_token(token: str) -> object:
    """Return the JSON value of a token, or None if it is no token; clients may change tokens."""
    try:
        value: object = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
        _check_depth(value)
    except (ValueError, binascii.Error, RecursionError, InvalidInputError):
        return None
    return value


NAMESPACE_SEPARATOR: Final = "\x1f"
"""Separator between the levels of a namespace in a path."""


def find_namespace_by_levels(snapshot: Snapshot, text: str) -> tuple[NamespaceLocator, NamespaceEntry]:
    """Return the namespace with these levels."""
    with _invalid_as_not_found("namespace"):
        locator = _locator(text)
        return locator, load_namespace(snapshot._reading(), locator)


def find_namespace(snapshot: Snapshot, requested: RestRequest) -> tuple[NamespaceLocator, NamespaceEntry]:
    """Return the namespace of a request path."""
    return find_namespace_by_levels(snapshot, requested.path_parameters["namespace"])


def find_table(snapshot: Snapshot, requested: RestRequest) -> tuple[TableLocator, TableEntry]:
    """Return the managed table of a request path; external tables are not found."""
    with _invalid_as_not_found("table"):
        parameters = requested.path_parameters
        locator = TableLocator(_locator(parameters["namespace"]).name, parameters["table"])
        with _explained_by_its_parent(locator):
            value = load_table(snapshot._reading(), locator)
    if not is_publishable(value):
        raise NotFoundError(f"table {locator} is external and is not part of this catalog; open it at its own location")
    return locator, value


def find_view(snapshot: Snapshot, requested: RestRequest) -> tuple[ViewLocator, ViewEntry]:
    """Return the view of a request path."""
    with _invalid_as_not_found("view"):
        parameters = requested.path_parameters
        locator = ViewLocator(_locator(parameters["namespace"]).name, parameters["view"])
        with _explained_by_its_parent(locator):
            return locator, load_view(snapshot._reading(), locator)


def is_publishable(value: TableEntry) -> bool:
    """Return whether a table can be published as Iceberg: only managed tables can."""
    return value.table_type is TableType.MANAGED


def is_addressable(name: str) -> bool:
    """Return whether a client can address an object with this name.

    Clients resolve the path segments `.` and `..` before they send a request, so dropping
    a table with such a name would drop its namespace.

    >>> is_addressable(".."), is_addressable("...")
    (False, True)
    """
    return name not in {".", ".."}


def _locator(text: str) -> NamespaceLocator:
    levels = text.split(NAMESPACE_SEPARATOR)
    if len(levels) > 1:
        raise InvalidInputError(f"{'.'.join(levels)!r} has several levels; namespaces have one level")
    return NamespaceLocator(text)


@contextmanager
def _explained_by_its_parent(locator: TableLocator | ViewLocator) -> Iterator[None]:
    """Report a missing namespace, or an object of another kind, as a missing table or view, with the reason."""
    what = f"{locator.kind.word} {locator} does not exist"
    try:
        yield
    except NotFoundError as error:
        raise (error if str(error).startswith(what) else NotFoundError(f"{what}; {error}")) from error


@contextmanager
def _invalid_as_not_found(kind: str) -> Iterator[None]:
    try:
        yield
    except InvalidInputError as error:
        raise NotFoundError(f"{kind.capitalize()} does not exist: {error}") from error


def parse_namespace(levels: object) -> NamespaceLocator:
    """Return the namespace of a list of levels; raise NotFoundError for several levels, which no namespace has.

    >>> parse_namespace(["sales"]).name
    'sales'
    """
    match levels:
        case [str(name)]:
            return NamespaceLocator(name)
        case [str(), *_]:
            name = ".".join(map(str, levels))
            raise NotFoundError(
                f"namespace {name} does not exist: it has several levels, and namespaces have one level"
            )
        case _:
            raise InvalidInputError("the request has no namespace; send a list with one name")


def parse_namespace_path(requested: RestRequest) -> NamespaceLocator:
    """Return the namespace of a request path, whether or not it exists."""
    return parse_namespace(requested.path_parameters["namespace"].split(NAMESPACE_SEPARATOR))


def parse_table_identifier(identifier: object) -> TableLocator:
    """Return the table of an identifier."""
    namespace, name = _parts(identifier)
    return TableLocator(namespace.name, name)


def parse_view_identifier(identifier: object) -> ViewLocator:
    """Return the view of an identifier."""
    namespace, name = _parts(identifier)
    return ViewLocator(namespace.name, name)


def check_addressable(locator: NamespaceLocator | TableLocator | ViewLocator) -> None:
    """Raise InvalidInputError for a name that no client could address."""
    above = () if isinstance(locator, NamespaceLocator) else (locator.namespace,)
    for name in (*above, locator.name):
        if not is_addressable(name):
            raise InvalidInputError(
                f"{name!r} is a relative path segment and cannot be used as a name; choose another name"
            )


@contextmanager
def explain_rename(source: TableLocator | ViewLocator, destination: TableLocator | ViewLocator) -> Iterator[None]:
    """Report a name that is taken as other catalogs do."""
    try:
        yield
    except AlreadyExistsError as error:
        kind = str(error).partition(" ")[0].capitalize()
        names = [f"{one.namespace}.{one.name}" for one in (source, destination)]
        raise AlreadyExistsError(f"Cannot rename {names[0]} to {names[1]}. {kind} already exists") from error


def require_text(document: Mapping[str, Any], name: str) -> str:
    """Return a required string of a request."""
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"the request has no {name!r}; send it as a string")
    return value


def parse_properties(document: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the properties of a request; empty if it has none."""
    properties = document.get(name) or {}
    if not isinstance(properties, dict) or not all(isinstance(one, str) for one in properties.values()):
        raise InvalidInputError(f"{name!r} of the request is not an object with string values")
    return properties


def _parts(identifier: object) -> tuple[NamespaceLocator, str]:
    match identifier:
        case {"namespace": levels, "name": str(name)}:
            return parse_namespace(levels), name
        case _:
            raise InvalidInputError("the request has no valid identifier; send an object with namespace and name")

"""REST handlers that load, create, commit, rename and drop tables."""

import datetime
import json
import posixpath
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pydantic import BaseModel
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from starlette.responses import Response

from mangrove.errors import InvalidInputError, StorageError
from mangrove.iceberg.commit.commit_request import (
    INVALID_REQUEST_ERRORS,
    describe_invalid_request,
    parse_commit_request,
)
from mangrove.iceberg.commit.new_table import NewTableRequest
from mangrove.iceberg.commit.registration import register_table
from mangrove.iceberg.commit.transaction import (
    TableCommit,
    build_staged_metadata,
    commit_tables,
    create_published_table,
)
from mangrove.iceberg.locations import folder_of
from mangrove.iceberg.publish.history_writer import publish_history
from mangrove.iceberg.publish.metadata_writer import PublishedTable
from mangrove.iceberg.publish.table_revisions import TableRevisions
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.model.access import Privilege
from mangrove.model.locators import TableLocator
from mangrove.rest.errors import UNSUPPORTED, respond_iceberg_error
from mangrove.rest.namespaces import respond_json, respond_no_content
from mangrove.rest.request import (
    CachedTable,
    RestRequest,
    ServedLakehouse,
    check_addressable,
    explain_rename,
    find_table,
    parse_namespace_path,
    parse_properties,
    parse_table_identifier,
    require_text,
)
from mangrove.rest.s3_delegation import S3Delegation, SignRequest
from mangrove.tables.iceberg_names import METADATA_SUFFIX, STAGING_FOLDER, published_folder_of

__all__ = [
    "handle_commit_table",
    "handle_commit_transaction",
    "handle_create_table",
    "handle_drop_table",
    "handle_load_table",
    "handle_register_table",
    "handle_rename_table",
    "handle_sign_request",
    "is_etag_match",
    "publish_table_at",
    "respond_load_table",
]

_SNAPSHOTS: Final = ("all", "refs")


def handle_load_table(requested: RestRequest) -> Response:
    """Return a table's metadata, or 304 if the client's ETag matches."""
    snapshots = requested.query.get("snapshots", _SNAPSHOTS[0])
    if snapshots not in _SNAPSHOTS:
        raise InvalidInputError(f"invalid snapshots {snapshots[:40]!r}; expected 'all' or 'refs'")
    snapshot = requested.open_snapshot()
    locator, entry = find_table(snapshot, requested)
    try:
        published = publish_table_at(requested.served, snapshot, locator, entry.id).published
    except InvalidInputError as error:
        # The request is valid, so the response must not be 400.
        return respond_iceberg_error(406, str(error), UNSUPPORTED)
    has_all = snapshots == _SNAPSHOTS[0]
    etag = _etag_of(published, has_all=has_all)
    if is_etag_match(requested.headers.get("if-none-match", ""), etag):
        return Response(status_code=304, headers={"ETag": etag})
    return respond_load_table(requested, locator, published, has_all=has_all)


def publish_table_at(served: ServedLakehouse, snapshot: Snapshot, locator: TableLocator, table_id: str) -> CachedTable:
    """Publish a table as of a snapshot, with its earlier snapshots.

    The result is cached. It is valid as long as the table keeps its state, the same versions
    have names, and a vacuum did not delete the metadata file. A state that was rolled back is
    one of the published snapshots, so it is not enough that the table has its old state again.
    """
    store, key = served.lake.effects.store, (table_id, str(locator))
    cached = served.published_tables.get(key)
    if cached is not None and not store.exists(f"{published_folder_of(table_id)}{cached.published.file_name}"):
        cached = None
    if cached is not None and cached.version == snapshot.version:
        return cached
    revisions = TableRevisions.up_to(served.lake.metastore, snapshot.snapshot, locator)
    is_earlier = cached is not None and cached.version > snapshot.version
    is_unchanged = (
        cached is not None
        and not is_earlier
        and cached.newest.is_same_state(revisions.newest)
        and cached.labels == revisions.labels
        and not revisions.has_changed_since(cached.version)
    )
    published = cached.published if cached is not None and is_unchanged else publish_history(store, revisions)
    found = CachedTable(snapshot.version, revisions.newest, revisions.labels, published)
    if not is_earlier:
        served.published_tables.put(key, found, 1 + sum(len(log.deltas) for log in revisions.newest.state.logs))
    return found


def respond_load_table(
    requested: RestRequest, locator: TableLocator, published: PublishedTable, *, has_all: bool = True
) -> Response:
    """Return the response with which a table is loaded, created or committed.

    The storage properties are part of the catalog's configuration and not repeated here:
    DuckDB would take them for credentials and ignore its configured key. A response with
    credentials, which may expire, has no ETag.
    """
    metadata = published.metadata
    if not has_all:
        referenced = {one.snapshot_id for one in metadata.refs.values()}
        snapshots = [one for one in metadata.snapshots if one.snapshot_id in referenced]
        metadata = metadata.model_copy(update={"snapshots": snapshots})
    access = _build_table_access(requested, locator, published.folder)
    response = respond_json(
        {
            "metadata-location": published.metadata_address,
            "metadata": json.loads(metadata.model_dump_json()),
            "config": {},
            **access,
        }
    )
    if not access:
        response.headers["ETag"] = _etag_of(published, has_all=has_all)
    return response


def _build_table_access(requested: RestRequest, locator: TableLocator, folder: str) -> dict[str, Any]:
    """Return the fields of a response that give a client access to the files of a table."""
    delegation, lake = requested.served.settings.delegation, requested.served.lake
    if delegation is None or (delegation.mode == "static" and lake.privilege_on() < Privilege.MANAGE):
        # Static keys open the whole bucket.
        return {}
    prefix = "".join(f"{one}/" for one in (requested.path_parameters.get("prefix"),) if one)
    access = delegation.build_table_access(
        requested.headers.get("x-iceberg-access-delegation", ""),
        _relative_folder_of(folder),
        f"v1/{prefix}namespaces/{quote(locator.namespace, '')}/tables/{quote(locator.name, '')}/sign",
        is_writable=requested.is_writable and lake.privilege_on(locator) >= Privilege.WRITE,
        at=_now(requested),
    )
    credentials = access.get("storage-credentials", [])
    if credentials:
        # DuckDB applies a single credential to the location of the table alone, where no file is stored.
        staging = [{**one, "prefix": f"{one['prefix']}{STAGING_FOLDER}/"} for one in credentials]
        access["storage-credentials"] = [*credentials, *staging]
    return access


def handle_sign_request(requested: RestRequest) -> Response:
    """Sign a request to S3 for a file of the table."""
    delegation = requested.served.settings.delegation
    if not isinstance(delegation, S3Delegation) or delegation.mode != "remote-signing":
        return respond_iceberg_error(406, "this server does not sign requests", UNSUPPORTED)
    locator, entry = find_table(requested.open_snapshot(), requested)
    request = SignRequest.parse(requested.document())
    is_writable = requested.is_writable and requested.served.lake.privilege_on(locator) >= Privilege.WRITE
    refusal = delegation.find_refusal(request, _relative_folder_of(entry.id), is_writable=is_writable)
    if refusal is not None:
        return respond_iceberg_error(403, refusal)
    response = respond_json(delegation.sign(request, _now(requested)))
    response.headers["Cache-Control"] = "no-store"
    return response


def _relative_folder_of(folder: str) -> str:
    """Return the folder of a table relative to the lakehouse, given its location or the table's id."""
    return f"data/{posixpath.basename(folder)}/"


def _now(requested: RestRequest) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(requested.served.lake.effects.now_millis() / 1_000, datetime.UTC)


def is_etag_match(header: str, tag: str) -> bool:
    """Return whether an If-None-Match header contains the tag.

    >>> is_etag_match('W/"1-a", "2-b"', '"2-b"'), is_etag_match('"1-a"', '"2-b"'), is_etag_match("*", '"2-b"')
    (True, False, True)
    """
    given = [one.strip().removeprefix("W/") for one in header.split(",")]
    return "*" in given or tag in given


def _etag_of(published: PublishedTable, *, has_all: bool = True) -> str:
    """Return the ETag of a table: the name of its metadata file, which is never used for other content."""
    name = published.file_name.removesuffix(METADATA_SUFFIX)
    return f'"{name}"' if has_all else f'"{name}-refs"'


Model = TypeVar("Model", bound=BaseModel)
_UNKNOWN: Final = "CommitStateUnknownException"
"""Error type at which a client keeps the files that it wrote, because the commit may have succeeded."""


def handle_create_table(requested: RestRequest) -> Response:
    """Create a table, or return the staged metadata of a table that a later commit creates.

    The catalog decides where tables are stored and overrides a requested location, as the protocol allows.
    """
    document = requested.document()
    locator = TableLocator(parse_namespace_path(requested).name, require_text(document, "name"))
    check_addressable(locator)
    new_table = NewTableRequest(
        _parse_model(IcebergSchema, document, "schema"),
        _parse_model(PartitionSpec, document, "partition-spec", UNPARTITIONED_PARTITION_SPEC),
        _parse_model(SortOrder, document, "write-order", UNSORTED_SORT_ORDER),
        parse_properties(document, "properties"),
    )
    lake = requested.served.lake
    if document.get("stage-create") is True:
        metadata = build_staged_metadata(lake, locator, new_table)
        access = _build_table_access(requested, locator, folder_of(metadata.location))
        return respond_json({"metadata": json.loads(metadata.model_dump_json()), "config": {}, **access})
    try:
        return respond_load_table(requested, locator, create_published_table(lake, locator, new_table))
    except StorageError as error:
        return respond_iceberg_error(500, str(error), _UNKNOWN)


def handle_commit_table(requested: RestRequest) -> Response:
    """Commit the requested changes of one table."""
    document = requested.document()
    locator = TableLocator(parse_namespace_path(requested).name, requested.path_parameters["table"])
    if document.get("identifier") is not None and parse_table_identifier(document["identifier"]) != locator:
        raise InvalidInputError(f"the path names {locator}, but the identifier in the request names another table")
    try:
        published = commit_tables(requested.served.lake, [_parse_commit(locator, document)])[locator]
    except StorageError as error:
        return respond_iceberg_error(500, str(error), _UNKNOWN)
    return respond_load_table(requested, locator, published)


def handle_commit_transaction(requested: RestRequest) -> Response:
    """Commit the requested changes of several tables atomically."""
    changes = requested.document().get("table-changes")
    if not isinstance(changes, list) or not all(isinstance(one, dict) for one in changes):
        raise InvalidInputError("the request has no 'table-changes'; send a list with an object for each table")
    commits = [_parse_commit(parse_table_identifier(one.get("identifier")), one) for one in changes]
    try:
        commit_tables(requested.served.lake, commits)
    except StorageError as error:
        return respond_iceberg_error(500, str(error), _UNKNOWN)
    return respond_no_content()


def handle_drop_table(requested: RestRequest) -> Response:
    """Drop a table. Its files stay until the versions that need them expire, even if a purge is requested."""
    locator, _ = find_table(requested.open_snapshot(), requested)
    requested.served.lake.drop_table(locator)
    return respond_no_content()


def handle_rename_table(requested: RestRequest) -> Response:
    """Rename a table, within its namespace or into another one."""
    document = requested.document()
    source, destination = (
        parse_table_identifier(document.get("source")),
        parse_table_identifier(document.get("destination")),
    )
    check_addressable(destination)
    with explain_rename(source, destination):
        requested.served.lake.rename_table(source, destination)
    return respond_no_content()


def handle_register_table(requested: RestRequest) -> Response:
    """Create a dropped table again from a metadata file that this catalog published."""
    document = requested.document()
    locator = TableLocator(parse_namespace_path(requested).name, require_text(document, "name"))
    check_addressable(locator)
    if document.get("overwrite") is True:
        return respond_iceberg_error(406, f"table {locator} cannot be overwritten; drop it first", UNSUPPORTED)
    try:
        published = register_table(requested.served.lake, locator, require_text(document, "metadata-location"))
    except StorageError as error:
        return respond_iceberg_error(500, str(error), _UNKNOWN)
    return respond_load_table(requested, locator, published)


def _parse_commit(locator: TableLocator, document: Mapping[str, Any]) -> TableCommit:
    request = parse_commit_request(document)
    if request.creates:
        check_addressable(locator)
    return TableCommit(locator, request)


def _parse_model(kind: type[Model], document: Mapping[str, Any], name: str, default: Model | None = None) -> Model:
    value = document.get(name)
    if value is None and default is not None:
        return default
    try:
        return kind.model_validate(value)
    except INVALID_REQUEST_ERRORS as error:
        raise InvalidInputError(f"invalid {name!r} of the new table: {describe_invalid_request(error)}") from error

"""REST handlers that load, create, commit, rename and drop tables."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from starlette.responses import Response

from mangrove.errors import InvalidInputError, StorageError
from mangrove.iceberg.commit.commit_request import INVALID_REQUEST_ERRORS, parse_commit_request
from mangrove.iceberg.commit.new_table import NewTableRequest
from mangrove.iceberg.commit.transaction import (
    TableCommit,
    build_staged_metadata,
    commit_tables,
    create_published_table,
)
from mangrove.iceberg.publish.metadata_writer import PublishedTable, publish_table
from mangrove.lakehouse.snapshot import LakeSnapshot
from mangrove.lakehouse.table_staging import load_table_state
from mangrove.model.locators import TableLocator
from mangrove.rest.errors import UNSUPPORTED, respond_iceberg_error
from mangrove.rest.namespaces import respond_json, respond_no_content
from mangrove.rest.request import (
    RestRequest,
    ServedLakehouse,
    check_addressable,
    find_table,
    parse_namespace_path,
    parse_properties,
    parse_table_identifier,
    require_text,
)
from mangrove.tables.iceberg_names import METADATA_SUFFIX

__all__ = [
    "handle_commit_table",
    "handle_commit_transaction",
    "handle_create_table",
    "handle_drop_table",
    "handle_load_table",
    "handle_register_table",
    "handle_rename_table",
    "is_etag_match",
    "publish_table_at",
    "respond_load_table",
]

_SNAPSHOTS: Final = ("all", "refs")


def handle_load_table(requested: RestRequest) -> Response:
    """Return a table, or that the client knows it as it is.

    There is one snapshot, which a branch refers to, so all of them and those that are referred to are the same.
    """
    snapshots = requested.query.get("snapshots", _SNAPSHOTS[0])
    if snapshots not in _SNAPSHOTS:
        raise InvalidInputError(f"snapshots is {snapshots[:40]!r}: give 'all' or 'refs'")
    seen = requested.seen()
    locator, _ = find_table(seen, requested)
    try:
        shown = publish_table_at(requested.served, seen, locator)
    except InvalidInputError as error:
        # Nothing is wrong with the request, so clients should not say that it is malformed.
        return respond_iceberg_error(406, str(error), UNSUPPORTED)
    if is_etag_match(requested.headers.get("if-none-match", ""), _tag(shown)):
        return Response(status_code=304, headers={"ETag": _tag(shown)})
    return respond_load_table(shown)


def publish_table_at(served: ServedLakehouse, seen: LakeSnapshot, locator: TableLocator) -> PublishedTable:
    """Show a table to Iceberg's engines as one version has it."""
    state = load_table_state(seen.reading(), locator)
    return publish_table(served.lake.effects.store, state, seen.snapshot.commit.created_at_millis)


def respond_load_table(shown: PublishedTable) -> Response:
    """Return a table as those are told it who load it, or have made or changed it.

    How the bucket is reached was told with the catalog's configuration. Told again here it
    would be taken for credentials: DuckDB then leaves aside the key that it was given.
    """
    found = respond_json(
        {
            "metadata-location": shown.metadata_address,
            "metadata": json.loads(shown.metadata.model_dump_json()),
            "config": {},
        }
    )
    found.headers["ETag"] = _tag(shown)
    return found


def is_etag_match(header: str, tag: str) -> bool:
    """Return whether a client says that it has what the tag stands for.

    >>> is_etag_match('W/"1-a", "2-b"', '"2-b"'), is_etag_match('"1-a"', '"2-b"'), is_etag_match("*", '"2-b"')
    (True, False, True)
    """
    given = [one.strip().removeprefix("W/") for one in header.split(",")]
    return "*" in given or tag in given


def _tag(shown: PublishedTable) -> str:
    """Return what changes with the metadata, whose file is named by a digest of all that it tells."""
    return f'"{shown.metadata_address.rpartition("/")[2].removesuffix(METADATA_SUFFIX)}"'


Model = TypeVar("Model", bound=BaseModel)
_UNKNOWN: Final = "CommitStateUnknownException"
"""The word at which a client keeps the files that it wrote, since they may be part of a table."""


def handle_create_table(requested: RestRequest) -> Response:
    """Make a table, or tell what one would be that a later commit makes."""
    document = requested.document()
    locator = TableLocator(parse_namespace_path(requested).name, require_text(document, "name"))
    check_addressable(locator)
    if document.get("location"):
        raise InvalidInputError(
            f"{locator} is to lie at {str(document['location'])[:200]!r}, and tables lie inside the lakehouse: leave "
            "the location out"
        )
    wanted = NewTableRequest(
        _read(IcebergSchema, document, "schema"),
        _read(PartitionSpec, document, "partition-spec", UNPARTITIONED_PARTITION_SPEC),
        _read(SortOrder, document, "write-order", UNSORTED_SORT_ORDER),
        parse_properties(document, "properties"),
    )
    lake = requested.served.lake
    if document.get("stage-create") is True:
        metadata = build_staged_metadata(lake, locator, wanted)
        return respond_json({"metadata": json.loads(metadata.model_dump_json()), "config": {}})
    try:
        return respond_load_table(create_published_table(lake, locator, wanted))
    except StorageError as error:
        return respond_iceberg_error(500, str(error), _UNKNOWN)


def handle_commit_table(requested: RestRequest) -> Response:
    """Commit what a client asks of one table."""
    document = requested.document()
    locator = TableLocator(parse_namespace_path(requested).name, requested.steps["table"])
    if document.get("identifier") is not None and parse_table_identifier(document["identifier"]) != locator:
        raise InvalidInputError(f"the request is sent to {locator} and names another table: send it to that one")
    try:
        shown = commit_tables(requested.served.lake, [_commit(locator, document)])[locator]
    except StorageError as error:
        return respond_iceberg_error(500, str(error), _UNKNOWN)
    return respond_load_table(shown)


def handle_commit_transaction(requested: RestRequest) -> Response:
    """Commit what a client asks of several tables, all of it or nothing."""
    changes = requested.document().get("table-changes")
    if not isinstance(changes, list) or not all(isinstance(one, dict) for one in changes):
        raise InvalidInputError("the request has no 'table-changes': give a list with an object for each table")
    commits = [_commit(parse_table_identifier(one.get("identifier")), one) for one in changes]
    try:
        commit_tables(requested.served.lake, commits)
    except StorageError as error:
        return respond_iceberg_error(500, str(error), _UNKNOWN)
    return respond_no_content()


def handle_drop_table(requested: RestRequest) -> Response:
    """Drop a table; its files stay, also where a client wants them purged, until the versions expire that need them."""
    locator, _ = find_table(requested.seen(), requested)
    requested.served.lake.drop_table(locator)
    return respond_no_content()


def handle_rename_table(requested: RestRequest) -> Response:
    """Give a table another name, in its namespace or in another."""
    document = requested.document()
    source, destination = (
        parse_table_identifier(document.get("source")),
        parse_table_identifier(document.get("destination")),
    )
    check_addressable(destination)
    requested.served.lake.rename_table(source, destination)
    return respond_no_content()


def handle_register_table(_: RestRequest) -> Response:
    """Refuse: metadata that others wrote is no truth here."""
    return respond_iceberg_error(
        406,
        "A table is not registered by its metadata here: bring its rows in with `mangrove ingest`, as the page on "
        "moving in tells.",
        UNSUPPORTED,
    )


def _commit(locator: TableLocator, document: Mapping[str, Any]) -> TableCommit:
    request = parse_commit_request(document)
    if request.creates:
        check_addressable(locator)
    return TableCommit(locator, request)


def _read(kind: type[Model], document: Mapping[str, Any], name: str, default: Model | None = None) -> Model:
    found = document.get(name)
    if found is None and default is not None:
        return default
    try:
        return kind.model_validate(found)
    except INVALID_REQUEST_ERRORS as error:
        told = " ".join(line.strip() for line in str(error).splitlines()[1:3]) or str(error)
        raise InvalidInputError(f"the {name!r} of the new table cannot be read: {told}") from error

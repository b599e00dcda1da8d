"""Tables that clients make, change, rename and drop."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from starlette.responses import Response

from mangrove.errors import InvalidInputError, StorageError
from mangrove.iceberg.committing import TableCommit, commit_tables, create_shown, staged_metadata
from mangrove.iceberg.new_tables import AskedTable
from mangrove.iceberg.wanted import MISFITS, parsed_request
from mangrove.model.locators import TableLocator
from mangrove.rest.asked import Asked
from mangrove.rest.catalog_answers import answered, nothing
from mangrove.rest.found import table_asked
from mangrove.rest.named import asked_namespace, check_reachable, named_table, text_in, texts_in
from mangrove.rest.refusals import UNSUPPORTED, refused
from mangrove.rest.table_answers import loaded

__all__ = [
    "table_committed",
    "table_created",
    "table_dropped",
    "table_registered",
    "table_renamed",
    "transaction_committed",
]

Model = TypeVar("Model", bound=BaseModel)
_UNKNOWN: Final = "CommitStateUnknownException"
"""The word at which a client keeps the files that it wrote, since they may be part of a table."""


def table_created(asked: Asked) -> Response:
    """Make a table, or tell what one would be that a later commit makes."""
    document = asked.document()
    locator = TableLocator(asked_namespace(asked).name, text_in(document, "name"))
    check_reachable(locator)
    if document.get("location"):
        raise InvalidInputError(
            f"{locator} is to lie at {str(document['location'])[:200]!r}, and tables lie inside the lakehouse: leave "
            "the location out"
        )
    wanted = AskedTable(
        _read(IcebergSchema, document, "schema"),
        _read(PartitionSpec, document, "partition-spec", UNPARTITIONED_PARTITION_SPEC),
        _read(SortOrder, document, "write-order", UNSORTED_SORT_ORDER),
        texts_in(document, "properties"),
    )
    lake = asked.served.lake
    if document.get("stage-create") is True:
        metadata = staged_metadata(lake, locator, wanted)
        return answered({"metadata": json.loads(metadata.model_dump_json()), "config": {}})
    try:
        return loaded(create_shown(lake, locator, wanted))
    except StorageError as error:
        return refused(500, str(error), _UNKNOWN)


def table_committed(asked: Asked) -> Response:
    """Commit what a client asks of one table."""
    document = asked.document()
    locator = TableLocator(asked_namespace(asked).name, asked.steps["table"])
    if document.get("identifier") is not None and named_table(document["identifier"]) != locator:
        raise InvalidInputError(f"the request is sent to {locator} and names another table: send it to that one")
    try:
        shown = commit_tables(asked.served.lake, [_commit(locator, document)])[locator]
    except StorageError as error:
        return refused(500, str(error), _UNKNOWN)
    return loaded(shown)


def transaction_committed(asked: Asked) -> Response:
    """Commit what a client asks of several tables, all of it or nothing."""
    changes = asked.document().get("table-changes")
    if not isinstance(changes, list) or not all(isinstance(one, dict) for one in changes):
        raise InvalidInputError("the request has no 'table-changes': give a list with an object for each table")
    commits = [_commit(named_table(one.get("identifier")), one) for one in changes]
    try:
        commit_tables(asked.served.lake, commits)
    except StorageError as error:
        return refused(500, str(error), _UNKNOWN)
    return nothing()


def table_dropped(asked: Asked) -> Response:
    """Drop a table; its files stay, also where a client wants them purged, until the versions expire that need them."""
    locator, _ = table_asked(asked.seen(), asked)
    asked.served.lake.drop_table(locator)
    return nothing()


def table_renamed(asked: Asked) -> Response:
    """Give a table another name, in its namespace or in another."""
    document = asked.document()
    source, destination = named_table(document.get("source")), named_table(document.get("destination"))
    check_reachable(destination)
    asked.served.lake.rename_table(source, destination)
    return nothing()


def table_registered(_: Asked) -> Response:
    """Refuse: metadata that others wrote is no truth here."""
    return refused(
        406,
        "A table is not registered by its metadata here: bring its rows in with `mangrove ingest`, as the page on "
        "moving in tells.",
        UNSUPPORTED,
    )


def _commit(locator: TableLocator, document: Mapping[str, Any]) -> TableCommit:
    request = parsed_request(document)
    if request.creates:
        check_reachable(locator)
    return TableCommit(locator, request)


def _read(kind: type[Model], document: Mapping[str, Any], name: str, default: Model | None = None) -> Model:
    found = document.get(name)
    if found is None and default is not None:
        return default
    try:
        return kind.model_validate(found)
    except MISFITS as error:
        told = " ".join(line.strip() for line in str(error).splitlines()[1:3]) or str(error)
        raise InvalidInputError(f"the {name!r} of the new table cannot be read: {told}") from error

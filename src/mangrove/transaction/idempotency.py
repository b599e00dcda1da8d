"""Idempotency records of streaming batches.

A stream that crashed gives its last batch once more. Whether that batch was
committed is asked of the lakehouse itself: each query has one record, found by its
name, that says which batch came last. It is an object of its own, so two queries
that write the same table never meet, and nothing that happens to a table (a
compaction, an expiry, a rename) touches it.

The object is a shared transaction that was published: of the objects that a
lakehouse has, the one that belongs to no table and carries what its owner likes.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mangrove.errors import FormatError, InvalidInputError
from mangrove.model.locators import LARGEST_INTEGER, Kind, SharedTransactionLocator
from mangrove.model.names import check_text
from mangrove.model.objects import SharedTransaction, SharedTransactionState
from mangrove.transaction.catalog import CatalogReader
from mangrove.transaction.workspace import Workspace

__all__ = ["QueryBatch", "find_last_batch", "forget_query", "list_query_batches", "stage_batch"]

_PREFIX: Final = "batch:"
_NAMESPACE: Final = uuid.UUID("6d0b3a5e-6b0c-4b52-9a1f-6f6d616e6772")


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """The last batch of a query that is in the lakehouse."""

    query: str
    batch_id: int
    noted_at_millis: int

    def __post_init__(self) -> None:
        check_text(self.query, "the name of a query")
        if not self.query.strip():
            raise InvalidInputError("the query has no name: give one that stays the same when it is started again")
        if type(self.batch_id) is not int or not 0 <= self.batch_id <= LARGEST_INTEGER:
            raise InvalidInputError(f"batch {self.batch_id!r} of {self.query!r} has no number from 0: pass Spark's own")


def find_last_batch(reading: CatalogReader, query: str) -> QueryBatch | None:
    """Return the last batch of a query that was committed, or None if none was; one look-up."""
    value = reading.get(_locator(query))
    return _decode_batch(value) if isinstance(value, SharedTransaction) else None


def stage_batch(workspace: Workspace, batch: QueryBatch) -> None:
    """Write that the batch is part of this transaction; whoever else commits a batch of the query contests it."""
    locator = _locator(batch.query)
    payload = json.dumps({"query": batch.query, "batch": batch.batch_id}, sort_keys=True).encode()
    at_millis = batch.noted_at_millis
    published = SharedTransactionState.PUBLISHED
    workspace.put(locator, SharedTransaction(locator.name, 0, at_millis, at_millis, published, payload))


def list_query_batches(reading: CatalogReader) -> Iterator[QueryBatch]:
    """Yield the last batch of every query."""
    for _, value in reading.children(Kind.SHARED_TRANSACTION, None, prefix=_PREFIX):
        if isinstance(value, SharedTransaction) and value.state is SharedTransactionState.PUBLISHED:
            yield _decode_batch(value)


def forget_query(workspace: Workspace, query: str) -> bool:
    """Delete the record of a query that will never run again; return whether there was one."""
    there = find_last_batch(workspace, query) is not None
    if there:
        workspace.delete(_locator(query))
    return there


def _locator(query: str) -> SharedTransactionLocator:
    # Names of queries are of any length and hold anything, names of objects do not.
    return SharedTransactionLocator(f"{_PREFIX}{uuid.uuid5(_NAMESPACE, query)}")


def _decode_batch(value: SharedTransaction) -> QueryBatch:
    try:
        fields = json.loads(value.payload)
        return QueryBatch(fields["query"], fields["batch"], value.began_at_millis)
    except (ValueError, KeyError, TypeError, InvalidInputError) as error:
        raise FormatError(f"the record {value.name} of a query's last batch cannot be read: {error}") from error

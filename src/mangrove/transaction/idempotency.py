"""Idempotency records of streaming batches.

After a crash a stream repeats its last batch. The lakehouse records the last
committed batch of each query in an object of its own, found by the query name.
Queries that write the same table therefore never conflict on it, and table
operations such as compaction, expiry or rename do not affect it.

The object is a published shared transaction: the only kind of object that belongs to
no table and has a free payload.
"""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mangrove.errors import FormatError, InvalidInputError
from mangrove.model.locators import LARGEST_INTEGER, Kind, SharedTransactionLocator
from mangrove.model.names import check_text
from mangrove.model.objects import SharedTransactionEntry, SharedTransactionState
from mangrove.transaction.catalog import CatalogReader
from mangrove.transaction.workspace import Workspace

__all__ = ["QueryBatch", "find_last_batch", "forget_query", "list_query_batches", "stage_batch"]

_PREFIX: Final = "batch:"
_NAMESPACE: Final = uuid.UUID("6d0b3a5e-6b0c-4b52-9a1f-6f6d616e6772")


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """The last committed batch of a query."""

    query: str
    batch_id: int
    noted_at_millis: int

    def __post_init__(self) -> None:
        check_text(self.query, "the name of a query")
        if not self.query.strip():
            raise InvalidInputError("the query has no name; use a name that stays the same across restarts")
        if type(self.batch_id) is not int or not 0 <= self.batch_id <= LARGEST_INTEGER:
            raise InvalidInputError(
                f"invalid batch id {self.batch_id!r} of {self.query!r}; expected Spark's batch id, an integer from 0"
            )


def find_last_batch(reading: CatalogReader, query: str) -> QueryBatch | None:
    """Return the last committed batch of a query, or None; one lookup."""
    value = reading.get(_locator(query))
    return _decode_batch(value) if isinstance(value, SharedTransactionEntry) else None


def stage_batch(workspace: Workspace, batch: QueryBatch, transaction_id: str) -> None:
    """Record the batch in this transaction; a concurrent batch of the same query conflicts.

    The transaction id makes two runs of a batch in the same millisecond differ: equal
    writes do not conflict.
    """
    locator = _locator(batch.query)
    fields = {"query": batch.query, "batch": batch.batch_id, "transaction": transaction_id}
    payload = json.dumps(fields, sort_keys=True).encode()
    at_millis = batch.noted_at_millis
    published = SharedTransactionState.PUBLISHED
    workspace.put(locator, SharedTransactionEntry(locator.name, 0, at_millis, at_millis, published, payload))


def list_query_batches(reading: CatalogReader) -> Iterator[QueryBatch]:
    """Yield the last batch of every query."""
    for _, value in reading.children(Kind.SHARED_TRANSACTION, None, prefix=_PREFIX):
        if isinstance(value, SharedTransactionEntry) and value.state is SharedTransactionState.PUBLISHED:
            yield _decode_batch(value)


def forget_query(workspace: Workspace, query: str) -> bool:
    """Delete the record of a query that will never run again; return whether there was one."""
    there = find_last_batch(workspace, query) is not None
    if there:
        workspace.delete(_locator(query))
    return there


def _locator(query: str) -> SharedTransactionLocator:
    # Query names are unrestricted, object names are not.
    return SharedTransactionLocator(f"{_PREFIX}{uuid.uuid5(_NAMESPACE, query)}")


def _decode_batch(value: SharedTransactionEntry) -> QueryBatch:
    try:
        fields = json.loads(value.payload)
        return QueryBatch(fields["query"], fields["batch"], value.began_at_millis)
    except (ValueError, KeyError, TypeError, InvalidInputError) as error:
        raise FormatError(f"the record {value.name} of the last batch of a query cannot be read: {error}") from error

"""Transactions that are committed once, however often they are begun: for batches of a stream that may come again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mangrove.lakehouse.transactions import LakeTransaction
from mangrove.metastore import Isolation
from mangrove.transaction.batches import QueryBatch, last_batch, note_batch
from mangrove.transaction.transaction import State

if TYPE_CHECKING:
    # A lakehouse offers these as methods of its own.
    from mangrove.lakehouse.lakehouse import Lakehouse

__all__ = ["run_once", "transaction_once"]


@contextmanager
def transaction_once(
    lake: "Lakehouse", query: str, batch_id: int, isolation: Isolation | str
) -> Iterator[LakeTransaction | None]:
    """Give a transaction for a batch of a query, or None where that batch or a later one is committed already."""
    batch = QueryBatch(query, batch_id, lake.effects.now_millis())
    transaction = lake.transaction(isolation, message=_message(batch))
    if _is_done(transaction, batch):
        transaction.rollback()
        yield None
        return
    with transaction:
        yield transaction
        if transaction.state is State.OPEN:
            note_batch(transaction.reading(), batch)


def run_once(
    lake: "Lakehouse",
    query: str,
    batch_id: int,
    work: Callable[[LakeTransaction], object],
    isolation: Isolation | str,
) -> bool:
    """Commit what `work` does for a batch, and begin again where a rival was faster; return whether it was needed."""
    batch = QueryBatch(query, batch_id, lake.effects.now_millis())

    def noted(transaction: LakeTransaction) -> bool:
        if _is_done(transaction, batch):
            return False
        work(transaction)
        note_batch(transaction.reading(), batch)
        return True

    return lake.run(noted, isolation, message=_message(batch))


def _is_done(transaction: LakeTransaction, batch: QueryBatch) -> bool:
    done = last_batch(transaction.reading(), batch.query)
    return done is not None and done.batch_id >= batch.batch_id


def _message(batch: QueryBatch) -> str:
    return f"batch {batch.batch_id} of {batch.query}"

"""Undo: taking back one version, where nothing that came later touched the same."""

from collections.abc import Iterable, Iterator, Sequence

from mangrove.errors import ConflictError
from mangrove.metastore import Difference
from mangrove.model.locators import DeltaLocator, Kind, Locator, PartitionLocator, StreamLocator
from mangrove.model.objects import SharedTransaction, SharedTransactionState

__all__ = ["check_undoable", "taken_back"]


def taken_back(differences: Iterable[Difference]) -> list[Difference]:
    """Return what an undo takes back of what a version changed.

    A partition that the version made stays unless its stream goes too: others may
    have added to it since, and an empty one is nothing. Which batch of a stream came
    last stays too: rows that were taken back must not come again with the stream.
    """
    found = [one for one in differences if not _is_batch_record(one)]
    made = {one.locator for one in found if one.before is None}
    return [
        one
        for one in found
        if not isinstance(one.locator, PartitionLocator) or one.before is not None or one.locator.parent in made
    ]


def check_undoable(undone: Sequence[Difference], later: Iterable[Difference], version: int) -> None:
    """Refuse where a later version changed what this one did, or stands on it.

    A shared transaction that was saved in between is nobody's business but its own.
    """
    changed = {difference.locator for difference in undone}
    made = {difference.locator for difference in undone if difference.before is None}
    partitions = {locator.parent for locator in changed if isinstance(locator, DeltaLocator)}
    for difference in later:
        locator = difference.locator
        if locator.kind is Kind.SHARED_TRANSACTION:
            continue
        # Whoever rewrites what stands in a partition writes the partition, and may have swallowed the deltas.
        is_rewritten = locator in partitions and difference.before is not None
        if locator in changed or is_rewritten or any(above in made for above in _ancestors(locator)):
            raise ConflictError(
                f"version {version} cannot be undone by itself: a later one touched {locator.kind.word} {locator}. "
                "Undo the later ones first, or roll the whole lakehouse back"
            )


def _is_batch_record(difference: Difference) -> bool:
    value = difference.after or difference.before
    return isinstance(value, SharedTransaction) and value.state is SharedTransactionState.PUBLISHED


def _ancestors(locator: Locator) -> Iterator[Locator]:
    above = locator.parent
    while isinstance(above, Locator):
        yield above
        above = above.parent if isinstance(above, PartitionLocator | StreamLocator) else None

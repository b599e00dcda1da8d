"""What becomes of the work of participants of a shared transaction who save at the same time.

Whoever saves later follows those who saved before, by the rules of a commit that
follows its rivals: new deltas stand behind theirs, and whatever else one of them
wrote, or relied on while another wrote it, is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from mangrove.errors import ConflictError
from mangrove.metastore import Changes
from mangrove.model.locators import DeltaLocator, Locator, PartitionLocator, TableLocator, ViewLocator
from mangrove.model.objects import Delta, Object
from mangrove.transaction.contest import contested
from mangrove.transaction.deltas import REWRITING
from mangrove.transaction.shared_form import SharedWork

__all__ = ["merged_work"]

_Written: TypeAlias = Mapping[Locator, Object | None]
"""What a participant put since the work was last known, and None for what it withdrew or deleted."""


def merged_work(known: SharedWork, saved: SharedWork, mine: SharedWork) -> SharedWork:
    """Return what is saved with my work on top of it; both began from `known`.

    What `mine` says about reads and guards is what was added to those of `known`.
    """
    ours, theirs = _written(known, mine), _written(known, saved)
    clash = sorted(_clashing(mine, ours, theirs))
    if clash or (known.origins != saved.origins and known.origins != mine.origins):
        what = f"{clash[0].kind.word} {clash[0]}" if clash else "the names of namespaces"
        raise ConflictError(
            f"{what}: another participant of the shared transaction changed it since it was joined. "
            "Nothing was saved; join again and repeat what was done"
        )
    puts = dict(saved.puts)
    for locator, value in _behind(saved.puts, ours):
        if value is None:
            puts.pop(locator, None)
        else:
            puts[locator] = value
    return replace(
        saved,
        puts=puts,
        deletes=saved.deletes | mine.deletes,
        reads=saved.reads | mine.reads,
        scans=saved.scans | mine.scans,
        guards=saved.guards | mine.guards,
        origins=mine.origins if known.origins == saved.origins else saved.origins,
    )


def _written(before: SharedWork, after: SharedWork) -> _Written:
    put: dict[Locator, Object | None] = {
        locator: value for locator, value in after.puts.items() if before.puts.get(locator) != value
    }
    gone = (before.puts.keys() - after.puts.keys()) | (after.deletes - before.deletes - after.puts.keys())
    return put | dict.fromkeys(gone)


def _clashing(mine: SharedWork, ours: _Written, theirs: _Written) -> set[Locator]:
    """Return what stops our work from following theirs."""
    unlike = {one: value for one, value in ours.items() if one not in theirs or theirs[one] != value}
    changes = Changes(
        mine.transaction_id,
        {locator: value for locator, value in unlike.items() if value is not None},
        frozenset(locator for locator, value in unlike.items() if value is None),
        reads=mine.reads,
        scans=mine.scans,
        guards=mine.guards,
    )
    # A partition bears the same mark of the one transaction, whichever participant rewrites it.
    rewritten_twice = _rewritten(ours) & _rewritten(theirs)
    return {*contested(changes, mine.isolation, theirs), *rewritten_twice, *_homeless(ours, theirs)}


def _rewritten(written: _Written) -> set[PartitionLocator]:
    return {
        locator.parent
        for locator, value in written.items()
        if isinstance(locator, DeltaLocator) and isinstance(value, Delta) and value.type in REWRITING
    }


def _homeless(ours: _Written, theirs: _Written) -> set[Locator]:
    """Return what one puts into a namespace that the other drops; guards know only those that the base has."""
    return {
        locator
        for putting, dropping in ((ours, theirs), (theirs, ours))
        for locator, value in putting.items()
        if isinstance(locator, TableLocator | ViewLocator)
        and value is not None
        and locator.parent in dropping
        and dropping[locator.parent] is None
    }


def _behind(saved: Mapping[Locator, Object], ours: _Written) -> Iterator[tuple[Locator, Object | None]]:
    """Yield what was written here in order, new deltas at positions behind those that are saved in their partition."""
    last: dict[PartitionLocator, int] = {}
    for locator in saved:
        if isinstance(locator, DeltaLocator):
            last[locator.parent] = max(last.get(locator.parent, 0), locator.position)
    for locator, value in sorted(ours.items(), key=lambda item: item[0]):
        if value is None or not isinstance(locator, DeltaLocator):
            yield locator, value
            continue
        position = max(locator.position, last.get(locator.parent, 0) + 1)
        last[locator.parent] = position
        yield replace(locator, position=position), value

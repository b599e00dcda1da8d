"""A shared transaction with its staged changes and the conflict that its publication would raise."""

from dataclasses import dataclass
from typing import Final

from mangrove.inspect.page import PageRequest, PageVersion, PinnedLakehouse
from mangrove.model.objects import SharedTransactionEntry
from mangrove.transaction.shared_transactions import load_shared_transaction, load_shared_work

__all__ = ["SharedTransactionPage", "StagedChange", "load_shared_transaction_info"]

_CHANGES_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class StagedChange:
    """A staged change of a namespace, table or view."""

    change: str
    kind: str
    name: str
    rows_added: int
    rows_removed: int


@dataclass(frozen=True, slots=True)
class SharedTransactionPage:
    """A shared transaction as it was saved last."""

    seen: PageVersion
    name: str
    base_version: int
    began_at_millis: int
    expires_at_millis: int
    isolation: str
    message: str
    author: str
    properties: tuple[tuple[str, str], ...]
    changes: tuple[StagedChange, ...]
    changes_left_out: int
    conflict: str | None
    """Why a publication on the newest version would be refused; None if it would succeed."""


def load_shared_transaction_info(pinned: PinnedLakehouse, requested: PageRequest) -> SharedTransactionPage:
    """Return a shared transaction of the newest version, with a preview of its merge."""
    value: SharedTransactionEntry = load_shared_transaction(
        pinned.newest, requested.step("name"), pinned.lake.effects.now_millis()
    )
    work = load_shared_work(value)
    joined = pinned.lake.join_shared(value.name)
    changes = [
        StagedChange(one.change.value, one.kind.word, one.name, one.rows.rows_added, one.rows.rows_removed)
        for one in joined.diff().changes
    ]
    conflict = joined.find_conflict()
    return SharedTransactionPage(
        pinned.seen,
        value.name,
        value.base_version,
        value.began_at_millis,
        value.expires_at_millis,
        work.isolation.value,
        work.message,
        work.author,
        tuple(work.properties.items()),
        tuple(changes[:_CHANGES_MAX]),
        max(0, len(changes) - _CHANGES_MAX),
        None if conflict is None else str(conflict),
    )

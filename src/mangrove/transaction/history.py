"""History entries of versions and their transactions.

A version usually contains one transaction. A group commit contains several, which
the commit lists in a property.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from mangrove.metastore import Commit
from mangrove.model.properties import Properties
from mangrove.model.transaction_record import TransactionRecord

__all__ = ["ROLLED_BACK_TO", "HistoryEntry", "history_entry_of"]

ROLLED_BACK_TO: Final = "mangrove.rolled-back-to"
"""The property of a rollback commit with the target version."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One version with its commit time and transactions."""

    version: int
    created_at_millis: int
    transactions: tuple[TransactionRecord, ...]
    rolled_back_from: int | None = None

    @property
    def created_at(self) -> datetime:
        """When it was committed."""
        return _EPOCH + timedelta(milliseconds=self.created_at_millis)

    @property
    def message(self) -> str:
        """The messages of its transactions, in order."""
        return "; ".join(record.message for record in self.transactions if record.message)

    @property
    def author(self) -> str:
        """The authors of its transactions."""
        return ", ".join(dict.fromkeys(record.author for record in self.transactions if record.author))

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of its transactions; the last value of a property wins."""
        return Properties({key: value for record in self.transactions for key, value in record.properties.items()})

    @property
    def rolled_back_to(self) -> int | None:
        """The target version of a rollback; None if it is not a rollback or not recorded."""
        text = self.properties.get(ROLLED_BACK_TO, "")
        is_earlier = text.isascii() and text.isdecimal() and int(text) < self.version
        return int(text) if is_earlier else None


def history_entry_of(commit: Commit) -> HistoryEntry:
    """Return the history entry of a version."""
    return HistoryEntry(commit.version, commit.created_at_millis, commit.transactions, commit.rolled_back_from)

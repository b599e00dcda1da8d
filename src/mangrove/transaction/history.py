"""History entries of versions and their transactions.

A version usually holds one transaction. Where several threads committed at once
it holds all of theirs, and its commit lists them in a property.
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
"""The property of a rollback's commit that says to which version it went."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One version: when it came to be, and by which transactions."""

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
        """What its transactions said, in their order."""
        return "; ".join(record.message for record in self.transactions if record.message)

    @property
    def author(self) -> str:
        """Who made it; several names where several did."""
        return ", ".join(dict.fromkeys(record.author for record in self.transactions if record.author))

    @property
    def properties(self) -> Mapping[str, str]:
        """What its transactions were given; a later one's value counts."""
        return Properties({key: value for record in self.transactions for key, value in record.properties.items()})

    @property
    def rolled_back_to(self) -> int | None:
        """The version whose content a rollback brought back; None where it is none or does not say."""
        text = self.properties.get(ROLLED_BACK_TO, "")
        is_earlier = text.isascii() and text.isdecimal() and int(text) < self.version
        return int(text) if is_earlier else None


def history_entry_of(commit: Commit) -> HistoryEntry:
    """Return the line about a version."""
    return HistoryEntry(commit.version, commit.created_at_millis, commit.transactions, commit.rolled_back_from)

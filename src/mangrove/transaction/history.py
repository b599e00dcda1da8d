"""The history of a lakehouse as people read it: versions, and the transactions that each of them holds.

A version usually holds one transaction. Where several threads committed at once
it holds all of theirs, and its commit lists them in a property.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from mangrove.errors import FormatError
from mangrove.metastore import Changes, Commit
from mangrove.model.properties import NO_PROPERTIES, Properties

__all__ = ["HistoryLine", "TransactionRecord", "line_of", "members_property"]

_MEMBERS: Final = "mangrove.members"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """What a transaction said about itself."""

    id: str
    message: str = ""
    author: str = ""
    properties: Mapping[str, str] = NO_PROPERTIES

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", Properties(self.properties))


@dataclass(frozen=True, slots=True)
class HistoryLine:
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


def line_of(commit: Commit) -> HistoryLine:
    """Return the line about a version."""
    members = commit.properties.get(_MEMBERS)
    records: tuple[TransactionRecord, ...]
    if members is None:
        records = (TransactionRecord(commit.transaction_id, commit.message, commit.author, commit.properties),)
    else:
        records = _members(members, commit.version)
    return HistoryLine(commit.version, commit.created_at_millis, records, commit.rolled_back_from)


def members_property(members: Sequence[Changes]) -> dict[str, str]:
    """Return the property by which a commit lists the transactions that it holds."""
    records = [[one.transaction_id, one.message, one.author, dict(one.properties)] for one in members]
    return {_MEMBERS: json.dumps(records, ensure_ascii=False, separators=(",", ":"))}


def _members(text: str, version: int) -> tuple[TransactionRecord, ...]:
    try:
        return tuple(TransactionRecord(*record) for record in json.loads(text))
    except (ValueError, TypeError) as error:
        raise FormatError(f"version {version} does not say which transactions it holds ({error})") from error

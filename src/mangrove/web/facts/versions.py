"""Versions as the explorer tells them: when each came to be, by whom and why."""

from dataclasses import dataclass

from mangrove.metastore import Commit
from mangrove.transaction.history import line_of

__all__ = ["TransactionFacts", "VersionFacts", "version_facts"]


@dataclass(frozen=True, slots=True)
class TransactionFacts:
    """One transaction that a version holds."""

    id: str
    message: str
    author: str
    properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """One version."""

    version: int
    created_at_millis: int
    message: str
    author: str
    rolled_back_from: int | None
    transactions: tuple[TransactionFacts, ...]


def version_facts(commit: Commit) -> VersionFacts:
    """Return what is told about a version."""
    line = line_of(commit)
    records = tuple(
        TransactionFacts(one.id, one.message, one.author, tuple(one.properties.items())) for one in line.transactions
    )
    return VersionFacts(line.version, line.created_at_millis, line.message, line.author, line.rolled_back_from, records)

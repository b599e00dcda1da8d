"""The message, author and write summary of each transaction in a commit."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mangrove.errors import FormatError
from mangrove.model.locators import Locator
from mangrove.model.properties import NO_PROPERTIES, Properties

__all__ = ["TransactionRecord", "WriteSummary", "decode_members", "encode_members", "summarize_writes"]

_MEMBERS: Final = "mangrove.members"
"""The property of a group commit that lists its transactions as JSON."""


@dataclass(frozen=True, slots=True, order=True)
class WriteSummary:
    """A summary of a transaction's writes: a kind, with a name or below the table with an id."""

    kind: str
    parts: tuple[str, ...]

    def is_about(self, text: str) -> bool:
        """Return whether this can be the named object, for example `table sales.orders`."""
        return text.startswith(f"{self.kind} ") and all(part in text for part in self.parts)


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One transaction, with its message, its author and its properties."""

    id: str
    message: str = ""
    author: str = ""
    properties: Mapping[str, str] = NO_PROPERTIES
    wrote: tuple[WriteSummary, ...] = ()
    """Known only in a group commit, so that a conflict can name the right transaction."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", Properties(self.properties))

    def __str__(self) -> str:
        """Return a readable description.

        >>> str(TransactionRecord("7f3e", "load the day", "ana")), str(TransactionRecord("7f3e"))
        ("transaction 7f3e ('load the day' by ana)", 'transaction 7f3e')
        """
        about = [repr(self.message)] if self.message else []
        about += [f"by {self.author}"] if self.author else []
        return f"transaction {self.id} ({' '.join(about)})" if about else f"transaction {self.id}"


def summarize_writes(locators: Iterable[Locator]) -> tuple[WriteSummary, ...]:
    """Return a summary of the writes, each table or name once per kind."""
    return tuple(
        sorted(
            {
                WriteSummary(
                    locator.kind.word,
                    (str(locator.parts[1]),)
                    if locator.kind.is_below_table
                    else tuple(str(part) for part in locator.parts),
                )
                for locator in locators
            }
        )
    )


def encode_members(members: Sequence[TransactionRecord]) -> dict[str, str]:
    """Return the commit property that lists the transactions of a group commit."""
    records = [
        [one.id, one.message, one.author, dict(one.properties), [[item.kind, *item.parts] for item in one.wrote]]
        for one in members
    ]
    return {_MEMBERS: json.dumps(records, ensure_ascii=False, separators=(",", ":"))}


def decode_members(properties: Mapping[str, str], where: str) -> tuple[TransactionRecord, ...]:
    """Return the transactions of a group commit; empty for a single transaction."""
    text = properties.get(_MEMBERS)
    if text is None:
        return ()
    try:
        return tuple(
            TransactionRecord(
                name, message, author, given, tuple(WriteSummary(kind, tuple(parts)) for kind, *parts in written[0])
            )
            for name, message, author, given, *written in json.loads(text)
        )
    except (ValueError, TypeError, IndexError) as error:
        raise FormatError(f"{where} has an invalid list of transactions ({error})") from error

"""Where the transaction log keeps the file of each committed transaction, and what a transaction's id says.

txn/<start>_<uuid>                            the seed's form, milliseconds
txn/success/Y/M/D/h/m/<start>_<uuid>/<end>    what DeltaCAT 2.x writes, nanoseconds
"""

import datetime
import re
from dataclasses import dataclass
from typing import Final

from mangrove.errors import FormatError

__all__ = [
    "FLAT_LOG",
    "MINUTE_LOG",
    "LoggedTransaction",
    "flat_log_path",
    "logged_transaction",
    "minute_log_path",
    "minute_of",
    "start_of",
    "transaction_id",
]

FLAT_LOG: Final = "txn/"
MINUTE_LOG: Final = "txn/success/"
_UUID: Final = r"[^_/]+"
_FLAT: Final = re.compile(rf"txn/(\d{{1,19}})[_-]({_UUID})")
_MINUTE: Final = re.compile(rf"txn/success/\d+/\d+/\d+/\d+/\d+/((\d{{1,19}})_{_UUID})/(\d{{1,19}})")
_ID: Final = re.compile(rf"(\d{{1,19}})_{_UUID}")


@dataclass(frozen=True, slots=True)
class LoggedTransaction:
    """What the path of a log file says: which transaction, and where the path tells it, when it ended."""

    id: str
    start: int
    end: int | None


def transaction_id(start: int, unique: str) -> str:
    """Return the id of a transaction that started then.

    >>> transaction_id(1737070822189, "20444dca-7e3d-4dd2-af70-23b8bc890966")
    '1737070822189_20444dca-7e3d-4dd2-af70-23b8bc890966'
    """
    if not re.fullmatch(_UUID, unique):
        raise FormatError(f"{unique!r} cannot be part of a transaction's id: it is a UUID")
    return f"{start}_{unique}"


def start_of(transaction: str) -> int:
    """Return when the transaction with this id started."""
    match = _ID.fullmatch(transaction)
    if match is None:
        raise FormatError(f"{transaction!r} is no transaction's id: it is a start time, an underscore and a UUID")
    return int(match[1])


def flat_log_path(transaction: str, end: int) -> str:  # noqa: ARG001
    """Return where the seed's form keeps the log of a transaction; when it ended is said inside."""
    return f"{FLAT_LOG}{transaction}"


def minute_log_path(transaction: str, end: int) -> str:
    """Return where DeltaCAT 2.x looks for the log of a transaction.

    The folder is that of the minute in which it started, found by dividing in
    floating point: a start just before a minute belongs to the next one, and
    exact arithmetic would put the file where DeltaCAT does not look.
    """
    return f"{minute_of(start_of(transaction))}/{transaction}/{end}"


def minute_of(start: int) -> str:
    """Return the folder of the log of what started then, which sorts as times do."""
    minute = datetime.datetime.fromtimestamp(start / 1e9, datetime.UTC)
    return f"{MINUTE_LOG}{minute:%Y/%m/%d/%H/%M}"


def logged_transaction(path: str) -> LoggedTransaction | None:
    """Return the transaction whose committed log lies at `path`, in either form, or None if none does."""
    match = _MINUTE.fullmatch(path)
    if match is not None:
        return LoggedTransaction(match[1], int(match[2]), int(match[3]))
    match = _FLAT.fullmatch(path)
    if match is not None:
        # The seed's prose joins start and UUID with `_`, its example with `-`; files are named with `_` always.
        return LoggedTransaction(f"{match[1]}_{match[2]}", int(match[1]), None)
    return None

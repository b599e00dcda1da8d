"""Paths and content of DeltaCAT transaction log files.

txn/<start>_<uuid>                            the seed's form, milliseconds
txn/success/Y/M/D/h/m/<start>_<uuid>/<end>    what DeltaCAT 2.x writes, nanoseconds
"""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mangrove.errors import FormatError
from mangrove.layouts.deltacat.fields import EXTRAS, encode_extras
from mangrove.layouts.deltacat.msgpack_maps import MsgpackMap
from mangrove.metastore import Changes

__all__ = [
    "FLAT_LOG",
    "MINUTE_LOG",
    "LoggedOperation",
    "LoggedTransaction",
    "build_transaction_id",
    "encode_log",
    "flat_log_path",
    "minute_folder_of",
    "minute_log_path",
    "parse_log_path",
    "start_time_of",
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


def build_transaction_id(start: int, unique: str) -> str:
    """Return the id of a transaction that started then.

    >>> build_transaction_id(1737070822189, "20444dca-7e3d-4dd2-af70-23b8bc890966")
    '1737070822189_20444dca-7e3d-4dd2-af70-23b8bc890966'
    """
    if not re.fullmatch(_UUID, unique):
        raise FormatError(f"{unique!r} cannot be part of a transaction's id: it is a UUID")
    return f"{start}_{unique}"


def start_time_of(transaction: str) -> int:
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
    return f"{minute_folder_of(start_time_of(transaction))}/{transaction}/{end}"


def minute_folder_of(start: int) -> str:
    """Return the folder of the log of what started then, which sorts as times do."""
    minute = datetime.datetime.fromtimestamp(start / 1e9, datetime.UTC)
    return f"{MINUTE_LOG}{minute:%Y/%m/%d/%H/%M}"


def parse_log_path(path: str) -> LoggedTransaction | None:
    """Return the transaction whose committed log lies at `path`, in either form, or None if none does."""
    match = _MINUTE.fullmatch(path)
    if match is not None:
        return LoggedTransaction(match[1], int(match[2]), int(match[3]))
    match = _FLAT.fullmatch(path)
    if match is not None:
        # The seed's prose joins start and UUID with `_`, its example with `-`; files are named with `_` always.
        return LoggedTransaction(f"{match[1]}_{match[2]}", int(match[1]), None)
    return None


_LOCATORS: Final = (
    "deltaLocator",
    "partitionLocator",
    "streamLocator",
    "tableVersionLocator",
    "tableLocator",
    "namespaceLocator",
)


@dataclass(frozen=True, slots=True)
class LoggedOperation:
    """What a transaction did to one object, and where it wrote that."""

    type: str
    object_id: str
    fields: MsgpackMap
    revision_paths: Sequence[str]
    mapping_paths: Sequence[str] = ()


def encode_log(transaction: str, end: int, operations: Sequence[LoggedOperation], changes: Changes) -> dict[str, Any]:
    """Return the log of a committed transaction."""
    return {
        "operations": [_operation_map(operation) for operation in operations],
        "start_time": start_time_of(transaction),
        "id": transaction,
        "end_time": end,
        "commit_message": changes.message or None,
        EXTRAS: encode_extras({"transaction_id": changes.transaction_id}),
    }


def _operation_map(operation: LoggedOperation) -> dict[str, Any]:
    locator = next((operation.fields[name] for name in _LOCATORS if name in operation.fields), None)
    touched = {"id": operation.object_id, "locator": locator, "locator_alias": None}
    return {
        "type": operation.type,
        "dest_metafile": touched,
        "src_metafile": touched if operation.type == "update" else None,
        "read_limit": None,
        "locator_write_paths": list(operation.mapping_paths),
        "metafile_write_paths": list(operation.revision_paths),
    }

"""Paths and content of DeltaCAT transaction log files.

txn/<start>_<uuid>                            the first format revision, milliseconds
txn/success/Y/M/D/h/m/<start>_<uuid>/<end>    DeltaCAT 2.x, nanoseconds
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
    """The parsed path of a log file: the transaction and, if the path has it, the end time."""

    id: str
    start: int
    end: int | None


def build_transaction_id(start: int, unique: str) -> str:
    """Return the id of a transaction with this start time.

    >>> build_transaction_id(1737070822189, "20444dca-7e3d-4dd2-af70-23b8bc890966")
    '1737070822189_20444dca-7e3d-4dd2-af70-23b8bc890966'
    """
    if not re.fullmatch(_UUID, unique):
        raise FormatError(f"{unique!r} is not a UUID and cannot be part of a transaction id")
    return f"{start}_{unique}"


def start_time_of(transaction: str) -> int:
    """Return the start time of a transaction id."""
    match = _ID.fullmatch(transaction)
    if match is None:
        raise FormatError(f"{transaction!r} is not a transaction id; expected a start time, an underscore and a UUID")
    return int(match[1])


def flat_log_path(transaction: str, end: int) -> str:  # noqa: ARG001
    """Return the log path of a transaction in the first format revision; the file contains the end time."""
    return f"{FLAT_LOG}{transaction}"


def minute_log_path(transaction: str, end: int) -> str:
    """Return the log path of a transaction in DeltaCAT 2.x.

    The folder is the minute of its start. It is computed in floating point as in
    DeltaCAT, which rounds a start just before a minute up to the next one.
    """
    return f"{minute_folder_of(start_time_of(transaction))}/{transaction}/{end}"


def minute_folder_of(start: int) -> str:
    """Return the log folder of a start time; folders sort by time."""
    minute = datetime.datetime.fromtimestamp(start / 1e9, datetime.UTC)
    return f"{MINUTE_LOG}{minute:%Y/%m/%d/%H/%M}"


def parse_log_path(path: str) -> LoggedTransaction | None:
    """Return the transaction of the committed log at `path`, in either form, or None."""
    match = _MINUTE.fullmatch(path)
    if match is not None:
        return LoggedTransaction(match[1], int(match[2]), int(match[3]))
    match = _FLAT.fullmatch(path)
    if match is not None:
        # The first specification joins start and UUID with `_` in its text and `-` in its example; files use `_`.
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
    """An operation of a transaction on one object, and the paths it wrote."""

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

"""What the log file of a transaction holds, in the form in which DeltaCAT 2.x writes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mangrove.layouts.deltacat.fields import EXTRAS, extras_text
from mangrove.layouts.deltacat.log_paths import start_of
from mangrove.layouts.deltacat.packed import Packed
from mangrove.metastore import Changes

__all__ = ["Operation", "log_map"]

_LOCATORS: Final = (
    "deltaLocator",
    "partitionLocator",
    "streamLocator",
    "tableVersionLocator",
    "tableLocator",
    "namespaceLocator",
)


@dataclass(frozen=True, slots=True)
class Operation:
    """What a transaction did to one object, and where it wrote that."""

    type: str
    object_id: str
    fields: Packed
    revision_paths: Sequence[str]
    mapping_paths: Sequence[str] = ()


def log_map(transaction: str, end: int, operations: Sequence[Operation], changes: Changes) -> dict[str, Any]:
    """Return the log of a committed transaction."""
    return {
        "operations": [_operation_map(operation) for operation in operations],
        "start_time": start_of(transaction),
        "id": transaction,
        "end_time": end,
        "commit_message": changes.message or None,
        EXTRAS: extras_text({"transaction_id": changes.transaction_id}),
    }


def _operation_map(operation: Operation) -> dict[str, Any]:
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

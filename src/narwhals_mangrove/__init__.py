"""The plugin by which `narwhals.from_native` accepts tables, snapshots of tables, scans and query results.

narwhals loads it by its entry point. Rows become a DataFrame of pyarrow, and are read when narwhals
creates that frame: a test whether an object is a frame reads nothing.
"""

from types import ModuleType
from typing import Any, Final, Protocol

import pyarrow as pa

__all__ = ["NATIVE_PACKAGE", "__narwhals_namespace__", "is_native"]

NATIVE_PACKAGE: Final = "mangrove"
"""narwhals asks this plugin about objects of this package only."""


class _Rows(Protocol):
    def to_arrow(self) -> pa.Table: ...


def is_native(native_object: object, /) -> bool:
    """Return whether an object of Mangrove has rows."""
    return hasattr(native_object, "__arrow_c_stream__") and hasattr(native_object, "to_arrow")


def __narwhals_namespace__(version: Any) -> "_Namespace":  # noqa: N807 - the name that narwhals calls
    """Return what converts objects for one version of the API of narwhals."""
    return _Namespace(version)


class _Namespace:
    def __init__(self, version: Any) -> None:
        self._version = version

    def from_native(self, data: _Rows, /) -> "_UnreadFrame":
        return _UnreadFrame(data, self._version)


class _UnreadFrame:
    def __init__(self, rows: _Rows, version: Any) -> None:
        self._rows = rows
        self._version = version

    def __narwhals_dataframe__(self) -> Any:
        arrow = self._version.namespace.from_backend("pyarrow").compliant
        return arrow.from_native(self._rows.to_arrow())

    def __native_namespace__(self) -> ModuleType:
        return pa

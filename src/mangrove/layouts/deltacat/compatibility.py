"""Validation that changes remain readable by DeltaCAT.

DeltaCAT reads append and add deltas with data files below the root. It would return
both the old and the new rows of an upsert, fail on a replace delta, and not see views.
Writes through the lakehouse API are copy-on-write here, so only other writers are
rejected.
"""

from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.layouts.deltacat.snapshot import DeltaCatSnapshot
from mangrove.metastore import Changes
from mangrove.model.locators import Kind, Locator, NamespaceLocator, TableLocator
from mangrove.model.manifests import FileKind
from mangrove.model.objects import Delta, DeltaType, NamespaceEntry, Object, TableEntry, TableType
from mangrove.model.paths import is_uri
from mangrove.model.settings import READABLE_BY_DELTACAT

__all__ = ["check_deltacat_readable"]

_READ: Final = frozenset({DeltaType.APPEND, DeltaType.ADD})


def check_deltacat_readable(base: DeltaCatSnapshot, changes: Changes) -> None:
    """Raise an error for changes that DeltaCAT cannot read."""
    for locator, value in changes.puts.items():
        problem = _problem(base, changes, locator, value)
        if problem:
            instead = "append instead, or " if isinstance(value, Delta) else ""
            raise InvalidInputError(
                f"{locator.kind.word} {locator} {problem}, which DeltaCAT cannot read, but this lakehouse has the "
                f"property {READABLE_BY_DELTACAT}; {instead}remove the property. Nothing was changed"
            )


def _problem(base: DeltaCatSnapshot, changes: Changes, locator: Locator, value: Object) -> str:
    if locator.kind is Kind.VIEW:
        return "is a view"
    if isinstance(value, Delta):
        return _delta_problem(value)
    if isinstance(value, TableEntry) and isinstance(locator, TableLocator):
        if value.table_type is not TableType.MANAGED:
            return f"is {value.table_type.value}"
        if _namespace_id(base, changes, locator.namespace) != value.namespace_id:
            return "has moved to another namespace"
    return ""


def _delta_problem(delta: Delta) -> str:
    if delta.type not in _READ:
        return f"has the type {delta.type.value}"
    for file in delta.manifest.entries:
        if file.kind is not FileKind.DATA:
            return f"has {file.location}, whose rows are {file.kind.value.replace('_', ' ')}"
        if is_uri(file.location):
            return f"has {file.location}, which is outside the root"
    return ""


def _namespace_id(base: DeltaCatSnapshot, changes: Changes, name: str) -> str | None:
    made = changes.puts.get(NamespaceLocator(name))
    return made.id if isinstance(made, NamespaceEntry) else base.namespace_id(name)

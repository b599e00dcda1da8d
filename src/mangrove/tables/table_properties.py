"""Validation of table properties and their update on schema changes.

Unknown properties are user-defined and are not validated.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.model.names import join_name, split_path
from mangrove.model.schema import Schema
from mangrove.tables.compaction import (
    AUTO_COMPACTION,
    AUTO_COMPACTION_BYTES,
    AUTO_COMPACTION_DELTAS,
    CLUSTER_BY,
    parse_auto_compaction_number,
    parse_clustering_columns,
    resolve_clustering_property,
)
from mangrove.tables.iceberg_names import FORMAT_VERSION, MAX_SNAPSHOTS, is_count
from mangrove.tables.table_state import TableState
from mangrove.tables.write_plan import DELETE_MODE, INLINE_ROWS, delete_mode_of, inline_rows_max_bytes_of

__all__ = ["check_table_properties", "has_column_property", "has_known_property", "update_column_properties"]


def has_known_property(names: Collection[str]) -> bool:
    """Return whether any of the names is a built-in property."""
    return not _CHECKS.keys().isdisjoint(names)


def has_column_property(names: Collection[str]) -> bool:
    """Return whether any of the names is a built-in property that references columns."""
    return CLUSTER_BY in names


def check_table_properties(state: TableState, names: Collection[str]) -> None:
    """Raise an error for invalid values of the named built-in properties.

    Only the properties being set are checked, so that a table with an invalid property can
    still be changed.
    """
    for name, check in _CHECKS.items():
        if name in names:
            check(state)


def update_column_properties(
    table: str, properties: Mapping[str, str], before: Schema, after: Schema
) -> dict[str, str]:
    """Return the properties updated for renamed columns; raise an error if a referenced column is dropped."""
    text = properties.get(CLUSTER_BY, "")
    names = parse_clustering_columns(text)
    followed = [_name_after(name, before, after) for name in names]
    for name, now in zip(names, followed, strict=True):
        if now is None:
            raise InvalidInputError(
                f"column {name!r} is used by {CLUSTER_BY} {text!r} of {table}; "
                "set the property to other columns or remove it first"
            )
    remaining = [now for now in followed if now is not None]
    return {} if remaining == names else {CLUSTER_BY: ", ".join(remaining)}


def _name_after(name: str, before: Schema, after: Schema) -> str | None:
    """Return the current name of a column, as written if it is unchanged; None if it was dropped."""
    try:
        column_id = before.column(*split_path(name)).id
    except (InvalidInputError, NotFoundError):
        return name  # it was already invalid
    if not after.has_id(column_id):
        return None
    path = after.path_of(column_id)
    return name if path == before.path_of(column_id) else join_name(*path)


def _check_auto(state: TableState) -> None:
    text = state.properties[AUTO_COMPACTION]
    if text.casefold() not in ("true", "false"):
        raise InvalidInputError(f"invalid {AUTO_COMPACTION} {text!r} of {state.name}; expected 'true' or 'false'")


def _check_format_version(state: TableState) -> None:
    text = state.properties[FORMAT_VERSION]
    if text not in ("2", "3"):
        raise InvalidInputError(f"invalid {FORMAT_VERSION} {text!r} of {state.name}; expected '2' or '3'")


def _check_max_snapshots(state: TableState) -> None:
    text = state.properties[MAX_SNAPSHOTS]
    if not is_count(text):
        raise InvalidInputError(f"invalid {MAX_SNAPSHOTS} {text!r} of {state.name}; expected 1 to 999999999 snapshots")


_CHECKS: Final[Mapping[str, Callable[[TableState], object]]] = {
    AUTO_COMPACTION: _check_auto,
    AUTO_COMPACTION_BYTES: lambda state: parse_auto_compaction_number(state.properties, AUTO_COMPACTION_BYTES),
    AUTO_COMPACTION_DELTAS: lambda state: parse_auto_compaction_number(state.properties, AUTO_COMPACTION_DELTAS),
    CLUSTER_BY: resolve_clustering_property,
    DELETE_MODE: delete_mode_of,
    FORMAT_VERSION: _check_format_version,
    INLINE_ROWS: inline_rows_max_bytes_of,
    MAX_SNAPSHOTS: _check_max_snapshots,
}

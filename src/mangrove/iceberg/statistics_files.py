"""Statistics files of Iceberg clients, such as the numbers of distinct values that Trino's ANALYZE computes.

They are recorded in a table property, with paths relative to the lakehouse, and published while
their snapshot is listed and the file exists. They are hints: files outside the table's folder and
more than the property can have are ignored, and neither rows nor snapshot ids depend on them.
"""

import json
from collections.abc import Iterable, Sequence, Set
from typing import Final

from pyiceberg.table.statistics import StatisticsFile

from mangrove.errors import InvalidInputError
from mangrove.iceberg.commit.manifest_reader import TableLocation
from mangrove.iceberg.locations import FileLocations
from mangrove.storage.port import Store
from mangrove.tables.iceberg_names import STATISTICS
from mangrove.tables.table_state import TableState

__all__ = ["encode_statistics", "load_statistics"]

_FILES_MAX: Final = 5
_CHARACTERS_MAX: Final = 64 * 1024
"""The size of the property, which is read with the table."""


def encode_statistics(files: Sequence[StatisticsFile], location: TableLocation, recorded: str = "") -> str:
    """Return the table property of the newest statistics files in a table's folder; empty if there are none.

    A file outside the folder does not replace the one that is recorded for its snapshot.
    """
    before = {file.snapshot_id: file for file in _decode(recorded)}
    kept: list[str] = []
    for file in reversed(files):
        try:
            stored: StatisticsFile | None = file.model_copy(
                update={"statistics_path": location.path_of(file.statistics_path)}
            )
        except InvalidInputError:
            stored = before.get(file.snapshot_id)
        if stored is None:
            continue
        text = json.dumps(json.loads(stored.model_dump_json(exclude_none=True)), separators=(",", ":"))
        if len(kept) < _FILES_MAX and sum(map(len, kept)) + len(text) <= _CHARACTERS_MAX:
            kept.append(text)
    return f"[{','.join(reversed(kept))}]" if kept else ""


def load_statistics(store: Store, state: TableState, snapshot_ids: Set[int]) -> list[StatisticsFile]:
    """Return the recorded statistics files of listed snapshots that exist."""
    locations = FileLocations(store)
    return [
        file.model_copy(update={"statistics_path": locations.of(file.statistics_path)})
        for file in _decode(state.properties.get(STATISTICS, ""))
        if file.snapshot_id in snapshot_ids
        and file.statistics_path.startswith(f"data/{state.table_id}/")
        and store.exists(file.statistics_path)
    ]


def _decode(text: str) -> Iterable[StatisticsFile]:
    """Return the files of the property; none if a user gave it another value."""
    try:
        return [StatisticsFile.model_validate(one) for one in json.loads(text or "[]")]
    except (ValueError, TypeError):
        return []

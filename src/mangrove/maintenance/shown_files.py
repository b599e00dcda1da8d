"""Which of the files that show tables to Iceberg stay: those of the newest state, and those that were written last.

No version needs such a file, and each can be written again. But engines may be reading
what shows the newest state, and what shows the next one takes most of its files from what
was shown last. All others go as what no version needs, and all of a table that was dropped.
"""

import posixpath
import re
from collections.abc import Collection, Iterator
from typing import Final

from mangrove.errors import FormatError, InvalidInputError
from mangrove.maintenance.maintained import Maintained
from mangrove.maintenance.table_states import state_of
from mangrove.metastore import Snapshot
from mangrove.model.locators import Kind, TableLocator
from mangrove.model.objects import Table, TableType
from mangrove.storage.port import Entry, ObjectInfo
from mangrove.tables.shown_names import METADATA_ENDING, PARTS_ENDING, paths_in_parts, shown_name
from mangrove.tables.table_state import TableState
from mangrove.transaction.deltas import open_table

__all__ = ["ShownFiles", "is_shown_metadata"]

_FOLDER: Final = re.compile(r"data/([^/]+)/metadata/")
_METADATA: Final = re.compile(_FOLDER.pattern + r"[0-9a-f]{32}-\d+" + re.escape(METADATA_ENDING))

_WITHOUT_PARTS: Final = f"-0{METADATA_ENDING}"
"""So ends what shows a table to which nothing was ever written."""


def is_shown_metadata(path: str) -> bool:
    """Return whether a file is what engines open first, so that it goes before all that it leads to."""
    return _METADATA.fullmatch(path) is not None


class ShownFiles:
    """What a listing found of the files that show tables."""

    def __init__(self) -> None:
        self._last: dict[str, ObjectInfo] = {}

    def note(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        """Pass a listing on, and note for each table what was shown last."""
        for entry in entries:
            match = _METADATA.fullmatch(entry.path) if isinstance(entry, ObjectInfo) else None
            if match is not None and isinstance(entry, ObjectInfo):
                known = self._last.get(match[1])
                if known is None or entry.modified_at_millis > known.modified_at_millis:
                    self._last[match[1]] = entry
            yield entry

    def kept(self, lake: Maintained, garbage: Collection[str]) -> Iterator[str]:
        """Yield the files that stay, of those tables of which something would go."""
        touched = {match[1] for path in garbage if (match := _FOLDER.match(path)) is not None} & self._last.keys()
        if not touched:
            return
        newest = lake.metastore.latest()
        for locator, table in lake.upkeep.objects(newest, Kind.TABLE):
            if isinstance(locator, TableLocator) and isinstance(table, Table) and table.id in touched:
                yield from _leads_to(lake, self._last[table.id].path)
                state = _state(newest, locator, table)
                if state is not None:
                    yield from _leads_to(lake, shown_name(state, lake.store.uri).metadata_path)


def _leads_to(lake: Maintained, metadata_path: str) -> Iterator[str]:
    """Yield the files by which a state is shown, or none where nobody knows all of them: they are written again."""
    parts_path = metadata_path.removesuffix(METADATA_ENDING) + PARTS_ENDING
    (parts,) = lake.store.read_many([parts_path])
    if parts is None and not metadata_path.endswith(_WITHOUT_PARTS):
        return
    yield metadata_path
    yield parts_path
    try:
        yield from paths_in_parts((parts or b"").decode())
    except UnicodeDecodeError as error:
        beside = posixpath.basename(metadata_path)
        raise FormatError(f"{parts_path} is damaged: delete it, and {beside} beside it; they are derived") from error


def _state(newest: Snapshot, locator: TableLocator, table: Table) -> TableState | None:
    """Return the table as it is shown, or None where it cannot be."""
    if table.table_type is not TableType.MANAGED:
        return None
    try:
        opened = open_table(newest, locator)
    except InvalidInputError:
        return None  # nothing says what its rows are
    return None if opened.version.schema is None else state_of(newest, opened)

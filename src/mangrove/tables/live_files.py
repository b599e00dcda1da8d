"""What a log of deltas means: which files are alive, and from which position on each of them counts.

    APPEND, ADD     rows at the delta's position
    UPSERT          rows at the delta's position, which hide earlier rows with the same keys
    DELETE          keys that hide earlier rows; its data files are rows that stay
    POSITION_DELETE row numbers of single files; its data files are rows that come
    REPLACE         of all or through a position: nothing that stood there remains
                    of locations: only those files go

A replace through a position stands *at that position*, wherever in the log it was
written. So what others added while a compaction ran still applies to its rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mangrove.model.manifests import DataFile, FileKind
from mangrove.model.objects import Delta, DeltaType

__all__ = ["LiveFile", "live_files"]


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that counts, and where it stands."""

    file: DataFile
    position: int
    hides: bool
    """Whether rows at earlier positions with the keys of this file are gone."""

    @property
    def is_data(self) -> bool:
        """Whether the file holds rows, not only keys."""
        return self.file.kind is FileKind.DATA


def live_files(deltas: Iterable[Delta]) -> tuple[LiveFile, ...]:
    """Return the files that count after all of `deltas`, which are in order, by the position at which they stand."""
    alive: dict[int, LiveFile] = {}
    places: dict[str, list[int]] = {}
    number = 0
    for delta in deltas:
        assert delta.position is not None
        position = delta.position
        if delta.type is DeltaType.REPLACE:
            if delta.replaced_locations:
                # Only the files that go are looked at: there may be as many such deltas as files.
                for location in delta.replaced_locations:
                    for place in places.pop(location, ()):
                        alive.pop(place, None)
            else:
                through = position if delta.replaces_through is None else delta.replaces_through
                alive = {place: live for place, live in alive.items() if live.position > through}
            if delta.replaces_through is not None:
                position = delta.replaces_through
        for entry in delta.manifest.entries:
            places.setdefault(entry.location, []).append(number)
            alive[number] = LiveFile(entry, position, _hides(delta, entry))
            number += 1
    return tuple(sorted(alive.values(), key=lambda live: live.position))


def _hides(delta: Delta, entry: DataFile) -> bool:
    is_upserted = delta.type is DeltaType.UPSERT and entry.kind is FileKind.DATA
    return entry.kind is FileKind.KEY_DELETES or is_upserted

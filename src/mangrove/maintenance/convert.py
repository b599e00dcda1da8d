"""Conversion: the versions of a lakehouse told again in another layout or format revision.

    1. every version is looked through; what has no place in the destination stops it here
    2. the record is written, which says what is converted from where
    3. data files are copied, those that are not there yet
    4. each version is committed in the destination, by what it changed
    5. the destination is checked, and compared with the source object by object

The destination's clock is the source's history, and its ids follow from the
source's versions. So a run that was killed and is repeated writes the same files
again, and goes on after the last version that is committed.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, StorageError
from mangrove.maintenance.check import check
from mangrove.maintenance.checked_files import CountMany
from mangrove.maintenance.comparison import Comparison, Matched, compared
from mangrove.maintenance.convert_carrying import Carrying
from mangrove.maintenance.convert_record import (
    CONVERSION_PATH,
    ConversionRecord,
    decode_conversion,
    encode_conversion,
)
from mangrove.maintenance.convert_retelling import Place, Retelling
from mangrove.maintenance.convert_survey import surveyed
from mangrove.maintenance.copying import copy_files, missing_copies
from mangrove.maintenance.maintained import Maintained
from mangrove.maintenance.progress import Watch, said_bytes, unwatched
from mangrove.metastore import Problem
from mangrove.model.paths import is_uri
from mangrove.storage.port import Store

__all__ = ["ConvertReport", "CopyFiles", "DataMode", "History", "convert"]


class History(enum.Enum):
    """How much of a lakehouse's past is converted."""

    ALL = "all"
    LATEST = "latest"


class DataMode(enum.Enum):
    """What becomes of data files."""

    COPY = "copy"
    REFERENCE = "reference"
    """They stay where they are, and the destination names them there: then the source must not be vacuumed."""


class CopyFiles(Protocol):
    """Copies files of known sizes between two stores; Spark may bring one that uses many machines."""

    def __call__(self, source: Store, destination: Store, sizes: Mapping[str, int], watch: Watch) -> None:
        """Copy the files, or raise."""
        ...


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What was converted, what could not be, and whether both are the same now."""

    source: str
    destination: str
    layout: str
    versions: int
    """How many versions the destination has."""
    versions_there: int
    """How many of them were there from an earlier run."""
    files_copied: int
    bytes_copied: int
    files_there: int
    files_elsewhere: int
    """Data files that are not below the source's root, and are named as before."""
    comparison: Comparison
    problems: tuple[Problem, ...] = ()
    """What a check of the destination found."""
    notes: tuple[str, ...] = ()
    """What is not in the destination as it is in the source."""

    @property
    def is_sound(self) -> bool:
        """Whether the destination holds what the source holds, and breaks no rule."""
        return not self.problems and not self.comparison.differences

    def __str__(self) -> str:
        there = f" ({self.versions_there:,} were there already)" if self.versions_there else ""
        files_there = f", {self.files_there:,} were there already" if self.files_there else ""
        elsewhere = f", {self.files_elsewhere:,} stay elsewhere" if self.files_elsewhere else ""
        lines = [
            f"{self.versions:,} versions of {self.source} converted to the {self.layout} layout at "
            f"{self.destination}{there}",
            f"{self.files_copied:,} data files ({said_bytes(self.bytes_copied)}) copied{files_there}{elsewhere}",
            str(self.comparison),
        ]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"different: {what}" for what in self.comparison.differences]
        lines += [f"{problem.path}: {problem.rule}" for problem in self.problems]
        return "\n".join(lines)


def convert(
    source: Maintained,
    place: Place,
    *,
    history: History = History.ALL,
    data: DataMode = DataMode.COPY,
    copier: CopyFiles = copy_files,
    count_rows: CountMany | None = None,
    watch: Watch = unwatched,
) -> ConvertReport:
    """Convert a lakehouse; a conversion that was interrupted goes on when it is called again in the same way.

    Called again after the source has grown, it adds the versions that came since.
    """
    _check_place(source.store, place.store)
    record = _record(source, place, history, data)
    versions = _versions(source, record)
    carrying = _carrying(versions, history, place)
    survey = surveyed(source, versions, carrying, ids_without_dots=place.ids_without_dots, watch=watch)
    paths = survey.paths(source.store)
    sizes = {} if data is DataMode.REFERENCE else survey.sizes(source.store)
    prefix = source.store.uri if data is DataMode.REFERENCE else ""
    carrying = replace(carrying, relocate=_Moved(paths, prefix))
    place.store.put(CONVERSION_PATH, encode_conversion(record))
    missing = missing_copies(sizes, place.store.list()) if sizes else {}
    copier(source.store, place.store, missing, watch)
    _check_copied(place.store, sizes, missing)
    retold = Retelling(source, place, versions, carrying, record)
    there = retold.run(survey, watch)
    made = retold.made
    made.upkeep.repair()
    comparison = compared(source, made, Matched(versions, carrying.object, carrying.settings), watch)
    referenced = source.store.uri if data is DataMode.REFERENCE else None
    problems = check(made, count_rows=count_rows, referenced_root=referenced, watch=watch).problems
    return ConvertReport(
        source=source.store.uri,
        destination=place.store.uri,
        layout=place.layout,
        versions=len(versions),
        versions_there=there,
        files_copied=len(missing),
        bytes_copied=sum(missing.values()),
        files_there=len(sizes) - len(missing),
        files_elsewhere=survey.elsewhere if data is DataMode.COPY else len(survey.locations),
        comparison=comparison,
        problems=problems,
        notes=tuple(survey.notes),
    )


class _Moved:
    """Where data files lie for whoever reads the destination."""

    def __init__(self, paths: Mapping[str, str], prefix: str) -> None:
        self._paths = paths
        self._prefix = prefix

    def __call__(self, location: str) -> str:
        path = self._paths.get(location, location)
        return path if is_uri(path) else f"{self._prefix}{path}"


def _carrying(versions: Sequence[int], history: History, place: Place) -> Carrying:
    numbers = {version: number for number, version in enumerate(versions)}
    return Carrying(numbers, str, keeps_shared=history is History.ALL, dropped_properties=place.unknown_properties)


def _check_place(source: Store, destination: Store) -> None:
    here, there = source.uri, destination.uri
    if there.startswith(here) or here.startswith(there):
        raise InvalidInputError(f"{there} and the lakehouse {here} lie one in the other: convert to another place")


def _record(source: Maintained, place: Place, history: History, data: DataMode) -> ConversionRecord:
    """Return what the destination is to be, which is what an earlier run recorded, or refuse what is something else."""
    destination = place.store
    (found,) = destination.read_many([CONVERSION_PATH])
    newest = source.metastore.latest().version
    first = newest if history is History.LATEST else source.upkeep.kept()[0].version
    if found is None:
        other = next(iter(destination.list()), None)
        if other is not None:
            raise AlreadyExistsError(f"{destination.uri} is not empty (it has {other.path}): convert to another place")
        return ConversionRecord(source.store.uri, place.layout, history.value, data.value, first)
    there = decode_conversion(found, f"{CONVERSION_PATH} in {destination.uri}")
    if there != ConversionRecord(source.store.uri, place.layout, history.value, data.value, there.first_version):
        raise AlreadyExistsError(
            f"{destination.uri} holds {there} in the {there.layout} layout: convert to another place, or in that way"
        )
    if history is History.ALL and there.first_version != first:
        raise ConflictError(
            f"version {there.first_version} of {source.store.uri}, with which the conversion to {destination.uri} "
            f"began, has expired; it begins with {first} now. Convert to another place"
        )
    return there


def _versions(source: Maintained, record: ConversionRecord) -> list[int]:
    if record.history == History.LATEST.value:
        return [record.first_version]
    return [commit.version for commit in source.upkeep.kept()]


def _check_copied(destination: Store, sizes: Mapping[str, int], missing: Mapping[str, int]) -> None:
    left = missing_copies(sizes, destination.list()) if missing else {}
    if left:
        raise StorageError(
            f"{min(left)} and {len(left) - 1} others are not in {destination.uri} in full, though they were copied "
            "there: convert again in the same way to complete it"
        )

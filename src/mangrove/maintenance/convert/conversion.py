"""The conversion job, its options and its report.

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
from mangrove.maintenance.check import CountRowsOfMany, check_lakehouse
from mangrove.maintenance.context import MaintenanceContext
from mangrove.maintenance.convert.comparison import LakehouseComparison, VersionMapping, compare_lakehouses
from mangrove.maintenance.convert.history import ConversionMapping
from mangrove.maintenance.convert.replay import (
    CONVERSION_PATH,
    ConversionRecord,
    ConversionTarget,
    HistoryReplay,
    decode_conversion,
    encode_conversion,
)
from mangrove.maintenance.convert.survey import survey_versions
from mangrove.maintenance.copy import copy_files, find_missing_copies
from mangrove.maintenance.progress import ProgressCallback, format_bytes, ignore_progress
from mangrove.metastore import Problem
from mangrove.model.paths import is_uri
from mangrove.storage.port import Store

__all__ = ["ConvertReport", "CopyFiles", "DataMode", "HistoryMode", "convert_lakehouse"]


class HistoryMode(enum.Enum):
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

    def __call__(self, source: Store, destination: Store, sizes: Mapping[str, int], watch: ProgressCallback) -> None:
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
    comparison: LakehouseComparison
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
            f"{self.files_copied:,} data files ({format_bytes(self.bytes_copied)}) copied{files_there}{elsewhere}",
            str(self.comparison),
        ]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"different: {what}" for what in self.comparison.differences]
        lines += [f"{problem.path}: {problem.rule}" for problem in self.problems]
        return "\n".join(lines)


def convert_lakehouse(
    source: MaintenanceContext,
    place: ConversionTarget,
    *,
    history: HistoryMode = HistoryMode.ALL,
    data: DataMode = DataMode.COPY,
    copier: CopyFiles = copy_files,
    count_rows: CountRowsOfMany | None = None,
    watch: ProgressCallback = ignore_progress,
) -> ConvertReport:
    """Convert a lakehouse; a conversion that was interrupted goes on when it is called again in the same way.

    Called again after the source has grown, it adds the versions that came since.
    """
    _check_place(source.store, place.store)
    record = _record(source, place, history, data)
    versions = _versions(source, record)
    conversion_mapping = _build_mapping(versions, history, place)
    survey = survey_versions(source, versions, conversion_mapping, ids_without_dots=place.ids_without_dots, watch=watch)
    paths = survey.paths(source.store)
    sizes = {} if data is DataMode.REFERENCE else survey.sizes(source.store)
    prefix = source.store.uri if data is DataMode.REFERENCE else ""
    conversion_mapping = replace(conversion_mapping, relocate=_LocationMap(paths, prefix))
    place.store.put(CONVERSION_PATH, encode_conversion(record))
    missing = find_missing_copies(sizes, place.store.list()) if sizes else {}
    copier(source.store, place.store, missing, watch)
    _check_copied(place.store, sizes, missing)
    retold = HistoryReplay(source, place, versions, conversion_mapping, record)
    there = retold.run(survey, watch)
    made = retold.made
    made.maintenance.repair()
    comparison = compare_lakehouses(
        source, made, VersionMapping(versions, conversion_mapping.object, conversion_mapping.settings), watch
    )
    referenced = source.store.uri if data is DataMode.REFERENCE else None
    problems = check_lakehouse(made, count_rows=count_rows, referenced_root=referenced, watch=watch).problems
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


class _LocationMap:
    """Where data files lie for whoever reads the destination."""

    def __init__(self, paths: Mapping[str, str], prefix: str) -> None:
        self._paths = paths
        self._prefix = prefix

    def __call__(self, location: str) -> str:
        path = self._paths.get(location, location)
        return path if is_uri(path) else f"{self._prefix}{path}"


def _build_mapping(versions: Sequence[int], history: HistoryMode, place: ConversionTarget) -> ConversionMapping:
    numbers = {version: number for number, version in enumerate(versions)}
    return ConversionMapping(
        numbers, str, keeps_shared=history is HistoryMode.ALL, dropped_properties=place.unknown_properties
    )


def _check_place(source: Store, destination: Store) -> None:
    here, there = source.uri, destination.uri
    if there.startswith(here) or here.startswith(there):
        raise InvalidInputError(f"{there} and the lakehouse {here} lie one in the other: convert to another place")


def _record(
    source: MaintenanceContext, place: ConversionTarget, history: HistoryMode, data: DataMode
) -> ConversionRecord:
    """Return what the destination is to be, which is what an earlier run recorded, or refuse what is something else."""
    destination = place.store
    (found,) = destination.read_many([CONVERSION_PATH])
    newest = source.metastore.latest().version
    first = newest if history is HistoryMode.LATEST else source.maintenance.kept()[0].version
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
    if history is HistoryMode.ALL and there.first_version != first:
        raise ConflictError(
            f"version {there.first_version} of {source.store.uri}, with which the conversion to {destination.uri} "
            f"began, has expired; it begins with {first} now. Convert to another place"
        )
    return there


def _versions(source: MaintenanceContext, record: ConversionRecord) -> list[int]:
    if record.history == HistoryMode.LATEST.value:
        return [record.first_version]
    return [commit.version for commit in source.maintenance.kept()]


def _check_copied(destination: Store, sizes: Mapping[str, int], missing: Mapping[str, int]) -> None:
    left = find_missing_copies(sizes, destination.list()) if missing else {}
    if left:
        raise StorageError(
            f"{min(left)} and {len(left) - 1} others are not in {destination.uri} in full, though they were copied "
            "there: convert again in the same way to complete it"
        )

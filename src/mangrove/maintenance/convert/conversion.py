"""The conversion job, its options and its report.

    1. scan all versions; unsupported objects stop the conversion here
    2. write the conversion record
    3. copy the data files that are not copied yet
    4. commit each version in the destination by its changes
    5. check the destination, and compare it with the source object by object

The destination's clock replays the history of the source, and its ids are derived
from the source's versions. A repeated run after a crash therefore writes the same
files and continues after the last committed version.
"""

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, StorageError
from mangrove.layouts.tree.paths import PATH_BYTES_MIN
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
from mangrove.maintenance.convert.survey import Survey, survey_versions
from mangrove.maintenance.copy import copy_files, find_missing_copies
from mangrove.maintenance.progress import ProgressCallback, format_bytes, ignore_progress
from mangrove.metastore import Problem
from mangrove.model.manifests import PARQUET, DataFile
from mangrove.model.paths import is_uri
from mangrove.storage.port import Store

__all__ = ["ConvertReport", "CopyFiles", "DataMode", "EncodeRows", "HistoryMode", "convert_lakehouse"]


class HistoryMode(enum.Enum):
    """How much of the history is converted."""

    ALL = "all"
    LATEST = "latest"


class DataMode(enum.Enum):
    """Whether data files are copied."""

    COPY = "copy"
    REFERENCE = "reference"
    """Data files stay in the source, which must then not be vacuumed."""


EncodeRows = Callable[[DataFile], bytes]
"""Returns the inline rows of an entry as a data file."""


class CopyFiles(Protocol):
    """Copies files of known sizes between two stores; Spark provides a distributed one."""

    def __call__(self, source: Store, destination: Store, sizes: Mapping[str, int], watch: ProgressCallback) -> None:
        """Copy the files, or raise."""
        ...


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What was converted, what was not, and the result of the comparison."""

    source: str
    destination: str
    layout: str
    versions: int
    """The number of versions of the destination."""
    versions_there: int
    """The number of versions from earlier runs."""
    files_copied: int
    bytes_copied: int
    files_there: int
    files_elsewhere: int
    """Data files outside the source root, whose locations are unchanged."""
    comparison: LakehouseComparison
    problems: tuple[Problem, ...] = ()
    """The result of the check of the destination."""
    notes: tuple[str, ...] = ()
    """The differences between destination and source."""

    @property
    def is_sound(self) -> bool:
        """Whether the destination is equal to the source and passes the check."""
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
    encode_rows: EncodeRows | None = None,
    watch: ProgressCallback = ignore_progress,
) -> ConvertReport:
    """Convert a lakehouse; repeating the call resumes an interrupted conversion.

    If the source has new versions, a repeated call adds them. Without `encode_rows`, inline
    rows can only be converted to a layout that has them.
    """
    _check_place(source.store, place.store)
    record = _record(source, place, history, data)
    versions = _versions(source, record)
    conversion_mapping = _build_mapping(versions, history, place, encode_rows)
    survey = survey_versions(source, versions, conversion_mapping, ids_without_dots=place.ids_without_dots, watch=watch)
    sizes = {} if data is DataMode.REFERENCE else survey.sizes(source.store)
    conversion_mapping = _map_locations(source, conversion_mapping, survey, data)
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


class _InlineRowsWriter:
    """Writes inline rows as data files in the destination, each once."""

    def __init__(self, store: Store, encode: EncodeRows) -> None:
        self._store = store
        self._encode = encode
        self._sizes: dict[str, int] = {}

    def __call__(self, file: DataFile) -> DataFile:
        if file.location not in self._sizes:
            data = self._encode(file)
            self._store.put(file.path, data)
            self._sizes[file.location] = len(data)
        return replace(file, size_bytes=self._sizes[file.location], content_type=PARQUET, inline_rows=None)


class _LocationMap:
    """The locations of data files in the destination."""

    def __init__(self, paths: Mapping[str, str], prefix: str, inline: Collection[str]) -> None:
        self._paths = paths
        self._prefix = prefix
        self._inline = inline

    def __call__(self, location: str) -> str:
        if location in self._inline:
            return location
        path = self._paths.get(location, location)
        return path if is_uri(path) else f"{self._prefix}{path}"


def _map_locations(
    source: MaintenanceContext, mapping: ConversionMapping, survey: Survey, data: DataMode
) -> ConversionMapping:
    """Return the mapping with the locations of data files, and a path limit that allows all paths; URIs have none."""
    paths = survey.paths(source.store)
    copied = [] if data is DataMode.REFERENCE else [path for path in paths.values() if not is_uri(path)]
    longest = max([PATH_BYTES_MIN, *(len(path.encode()) for path in copied)])
    limit = source.metastore.latest().settings.file_path_max_size_bytes
    if longest > limit:
        survey.note(f"file_path_max_size_bytes is raised from {limit} to {longest}, the size of the longest path")
    prefix = source.store.uri if data is DataMode.REFERENCE else ""
    return replace(mapping, relocate=_LocationMap(paths, prefix, survey.inline_locations), path_bytes_min=longest)


def _build_mapping(
    versions: Sequence[int], history: HistoryMode, place: ConversionTarget, encode_rows: EncodeRows | None
) -> ConversionMapping:
    numbers = {version: number for number, version in enumerate(versions)}
    return ConversionMapping(
        numbers,
        str,
        keeps_shared=history is HistoryMode.ALL,
        dropped_properties=place.unknown_properties,
        strict=place.strict,
        store_rows=None if encode_rows is None or place.inlines_rows else _InlineRowsWriter(place.store, encode_rows),
    )


def _check_place(source: Store, destination: Store) -> None:
    here, there = source.uri, destination.uri
    if there.startswith(here) or here.startswith(there):
        raise InvalidInputError(f"{there} and the lakehouse {here} are nested; convert to another location")


def _record(
    source: MaintenanceContext, place: ConversionTarget, history: HistoryMode, data: DataMode
) -> ConversionRecord:
    """Return the conversion record, from an earlier run if there is one; raise an error for another conversion."""
    destination = place.store
    (found,) = destination.read_many([CONVERSION_PATH])
    newest = source.metastore.latest().version
    first = newest if history is HistoryMode.LATEST else source.maintenance.list_retained()[0].version
    if found is None:
        other = next(iter(destination.list()), None)
        if other is not None:
            raise AlreadyExistsError(
                f"{destination.uri} is not empty (it contains {other.path}); convert to another location"
            )
        return ConversionRecord(source.store.uri, place.layout, history.value, data.value, first, place.strict)
    there = decode_conversion(found, f"{CONVERSION_PATH} in {destination.uri}")
    same = ConversionRecord(
        source.store.uri, place.layout, history.value, data.value, there.first_version, place.strict
    )
    if there != same:
        raise AlreadyExistsError(
            f"{destination.uri} contains {there} in the {'strict ' if there.strict else ''}{there.layout} layout; "
            "use another location or the same options"
        )
    if history is HistoryMode.ALL and there.first_version != first:
        raise ConflictError(
            f"version {there.first_version} of {source.store.uri}, the first of the conversion to {destination.uri}, "
            f"has expired; the oldest is {first} now. Convert to another location"
        )
    return there


def _versions(source: MaintenanceContext, record: ConversionRecord) -> list[int]:
    if record.history == HistoryMode.LATEST.value:
        return [record.first_version]
    return [commit.version for commit in source.maintenance.list_retained()]


def _check_copied(destination: Store, sizes: Mapping[str, int], missing: Mapping[str, int]) -> None:
    left = find_missing_copies(sizes, destination.list()) if missing else {}
    if left:
        raise StorageError(
            f"{min(left)} and {len(left) - 1} other files are incomplete in {destination.uri}; "
            "repeat the conversion with the same options to complete it"
        )

"""Options of the Spark data source."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_lakehouse
from mangrove.model.canonical import is_named_by_ids, parse_locator
from mangrove.model.properties import FrozenMapping
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.transaction.canonical_names import resolve_target
from mangrove.transaction.catalog import CatalogReader
from mangrove.transaction.deltas import TableTarget, parse_table_target

__all__ = ["OPERATIONS", "SourceOptions", "parse_options", "refuse_partial_overwrite"]

OPERATIONS: Final = ("append", "upsert")
_STORAGE: Final = "storage."
_LIMITS: Final = ("maxFilesPerTrigger", "maxRowsPerTrigger", "maxBytesPerTrigger")
_TRUTHS: Final = {"true": True, "false": False}
_KNOWN: Final = (
    "lake",
    "table",
    "tableVersion",
    "version",
    "timestamp",
    "where",
    "columns",
    "operation",
    "query",
    "checkpointLocation",
    "startingVersion",
    "startingTimestamp",
    "readChangeFeed",
    "skipChangeCommits",
    "failOnDataLoss",
    *_LIMITS,
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Validated options of a read or write; the lakehouse is not opened."""

    lake: str
    name: str
    """The name of a table, or the canonical string or locator of a table, table version, stream, partition or delta."""
    storage: Mapping[str, str] = FrozenMapping[str, str]({})
    moment: int | str | None = None
    where: str | None = None
    columns: tuple[str, ...] | None = None
    operation: str = "append"
    query: str | None = None
    checkpoint: str | None = None
    starting_version: int | str | None = None
    starting_timestamp: str | None = None
    reads_changes: bool = False
    skips_changes: bool = False
    fails_on_data_loss: bool = True
    limit: tuple[str, int] | None = None
    """Read limit of a streaming batch: files, rows or bytes."""
    table_version: int | None = None
    """The table version, where the name does not mean the default one."""

    @property
    def named_target(self) -> TableTarget | None:
        """What is read or written by name, not looked up; None if ids name it."""
        if is_named_by_ids(self.name):
            return None
        target = parse_table_target(self.name)
        return target if self.table_version is None else replace(target, version=self.table_version)

    def resolve_target(self, reading: CatalogReader) -> TableTarget:
        """Return what is read or written, looked up in a version of the lakehouse."""
        return resolve_target(reading, self.name, self.table_version)

    def opened(self) -> Lakehouse:
        """Open the lakehouse without engines, for use in a Spark worker."""
        return open_lakehouse(self.lake, storage_options=self.storage or None)

    def store(self) -> Store:
        """Return the store of the lakehouse."""
        return open_store(self.lake, self.storage or None)


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options; raise InvalidInputError for an invalid one."""
    options = {name.lower(): value for name, value in given.items()}
    _check_spelling(options)
    lake, table = options.get("lake"), options.get("table", options.get("path"))
    if not lake:
        raise InvalidInputError(
            'the option "lake" is missing; add .option("lake", uri), or in SQL, where Spark drops '
            "the OPTIONS of a table, WITH (lake = '…', table = '…') after its name; a table attached by "
            "mangrove.spark.registration.attach needs neither"
        )
    if not table:
        raise InvalidInputError(
            f'no table of {lake} is given; use load("namespace.table"), save("namespace.table") or .option("table", …)'
            "; saveAsTable, writeTo and toTable create tables in Spark's own catalog"
        )
    operation = options.get("operation", "append").lower()
    if operation not in OPERATIONS:
        raise InvalidInputError(f"unknown operation {operation!r}; expected one of {', '.join(OPERATIONS)}")
    # An invalid name is refused before the lakehouse is opened.
    _ = parse_locator(table) if is_named_by_ids(table) else parse_table_target(table)
    version = options.get("tableversion")
    return SourceOptions(
        lake,
        table,
        FrozenMapping({name[len(_STORAGE) :]: value for name, value in options.items() if name.startswith(_STORAGE)}),
        _parse_as_of(options),
        options.get("where"),
        _columns(options.get("columns")),
        operation,
        options.get("query"),
        options.get("checkpointlocation"),
        _starting_version(options),
        options.get("startingtimestamp"),
        _truth(options, "readChangeFeed", otherwise=False),
        _truth(options, "skipChangeCommits", otherwise=False),
        _truth(options, "failOnDataLoss", otherwise=True),
        _limit(options),
        None if version is None else _number("tableVersion", version),
    )


def _check_spelling(options: Mapping[str, str]) -> None:
    """Raise InvalidInputError for a misspelled option; other unknown options are Spark's own."""
    known = {name.lower(): name for name in _KNOWN}
    for name in options:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if close and name not in known:
            raise InvalidInputError(f"unknown option {name!r}; did you mean {known[close[0]]!r}?")


def refuse_partial_overwrite(given: Mapping[str, str]) -> None:
    """Raise InvalidInputError for options of other formats that limit an overwrite, which here replaces all rows."""
    options = {name.lower(): value for name, value in given.items()}
    is_dynamic = options.get("partitionoverwritemode", "static").lower() != "static"
    if is_dynamic or "replacewhere" in options:
        raise InvalidInputError(
            f"the option {'partitionOverwriteMode' if is_dynamic else 'replaceWhere'} is not supported, and the mode "
            "overwrite replaces the whole table; use overwrite_partitions(frame) or overwrite(frame, where=…) of the "
            "table, or INSERT OVERWRITE in SQL"
        )


def _parse_as_of(options: Mapping[str, str]) -> int | str | None:
    version, timestamp = options.get("version"), options.get("timestamp")
    if version is not None and timestamp is not None:
        raise InvalidInputError("both a version and a timestamp are given; give one of them")
    return timestamp if version is None else _number("version", version)


def _columns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _starting_version(options: Mapping[str, str]) -> int | str | None:
    text = options.get("startingversion")
    if text is not None and "startingtimestamp" in options:
        raise InvalidInputError("both startingVersion and startingTimestamp are given; give one of them")
    if text is None or text.lower() in ("latest", "earliest"):
        return None if text is None else text.lower()
    return _number("startingVersion", text)


def _limit(options: Mapping[str, str]) -> tuple[str, int] | None:
    given = [name for name in _LIMITS if name.lower() in options]
    if len(given) > 1:
        raise InvalidInputError(f"{' and '.join(given)} exclude each other; give one of them")
    if not given:
        return None
    count = _number(given[0], options[given[0].lower()])
    if count < 1:
        raise InvalidInputError(f"invalid {given[0]} {count}; expected at least 1")
    return given[0], count


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise InvalidInputError(f"invalid {name} {text!r}; expected a non-negative integer")
    return int(text)


def _truth(options: Mapping[str, str], name: str, *, otherwise: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return otherwise
    if text.lower() not in _TRUTHS:
        raise InvalidInputError(f"invalid {name} {text!r}; expected true or false")
    return _TRUTHS[text.lower()]

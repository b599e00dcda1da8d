"""Output of rows in the format that the user chose, to stdout or to a file."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO, TypeVar

import click

from mangrove.cli.completion import offer_files
from mangrove.cli.context import CommandContext
from mangrove.cli.row_table import TextRow, print_rows
from mangrove.cli.terminal import draw, supports_unicode
from mangrove.errors import InvalidInputError
from mangrove.local.row_formats import encode_rows, is_number_type, slice_batches, to_text_rows, write_parquet
from mangrove.maintenance.progress import format_quantity

__all__ = [
    "FILE_FORMATS",
    "TABLE_ROWS_MAX",
    "RowOutput",
    "detect_row_format",
    "open_output_file",
    "output_options",
    "write_batches",
    "write_file",
]

FILE_FORMATS: Final = ("csv", "json", "ndjson", "parquet")
_TABLE: Final = "table"
TABLE_ROWS_MAX: Final = 100
"""Default maximum number of rows that are printed as a table."""
F = TypeVar("F", bound=Callable[..., Any])


def output_options(command: F) -> F:
    """Add the options --format, -o and --limit, which `RowOutput.of` takes."""
    for option in (
        click.option(
            "--limit",
            type=click.IntRange(min=0),
            help=f"Maximum number of rows.  [default: {TABLE_ROWS_MAX} in a table, else unlimited]",
        ),
        click.option("-o", "--output", metavar="FILE", shell_complete=offer_files, help="Write the rows to a file."),
        click.option(
            "--format",
            "row_format",
            type=click.Choice([_TABLE, *FILE_FORMATS]),
            help="Format of the rows.  [default: the suffix of FILE, else table]",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class RowOutput:
    """Where and in which format a command writes rows, and how many."""

    session: CommandContext
    row_format: str
    file: str | None
    limit: int | None

    @classmethod
    def of(cls, session: CommandContext, row_format: str | None, output: str | None, limit: int | None) -> "RowOutput":
        """Return the output that the options of a command select."""
        if row_format is None:
            row_format = detect_row_format(output) if output is not None else "json" if session.as_json else _TABLE
        if output is None and session.as_json and row_format != "json":
            raise InvalidInputError(f"--format {row_format} and --json exclude each other; remove one of them")
        if output is not None and row_format == _TABLE:
            raise InvalidInputError(f"-o takes --format {', '.join(FILE_FORMATS)}; redirect the output for a table")
        if output is None and row_format == "parquet" and sys.stdout.isatty():
            raise InvalidInputError("Parquet is binary; use -o FILE, or redirect the output")
        return cls(session, row_format, output, TABLE_ROWS_MAX if limit is None and row_format == _TABLE else limit)

    @property
    def read_max(self) -> int | None:
        """Number of rows to read; a table needs one more than it prints, to detect whether there are more."""
        return self.limit + 1 if self.limit is not None and self.is_table else self.limit

    @property
    def is_table(self) -> bool:
        """Whether rows are printed as a table."""
        return self.row_format == _TABLE

    @property
    def has_one_result(self) -> bool:
        """Whether the rows of one query only can be written, because they are a file."""
        return self.file is not None or self.row_format == "parquet"

    def write(self, rows: Any) -> int:
        """Write the rows of a RecordBatchReader as they are read, and return their number."""
        if self.file is not None:
            with self.session.watching("writing rows"):
                count = write_file(rows, self.row_format, self.file)
            self.session.answer(
                {"file": self.file, "format": self.row_format, "rows": count},
                lambda: f"wrote {format_quantity(count, 'row')} to {self.file}",
            )
            return count
        counted = _CountedBatches(rows)
        if self.is_table:
            self._print_table(counted, rows.schema)
        else:
            write_batches(counted, rows.schema, self.row_format, sys.stdout)
        return counted.rows

    def _print_table(self, batches: "_CountedBatches", schema: Any) -> None:
        assert self.limit is not None

        def format_chunks(left: int) -> Iterator[Sequence[TextRow]]:
            for batch in slice_batches(batches):
                yield to_text_rows(batch.slice(0, left))
                left = max(0, left - batch.num_rows)

        print_rows(schema.names, [is_number_type(field.type) for field in schema], format_chunks(self.limit))
        more = "; there are more, use --limit" if batches.rows > self.limit else ""
        draw(f"{format_quantity(min(batches.rows, self.limit), 'row')}{more}")


@dataclass(slots=True)
class _CountedBatches:
    """Batches, and the number of rows read so far."""

    batches: Iterable[Any]
    rows: int = 0

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            self.rows += batch.num_rows
            yield batch


def write_batches(batches: Iterable[Any], schema: Any, row_format: str, file: TextIO) -> None:
    """Write rows as one of FILE_FORMATS; a reader of a pipe sees the first ones at once."""
    if row_format == "parquet":
        file.flush()
        write_parquet(batches, schema, file.buffer)
        return
    for text in encode_rows(batches, schema.names, row_format, ensure_ascii=not supports_unicode(file)):
        file.write(text)
        file.flush()


def write_file(rows: Any, row_format: str, path: str) -> int:
    """Write the rows of a RecordBatchReader to a file and return their number."""
    counted = _CountedBatches(rows)
    with open_output_file(path) as file:
        write_batches(counted, rows.schema, row_format, file)
    return counted.rows


def open_output_file(path: str) -> TextIO:
    """Open a file for rows; a file that is there is overwritten."""
    try:
        return open(path, "w", encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidInputError(f"cannot write {path} ({error.strerror}); give another file") from error


def detect_row_format(path: str) -> str:
    """Return the one of FILE_FORMATS that the suffix of a file names."""
    suffix = os.path.splitext(path)[1].removeprefix(".").lower()
    row_format = {"jsonl": "ndjson", "pq": "parquet"}.get(suffix, suffix)
    if row_format not in FILE_FORMATS:
        raise InvalidInputError(f"the suffix of {path} names no format; add --format {', '.join(FILE_FORMATS)}")
    return row_format

"""Output of the SQL shell: the mode, the file and the pager of results, and copies between files and tables."""

import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TextIO

import click

from mangrove.cli.cancellable_session import CancellableSession
from mangrove.cli.row_output import FILE_FORMATS, detect_row_format, open_output_file, write_batches, write_file
from mangrove.cli.row_table import render_rows
from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.local.import_files import read_row_file
from mangrove.maintenance.progress import format_quantity

if TYPE_CHECKING:
    from mangrove.lakehouse.transaction import Transaction
    from mangrove.sql.results import Result

__all__ = ["MODES", "CopyCommand", "ShellOutput", "parse_copy", "run_copy"]

_TABLE: Final = "table"
MODES: Final = (_TABLE, *(one for one in FILE_FORMATS if one != "parquet"))
"""The formats of results on the terminal."""
_COPY: Final = re.compile(
    r"(?P<source>\(.*\)|\S+)\s+(?P<direction>to|from)\s+(?P<file>\S.*)", re.IGNORECASE | re.DOTALL
)


@dataclass(slots=True)
class ShellOutput:
    """Where the results of the shell go: to the terminal or a file, in a mode, with or without a pager."""

    mode: str = _TABLE
    file: TextIO | None = None
    with_pager: bool = True
    _pages: list[str] = field(default_factory=list)

    def set_mode(self, mode: str) -> str:
        """Set the format of results and return a message."""
        if mode and mode not in MODES:
            raise InvalidInputError(f"unknown mode {mode!r}; expected one of {', '.join(MODES)}")
        self.mode = mode or self.mode
        return f"mode is {self.mode}"

    def set_file(self, path: str) -> str:
        """Write results to a file, or to the terminal again without a path, and return a message."""
        opened = open_output_file(path) if path else None
        if self.file is not None:
            self.file.close()
        self.file = opened
        return f"results go to {path or 'the terminal'}"

    def write(self, result: "Result") -> bool:
        """Write the rows of a result unless they are a table on the terminal, and return whether it did."""
        if not result.has_rows or (self.mode == _TABLE and self.file is None):
            return False
        file = sys.stdout if self.file is None else self.file
        if self.mode == _TABLE:
            file.write(render_rows(result.columns, list(result.each_row()), "") + "\n")
        else:
            reader = result.to_reader()
            write_batches(reader, reader.schema, self.mode, file)
        file.flush()
        return True

    def page(self, text: str) -> bool:
        """Keep a text that is longer than the terminal, and those after it, for the pager; return whether it did."""
        is_long = text.count("\n") >= shutil.get_terminal_size().lines
        if not (self.with_pager and sys.stdout.isatty() and (is_long or self._pages)):
            return False
        self._pages.append(text)
        return True

    def show_pages(self) -> None:
        """Show the texts in the pager, in the thread that reads the keyboard."""
        pages, self._pages = self._pages, []
        if pages:
            click.echo_via_pager("\n".join(pages), color=not os.environ.get("NO_COLOR"))


@dataclass(frozen=True, slots=True)
class CopyCommand:
    """A copy of the rows of a query to a file, or of a file to a table."""

    file: str
    query: str | None = None
    table: str = ""


def parse_copy(argument: str) -> CopyCommand:
    r"""Parse the argument of \\copy.

    >>> parse_copy("(select 1 as one) to one.csv")
    CopyCommand(file='one.csv', query='select 1 as one', table='')
    >>> parse_copy("shop.orders from 'new orders.csv'")
    CopyCommand(file='new orders.csv', query=None, table='shop.orders')
    """
    match = _COPY.fullmatch(argument.strip())
    if match is None or (match["source"].startswith("(") and match["direction"].lower() == "from"):
        raise InvalidInputError("\\copy takes TABLE to FILE, (QUERY) to FILE, or TABLE from FILE")
    source, file = match["source"], match["file"].strip("'\"")
    if match["direction"].lower() == "from":
        return CopyCommand(file, table=source)
    detect_row_format(file)
    if source.startswith("("):
        return CopyCommand(file, source[1:-1].strip())
    return CopyCommand(file, f"select * from {source}")  # noqa: S608 - the user types SQL


def run_copy(conversation: CancellableSession, copy: CopyCommand) -> str:
    """Copy the rows of a query to a file, or append those of a file to a table, and return a message."""
    if copy.query is not None:
        (result,) = conversation.script(copy.query)
        count = write_file(result.to_reader(), detect_row_format(copy.file), copy.file)
        return f"wrote {format_quantity(count, 'row')} to {copy.file}"
    session, data = conversation.sql_session, _read_bytes(copy.file)
    name = copy.table if "." in copy.table else f"{session.namespace}.{copy.table}"

    def append(transaction: "Transaction") -> int:
        table = transaction.table(name)
        if table.schema is None:
            raise InvalidInputError(f"{name} has no schema; add files with `mangrove ingest`")
        rows = read_row_file(copy.file, data, table.schema)
        table.append(rows)
        return rows.num_rows

    count, version = session.run_change(append, f"copy {copy.file} into {name}")
    committed = "" if version is None else f" (version {version})"
    return f"loaded {format_quantity(count, 'row')} into {name}{committed}"


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise NotFoundError(f"cannot read {path} ({error.strerror}); check the path") from error

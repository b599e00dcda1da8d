"""The sql command: execution of statements and output of their results."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import click
from rich.console import RenderableType

from mangrove.cli.cancellable_session import CancellableSession
from mangrove.cli.command import lake_command
from mangrove.cli.context import CommandContext, parse_key_values
from mangrove.cli.row_output import TABLE_ROWS_MAX, RowOutput, output_options
from mangrove.cli.row_table import render_rows
from mangrove.cli.terminal import draw, supports_unicode
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.sql_port import SQL_ENGINES
from mangrove.local.row_formats import to_json_value
from mangrove.maintenance.progress import format_quantity

if TYPE_CHECKING:
    from mangrove.sql.results import Result


__all__ = [
    "ENGINE_OPTION",
    "format_stats_line",
    "print_result",
    "sql_command",
    "write_json",
]


def print_result(
    result: "Result", limit: int | None = TABLE_ROWS_MAX, draw: Callable[[RenderableType], None] = draw
) -> int:
    """Print the rows or the message of a result, and return the number of printed rows."""
    if not result.has_rows:
        draw(_describe_result(result))
        return 0
    # One more row than is printed, to detect whether there are more.
    rows = list(result.each_row(None if limit is None else limit + 1))
    printed = rows if limit is None else rows[:limit]
    more = "; there are more, use --limit" if len(rows) > len(printed) else ""
    draw(render_rows(result.columns, printed, f"{format_quantity(len(printed), 'row')}{more}"))
    return len(printed)


def write_json(result: "Result", limit: int | None = None) -> int:
    """Write a result as one line of JSON, and return the number of rows."""
    names = result.columns
    rows = [dict(zip(names, map(to_json_value, row), strict=True)) for row in result.each_row(limit)]
    document = {
        "line": result.line, "kind": result.kind, "message": result.message, "version": result.version,
        "columns": list(names), "rows": rows,
    }  # fmt: skip
    sys.stdout.write(json.dumps(document, ensure_ascii=not supports_unicode(sys.stdout)) + "\n")
    return len(rows)


def format_stats_line(result: "Result", rows: int, seconds: float) -> str:
    """Return the row count, duration and scanned files of a statement as one line."""
    files = [
        f"{name}: {format_quantity(read, 'file')} read, {skipped:,} skipped" for name, read, skipped in result.files()
    ]
    engine = "" if result.engine is None else f" on {result.engine.name}"
    return "; ".join([f"line {result.line}: {format_quantity(rows, 'row')} in {seconds:.1f} s{engine}", *files])


def _describe_result(result: "Result") -> str:
    committed = "" if result.version is None else f" (version {result.version})"
    has_version = str(result.version) in result.message
    return result.message + ("" if has_version else committed) if result.message else f"done{committed}"


ENGINE_OPTION = click.option(
    "--engine", type=click.Choice(SQL_ENGINES), help="The SQL engine.  [default: duckdb if it is installed, else spark]"
)


@lake_command(
    "sql",
    "mangrove sql ./lake 'select count(*) from shop.customers'\n"
    "mangrove sql ./lake --file load.sql\n"
    "mangrove sql ./lake 'select * from t where id = :id' --argument id=5\n"
    "echo 'show tables in shop' | mangrove sql ./lake --format csv\n"
    "mangrove sql ./lake 'select * from shop.customers' -o customers.parquet",
)
@click.argument("statements", required=False, metavar="[SQL]")
@click.option("-f", "--file", metavar="FILE", help="Run the statements of a file.")
@click.option(
    "--argument", "arguments", multiple=True, metavar="NAME=VALUE",
    help="Value of the parameter :NAME: a number, true, false or null, else text; '\"5\"' is text.",
)  # fmt: skip
@output_options
@ENGINE_OPTION
def sql_command(
    session: CommandContext,
    lake: str,
    statements: str | None,
    file: str | None,
    arguments: Sequence[str],
    row_format: str | None,
    output: str | None,
    limit: int | None,
    engine: str | None,
) -> None:
    """Run SQL statements, separated by semicolons.

    The dialect is Spark SQL. DuckDB runs it if it is installed, and refuses what
    needs Spark. Stops at the first error. With --json each statement prints one JSON object per
    line; with --format its rows only.
    """
    if session.as_json and row_format is not None and output is None:
        raise InvalidInputError("--format and --json exclude each other; remove one of them")
    written = RowOutput.of(session, row_format, output, limit)
    text = _read_statements(session, statements, file)
    values = {name: _parse_value(value) for name, value in parse_key_values(arguments, "--argument").items()}
    conversation = CancellableSession(session, lake, engine)
    try:
        conversation.run(lambda: _run(session, conversation, text, values or None, written))
    finally:
        if conversation.is_over:
            conversation.abandon()
        conversation.sql_session.close()
        conversation.cancelling.stop()


def _parse_value(text: str) -> object:
    """Return the value of a parameter: a JSON scalar, else the text itself.

    >>> [_parse_value(text) for text in ("5", "1.5", "true", "null", "NaN", '"5"', "[1]")]
    [5, Decimal('1.5'), True, None, 'NaN', '5', '[1]']
    """
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=str)
    except ValueError:
        return text
    return text if isinstance(value, list | dict) else value


def _run(
    session: CommandContext,
    conversation: CancellableSession,
    text: str,
    arguments: Mapping[str, object] | None,
    written: RowOutput,
) -> None:
    began, is_written = time.monotonic(), False
    for result in conversation.script(text, arguments):
        if written.has_one_result and is_written and result.has_rows:
            raise InvalidInputError(f"line {result.line}: a second statement has rows; write them to a file of its own")
        rows = _write(session, result, written)
        # A reader of a pipe gets each result before the next statement runs.
        sys.stdout.flush()
        is_written = is_written or result.has_rows
        if session.with_stats:
            _print_stats(session, format_stats_line(result, rows, time.monotonic() - began))
        began = time.monotonic()
    if conversation.sql_session.in_transaction:
        raise InvalidInputError("the transaction was not committed and was rolled back; add COMMIT")


def _write(session: CommandContext, result: "Result", written: RowOutput) -> int:
    """Write a result and return the number of rows; where only rows are written, messages go to stderr."""
    if session.as_json and written.file is None:
        return write_json(result, written.limit)
    if written.is_table:
        return print_result(result, written.limit)
    if not result.has_rows:
        sys.stderr.write(_describe_result(result) + "\n")
        return 0
    return written.write(result.to_reader(written.limit))


def _print_stats(session: CommandContext, line: str) -> None:
    sys.stderr.write((json.dumps({"statement": line}) if session.as_json else line) + "\n")


def _read_statements(session: CommandContext, statements: str | None, file: str | None) -> str:
    if statements is not None and file is not None:
        raise InvalidInputError("both SQL and --file are given; remove one of them")
    if file is not None:
        path, data = session.file(file)
        return _decode_text(path, data)
    if statements is not None and statements != "-":
        text = statements
    elif statements is None and sys.stdin.isatty():
        raise InvalidInputError("no statement given; give SQL, use --file, or start `mangrove shell`")
    else:
        text = _decode_text("the input", sys.stdin.buffer.read())
    if not text.strip():
        raise InvalidInputError("the input has no statement; give one, such as 'select 1'")
    return text


def _decode_text(what: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{what} is not UTF-8 text; save it as UTF-8") from error

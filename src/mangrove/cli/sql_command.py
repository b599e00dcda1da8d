"""The command that runs SQL: a statement, a file, or what comes on the input stream."""

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from mangrove.cli.command import lake_command
from mangrove.cli.extras import check_installed
from mangrove.cli.session import Session
from mangrove.cli.spark_start import SPARK_MODULES
from mangrove.cli.sql_output import ROWS_SHOWN, show_result, stats_line, write_csv, write_json
from mangrove.errors import InvalidInputError

if TYPE_CHECKING:
    from mangrove.cli.conversation import Conversation
    from mangrove.sql.results import Result

__all__ = ["sql_command"]


@lake_command(
    "sql",
    "mangrove sql ./lake 'select count(*) from shop.customers'\n"
    "mangrove sql ./lake --file load.sql\n"
    "echo 'show tables in shop' | mangrove sql ./lake --csv",
)
@click.argument("statements", required=False, metavar="[SQL]")
@click.option("-f", "--file", metavar="FILE", help="Run the statements of a file.")
@click.option("--csv", "as_csv", is_flag=True, help="Give rows as CSV, with a heading.")
@click.option(
    "--limit", type=click.IntRange(min=0), help=f"At most so many rows.  [default: {ROWS_SHOWN}, in JSON and CSV all]"
)
def sql_command(
    session: Session, lake: str, statements: str | None, file: str | None, as_csv: bool, limit: int | None
) -> None:
    """Run SQL on Spark: statements separated by semicolons, until the first error.

    With --json each statement answers with one object on a line of its own.
    """
    if as_csv and session.as_json:
        raise InvalidInputError("rows are given as CSV or as JSON: leave out --csv or --json")
    text = _text(session, statements, file)
    check_installed("SQL", SPARK_MODULES, "spark")
    from mangrove.cli.conversation import Conversation  # noqa: PLC0415 - Spark takes long to import

    conversation = Conversation(session, lake)
    give: Callable[..., int] = write_csv if as_csv else write_json if session.as_json else show_result
    shown = limit if limit is not None else None if give is not show_result else ROWS_SHOWN
    try:
        conversation.run(lambda: _run(session, conversation, text, lambda result: give(result, shown)))
    finally:
        if conversation.is_over:
            conversation.abandon()
        conversation.talk.close()


def _run(session: Session, conversation: "Conversation", text: str, give: "Callable[[Result], int]") -> None:
    began = time.monotonic()
    for result in conversation.script(text):
        rows = give(result)
        if session.with_stats:
            _say_stats(session, stats_line(result, rows, time.monotonic() - began))
        began = time.monotonic()
    if conversation.talk.in_transaction:
        raise InvalidInputError("a transaction is begun and not ended, so it was rolled back: add COMMIT")


def _say_stats(session: Session, line: str) -> None:
    sys.stderr.write((json.dumps({"statement": line}) if session.as_json else line) + "\n")


def _text(session: Session, statements: str | None, file: str | None) -> str:
    if statements is not None and file is not None:
        raise InvalidInputError("statements are given as an argument or in a file: leave one of them out")
    if file is not None:
        path, data = session.file(file)
        return _decoded(path, data)
    if statements is not None:
        text = statements
    elif sys.stdin.isatty():
        raise InvalidInputError("no statement is given: write one, name a file with --file, or use `mangrove shell`")
    else:
        text = _decoded("the input", sys.stdin.buffer.read())
    if not text.strip():
        raise InvalidInputError("the text holds no statement: write one, such as 'select 1'")
    return text


def _decoded(what: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{what} is not UTF-8 text: save it as UTF-8 and try again") from error

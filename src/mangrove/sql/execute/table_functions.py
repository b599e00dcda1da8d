"""Table functions for changes, deltas, files, history, partitions, streams and table versions."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.sql_port import Frame, SqlEngine
from mangrove.lakehouse.table_snapshot import TableSnapshot
from mangrove.sql.execute.show import (
    InlineResult,
    build_delta_result,
    build_file_result,
    build_history_result,
    build_partition_result,
    build_stream_result,
    build_version_result,
)
from mangrove.sql.parse.tokens import SqlToken, SqlTokenKind, TokenCursor, parse_text_literal
from mangrove.sql.resolver import NameResolver, qualify_name

__all__ = ["TABLE_FUNCTIONS", "TableFunctionCall", "parse_table_function", "run_table_function"]

TABLE_FUNCTIONS: Final = {
    "changes": (2, 3),
    "deltas": (1, 1),
    "files": (1, 1),
    "history": (0, 1),
    "partitions": (1, 1),
    "streams": (1, 1),
    "table_versions": (1, 1),
}
"""The minimum and maximum number of arguments of each function."""
_HISTORY_MAX: Final = 10_000
_AtArgument: TypeAlias = Callable[[int], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class TableFunctionCall:
    """A table function call with its arguments and position."""

    name: str
    arguments: tuple[int | str, ...]
    places: tuple[int, ...]
    """The position of each argument in the text."""
    start: int
    end: int


def parse_table_function(text: str, tokens: list[SqlToken], place: int) -> TableFunctionCall:
    """Return the call that begins at this token index."""
    cursor = TokenCursor(text)
    cursor.tokens, cursor.place = tokens, place
    start, name = cursor.next.start, cursor.expect_single_name().lower()
    arguments: list[int | str] = []
    places: list[int] = []
    cursor.expect("(")
    while not cursor.accept(")"):
        if arguments:
            cursor.expect(",")
        if cursor.next.is_name and cursor.peek().text == "=>":
            cursor.place += 2
        places.append(cursor.next.start)
        arguments.append(_argument(cursor))
    least, most = TABLE_FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        expected = str(least) if least == most else f"{least} or {most}"
        raise InvalidInputError(f"{name} takes {expected}, but {len(arguments)} arguments are given")
    return TableFunctionCall(name, tuple(arguments), tuple(places), start, cursor.peek(-1).end)


def run_table_function(call: TableFunctionCall, resolver: NameResolver, engine: SqlEngine, at: _AtArgument) -> Frame:
    """Return the result as a frame; errors about an argument are raised inside the context that `at` returns."""
    if call.name == "history" and not call.arguments:
        return _to_frame(engine, build_history_result(islice(resolver.history(), _HISTORY_MAX)))
    with at(0):
        table = _table(resolver, str(call.arguments[0]))
    if call.name == "history":
        return _to_frame(engine, build_history_result(islice(resolver.table_history(table.locator), _HISTORY_MAX)))
    if call.name == "changes":
        with at(1):
            before = resolver.at(call.arguments[1]).table(table.locator)._bind(table.target)
        if len(call.arguments) < 3:
            return engine.read_changes(before.state(), table.state())
        with at(2):
            after = resolver.at(call.arguments[2]).table(table.locator)._bind(table.target)
        return engine.read_changes(before.state(), after.state())
    return _to_frame(engine, _ABOUT_TABLES[call.name](table))


def _to_frame(engine: SqlEngine, answer: InlineResult) -> Frame:
    return engine.create_frame(answer.schema, answer.rows)


def _argument(cursor: TokenCursor) -> int | str:
    token = cursor.next
    if token.kind is SqlTokenKind.TEXT:
        cursor.place += 1
        return parse_text_literal(token)
    return cursor.expect_integer()


def _table(resolver: NameResolver, name: str) -> TableSnapshot:
    return resolver.catalog.table(qualify_name(name, resolver.namespace))


_ABOUT_TABLES: Final[dict[str, Callable[[TableSnapshot], InlineResult]]] = {
    "deltas": build_delta_result,
    "files": build_file_result,
    "partitions": build_partition_result,
    "streams": build_stream_result,
    "table_versions": build_version_result,
}

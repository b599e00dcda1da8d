"""The functions that stand in the place of a table: changes, deltas, files, history and partitions."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.handles import LakeTable
from mangrove.model.names import joined_name, split_name
from mangrove.spark.engine import SparkEngine
from mangrove.spark.statements import Frame, rows_frame
from mangrove.sql.answers import Answer, delta_rows, file_rows, history_rows, partition_rows
from mangrove.sql.cursor import Cursor
from mangrove.sql.sight import Sight
from mangrove.sql.tokens import Token, TokenKind, text_value

__all__ = ["FUNCTIONS", "FunctionCall", "call_at", "function_rows"]

FUNCTIONS: Final = {"changes": (2, 3), "deltas": (1, 1), "files": (1, 1), "history": (0, 1), "partitions": (1, 1)}
"""How many arguments each takes at least and at most."""
_HISTORY_MAX: Final = 10_000
_AtArgument: TypeAlias = Callable[[int], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function with its arguments, and where it stands."""

    name: str
    arguments: tuple[int | str, ...]
    places: tuple[int, ...]
    """Where each argument stands."""
    start: int
    end: int


def call_at(text: str, tokens: list[Token], place: int) -> FunctionCall:
    """Return the call that begins at a place in the tokens."""
    cursor = Cursor(text)
    cursor.tokens, cursor.place = tokens, place
    start, name = cursor.next.start, cursor.single_name().lower()
    arguments: list[int | str] = []
    places: list[int] = []
    cursor.expect("(")
    while not cursor.took(")"):
        if arguments:
            cursor.expect(",")
        if cursor.next.is_name and cursor.peek().text == "=>":
            cursor.place += 2
        places.append(cursor.next.start)
        arguments.append(_argument(cursor))
    least, most = FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} or {most}"
        raise InvalidInputError(f"{name} has {len(arguments)} arguments: it takes {wanted}")
    return FunctionCall(name, tuple(arguments), tuple(places), start, cursor.peek(-1).end)


def function_rows(call: FunctionCall, sight: Sight, engine: SparkEngine, at: _AtArgument) -> Frame:
    """Return what the function tells, as Spark's rows; errors about an argument arise in the block that `at` gives."""
    if call.name == "history" and not call.arguments:
        return _told(engine, history_rows(islice(sight.history(), _HISTORY_MAX)))
    with at(0):
        table = _table(sight, str(call.arguments[0]))
    if call.name == "history":
        return _told(engine, history_rows(islice(sight.table_history(table.locator), _HISTORY_MAX)))
    if call.name == "changes":
        with at(1):
            before = sight.at(call.arguments[1]).table(table.locator)
        if len(call.arguments) < 3:
            return engine.changes(before.state(), table.state())
        with at(2):
            after = sight.at(call.arguments[2]).table(table.locator)
        return engine.changes(before.state(), after.state())
    return _told(engine, _ABOUT_TABLES[call.name](table))


def _told(engine: SparkEngine, answer: Answer) -> Frame:
    return rows_frame(engine.session, answer.schema, answer.rows)


def _argument(cursor: Cursor) -> int | str:
    token = cursor.next
    if token.kind is TokenKind.TEXT:
        cursor.place += 1
        return text_value(token)
    return cursor.whole_number()


def _table(sight: Sight, name: str) -> LakeTable:
    parts = split_name(name)
    return sight.catalog.table(joined_name(*(parts if len(parts) > 1 else (sight.namespace, *parts))))


_ABOUT_TABLES: Final[dict[str, Callable[[LakeTable], Answer]]] = {
    "deltas": delta_rows,
    "files": file_rows,
    "partitions": partition_rows,
}

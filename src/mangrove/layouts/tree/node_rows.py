"""The three sections of a node file's rows: system rows, the table of keys, and the write buffer.

system rows    key and value, in any order, before the first row that has neither
key table      that row, with the leftmost child; then keys in order, each with
               the child to its right; then empty rows, N rows in all
write buffer   messages, the oldest first; no value means delete
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, cast

from mangrove.betree.node import Message, Node
from mangrove.errors import FormatError

__all__ = [
    "LAST_TRANSACTION",
    "N_KEYS",
    "N_MESSAGES",
    "Rows",
    "Sections",
    "Texts",
    "key_table",
    "read_newer_rows",
    "read_older_rows",
    "system_section",
    "write_newer_rows",
    "write_older_rows",
]

N_KEYS = "n_keys"
LAST_TRANSACTION = "last_transaction"
N_MESSAGES = "n_messages"

Texts = Sequence[str | None]


class Rows(NamedTuple):
    """The columns of a node file, whatever they are called there."""

    keys: Texts
    values: Texts
    children: Texts
    transactions: Texts
    path: str = ""

    def broken(self, rule: str) -> FormatError:
        """Return the error for a file whose rows break a rule."""
        return FormatError(f"node file {self.path!r} breaks a rule: {rule}. Run `mangrove check`")


class Sections(NamedTuple):
    """What the rows say."""

    system: Mapping[str, str]
    node: Node


def write_newer_rows(node: Node, system: Mapping[str, str], order: int) -> Rows:
    """Return the rows of a node in which each message has the id of its transaction."""
    head, empty = len(system), order - 1 - len(node.keys)
    keys, values, transactions = zip(*node.buffer, strict=True) if node.buffer else ((), (), ())
    return Rows(
        keys=[*system, None, *node.keys, *[None] * empty, *keys],
        values=[*system.values(), None, *node.values, *[None] * empty, *values],
        children=[*[None] * head, *_children(node, order), *[None] * len(keys)],
        transactions=[*[None] * (head + order), *transactions],
    )


def write_older_rows(node: Node, system: Mapping[str, str], order: int) -> Rows:
    """Return the rows of a node whose file has no room for ids of transactions.

    Two system rows of ours say whose messages the last ones of a root are: a
    writer that lost the race needs to know them, and no others.
    """
    if system and node.buffer:
        last = node.buffer[-1].transaction
        count = next((i for i, message in enumerate(reversed(node.buffer)) if message.transaction != last), None)
        count = len(node.buffer) if count is None else count
        system = {**system, LAST_TRANSACTION: last, N_MESSAGES: str(count)}
    return write_newer_rows(node, system, order)._replace(transactions=())


def read_newer_rows(rows: Rows, order: int | None) -> Sections:
    """Return the sections of rows in which every message, and nothing else after the system rows, has a transaction."""
    system, start = system_section(rows)
    transactions = rows.transactions
    end = next((i for i in range(start, len(transactions)) if transactions[i] is not None), len(transactions))
    keys, values, children = key_table(rows, start, end, system, order)
    if None in transactions[end:]:
        raise rows.broken("a row without a transaction lies between messages")
    return Sections(system, _node(rows, keys, values, children, _messages(rows, end, transactions[end:])))


def read_older_rows(rows: Rows, order: int | None) -> Sections:
    """Return the sections of rows in which nothing but its place tells a message from a key."""
    system, start = system_section(rows)
    end = _older_table_end(rows, start, system, order)
    keys, values, children = key_table(rows, start, end, system, order)
    named = {name: value for name, value in system.items() if name not in (LAST_TRANSACTION, N_MESSAGES)}
    count = _number(rows, system, N_MESSAGES) or 0
    others = len(rows.keys) - end - count
    if others < 0:
        raise rows.broken(f"{N_MESSAGES} is {count}, more than the messages that are there")
    transactions = [""] * others + [system.get(LAST_TRANSACTION, "")] * count
    return Sections(named, _node(rows, keys, values, children, _messages(rows, end, transactions)))


def system_section(rows: Rows) -> tuple[dict[str, str], int]:
    """Return the system rows, and where the table of keys starts."""
    start = next((i for i, key in enumerate(rows.keys) if key is None), None)
    if start is None or rows.values[start] is not None:
        raise rows.broken("no row without key and value opens the table of keys")
    system: dict[str, str] = {}
    for key, value in zip(rows.keys[:start], rows.values[:start], strict=True):
        if key is None or value is None or key in system:
            raise rows.broken(f"the system row {key!r} has no value, or comes twice")
        system[key] = value
    return system, start


def key_table(
    rows: Rows, start: int, end: int, system: Mapping[str, str], order: int | None
) -> tuple[Texts, Texts, tuple[str, ...]]:
    """Return keys, values and children of the table of keys that goes from `start` to `end`."""
    count = next((i for i in range(end - start - 1) if rows.keys[start + 1 + i] is None), end - start - 1)
    filled = start + 1 + count
    for column in (rows.keys, rows.values, rows.children):
        if len(column[filled:end]) != list(column[filled:end]).count(None):
            raise rows.broken("a row that is not empty follows the first empty row of the table of keys")
    if order is not None and count > order - 1:
        raise rows.broken(f"it has {count} keys, and a tree of order {order} has at most {order - 1} in a node")
    claimed = _number(rows, system, N_KEYS)
    if claimed is not None and claimed != count:
        raise rows.broken(f"{N_KEYS} is {claimed}, and there are {count} keys")
    children = tuple(child for child in rows.children[start:filled] if child is not None)
    return rows.keys[start + 1 : filled], rows.values[start + 1 : filled], children


def _node(rows: Rows, keys: Texts, values: Texts, children: tuple[str, ...], buffer: tuple[Message, ...]) -> Node:
    known_keys = tuple(key for key in keys if key is not None)
    known_values = tuple(value for value in values if value is not None)
    try:
        return Node(known_keys, known_values, children, buffer)
    except ValueError as error:
        raise rows.broken(str(error)) from None


def _messages(rows: Rows, start: int, transactions: Texts) -> tuple[Message, ...]:
    keys, values = rows.keys[start:], rows.values[start:]
    if None in keys or list(rows.children[start:]).count(None) != len(keys):
        raise rows.broken("a message has a key and no child")
    # Neither a key nor a transaction is None here. A named tuple's own constructor is written in
    # Python, and a buffer of a thousand messages would take half of the reading in it.
    fields = zip(keys, values, transactions, strict=True)
    return cast("tuple[Message, ...]", tuple(map(partial(tuple.__new__, Message), fields)))


def _older_table_end(rows: Rows, start: int, system: Mapping[str, str], order: int | None) -> int:
    """Return where the table of keys ends: by the order, else by what was counted, else by its empty rows."""
    total = len(rows.keys)
    if order is not None:
        if total < start + order:
            raise rows.broken(f"the table of keys has {total - start} rows, and the order is {order}")
        return start + order
    claimed = _number(rows, system, N_KEYS)
    if claimed is None:
        empty = next((i for i in range(start + 1, total) if rows.keys[i] is None), None)
        if empty is None and rows.children[start] is None and total > start + 1:
            raise rows.broken("without the order of the tree its keys cannot be told from its messages")
        childless = next((i for i in range(start + 1, total) if rows.children[i] is None), total)
        end = childless if empty is None else empty
    else:
        end = min(start + 1 + claimed, total)
    return next((i for i in range(end, total) if rows.keys[i] is not None), total)


def _children(node: Node, order: int) -> list[str | None]:
    names: list[str | None] = []
    for child in node.children:
        if not isinstance(child, str):
            raise ValueError("a child has yet to be written: its path is not known")
        names.append(child)
    return names + [None] * (order - len(names))


def _number(rows: Rows, system: Mapping[str, str], name: str) -> int | None:
    text = system.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise rows.broken(f"{name} is {text[:40]!r}, which is not a number")
    return int(text)

"""The rows of node files as the Java programs write them.

TrinityLake   two columns; system rows and keys in one unsorted table, no row that
              parts them, no children
Olympia       three columns and no write buffer; a key that was deleted keeps its
              row, without a value
"""

import re

from mangrove.betree.node import Message, Node
from mangrove.layouts.tree.node_rows import N_KEYS, Rows, Sections, key_table, system_section

__all__ = ["read_olympia_rows", "read_trinitylake_rows"]

_OBJECT_KEY = re.compile(r"[A-Za-z0-9+/]===")


def read_trinitylake_rows(rows: Rows, order: int | None) -> Sections:  # noqa: ARG001
    """Return the sections of a node file of TrinityLake's Java program, with the keys in order.

    A tree of its has one node, however many keys there are: the order says nothing.
    """
    system: dict[str, str] = {}
    objects: dict[str, str] = {}
    for key, value in zip(rows.keys, rows.values, strict=True):
        if key is None or value is None:
            raise rows.broken("a row has no key or no value")
        section = objects if _OBJECT_KEY.match(key) else system
        if key in section:
            raise rows.broken(f"the key {key!r} comes twice")
        section[key] = value
    if system.get(N_KEYS, str(len(objects))) != str(len(objects)):
        raise rows.broken(f"{N_KEYS} is {system[N_KEYS]!r}, and there are {len(objects)} keys")
    keys = sorted(objects)
    return Sections(system, Node(tuple(keys), tuple(objects[key] for key in keys)))


def read_olympia_rows(rows: Rows, order: int | None) -> Sections:
    """Return the sections of a node file of Olympia's Java program.

    A deleted key between two children has to stay, so it becomes what it would
    be in our own files: a row that a message hides.
    """
    system, start = system_section(rows)
    keys, values, children = key_table(rows, start, len(rows.keys), system, order)
    table = [(key, value) for key, value in zip(keys, values, strict=True) if key is not None]
    if not children:
        table = [(key, value) for key, value in table if value is not None]
    try:
        return Sections(
            system,
            Node(
                keys=tuple(key for key, _ in table),
                values=tuple(value or "" for _, value in table),
                children=children,
                buffer=tuple(Message(key, None, "") for key, value in table if value is None),
            ),
        )
    except ValueError as error:
        raise rows.broken(str(error)) from None

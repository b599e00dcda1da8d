"""Where answers go: to a terminal in its width and colours, or as plain lines to a file or a pipe."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

from rich.console import Console, RenderableType

__all__ = ["console_on", "counted", "draw", "speaks_unicode", "time_text", "waiting"]

_UNBOUNDED_COLUMNS = 10_000
"""A pipe has no width: whatever reads it wants whole lines, and cutting them would lose what was asked for."""


def speaks_unicode(stream: TextIO) -> bool:
    """Return whether every character can be written to the stream."""
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


def console_on(stream: TextIO) -> Console:
    """Return a console that writes to the stream, in colour only where a terminal shows it and nobody minds."""
    is_terminal = stream.isatty()
    wide = None if is_terminal or os.environ.get("COLUMNS") else _UNBOUNDED_COLUMNS
    return Console(
        file=stream,
        width=wide,
        color_system="auto" if is_terminal and not os.environ.get("NO_COLOR") else None,
        force_terminal=is_terminal,
        markup=False,
        highlight=False,
        emoji=False,
    )


def draw(drawing: RenderableType) -> None:
    """Show an answer to a person."""
    # A sentence is left to the terminal to break, so that a path in it can be copied whole.
    console_on(sys.stdout).print(drawing, soft_wrap=isinstance(drawing, str))


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on a terminal that something takes a while and cannot say how long; nothing of it stays."""
    if not sys.stderr.isatty():
        yield
        return
    with console_on(sys.stderr).status(what):
        yield


def counted(count: int, thing: str) -> str:
    """Return how many there are of something, with its plural.

    >>> counted(1, "row"), counted(4110, "row")
    ('1 row', '4,110 rows')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def time_text(millis: int) -> str:
    """Return a time as people and programs read it, in UTC; empty where it is not known.

    >>> time_text(1_793_491_200_123)
    '2026-11-01T00:00:00.123Z'
    """
    if not millis:
        return ""
    seconds, rest = divmod(millis, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03}Z"

"""Terminal output: console, colours and spinners."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, RenderableType

__all__ = ["create_console", "draw", "show_spinner", "supports_unicode"]

_UNBOUNDED_COLUMNS = 10_000
"""Width of output to a pipe, so that lines are not wrapped or truncated."""


def supports_unicode(stream: TextIO) -> bool:
    """Return whether the stream can encode every character."""
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


def create_console(stream: TextIO) -> Console:
    """Return a console for the stream, with colour only on a terminal and unless NO_COLOR is set."""
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
    """Print a renderable to stdout."""
    # The terminal wraps plain text, so that a path in it can be copied as a whole.
    create_console(sys.stdout).print(drawing, soft_wrap=isinstance(drawing, str))


@contextmanager
def show_spinner(what: str) -> Iterator[None]:
    """Show a transient spinner on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with create_console(sys.stderr).status(what):
        yield

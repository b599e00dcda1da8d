"""How a process that is a command's own begins: without numpy and pandas, and with streams that never refuse a letter.

Arrow would import numpy and pandas, and they take longer than all the rest.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from io import TextIOWrapper
from types import ModuleType

__all__ = ["do_without_pandas", "write_every_letter"]


class _NotInstalled:
    """A finder that says of some packages that they are not there."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - what import asks of every finder
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"{name} is left out of this process", name=name)
        return None


def do_without_pandas() -> None:
    """Let Arrow work as it does where numpy and pandas are not installed.

    This holds for the whole process, so it is only for a process that is the command's own.
    """
    sys.meta_path.insert(0, _NotInstalled("numpy", "pandas"))


def write_every_letter() -> None:
    """Let the streams of a terminal that knows few letters show the others by their numbers, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

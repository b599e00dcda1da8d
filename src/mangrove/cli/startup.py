"""Process start-up of the command line: deferred imports and stream encoding.

Arrow would import numpy and pandas, and they take longer than all the rest. Its
module of functions comes next: it makes hundreds of them when it is imported, and
most commands call none. Where a command finds out late that it needs Spark, which
needs both, its process begins again.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from io import TextIOWrapper
from threading import RLock
from types import ModuleType
from typing import Any, NoReturn

__all__ = [
    "RestartRequired",
    "block_pandas_import",
    "escape_unencodable_output",
    "require_pandas",
    "restart_process",
    "was_restarted",
]

_VARIABLE = "_MANGROVE_STARTED_AGAIN"


class RestartRequired(BaseException):
    """The command needs pandas, which this process has left out; nothing is committed by what it stops."""


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


class _LateModule(ModuleType):
    """Stands for a module until somebody asks for something in it; threads may ask at the same time."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self._found = spec
        self._lock = RLock()
        self._real: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        with self._lock:
            if self._real is None:
                real = module_from_spec(self._found)
                sys.modules[self._found.name] = real
                assert self._found.loader is not None
                self._found.loader.exec_module(real)
                self._real = real
        return getattr(self._real, name)


class _Later:
    """A finder that puts off one module, and a loader that has nothing to do for it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: ModuleSpec | None = None

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002 - what import asks of every finder
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        self._found = PathFinder.find_spec(name, path)
        loader: Any = self
        return None if self._found is None else ModuleSpec(name, loader)

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002 - what import asks of every loader
        assert self._found is not None
        return _LateModule(self._found)

    def exec_module(self, module: ModuleType) -> None:
        """Leave it for later."""


def block_pandas_import() -> None:
    """Let Arrow load late, and work as it does where numpy and pandas are not installed.

    This holds for the whole process, so it is only for a process that is the command's own.
    """
    sys.meta_path[:0] = [_NotInstalled("numpy", "pandas"), _Later("pyarrow.compute")]


def require_pandas() -> None:
    """Stop the command, so that its process begins again, where pandas was left out of it."""
    if any(isinstance(finder, _NotInstalled) for finder in sys.meta_path):
        raise RestartRequired


def was_restarted() -> bool:
    """Return whether this process has begun before, and must not do without pandas."""
    return _VARIABLE in os.environ


def restart_process() -> NoReturn:
    """Begin the process of the command again, with the same words and with pandas."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execve(  # noqa: S606 - the program that runs already
        sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, _VARIABLE: "1"}
    )


def escape_unencodable_output() -> None:
    """Let the streams of a terminal that knows few letters show the others by their numbers, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

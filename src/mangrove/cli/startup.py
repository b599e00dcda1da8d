"""Process start-up of the command line: deferred imports and stream encoding.

PyArrow imports numpy and pandas, which dominate the start-up time, so their import is
blocked. `pyarrow.compute` is loaded on first use. A command that turns out to need
Spark, and so pandas, restarts the process.
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
    """The command needs pandas, whose import is blocked; raised before anything is committed."""


class _NotInstalled:
    """An import finder that reports some packages as not installed."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the finder protocol
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"the import of {name} is blocked in this process", name=name)
        return None


class _LateModule(ModuleType):
    """A proxy that imports a module on first attribute access; safe for concurrent threads."""

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
    """A finder and loader that defer the import of one module."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: ModuleSpec | None = None

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002 - the finder protocol
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        self._found = PathFinder.find_spec(name, path)
        loader: Any = self
        return None if self._found is None else ModuleSpec(name, loader)

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002 - the loader protocol
        assert self._found is not None
        return _LateModule(self._found)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing; the module is executed on first use."""


def block_pandas_import() -> None:
    """Block the import of numpy and pandas and defer `pyarrow.compute`.

    This affects the whole process, so call it only in the process of the command line.
    """
    sys.meta_path[:0] = [_NotInstalled("numpy", "pandas"), _Later("pyarrow.compute")]


def require_pandas() -> None:
    """Raise RestartRequired if the import of pandas is blocked."""
    if any(isinstance(finder, _NotInstalled) for finder in sys.meta_path):
        raise RestartRequired


def was_restarted() -> bool:
    """Return whether this process was restarted in order to use pandas."""
    return _VARIABLE in os.environ


def restart_process() -> NoReturn:
    """Restart the process with the same arguments and with pandas."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execve(  # noqa: S606 - the current program
        sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, _VARIABLE: "1"}
    )


def escape_unencodable_output() -> None:
    """Escape characters that the terminal's encoding lacks instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

"""Environment variables of the command line, and the extras that commands need."""

import importlib.util
from collections.abc import Sequence

from mangrove.errors import InvalidInputError

__all__ = ["CACHE_BYTES_VARIABLE", "CACHE_VARIABLE", "LAKE_VARIABLE", "check_installed"]

LAKE_VARIABLE = "MANGROVE_LAKE"
"""Environment variable with the default lakehouse."""
CACHE_VARIABLE = "MANGROVE_CACHE"
"""Environment variable with the default cache folder."""
CACHE_BYTES_VARIABLE = "MANGROVE_CACHE_BYTES"
"""Environment variable with the default cache size."""


def check_installed(what: str, modules: Sequence[str], extra: str) -> None:
    """Raise InvalidInputError if a module that `what` requires is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise InvalidInputError(
            f"{what} requires {' and '.join(missing)}, which {are} not installed; "
            f"run pip install 'mangrove-lake[{extra}]'"
        )

"""What some commands need and not everybody installs, with a sentence that says how to get it."""

import importlib.util
from collections.abc import Sequence

from mangrove.errors import InvalidInputError

__all__ = ["check_installed"]


def check_installed(what: str, modules: Sequence[str], extra: str) -> None:
    """Refuse where modules are missing that `what` needs, before anything is done."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        named = f"{' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise InvalidInputError(f"{what} needs {named}: run pip install 'mangrove-lake[{extra}]'")

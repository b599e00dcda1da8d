"""The ids of tables that are staged: one names the table that it was given for, though nothing is kept of it.

Between the staging of a table and the commit that makes it there is only what the client
says. Any id would do there, also that of a table which was dropped and whose files still lie
in its folder. So half of the digits are chance, and the others follow from those and the name.
"""

import hashlib
from typing import Final

from mangrove.model.locators import TableLocator

__all__ = ["is_staged_for", "staged_id"]

_DIGITS: Final = 15


def staged_id(locator: TableLocator, chance: str) -> str:
    """Return an id for a table that is to be called so; `chance` is an id that nobody else has.

    >>> staged_id(TableLocator("shop", "orders"), "0f2f7c70-1234-4000-9000-000000000001")
    '0f2f7c70-1234-8000-8751-89c5edecaa72'
    """
    digits = chance.replace("-", "")
    # Where a UUID says of which kind it is stands an 8: one with a meaning of its own.
    return _with_name(locator, digits[:12] + digits[13 : _DIGITS + 1])


def is_staged_for(locator: TableLocator, table_id: str) -> bool:
    """Return whether an id was given to a table of that name when it was staged."""
    digits = table_id.replace("-", "")
    return table_id == _with_name(locator, digits[:12] + digits[13 : _DIGITS + 1])


def _with_name(locator: TableLocator, chance: str) -> str:
    named = hashlib.sha256(f"{chance} {locator}".encode()).hexdigest()[:_DIGITS]
    found = f"{chance[:12]}8{chance[12:]}8{named}"
    return f"{found[:8]}-{found[8:12]}-{found[12:16]}-{found[16:20]}-{found[20:]}"

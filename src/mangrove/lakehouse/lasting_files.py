"""Which files of a lakehouse, once a version counts them, hold the same bytes for ever: what a cache may remember.

Their names hold an id that is drawn once. Roots, guards and hints are not among
them: expiry writes the first two over, and their names are the same in every
lakehouse. Nor is what others name. See decision 34.
"""

import re
from typing import Final

from mangrove.layouts.deltacat.paths import NODE_FOLDER, is_numbered
from mangrove.layouts.tree.upkeep_files import owns

__all__ = ["is_lasting"]

_DATA_FILE: Final = re.compile(r"data/.+/[^/]*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*\.parquet")


def is_lasting(path: str) -> bool:
    """Return whether a file at `path` can never be followed by another one there.

    >>> is_lasting("mangrove/node/6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8.mpk")
    True
    >>> is_lasting("mangrove/version/00000000000000000007.mpk"), is_lasting("_00100110000000000000000000000000.ipc")
    (False, False)
    """
    return owns(path) or path.startswith(NODE_FOLDER) or is_numbered(path) or _DATA_FILE.fullmatch(path) is not None

"""Table properties of tests."""

from typing import Final

__all__ = ["DATA_FILES_ONLY"]

DATA_FILES_ONLY: Final = {"write.inline-rows-max-bytes": "0"}
"""Every write to the table creates data files; for tests that count, open or damage them."""

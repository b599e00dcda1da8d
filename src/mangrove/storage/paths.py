"""Validation of object paths, prefixes and byte ranges."""

from mangrove.errors import InvalidInputError
from mangrove.model.paths import PATH_BYTES_MAX, SEGMENT_BYTES_MAX, TEMPORARY_PREFIX, check_path, check_prefix

__all__ = ["PATH_BYTES_MAX", "SEGMENT_BYTES_MAX", "TEMPORARY_PREFIX", "check_path", "check_prefix", "check_range"]


def check_range(start: int, length: int | None) -> None:
    """Raise an error for a negative range."""
    if start < 0 or (length is not None and length < 0):
        raise InvalidInputError(f"invalid range of {length} bytes from {start}; both must be at least 0")

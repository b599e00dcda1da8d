"""Validation of object paths, prefixes and byte ranges."""

from mangrove.errors import InvalidInputError
from mangrove.model.paths import PATH_BYTES_MAX, SEGMENT_BYTES_MAX, TEMPORARY_PREFIX, check_path, check_prefix

__all__ = ["PATH_BYTES_MAX", "SEGMENT_BYTES_MAX", "TEMPORARY_PREFIX", "check_path", "check_prefix", "check_range"]


def check_range(start: int, length: int | None) -> None:
    """Refuse a range that lies before the object's first byte."""
    if start < 0 or (length is not None and length < 0):
        raise InvalidInputError(f"the range of {length} bytes from {start} on is negative; give counts from 0 on")

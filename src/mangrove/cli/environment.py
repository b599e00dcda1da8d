"""Environment variables of the command line."""

__all__ = ["CACHE_BYTES_VARIABLE", "CACHE_VARIABLE", "LAKE_VARIABLE"]

LAKE_VARIABLE = "MANGROVE_LAKE"
"""Environment variable with the default lakehouse."""
CACHE_VARIABLE = "MANGROVE_CACHE"
"""Environment variable with the default cache folder."""
CACHE_BYTES_VARIABLE = "MANGROVE_CACHE_BYTES"
"""Environment variable with the default cache size."""

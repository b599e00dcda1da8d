"""Expiry, vacuum, export, conversion and integrity checks for all layouts."""

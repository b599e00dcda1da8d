"""Parsing of SQL statements."""

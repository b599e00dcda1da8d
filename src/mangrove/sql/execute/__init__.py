"""Execution of parsed SQL statements."""

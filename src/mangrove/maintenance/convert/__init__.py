"""Conversion of a lakehouse to another layout or format revision."""

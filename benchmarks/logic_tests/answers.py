"""Comparing rows with the lines in which an engine wrote its answer."""

import math
import re
from typing import Any, Final

from pyspark.sql import Row
from records import Record

__all__ = ["same_rows"]

_ALSO: Final = {"true": ("t", "1"), "false": ("f", "0"), "(empty)": ("", "·"), "1": ("true", "t"), "0": ("false", "f")}
"""How else engines write the same value."""


def same_rows(record: Record, rows: list[tuple[Any, ...]], *, in_any_order: bool = False) -> bool:
    """Return whether the rows are those that the record expects; where no order is asked for, in any order."""
    assert record.expected is not None
    expected = _table(record.expected, record.columns)
    found = [[_shown(value) for value in row] for row in rows]
    if record.columns == 1 and any(len(row) > 1 for row in found):
        expected = [line.split("\t" if "\t" in line else None) for line in record.expected]
    if record.sort == "valuesort":
        expected, found = ([[value] for row in side for value in row] for side in (expected, found))
    if in_any_order or record.sort != "nosort" or not re.search(r"\border\s+by\b", record.sql, re.IGNORECASE):
        expected, found = sorted(expected), sorted(found)
    return len(expected) == len(found) and all(
        len(one) == len(other) and all(map(_same, one, other)) for one, other in zip(expected, found, strict=True)
    )


def _table(lines: tuple[str, ...], columns: int) -> list[list[str]]:
    if columns > 1 and not any("\t" in line for line in lines):
        parts = [line.split() for line in lines]
        if all(len(part) == columns for part in parts):
            return parts
        return [list(lines[start : start + columns]) for start in range(0, len(lines), columns)]
    return [[cell.strip() for cell in line.split("\t")] for line in lines]


def _shown(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case "":
            return "(empty)"
        case list() | dict() | Row():
            return _nested(value)
        case _:
            return str(value).strip()


def _nested(value: object) -> str:
    """Return a list, a map or a struct without quotes and blanks."""
    match value:
        case Row():
            return _nested(value.asDict())
        case dict():
            return "{" + ",".join(f"{name}:{_nested(one)}" for name, one in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_nested, value)) + "]"
        case _:
            return _shown(value)


def _same(expected: str, found: str) -> bool:
    if found in _ALSO:
        return expected == found or expected in _ALSO[found]
    if expected.replace(" ", "") == found.replace(" ", ""):
        return True
    if found[:1] in ("{", "["):
        return re.sub(r"[\s'\"]", "", expected).lower() == re.sub(r"[\s'\"]", "", found).lower()
    try:
        return math.isclose(float(expected), float(found), rel_tol=1e-6)
    except ValueError:
        return expected.rstrip("0").rstrip(":.") == found.rstrip("0").rstrip(":.")

"""Folders of data files that are named after partition values, such as `day=3/`.

Spark reads the values of partition columns from such folders. It therefore prunes files
by filters, joins and subqueries that only Spark sees.

Only values with a plain text have a folder, because other programs decode `%` in paths
in different ways. A file without a folder is read like any other file.
"""

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from mangrove.model.partitioning import Identity, PartitionScheme
from mangrove.model.schema import Schema
from mangrove.model.types import Boolean, DataType, Date, Int16, Int32, Int64, Varchar
from mangrove.model.values import Value

__all__ = ["PartitionFolders"]

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value of null in a folder name, as in Hive and Spark."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_TYPES: Final = (Boolean, Int16, Int32, Int64, Varchar, Date)
"""The types whose values have one text that Spark parses to the same value."""


@dataclass(frozen=True)
class PartitionFolders:
    """The folders of a partition scheme, with one level for each partition field without a transform."""

    scheme: PartitionScheme
    schema: Schema

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """The ids of the columns by their names in folders; empty if one of them has no plain name or type."""
        types = {column.id: column.type for column in self.schema.columns}
        fields = [field for field in self.scheme.fields if isinstance(field.transform, Identity)]
        is_plain = all(_PLAIN.fullmatch(one.name) and isinstance(types.get(one.source_id), _TYPES) for one in fields)
        return {field.name: field.source_id for field in fields} if is_plain else {}

    def build_folder(self, values: tuple[Value | None, ...]) -> str:
        """Return the folder of the partition with these values, or an empty string if one of them has no plain text.

        >>> from mangrove.model.partitioning import parse_partition_scheme
        >>> from mangrove.expressions.schema_text import parse_schema
        >>> schema = parse_schema("day int, city string")
        >>> folders = PartitionFolders(parse_partition_scheme(["day", "bucket(4, city)", "city"], schema), schema)
        >>> folders.build_folder((3, 1, "Lima")), folders.build_folder((3, 1, "New York"))
        ('day=3/city=Lima/', '')
        """
        if not self.columns or len(values) != len(self.scheme.fields):
            return ""
        texts = {
            field.name: _format_value(value, self.schema.column_with_id(field.source_id).type)
            for field, value in zip(self.scheme.fields, values, strict=True)
            if field.name in self.columns
        }
        return "" if None in texts.values() else "".join(f"{name}={text}/" for name, text in texts.items())

    def find_folder(self, location: str, values: tuple[Value | None, ...]) -> str:
        """Return the folder of a file if its location has the one of these values; otherwise an empty string."""
        folder = self.build_folder(values)
        above, _, _ = location.rpartition("/")
        base = f"{above}/".removesuffix(f"/{folder}")
        # Spark reads a column from any other folder with an equals sign above.
        is_there = folder and base != f"{above}/" and "=" not in base.rpartition("/")[2]
        return folder if is_there else ""


def _format_value(value: Value | None, data_type: DataType) -> str | None:
    """Return the text of a value in a folder name, or None if it has none."""
    match value:
        case None:
            return _NULL
        case bool():
            return str(value).lower() if isinstance(data_type, Boolean) else None
        case int():
            return str(value) if isinstance(data_type, Int16 | Int32 | Int64) else None
        case str():
            is_plain = isinstance(data_type, Varchar) and value != _NULL and _PLAIN.fullmatch(value)
            return value if is_plain else None
        case datetime.date() if isinstance(data_type, Date) and not isinstance(value, datetime.datetime):
            return value.isoformat()
        case _:
            return None

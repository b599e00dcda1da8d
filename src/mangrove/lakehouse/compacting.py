"""Compaction of every table that a catalog shows, one after the other, each in a commit of its own.

Somebody else may drop a table while others are being compacted. What is gone needs
nothing, so it stops nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

from mangrove.errors import NotFoundError
from mangrove.model.objects import TableType

if TYPE_CHECKING:
    from mangrove.lakehouse.catalog import Catalog
    from mangrove.lakehouse.handles import LakeTable
    from mangrove.maintenance.progress import Watch
    from mangrove.tables.compaction import CompactionReport

__all__ = ["CompactOptions", "compact_tables", "managed_tables"]


class CompactOptions(TypedDict, total=False):
    """How tables are compacted, where it is not as usual."""

    engine: str | None
    bytes_max: int | None
    files_max: int | None
    full: bool
    watch: Watch


def managed_tables(catalog: Catalog) -> list[LakeTable]:
    """Return the tables whose rows are ours to write, in order of their names."""
    found = (table for namespace in catalog.namespaces() for table in namespace.tables())
    return [table for table in found if table.table_type is TableType.MANAGED]


def compact_tables(tables: list[LakeTable], **options: Unpack[CompactOptions]) -> dict[str, CompactionReport]:
    """Compact tables, and return by their names the reports of those in which there was something to do."""
    reports: dict[str, CompactionReport] = {}
    for table in tables:
        try:
            report = table.compact(**options)
        except NotFoundError:
            if table.catalog.reading().get(table.locator) is not None:
                raise
            continue
        if report.logs:
            reports[str(table)] = report
    return reports

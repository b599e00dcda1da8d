"""What every chapter of the demo needs: who tells it, the lakehouse, where it lies, and how Spark starts."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mangrove.cli.demo_stage import Stage
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.lakehouse import Lakehouse

__all__ = ["Tour", "count"]


@dataclass(frozen=True, slots=True)
class Tour:
    """A walk through the chapters."""

    stage: Stage
    lake: Lakehouse
    folder: Path
    copy: Path
    start_spark: Callable[[], Any]
    open_copy: Callable[[], Lakehouse]


def count(catalog: Catalog, name: str) -> int:
    """Return how many rows a table has."""
    table = catalog.table(name)
    return int(table.to_arrow([table.keys[0]]).num_rows)

"""A pytest plugin for PyIceberg's tests: their REST catalog is the one of Mangrove.

It runs in an environment of PyIceberg, so it imports nothing of this repository.
"""

import os
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

OTHERS = ("hive", "memory_catalog", "sqlite", "spark")
"""Parts of the names of fixtures that are other catalogs, or need more than a REST catalog."""
PREPARED = "default.test_"
"""The beginning of the names of tables that PyIceberg's own environment prepares with Spark."""

_open = RestCatalog.__init__


def _open_mangrove(self: RestCatalog, name: str, **properties: Any) -> None:
    if "localhost:8181" in str(properties.get("uri")):
        properties |= {"uri": os.environ["MANGROVE_REST_ADDRESS"], "token": os.environ["MANGROVE_REST_TOKEN"]}
    _open(self, name, **properties)


RestCatalog.__init__ = _open_mangrove  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    """Create the namespace and the table with snapshots that the tests assume."""
    del config
    catalog = RestCatalog("rest", uri="http://localhost:8181")
    catalog.create_namespace_if_not_exists("default")
    rows = pa.table({"number": pa.array([1], pa.int32())})
    table = catalog.create_table_if_not_exists("default.test_table_snapshot_operations", rows.schema)
    for _ in range(5):
        table.append(rows)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of REST catalogs."""
    other = [one for one in items if _needs_others(one)]
    items[:] = [one for one in items if one not in other]
    config.hook.pytest_deselected(items=other)


def _needs_others(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    values = (
        []
        if not hasattr(item, "callspec")
        else [str(getattr(one, "name", "")) for one in item.callspec.params.values()]
    )
    return any(other in name for name in (*item.fixturenames, *values) for other in OTHERS)

"""Run by a Python 3.10 that has DeltaCAT: reads tables of catalogs as it is asked to, line by line, and appends rows.

DeltaCAT takes longer to import than all that is asked of it, so one process answers everything.
"""

import json
import sys
import traceback
from typing import Any

import pyarrow as pa
from deltacat.catalog.main import impl as catalogs  # type: ignore[import-not-found]
from deltacat.catalog.model.properties import CatalogProperties  # type: ignore[import-not-found]
from deltacat.storage.main import impl as storage  # type: ignore[import-not-found]
from deltacat.types.media import DatasetType  # type: ignore[import-not-found]


def answer(root: str, namespace: str, table: str, appended: "dict[str, Any] | None") -> "dict[str, Any]":
    catalog = CatalogProperties(root=root)
    if appended:
        rows = pa.table({name: [value] for name, value in appended.items()})
        catalogs.write_to_table(rows, table, namespace=namespace, inner=catalog, mode="append")
    read = catalogs.read_table(
        table, namespace=namespace, inner=catalog, read_as=DatasetType.PYARROW, distributed_dataset_type=None
    )
    deltas = storage.list_deltas(namespace, table, catalog=catalog).all_items()
    return {
        "namespaces": sorted(one.namespace for one in storage.list_namespaces(catalog=catalog).all_items()),
        "tables": sorted(one.table_name for one in storage.list_tables(namespace, catalog=catalog).all_items()),
        "positions": sorted(delta.stream_position for delta in deltas),
        "rows": read.to_pylist(),
    }


if __name__ == "__main__":
    for line in sys.stdin:
        try:
            said: dict[str, Any] = {"answer": answer(**json.loads(line))}
        except Exception:  # noqa: BLE001 - whatever DeltaCAT raises is what the test shows
            said = {"failed": traceback.format_exc()}
        print("@" + json.dumps(said), flush=True)

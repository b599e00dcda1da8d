"""Run by a Python 3.10 that has DeltaCAT: reads a table of a catalog, and appends a row to it if told so."""

import json
import sys

import pyarrow as pa
from deltacat.catalog.main import impl as catalogs  # type: ignore[import-not-found]
from deltacat.catalog.model.properties import CatalogProperties  # type: ignore[import-not-found]
from deltacat.storage.main import impl as storage  # type: ignore[import-not-found]
from deltacat.types.media import DatasetType  # type: ignore[import-not-found]

if __name__ == "__main__":
    root, namespace, table, appended = sys.argv[1:]
    catalog = CatalogProperties(root=root)
    if appended:
        row = json.loads(appended)
        rows = pa.table({name: [value] for name, value in row.items()})
        catalogs.write_to_table(rows, table, namespace=namespace, inner=catalog, mode="append")
    read = catalogs.read_table(
        table, namespace=namespace, inner=catalog, read_as=DatasetType.PYARROW, distributed_dataset_type=None
    )
    deltas = storage.list_deltas(namespace, table, catalog=catalog).all_items()
    found = {
        "namespaces": sorted(one.namespace for one in storage.list_namespaces(catalog=catalog).all_items()),
        "tables": sorted(one.table_name for one in storage.list_tables(namespace, catalog=catalog).all_items()),
        "positions": sorted(delta.stream_position for delta in deltas),
        "rows": read.to_pylist(),
    }
    print(json.dumps(found))

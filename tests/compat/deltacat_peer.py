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
from deltacat.storage.model.partition import PartitionKey, PartitionScheme  # type: ignore[import-not-found]
from deltacat.storage.model.schema import Schema  # type: ignore[import-not-found]
from deltacat.storage.model.transform import IdentityTransform  # type: ignore[import-not-found]
from deltacat.storage.model.types import DeltaType, LifecycleState  # type: ignore[import-not-found]
from deltacat.types.media import DatasetType, StorageType  # type: ignore[import-not-found]


def read_by_partition(root: str, namespace: str, table: str) -> "dict[str, Any]":
    """Read a partitioned table through DeltaCAT's storage interface."""
    catalog = CatalogProperties(root=root)
    rows = []
    for partition in storage.list_partitions(namespace, table, catalog=catalog).all_items():
        deltas = storage.list_partition_deltas(partition, include_manifest=True, catalog=catalog).all_items()
        for delta in deltas:
            pieces = storage.download_delta(delta, storage_type=StorageType.LOCAL, catalog=catalog)
            rows += [row for piece in pieces for row in piece.to_pylist()]
    return {"rows": rows}


def write_partitioned(root: str, namespace: str, table: str) -> "dict[str, Any]":
    """Create a partitioned table with two partitions, as DeltaCAT's own tests do."""
    catalog = CatalogProperties(root=root)
    schema = Schema.of(pa.schema([("day", pa.int32()), ("id", pa.int64())]))
    scheme = PartitionScheme.of([PartitionKey.of(["day"], transform=IdentityTransform.of())], scheme_id="days")
    storage.create_namespace(namespace, catalog=catalog)
    storage.create_table_version(
        namespace, table, schema=schema, partition_scheme=scheme, lifecycle_state=LifecycleState.ACTIVE, catalog=catalog
    )
    stream = storage.get_stream(namespace, table, catalog=catalog)
    for day in (1, 2):
        staged = storage.stage_partition(stream, [day], partition_scheme_id=scheme.id, catalog=catalog)
        partition = storage.commit_partition(staged, catalog=catalog)
        rows = pa.table({"day": pa.array([day], pa.int32()), "id": [10 * day]})
        delta = storage.stage_delta(rows, partition, DeltaType.APPEND, schema=schema, catalog=catalog)
        storage.commit_delta(delta, catalog=catalog)
    return {}


def read_versions(root: str, namespace: str, table: str) -> "dict[str, Any]":
    """Return the state, streams and rows of each version of a table, and the version that is read by name."""
    catalog = CatalogProperties(root=root)
    versions = {}
    for one in storage.list_table_versions(namespace, table, catalog=catalog).all_items():
        number = one.table_version
        streams = storage.list_streams(namespace, table, number, catalog=catalog).all_items()
        read = catalogs.read_table(
            table, namespace=namespace, table_version=number, inner=catalog, read_as=DatasetType.PYARROW,
            distributed_dataset_type=None,
        )  # fmt: skip
        versions[number] = {
            "state": one.state.value,
            "streams": sorted([stream.stream_id, stream.state.value] for stream in streams),
            "rows": read.to_pylist(),
        }
    active = storage.get_latest_active_table_version(namespace, table, catalog=catalog)
    return {"versions": versions, "active": active.table_version}


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
            question = json.loads(line)
            run = {
                "read_by_partition": read_by_partition,
                "read_versions": read_versions,
                "write_partitioned": write_partitioned,
            }
            said: dict[str, Any] = {"answer": run.get(question.pop("run", ""), answer)(**question)}
        except Exception:  # noqa: BLE001 - whatever DeltaCAT raises is what the test shows
            said = {"failed": traceback.format_exc()}
        print("@" + json.dumps(said), flush=True)

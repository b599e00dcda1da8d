"""Objects refuse what no layout could store or no reader could mean."""

import dataclasses
import datetime
import pickle
from typing import Any

import pytest

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.model.locators import Kind
from mangrove.model.manifests import ColumnStatistics, DataFile, FileKind, Manifest
from mangrove.model.objects import (
    Delta,
    DeltaType,
    NamespaceEntry,
    Object,
    Partition,
    SharedTransactionEntry,
    Stream,
    TableEntry,
    TableType,
    TableVersion,
    ViewEntry,
    kind_of,
)
from mangrove.model.partitioning import Days, Identity, PartitionField, PartitionScheme
from mangrove.model.schema import Schema
from mangrove.model.settings import LakehouseSettings
from mangrove.model.types import Column, Int64, TimestampTz, Varchar

SCHEMA = Schema((Column(1, "order_id", Int64(), nullable=False), Column(2, "ts", TimestampTz())))
OBJECTS: list[tuple[Kind, Object]] = [
    (Kind.LAKEHOUSE, LakehouseSettings()),
    (Kind.NAMESPACE, NamespaceEntry("n1", "sales", {"owner": "ana"})),
    (Kind.TABLE, TableEntry("t1", "n1", "orders")),
    (Kind.VIEW, ViewEntry("v1", "daily", "select 1", reads=("sales.orders",))),
    (Kind.SHARED_TRANSACTION, SharedTransactionEntry("load", 4, 1, 2)),
    (Kind.TABLE_VERSION, TableVersion(1, SCHEMA, keys=(1,))),
    (Kind.STREAM, Stream("s1")),
    (Kind.PARTITION, Partition("p1", (datetime.date(2026, 1, 1), None), "1")),
    (Kind.DELTA, Delta(DeltaType.APPEND, Manifest((DataFile("data/a.parquet", 10, 1),)))),
]


@pytest.mark.parametrize(("kind", "value"), OBJECTS)
def test_every_object_has_a_kind_and_is_a_value(kind: Kind, value: Object) -> None:
    assert kind_of(value) is kind
    assert pickle.loads(pickle.dumps(value)) == value
    assert hash(dataclasses.replace(value)) == hash(value)


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (NamespaceEntry, {"id": "n1", "name": "a b"}),
        (NamespaceEntry, {"id": "", "name": "a"}),
        (TableEntry, {"id": "t1", "namespace_id": "n1", "name": "t", "location": "s3://b/t"}),
        (TableEntry, {"id": "t1", "namespace_id": "n1", "name": "t", "keys": (1,)}),
        (TableEntry, {"id": "t1", "namespace_id": "n1", "name": "t", "latest_table_version": 0}),
        (ViewEntry, {"id": "v1", "name": "v", "sql": " "}),
        (ViewEntry, {"id": "v1", "name": "v", "sql": "select 1", "reads": ("a..b",)}),
        (TableVersion, {"version": 0, "schema": SCHEMA}),
        (TableVersion, {"version": 1, "schema": SCHEMA, "keys": (3,)}),
        (TableVersion, {"version": 1, "schema": SCHEMA, "keys": (1, 1)}),
        (TableVersion, {"version": 1, "schema": None, "keys": (1,)}),
        (TableVersion, {"version": 1, "schema": SCHEMA, "earlier_schemas": (SCHEMA,)}),
        (
            TableVersion,
            {
                "version": 1,
                "schema": SCHEMA,
                "partition_scheme": PartitionScheme((PartitionField(1, Days(), "order_id_days"),)),
            },
        ),
        (Stream, {"id": "s|1"}),
        (Partition, {"id": "p1", "values": (float("nan"),)}),
        (Partition, {"id": "p1", "values": ([1],)}),
        (Delta, {"type": DeltaType.APPEND, "replaces_through": 3}),
        (Delta, {"type": DeltaType.APPEND, "position": 0}),
        (SharedTransactionEntry, {"name": "a", "base_version": 1, "began_at_millis": 2, "expires_at_millis": 1}),
        (DataFile, {"location": "/absolute", "size_bytes": 1, "row_count": 1}),
        (DataFile, {"location": "", "size_bytes": 1, "row_count": 1}),
        (DataFile, {"location": "a", "size_bytes": -1, "row_count": 1}),
        (DataFile, {"location": "a", "size_bytes": 1, "row_count": 1, "applies_to": "b"}),
        (
            DataFile,
            {
                "location": "a",
                "size_bytes": 1,
                "row_count": 1,
                "statistics": (ColumnStatistics(2), ColumnStatistics(1)),
            },
        ),
        (ColumnStatistics, {"column_id": 1, "minimum": 2, "maximum": 1}),
        (ColumnStatistics, {"column_id": 1, "minimum": 1, "maximum": "a"}),
        (ColumnStatistics, {"column_id": 1, "null_count": -1}),
        (
            ColumnStatistics,
            {
                "column_id": 1,
                "minimum": datetime.datetime(2020, 1, 1),
                "maximum": datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC),
            },
        ),
    ],
)
def test_an_invalid_object_is_rejected(make: type[Any], arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        make(**arguments)


def test_an_external_table_requires_a_location_and_a_format() -> None:
    table = TableEntry("t1", "n1", "t", TableType.EXTERNAL, "PARQUET", location="s3://b/t/", schema=SCHEMA, keys=(1,))
    assert table.schema == SCHEMA


def test_a_table_version_finds_its_earlier_schemes_by_id() -> None:
    newer = Schema((*SCHEMA.columns, Column(3, "note", Varchar())), schema_id=1)
    by_day = PartitionScheme((PartitionField(2, Days(), "ts_days"),), "1")
    by_id = PartitionScheme((PartitionField(1, Identity(), "order_id"),), "0")
    version = TableVersion(
        1, newer, earlier_schemas=(SCHEMA,), partition_scheme=by_day, earlier_partition_schemes=(by_id,)
    )
    assert version.partition_scheme_with_id("0") is by_id
    with pytest.raises(NotFoundError, match="'x'"):
        version.partition_scheme_with_id("x")


def test_statistics_are_found_by_column_id() -> None:
    known = ColumnStatistics(2, null_count=0, minimum=1, maximum=9)
    file = DataFile("a", 1, 1, FileKind.DATA, statistics=(ColumnStatistics(1), known))
    assert file.statistics_of(2) is known
    assert file.statistics_of(3) is None


def test_a_manifest_adds_up_its_files() -> None:
    manifest = Manifest((DataFile("a", 10, 1), DataFile("b", 20, 2)))
    assert (manifest.size_bytes, manifest.row_count) == (30, 3)


def test_bounds_with_a_zone_are_stored_in_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    kept = ColumnStatistics(1, minimum=datetime.datetime(2026, 1, 1, 1, tzinfo=zone)).minimum
    assert kept == datetime.datetime(2025, 12, 31, 23, tzinfo=datetime.UTC)
    assert isinstance(kept, datetime.datetime)
    assert kept.tzinfo is datetime.UTC

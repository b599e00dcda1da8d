"""Nanosecond timestamps as Iceberg clients read and write them, which needs format version 3."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from starlette.testclient import TestClient
from tests.iceberg.iceberg_client import Client
from tests.rest.conftest import TOKEN

import mangrove
from mangrove.errors import InvalidInputError
from mangrove.iceberg.filters import to_pruning_predicate
from mangrove.iceberg.values import decode_bound, encode_bound
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.partitioning import Bucket, transform_value
from mangrove.model.types import Timestamp, TimestampNs, TimestampTzNs
from mangrove.model.values import timestamp_of_micros
from mangrove.server.access import Access
from mangrove.server.app import build_app

NANOS = 1_700_000_000_123_456_789
COLUMNS = "id bigint, at timestamp_ns, seen timestamptz_ns"
V3 = {"format-version": "3", "write.inline-rows-max-bytes": "0"}


@pytest.fixture(params=["tree", "deltacat"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lakehouse:
    lake = mangrove.create(tmp_path / "lake", layout=request.param)
    lake.create_namespace("n")
    return lake


@pytest.fixture
def client(lake: Lakehouse) -> TestClient:
    app = build_app(lake, Access("127.0.0.1", TOKEN, is_writable=True))
    return TestClient(app, base_url="http://127.0.0.1/iceberg", headers={"Authorization": f"Bearer {TOKEN}"})


def rows_of(*nanos: int) -> pa.Table:
    at = pa.array(nanos, pa.timestamp("ns"))
    return pa.table({"id": pa.array(nanos), "at": at, "seen": at.cast(pa.timestamp("ns", "UTC"))})


def create(client: TestClient, version: str, kind: str) -> Any:
    field = {"id": 1, "name": "at", "type": kind, "required": False}
    body = {
        "name": "t",
        "schema": {"type": "struct", "schema-id": 0, "fields": [field]},
        "properties": {"format-version": version},
    }
    return client.post("v1/namespaces/n/tables", json=body)


@pytest.mark.parametrize("partition_by", [[], ["days(at)"], ["hours(seen)"], ["bucket(4, at)"], ["at"], ["years(at)"]])
def test_pyiceberg_reads_all_digits_of_any_partition(lake: Lakehouse, partition_by: list[str]) -> None:
    table = lake.create_table("n.t", COLUMNS, partition_by=partition_by, properties=V3)
    for nanos in (NANOS, NANOS + 1, -1):
        table.append(rows_of(nanos))
    table.delete(f"id = {NANOS + 1}")
    published = StaticTable.from_metadata(table.iceberg())
    assert [str(field.field_type) for field in published.schema().fields] == ["long", "timestamp_ns", "timestamptz_ns"]
    read = published.scan().to_arrow()
    for name in ("at", "seen"):
        assert set(read[name].cast(pa.int64()).to_pylist()) == {-1, NANOS}


def test_a_table_of_format_version_2_is_not_published(lake: Lakehouse, client: TestClient) -> None:
    table = lake.create_table("n.t", COLUMNS)
    table.append(rows_of(NANOS))
    with pytest.raises(InvalidInputError, match="set the table property format-version to 3"):
        table.iceberg()
    refused = client.get("v1/namespaces/n/tables/t")
    assert (refused.status_code, "format-version to 3" in refused.text) == (406, True)
    table.alter({"format-version": "3"})
    assert client.get("v1/namespaces/n/tables/t").status_code == 200
    lowered = lake.table("n.t")
    lowered.alter({"format-version": "2"})
    assert client.get("v1/namespaces/n/tables/t").status_code == 406


@pytest.mark.parametrize(("kind", "own"), [("timestamp_ns", TimestampNs()), ("timestamptz_ns", TimestampTzNs())])
def test_clients_create_tables_of_format_version_3_only(
    lake: Lakehouse, client: TestClient, kind: str, own: object
) -> None:
    refused = create(client, "2", kind)
    assert (refused.status_code, "format-version to 3" in refused.text) == (400, True)
    assert create(client, "3", kind).status_code == 200
    schema = lake.table("n.t").schema
    assert schema is not None
    assert schema.columns[0].type == own


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [("variant", "use string with JSON"), ("geometry", "use binary with WKB"), ("unknown", "when its type is known")],
)
def test_types_that_are_refused_name_what_to_use(client: TestClient, kind: str, remedy: str) -> None:
    refused = create(client, "3", kind)
    assert (refused.status_code, remedy in refused.text) == (400, True), refused.text
    assert create(client, "3", "string").status_code == 200
    fields = [
        {"id": 1, "name": "at", "type": "string", "required": False},
        {"id": 2, "name": "new", "type": kind, "required": False},
    ]
    schema = {"type": "struct", "schema-id": 1, "fields": fields}
    updates = [
        {"action": "add-schema", "schema": schema, "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    refused = client.post("v1/namespaces/n/tables/t", json={"requirements": [], "updates": updates})
    assert (refused.status_code, remedy in refused.text) == (400, True), refused.text


def test_files_of_clients_keep_all_digits_and_their_bounds(lake: Lakehouse) -> None:
    table = lake.create_table("n.t", COLUMNS, partition_by=["days(at)"], properties=V3)
    table.append(rows_of(NANOS))
    client = Client(lake, "n.t")
    client.commit([client.rows(rows_of(NANOS + 1).to_pylist(), [NANOS // 86_400_000_000_000])])
    read = lake.table("n.t").to_arrow()
    assert set(read["seen"].cast(pa.int64()).to_pylist()) == {NANOS, NANOS + 1}
    scan = lake.table("n.t").scan("at > '2023-11-14 22:13:20.123456789'")
    assert scan.to_arrow()["id"].to_pylist() == [NANOS + 1]
    assert "reads 1 of 2 files" in str(scan.explain())
    assert lake.maintenance.check().problems == ()


def test_a_file_of_a_client_in_another_partition_is_refused(lake: Lakehouse) -> None:
    lake.create_table("n.t", COLUMNS, partition_by=["days(at)"], properties=V3)
    client = Client(lake, "n.t")
    with pytest.raises(InvalidInputError, match="has rows of partition"):
        client.commit([client.rows(rows_of(-1).to_pylist(), [0])])


def test_the_server_prunes_files_by_nanoseconds(lake: Lakehouse) -> None:
    table = lake.create_table("n.t", COLUMNS, properties=V3)
    schema = table.schema
    assert schema is not None
    for column, text in (("at", "2023-11-14T22:13:20.123456789"), ("seen", "2023-11-14T23:13:20.123456789+01:00")):
        expression = {"type": "gt", "term": column, "value": text}
        assert str(NANOS) in repr(to_pruning_predicate(expression, schema))
    unknown = {"type": "gt", "term": "at", "value": "yesterday"}
    assert "ConstantPredicate(holds=True)" in repr(to_pruning_predicate(unknown, schema))


@pytest.mark.parametrize("nanos", [-(2**63), -1, 0, NANOS, 2**63 - 1])
def test_bounds_are_eight_bytes_of_nanoseconds(nanos: int) -> None:
    for data_type in (TimestampNs(), TimestampTzNs()):
        encoded = encode_bound(nanos, data_type)
        assert encoded == nanos.to_bytes(8, "little", signed=True)
        assert decode_bound(encoded, data_type, "a file") == nanos


def test_the_hash_of_a_bucket_is_that_of_the_specification() -> None:
    nanos = 1_510_871_468_000_001_001
    count = 2**31 - 1
    expected = transform_value(Bucket(count), Timestamp(), timestamp_of_micros(nanos // 1_000))
    assert transform_value(Bucket(count), TimestampNs(), nanos) == expected == (-1207196810 & 0x7FFFFFFF) % count


def test_duckdb_reads_published_files_with_all_digits(lake: Lakehouse) -> None:
    table = lake.create_table("n.t", COLUMNS, properties=V3)
    table.append(rows_of(NANOS))
    (task,) = StaticTable.from_metadata(table.iceberg()).scan().plan_files()
    path = task.file.file_path.removeprefix("file://")
    read = duckdb.connect().sql(f"select * from read_parquet('{path}')").to_arrow_table()
    assert read["at"].cast(pa.int64()).to_pylist() == read["seen"].cast(pa.int64()).to_pylist() == [NANOS]

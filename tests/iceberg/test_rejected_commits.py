"""Files that an Iceberg client may not commit: those of others, and those that are not what their manifest says."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.iceberg.iceberg_client import Client, Written

import mangrove
from mangrove.effects import wait_for_pending
from mangrove.errors import InvalidInputError
from mangrove.expressions.schema_text import parse_schema
from mangrove.iceberg.commit.manifest_reader import ClientFileIO, TableLocation
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.schema import Schema
from mangrove.model.types import Column, Int64, Struct, inner_columns

COLUMNS = "id bigint not null, code varchar(3), small smallint, fixed_text char(2), inner struct<a: int not null>"


@pytest.fixture
def client(tmp_path: Path) -> Client:
    lake = mangrove.create(f"memory://{tmp_path.parent.name}-{tmp_path.name}")
    lake.create_namespace("shop")
    lake.create_table("shop.orders", COLUMNS, checks={"positive": "id > 0"})
    return Client(lake, "shop.orders")


def is_refused(client: Client, written: Written, told: str) -> None:
    """Check that a file is refused, and that nothing has changed by that."""
    lake = client.lake
    request = client.request([written])
    wait_for_pending(lake.effects, 60.0)
    before = lake.version, [*lake.effects.store.list()]
    with pytest.raises(InvalidInputError, match=told):
        client.send(request)
    assert (lake.version, [*lake.effects.store.list()]) == before


def row(**values: Any) -> dict[str, Any]:
    return {"id": 1, "code": "abc", "small": 1, "fixed_text": "xy", "inner": {"a": 1}, **values}


def test_valid_rows_are_accepted(client: Client) -> None:
    client.commit([client.rows([row(), row(id=2, code=None, small=None, fixed_text=None, inner=None)])])
    assert client.ids() == client.seen_ids() == [1, 2]


WIDE = parse_schema("id bigint, code string, small int, fixed_text string, inner struct<a: int>")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"id": None}, "null"),
        ({"id": 0}, "positive"),
        ({"code": "abcd"}, "code"),
        ({"small": 2**15}, "small"),
        ({"fixed_text": "x"}, "pad them"),
        ({"fixed_text": "xyz"}, "fixed_text"),
        ({"inner": {"a": None}}, "null"),
    ],
)
def test_rows_that_append_rejects_are_rejected(client: Client, values: dict[str, Any], told: str) -> None:
    is_refused(client, client.rows([row(), row(**values)], schema=WIDE), told)


@pytest.mark.parametrize(
    ("told_of_it", "refusal"),
    [
        ({"size_bytes": 5}, "bytes, but its manifest has 5"),
        ({"row_count": 7}, "1 rows, but its manifest has 7"),
        ({"data": b"no Parquet at all"}, "not a Parquet file"),
        ({"data": b""}, "not a Parquet file"),
        ({"path": "data/rows.orc"}, r"does not end in \.parquet"),
        ({"path": "metadata/rows.parquet"}, "in the metadata folder"),
    ],
)
def test_a_file_that_contradicts_its_manifest_is_rejected(
    client: Client, told_of_it: dict[str, Any], refusal: str
) -> None:
    is_refused(client, client.rows([row()], **told_of_it), refusal)


def without_ids(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def test_a_file_keeps_the_ids_of_its_columns(client: Client) -> None:
    is_refused(client, client.rows([row()], data=without_ids([row()])), "without field ids")


def test_a_file_without_field_ids_of_nested_columns_is_rejected(client: Client) -> None:
    sink = pa.BufferOutputStream()
    inner = pa.field("inner", pa.struct([pa.field("a", pa.int32())]), metadata={b"PARQUET:field_id": b"5"})
    pq.write_table(pa.Table.from_pylist([{"inner": {"a": 1}}], schema=pa.schema([inner])), sink)
    is_refused(client, client.rows([row()], data=sink.getvalue().to_pybytes()), "without field ids")


def test_a_file_with_an_unknown_column_is_rejected(client: Client) -> None:
    known = parse_schema(COLUMNS).columns
    later = Column(99, "later", Int64())
    inside = replace(known[-1], type=Struct((*inner_columns(known[-1].type), later)))
    is_refused(client, client.rows([{**row(), "later": 1}], schema=Schema((*known, later))), "add the column first")
    changed = {**row(), "inner": {"a": 1, "later": 1}}
    is_refused(client, client.rows([changed], schema=Schema((*known[:-1], inside))), "add the column first")


def test_columns_of_other_types_are_refused(client: Client) -> None:
    schema = parse_schema("id string, code string")
    is_refused(client, client.rows([{"id": "1", "code": "a"}], schema=schema), "id")


def test_invalid_statistics_are_rejected(client: Client) -> None:
    written = client.rows([row()])
    written.file[10] = {1: b"\x01"}
    assert written.file.lower_bounds == {1: b"\x01"}
    is_refused(client, written, "has the invalid bound 01")


@pytest.mark.parametrize(
    "address_of",
    [
        lambda location: location.rpartition("/")[0] + "/another-table/data/a.parquet",
        lambda location: f"{location}/../another-table/a.parquet",
        lambda location: f"{location}/data/./a.parquet",
        lambda _: "s3://another-bucket/a.parquet",
        lambda _: "/etc/passwd",
        lambda location: f"{location}-longer/a.parquet",
        lambda location: f"{location}/",
    ],
)
def test_a_file_outside_of_the_table_is_never_opened(client: Client, address_of: Callable[[str], str]) -> None:
    written = client.rows([row()], address=address_of(client.shown.folder))
    is_refused(client, written, "is not below|segment|does not end")
    place = TableLocation(client.shown.folder, client.lake.table("shop.orders").id)
    with pytest.raises(InvalidInputError):
        ClientFileIO(client.lake.effects.store, place).manifests(written.file.file_path)


def test_a_missing_file_is_rejected(client: Client) -> None:
    written = client.rows([row()], address=f"{client.shown.folder}/data/nowhere.parquet")
    is_refused(client, written, "does not exist")


def test_a_file_that_the_table_already_contains_is_rejected(client: Client) -> None:
    written = client.rows([row()])
    client.commit([written])
    request = client.request([], removed=[written.address])
    client.send(request)
    client.commit([written])
    with pytest.raises(InvalidInputError, match="is listed twice"):
        client.commit([written])
    assert client.ids() == [1]


def test_position_deletes_out_of_range_are_rejected(client: Client) -> None:
    first = client.rows([row()])
    client.commit([first])
    with pytest.raises(InvalidInputError, match="out of range"):
        client.commit([client.numbers({first.address: [1]})])
    with pytest.raises(InvalidInputError, match="out of range"):
        client.commit([client.numbers({first.address: [-1]})])


@pytest.mark.parametrize("named", ["data/gone.parquet", "../another-table/data/a.parquet"])
def test_row_numbers_of_files_that_are_none_of_the_table_are_refused(client: Client, named: str) -> None:
    client.commit([client.rows([row()])])
    is_refused(client, client.numbers({f"{client.shown.folder}/{named}": [0]}), "not a file of shop.orders")


@pytest.mark.parametrize("name", ["a#b.parquet", "a?b=c.parquet"])
def test_a_file_name_that_iceberg_readers_truncate_is_rejected(client: Client, name: str) -> None:
    is_refused(client, client.rows([row()], path=f"data/{name}"), "contains '#' or")


@pytest.mark.parametrize("data", [b"", b"Obj\x01", b"Obj\x01" + bytes(100), b"x" * 1000])
def test_a_manifest_list_that_is_not_avro_is_rejected(client: Client, data: bytes) -> None:
    lake: Lakehouse = client.lake
    request = client.request([client.rows([row()])])
    listed = request["updates"][0]["snapshot"]["manifest-list"]
    lake.effects.store.put(
        f"data/{lake.table('shop.orders').id}/{listed.removeprefix(client.shown.folder + '/')}", data
    )
    before = lake.version
    with pytest.raises(InvalidInputError, match="not an Avro file"):
        client.send(request)
    assert lake.version == before


def test_uri_schemes_of_other_clients_resolve_to_the_same_location() -> None:
    place = TableLocation("s3://bucket/lake/data/t1", "t1")
    for spelled in ("s3a://bucket/lake/data/t1/data/a.parquet", "s3n://bucket/lake/data/t1/data/a.parquet"):
        assert place.path_of(spelled) == "data/t1/data/a.parquet"
    local = TableLocation("file:///lake/data/t1", "t1")
    for spelled in ("file:/lake/data/t1/a.parquet", "/lake/data/t1/a.parquet", "file:///lake/data/t1/a.parquet"):
        assert local.path_of(spelled) == "data/t1/a.parquet"
    with pytest.raises(InvalidInputError, match="is not the location"):
        TableLocation("s3://bucket/lake/elsewhere", "t1")

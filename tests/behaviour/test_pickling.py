"""Lakehouses, snapshots and handles go to other processes by how they are opened."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from tests.support.s3_server import S3Server

import mangrove
from mangrove.errors import InvalidInputError


@pytest.fixture
def lake(tmp_path: Path, layout: str, strict: bool | None) -> mangrove.Lakehouse:
    made = mangrove.create(tmp_path / "lake", layout=layout, strict=strict)
    made.create_namespace("shop", properties={"of": "us"})
    table = made.create_table("shop.orders", "id bigint not null, amount decimal(5,2)", keys=["id"])
    table.append([{"id": 1}, {"id": 2}])
    return made


def copies(value: Any) -> list[Any]:
    return [pickle.loads(pickle.dumps(value)), pickle.loads(cloudpickle.dumps(value))]  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("layout", ["tree"])
def test_another_process_writes_through_a_table_and_reads_a_snapshot(lake: mangrove.Lakehouse) -> None:
    past = lake.at(lake.version)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(methodcaller("append", [{"id": 3}]), lake.table("shop.orders")).result()
        assert lake.table("shop.orders").to_arrow().num_rows == 3
        assert pool.submit(attrgetter("version"), past).result() == past.version
        table = pool.submit(methodcaller("table", "shop.orders"), past).result()
        assert table.to_arrow().num_rows == 2
        assert pool.submit(methodcaller("to_arrow"), table).result().num_rows == 2


def test_copies_read_and_write_the_same_lakehouse(lake: mangrove.Lakehouse) -> None:
    for copied in copies(lake):
        assert (copied.uri, copied.version, copied.layout) == (lake.uri, lake.version, lake.layout)
        copied.table("shop.orders").append([{"id": 9}])
        assert lake.version == copied.version


def test_a_snapshot_and_its_tables_stay_at_their_version(lake: mangrove.Lakehouse) -> None:
    past = lake.at(lake.version)
    lake.table("shop.orders").append([{"id": 3}])
    for copied in copies(past):
        assert copied.version == past.version
        assert copied.table("shop.orders").to_arrow().num_rows == 2
    for table in copies(past.table("shop.orders")):
        assert (table.id, table.schema, table.to_arrow().num_rows) == (past.table("shop.orders").id, table.schema, 2)
        assert not hasattr(table, "append")


def test_namespaces_and_views_are_copied_too(lake: mangrove.Lakehouse) -> None:
    lake.create_view("shop.all_orders", "select * from shop.orders")
    for namespace in copies(lake.namespace("shop")):
        assert (namespace.name, namespace.properties) == ("shop", {"of": "us"})
        assert [table.name for table in namespace.tables()] == ["orders"]
    for view in copies(lake.view("shop.all_orders")):
        assert view.sql == "select * from shop.orders"


def test_pickling_a_transaction_or_its_objects_is_rejected(lake: mangrove.Lakehouse) -> None:
    with lake.transaction() as transaction:
        for value in (transaction, transaction.table("shop.orders"), transaction.namespace("shop")):
            with pytest.raises(InvalidInputError, match=r"cannot be pickled.*commit it first"):
                pickle.dumps(value)
    shared = lake.begin_shared("batch")
    with pytest.raises(InvalidInputError, match="join by its name"):
        pickle.dumps(shared)


def test_a_lakehouse_in_memory_is_refused() -> None:
    lake = mangrove.create("memory://not-to-be-pickled")
    lake.create_namespace("shop")
    for value in (lake, lake.at(0), lake.namespace("shop")):
        with pytest.raises(InvalidInputError, match="memory of this process"):
            pickle.dumps(value)


def test_a_lakehouse_in_a_bucket_is_reopened_with_its_options() -> None:
    with S3Server() as server:
        lake = mangrove.create("s3://bucket/lake", storage_options=server.options)
        lake.create_namespace("shop")
        for copied in copies(lake):
            assert copied.storage_options == server.options
            assert copied.namespace("shop").name == "shop"


def test_a_pickle_contains_no_credentials_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-the-environment")
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        lake = mangrove.create("s3://bucket/lake")
        assert b"a-secret-of-the-environment" not in pickle.dumps(lake)
        (copied, _) = copies(lake)
        assert copied.version == 0

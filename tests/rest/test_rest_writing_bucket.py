"""A client writes into a real bucket, in a folder whose name has a space, with a key of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from tests.rest.conftest import TOKEN, served
from tests.support.servers import RealServer, run_seaweedfs

import mangrove
from mangrove.server.access import Access

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def writing_bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with run_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_a_client_writes_into_a_bucket(writing_bucket: RealServer, tmp_path: Path, layout: str) -> None:
    options = writing_bucket.options
    lake = mangrove.create(f"{writing_bucket.uri}{tmp_path.name}/my lake", layout=layout, storage_options=options)
    lake.create_namespace("sales")
    ours = lake.create_table("sales.orders", "id bigint not null, part string", keys=["id"])
    ours.append([{"id": 1, "part": "a"}, {"id": 2, "part": "b c"}])
    own_key = {"s3.access-key-id": options["access_key_id"], "s3.secret-access-key": options["secret_access_key"]}
    fields: list[Any] = [pa.field("id", pa.int64(), nullable=False), pa.field("part", pa.string())]
    with (
        served(lake, Access("127.0.0.1", TOKEN, is_writable=True)) as address,
        RestCatalog("lake", uri=address, token=TOKEN, **own_key) as catalog,
    ):
        table = catalog.load_table("sales.orders")
        table.append(pa.table({"id": [3], "part": ["a/b"]}, schema=pa.schema(fields)))
        ours.upsert([{"id": 3, "part": "changed"}])
        table.refresh().delete("id = 1")
        shown: list[Any] = table.scan().to_arrow()["id"].to_pylist()
        assert sorted(shown) == [2, 3]
    assert sorted(ours.to_arrow()["part"].to_numpy().tolist()) == ["b c", "changed"]
    assert lake.maintenance.check().problems == ()

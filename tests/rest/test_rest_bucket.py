"""Tables in a real bucket: the catalog says how it is reached, and the client brings the key."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.rest import RestCatalog
from tests.rest.conftest import served
from tests.support.servers import RealServer, run_seaweedfs

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with run_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture
def far_lake(bucket: RealServer, tmp_path: Path) -> Lakehouse:
    return mangrove.create(f"{bucket.uri}{tmp_path.name}/my lake", storage_options=bucket.options)


def test_a_table_in_a_bucket_is_read_with_the_clients_own_key(bucket: RealServer, far_lake: Lakehouse) -> None:
    far_lake.create_namespace("sales")
    orders = far_lake.create_table("sales.orders", "id bigint not null, day date", keys=["id"])
    orders.append([{"id": number} for number in range(100)])
    orders.upsert([{"id": 7}])
    orders.delete("id >= 50")
    own_key = {
        "s3.access-key-id": bucket.options["access_key_id"],
        "s3.secret-access-key": bucket.options["secret_access_key"],
    }
    with served(far_lake) as address, RestCatalog("lake", uri=address, **own_key) as catalog:
        with RestCatalog("bare", uri=address) as bare:
            assert bucket.options["secret_access_key"] not in str(bare.properties)
        table = catalog.load_table("sales.orders")
        assert table.location().startswith(bucket.uri)
        found = table.scan(row_filter="id > 40").to_arrow()
    assert sorted(str(one) for one in found["id"].to_pylist()) == [str(one) for one in range(41, 50)]

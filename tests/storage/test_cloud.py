from collections.abc import Iterator

import pytest

from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.testing.s3_server import S3Server
from mangrove.testing.store_contract import StoreContract


@pytest.fixture
def server() -> Iterator[S3Server]:
    with S3Server() as started:
        yield started


class TestCloudStoreOnTheSmallServer(StoreContract):
    @pytest.fixture
    def store(self, server: S3Server) -> Store:
        return open_store("s3://bucket/some/lake", server.options)

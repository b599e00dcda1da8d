import uuid

import pytest

from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.storage.probe import probe_creates
from mangrove.testing.process_race import race_processes
from mangrove.testing.servers import RealServer
from mangrove.testing.store_contract import StoreContract

pytestmark = pytest.mark.interop


@pytest.mark.interop
class TestCloudStoreOnSeaweedFS(StoreContract):
    folders_hide_objects = True

    @pytest.fixture
    def store(self, seaweedfs_server: RealServer) -> Store:
        return open_store(f"{seaweedfs_server.uri}{uuid.uuid4()}", seaweedfs_server.options)


@pytest.mark.interop
class TestCloudStoreOnAzurite(StoreContract):
    @pytest.fixture
    def store(self, azurite_server: RealServer) -> Store:
        return open_store(f"{azurite_server.uri}{uuid.uuid4()}", azurite_server.options)


@pytest.mark.slow
def test_thirty_two_threads_leave_one_winner_per_key_on_seaweedfs(seaweedfs_server: RealServer) -> None:
    store = open_store(f"{seaweedfs_server.uri}threads", seaweedfs_server.options)
    probed = probe_creates(store, threads=32, keys=200, lanes=20)
    assert (probed.unfair, probed.misread) == ((), ())


@pytest.mark.slow
def test_eight_processes_leave_one_winner_per_key_on_seaweedfs(seaweedfs_server: RealServer) -> None:
    probed = race_processes(f"{seaweedfs_server.uri}processes", seaweedfs_server.options, processes=8, keys=500)
    assert (probed.unfair, probed.misread) == ((), ())
    assert len({*probed.winners.values()}) > 1

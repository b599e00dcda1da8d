"""The real servers, started once for the folder and only when a test asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.servers import RealServer, run_azurite, run_radosgw, run_seaweedfs

from mangrove.errors import NotFoundError

# Only rewritten asserts show what differed; the contract is imported by the test modules, after this.
pytest.register_assert_rewrite("mangrove.testing.store_contract")

AZURITE_FOLDER = Path(__file__).parents[2] / ".build" / "azurite"


@pytest.fixture(scope="session")
def seaweedfs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with run_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def radosgw_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    try:
        with run_radosgw(tmp_path_factory.mktemp("radosgw")) as server:
            yield server
    except NotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def azurite_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    try:
        with run_azurite(tmp_path_factory.mktemp("azurite"), AZURITE_FOLDER) as server:
            yield server
    except NotFoundError as error:
        pytest.skip(str(error))

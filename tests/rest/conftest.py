"""A lakehouse in a folder, a real server on a port of its own, and PyIceberg as its client."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
import uvicorn
from pyiceberg.catalog.rest import RestCatalog
from starlette.testclient import TestClient

import mangrove
from mangrove.effects import build_effects
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_on_store
from mangrove.rest.settings import RestSettings
from mangrove.server.access import Access
from mangrove.server.app import build_app
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store

TOKEN = "right-token-1234"


ASCENDING_ROWS = 40_000
ASCENDING = [str(ASCENDING_ROWS), str(ASCENDING_ROWS), str(sum(range(ASCENDING_ROWS)))]
"""The counts of rows and of distinct times, and the sum of ids, of a table from `create_ascending_table`."""


def create_ascending_table(lake: Lakehouse, name: str) -> None:
    """Create a table whose file stores ascending ids and times as differences."""
    table = lake.create_table(name, "id bigint not null, clicked_at timestamp")
    ids = pa.array(range(ASCENDING_ROWS))
    table.append(pa.table({"id": ids, "clicked_at": ids.cast(pa.timestamp("us", "UTC"))}))


def filled(folder: Path, layout: str = "tree") -> Lakehouse:
    """Return a lakehouse with tables that have rows, and something of every other kind: versions 1 to 7."""
    lake = mangrove.create(folder, layout=layout)
    lake.create_namespace("sales", properties={"owner": "ana"}, description="What was sold")
    orders = lake.create_table("sales.orders", "id bigint not null, customer string", keys=["id"])
    orders.append([{"id": 1, "customer": "ana"}, {"id": 2, "customer": "bo"}])
    orders.append([{"id": 3, "customer": "cy"}])
    lake.create_view("sales.daily", "select id from sales.orders", reads=["sales.orders"], description="By day")
    lake.create_table(
        "sales.outside", "id int", table_type="external", table_format="PARQUET", location="s3://other/folder/"
    )
    lake.create_namespace("a.b".join("``"))
    return lake


@pytest.fixture
def lake(tmp_path: Path) -> Lakehouse:
    return filled(tmp_path / "lake")


def counted(lake: Lakehouse) -> Lakehouse:
    """Return the same lakehouse as a server opens it: on a store that counts."""
    store = CountingStore(open_store(lake.uri))
    return open_on_store(build_effects(store), storage_options=lake.storage_options)


@contextmanager
def served(lake: Lakehouse, access: Access | None = None, settings: RestSettings | None = None) -> Iterator[str]:
    """Serve a lakehouse on a port that is free, and give the address for clients of Iceberg's."""
    config = uvicorn.Config(
        build_app(lake, access or Access("127.0.0.1"), rest_settings=settings),
        log_level="warning",
        lifespan="off",
        ws="none",
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        # Who connects before the server has begun waits in the line of the socket.
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/iceberg"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def address(lake: Lakehouse) -> Iterator[str]:
    with served(counted(lake)) as found:
        yield found


@pytest.fixture
def catalog_of() -> Iterator[Callable[..., RestCatalog]]:
    """What opens catalogs at an address, and closes them after the test."""
    with ExitStack() as stack:

        def opened(address: str, **properties: str) -> RestCatalog:
            catalog = RestCatalog("lake", uri=address, **properties)
            stack.callback(catalog.close)
            return catalog

        yield opened


@pytest.fixture
def catalog(address: str, catalog_of: Callable[..., RestCatalog]) -> RestCatalog:
    return catalog_of(address)


def request_info(lake: Lakehouse, access: Access | None = None) -> TestClient:
    """Return a client that sends requests as they are written, without a socket."""
    app = build_app(lake, access or Access("127.0.0.1"))
    return TestClient(app, base_url="http://127.0.0.1/iceberg", follow_redirects=False, raise_server_exceptions=False)


@pytest.fixture
def client(lake: Lakehouse) -> Iterator[TestClient]:
    with request_info(counted(lake)) as found:
        yield found

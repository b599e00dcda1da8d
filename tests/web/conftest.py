"""A lakehouse with something of every kind in it, and a visitor to its explorer."""

import html
import re
from collections import deque
from collections.abc import Collection, Iterator
from datetime import date
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.layout_detection import LAYOUTS
from mangrove.lakehouse.opening import create_on_store
from mangrove.model.manifests import Author, ColumnStatistics, DataFile, Manifest
from mangrove.model.objects import Delta, DeltaType
from mangrove.model.settings import LakehouseSettings
from mangrove.server.access import Access
from mangrove.server.app import build_app
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects
from mangrove.wiring import build_engines_factory

HOSTILE = "<script>alert('x')</script>".replace("/", "\\")
"""As hostile as a name may be: names hold no slash and no space."""
HOSTILE_TEXT = "\"'><script>alert(1)</script><img src=x onerror=alert(2)> & <!-- "


def delta(name: str, first: int, rows: int, kind: DeltaType = DeltaType.APPEND) -> Delta:
    """Return a delta of one file whose rows count up from `first`."""
    statistics = (
        ColumnStatistics(1, null_count=0, value_count=rows, minimum=first, maximum=first + rows - 1),
        ColumnStatistics(2, null_count=1, value_count=rows, minimum="ana", maximum="zoe"),
    )
    file = DataFile(f"data/{name}.parquet", 100 * rows, rows, schema_id=0, statistics=statistics)
    return Delta(kind, Manifest((file,)), author=Author("loader", "2"))


def filled(lake: Lakehouse) -> Lakehouse:
    """Fill a lakehouse: versions 1 to 8."""
    lake.create_namespace("sales", description="What was sold", properties={"owner": "ana"})
    lake.create_table(
        "sales.orders",
        "id bigint not null, customer string comment 'who', day date, place struct<city: string>",
        keys=["day", "id"],
        partition_by=["day"],
        properties={"retention": "3 years"},
        description="One row for each order",
    )
    for number in (1, 2):
        with lake.transaction(message=f"load {number}", author="nightly") as transaction:
            added = delta(f"load-{number}", 10 * number, 5)
            transaction.add_delta("sales.orders", (date(2026, 11, number),), added)
    lake.create_view("sales.daily", "select day from sales.orders", reads=["sales.orders"])
    lake.create_table(
        "sales.elsewhere", "id int", table_type="external", table_format="PARQUET", location="s3://other/folder/"
    )
    lake.rename_table("sales.elsewhere", "sales.outside")
    lake.alter_table("sales.orders", {"retention": "5 years"})
    return lake


@pytest.fixture
def lake() -> Lakehouse:
    effects = build_deterministic_effects(CountingStore(MemoryStore()))
    return filled(create_on_store(effects, settings=LakehouseSettings("Shop", order=4)))


@pytest.fixture(params=LAYOUTS)
def shop(request: pytest.FixtureRequest) -> Lakehouse:
    """A lakehouse in each layout whose tables have rows in real files."""
    effects = build_deterministic_effects(MemoryStore())
    return with_rows(create_on_store(effects, layout=request.param, engines=build_engines_factory()))


def with_rows(lake: Lakehouse) -> Lakehouse:
    """Add a table with 120 rows in 12 files, an update of 10 rows, a delete of 20, and a view."""
    lake.create_namespace("shop")
    lake.create_table(
        "shop.orders",
        "id bigint not null, customer string, amount double, place struct<city: string>, tags array<string>",
        keys=["id"],
    )
    for first in range(0, 120, 10):
        with lake.transaction(message=f"load {first}", author="nightly", properties={"job": "loader"}) as transaction:
            transaction.table("shop.orders").append([order(number) for number in range(first, first + 10)])
    lake.table("shop.orders").upsert([{**order(number), "amount": -1.0} for number in range(10)])
    lake.table("shop.orders").delete("id >= 100")
    lake.create_view("shop.cheap", "select id from shop.orders where amount < 5", reads=["shop.orders"])
    return lake


def order(number: int) -> dict[str, object]:
    """Return a row of the table of orders."""
    customer = None if number % 10 == 3 else f"customer-{number:03}"
    return {"id": number, "customer": customer, "amount": number / 2, "place": {"city": "Lisbon"}, "tags": ["a", "b"]}


def visitor(lake: Lakehouse, access: Access | None = None) -> TestClient:
    """Return somebody who visits the explorer from this machine."""
    app = build_app(lake, access or Access("127.0.0.1"))
    return TestClient(app, base_url="http://127.0.0.1", follow_redirects=False, raise_server_exceptions=False)


def crawl(client: TestClient, *starts: str, versions: Collection[str] = (), pages_max: int = 3_000) -> list[str]:
    """Follow all links, assert that each leads to a page, and return the addresses.

    The links of a page at an earlier version are followed only if `versions` lists that version.
    Other orders of rows and the JSON twins of pages are left out.
    """
    waiting, seen = deque(starts or ("/",)), set[str]()
    broken: list[str] = []
    while waiting and len(seen) < pages_max:
        address = waiting.popleft()
        if address in seen:
            continue
        seen.add(address)
        answer = client.get(address)
        if answer.status_code != 200:
            broken.append(f"{address}: {answer.status_code} {answer.text[-300:]}")
        if set(parse_qs(urlsplit(address).query).get("version", [])) <= set(versions):
            found = map(html.unescape, re.findall(r'href="(/(?!api/|static/)[^"#]*)', answer.text))
            waiting += (link for link in found if "sort=" not in link)
    assert not broken, "\n".join(broken[:10])
    return sorted(seen)


@pytest.fixture
def client(lake: Lakehouse) -> Iterator[TestClient]:
    with visitor(lake) as found:
        yield found

"""The server refuses in one sentence, goes on after damage, and counts what it did."""

import html
import re
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from tests.web.conftest import filled, visitor

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.model.settings import LakehouseSettings
from mangrove.server.access import COOKIE, SECURITY_HEADERS, Access
from mangrove.server.health import READY_FOR_MILLIS
from mangrove.server.metrics import classify_path
from mangrove.storage.counting import CountingStore
from mangrove.storage.memory import MemoryStore
from mangrove.storage.port import ObjectInfo
from mangrove.testing.effects import Clock, build_deterministic_effects

TOKEN = "right-token-1234"


@pytest.fixture
def guarded(lake: Lakehouse) -> Iterator[TestClient]:
    with visitor(lake, Access("0.0.0.0", TOKEN)) as found:
        yield found


@pytest.mark.parametrize("address", ["/", "/nope", "/healthz", "/static/explorer.css", "/api/history", "/tables/x.y"])
def test_every_response_has_security_headers(client: TestClient, address: str) -> None:
    answer = client.get(address)
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name] == value
    assert "script-src" not in answer.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] in ("no-store", "no-cache")


def test_no_page_loads_external_resources_or_runs_a_script(client: TestClient) -> None:
    for address in ("/", "/tables/sales.orders", "/tree", "/storage", "/nope"):
        page = client.get(address).text
        assert not re.search(r"<script|\son\w+=|\sstyle=|https?://|javascript:", page), address
    css = client.get("/static/explorer.css").text
    assert "url(" not in css
    assert "@import" not in css


def test_an_unauthenticated_client_is_prompted_for_the_token(guarded: TestClient) -> None:
    for address in ("/", "/tables/sales.orders", "/metrics", "/nope"):
        answer = guarded.get(address)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "Shop" not in answer.text
    assert guarded.get("/api/").json()["error"]["status"] == 401
    assert guarded.get("/?token=wrong").status_code == 401


def test_a_token_in_the_address_becomes_a_cookie_that_scripts_cannot_read(guarded: TestClient) -> None:
    answer = guarded.get(f"/history?before=5&token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/history?before=5"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert TOKEN not in cookie
    assert guarded.get("/history?before=5").status_code == 200


def test_a_program_sends_the_token_in_a_header(guarded: TestClient) -> None:
    answer = guarded.get("/api/", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.json()["seen"]["lakehouse"] == "Shop"


def test_dns_rebinding_is_rejected(client: TestClient) -> None:
    answer = client.get("/", headers={"Host": "evil.example"})
    assert answer.status_code == 421
    assert "Shop" not in answer.text


@pytest.mark.parametrize(
    ("address", "status", "sentence"),
    [
        ("/nope", 404, "There is no such page."),
        ("/namespaces/nobody", 404, "namespace nobody does not exist"),
        ("/namespaces/a.b", 400, "invalid namespace"),
        ("/tables/sales.nothing", 404, "table sales.nothing does not exist"),
        ("/tables/sales", 400, "expected namespace.table"),
        ("/tables/sales.daily", 404, "is a view, not a table"),
        ("/views/sales.orders", 404, "is a table, not a view"),
        ("/views/sales.%60", 400, "has no name at position"),
        ("/tables/sales.orders/partitions/none", 404, "partition none does not exist"),
        ("/tables/sales.orders/partitions/%7C", 400, "is not an id"),
        ("/tables/sales.outside/partitions/x", 400, "its data is not managed by the lakehouse"),
        ("/tables/sales.orders?after=%20%7C", 400, "is not an id"),
        ("/?version=99", 404, "version 99 does not exist"),
        ("/?version=-1", 404, "does not exist"),
        ("/?version=year-end", 404, "does not exist"),
        ("/?version=2026-99-99", 400, "is no time"),
        ("/?version=2000-01-01", 404, "no live version"),
        ("/?version=" + "9" * 40, 400, "give a whole number"),
        ("/?version=" + "9" * 5000, 400, "the limit is 500"),
        ("/?version=%D9%A3", 400, "give a whole number"),
        ("/history?before=x", 400, "give a whole number"),
        ("/history/x", 404, "does not exist"),
        ("/history/3?against=77", 404, "version 77 does not exist"),
        ("/tree?node=99", 404, "does not exist in the tree"),
        ("/tree?node=..%2F..", 400, "invalid node"),
        ("/tree?node=9999999999999", 400, "invalid node"),
        ("/tables/..%2F..%2Fetc", 404, "There is no such page."),
    ],
)
def test_invalid_page_requests_are_rejected_in_one_sentence(
    client: TestClient, address: str, status: int, sentence: str
) -> None:
    answer = client.get(address)
    assert answer.status_code == status, answer.text
    assert sentence in html.unescape(answer.text)
    twin = client.get(f"/api{address}")
    assert twin.status_code == status
    assert sentence in twin.json()["error"]["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_the_explorer_is_read_only(lake: Lakehouse, client: TestClient, method: str) -> None:
    before = lake.version
    assert client.request(method, "/tables/sales.orders").status_code == 405
    assert lake.version == before


def test_pages_write_nothing_to_storage(lake: Lakehouse, client: TestClient) -> None:
    store = lake.effects.store
    assert isinstance(store, CountingStore)
    before = store.requests
    for address in ("/", "/namespaces/sales", "/tables/sales.orders", "/history/3", "/tree", "/storage", "/metrics"):
        assert client.get(address).status_code == 200
    made = store.requests - before
    assert (made.puts, made.creates, made.deletes, made.bytes_written) == (0, 0, 0, 0)


def test_damage_is_reported_on_the_page_and_the_server_continues() -> None:
    store = MemoryStore()
    files_of_their_own = LakehouseSettings(properties={"tree.inline-definition-max-bytes": "0"})
    lake = filled(create_on_store(build_deterministic_effects(store), settings=files_of_their_own))
    spoiled = [one.path for one in store.list() if isinstance(one, ObjectInfo) and "table-" in one.path]
    assert spoiled
    for path in spoiled:
        store.put(path, b"\xff\xff damaged")
    with visitor(open_on_store(build_deterministic_effects(store))) as client:
        answer = client.get("/tables/sales.orders")
        assert answer.status_code == 500
        assert "The lakehouse is damaged" in answer.text
        assert any(path in answer.text for path in spoiled)
        assert client.get("/api/tables/sales.orders").json()["error"]["status"] == 500
        assert client.get("/namespaces").status_code == 200
        assert client.get(f"/history?version={lake.version}").status_code == 200


def test_health_needs_no_storage(lake: Lakehouse, client: TestClient) -> None:
    store = lake.effects.store
    assert isinstance(store, CountingStore)
    before = store.requests
    assert client.get("/healthz").text == "ok\n"
    assert store.requests == before


def test_readiness_is_whether_the_newest_version_can_be_read() -> None:
    store, clock = MemoryStore(), Clock()
    lake = filled(create_on_store(build_deterministic_effects(store, clock)))
    with visitor(lake) as client:
        assert client.get("/readyz").text == "ok\n"
        store.delete_many([one.path for one in store.list() if isinstance(one, ObjectInfo)])
        clock.now_millis += READY_FOR_MILLIS
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.text == "the newest version cannot be read\n"
        assert client.get("/healthz").status_code == 200


def test_the_readiness_result_is_cached(lake: Lakehouse, client: TestClient) -> None:
    store = lake.effects.store
    assert isinstance(store, CountingStore)
    assert client.get("/readyz").status_code == 200
    before = store.requests
    assert client.get("/readyz").status_code == 200
    assert store.requests == before


def test_metrics_count_answers_storage_requests_and_the_newest_version(lake: Lakehouse, client: TestClient) -> None:
    for address in ("/", "/tables/sales.orders", "/tables/x.y", "/no-such-page"):
        client.get(address)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in text_string_to_metric_families(answer.text)
        for sample in metric.samples
    }
    assert found["mangrove_http_requests_total", "overview", "200"] == 1
    assert found["mangrove_http_requests_total", "tables", "200"] == 1
    assert found["mangrove_http_requests_total", "tables", "404"] == 1
    assert found["mangrove_http_requests_total", "other", "404"] == 1
    assert found["mangrove_newest_version",] == lake.version
    assert found["mangrove_storage_requests_total", "reads"] > 0
    assert found["mangrove_storage_bytes_total", "read"] > 0
    assert {name for name, *_ in found} == {
        "mangrove_http_requests_total",
        "mangrove_storage_requests_total",
        "mangrove_storage_bytes_total",
        "mangrove_newest_version",
    }


def test_two_applications_of_one_process_count_separately(lake: Lakehouse, client: TestClient) -> None:
    client.get("/tree")
    with visitor(lake) as other:
        assert 'page="tree"' not in other.get("/metrics").text


def test_an_unknown_path_creates_no_new_metric_series() -> None:
    assert {classify_path(f"/{number}") for number in range(100)} == {"other"}
    assert classify_path('/"} 1\nfake 2') == "other"

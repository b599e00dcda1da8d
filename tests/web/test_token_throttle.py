"""Guessing the token is slow: after some wrong ones the peer has to wait, and nobody else."""

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import filled

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.server.access import COOKIE, Access, derive_session_cookie
from mangrove.server.app import build_app
from mangrove.server.token_throttle import TokenThrottle
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import Clock, build_deterministic_effects

TOKEN = "right-token-1234"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
OAUTH = "/iceberg/v1/oauth/tokens"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lake(clock: Clock) -> Lakehouse:
    return filled(create_on_store(build_deterministic_effects(MemoryStore(), clock)))


class Peers:
    """Clients of one server, each from an address of its own."""

    def __init__(self, lake: Lakehouse, wrong_tokens_max: int | None = None) -> None:
        self._app = build_app(lake, Access("0.0.0.0", TOKEN), wrong_tokens_max=wrong_tokens_max)

    def at(self, address: str) -> TestClient:
        return TestClient(self._app, base_url="http://lake.example", follow_redirects=False, client=(address, 5_000))


def guess(client: TestClient, number: int, way: str) -> int:
    wrong = f"wrong-token-{number:05}"
    if way == "header":
        return client.get("/api/", headers={"Authorization": f"Bearer {wrong}"}).status_code
    if way == "address":
        return client.get(f"/?token={wrong}").status_code
    if way == "cookie":
        return client.get("/", headers={"Cookie": f"{COOKIE}={derive_session_cookie(wrong)}"}).status_code
    form = {"grant_type": "client_credentials", "client_secret": wrong}
    return client.post(OAUTH, data=form).status_code


@pytest.mark.parametrize("way", ["header", "address", "cookie", "oauth"])
def test_after_ten_wrong_tokens_the_peer_waits_a_minute(lake: Lakehouse, clock: Clock, way: str) -> None:
    client = Peers(lake).at("192.0.2.1")
    assert {guess(client, number, way) for number in range(10)} == {401}
    assert guess(client, 10, way) == 429
    answer = client.get("/api/", headers=RIGHT)
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    clock.now_millis += 60_000
    assert client.get("/api/", headers=RIGHT).status_code == 200


def test_other_peers_are_not_throttled(lake: Lakehouse) -> None:
    peers = Peers(lake)
    for number in range(20):
        guess(peers.at("192.0.2.1"), number, "header")
    assert peers.at("192.0.2.2").get("/api/", headers=RIGHT).status_code == 200


def test_requests_without_a_token_are_not_throttled(lake: Lakehouse) -> None:
    client = Peers(lake).at("192.0.2.1")
    for number in range(11):
        guess(client, number, "header")
    assert client.get("/").status_code == 401
    assert client.get("/healthz", headers=RIGHT).status_code == 200


def test_repeating_the_same_wrong_token_counts_once(lake: Lakehouse) -> None:
    client = Peers(lake).at("192.0.2.1")
    assert {guess(client, 1, "header") for _ in range(30)} == {401}
    assert client.get("/api/", headers=RIGHT).status_code == 200


def test_addresses_of_one_ipv6_network_are_one_peer(lake: Lakehouse) -> None:
    peers = Peers(lake)
    for number in range(10):
        guess(peers.at(f"2001:db8::{number + 1:x}"), number, "header")
    assert guess(peers.at("2001:db8::ffff"), 10, "header") == 429
    assert guess(peers.at("2001:db8:0:1::1"), 10, "header") == 401


def test_a_limit_of_zero_disables_throttling(lake: Lakehouse) -> None:
    client = Peers(lake, wrong_tokens_max=0).at("192.0.2.1")
    assert {guess(client, number, "header") for number in range(30)} == {401}
    assert client.get("/api/", headers=RIGHT).status_code == 200


def test_a_clock_set_back_does_not_extend_the_wait() -> None:
    clock = Clock()
    throttle = TokenThrottle(clock.read, 1)
    throttle.record_wrong("peer", "wrong")
    assert throttle.retry_after_seconds("peer") is not None
    clock.now_millis -= 3_600_000
    assert throttle.retry_after_seconds("peer") is None

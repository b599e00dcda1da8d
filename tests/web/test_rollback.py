"""Rolling back from the explorer: only where it was asked for, by who has the token, from our own page."""

import html
import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import filled, visitor

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store
from mangrove.server.access import Access, RequestInfo, Verdict, authorize, derive_session_cookie
from mangrove.storage.memory import MemoryStore
from mangrove.testing.effects import build_deterministic_effects

TOKEN = "right-token-1234"
WRITABLE = Access("127.0.0.1", TOKEN, is_writable=True)
PREVIEW = "/history/3?against=8"
HERE = {"Origin": "http://127.0.0.1"}
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def writer(lake: Lakehouse) -> Iterator[TestClient]:
    with visitor(lake, WRITABLE) as found:
        assert found.get(f"/?token={TOKEN}").status_code == 303
        yield found


def form_of(client: TestClient, address: str = PREVIEW) -> tuple[str, dict[str, str]]:
    """Return where the page's form for a change goes, and its fields as a browser would send them."""
    page = client.get(address).text
    found = re.search(r'<form action="([^"]+)" method="post">(.*?)</form>', page)
    assert found is not None
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', found[2])
    return html.unescape(found[1]), {name: html.unescape(value) for name, value in fields}


def test_the_button_of_the_preview_rolls_back_and_leads_to_the_new_version(lake: Lakehouse, writer: TestClient) -> None:
    address, fields = form_of(writer)
    answer = writer.post(address, data={**fields, "message": "the load was wrong"}, headers=HERE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/history/9")
    assert lake.version == 9
    assert [*map(str, lake.at(9).tables("sales"))] == ["sales.orders"]
    assert not list(lake.at(9).views("sales"))
    page = writer.get(answer.headers["location"]).text
    assert "the load was wrong" in page
    assert "by explorer" in page
    assert "version 8" in page


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_a_program_rolls_back_with_the_token_in_a_header(layout: str) -> None:
    lake = filled(create_on_store(build_deterministic_effects(MemoryStore()), layout=layout))
    newest, earlier = lake.version, lake.version - 2
    with visitor(lake, WRITABLE) as client:
        answer = client.post(f"/api/history/{earlier}/rollback", headers=BEARER)
    assert (answer.status_code, answer.json()) == (200, {"version": newest + 1})
    assert next(iter(lake.history())).rolled_back_from == newest


def test_only_the_preview_of_a_rollback_has_the_button(writer: TestClient, client: TestClient) -> None:
    for address in ("/", "/history", "/history/3", "/history/3?against=5", "/history/8?against=3"):
        assert 'method="post"' not in writer.get(address).text
    assert 'method="post"' not in client.get(PREVIEW).text


def test_a_read_only_server_explains_how_to_enable_writes(lake: Lakehouse, client: TestClient) -> None:
    for address in ("/history/3/rollback", "/api/history/3/rollback"):
        answer = client.post(address, headers=HERE)
        assert answer.status_code == 403
        assert "--writable" in answer.text
    assert lake.version == 8


def test_a_rollback_that_differs_from_its_preview_is_rejected(lake: Lakehouse, writer: TestClient) -> None:
    address, fields = form_of(writer)
    lake.create_namespace("meanwhile")
    answer = writer.post(address, data=fields, headers=HERE)
    assert answer.status_code == 409
    assert "the newest version is 9" in answer.text
    assert "nothing was changed" in answer.text
    assert lake.version == 9


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({}, "only from a page of this server"),
        ({"Origin": "null"}, "only from a page of this server"),
        ({"Origin": "http://evil.example"}, "only from a page of this server"),
        ({"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "cross-site"}, "only from a page of this server"),
        ({"Origin": "http://127.0.0.1:9", "Sec-Fetch-Site": "same-site"}, "only from a page of this server"),
    ],
)
def test_a_cross_origin_form_is_rejected_despite_its_cookie(
    lake: Lakehouse, writer: TestClient, headers: dict[str, str], told: str
) -> None:
    address, fields = form_of(writer)
    answer = writer.post(address, data=fields, headers=headers)
    assert answer.status_code == 403
    assert told in answer.text
    assert lake.version == 8


@pytest.mark.parametrize("proof", [None, "", "wrong", "ü", derive_session_cookie(TOKEN), TOKEN])
def test_a_form_without_a_valid_csrf_token_is_rejected(lake: Lakehouse, writer: TestClient, proof: str | None) -> None:
    address, fields = form_of(writer)
    given = {name: value for name, value in fields.items() if name != "proof"}
    answer = writer.post(address, data=given if proof is None else {**given, "proof": proof}, headers=HERE)
    assert answer.status_code == 403
    assert "open the preview again" in answer.text
    assert lake.version == 8


def test_an_unauthenticated_client_changes_nothing(lake: Lakehouse) -> None:
    with visitor(lake, WRITABLE) as stranger:
        for headers in (HERE, {"Authorization": "Bearer wrong", **HERE}):
            assert stranger.post("/history/3/rollback", headers=headers).status_code == 401
    assert lake.version == 8


@pytest.mark.parametrize(
    ("address", "body", "status", "told"),
    [
        ("/history/99/rollback", b"", 400, "not older than the newest"),
        ("/history/8/rollback", b"", 400, "not older than the newest"),
        ("/history/x/rollback", b"", 400, "invalid version"),
        ("/history/3/rollback", b"from=x", 400, "invalid version"),
        ("/history/3/rollback", b"message=" + b"x" * 501, 400, "the limit is 500"),
        ("/history/3/rollback", b"x" * 8193, 400, "more than 8192 bytes"),
        ("/history/3/rollback", b"\xff", 400, "invalid form"),
        ("/history/3/rollback", b"a=1&" * 20, 400, "invalid form"),
    ],
)
def test_an_invalid_form_is_rejected_in_one_sentence(
    lake: Lakehouse, writer: TestClient, address: str, body: bytes, status: int, told: str
) -> None:
    answer = writer.post(f"/api{address}", content=body, headers=BEARER)
    assert answer.status_code == status
    assert told in answer.json()["error"]["message"]
    assert lake.version == 8


def test_the_csrf_token_is_neither_in_json_nor_in_the_cookie(writer: TestClient) -> None:
    proof = form_of(writer)[1]["proof"]
    assert proof not in writer.get(f"/api{PREVIEW}").text
    assert proof not in str(writer.cookies)
    assert proof not in repr(WRITABLE)


def test_a_writable_server_needs_a_token_on_this_machine_too() -> None:
    with pytest.raises(InvalidInputError, match="--token"):
        Access("127.0.0.1", is_writable=True)


def test_a_read_only_page_can_be_requested_cross_origin() -> None:
    request_info = RequestInfo("/", cookies={"mangrove_session": derive_session_cookie(TOKEN)}, site="cross-site")
    assert authorize(WRITABLE, request_info) is Verdict.ALLOW

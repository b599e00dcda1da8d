"""Who may see a page: this machine, or who has the token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.errors import InvalidInputError
from mangrove.server.access import (
    COOKIE,
    TOKEN_LENGTH_MIN,
    Access,
    RequestInfo,
    Verdict,
    authorize,
    derive_session_cookie,
    strip_token,
)

GUARDED = Access("0.0.0.0", "right-token-1234")
OPEN = Access("127.0.0.1")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "lake.example", ""])
def test_a_non_loopback_address_requires_a_token(host: str) -> None:
    with pytest.raises(InvalidInputError, match="--token"):
        Access(host)
    assert Access(host, "right-token-1234").token == "right-token-1234"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost", "LOCALHOST"])
def test_a_loopback_address_needs_none(host: str) -> None:
    assert Access(host).token is None


@pytest.mark.parametrize("token", ["", "  ", "mañana", "two\nlines"])
def test_a_token_invalid_in_a_header_is_rejected(token: str) -> None:
    with pytest.raises(InvalidInputError, match="token"):
        Access("127.0.0.1", token)


def test_a_token_that_can_be_found_by_trying_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="15 characters; expected at least 16"):
        Access("127.0.0.1", "x" * (TOKEN_LENGTH_MIN - 1))
    assert Access("127.0.0.1", "x" * TOKEN_LENGTH_MIN).token == "x" * TOKEN_LENGTH_MIN


def test_the_token_is_not_printed() -> None:
    assert "right-token-1234" not in repr(GUARDED)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8181", "localhost:8181", "[::1]:8181"])
def test_requests_with_a_local_host_name_are_allowed(host: str) -> None:
    assert authorize(OPEN, RequestInfo("/", host=host)) is Verdict.ALLOW


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8181", "127.0.0.1.evil.example", "localhost.evil", None]
)
def test_requests_with_a_foreign_host_name_are_rejected(host: str | None) -> None:
    assert authorize(OPEN, RequestInfo("/", host=host)) is Verdict.BAD_HOST


def test_the_token_is_taken_from_a_header_an_address_or_the_cookie() -> None:
    assert authorize(GUARDED, RequestInfo("/", authorization="Bearer right-token-1234")) is Verdict.ALLOW
    assert authorize(GUARDED, RequestInfo("/", authorization="bearer right-token-1234")) is Verdict.ALLOW
    assert authorize(GUARDED, RequestInfo("/", query="a=1&token=right-token-1234")) is Verdict.LOG_IN
    assert (
        authorize(GUARDED, RequestInfo("/", cookies={COOKIE: derive_session_cookie("right-token-1234")}))
        is Verdict.ALLOW
    )


def test_the_cookie_does_not_hold_the_token() -> None:
    assert "right-token-1234" not in derive_session_cookie("right-token-1234")
    assert authorize(GUARDED, RequestInfo("/", cookies={COOKIE: "right-token-1234"})) is Verdict.UNAUTHENTICATED


@given(st.text())
def test_a_wrong_token_is_unauthenticated(token: str) -> None:
    request_info = RequestInfo("/", authorization=f"Bearer {token}", cookies={COOKIE: token})
    wanted = Verdict.ALLOW if token.strip() == "right-token-1234" else Verdict.UNAUTHENTICATED
    assert authorize(GUARDED, request_info) is wanted


def test_only_health_and_the_stylesheet_need_no_authentication() -> None:
    for path in ("/healthz", "/readyz", "/static/explorer.css"):
        assert authorize(GUARDED, RequestInfo(path)) is Verdict.ALLOW
    for path in ("/", "/metrics", "/api/", "/healthz/x", "/staticx"):
        assert authorize(GUARDED, RequestInfo(path)) is Verdict.UNAUTHENTICATED


@given(st.text(), st.text())
def test_the_redirect_after_a_login_stays_on_this_server(path: str, query: str) -> None:
    address = strip_token(path, query)
    assert address.startswith("/")
    assert address[1:2] not in ("/", "\\")
    assert "token=" not in address.partition("?")[2].replace("%", "").split("&")[0] or "token=" not in query

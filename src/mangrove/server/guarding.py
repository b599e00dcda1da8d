"""What stands before every page: the verdict on who asks, the headers that keep browsers careful, the counting."""

from collections.abc import MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mangrove.rest.refusals import is_iceberg, refused
from mangrove.server.access import (
    COOKIE,
    Access,
    Asking,
    Verdict,
    judge,
    session_of,
    shown_secrets,
    takes_secret,
    without_token,
)
from mangrove.server.connections import peer_of
from mangrove.server.metrics import RequestCounts, page_of
from mangrove.server.token_throttle import TokenThrottle
from mangrove.web.routes import refusal

__all__ = ["SECURITY_HEADERS", "Guarding"]

SECURITY_HEADERS: Final = {
    # No script at all, and nothing from elsewhere: a hostile name that got into a page would still do nothing.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # To other servers nothing; without it to our own, browsers would not say which page sent a form.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guarding:
    """An ASGI application around another."""

    def __init__(self, inner: ASGIApp, access: Access, counts: RequestCounts, throttle: TokenThrottle) -> None:
        self._inner = inner
        self._access = access
        self._counts = counts
        self._throttle = throttle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say why not."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return

        peer = _peer(scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message)
                self._counts.count(page_of(scope["path"]), message["status"])
                if takes_secret(scope["path"]) and message["status"] == 401:
                    self._throttle.record_wrong(peer, None)
            await send(message)

        answer = self._refused(scope, peer)
        await (self._inner if answer is None else answer)(scope, receive, send_guarded)

    def _refused(self, scope: Scope, peer: str) -> Response | None:
        asking = _asking(scope)
        secrets = shown_secrets(asking) if self._access.token is not None else []
        if secrets or takes_secret(asking.path):
            seconds = self._throttle.retry_after_seconds(peer)
            if seconds is not None:
                # The right token is refused too: else the answer would say which guess was right.
                answer = _said(asking, 429, "Too many wrong tokens", _THROTTLED.format(seconds=seconds))
                answer.headers["Retry-After"] = str(seconds)
                return answer
        verdict = judge(self._access, asking)
        if verdict is Verdict.STRANGER:
            for secret in secrets:
                self._throttle.record_wrong(peer, secret)
        return self._refused_by(verdict, scope, asking)

    def _refused_by(self, verdict: Verdict, scope: Scope, asking: Asking) -> Response | None:
        match verdict:
            case Verdict.ANSWER:
                return None
            case Verdict.LOG_IN:
                return self._logged_in(scope, asking)
            case Verdict.STRANGER:
                answer = _said(asking, 401, "A token is needed", _FOR_WHOM)
                answer.headers["WWW-Authenticate"] = 'Bearer realm="mangrove"'
                return answer
            case Verdict.WRONG_NAME:
                return _said(asking, 421, "Another name", _WRONG_NAME)
            case Verdict.ELSEWHERE:
                return _said(asking, 403, "Not from here", _ELSEWHERE)

    def _logged_in(self, scope: Scope, asking: Asking) -> Response:
        answer = RedirectResponse(without_token(asking.path, asking.query), 303)
        assert self._access.token is not None
        answer.set_cookie(
            COOKIE,
            session_of(self._access.token),
            httponly=True,
            samesite="lax",
            secure=scope.get("scheme") == "https",
        )
        return answer


_FOR_WHOM: Final = (
    "This lakehouse is shown to who has its token: open the address with ?token=… once, "
    "or send the header Authorization: Bearer …"
)
_WRONG_NAME: Final = (
    "Without a token this server answers only to localhost and 127.0.0.1: open it under one of these, "
    "or start it with a token"
)
_ELSEWHERE: Final = (
    "Only a page of this server may change something, or a program that sends the header Authorization: Bearer …: "
    "open the page here, and press its button"
)


_THROTTLED: Final = "Too many wrong tokens came from this address: try again in {seconds} seconds"


def _said(asking: Asking, status: int, title: str, sentence: str) -> Response:
    if is_iceberg(asking.path):
        return refused(status, sentence)
    return refusal(status, title, sentence, as_json=asking.path.startswith("/api"))


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return peer_of(client[0]) if client else ""


def _asking(scope: Scope) -> Asking:
    headers = Headers(scope=scope)
    return Asking(
        scope["path"],
        scope.get("query_string", b"").decode("latin-1"),
        headers.get("host"),
        headers.get("authorization"),
        _cookies(headers.get("cookie", "")),
        scope["method"],
        headers.get("origin"),
        headers.get("sec-fetch-site"),
    )


def _cookies(text: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(text).items()}
    except CookieError:
        return {}


def _add_headers(message: MutableMapping[str, Any]) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in SECURITY_HEADERS.items():
        headers[name] = value
    headers.setdefault("Cache-Control", "no-store")

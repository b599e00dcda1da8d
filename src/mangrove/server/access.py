"""Authorization of requests: tokens, session cookies, CSRF protection and security headers.

Without a token the server listens on a loopback address only, and then it answers
only to names of this machine: else a page from elsewhere could have its own name
point here and read the answers through the visitor's browser.

Who may change something has the token in any case, and did not come from a page of
elsewhere: a browser sends its cookie along also with a form that a stranger wrote.
"""

import enum
import hashlib
import hmac
import ipaddress
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mangrove.errors import InvalidInputError
from mangrove.rest.errors import is_iceberg_path, respond_iceberg_error
from mangrove.server.connections import peer_of
from mangrove.server.metrics import ServerMetrics
from mangrove.server.token_throttle import TokenThrottle
from mangrove.web.routes import respond_error

__all__ = [
    "COOKIE",
    "SECURITY_HEADERS",
    "TOKEN_LENGTH_MIN",
    "Access",
    "AccessMiddleware",
    "RequestInfo",
    "Verdict",
    "authorize",
    "derive_csrf_token",
    "derive_session_cookie",
    "has_bearer_token",
    "is_loopback",
    "is_token",
    "shown_secrets",
    "strip_token",
    "takes_secret",
]

COOKIE: Final = "mangrove_session"
TOKEN_LENGTH_MIN: Final = 16
"""How many characters a token has at least, so that it cannot be found by trying."""
_TOKENS: Final = "/iceberg/v1/oauth/tokens"
"""Where a client of Iceberg's gives the token to be told it again; nothing changes there."""
_OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", _TOKENS})
_CLIENTS_FOLDER: Final = "/iceberg/"
_OPEN_FOLDERS: Final = ("/static/",)
_FIELD: Final = "token"
_READING: Final = frozenset({"GET", "HEAD"})


class Verdict(enum.Enum):
    """What to do with a request."""

    ALLOW = "answer"
    LOG_IN = "log in"
    """The address holds the right token: remember it in a cookie, and go to the address without it."""
    UNAUTHENTICATED = "stranger"
    """The token is missing or wrong: ask for it."""
    BAD_HOST = "wrong name"
    """It was sent to a name that is not this machine's."""
    CROSS_ORIGIN = "elsewhere"
    """It would change something, and nothing says that a page of this server sent it."""


@dataclass(frozen=True, slots=True)
class Access:
    """The address that the server listens on, the token that it asks for, and whether visitors may change things."""

    host: str
    token: str | None = field(default=None, repr=False)
    is_writable: bool = False

    def __post_init__(self) -> None:
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token.strip()):
            raise InvalidInputError("a token is made of letters, digits and signs of ASCII: give another one")
        if self.token is not None and len(self.token) < TOKEN_LENGTH_MIN:
            raise InvalidInputError(
                f"the token has {len(self.token)} characters; expected at least {TOKEN_LENGTH_MIN}: "
                "generate one, as with `openssl rand -hex 32`"
            )
        if self.token is None and not is_loopback(self.host):
            raise InvalidInputError(
                f"{self.host!r} can be reached by others, so a token is needed: give --token, or listen on 127.0.0.1"
            )
        if self.token is None and self.is_writable:
            raise InvalidInputError(
                "a server that changes things needs a token, on this machine too: give --token, or leave --writable out"
            )


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """What a request says about who sent it."""

    path: str
    query: str = ""
    host: str | None = None
    """The Host header."""
    authorization: str | None = None
    cookies: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    origin: str | None = None
    """The Origin header: which server's page sent a form."""
    site: str | None = None
    """The Sec-Fetch-Site header: the same, as told by a browser that saw the address before any proxy did."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def authorize(access: Access, request_info: RequestInfo) -> Verdict:
    """Return what to do with a request."""
    verdict = _authorize_browser(access, request_info)
    if verdict is not Verdict.ALLOW:
        return verdict
    if _is_cross_site_page(request_info):
        return Verdict.CROSS_ORIGIN
    if not access.is_writable or request_info.method in _READING or request_info.path == _TOKENS:
        return verdict
    if has_bearer_token(access, request_info.authorization):
        return Verdict.ALLOW
    return Verdict.ALLOW if _is_same_origin(request_info) else Verdict.CROSS_ORIGIN


def has_bearer_token(access: Access, authorization: str | None) -> bool:
    """Return whether the header holds the token; no browser adds that header to a stranger's form."""
    return access.token is not None and _is_same(_bearer(authorization), access.token)


def is_token(access: Access, text: str) -> bool:
    """Return whether a text is the token; how long it takes says nothing about it."""
    return access.token is not None and _is_same(text, access.token)


def shown_secrets(request_info: RequestInfo) -> list[str]:
    """Return what a request shows as a token or a session, right or wrong, where that is compared with the token."""
    if request_info.path in _OPEN_PATHS or request_info.path.startswith(_OPEN_FOLDERS):
        return []
    found = (_bearer(request_info.authorization), _query_token(request_info), request_info.cookies.get(COOKIE))
    return [secret for secret in found if secret is not None]


def takes_secret(path: str) -> bool:
    """Return whether requests to the path send the token in their body."""
    return path == _TOKENS


def _authorize_browser(access: Access, request_info: RequestInfo) -> Verdict:
    if access.token is None:
        return Verdict.ALLOW if is_loopback(_host_name(request_info.host or "")) else Verdict.BAD_HOST
    if request_info.path in _OPEN_PATHS or request_info.path.startswith(_OPEN_FOLDERS):
        return Verdict.ALLOW
    if has_bearer_token(access, request_info.authorization):
        return Verdict.ALLOW
    given = _query_token(request_info)
    if given is not None:
        return Verdict.LOG_IN if _is_same(given, access.token) else Verdict.UNAUTHENTICATED
    if _is_same(request_info.cookies.get(COOKIE), derive_session_cookie(access.token)):
        return Verdict.ALLOW
    return Verdict.UNAUTHENTICATED


def derive_session_cookie(token: str) -> str:
    """Return what the cookie holds: enough to know the visitor again, and not the token itself."""
    return hmac.new(token.encode(), b"mangrove explorer session", hashlib.sha256).hexdigest()


def derive_csrf_token(token: str) -> str:
    """Return what a form holds that changes something: only who may read our pages can know it."""
    return hmac.new(token.encode(), b"mangrove explorer form", hashlib.sha256).hexdigest()


def strip_token(path: str, query: str) -> str:
    """Return the address without its token, and never one of another server.

    >>> strip_token("/history", "token=secret&before=7")
    '/history?before=7'
    >>> strip_token("//elsewhere/", "token=secret")
    '/elsewhere/'
    """
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != _FIELD]
    step = "/" + path.lstrip("/\\")
    return f"{step}?{urlencode(kept)}" if kept else step


def _is_cross_site_page(request_info: RequestInfo) -> bool:
    """Return whether a page of elsewhere asks what only programs ask: for some answers files are written."""
    return request_info.path.startswith(_CLIENTS_FOLDER) and request_info.site in ("cross-site", "same-site")


def _is_same_origin(request_info: RequestInfo) -> bool:
    if request_info.site is not None:
        return request_info.site == "same-origin"
    return (
        request_info.origin is not None
        and request_info.host is not None
        and urlsplit(request_info.origin).netloc == request_info.host
    )


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _query_token(request_info: RequestInfo) -> str | None:
    return dict(parse_qsl(request_info.query)).get(_FIELD)


def _bearer(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _is_same(given: str | None, wanted: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


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


class AccessMiddleware:
    """An ASGI application around another."""

    def __init__(self, inner: ASGIApp, access: Access, metrics: ServerMetrics, throttle: TokenThrottle) -> None:
        self._inner = inner
        self._access = access
        self._metrics = metrics
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
                self._metrics.count_request(scope["path"], message["status"])
                if takes_secret(scope["path"]) and message["status"] == 401:
                    self._throttle.record_wrong(peer, None)
            await send(message)

        answer = self._refused(scope, peer)
        await (self._inner if answer is None else answer)(scope, receive, send_guarded)

    def _refused(self, scope: Scope, peer: str) -> Response | None:
        request_info = _build_request_info(scope)
        secrets = shown_secrets(request_info) if self._access.token is not None else []
        if secrets or takes_secret(request_info.path):
            seconds = self._throttle.retry_after_seconds(peer)
            if seconds is not None:
                # The right token is refused too: else the answer would say which guess was right.
                answer = _respond_message(
                    request_info, 429, "Too many wrong tokens", _THROTTLED.format(seconds=seconds)
                )
                answer.headers["Retry-After"] = str(seconds)
                return answer
        verdict = authorize(self._access, request_info)
        if verdict is Verdict.UNAUTHENTICATED:
            for secret in secrets:
                self._throttle.record_wrong(peer, secret)
        return self._refused_by(verdict, scope, request_info)

    def _refused_by(self, verdict: Verdict, scope: Scope, request_info: RequestInfo) -> Response | None:
        match verdict:
            case Verdict.ALLOW:
                return None
            case Verdict.LOG_IN:
                return self._logged_in(scope, request_info)
            case Verdict.UNAUTHENTICATED:
                answer = _respond_message(request_info, 401, "A token is needed", _FOR_WHOM)
                answer.headers["WWW-Authenticate"] = 'Bearer realm="mangrove"'
                return answer
            case Verdict.BAD_HOST:
                return _respond_message(request_info, 421, "Another name", _BAD_HOST_MESSAGE)
            case Verdict.CROSS_ORIGIN:
                return _respond_message(request_info, 403, "Not from here", _CROSS_ORIGIN_MESSAGE)

    def _logged_in(self, scope: Scope, request_info: RequestInfo) -> Response:
        answer = RedirectResponse(strip_token(request_info.path, request_info.query), 303)
        assert self._access.token is not None
        answer.set_cookie(
            COOKIE,
            derive_session_cookie(self._access.token),
            httponly=True,
            samesite="lax",
            secure=scope.get("scheme") == "https",
        )
        return answer


_FOR_WHOM: Final = (
    "This lakehouse is shown to who has its token: open the address with ?token=… once, "
    "or send the header Authorization: Bearer …"
)
_BAD_HOST_MESSAGE: Final = (
    "Without a token this server answers only to localhost and 127.0.0.1: open it under one of these, "
    "or start it with a token"
)
_CROSS_ORIGIN_MESSAGE: Final = (
    "Only a page of this server may change something, or a program that sends the header Authorization: Bearer …: "
    "open the page here, and press its button"
)


_THROTTLED: Final = "Too many wrong tokens came from this address: try again in {seconds} seconds"


def _respond_message(request_info: RequestInfo, status: int, title: str, sentence: str) -> Response:
    if is_iceberg_path(request_info.path):
        return respond_iceberg_error(status, sentence)
    return respond_error(status, title, sentence, as_json=request_info.path.startswith("/api"))


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return peer_of(client[0]) if client else ""


def _build_request_info(scope: Scope) -> RequestInfo:
    headers = Headers(scope=scope)
    return RequestInfo(
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

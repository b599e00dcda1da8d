"""Authorization of requests: tokens, session cookies, CSRF protection and security headers.

Without a token the server listens on a loopback address only, and answers only requests whose
Host header is a loopback name. This prevents DNS rebinding: a foreign page that resolves its own
name to this machine and reads the responses.

The server's token may do everything. The token of a principal has the rights that the access rules
of the lakehouse give it; sessions and forms of principals are keyed by the server's token, which a
reader of the rules does not know.

A request that writes needs the token in any case, and must not be cross-origin: a browser sends
the session cookie also with a form of a foreign page.
"""

import enum
import hashlib
import hmac
import ipaddress
import json
import logging
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mangrove.errors import InvalidInputError, MangroveError
from mangrove.model.access import AccessRules, Principal
from mangrove.rest.errors import is_iceberg_path, respond_iceberg_error
from mangrove.server.connections import peer_of
from mangrove.server.metrics import ServerMetrics
from mangrove.server.token_throttle import TokenThrottle
from mangrove.web.responses import respond_error

__all__ = [
    "AUDIT_LOGGER",
    "COOKIE",
    "RULES_UNAVAILABLE_MESSAGE",
    "SECURITY_HEADERS",
    "TOKEN_LENGTH_MIN",
    "Access",
    "AccessMiddleware",
    "Caller",
    "RequestInfo",
    "Verdict",
    "authorize",
    "derive_csrf_token",
    "derive_session_cookie",
    "extract_secrets",
    "find_bearer",
    "find_caller",
    "find_token_owner",
    "has_secret_in_body",
    "is_loopback",
    "strip_token",
]

COOKIE: Final = "mangrove_session"
TOKEN_LENGTH_MIN: Final = 16
"""The minimum length of a token, so that it cannot be guessed."""
_TOKENS: Final = "/iceberg/v1/oauth/tokens"
"""The OAuth endpoint of the Iceberg REST protocol. It returns the token that the client sent, and writes nothing."""
_OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", _TOKENS})
_CLIENTS_FOLDER: Final = "/iceberg/"
_OPEN_FOLDERS: Final = ("/static/",)
_FIELD: Final = "token"
_REFUSED: Final = frozenset({401, 403, 429})
_READING: Final = frozenset({"GET", "HEAD"})
_STATEMENT_PATHS: Final = ("/sql", "/api/sql")


class Verdict(enum.Enum):
    """What to do with a request."""

    ALLOW = "allow"
    LOG_IN = "log in"
    """The URL has the right token: set the session cookie and redirect to the URL without it."""
    UNAUTHENTICATED = "unauthenticated"
    """The token is missing or wrong."""
    BAD_HOST = "bad host"
    """The Host header is not a loopback name, and there is no token."""
    CROSS_ORIGIN = "cross origin"
    """The request writes, and no header proves that a page of this server sent it."""


@dataclass(frozen=True, slots=True)
class Access:
    """The address that the server listens on, the token that it requires, and whether it accepts writes."""

    host: str
    token: str | None = field(default=None, repr=False)
    is_writable: bool = False

    def __post_init__(self) -> None:
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token.strip()):
            raise InvalidInputError(
                "the token has characters other than printable ASCII; generate one, as with `openssl rand -hex 32`"
            )
        if self.token is not None and len(self.token) < TOKEN_LENGTH_MIN:
            raise InvalidInputError(
                f"the token has {len(self.token)} characters; expected at least {TOKEN_LENGTH_MIN}: "
                "generate one, as with `openssl rand -hex 32`"
            )
        if self.token is None and not is_loopback(self.host):
            raise InvalidInputError(
                f"{self.host!r} is not a loopback address and requires a token: give --token, or listen on 127.0.0.1"
            )
        if self.token is None and self.is_writable:
            raise InvalidInputError(
                "a writable server requires a token, also on a loopback address: give --token, or omit --writable"
            )


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The parts of a request that authorization uses."""

    path: str
    query: str = ""
    host: str | None = None
    """The Host header."""
    authorization: str | None = None
    cookies: Mapping[str, str] = field(default_factory=dict)
    method: str = "GET"
    origin: str | None = None
    """The Origin header: the server whose page sent a form."""
    site: str | None = None
    """The Sec-Fetch-Site header, which the browser sets from the URL before any proxy changes it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    secret: str = field(repr=False)
    """The key of the session cookie and of forms."""
    principal: str | None = None
    """None for the bearer of the server's token, who may do everything."""

    @property
    def session_cookie(self) -> str:
        """The value of the session cookie."""
        digest = derive_session_cookie(self.secret)
        return digest if self.principal is None else f"{digest}.{self.principal}"


_NO_RULES: Final = AccessRules()


def find_token_owner(access: Access, token: str | None, rules: AccessRules = _NO_RULES) -> Caller | None:
    """Return who has a token."""
    if access.token is None or token is None:
        return None
    if _is_same(token, access.token):
        return Caller(access.token)
    return _caller_of(access.token, rules.find_by_token(token))


def _caller_of(token: str, principal: Principal | None) -> Caller | None:
    return None if principal is None else Caller(f"{token} {principal.token_digest}", principal.name)


def find_bearer(access: Access, authorization: str | None, rules: AccessRules = _NO_RULES) -> Caller | None:
    """Return who has the token of the header; no browser adds that header to a form of a foreign page."""
    return find_token_owner(access, _bearer(authorization), rules)


def find_caller(access: Access, request_info: RequestInfo, rules: AccessRules = _NO_RULES) -> Caller | None:
    """Return who sent a request, by its token or its session cookie."""
    bearer = find_bearer(access, request_info.authorization, rules)
    given = _query_token(request_info)
    if access.token is None or bearer is not None or given is not None:
        return bearer or find_token_owner(access, given, rules)
    cookie = request_info.cookies.get(COOKIE, "")
    _, dot, name = cookie.partition(".")
    caller = _caller_of(access.token, rules.principals.get(name)) if dot else Caller(access.token)
    return caller if caller is not None and _is_same(cookie, caller.session_cookie) else None


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


def authorize(access: Access, request_info: RequestInfo, rules: AccessRules = _NO_RULES) -> Verdict:
    """Return what to do with a request."""
    verdict = _authorize_browser(access, request_info, rules)
    if verdict is not Verdict.ALLOW:
        return verdict
    if _is_cross_site_page(request_info) or _is_foreign_statement(request_info):
        return Verdict.CROSS_ORIGIN
    if not access.is_writable or request_info.method in _READING or request_info.path == _TOKENS:
        return verdict
    if find_bearer(access, request_info.authorization, rules) is not None:
        return Verdict.ALLOW
    return Verdict.ALLOW if _is_same_origin(request_info) else Verdict.CROSS_ORIGIN


def extract_secrets(request_info: RequestInfo) -> list[str]:
    """Return the tokens and session cookies of a request, right or wrong, on paths that require the token."""
    if request_info.path in _OPEN_PATHS or request_info.path.startswith(_OPEN_FOLDERS):
        return []
    secrets = (_bearer(request_info.authorization), _query_token(request_info), request_info.cookies.get(COOKIE))
    return [secret for secret in secrets if secret is not None]


def has_secret_in_body(path: str) -> bool:
    """Return whether requests to the path have the token in their body."""
    return path == _TOKENS


def _authorize_browser(access: Access, request_info: RequestInfo, rules: AccessRules) -> Verdict:
    if access.token is None:
        return Verdict.ALLOW if is_loopback(_host_name(request_info.host or "")) else Verdict.BAD_HOST
    if request_info.path in _OPEN_PATHS or request_info.path.startswith(_OPEN_FOLDERS):
        return Verdict.ALLOW
    if find_caller(access, request_info, rules) is None:
        return Verdict.UNAUTHENTICATED
    has_login = find_bearer(access, request_info.authorization, rules) is None and _query_token(request_info)
    return Verdict.LOG_IN if has_login else Verdict.ALLOW


def derive_session_cookie(token: str) -> str:
    """Return the value of the session cookie: a keyed hash, from which nobody can compute the token."""
    return hmac.new(token.encode(), b"mangrove explorer session", hashlib.sha256).hexdigest()


def derive_csrf_token(token: str) -> str:
    """Return the CSRF token of forms, which only readers of the pages know."""
    return hmac.new(token.encode(), b"mangrove explorer form", hashlib.sha256).hexdigest()


def strip_token(path: str, query: str) -> str:
    """Return the path and query without the token, and never a URL of another server.

    >>> strip_token("/history", "token=secret&before=7")
    '/history?before=7'
    >>> strip_token("//evil.example/", "token=secret")
    '/evil.example/'
    """
    fields = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != _FIELD]
    step = "/" + path.lstrip("/\\")
    return f"{step}?{urlencode(fields)}" if fields else step


def _is_cross_site_page(request_info: RequestInfo) -> bool:
    """Return whether a foreign page requests an Iceberg path; some of these requests write files."""
    return request_info.path.startswith(_CLIENTS_FOLDER) and request_info.site in ("cross-site", "same-site")


def _is_foreign_statement(request_info: RequestInfo) -> bool:
    """Return whether a foreign page runs SQL; it cannot read the rows, but it could keep the server busy."""
    is_statement = request_info.method not in _READING and request_info.path.startswith(_STATEMENT_PATHS)
    has_page = request_info.site is not None or request_info.origin is not None
    return is_statement and has_page and not _is_same_origin(request_info)


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


def _is_same(given: str | None, expected: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


SECURITY_HEADERS: Final = {
    # No scripts and nothing from other servers: a hostile name that becomes markup still runs nothing.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With `no-referrer`, browsers would send no Origin header with our own forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_SCRIPTED_PATH: Final = "/sql"
_SCRIPTED_POLICY: Final = f"{SECURITY_HEADERS['Content-Security-Policy']}; script-src 'self'; connect-src 'self'"
"""The policy of the SQL editor, the only page with a script. It is a file of this server."""


class AccessMiddleware:
    """ASGI middleware that authorizes requests, adds security headers and counts requests.

    It wraps the whole application, so that responses to unexpected errors pass through it as well.
    """

    def __init__(
        self,
        inner: ASGIApp,
        access: Access,
        metrics: ServerMetrics,
        throttle: TokenThrottle,
        load_rules: Callable[[str | None], AccessRules] = lambda _: AccessRules(),
    ) -> None:
        self._load_rules = load_rules
        self._inner = inner
        self._access = access
        self._metrics = metrics
        self._throttle = throttle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or send the response that refuses it."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return

        peer, request_info = _peer(scope), _build_request_info(scope)
        answer: Response | None = None
        try:
            rules = await self._load_rules_for(request_info)
        except MangroveError:
            rules = _NO_RULES
            answer = _respond_message(request_info, 503, "Storage is unavailable", RULES_UNAVAILABLE_MESSAGE)
        caller = find_caller(self._access, request_info, rules)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, scope["path"])
                self._metrics.count_request(scope["path"], message["status"])
                _audit(request_info, caller, peer, message["status"])
                if has_secret_in_body(scope["path"]) and message["status"] == 401:
                    self._throttle.record_wrong(peer, None)
            await send(message)

        if answer is None:
            answer = self._refuse(scope, request_info, peer, rules)
        scope.setdefault("state", {}).update(caller=caller, rules=rules)
        await (self._inner if answer is None else answer)(scope, receive, send_guarded)

    async def _load_rules_for(self, request_info: RequestInfo) -> AccessRules:
        """Return the access rules if the request has a secret that is not the server's."""
        known = find_caller(self._access, request_info)
        if self._access.token is None or known is not None or not extract_secrets(request_info):
            return _NO_RULES
        return await run_in_threadpool(self._load_rules, _bearer(request_info.authorization))

    def _refuse(self, scope: Scope, request_info: RequestInfo, peer: str, rules: AccessRules) -> Response | None:
        secrets = extract_secrets(request_info) if self._access.token is not None else []
        if secrets or has_secret_in_body(request_info.path):
            seconds = self._throttle.retry_after_seconds(peer)
            if seconds is not None:
                # The right token is refused too: otherwise the response would reveal a right guess.
                answer = _respond_message(
                    request_info, 429, "Too many wrong tokens", _THROTTLED.format(seconds=seconds)
                )
                answer.headers["Retry-After"] = str(seconds)
                return answer
        verdict = authorize(self._access, request_info, rules)
        if verdict is Verdict.UNAUTHENTICATED:
            for secret in secrets:
                self._throttle.record_wrong(peer, secret)
        return self._respond_to_verdict(verdict, scope, request_info, rules)

    def _respond_to_verdict(
        self, verdict: Verdict, scope: Scope, request_info: RequestInfo, rules: AccessRules
    ) -> Response | None:
        match verdict:
            case Verdict.ALLOW:
                return None
            case Verdict.LOG_IN:
                return self._respond_logged_in(scope, request_info, rules)
            case Verdict.UNAUTHENTICATED:
                answer = _respond_message(request_info, 401, "Token required", _UNAUTHENTICATED_MESSAGE)
                answer.headers["WWW-Authenticate"] = 'Bearer realm="mangrove"'
                return answer
            case Verdict.BAD_HOST:
                return _respond_message(request_info, 421, "Wrong host name", _BAD_HOST_MESSAGE)
            case Verdict.CROSS_ORIGIN:
                return _respond_message(request_info, 403, "Cross-origin request", _CROSS_ORIGIN_MESSAGE)

    def _respond_logged_in(self, scope: Scope, request_info: RequestInfo, rules: AccessRules) -> Response:
        answer = RedirectResponse(strip_token(request_info.path, request_info.query), 303)
        caller = find_caller(self._access, request_info, rules)
        assert caller is not None
        answer.set_cookie(
            COOKIE,
            caller.session_cookie,
            httponly=True,
            samesite="lax",
            secure=scope.get("scheme") == "https",
        )
        return answer


_UNAUTHENTICATED_MESSAGE: Final = (
    "This server requires a token: open the URL with ?token=… once, or send the header Authorization: Bearer …"
)
_BAD_HOST_MESSAGE: Final = (
    "Without a token this server answers only to localhost and loopback addresses: open http://127.0.0.1, "
    "or start it with --token"
)
_CROSS_ORIGIN_MESSAGE: Final = (
    "Writes are accepted only from a page of this server, or with the header Authorization: Bearer …: "
    "open the page on this server and submit its form"
)


RULES_UNAVAILABLE_MESSAGE: Final = "The access rules cannot be read now; see the log of the server, and try again."
"""The response to a request before its caller is known, so it has no details of the storage."""
_THROTTLED: Final = "too many wrong tokens from this address; try again in {seconds} seconds"


AUDIT_LOGGER: Final = logging.getLogger("mangrove.audit")


def _audit(request_info: RequestInfo, caller: Caller | None, peer: str, status: int) -> None:
    """Log a request that may change something: who sent it, and whether it was refused.

    The history has what was committed. The query is left out, because it may contain a token.
    """
    if request_info.method in _READING and status not in _REFUSED:
        return
    principal = None if caller is None else caller.principal
    entry = {"principal": principal, "peer": peer, "method": request_info.method, "path": request_info.path}
    AUDIT_LOGGER.log(logging.WARNING if status in _REFUSED else logging.INFO, json.dumps({**entry, "status": status}))


def _respond_message(request_info: RequestInfo, status: int, title: str, sentence: str) -> Response:
    if is_iceberg_path(request_info.path):
        return respond_iceberg_error(status, sentence)
    return respond_error(status, title, sentence, as_json=request_info.path.startswith("/api"))


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return peer_of(client[0]) if client else ""


def _build_request_info(scope: Scope) -> RequestInfo:
    request = Request(scope)
    headers = request.headers
    return RequestInfo(
        scope["path"],
        scope.get("query_string", b"").decode("latin-1"),
        headers.get("host"),
        headers.get("authorization"),
        request.cookies,
        request.method,
        headers.get("origin"),
        headers.get("sec-fetch-site"),
    )


def _add_headers(message: MutableMapping[str, Any], path: str) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in SECURITY_HEADERS.items():
        headers[name] = value
    if path == _SCRIPTED_PATH:
        headers["Content-Security-Policy"] = _SCRIPTED_POLICY
    headers.setdefault("Cache-Control", "no-store")

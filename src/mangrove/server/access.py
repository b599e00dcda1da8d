"""Deciding who may see a page: on this machine everybody, from anywhere else who has the token.

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from mangrove.errors import InvalidInputError

__all__ = [
    "COOKIE",
    "TOKEN_LENGTH_MIN",
    "Access",
    "Asking",
    "Verdict",
    "has_bearer",
    "is_loopback",
    "is_token",
    "judge",
    "proof_of",
    "session_of",
    "shown_secrets",
    "takes_secret",
    "without_token",
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

    ANSWER = "answer"
    LOG_IN = "log in"
    """The address holds the right token: remember it in a cookie, and go to the address without it."""
    STRANGER = "stranger"
    """The token is missing or wrong: ask for it."""
    WRONG_NAME = "wrong name"
    """It was sent to a name that is not this machine's."""
    ELSEWHERE = "elsewhere"
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
class Asking:
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


def judge(access: Access, asking: Asking) -> Verdict:
    """Return what to do with a request."""
    verdict = _judge_visitor(access, asking)
    if verdict is not Verdict.ANSWER:
        return verdict
    if _is_page_of_others(asking):
        return Verdict.ELSEWHERE
    if not access.is_writable or asking.method in _READING or asking.path == _TOKENS:
        return verdict
    if has_bearer(access, asking.authorization):
        return Verdict.ANSWER
    return Verdict.ANSWER if _is_from_here(asking) else Verdict.ELSEWHERE


def has_bearer(access: Access, authorization: str | None) -> bool:
    """Return whether the header holds the token; no browser adds that header to a stranger's form."""
    return access.token is not None and _is_same(_bearer(authorization), access.token)


def is_token(access: Access, text: str) -> bool:
    """Return whether a text is the token; how long it takes says nothing about it."""
    return access.token is not None and _is_same(text, access.token)


def shown_secrets(asking: Asking) -> list[str]:
    """Return what a request shows as a token or a session, right or wrong, where that is compared with the token."""
    if asking.path in _OPEN_PATHS or asking.path.startswith(_OPEN_FOLDERS):
        return []
    found = (_bearer(asking.authorization), _query_token(asking), asking.cookies.get(COOKIE))
    return [secret for secret in found if secret is not None]


def takes_secret(path: str) -> bool:
    """Return whether requests to the path send the token in their body."""
    return path == _TOKENS


def _judge_visitor(access: Access, asking: Asking) -> Verdict:
    if access.token is None:
        return Verdict.ANSWER if is_loopback(_host_name(asking.host or "")) else Verdict.WRONG_NAME
    if asking.path in _OPEN_PATHS or asking.path.startswith(_OPEN_FOLDERS):
        return Verdict.ANSWER
    if has_bearer(access, asking.authorization):
        return Verdict.ANSWER
    given = _query_token(asking)
    if given is not None:
        return Verdict.LOG_IN if _is_same(given, access.token) else Verdict.STRANGER
    if _is_same(asking.cookies.get(COOKIE), session_of(access.token)):
        return Verdict.ANSWER
    return Verdict.STRANGER


def session_of(token: str) -> str:
    """Return what the cookie holds: enough to know the visitor again, and not the token itself."""
    return hmac.new(token.encode(), b"mangrove explorer session", hashlib.sha256).hexdigest()


def proof_of(token: str) -> str:
    """Return what a form holds that changes something: only who may read our pages can know it."""
    return hmac.new(token.encode(), b"mangrove explorer form", hashlib.sha256).hexdigest()


def without_token(path: str, query: str) -> str:
    """Return the address without its token, and never one of another server.

    >>> without_token("/history", "token=secret&before=7")
    '/history?before=7'
    >>> without_token("//elsewhere/", "token=secret")
    '/elsewhere/'
    """
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != _FIELD]
    step = "/" + path.lstrip("/\\")
    return f"{step}?{urlencode(kept)}" if kept else step


def _is_page_of_others(asking: Asking) -> bool:
    """Return whether a page of elsewhere asks what only programs ask: for some answers files are written."""
    return asking.path.startswith(_CLIENTS_FOLDER) and asking.site in ("cross-site", "same-site")


def _is_from_here(asking: Asking) -> bool:
    if asking.site is not None:
        return asking.site == "same-origin"
    return asking.origin is not None and asking.host is not None and urlsplit(asking.origin).netloc == asking.host


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _query_token(asking: Asking) -> str | None:
    return dict(parse_qsl(asking.query)).get(_FIELD)


def _bearer(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _is_same(given: str | None, wanted: str) -> bool:
    return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())

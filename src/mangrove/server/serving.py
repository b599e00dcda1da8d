"""Server lifecycle: socket binding, start and graceful shutdown."""

import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from mangrove.effects import build_effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.cache import CacheSettings
from mangrove.lakehouse.opening import open_on_store
from mangrove.lakehouse.store_resolution import resolve_store
from mangrove.rest.errors import BASE_PATH
from mangrove.rest.settings import RestSettings
from mangrove.server.access import AUDIT_LOGGER, Access
from mangrove.server.app import build_app, has_iceberg
from mangrove.server.connections import ConnectionLimits, LimitedServer, limits_of
from mangrove.server.identity import IdentitySettings
from mangrove.server.workers import run_workers
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store
from mangrove.wiring import build_engines_factory

__all__ = ["Certificate", "certificate_of", "serve"]

_SHUTDOWN_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Certificate:
    """The PEM files of a TLS certificate with its chain, and of its private key."""

    certificate_path: str
    key_path: str

    def __post_init__(self) -> None:
        def refuse_password() -> str:
            raise InvalidInputError(f"the TLS key {self.key_path} is encrypted; give a key without a password")

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                self.certificate_path, self.key_path, refuse_password
            )
        except (OSError, ValueError) as error:
            raise InvalidInputError(
                f"the TLS certificate {self.certificate_path} cannot be used with the key {self.key_path} ({error}): "
                "give PEM files that belong together"
            ) from error


def certificate_of(certificate_path: str | None, key_path: str | None) -> Certificate | None:
    """Return the certificate, or None without both files; one without the other is an error."""
    if certificate_path is None and key_path is None:
        return None
    if certificate_path is None or key_path is None:
        raise InvalidInputError("--tls-cert and --tls-key must be given together")
    return Certificate(certificate_path, key_path)


def serve(
    uri: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8181,
    token: str | None = None,
    is_writable: bool = False,
    storage_options: Mapping[str, str] | None = None,
    cache: CacheSettings | None = None,
    certificate: Certificate | None = None,
    connections_per_peer_max: int | None = None,
    wrong_tokens_max: int | None = None,
    rest_settings: RestSettings | None = None,
    identity: IdentitySettings | None = None,
    workers: int = 1,
    announce: Callable[[str, str | None], None],
) -> None:
    """Serve the lakehouse or export at `uri` until stopped.

    `announce` is called when the server listens, with the URL for browsers and the URL of the
    Iceberg REST catalog (None if the extra is not installed). Port 0 chooses a free port. A
    writable server accepts rollbacks and Iceberg commits from clients with the token. With a
    `certificate` the server speaks HTTPS only. Several `workers` are processes that share the socket.
    """
    access = Access(host, token, is_writable)
    if workers < 1:
        raise InvalidInputError(f"invalid number {workers} of worker processes; expected at least 1")
    # Each process counts the connections and wrong tokens that it sees.
    settings = _Settings(
        uri,
        access,
        dict(storage_options or {}),
        cache,
        certificate,
        limits_of(connections_per_peer_max),
        wrong_tokens_max if not wrong_tokens_max else -(-wrong_tokens_max // workers),
        rest_settings,
        identity,
    )
    app = _open_app(settings)
    with _bind_socket(host, port) as listening:
        authority = f"[{host}]" if ":" in host else host
        origin = f"{'https' if certificate else 'http'}://{authority}:{listening.getsockname()[1]}"
        iceberg = f"{origin}{BASE_PATH}" if has_iceberg() else None

        def on_listening() -> None:
            announce(f"{origin}/", iceberg)

        if workers == 1:
            _run_server(settings, app, listening, on_listening)
        else:
            run_workers(partial(_run_worker, settings), listening, workers, on_listening)


@dataclass(frozen=True, slots=True)
class _Settings:
    """What a process needs to serve a lakehouse."""

    uri: str
    access: Access
    storage_options: Mapping[str, str]
    cache: CacheSettings | None
    certificate: Certificate | None
    limits: ConnectionLimits
    wrong_tokens_max: int | None
    rest_settings: RestSettings | None
    identity: IdentitySettings | None


def _open_app(settings: _Settings) -> ASGIApp:
    counted: list[CountingStore] = []
    options = settings.storage_options or None

    def store_at(place: str | os.PathLike[str]) -> Store:
        # The counter is below the cache: a cache hit is no storage request.
        counted.append(CountingStore(open_store(place, options)))
        return counted[-1]

    effects = build_effects(resolve_store(settings.uri, store_at, settings.cache))
    lake = open_on_store(effects, engines=build_engines_factory(options), storage_options=options)
    return build_app(
        lake,
        settings.access,
        counted=counted,
        wrong_tokens_max=settings.wrong_tokens_max,
        rest_settings=settings.rest_settings,
        identity=settings.identity,
    )


def _run_worker(settings: _Settings, listening: socket.socket, on_listening: Callable[[], None]) -> None:
    _run_server(settings, _open_app(settings), listening, on_listening)


def _run_server(settings: _Settings, app: ASGIApp, listening: socket.socket, on_listening: Callable[[], None]) -> None:
    certificate = settings.certificate
    config = uvicorn.Config(
        app,
        log_level="warning",
        # A URL may contain the token, which must not be logged.
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        ssl_certfile=certificate.certificate_path if certificate else None,
        ssl_keyfile=certificate.key_path if certificate else None,
        # Connections are limited before that, so this bounds the requests that go on after their client has left.
        limit_concurrency=2 * settings.limits.total_max,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    # Users stop the server with Ctrl-C; uvicorn raises it again after its graceful shutdown.
    with _log_audit(), suppress(KeyboardInterrupt):
        LimitedServer(config, settings.limits, on_listening).run(sockets=[listening])


@contextmanager
def _log_audit() -> Iterator[None]:
    """Write the audit log to standard error, unless the program has configured logging."""
    if AUDIT_LOGGER.hasHandlers():
        yield
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    AUDIT_LOGGER.addHandler(handler)
    AUDIT_LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        AUDIT_LOGGER.removeHandler(handler)


def _bind_socket(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise InvalidInputError(f"invalid port {port}; expected 0 to 65535, where 0 chooses a free port")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidInputError(f"cannot resolve address {host!r} ({error})") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        raise InvalidInputError(f"cannot listen on {host}:{port} ({error}); choose another port") from error
    return listening

"""Serving a lakehouse on an address until somebody stops it."""

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import uvicorn

from mangrove.effects import real_effects
from mangrove.errors import InvalidInputError
from mangrove.lakehouse.caching import Cache
from mangrove.lakehouse.opening import open_on, store_to_open
from mangrove.rest.refusals import BASE
from mangrove.server.access import Access
from mangrove.server.app import build_app, has_iceberg
from mangrove.storage.counting import CountingStore
from mangrove.storage.opening import open_store
from mangrove.storage.port import Store

__all__ = ["serve"]

_CONNECTIONS_MAX: Final = 256
_GOODBYE_SECONDS: Final = 5


def serve(
    uri: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8181,
    token: str | None = None,
    is_writable: bool = False,
    storage_options: Mapping[str, str] | None = None,
    cache: Cache | None = None,
    announce: Callable[[str, str | None], None],
) -> None:
    """Serve the lakehouse at `uri`, which may be an export of another; what never changes is kept in the cache.

    `announce` is told, once they can be opened, the address for browsers and that for clients
    of Iceberg's REST catalog, or None where that is not installed. Port 0 takes one that is
    free. Where it is writable, who has the token may roll back, and commit as such a client.
    """
    access = Access(host, token, is_writable)
    counted: list[CountingStore] = []

    def store_at(place: str | os.PathLike[str]) -> Store:
        # What the cache answers is no request, so it stands before what counts them.
        counted.append(CountingStore(open_store(place, storage_options)))
        return counted[-1]

    lake = open_on(real_effects(store_to_open(uri, store_at, cache)), storage_options=storage_options)
    listening = _listening(host, port)
    config = uvicorn.Config(
        build_app(lake, access, counted=counted),
        log_level="warning",
        # An address may hold a token, and a log is read by many.
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        limit_concurrency=_CONNECTIONS_MAX,
        timeout_graceful_shutdown=_GOODBYE_SECONDS,
    )
    with listening:
        shown = f"[{host}]" if ":" in host else host
        origin = f"http://{shown}:{listening.getsockname()[1]}"
        announce(f"{origin}/", f"{origin}{BASE}" if has_iceberg() else None)
        # Ctrl-C is how people stop it; uvicorn raises it again after it has said goodbye to its visitors.
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise InvalidInputError(f"there is no port {port}: give one from 0 to 65535, where 0 takes one that is free")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidInputError(f"{host!r} is no address of this machine ({error})") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        raise InvalidInputError(f"{host}:{port} cannot be listened on ({error}): choose another port") from error
    return listening

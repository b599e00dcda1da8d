"""Limits on connections: how many a peer and all peers may hold, and how long a request may take to arrive.

A connection that waits for a request, or has sent half of one, is closed when its time is
over, or earlier when a new connection needs its place: the oldest of the same peer goes first.
TLS handshakes, headers, bodies and answers that the peer does not read are all counted, so none
of them keeps a client out that sends a whole request. Only where all places are taken by
requests that are being answered is a new connection refused.
"""

import asyncio
import enum
import ipaddress
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from mangrove.errors import InvalidInputError

__all__ = ["ConnectionLimits", "LimitedServer", "limits_of", "peer_of"]

_IPV6_PREFIX_BITS: Final = 64
"""The smallest IPv6 prefix that a provider assigns; a peer can use all addresses within it."""
_REFUSED: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 21\r\n\r\ntoo many connections\n"
)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits on the number of open connections and on timeouts."""

    per_peer_max: int = 128
    """Connections of one peer: an IPv4 address, or the first 64 bits of an IPv6 address."""
    total_max: int = 512
    headers_seconds: float = 10.0
    """From the start of a connection, or the end of the previous response, to the end of the request headers."""
    body_seconds: float = 60.0
    """From the end of the headers to the end of the body."""
    stalled_seconds: float = 60.0
    """For how long a peer may take nothing of an answer."""
    stalled_grace_seconds: float = 2.0
    """After how long without taking anything of an answer a connection is closed where a new one needs its place."""

    def __post_init__(self) -> None:
        if self.per_peer_max < 1 or self.total_max < 1:
            raise InvalidInputError(
                f"the limit is {self.per_peer_max} connections per peer, {self.total_max} in all; expected at least 1"
            )


def limits_of(per_peer_max: int | None = None) -> ConnectionLimits:
    """Return the default limits with another limit per peer, which raises the total if it is greater."""
    usual = ConnectionLimits()
    if per_peer_max is None:
        return usual
    return ConnectionLimits(per_peer_max, max(per_peer_max, usual.total_max))


class LimitedServer(uvicorn.Server):
    """Uvicorn with limited connections."""

    def __init__(
        self, config: uvicorn.Config, limits: ConnectionLimits, on_listening: Callable[[], None] | None = None
    ) -> None:
        super().__init__(config)
        self._pool = _Pool(limits)
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections on the sockets."""
        await super().startup(sockets=[])
        loop = asyncio.get_running_loop()
        for listening in sockets or ():
            server = await loop.create_server(
                self._accept,
                sock=listening,
                backlog=self.config.backlog,
            )
            self.servers.append(server)
        # Signals are handled from here on, so a client that reads the announcement can stop the server.
        if self._on_listening is not None:
            self._on_listening()

    def _accept(self) -> asyncio.Protocol:
        connection = _Connection(self.config, self.server_state, self.lifespan.state, self._pool)
        return connection if self.config.ssl is None else _Handshake(connection, self.config.ssl, self._pool)


def peer_of(address: str) -> str:
    """Return the key by which the connections of one peer are counted.

    >>> peer_of("192.0.2.7"), peer_of("::ffff:192.0.2.7"), peer_of("2001:db8::1:2:3:4")
    ('192.0.2.7', '192.0.2.7', '2001:db8::/64')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), _IPV6_PREFIX_BITS), strict=False))


class _Awaited(enum.Enum):
    """What the server waits for from the peer."""

    HEADERS = "headers"
    BODY = "body"
    NOTHING = "nothing"


class _Eviction(enum.IntEnum):
    """Which connections are closed first where a new one needs a place."""

    WAITS_FOR_HEADERS = 0
    WAITS_FOR_BODY = 1
    STALLED = 2
    NEVER = 3


class _Counted(Protocol):
    """A connection that takes a place in the pool."""

    peer: str
    transport: asyncio.Transport

    @property
    def eviction(self) -> _Eviction:
        """How soon it is closed for another."""
        ...


class _Pool:
    """The open connections by peer, oldest first."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._by_peer: dict[str, dict[_Counted, None]] = {}
        self._count = 0

    def admit(self, connection: _Counted) -> bool:
        """Take a connection, if need be in the place of one that waits; return whether there was a place."""
        own = self._by_peer.get(connection.peer, {})
        if len(own) >= self.limits.per_peer_max and not self._evict_oldest(own):
            return False
        if self._count >= self.limits.total_max:
            most_first = sorted(self._by_peer.values(), key=len, reverse=True)
            if not any(self._evict_oldest(some) for some in most_first):
                return False
        self._by_peer.setdefault(connection.peer, {})[connection] = None
        self._count += 1
        return True

    def release(self, connection: _Counted) -> None:
        """Forget a connection, if it is known."""
        own = self._by_peer.get(connection.peer, {})
        if connection in own:
            del own[connection]
            self._count -= 1
            if not own:
                del self._by_peer[connection.peer]

    def _evict_oldest(self, connections: dict[_Counted, None]) -> bool:
        # Of equals `min` returns the first, which is the oldest.
        found = min(connections, key=lambda one: one.eviction, default=None)
        if found is None or found.eviction is _Eviction.NEVER:
            return False
        self.release(found)
        found.transport.abort()
        return True


class _Handshake(asyncio.Protocol):
    """A TLS handshake: it takes a place in the pool from the first byte, which its connection takes over."""

    eviction = _Eviction.WAITS_FOR_HEADERS

    def __init__(self, connection: "_Connection", context: ssl.SSLContext, pool: _Pool) -> None:
        self.peer = ""
        self._connection = connection
        self._context = context
        self._pool = pool
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self.peer = peer_of(transport.get_extra_info("peername")[0])
        if self._pool.admit(self):
            self._task = asyncio.get_running_loop().create_task(self._complete())
        else:
            transport.abort()

    async def _complete(self) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self.transport,
                self._connection,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._pool.limits.headers_seconds,
            )
        except OSError:
            # The peer left, was late, or does not speak TLS.
            self.transport.abort()
            return
        finally:
            self._pool.release(self)
        if secured is not None and not secured.is_closing():
            self._connection.connection_made(secured)


class _Connection(H11Protocol):
    """An HTTP connection with timeouts for requests that do not arrive and responses that are not received."""

    def __init__(self, config: uvicorn.Config, state: ServerState, app_state: dict[str, Any], pool: _Pool) -> None:
        super().__init__(config, state, app_state)
        self.peer = ""
        self._pool = pool
        self._awaited = _Awaited.NOTHING
        self._arrival: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._stalled_at: float | None = None
        self._is_made = False
        self._early = b""

    @property
    def eviction(self) -> _Eviction:
        """How soon it is closed for another: never while a request is being answered and the peer takes the answer."""
        if self._awaited is _Awaited.HEADERS:
            return _Eviction.STALLED if self.transport.get_write_buffer_size() else _Eviction.WAITS_FOR_HEADERS
        if self._awaited is _Awaited.BODY and not self.flow.read_paused:
            return _Eviction.WAITS_FOR_BODY
        if self._stalled_at is None:
            return _Eviction.NEVER
        is_over = self.loop.time() - self._stalled_at >= self._pool.limits.stalled_grace_seconds
        return _Eviction.STALLED if is_over else _Eviction.NEVER

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._is_made = True
        self.peer = peer_of(self.client[0]) if self.client else ""
        if self._pool.admit(self):
            self._await_next()
        else:
            transport.write(_REFUSED)
            self._close()
            return
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        if self._is_made:
            super().data_received(data)
        else:
            # What came with the end of the TLS handshake.
            self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_made:
            return
        self._pool.release(self)
        self._set_arrival(None)
        self._set_stall(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._await_next()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_at = self.loop.time()
        self._set_stall(self._pool.limits.stalled_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_at = None
        if not self.transport.is_closing():
            self._set_stall(None)

    def _await_next(self) -> None:
        """Restart the timer when the server waits for the next part; more bytes of the same part do not."""
        limits = self._pool.limits
        if self.conn.their_state is h11.IDLE:
            awaited, seconds = _Awaited.HEADERS, limits.headers_seconds
        elif self.conn.their_state is h11.SEND_BODY:
            awaited, seconds = _Awaited.BODY, limits.body_seconds
        else:
            awaited, seconds = _Awaited.NOTHING, None
        if awaited is not self._awaited:
            self._awaited = awaited
            self._set_arrival(seconds)

    def _end_arrival(self) -> None:
        if self._awaited is _Awaited.BODY and self.flow.read_paused:
            # The server itself has paused reading, so the peer is not late.
            self._set_arrival(self._pool.limits.body_seconds)
        else:
            self._close()

    def _close(self) -> None:
        """Close the connection after the rest of the response is sent, or when the peer stalls."""
        self.transport.close()
        self._set_stall(self._pool.limits.stalled_seconds)

    def _set_arrival(self, seconds: float | None) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
        self._arrival = None if seconds is None else self.loop.call_later(seconds, self._end_arrival)

    def _set_stall(self, seconds: float | None) -> None:
        if self._stall is not None:
            self._stall.cancel()
        self._stall = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

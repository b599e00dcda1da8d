"""Limits on connections: how many a peer and all peers may hold, and how long a request may take to arrive.

A connection without a complete request is closed after a timeout, or earlier when a new
connection needs its place; the oldest of the same peer is closed first. So incomplete requests
never block a client that sends complete ones. A new connection is refused only if all
connections are being answered.
"""

import asyncio
import enum
import ipaddress
import socket
from dataclasses import dataclass
from typing import Any, Final

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
    """How long a peer may receive nothing of a response."""

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

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits) -> None:
        super().__init__(config)
        self._pool = _Pool(limits)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections on the sockets."""
        await super().startup(sockets=[])
        loop = asyncio.get_running_loop()
        for listening in sockets or ():
            server = await loop.create_server(
                self._accept,
                sock=listening,
                ssl=self.config.ssl,
                # Before the handshake is complete the protocol gets no events, so asyncio limits its time.
                ssl_handshake_timeout=self._pool.limits.headers_seconds if self.config.ssl else None,
                backlog=self.config.backlog,
            )
            self.servers.append(server)

    def _accept(self) -> asyncio.Protocol:
        return _Connection(self.config, self.server_state, self.lifespan.state, self._pool)


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


class _Pool:
    """The open connections by peer, oldest first."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._by_peer: dict[str, dict[_Connection, None]] = {}
        self._count = 0

    def admit(self, connection: "_Connection") -> bool:
        """Add a connection, evicting an idle one if the limit is reached; return whether there was a place."""
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

    def release(self, connection: "_Connection") -> None:
        """Remove a connection, if it is in the pool."""
        own = self._by_peer.get(connection.peer, {})
        if connection in own:
            del own[connection]
            self._count -= 1
            if not own:
                del self._by_peer[connection.peer]

    def _evict_oldest(self, connections: "dict[_Connection, None]") -> bool:
        oldest = next((connection for connection in connections if connection.is_idle), None)
        if oldest is not None:
            self.release(oldest)
            oldest.transport.abort()
        return oldest is not None


class _Connection(H11Protocol):
    """An HTTP connection with timeouts for requests that do not arrive and responses that are not received."""

    def __init__(self, config: uvicorn.Config, state: ServerState, app_state: dict[str, Any], pool: _Pool) -> None:
        super().__init__(config, state, app_state)
        self.peer = ""
        self._pool = pool
        self._awaited = _Awaited.NOTHING
        self._arrival: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it waits for the headers of a request and has nothing left to send."""
        return self._awaited is _Awaited.HEADERS and not self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = peer_of(self.client[0]) if self.client else ""
        if self._pool.admit(self):
            self._await_next()
        else:
            transport.write(_REFUSED)
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.release(self)
        self._set_arrival(None)
        self._set_stall(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._await_next()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_stall(self._pool.limits.stalled_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
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

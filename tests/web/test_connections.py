"""Connections on real sockets: who sends half a request keeps nobody out, and is not kept itself."""

import errno
import http.client
import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.server.access import Access
from mangrove.server.app import build_app
from mangrove.server.connections import ConnectionLimits, LimitedServer, limits_of, peer_of
from mangrove.server.serving import Certificate, certificate_of

HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF_BODY = b"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nhalf"
LONG_SECONDS = 600.0
"""For deadlines that must not end within a test, and for sockets that must answer before."""


@contextmanager
def serving(app: object, limits: ConnectionLimits, certificate: Certificate | None = None) -> Iterator[int]:
    """Serve on a free port of loopback, and give the port."""
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_level="critical",
        lifespan="off",
        ws="none",
        timeout_keep_alive=int(LONG_SECONDS),
        timeout_graceful_shutdown=1,
        ssl_certfile=certificate.certificate_path if certificate else None,
        ssl_keyfile=certificate.key_path if certificate else None,
    )
    server = LimitedServer(config, limits)
    with socket.create_server(("127.0.0.1", 0), backlog=1_024) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=LONG_SECONDS, source_address=(source, 0))


def health(port: int, source: str = "127.0.0.1") -> int:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_SECONDS, source_address=(source, 0))
    try:
        client.request("GET", "/healthz")
        return client.getresponse().status
    finally:
        client.close()


def is_closed(peer: socket.socket) -> bool:
    """Wait until the server closes a connection on which it sends nothing."""
    try:
        return peer.recv(1) == b""
    except OSError as error:
        return error.errno == errno.ECONNRESET


def others_at_loopback() -> bool:
    """Return whether this machine has more than one loopback address, as Linux does."""
    try:
        with socket.create_server(("127.0.0.2", 0)):
            return True
    except OSError:
        return False


@pytest.fixture
def app(lake: Lakehouse) -> object:
    return build_app(lake, Access("127.0.0.1"))


def test_three_hundred_half_sent_requests_do_not_block_others(app: object) -> None:
    limits = ConnectionLimits(headers_seconds=LONG_SECONDS)
    with serving(app, limits) as port, ExitStack() as stack:
        half_sent = [stack.enter_context(connect(port)) for _ in range(300)]
        for one in half_sent:
            # Those that had to make room are gone already.
            with _gone_is_fine():
                one.sendall(HALF)
        assert health(port) == 200
        assert all(is_closed(one) for one in half_sent[: 300 - limits.per_peer_max])


def test_half_sent_headers_are_closed_after_their_timeout(app: object) -> None:
    with serving(app, ConnectionLimits(headers_seconds=0.05)) as port, ExitStack() as stack:
        half_sent = [stack.enter_context(connect(port)) for _ in range(20)]
        for one in half_sent:
            with _gone_is_fine():
                one.sendall(HALF)
        assert all(is_closed(one) for one in half_sent)


def test_slow_bytes_do_not_extend_the_timeout(app: object) -> None:
    with serving(app, ConnectionLimits(headers_seconds=0.2)) as port, connect(port) as peer:
        with _gone_is_fine():
            peer.sendall(HALF)
            while not select.select([peer], [], [], 0.01)[0]:
                peer.sendall(b"x")
        assert is_closed(peer)


def test_the_next_request_of_a_connection_has_a_deadline_too(app: object) -> None:
    with serving(app, ConnectionLimits(headers_seconds=0.2)) as port:
        answer = b""
        while not answer.endswith(b"ok\n"):
            # On a busy machine the first request may be late as well.
            answer = b""
            with connect(port) as peer, _gone_is_fine():
                peer.sendall(WHOLE)
                while not answer.endswith(b"ok\n") and (data := peer.recv(65_536)):
                    answer += data
                peer.sendall(HALF)
                assert is_closed(peer)
        assert answer.startswith(b"HTTP/1.1 200")


def test_a_body_that_does_not_arrive_is_closed(app: object) -> None:
    head = b"POST /iceberg/v1/oauth/tokens HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nhalf"
    with serving(app, ConnectionLimits(body_seconds=0.05)) as port, connect(port) as peer:
        peer.sendall(head)
        assert is_closed(peer)


class Slow:
    """An application that answers nothing until the client leaves, and says when a request has begun and ended."""

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began.release()
        while (await receive())["type"] != "http.disconnect":
            pass
        self.ended.release()


class Reading(Slow):
    """An application that answers when the body is there, and says when a request has begun."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began.release()
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


class Talkative(Slow):
    """An application that sends more than any buffer between it and the client holds."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        self.ended.release()


def test_an_unread_response_is_aborted() -> None:
    app = Talkative()
    with serving(app, ConnectionLimits(stalled_seconds=0.2)) as port, connect(port) as peer:
        peer.sendall(WHOLE)
        assert app.ended.acquire(timeout=LONG_SECONDS)


def test_half_sent_bodies_do_not_block_others() -> None:
    app = Reading()
    limits = ConnectionLimits(2, 2, headers_seconds=LONG_SECONDS, body_seconds=LONG_SECONDS)
    with serving(app, limits) as port, connect(port) as first, connect(port) as second:
        for half_sent in (first, second):
            half_sent.sendall(HALF_BODY)
            assert app.began.acquire(timeout=LONG_SECONDS)
        assert health(port) == 200


def test_half_sent_bodies_of_answered_requests_do_not_block_others(app: object) -> None:
    limits = ConnectionLimits(2, 2, headers_seconds=LONG_SECONDS, body_seconds=LONG_SECONDS)
    with serving(app, limits) as port, connect(port) as first, connect(port) as second:
        for half_sent in (first, second):
            half_sent.sendall(HALF_BODY)
            assert half_sent.recv(65_536).startswith(b"HTTP/1.1 404")
        assert health(port) == 200


def test_unread_responses_do_not_block_others() -> None:
    app = Talkative()
    limits = ConnectionLimits(1, stalled_seconds=LONG_SECONDS, stalled_grace_seconds=0.0)
    with serving(app, limits) as port, connect(port) as peer:
        peer.sendall(WHOLE)
        assert peer.recv(1) == b"H"
        # Until the buffers in between are full the answer goes on, and a new connection is refused.
        assert any(health(port) == 200 for _ in range(1_000))


def test_a_request_in_progress_is_never_closed_for_another() -> None:
    app = Slow()
    limits = ConnectionLimits(per_peer_max=2, headers_seconds=LONG_SECONDS)
    with serving(app, limits) as port, connect(port) as first, connect(port) as second:
        for busy in (first, second):
            busy.sendall(WHOLE)
            assert app.began.acquire(timeout=LONG_SECONDS)
        with connect(port) as third:
            assert third.recv(65_536).startswith(b"HTTP/1.1 503")
        assert not app.ended.acquire(blocking=False)


@pytest.mark.skipif(not others_at_loopback(), reason="this machine has one loopback address")
def test_one_peer_cannot_use_the_connections_of_another() -> None:
    app = Slow()
    limits = ConnectionLimits(per_peer_max=3, total_max=3, headers_seconds=LONG_SECONDS)
    with serving(app, limits) as port, connect(port, "127.0.0.2") as other, ExitStack() as stack:
        many = [stack.enter_context(connect(port)) for _ in range(10)]
        assert all(is_closed(one) for one in many[:8])
        other.sendall(WHOLE)
        assert app.began.acquire(timeout=LONG_SECONDS)


def test_peers_are_addresses_and_networks() -> None:
    assert peer_of("fe80::1%eth0") == "fe80::/64"
    assert peer_of("testclient") == "testclient"


def test_a_larger_limit_per_peer_raises_the_total_limit() -> None:
    assert limits_of(None) == ConnectionLimits()
    assert limits_of(5) == ConnectionLimits(5)
    assert limits_of(10_000) == ConnectionLimits(10_000, 10_000)
    with pytest.raises(InvalidInputError, match="at least 1"):
        limits_of(0)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "cert.pem", folder / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    try:
        subprocess.run([*command, "-keyout", key, "-out", made], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl to make a certificate")
    return Certificate(str(made), str(key))


def test_with_a_certificate_the_server_uses_https(app: object, certificate: Certificate) -> None:
    trusting = ssl.create_default_context(cafile=certificate.certificate_path)
    with serving(app, ConnectionLimits(), certificate) as port:
        client = http.client.HTTPSConnection("127.0.0.1", port, timeout=LONG_SECONDS, context=trusting)
        client.request("GET", "/healthz")
        assert client.getresponse().status == 200
        client.close()


def test_a_handshake_that_is_not_completed_is_closed(app: object, certificate: Certificate) -> None:
    with serving(app, ConnectionLimits(headers_seconds=0.1), certificate) as port, connect(port) as peer:
        assert is_closed(peer)


def test_handshakes_that_are_not_completed_count_as_connections(app: object, certificate: Certificate) -> None:
    trusting = ssl.create_default_context(cafile=certificate.certificate_path)
    limits = ConnectionLimits(per_peer_max=2, headers_seconds=LONG_SECONDS)
    with serving(app, limits, certificate) as port, ExitStack() as stack:
        begun = [stack.enter_context(connect(port)) for _ in range(10)]
        assert all(is_closed(one) for one in begun[:8])
        client = http.client.HTTPSConnection("127.0.0.1", port, timeout=LONG_SECONDS, context=trusting)
        client.request("GET", "/healthz")
        assert client.getresponse().status == 200
        client.close()


def test_connections_without_tls_are_closed(app: object, certificate: Certificate) -> None:
    with serving(app, ConnectionLimits(headers_seconds=LONG_SECONDS), certificate) as port, connect(port) as peer:
        peer.sendall(WHOLE)
        while peer.recv(65_536):
            pass


def test_invalid_certificate_files_are_rejected(certificate: Certificate, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="must be given together"):
        certificate_of(certificate.certificate_path, None)
    with pytest.raises(InvalidInputError, match="cannot be used"):
        certificate_of(certificate.certificate_path, str(tmp_path / "missing.pem"))
    with pytest.raises(InvalidInputError, match="cannot be used"):
        certificate_of(certificate.key_path, certificate.key_path)
    locked = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "rsa", "-aes128", "-passout", "pass:secret", "-in", certificate.key_path, "-out", locked],
        check=True,
        capture_output=True,
    )
    with pytest.raises(InvalidInputError, match="is encrypted"):
        certificate_of(certificate.certificate_path, str(locked))


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    """Let a connection be closed while something is sent."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ECONNRESET, errno.EPIPE):
            raise

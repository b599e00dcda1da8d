"""A fake S3 server with fault injection.

One lock makes it exact, faults are queued one by one, and every request is
counted. It stands in for no real server: those have races of their own. Google's
dialect differs in two headers and one answer, which it knows too.
"""

import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

__all__ = ["Fault", "S3Server"]

_FaultKind = Literal[
    "refuse", "lose request", "lose answer", "stall", "stall before", "cut refusal", "cut answer", "none"
]
_STALL_SECONDS_MAX = 30.0
_PAGE_KEYS_MAX = 1000
_Request = socket.socket | tuple[bytes, socket.socket]
_Address = tuple[str, int] | str


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with the next request of a method.

    `refuse` answers `status` and `code` without the effect. `lose request` hangs
    up before the effect, `lose answer` after it. `stall` has the effect and never
    answers; `stall before` has none. `cut refusal` and `cut answer` hang up in
    the middle of a body: of an error such as `refuse` answers, or of the honest answer
    after the effect. `none` lets a request pass, so that the next fault meets a later one.
    """

    method: str
    kind: _FaultKind
    status: int = 503
    code: str = "SlowDown"


class S3Server:
    """A server on loopback with one bucket, to be used in a `with` statement."""

    def __init__(self, bucket: str = "bucket", answers_from: int = 1) -> None:
        """Serve one bucket; nobody is answered before `answers_from` requests have been there at once."""
        self.bucket = bucket
        self.objects: dict[str, bytes] = {}
        self.requests: Counter[str] = Counter()
        self.bytes_sent = 0
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self.lists_backwards = False
        self.at_once_max = 0
        self.last_authorization = ""
        self._at_once = 0
        self._answers_from = answers_from
        self._enough = threading.Event()
        self._faults: deque[Fault] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.s3 = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> "S3Server":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._enough.set()
        self._server.shutdown()
        self._server.hang_up()
        self._server.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        """Where it listens, as a URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def options(self) -> dict[str, str]:
        """The options that open a store on it."""
        return {"endpoint": self.endpoint, "access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}

    def fail_next(self, *faults: Fault) -> None:
        """Queue faults; each is used up by the next request of its method."""
        with self.lock:
            self._faults.extend(faults)

    def take_fault(self, method: str) -> Fault | None:
        """Count a request and return what shall go wrong with it."""
        with self.lock:
            self.requests[method] += 1
            if not self._faults or self._faults[0].method != method:
                return None
            return self._faults.popleft()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count a request among those that are there at once, and hold it until there were enough of them."""
        with self.lock:
            self._at_once += 1
            self.at_once_max = max(self.at_once_max, self._at_once)
            if self._at_once >= self._answers_from:
                self._enough.set()
        try:
            self._enough.wait(_STALL_SECONDS_MAX)
            yield
        finally:
            with self.lock:
                self._at_once -= 1

    @property
    def faults_left(self) -> int:
        """How many queued faults no request has met yet."""
        return len(self._faults)


class _Server(ThreadingHTTPServer):
    """Waits for its threads when it is closed: one that outlived the interpreter could bring it down."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 128
    s3: S3Server

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: _Request, client_address: _Address) -> None:
        if isinstance(request, socket.socket):
            with self._open_lock:
                self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: _Request) -> None:
        with self._open_lock:
            self._open.discard(request)
            super().shutdown_request(request)

    def hang_up(self) -> None:
        """End the connections that clients keep for later requests, so that no thread listens to them for ever."""
        with self._open_lock:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: _Request, client_address: _Address) -> None:
        """Say nothing of clients that hung up: some tests make them."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Stay silent: what matters is counted."""

    def do_PUT(self) -> None:
        with self._faulty("PUT") as goes_on:
            if goes_on:
                self._put()

    def do_GET(self) -> None:
        method = "LIST" if "list-type" in self._query() else "GET"
        with self._faulty(method) as goes_on:
            if goes_on and method == "LIST":
                self._list()
            elif goes_on:
                self._get()

    def do_HEAD(self) -> None:
        with self._faulty("HEAD") as goes_on:
            if goes_on:
                self._get()

    def do_POST(self) -> None:
        with self._faulty("POST") as goes_on:
            if goes_on:
                self._delete_many()

    def do_DELETE(self) -> None:
        with self._faulty("DELETE") as goes_on:
            if goes_on:
                self._delete()

    @property
    def _s3(self) -> S3Server:
        return self.server.s3

    def _query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query, True).items()}  # noqa: FBT003

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{self._s3.bucket}").removeprefix("/")

    @contextmanager
    def _faulty(self, method: str) -> Iterator[bool]:
        self._muted = self._cut = False
        self._s3.last_authorization = self.headers.get("authorization") or ""
        self._body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fault = self._s3.take_fault(method)
        with self._s3.busy():
            pass
        if urlsplit(self.path).path.split("/")[1] != self._s3.bucket:
            self._error(404, "NoSuchBucket")
            yield False
        elif fault is None or fault.kind == "none":
            yield True
        elif fault.kind in {"refuse", "cut refusal"}:
            self._cut = fault.kind == "cut refusal"
            self._error(fault.status, fault.code)
            yield False
        elif fault.kind == "cut answer":
            self._cut = True
            yield True
        else:
            self._muted = True
            yield fault.kind in {"lose answer", "stall"}
            if fault.kind.startswith("stall"):
                self._s3.closing.wait(_STALL_SECONDS_MAX)
            self.close_connection = True

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        if self._muted:
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "content_length" not in headers:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            with self._s3.lock:
                self._s3.bytes_sent += len(body)
            self.wfile.write(body[: len(body) // 2] if self._cut else body)
        if self._cut:
            self.close_connection = True

    def _error(self, status: int, code: str) -> None:
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as asked</Message></Error>"
        self._answer(status, text.encode())

    def _only_if_free(self) -> bool:
        return self.headers.get("if-none-match") == "*" or self.headers.get("x-goog-if-generation-match") == "0"

    def _put(self) -> None:
        key = self._key()
        with self._s3.lock:
            if self._only_if_free() and key in self._s3.objects:
                taken = True
            else:
                taken = False
                self._s3.objects[key] = self._body
        if taken:
            self._error(412, "PreconditionFailed")
        else:
            self._answer(200, etag=_etag(self._body), x_goog_generation="1")

    def _get(self) -> None:
        data = self._s3.objects.get(self._key())
        if data is None:
            self._error(404, "NoSuchKey")
            return
        times = {"last_modified": formatdate(1_700_000_000, usegmt=True), "etag": _etag(data)}
        requested = self.headers.get("range")
        if requested is None:
            self._answer(200, data, content_length=str(len(data)), **times)
            return
        first, _, last = requested.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(len(data), int(last) + 1) if first and last else len(data)
        if start >= len(data):
            self._error(416, "InvalidRange")
            return
        self._answer(206, data[start:end], content_range=f"bytes {start}-{end - 1}/{len(data)}", **times)

    def _delete(self) -> None:
        with self._s3.lock:
            missing = self._s3.objects.pop(self._key(), None) is None
        # S3 does not mind a missing object, Google does, and only Google deletes one by one.
        if missing:
            self._error(404, "NoSuchKey")
        else:
            self._answer(204)

    def _delete_many(self) -> None:
        keys = [element.text or "" for element in ElementTree.fromstring(self._body).iter() if _is_key(element)]
        with self._s3.lock:
            for key in keys:
                self._s3.objects.pop(key, None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _list(self) -> None:
        query = self._query()
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        with self._s3.lock:
            found = {key: len(data) for key, data in self._s3.objects.items() if key.startswith(prefix)}
        shown: dict[str, str] = {}
        for key in sorted(found):
            slash = key.find(delimiter, len(prefix)) if delimiter else -1
            name = key if slash < 0 else key[: slash + 1]
            if name > after and key > after and name not in shown:
                shown[name] = _contents(key, found[key]) if slash < 0 else _common_prefix(name)
        page = [*shown][:_PAGE_KEYS_MAX]
        cut = len(page) < len(shown)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if cut else ""
        entries = "".join(shown[name] for name in (reversed(page) if self._s3.lists_backwards else page))
        text = f"<ListBucketResult><IsTruncated>{str(cut).lower()}</IsTruncated>{token}{entries}</ListBucketResult>"
        self._answer(200, text.encode())


def _is_key(element: ElementTree.Element) -> bool:
    return element.tag.rpartition("}")[2] == "Key"


def _etag(data: bytes) -> str:
    return f'"{md5(data, usedforsecurity=False).hexdigest()}"'


def _contents(key: str, size: int) -> str:
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified>"
        f"<ETag>x</ETag><Size>{size}</Size></Contents>"
    )


def _common_prefix(name: str) -> str:
    return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"

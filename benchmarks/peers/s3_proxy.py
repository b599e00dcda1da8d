"""A proxy before an S3 server that delays requests and counts them by kind."""

import asyncio
import re
import threading
from collections import Counter
from types import TracebackType
from urllib.parse import urlsplit

CHUNK_BYTES = 1 << 18
_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n")
_LISTING = re.compile(rb"[?&](?:list-type|prefix|delimiter)\b")


class S3Proxy:
    """Forwards connections; what a client sends arrives after the latency, in order and at full bandwidth."""

    def __init__(self, endpoint: str, latency_millis: float) -> None:
        self.requests: Counter[str] = Counter()
        self._server = urlsplit(endpoint)
        self._latency_seconds = latency_millis / 1000
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "S3Proxy":
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._forward, "127.0.0.1", 0), self._loop)
        self._listener = listening.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def endpoint(self) -> str:
        """The URL that clients use in place of the server's."""
        return f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    async def _forward(self, client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter) -> None:
        try:
            reader, writer = await asyncio.open_connection(self._server.hostname, self._server.port)
        except OSError:
            client_writer.close()
            return
        answers = asyncio.create_task(self._copy(reader, client_writer))
        try:
            while chunk := await client_reader.read(CHUNK_BYTES):
                if kind := classify_request(chunk):
                    self.requests[kind] += 1
                self._loop.call_later(self._latency_seconds, writer.write, chunk)
            await asyncio.sleep(self._latency_seconds)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client hung up, or the proxy is closed
        finally:
            answers.cancel()
            for end in (writer, client_writer):
                end.close()
            await asyncio.gather(answers, writer.wait_closed(), client_writer.wait_closed(), return_exceptions=True)

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.close()

    async def _close(self) -> None:
        self._listener.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def classify_request(chunk: bytes) -> str | None:
    r"""Return the kind of the request that begins in a chunk of a connection, or None.

    >>> classify_request(b"GET /bucket/key HTTP/1.1\r\nHost: a\r\n"), classify_request(b"some bytes of a body")
    ('GET', None)
    >>> classify_request(b"GET /bucket?list-type=2&prefix=a HTTP/1.1\r\n")
    'LIST'
    """
    if not (match := _REQUEST.match(chunk)):
        return None
    method, target = match.groups()
    return "LIST" if method == b"GET" and _LISTING.search(target) else method.decode()

"""The store for S3, Google Cloud Storage and Azure Blob Storage.

obstore returns most of a server's response as text only; it is parsed here only.

The result of a conditional write can be ambiguous: the write succeeded but the
response was lost; it failed with 409 although the path is free; or a proxy repeated
it and reports a conflict with its own first attempt. A `create` that did not clearly
succeed is therefore resolved by reading the object back.
"""

import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeVar

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

from mangrove.errors import NotFoundError, StorageError
from mangrove.model.paths import check_path, check_prefix, check_range
from mangrove.parallel import map_in_pool
from mangrove.storage.cloud_client import CloudClients, build_clients
from mangrove.storage.port import ListEntry, ObjectInfo, Prefix
from mangrove.storage.uri import RootUri

__all__ = [
    "CLOUD_ERRORS",
    "CloudStore",
    "build_storage_error",
    "is_missing_bucket",
    "is_permanent_error",
    "is_truncated",
    "open_cloud_store",
]

CLOUD_ERRORS = (BaseError, OSError, ValueError)
"""The errors of obstore; a missing object is Python's `FileNotFoundError`."""

_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_URL_WITH_QUERY = re.compile(r"(https?://[^\s?]*)\?\S*")
_XML = re.compile(r"[\s:]*(?:<\?xml|<Error>).*")
_TRUNCATED = re.compile(r"Error (?:performing|getting) .*HTTP error: request or response body error")
_RETRIES_EXHAUSTED = re.compile(r"after ([0-9]+) retries, max_retries: \1\b")
_REFUSED = re.compile(r"status code: 40[13]\b")


def is_missing_bucket(error: BaseException) -> bool:
    """Whether the bucket is missing, and not an object in it."""
    return any(mark in str(error) for mark in _NO_BUCKET)


def is_permanent_error(error: BaseException) -> bool:
    """Whether the server rejected the request, so that a retry is useless and nothing was changed."""
    return _is_refused(error) or is_missing_bucket(error)


def is_truncated(error: BaseException) -> bool:
    """Whether the connection broke in the body of a response that the client does not retry itself.

    The client retries 5xx responses and resumes object bodies. It does not retry a 4xx
    response, a page of a listing or a bulk delete response with a truncated body.
    """
    line = str(error).partition("\n")[0]
    return _TRUNCATED.search(line) is not None and _RETRIES_EXHAUSTED.search(line) is None


def build_storage_error(error: BaseException, done: str, path: str, uri: str, outcome: str = "") -> StorageError:
    """Return the error to raise: the failed operation, the path, the cause and the remedy."""
    # The query string may contain a signature; of an XML page only the cause below matters.
    sentence = _XML.sub("", _URL_WITH_QUERY.sub(r"\1", str(error).partition("\n")[0]))
    answer = "" if is_missing_bucket(error) else f" ({sentence})"
    return StorageError(f"{path!r} in {uri} could not be {done}: {_cause_and_remedy(error)}{outcome}{answer}")


def _is_refused(error: BaseException) -> bool:
    # Listings report a rejection as a generic error.
    return isinstance(error, PermissionDeniedError | UnauthenticatedError) or _REFUSED.search(str(error)) is not None


def _cause_and_remedy(error: BaseException) -> str:
    text = str(error)
    if is_missing_bucket(error):
        return "the bucket or container does not exist; create it, or correct the name."
    if "169.254.169.254" in text or "metadata.google.internal" in text:
        return "no credentials were found; pass them as options, in the environment or in a profile."
    if _is_refused(error):
        return "the server rejected the credentials; check the key, its permissions and the region."
    if "SlowDown" in text or " 429 " in text or " 503 " in text:
        return "the server throttles requests, and retries did not help; retry later."
    if "error sending request" in text:
        return "the server did not respond; check the endpoint and the network, then retry."
    return "the server or its client failed; see the response, then retry."


_THREADS_MAX = 32
_CREATE_ATTEMPTS_MAX = 12
_PAUSE_SECONDS_FIRST = 0.05
_PAUSE_SECONDS_MAX = 5.0
_PAGE_OBJECTS = 1000
_WHOLE_BYTES_MAX = 32 * 1024 * 1024
"""Larger objects are uploaded in parallel parts; a crashed writer leaves parts that listings do not contain."""
_PART_BYTES = 8 * 1024 * 1024
_Answer = TypeVar("_Answer")
_UNKNOWN = " It is unknown whether it was written; read it back before you retry."


def _pause(seconds: float) -> None:
    time.sleep(random.uniform(0.5, 1.5) * seconds)


def open_cloud_store(root: RootUri, options: Mapping[str, str]) -> "CloudStore":
    """Return the store of a cloud root; nothing is sent yet."""
    return CloudStore(root, build_clients(root, options))


class CloudStore:
    """A store in a bucket."""

    def __init__(self, root: RootUri, clients: CloudClients, pause: Callable[[float], None] = _pause) -> None:
        """Take the clients; `pause` waits between attempts, with jitter."""
        self._root = root
        self._clients = clients
        self._pause = pause
        self._pool_lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    @property
    def uri(self) -> str:
        """The root, ending in exactly one `/`."""
        return self._root.text

    @property
    def identity(self) -> str:
        """Text that is different for two storages with the same URI."""
        return f"{self.uri} {self._clients.server}"

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the object's bytes, or a range of them."""
        check_path(path)
        check_range(start, length)
        data = self._read_whole(path) if start == 0 and length is None else self._read_range(path, start, length)
        if data is None:
            raise NotFoundError(f"object {path!r} does not exist in {self.uri}")
        return data

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return each object's bytes; None if there is none."""
        for path in paths:
            check_path(path)
        return [*self._parallel(self._read_whole, paths)]

    def size(self, path: str) -> int | None:
        """Return the object's size in bytes, or None."""
        check_path(path)
        try:
            return int(obstore.head(self._clients.retrying, path)["size"])
        except FileNotFoundError:
            return None
        except CLOUD_ERRORS as error:
            raise build_storage_error(error, "looked at", path, self.uri) from error

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`."""
        return self.size(path) is not None

    def list(self, prefix: str = "", *, start_after: str = "", delimiter: bool = False) -> Iterator[ListEntry]:
        """Yield the entries under `prefix`, page by page."""
        check_prefix(prefix)
        check_prefix(start_after)
        if delimiter:
            return self._level(prefix, start_after)
        if self._clients.lists_sorted:
            return self._objects(prefix, start_after)
        return self._sorted(prefix, start_after)

    def put(self, path: str, data: bytes) -> None:
        """Write the object, replacing an existing one."""
        check_path(path)
        try:
            self._retry(
                lambda: obstore.put(
                    self._clients.retrying,
                    path,
                    data,
                    use_multipart=len(data) > _WHOLE_BYTES_MAX,
                    chunk_size=_PART_BYTES,
                )
            )
        except CLOUD_ERRORS as error:
            raise build_storage_error(error, "written", path, self.uri, _UNKNOWN) from error

    def put_many(self, objects: Mapping[str, bytes]) -> None:
        """Write several objects in parallel."""
        for path in objects:
            check_path(path)
        for _ in self._parallel(lambda path: self.put(path, objects[path]), [*objects]):
            pass

    def create(self, path: str, data: bytes) -> bool:
        """Write the object only if the path is free; an ambiguous response is resolved by reading it back."""
        check_path(path)
        last: BaseException | None = None
        for attempt in range(_CREATE_ATTEMPTS_MAX):
            if attempt:
                self._pause_after(attempt)
            try:
                obstore.put(self._clients.once, path, data, mode="create", use_multipart=False)
            except CLOUD_ERRORS as error:
                if is_permanent_error(error):
                    raise build_storage_error(error, "created", path, self.uri, _UNKNOWN if attempt else "") from error
                last = error
            else:
                return True
            held = self._read_back_lost_response(path)
            if held is not None:
                return held == data
        assert last is not None
        raise build_storage_error(last, "created", path, self.uri, _UNKNOWN) from last

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the objects that exist, in batches if the cloud supports them."""
        listed = [*dict.fromkeys(paths)]
        for path in listed:
            check_path(path)
        remaining = iter(listed)
        while batch := [*islice(remaining, _PAGE_OBJECTS)]:
            try:
                self._retry(partial(obstore.delete, self._clients.retrying, batch))
            except (FileNotFoundError, *CLOUD_ERRORS) as error:
                if is_permanent_error(error):
                    raise build_storage_error(error, "deleted", batch[0], self.uri, " Some may be deleted.") from error
                # Azure and Google stop at the first missing object, and a response may get lost, which the client
                # does not retry for a batch. Deletes are idempotent, so the rest is deleted one by one.
                for _ in self._parallel(self._delete_one, batch):
                    pass

    def _delete_one(self, path: str) -> None:
        try:
            self._retry(lambda: obstore.delete(self._clients.retrying, path))
        except FileNotFoundError:
            return
        except CLOUD_ERRORS as error:
            raise build_storage_error(error, "deleted", path, self.uri) from error

    def _read_whole(self, path: str) -> bytes | None:
        try:
            return self._retry(lambda: obstore.get(self._clients.retrying, path).bytes().to_bytes())
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise build_storage_error(error, "read", path, self.uri) from error
            return None
        except CLOUD_ERRORS as error:
            raise build_storage_error(error, "read", path, self.uri) from error

    def _read_range(self, path: str, start: int, length: int | None) -> bytes | None:
        if length == 0:
            return None if self.size(path) is None else b""
        client = self._clients.retrying
        try:
            if length is not None:
                return self._retry(lambda: obstore.get_range(client, path, start=start, length=length).to_bytes())
            return self._retry(
                lambda: obstore.get(client, path, options={"range": {"offset": start}}).bytes().to_bytes()
            )
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise build_storage_error(error, "read", path, self.uri) from error
            return None
        except CLOUD_ERRORS as error:
            # A range past the end is an error on every server, with different messages.
            size = self.size(path)
            if size is not None and start >= size:
                return b""
            raise build_storage_error(error, "read", path, self.uri) from error

    def _read_back_lost_response(self, path: str) -> bytes | None:
        try:
            return self._read_whole(path)
        except StorageError as error:
            raise StorageError(f"{error}{_UNKNOWN}") from error

    def _objects(self, prefix: str, start_after: str) -> Iterator[ListEntry]:
        last = ""
        for found in self._found(prefix, start_after, max(start_after, _just_before(prefix)) or None):
            if found.path <= last:
                raise StorageError(
                    f"the server of {self.uri} lists {found.path!r} after {last!r}, which is out of order; "
                    "set the option unsorted_listing=true, which sorts in memory"
                )
            last = found.path
            yield found

    def _sorted(self, prefix: str, start_after: str) -> Iterator[ListEntry]:
        yield from sorted(self._found(prefix, start_after, None), key=lambda found: found.path)

    def _found(self, prefix: str, start_after: str, offset: str | None) -> Iterator[ObjectInfo]:
        """Yield the server's listing; after a truncated page it continues behind the last path.

        A server with its own order gets no offset: it lists from the start, and yielded entries are skipped.
        """
        seen: set[str] = set()
        attempt = 0
        while True:
            try:
                for found in self._listed(prefix, start_after, offset if self._clients.lists_sorted else None):
                    if found.path in seen:
                        continue
                    yield found
                    if self._clients.lists_sorted:
                        start_after = offset = found.path
                    else:
                        seen.add(found.path)
                return
            except CLOUD_ERRORS as error:
                if attempt >= self._clients.retries_max or not is_truncated(error):
                    raise build_storage_error(error, "listed", prefix, self.uri) from error
            attempt += 1
            self._pause_after(attempt)

    def _listed(self, prefix: str, start_after: str, offset: str | None) -> Iterator[ObjectInfo]:
        """Yield the server's listing, filtered again, because not every server supports an offset."""
        folder = prefix[: prefix.rfind("/") + 1].removesuffix("/")
        pages = obstore.list(self._clients.retrying, prefix=folder or None, offset=offset, chunk_size=_PAGE_OBJECTS)
        for page in pages:
            for found in page:
                path = found["path"]
                if path.startswith(prefix):
                    if path > start_after:
                        yield ObjectInfo(path, found["size"], int(found["last_modified"].timestamp() * 1000))
                elif path > prefix and self._clients.lists_sorted:
                    return

    def _level(self, prefix: str, start_after: str) -> Iterator[ListEntry]:
        folder = prefix[: prefix.rfind("/") + 1].removesuffix("/")
        try:
            level = self._retry(lambda: obstore.list_with_delimiter(self._clients.retrying, prefix=folder or None))
        except CLOUD_ERRORS as error:
            raise build_storage_error(error, "listed", prefix, self.uri) from error
        entries: list[ListEntry] = [Prefix(f"{path}/") for path in level["common_prefixes"]]
        entries += [
            ObjectInfo(found["path"], found["size"], int(found["last_modified"].timestamp() * 1000))
            for found in level["objects"]
        ]
        for entry in sorted(entries, key=lambda entry: entry.path):
            if not entry.path.startswith(prefix):
                continue
            if entry.path > start_after or (
                start_after.startswith(entry.path)
                and isinstance(entry, Prefix)
                and next(self._found(entry.path, start_after, start_after), None) is not None
            ):
                yield entry

    def _retry(self, ask: Callable[[], _Answer]) -> _Answer:
        """Return the response of an idempotent request, which is repeated while its response is truncated."""
        for attempt in range(1, self._clients.retries_max + 1):
            try:
                return ask()
            except CLOUD_ERRORS as error:
                if not is_truncated(error):
                    raise
            self._pause_after(attempt)
        return ask()

    def _pause_after(self, attempt: int) -> None:
        self._pause(min(_PAUSE_SECONDS_MAX, _PAUSE_SECONDS_FIRST * 2**attempt))

    def _parallel(self, ask: Callable[[str], _Answer], paths: Sequence[str]) -> Iterator[_Answer]:
        if len(paths) < 2:
            return iter([ask(path) for path in paths])
        with self._pool_lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="mangrove-cloud")
        return map_in_pool(self._pool, ask, paths)


def _just_before(prefix: str) -> str:
    """Return a path that sorts before everything under `prefix`, and after most of what precedes it.

    The client can only list whole folders, so a prefix such as `_` would also list all
    folders before it.
    """
    if not prefix or prefix.endswith("/"):
        return ""
    before = chr(ord(prefix[-1]) - 1)
    if before <= " " or before == "/" or "\x7f" <= before <= "\xa0" or "\ud800" <= before <= "\udfff":
        return ""
    return f"{prefix[:-1]}{before}~"

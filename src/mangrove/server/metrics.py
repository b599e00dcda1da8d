"""Request and storage counters in the Prometheus text format."""

import threading
from collections import Counter
from dataclasses import fields
from typing import Final

from mangrove.storage.counting import StoreRequests

__all__ = ["RequestCounts", "classify_path", "render_metrics"]

_PAGES: Final = frozenset(
    {"namespaces", "tables", "views", "history", "tree", "storage", "static", "healthz", "readyz", "metrics"}
)
_BYTES: Final = {"bytes_read": "read", "bytes_written": "written"}


class RequestCounts:
    """How many requests were answered, by page and status, also under threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, int]] = Counter()

    def count(self, page: str, status: int) -> None:
        """Count one answer."""
        with self._lock:
            self._counts[page, status] += 1

    def snapshot(self) -> dict[tuple[str, int], int]:
        """Return the counts until now."""
        with self._lock:
            return dict(self._counts)


def classify_path(path: str) -> str:
    """Return the page that an address belongs to: one of a few words, whatever was asked for.

    >>> [classify_path(path) for path in ("/", "/tables/sales.orders", "/api/tree", "/wp-admin")]
    ['overview', 'tables', 'tree', 'other']
    """
    steps = path.strip("/").split("/")
    if steps[0] == "iceberg":
        return _iceberg_page(steps[1:])
    first = steps[1] if steps[0] == "api" and len(steps) > 1 else steps[0]
    if first in ("", "api"):
        return "overview"
    return first if first in _PAGES else "other"


def _iceberg_page(steps: list[str]) -> str:
    """Return what a client of Iceberg's asked for; a prefix may stand before it, and names behind."""
    match steps[2:] if steps[2:3] == ["namespaces"] else steps[1:]:
        case ["config"]:
            return "iceberg-config"
        case ["namespaces", _, ("tables" | "views") as kind, *_]:
            return f"iceberg-{kind}"
        case ["namespaces", *_]:
            return "iceberg-namespaces"
        case _:
            return "iceberg-other"


def render_metrics(answers: dict[tuple[str, int], int], storage: StoreRequests, newest_version: int | None) -> str:
    """Return the counts in the text format of Prometheus; a version that cannot be read is left out."""
    lines = [
        "# HELP mangrove_http_requests_total Requests that were answered.",
        "# TYPE mangrove_http_requests_total counter",
        *(
            f'mangrove_http_requests_total{{page="{page}",status="{status}"}} {count}'
            for (page, status), count in sorted(answers.items())
        ),
        "# HELP mangrove_storage_requests_total Requests that the storage was asked, as a bucket would bill them.",
        "# TYPE mangrove_storage_requests_total counter",
        *(
            f'mangrove_storage_requests_total{{kind="{one.name}"}} {getattr(storage, one.name)}'
            for one in fields(storage)
            if one.name not in _BYTES
        ),
        "# HELP mangrove_storage_bytes_total Bytes that came from and went to the storage.",
        "# TYPE mangrove_storage_bytes_total counter",
        *(
            f'mangrove_storage_bytes_total{{direction="{direction}"}} {getattr(storage, name)}'
            for name, direction in _BYTES.items()
        ),
    ]
    if newest_version is not None:
        lines += [
            "# HELP mangrove_newest_version The newest version of the lakehouse.",
            "# TYPE mangrove_newest_version gauge",
            f"mangrove_newest_version {newest_version}",
        ]
    return "\n".join(lines) + "\n"

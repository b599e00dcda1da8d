"""Prometheus metrics of HTTP requests, storage requests and the newest version."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Counter, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from mangrove.storage.counting import StoreRequests

__all__ = ["METRICS_CONTENT_TYPE", "ServerMetrics", "classify_path"]

METRICS_CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
_PAGES: Final = frozenset(
    {"namespaces", "tables", "views", "lineage", "search", "shared", "history", "tree", "storage", "sql"}
    | {"static", "healthz", "readyz", "metrics"}
)
_BYTES: Final = {"bytes_read": "read", "bytes_written": "written"}


class ServerMetrics:
    """The metrics of one application, in a registry of its own; thread-safe.

    HTTP requests are counted as they are answered. Storage requests and the newest version are
    read when the metrics are rendered; a version that cannot be read (None) is left out.
    """

    def __init__(
        self, load_storage_requests: Callable[[], StoreRequests], load_newest_version: Callable[[], int | None]
    ) -> None:
        self._load_storage_requests = load_storage_requests
        self._load_newest_version = load_newest_version
        self._http_requests = Counter(
            "mangrove_http_requests", "Answered HTTP requests.", ("page", "status"), registry=None
        )
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count_request(self, path: str, status: int) -> None:
        """Count one answered request."""
        self._http_requests.labels(classify_path(path), str(status)).inc()

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; the registry calls this."""
        for metric in self._http_requests.collect():
            # The creation time of each series would double the output, and nobody reads it.
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
        storage = self._load_storage_requests()
        requests = CounterMetricFamily(
            "mangrove_storage_requests", "Storage requests, counted as a bucket bills them.", labels=["kind"]
        )
        transferred = CounterMetricFamily(
            "mangrove_storage_bytes", "Bytes read from and written to storage.", labels=["direction"]
        )
        for counter in fields(storage):
            value = getattr(storage, counter.name)
            if counter.name in _BYTES:
                transferred.add_metric([_BYTES[counter.name]], value)
            else:
                requests.add_metric([counter.name], value)
        yield requests
        yield transferred
        newest_version = self._load_newest_version()
        if newest_version is not None:
            yield GaugeMetricFamily(
                "mangrove_newest_version", "The newest version of the lakehouse.", value=newest_version
            )


def classify_path(path: str) -> str:
    """Return the page that a URL path belongs to, from a fixed set of labels.

    >>> [classify_path(path) for path in ("/", "/tables/sales.orders", "/api/tree", "/wp-admin")]
    ['overview', 'tables', 'tree', 'other']
    """
    steps = path.strip("/").split("/")
    if steps[0] == "iceberg":
        return _classify_iceberg_path(steps[1:])
    first = steps[1] if steps[0] == "api" and len(steps) > 1 else steps[0]
    if first in ("", "api"):
        return "overview"
    return first if first in _PAGES else "other"


def _classify_iceberg_path(steps: list[str]) -> str:
    """Return the label of an Iceberg REST path; `steps` may start with a prefix and end with names."""
    match steps[2:] if steps[2:3] == ["namespaces"] else steps[1:]:
        case ["config"]:
            return "iceberg-config"
        case ["namespaces", _, ("tables" | "views") as kind, *_]:
            return f"iceberg-{kind}"
        case ["namespaces", *_]:
            return "iceberg-namespaces"
        case _:
            return "iceberg-other"

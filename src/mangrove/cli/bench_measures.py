"""What a lakehouse costs on a store: how long each kind of work takes, and how many requests it makes."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.storage.counting import CountingStore, StoreRequests

__all__ = ["Measured", "measures"]

_SCHEMA = "id bigint not null, customer string, amount double"


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of work, done several times."""

    what: str
    times: int
    median_millis: float
    slowest_millis: float
    requests_each: float
    bytes_read: int
    bytes_written: int
    rows_each: int = 0

    @property
    def rows_per_second(self) -> float | None:
        """How many rows go through in a second, where it is about rows."""
        return self.rows_each / self.median_millis * 1000 if self.rows_each and self.median_millis else None


def measures(lake: Lakehouse, reopened: Callable[[], Lakehouse], store: CountingStore, rows: int) -> Iterator[Measured]:
    """Do each kind of work on a fresh lakehouse, and yield what it took."""
    lake.create_namespace("bench")
    table = lake.create_table("bench.rows", _SCHEMA, keys=["id"])
    numbers = iter(range(1_000_000))
    yield _measured("small commit", store, 20, lambda: lake.create_namespace(f"n{next(numbers)}"))
    yield _measured("open and look up a table", store, 20, lambda: reopened().table("bench.rows"))
    batches = [[_row(number) for number in range(first, first + rows)] for first in range(0, 3 * rows, rows)]
    some, waiting = batches[0][: max(1, rows // 100)], iter(batches)
    yield _measured("append rows", store, len(batches), lambda: table.append(next(waiting)), rows)
    yield _measured("upsert rows", store, 3, lambda: table.upsert(some), len(some))
    yield _measured("read all rows", store, 3, lambda: table.to_arrow(["id", "amount"]), rows * len(batches))
    yield _measured("find one row", store, 5, lambda: table.to_arrow(where="id = 7"))
    yield _measured("compact", store, 1, table.compact, rows * len(batches))
    yield _measured("check everything", store, 1, lake.maintenance.check)


def _row(number: int) -> dict[str, Any]:
    return {"id": number, "customer": f"customer {number % 997}", "amount": number % 10_000 / 100}


def _measured(what: str, store: CountingStore, times: int, work: Callable[[], object], rows_each: int = 0) -> Measured:
    before: StoreRequests = store.requests
    millis = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        millis.append((time.perf_counter() - began) * 1000)
    made = store.requests - before
    return Measured(
        what=what,
        times=times,
        median_millis=round(statistics.median(millis), 2),
        slowest_millis=round(max(millis), 2),
        requests_each=round(made.total / times, 1),
        bytes_read=made.bytes_read // times,
        bytes_written=made.bytes_written // times,
        rows_each=rows_each,
    )

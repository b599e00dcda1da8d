"""What a lakehouse costs on a disk or bucket: times and requests of each kind of work, in seconds.

    python benchmarks/quick.py [PLACE] [--rows 50000] [--option region=eu-west-1] [--json]

PLACE is a folder or a URI (s3://, gs://, az://). The benchmark works in a new folder
below it and deletes that folder afterwards.
"""

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mangrove.effects import build_effects, wait_for_pending
from mangrove.errors import InvalidInputError, MangroveError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import create_on_store, open_on_store
from mangrove.maintenance.progress import format_bytes
from mangrove.storage.counting import CountingStore, StoreRequests
from mangrove.storage.opening import open_store
from mangrove.storage.port import ObjectInfo, Store
from mangrove.storage.uri import parse_root_uri
from mangrove.wiring import LakehouseEngines

SCHEMA = "id bigint not null, customer string, amount double"
ROWS_MAX = 10_000_000
PENDING_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """The times and requests of one kind of work, repeated several times."""

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
        """The throughput in rows, for work on rows."""
        return self.rows_each / self.median_millis * 1000 if self.rows_each and self.median_millis else None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python benchmarks/quick.py", description="Measure a lakehouse on a store.")
    parser.add_argument("place", nargs="?", default=".", help="a folder or URI (default: the current folder)")
    parser.add_argument("--rows", type=int, default=50_000, help="rows of each append (default: %(default)s)")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the store")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON, with the slowest times too")
    given = parser.parse_args(arguments)
    if not 1 <= given.rows <= ROWS_MAX:
        parser.error(f"--rows must be between 1 and {ROWS_MAX:,}")
    if wrong := [option for option in given.option if "=" not in option]:
        parser.error(f"--option {wrong[0]!r} has no value: write --option KEY=VALUE")
    try:
        uri, found = measure_place(given.place, dict(one.split("=", 1) for one in given.option), given.rows)
    except InvalidInputError as error:
        parser.error(str(error))
    except MangroveError as error:
        parser.exit(1, f"{error}\n")
    if given.as_json:
        listed = [{**asdict(one), "rows_per_second": one.rows_per_second} for one in found]
        print(json.dumps({"place": uri, "measured": listed}, indent=2))
    else:
        print_table(found)


def measure_place(place: str, options: Mapping[str, str], rows: int) -> tuple[str, list[Measurement]]:
    """Measure in a new folder below a place; return its URI and the measurements, and delete it."""
    parent = build_effects(open_store(place, options))
    missing = list_missing_folders(parent.store)
    effects = build_effects(open_store(f"{place.rstrip('/')}/mangrove-bench-{parent.new_id()}", options))
    store = CountingStore(effects.store)
    counted = replace(effects, store=store)
    try:
        lake = create_on_store(counted, engines=LakehouseEngines)
        found = list(measure_lakehouse(lake, lambda: open_on_store(counted, engines=LakehouseEngines), store, rows))
    finally:
        # The hint to the newest version is written in the background, and must not come back after the deletion.
        wait_for_pending(counted, PENDING_SECONDS_MAX)
        delete_all(effects.store)
        remove_empty_folders(missing)
    return effects.store.uri, found


def measure_lakehouse(
    lake: Lakehouse, reopen: Callable[[], Lakehouse], store: CountingStore, rows: int
) -> Iterator[Measurement]:
    """Do each kind of work on an empty lakehouse, and yield its measurement."""
    lake.create_namespace("bench")
    table = lake.create_table("bench.rows", SCHEMA, keys=["id"])
    numbers = iter(range(1_000_000))
    yield measure("small commit", store, 20, lambda: lake.create_namespace(f"n{next(numbers)}"))
    yield measure("open and look up a table", store, 20, lambda: reopen().table("bench.rows"))
    batches = [[make_row(number) for number in range(first, first + rows)] for first in range(0, 3 * rows, rows)]
    some, remaining = batches[0][: max(1, rows // 100)], iter(batches)
    yield measure("append rows", store, len(batches), lambda: table.append(next(remaining)), rows)
    yield measure("upsert rows", store, 3, lambda: table.upsert(some), len(some))
    yield measure("read all rows", store, 3, lambda: table.to_arrow(["id", "amount"]), rows * len(batches))
    yield measure("find one row", store, 5, lambda: table.to_arrow(where="id = 7"))
    yield measure("compact", store, 1, lambda: table.compact(engine="local"), rows * len(batches))
    yield measure("check everything", store, 1, lambda: lake.maintenance.check(engine="local"))


def make_row(number: int) -> dict[str, Any]:
    return {"id": number, "customer": f"customer {number % 997}", "amount": number % 10_000 / 100}


def measure(what: str, store: CountingStore, times: int, work: Callable[[], object], rows_each: int = 0) -> Measurement:
    before: StoreRequests = store.requests
    millis = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        millis.append((time.perf_counter() - began) * 1000)
    made = store.requests - before
    return Measurement(
        what=what,
        times=times,
        median_millis=round(statistics.median(millis), 2),
        slowest_millis=round(max(millis), 2),
        requests_each=round(made.total / times, 1),
        bytes_read=made.bytes_read // times,
        bytes_written=made.bytes_written // times,
        rows_each=rows_each,
    )


def delete_all(store: Store) -> None:
    store.delete_many([entry.path for entry in store.list() if isinstance(entry, ObjectInfo)])
    root = parse_root_uri(store.uri)
    if root.scheme == "file":
        # A bucket has no folders; on disk the empty ones would stay.
        shutil.rmtree(root.path, ignore_errors=True)


def list_missing_folders(store: Store) -> list[Path]:
    """Return the folders up to a place on disk that do not exist yet, the deepest first."""
    root = parse_root_uri(store.uri)
    if root.scheme != "file":
        return []
    place = Path(root.path)
    return [folder for folder in (place, *place.parents) if not folder.exists()]


def remove_empty_folders(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return  # another program has put something there


def print_table(found: Sequence[Measurement]) -> None:
    print(f"{'work':<26}{'median ms':>11}{'requests':>10}{'read':>12}{'written':>12}{'rows/s':>12}")
    for one in found:
        speed = "" if one.rows_per_second is None else f"{one.rows_per_second:,.0f}"
        read, written = format_bytes(one.bytes_read), format_bytes(one.bytes_written)
        print(f"{one.what:<26}{one.median_millis:>11,.1f}{one.requests_each:>10,.1f}{read:>12}{written:>12}{speed:>12}")


if __name__ == "__main__":
    main()

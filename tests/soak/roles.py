"""The processes of a soak: each does one kind of work on a lakehouse until it is killed.

    python -m tests.soak.roles CONFIGURATION        with a configuration in JSON: see `Configuration`

A process appends what it did to a log, one JSON object for each line, and ends by itself only if
a check fails.
"""

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.bank import InvariantViolation
from tests.simulation.isolation_checker import ReadList, ReadRegister
from tests.simulation.isolation_workload import IsolationWorkload, decode_plan, encode_plan, read_all
from tests.simulation.writers import Attempt

import mangrove
from mangrove.effects import build_effects
from mangrove.errors import MangroveError, NotFoundError, StorageError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.opening import open_on_store
from mangrove.storage.opening import open_store
from mangrove.testing.faulty_store import Faults, FaultyStore
from mangrove.transaction.transaction import youngest_expirable_millis
from mangrove.wiring import LakehouseEngines

__all__ = ["JOURNAL", "STOPPED_MILLIS_MAX", "TIME_LIMIT_MILLIS", "Configuration", "check_snapshot", "open_lake"]

JOURNAL: Final = "soak.journal"
TIME_LIMIT_MILLIS: Final = 6_000
"""The time limit of transactions."""
STOPPED_MILLIS_MAX: Final = 9_000
"""How long a process is stopped; expiry and vacuum wait a little longer beside twice the time limit."""
_RECENT_VERSIONS: Final = 200
_OPENINGS_MAX: Final = 50

Log = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a process works on."""

    role: str
    name: str
    uri: str
    options: Mapping[str, str]
    faults: float
    """The share of requests that fail, each with or without its effect."""
    isolation: str
    log: str


def open_lake(configuration: Configuration, seed: str) -> Lakehouse:
    """Open the lakehouse on a store that fails as often as the configuration says."""
    store = open_store(configuration.uri, configuration.options)
    if configuration.faults:
        share = configuration.faults / 2
        store = FaultyStore(store, Faults(random.Random(seed).getrandbits(32), before=share, after=share))
    for _ in range(_OPENINGS_MAX):
        # Opening reads a few files, each of which may fail.
        with suppress(StorageError):
            return open_on_store(build_effects(store), engines=LakehouseEngines)
    raise AssertionError(f"{configuration.uri} cannot be opened")


def check_snapshot(catalog: Catalog) -> None:
    """Verify that the lists and registers of a version are what the transactions in its journal wrote."""
    if not any(str(namespace) == "soak" and [*catalog.tables("soak")] for namespace in catalog.namespaces()):
        return
    rows = catalog.table(JOURNAL).to_arrow().to_pylist()
    repeated = [message for message, times in Counter(row["message"] for row in rows).items() if times > 1]
    if repeated:
        raise InvariantViolation(f"transactions were committed twice: {repeated}")
    written: dict[str, Counter[int]] = {}
    for row in rows:
        for step in decode_plan(row["steps"]):
            if step.kind == "write":
                written.setdefault(step.key, Counter())[step.value] += 1
    for read in read_all(catalog):
        expected = written.get(read.key, Counter())
        if isinstance(read, ReadList) and Counter(read.values) != expected:
            raise InvariantViolation(f"{read.key} has {read.values}, where {sorted(expected)} were committed")
        if isinstance(read, ReadRegister) and (read.value is None) is bool(expected):
            raise InvariantViolation(f"{read.key} is {read.value}, where {sorted(expected)} were committed")


def _write(lake: Lakehouse, configuration: Configuration, chance: random.Random, log: Log) -> None:
    """Run transactions of the isolation workload."""
    workload = IsolationWorkload(configuration.isolation, last_value=chance.getrandbits(40) << 20, journal=JOURNAL)
    for place in count():
        message = f"{configuration.name}.{chance.getrandbits(40)}.{place}"
        attempt = Attempt(message, workload.draw(chance, message))
        began = time.monotonic_ns()
        log(plan=encode_plan(attempt.deed), message=message, began=began)
        is_committed: bool | None = True
        try:
            workload.execute(lake, attempt)
        except StorageError:
            is_committed = None
        except MangroveError:
            is_committed = False
        steps = [[type(step).__name__, *asdict(step).values()] for step in workload.observed.pop(message)]
        log(done=is_committed, message=message, steps=steps, ended=time.monotonic_ns())


def _compact(lake: Lakehouse, _: Configuration, chance: random.Random, log: Log) -> None:
    """Compact a table after the other, and the metadata."""
    while True:
        names = [str(table) for namespace in lake.namespaces() for table in lake.tables(str(namespace))]
        # The order of the rows of a list is that of its deltas, which a compaction beside appends may change.
        name = chance.choice([name for name in names if name not in ("isolation.list_a", "isolation.list_b")])
        lake.table(name).compact()
        log(compacted=name)
        if chance.random() < 0.1:
            lake.maintenance.compact_metadata()


def _clean(lake: Lakehouse, _: Configuration, __: random.Random, log: Log) -> None:
    """Expire versions and vacuum, with the shortest grace period that is safe beside writers."""
    while True:
        expired = len(lake.maintenance.expire().versions)
        deleted = lake.maintenance.vacuum(grace=timedelta(milliseconds=youngest_expirable_millis(lake.settings)))
        log(expired=expired, deleted=len(deleted.paths))
        time.sleep(0.5)


def _export(lake: Lakehouse, configuration: Configuration, chance: random.Random, log: Log) -> None:
    """Export the newest version, check the copy, and drop the export."""
    # Copies of a process that is killed are removed with the other files of the soak.
    copies = Path(configuration.log).parents[1]
    while True:
        name, folder = f"copy-{chance.getrandbits(40)}", Path(tempfile.mkdtemp(prefix="copy-", dir=copies))
        try:
            lake.maintenance.export(folder / "copy", name, storage_options={})
            check_snapshot(mangrove.open(folder / "copy"))
            lake.maintenance.drop_export(name)
        finally:
            shutil.rmtree(folder)
        log(exported=name)


def _read(lake: Lakehouse, _: Configuration, chance: random.Random, log: Log) -> None:
    """Check versions at random; only one that has expired may be incomplete."""
    while True:
        version = chance.choice([entry.version for entry in lake.history(limit=_RECENT_VERSIONS)])
        try:
            check_snapshot(lake.at(version))
        except StorageError:
            raise
        except (MangroveError, InvariantViolation) as error:
            if _is_retained(lake, version):
                raise InvariantViolation(f"version {version}: {error}") from error
        log(read=version)


def _is_retained(lake: Lakehouse, version: int) -> bool:
    try:
        return lake.at(version).version == version
    except NotFoundError:
        return False


_ROLES: Final[Mapping[str, Callable[[Lakehouse, Configuration, random.Random, Log], None]]] = {
    "writer": _write,
    "compaction": _compact,
    "cleaner": _clean,
    "exporter": _export,
    "reader": _read,
}


def main(text: str) -> None:
    """Do the work of a configuration; start again after an error of storage or a conflict."""
    configuration = Configuration(**json.loads(text))
    chance, parent = random.SystemRandom(), os.getppid()
    with Path(configuration.log).open("a", encoding="utf-8", buffering=1) as file:

        def log(**fields: Any) -> None:
            if os.getppid() != parent:
                sys.exit("the process that started the soak has ended")
            file.write(json.dumps(fields) + "\n")

        commit_millis_max = patch("mangrove.transaction.transaction._COMMIT_MILLIS_MAX", STOPPED_MILLIS_MAX + 2_000)
        # With the usual minimum no transaction would wait in the queue of the machine.
        remaining_millis_min = patch("mangrove.transaction.intents._REMAINING_MILLIS_MIN", TIME_LIMIT_MILLIS // 2)
        while True:
            try:
                lake = open_lake(configuration, str(chance.getrandbits(64)))
                with commit_millis_max, remaining_millis_min:
                    _ROLES[configuration.role](lake, configuration, chance, log)
            except MangroveError as error:
                log(error=f"{type(error).__name__}: {error}")
            except InvariantViolation as violation:
                log(violation=str(violation))
                return


if __name__ == "__main__":
    main(sys.argv[1])

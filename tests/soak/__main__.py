"""A soak: processes write, compact, expire, vacuum, export and read one lakehouse, and are killed and stopped.

    python -m tests.soak --seconds 300                   on local disk
    python -m tests.soak --seconds 300 --store s3        on SeaweedFS, where 5 % of the writers' requests fail

From the root of the repository, or `make soak`. The run is divided into rounds, each at one
isolation level. Within a round, processes are killed with SIGKILL and started again, and stopped
with SIGSTOP for longer than a transaction may take. After it the isolation checker reads what the
transactions observed, all acknowledged transactions must be there, and `check` must find nothing.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.simulation.bank import InvariantViolation
from tests.simulation.isolation_checker import (
    Append,
    ObservedTransaction,
    ReadList,
    ReadRegister,
    Step,
    Write,
    find_anomalies,
)
from tests.simulation.isolation_workload import check_anomalies, create_tables, decode_plan, observe_lost, read_all
from tests.soak.roles import JOURNAL, STOPPED_MILLIS_MAX, TIME_LIMIT_MILLIS, Configuration, check_snapshot
from tests.support.servers import RealServer, run_seaweedfs

import mangrove
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.model.settings import TIME_LIMIT_PROPERTY, LakehouseSettings

__all__ = ["main", "run_soak"]

_ROLES: Final = ("writer", "writer", "writer", "compaction", "cleaner", "exporter", "reader", "reader")
_ROUND_SECONDS_MAX: Final = 30.0
_FAULTS_OF_LONG_OPERATIONS: Final = 0.1
"""The share of the faults that operations of hundreds of requests get; with all of them none would ever succeed."""
_PATIENCE_SECONDS: Final = 90.0
"""How much longer a round takes on a busy machine, until each process has done something."""
_STEPS: Final[Mapping[str, Any]] = {kind.__name__: kind for kind in (Append, Write, ReadList, ReadRegister)}


@dataclass
class _Process:
    """A process of the soak, which is started again after it was killed."""

    configuration: Configuration
    running: subprocess.Popen[bytes] = field(init=False)
    stopped_until: float = 0.0
    _results_before: int = 0

    def __post_init__(self) -> None:
        Path(self.configuration.log).touch()
        self.start()

    def start(self) -> None:
        self._results_before = _count_results(self.configuration)
        command = [sys.executable, "-m", "tests.soak.roles", json.dumps(asdict(self.configuration))]
        self.running = subprocess.Popen(command)

    @property
    def has_worked(self) -> bool:
        """Whether it has done something since it was started: a process that is killed earlier proves little."""
        return _count_results(self.configuration) > self._results_before

    def kill(self) -> None:
        self.running.kill()
        self.running.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak and print what it did; return 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="how long (default: %(default)s)")
    parser.add_argument("--store", choices=("local", "s3"), default="local", help="where (default: %(default)s)")
    parser.add_argument("--layout", default="tree", help="the layout of the lakehouse (default: %(default)s)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, _open_place(given.store, Path(folder)) as place:
        try:
            done = run_soak(place, Path(folder), given.seconds, given.layout, 0.05 if given.store == "s3" else 0.0)
        except InvariantViolation as violation:
            sys.stdout.write(f"violated: {violation}\n")
            return 1
    sys.stdout.write(f"held on {given.store}: {', '.join(f'{number:,} {name}' for name, number in done.items())}\n")
    return 0


@contextmanager
def _open_place(store: str, folder: Path) -> Iterator[RealServer]:
    if store == "local":
        yield RealServer(f"{folder.as_uri()}/", {})
        return
    (folder / "server").mkdir()
    with run_seaweedfs(folder / "server") as server:
        yield server


def run_soak(place: RealServer, folder: Path, seconds: float, layout: str, faults: float) -> dict[str, int]:
    """Run a soak on a new lakehouse, and return how often each thing happened."""
    uri = f"{place.uri}lake"
    settings = LakehouseSettings(
        maximum_version_age_millis=TIME_LIMIT_MILLIS,
        minimum_versions_to_keep=5,
        properties={TIME_LIMIT_PROPERTY: str(TIME_LIMIT_MILLIS)},
    )
    lake = mangrove.create(uri, layout=layout, settings=settings, storage_options=place.options)
    total: Counter[str] = Counter()
    rounds = max(2, round(seconds / _ROUND_SECONDS_MAX))
    for number in range(rounds):
        isolation = ("serializable", "snapshot")[number % 2]
        for namespace in ("soak", "isolation"):
            lake.drop_namespace(namespace, cascade=True, if_exists=True)
        create_tables(lake)
        lake.create_namespace("soak")
        lake.create_table(JOURNAL, "message string, steps string")
        logs = folder / f"round-{number}"
        logs.mkdir()
        configurations = [
            Configuration(
                role,
                f"{role}-{place_}",
                uri,
                place.options,
                faults if role == "writer" else faults * _FAULTS_OF_LONG_OPERATIONS,
                isolation,
                str(logs / f"{place_}.log"),
            )
            for place_, role in enumerate(_ROLES)
        ]
        total += _disturb(configurations, seconds / rounds)
        total += _check_round(lake, logs, isolation)
    return dict(sorted(total.items()))


def _disturb(configurations: Sequence[Configuration], seconds: float) -> Counter[str]:
    """Run the processes, and kill and stop them at random, until the time is over and each has done something."""
    chance, done = random.SystemRandom(), Counter[str]()
    processes = [_Process(configuration) for configuration in configurations]
    end = time.monotonic() + seconds
    try:
        while (now := time.monotonic()) < end or (
            now < end + _PATIENCE_SECONDS and not all(map(_count_results, configurations))
        ):
            time.sleep(chance.uniform(0.1, 0.6))
            for process in processes:
                if process.stopped_until and time.monotonic() > process.stopped_until:
                    process.running.send_signal(signal.SIGCONT)
                    process.stopped_until = 0.0
            chosen = chance.choice(processes)
            if not chosen.has_worked:
                continue
            if chance.random() < 0.5:
                chosen.kill()
                chosen.start()
                done["kills"] += 1
            elif not chosen.stopped_until:
                chosen.running.send_signal(signal.SIGSTOP)
                chosen.stopped_until = time.monotonic() + chance.uniform(0.1, STOPPED_MILLIS_MAX / 1000)
                done["stops"] += 1
    finally:
        for process in processes:
            process.kill()
    return done


def _count_results(configuration: Configuration) -> int:
    """Return how often a process did something; for a writer, how many transactions it committed."""
    lines = _read_lines(Path(configuration.log))
    return sum(not line.startswith(('{"plan"', '{"error"', '{"done": false', '{"done": null')) for line in lines)


def _check_round(lake: Lakehouse, logs: Path, isolation: str) -> Counter[str]:
    """Compare the lakehouse with what the processes of a round logged."""
    lines = [json.loads(line) for path in sorted(logs.iterdir()) for line in _read_lines(path)]
    violations = [line["violation"] for line in lines if "violation" in line]
    if violations:
        raise InvariantViolation("; ".join(violations))
    journal = {row["message"] for row in lake.table(JOURNAL).to_arrow().to_pylist()}
    history = _observe(lines, journal)
    check_snapshot(lake)
    now = time.monotonic_ns()
    check_anomalies(find_anomalies([*history, ObservedTransaction("final", read_all(lake), now, now + 1)]), isolation)
    problems = lake.maintenance.check(repair=True).problems
    if problems:
        raise InvariantViolation(f"the check finds {problems}")
    kinds = ("compacted", "exported", "read", "error")
    done = Counter(kind for line in lines for kind in kinds if kind in line)
    done["committed"] = len(journal)
    done["groups among the retained versions"] = sum(len(entry.transactions) > 1 for entry in lake.history())
    done["expired"] = sum(line.get("expired", 0) for line in lines)
    done["vacuumed"] = sum(line.get("deleted", 0) for line in lines)
    return done


def _read_lines(path: Path) -> list[str]:
    """Return the whole lines of a log: the last may be a part, if its process was killed."""
    return [line for line in path.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]


def _observe(lines: Sequence[Mapping[str, Any]], journal: set[str]) -> list[ObservedTransaction]:
    """Return what the transactions of a round observed; one without a response may take effect until the end."""
    begun = {line["message"]: line for line in lines if "plan" in line}
    ended = {line["message"]: line for line in lines if "steps" in line}
    found, end = [], time.monotonic_ns()
    for message, line in begun.items():
        plan, answer = decode_plan(line["plan"]), ended.get(message)
        acknowledged = None if answer is None else answer["done"]
        has_written = any(step.kind == "write" for step in plan)
        if acknowledged is not None and has_written and acknowledged is not (message in journal):
            raise InvariantViolation(f"{message} got the response {acknowledged}, but the journal says otherwise")
        steps = observe_lost(plan) if acknowledged is None or answer is None else _decode_steps(answer["steps"])
        is_committed = message in journal if has_written else acknowledged is True
        closed = end if acknowledged is None or answer is None else answer["ended"]
        found.append(ObservedTransaction(message, steps, line["began"], closed, is_committed))
    return found


def _decode_steps(encoded: Sequence[Sequence[Any]]) -> tuple[Step, ...]:
    return tuple(
        _STEPS[kind](key, tuple(value) if isinstance(value, list) else value, *rest)
        for kind, key, value, *rest in encoded
    )


if __name__ == "__main__":
    sys.exit(main())

"""The process of one system, in the environment of that system.

    python -m benchmarks.peers.worker SYSTEM '{"folder": …, "data": …, "s3": {…}}'

Each line of the input is a request in JSON, each line of the output its answer:

    {"call": "append", "table": "t", "rows": "/…/rows.arrow", "times": 3}
    {"wall": [12.1, …], "cpu": [11.0, …], "retries": 0, "value": null}

Times are milliseconds of each repetition. Rows are loaded before the clock starts, and
results are digested after it has stopped. `rows` may be a list, one file per repetition.
"""

import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.peers.registry import SYSTEMS
from benchmarks.peers.rows import digest_rows, read_rows
from benchmarks.peers.systems.port import Place, TableSystem, Unsupported

DESCRIPTION_MAX = 200
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def main(system_name: str, place: str) -> None:
    # Libraries may print; only answers go to the output.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    system: TableSystem | None = None

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        module, _, name = SYSTEMS[system_name].adapter.partition(":")
        system = getattr(importlib.import_module(module), name)(Place(**json.loads(place)))
        answer({})
        for line in sys.stdin:
            answer(run_request(system, json.loads(line)))
    except Exception as error:  # noqa: BLE001  the report shows why a system is not available
        answer({"error": describe_error(error)})
    finally:
        if system is not None:
            system.close()


def run_request(system: TableSystem, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request."""
    operation: Callable[..., Any] = getattr(system, request.pop("call"))
    times, attempts = request.pop("times", 1), request.pop("attempts", 1)
    given = request.pop("rows", None)
    wall, cpu, retries, value = [], [], 0, None
    try:
        inputs = [{"rows": load_rows(path)} for path in (given if isinstance(given, list) else [given] * times) if path]
        for number in range(times):
            run_once = partial(operation, **request, **(inputs[number] if inputs else {}))
            cpu_start, start = read_cpu_seconds(system), time.perf_counter()
            value, failed = run_with_retries(run_once, system.conflicts, attempts)
            wall.append((time.perf_counter() - start) * 1000)
            cpu.append((read_cpu_seconds(system) - cpu_start) * 1000)
            retries += failed
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Exception as error:  # noqa: BLE001  a failure of a system is a result
        return {"error": describe_error(error)}
    return {"wall": wall, "cpu": cpu, "retries": retries, "value": describe_value(value)}


def run_with_retries(
    operation: Callable[[], Any], conflicts: tuple[type[Exception], ...], attempts: int
) -> tuple[Any, int]:
    """Return the value of an operation and how many attempts lost against concurrent commits."""
    for failed in range(attempts - 1):
        try:
            return operation(), failed
        except conflicts:
            continue
    return operation(), attempts - 1


@cache
def load_rows(path: str) -> pa.Table:
    return read_rows(path)


def describe_value(value: Any) -> Any:
    """Return what the report compares between systems."""
    return digest_rows(value) if isinstance(value, pa.Table) else value


def describe_error(error: Exception) -> str:
    r"""Return the first line of an error, with folders shortened.

    >>> describe_error(OSError("cannot lock /a/b/c.db\nbecause it is open"))
    'OSError: cannot lock …/c.db'
    """
    text = re.sub(r"(?:/[\w.@+-]+)+/", "…/", str(error).strip().partition("\n")[0])
    return f"{type(error).__name__}: {text}"[:DESCRIPTION_MAX]


def read_cpu_seconds(system: TableSystem) -> float:
    """Return the CPU time of this process and of the servers that the system started."""
    return time.process_time() + sum(map(read_process_cpu_seconds, system.list_processes()))


def read_process_cpu_seconds(process: int) -> float:
    """Return the CPU time of a process and its children."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / TICKS_PER_SECOND
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return own + sum(map(read_process_cpu_seconds, map(int, children)))


if __name__ == "__main__":
    main(*sys.argv[1:])

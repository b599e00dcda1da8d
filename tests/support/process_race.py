"""A concurrency test of the atomic create across processes."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from mangrove.errors import StorageError
from mangrove.storage.opening import open_store

__all__ = ["ProcessRaceReport", "race_processes"]

_SECONDS_MAX = 550


@dataclass(frozen=True, slots=True)
class ProcessRaceReport:
    """What the race came to; `unfair` names the keys without exactly one winner, `misread` those with foreign bytes."""

    winners: Mapping[str, int]
    unfair: tuple[str, ...]
    misread: tuple[str, ...]


def race_processes(uri: str, options: Mapping[str, str], processes: int, keys: int) -> ProcessRaceReport:
    """Let `processes` writers create the same `keys` paths in an empty store, all in the same order."""
    with ExitStack() as stack:
        writers = [
            stack.enter_context(_writer(json.dumps([uri, dict(options), keys, number]))) for number in range(processes)
        ]
        for writer in writers:
            stack.callback(writer.kill)
        _start_together(writers)
        outputs = [writer.communicate(timeout=_SECONDS_MAX)[0] for writer in writers]
        if any(writer.returncode for writer in writers):
            raise StorageError(f"a writer of the race in {uri} failed; see its output above")
    won = [(path, number) for number, output in enumerate(outputs) for path in output.split()]
    winners = dict(won)
    paths = _paths(keys)
    held = dict(zip(paths, open_store(uri, options).read_many(paths), strict=True))
    return ProcessRaceReport(
        winners,
        unfair=tuple(path for path in paths if sum(path == taken for taken, _ in won) != 1),
        misread=tuple(path for path in paths if path in winners and held[path] != _payload(path, winners[path])),
    )


def _writer(requested: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, requested]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _start_together(writers: Sequence[subprocess.Popen[str]]) -> None:
    for writer in writers:
        assert writer.stdout is not None
        if writer.stdout.readline() != "ready\n":
            raise StorageError("a writer of the race did not start; see its output above")
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()


def _paths(keys: int) -> list[str]:
    return [f"race/{number:05d}" for number in range(keys)]


def _payload(path: str, writer: int) -> bytes:
    return f"{path} by process {writer}".encode()


def _write(requested: str) -> None:
    uri, options, keys, number = json.loads(requested)
    store = open_store(uri, options)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for path in _paths(keys):
        if store.create(path, _payload(path, number)):
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    _write(sys.argv[1])

"""A concurrency test of the atomic create of a store.

Several S3-compatible servers pass sequential tests, but let two concurrent writers
win. Only a race detects this.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mangrove.errors import InvalidInputError
from mangrove.storage.port import Store

__all__ = ["CreateProbeReport", "probe_creates"]


@dataclass(frozen=True, slots=True)
class CreateProbeReport:
    """The result of a race on several keys; `unfair` lists the keys without exactly one winner."""

    keys: int
    threads: int
    unfair: tuple[str, ...]
    misread: tuple[str, ...]
    """Keys whose bytes differ from those of their winner."""

    @property
    def is_sound(self) -> bool:
        """Whether every key has one winner and its bytes."""
        return not self.unfair and not self.misread


def probe_creates(
    store: Store, threads: int, keys: int, prefix: str = "mangrove-probe", lanes: int = 1
) -> CreateProbeReport:
    """Let `threads` writers race for each of `keys` free paths that begin with `prefix`, and clean up.

    The paths are not in a folder of their own, which would remain on a disk.

    All writers of a lane start on a key together; lanes divide the keys among them and
    run in parallel, for servers that let a loser wait.
    """
    if threads < 2 or keys < 1 or lanes < 1:
        raise InvalidInputError(f"invalid race of {threads} threads for {keys} keys; use at least 2 threads and 1 key")
    paths = [f"{prefix}-{number:05d}" for number in range(keys)]
    try:
        with ThreadPoolExecutor(threads * lanes, thread_name_prefix="mangrove-probe") as pool:
            wins = [
                [pool.submit(_race, store, paths[lane::lanes], writer, gate) for writer in range(threads)]
                for lane, gate in enumerate([threading.Barrier(threads) for _ in range(lanes)])
            ]
            won = [set().union(*(lane[writer].result() for lane in wins)) for writer in range(threads)]
        winners = {path: [writer for writer in range(threads) if path in won[writer]] for path in paths}
        held = dict(zip(paths, store.read_many(paths), strict=True))
    finally:
        store.delete_many(paths)
    unfair = tuple(path for path in paths if len(winners[path]) != 1)
    misread = tuple(
        path for path in paths if len(winners[path]) == 1 and held[path] != _payload(path, winners[path][0])
    )
    return CreateProbeReport(keys, threads, unfair, misread)


def _race(store: Store, paths: Sequence[str], writer: int, gate: threading.Barrier) -> set[str]:
    won: set[str] = set()
    try:
        for path in paths:
            # A barrier per key: otherwise the first thread would take every key without a race.
            gate.wait()
            if store.create(path, _payload(path, writer)):
                won.add(path)
    except threading.BrokenBarrierError:
        # Another writer failed and reports why.
        return won
    except BaseException:
        gate.abort()
        raise
    return won


def _payload(path: str, writer: int) -> bytes:
    return f"{path} by writer {writer}".encode()

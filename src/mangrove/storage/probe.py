"""A concurrency test of the atomic create of a store.

Several servers that speak S3 look right when asked one request at a time and
let two writers win when asked at once. Nothing but a race shows it.
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
    """What a race on several keys came to; `unfair` names the keys without exactly one winner."""

    keys: int
    threads: int
    unfair: tuple[str, ...]
    misread: tuple[str, ...]
    """Keys that hold other bytes than their one winner wrote."""

    @property
    def is_sound(self) -> bool:
        """Whether every key had one winner, whose bytes are there."""
        return not self.unfair and not self.misread


def probe_creates(
    store: Store, threads: int, keys: int, prefix: str = "mangrove-probe", lanes: int = 1
) -> CreateProbeReport:
    """Let `threads` writers race for each of `keys` paths that begin with `prefix`, which must be free, and clean up.

    The paths lie in no folder of their own: a disk would keep it, and nobody would know whose it was.

    All writers of a lane start on a key together; lanes share the keys out among
    them and run side by side, for servers that let a loser wait.
    """
    if threads < 2 or keys < 1 or lanes < 1:
        raise InvalidInputError(f"a race of {threads} threads for {keys} keys shows nothing; use at least 2 and 1")
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
            # All start on each key together: without it the first thread would take every key unopposed.
            gate.wait()
            if store.create(path, _payload(path, writer)):
                won.add(path)
    except threading.BrokenBarrierError:
        # Another writer failed and says why.
        return won
    except BaseException:
        gate.abort()
        raise
    return won


def _payload(path: str, writer: int) -> bytes:
    return f"{path} by writer {writer}".encode()

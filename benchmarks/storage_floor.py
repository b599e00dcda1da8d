"""How much a put and a create of 1 KiB cost beyond the system calls that they must make.

    python benchmarks/storage_floor.py [FOLDER] [ROUNDS]

Ours and the calls by hand take turns in one run, so a busy disk slows both.
The goal is a ratio of the medians of at most 1.3 on a disk. In memory
(/dev/shm) an fsync is free and only our own code is left to see.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mangrove.storage.local import LocalStore
from mangrove.storage.uri import parse_root_uri

DATA = b"x" * 1024
FOLDERS = ("", "1011/0000/1010/")


def create_by_hand(folder: str, name: str) -> None:
    """Make the calls of an exclusive and durable create, and nothing else."""
    folder_descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o666, dir_fd=folder_descriptor)
    os.write(descriptor, DATA)
    os.fsync(descriptor)
    os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder_descriptor, follow_symlinks=True)
    os.close(descriptor)
    os.fsync(folder_descriptor)
    os.close(folder_descriptor)


def put_by_hand(folder: str, name: str) -> None:
    """Make the calls of an atomic and durable put, and nothing else."""
    folder_descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    temporary = f".by-hand-{name}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder_descriptor)
    os.write(descriptor, DATA)
    os.fsync(descriptor)
    os.close(descriptor)
    os.rename(temporary, name, src_dir_fd=folder_descriptor, dst_dir_fd=folder_descriptor)
    os.fsync(folder_descriptor)
    os.close(folder_descriptor)


def read_by_hand(folder: str, name: str) -> None:
    """Read a file as plainly as can be."""
    descriptor = os.open(folder + name, os.O_RDONLY)
    os.read(descriptor, os.fstat(descriptor).st_size)
    os.close(descriptor)


def medians_micros(ours: Callable[[int], object], by_hand: Callable[[int], object], rounds: int) -> tuple[float, float]:
    """Return the median times of both, taken in turns, each first in every other round."""
    times: tuple[list[int], list[int]] = ([], [])
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter_ns()
            (ours, by_hand)[which](number)
            times[which].append(time.perf_counter_ns() - began)
    return statistics.median(times[0]) / 1000, statistics.median(times[1]) / 1000


def measure(store: LocalStore, place: str, below: str, rounds: int) -> None:
    """Print one line for each operation on files `below` the root."""
    pairs: dict[str, tuple[Callable[[int], object], Callable[[int], object]]] = {
        "create": (
            lambda number: store.create(f"{below}ours-{number}", DATA),
            lambda number: create_by_hand(place, f"hand-{number}"),
        ),
        "put": (
            lambda number: store.put(f"{below}ours-{number}", DATA),
            lambda number: put_by_hand(place, f"hand-{number}"),
        ),
        "read": (
            lambda number: store.read(f"{below}ours-{number}"),
            lambda number: read_by_hand(place, f"hand-{number}"),
        ),
    }
    for operation, (ours, by_hand) in pairs.items():
        mine, floor = medians_micros(ours, by_hand, rounds)
        print(f"{operation:<12}{below.count('/'):>8}{mine:>10.1f}{floor:>10.1f}{mine / floor:>8.2f}")


def main() -> None:
    arguments = sys.argv[1:]
    parent = arguments[0] if arguments else "."
    rounds = int(arguments[1]) if len(arguments) > 1 else 500
    folder = Path(tempfile.mkdtemp(prefix="storage-floor-", dir=parent)).resolve()
    try:
        store = LocalStore(parse_root_uri(folder))
        print(f"medians of {rounds} rounds in microseconds")
        print(f"{'operation':<12}{'folders':>8}{'ours':>10}{'by hand':>10}{'ratio':>8}")
        for below in FOLDERS:
            store.put(f"{below}warm", DATA)
            measure(store, f"{folder}/{below}", below, rounds)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

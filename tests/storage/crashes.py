"""Kills writers of the local store and looks at what they leave; a program of its own, because it forks.

crashes.py calls FOLDER      kill before and after each system call in turn
crashes.py moments FOLDER    kill 200 times at random moments
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mangrove.storage.local import LocalStore
from mangrove.storage.uri import parse_root_uri

CALLS = ("open", "write", "fsync", "link", "rename", "unlink", "mkdir", "close")
MOMENTS = 200
ROUNDS_MAX = 5_000
OLD = b"old" * 1000


def content(number: int) -> bytes:
    return number.to_bytes(4, "big") * 10_000


def write_all(store: LocalStore, round_number: int) -> None:
    """Do each kind of write; a killed round may get through any part of it."""
    store.create(f"created/{round_number}/{round_number}", content(round_number))
    store.put("replaced", content(round_number))
    store.put(f"put/{round_number}", content(round_number))
    store.put_many({f"many/{round_number}-{part}": content(round_number) for part in range(3)})


def killed(store: LocalStore, round_number: int, arm: Callable[[], None], wait: Callable[[], None]) -> bool:
    """Run a round in a child that `arm` may kill; return whether it was killed."""
    child = os.fork()
    if child == 0:
        arm()
        write_all(store, round_number)
        os._exit(0)
    wait()
    os.kill(child, signal.SIGKILL) if wait is not nothing else None
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def nothing() -> None:
    """Let the child run into the call that kills it."""


def check(store: LocalStore, round_number: int) -> None:
    """Every object is whole or absent, a replaced one is whole always, and the path can be used again."""
    for path in (f"created/{round_number}/{round_number}", f"put/{round_number}"):
        data = store.read_many([path])[0]
        assert data in {None, content(round_number)}, f"{path} holds {len(data or b'')} bytes"
    for part in range(3):
        assert store.read_many([f"many/{round_number}-{part}"])[0] in {None, content(round_number)}
    replaced = store.read("replaced")
    assert replaced == OLD or (len(replaced) == 40_000 and replaced == replaced[:4] * 10_000), "replaced is torn"
    assert not any(".mangrove-tmp-" in entry.path for entry in store.list())
    won = store.create(f"created/{round_number}/{round_number}", b"after")
    assert won or store.read(f"created/{round_number}/{round_number}") == content(round_number)


def kill_at(call_number: int, *, after: bool) -> None:
    """Make the n-th system call from now on the last thing that this process does."""
    made = 0

    def fatal(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal made
            made += 1
            if made == call_number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = real(*arguments, **named)
            if made == call_number and after:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return call

    for name in CALLS:
        setattr(os, name, fatal(getattr(os, name)))


def crash_at_calls(folder: Path, *, unnamed_files: bool) -> int:
    store = LocalStore(parse_root_uri(folder), unnamed_files=unnamed_files)
    store.put("replaced", OLD)
    for after in (False, True):
        for call_number in range(1, 1_000):
            round_number = call_number * 2 + after
            died = killed(store, round_number, partial(kill_at, call_number, after=after), nothing)
            check(store, round_number)
            if not died:
                break
        else:
            raise AssertionError("a round of writes makes more calls than this test expects")
    return sum(1 for _ in store.leftovers())


def crash_at_random_times(folder: Path, chance: random.Random) -> tuple[int, int]:
    store = LocalStore(parse_root_uri(folder))
    store.put("replaced", OLD)
    deaths = 0
    # The disk's speed changes while this runs, so the window follows it: four kills to one writer that gets through.
    window_seconds = 0.004
    for round_number in range(ROUNDS_MAX):
        died = killed(store, round_number, nothing, partial(time.sleep, chance.uniform(0, window_seconds)))
        check(store, round_number)
        deaths += died
        window_seconds *= 1.02 if died else 0.92
        if deaths == MOMENTS:
            break
    return deaths, sum(1 for _ in store.leftovers())


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "calls":
        for unnamed_files in (True, False):
            left = crash_at_calls(folder / str(unnamed_files), unnamed_files=unnamed_files)
            assert left > 0, "no temporary file was left, so nobody was killed at work"
    else:
        deaths, left = crash_at_random_times(folder, random.Random(20261115))
        print(f"{deaths} writers were killed at work and left {left} temporary files")
        assert deaths == MOMENTS, f"only {deaths} of {ROUNDS_MAX} writers were killed before they were done"


if __name__ == "__main__":
    main()

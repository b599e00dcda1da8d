"""The job of the demo that does not live to see its commit: a process of its own, which is killed from outside."""

import sys

from mangrove.cli.command import LocalEngines
from mangrove.cli.demo_shop import close_day
from mangrove.effects import build_effects
from mangrove.lakehouse.opening import open_on_store
from mangrove.storage.opening import open_store

__all__ = ["HALF_DONE", "main"]

HALF_DONE = "two of four tables are written"
"""What the job says before it waits for its end."""


def main(uri: str, day: int) -> None:
    """Begin to book a day, say so when half of it is written, and wait; nobody ever answers."""
    lake = open_on_store(build_effects(open_store(uri)), engines=LocalEngines)
    with lake.transaction(message="a job that is killed") as txn:
        close_day(txn, day, _wait_for_the_end)


def _wait_for_the_end() -> None:
    sys.stdout.write(HALF_DONE + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    raise SystemExit("the demo was to kill this job, but let go of it instead")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

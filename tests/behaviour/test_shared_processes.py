"""A shared transaction outlives every process that worked on it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mangrove
from mangrove.errors import NotFoundError

_PARTICIPANT = """
import sys, mangrove
uri, verb, number = sys.argv[1:]
lake = mangrove.open(uri)
txn = lake.begin_shared("load", ttl="6h") if verb == "begin" else lake.join_shared("load")
txn.table("sales.orders").append([{"id": int(number)}])
txn.save()
txn.table("sales.orders").append([{"id": -int(number)}])
print("saved", flush=True)
sys.stdin.read()
"""


def _work_and_die(uri: str, verb: str, number: int) -> None:
    """Let a process work in the shared transaction, save, begin more, and be killed before it saves that."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PARTICIPANT, uri, verb, str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "saved\n"
        os.kill(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("layout", ["tree", "deltacat"])
def test_saved_changes_are_published_after_every_participant_was_killed(layout: str, tmp_path: Path) -> None:
    lake = mangrove.create(tmp_path / "lake", layout=layout)
    lake.create_namespace("sales")
    orders = lake.create_table("sales.orders", "id bigint not null", keys=["id"])
    _work_and_die(lake.uri, "begin", 1)
    _work_and_die(lake.uri, "join", 2)
    assert orders.to_arrow().num_rows == 0
    mangrove.open(lake.uri).join_shared("load").publish()
    assert sorted(orders.to_arrow().column("id").to_numpy().tolist()) == [1, 2]
    with pytest.raises(NotFoundError):
        lake.join_shared("load")
    assert lake.maintenance.check().is_sound

"""Work on threads where Python or the system starts no more of them."""

import subprocess
import sys
import threading
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import pytest

from mangrove.effects import build_effects, wait_for_pending
from mangrove.parallel import map_ahead, map_in_pool, map_parallel
from mangrove.storage.memory import MemoryStore

AFTER_THE_MAIN_THREAD = """
import sys, threading
import mangrove

lake = mangrove.create(sys.argv[1])
lake.create_namespace("s")
table = lake.create_table("s.t", "id bigint not null, v string", keys=["id"])
table.alter({"write.inline-rows-max-bytes": "0", "compaction.auto": "true", "compaction.deltas-min": "3"})

def work():
    threading.main_thread().join()
    for number in range(8):
        table.upsert([{"id": number, "v": "x"}])
    print(sorted(row["id"] for row in table.to_arrow().to_pylist()), len(table.deltas()))

threading.Thread(target=work).start()
"""


class NoThreads(Executor):
    """A pool that starts no thread."""

    def __init__(self, *_: object) -> None:
        """Ignore the number of threads."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        """Raise what Python does after the main thread has ended."""
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")


def test_work_that_gets_no_thread_is_done_by_the_caller() -> None:
    with patch("mangrove.parallel.ThreadPoolExecutor", NoThreads):
        assert map_parallel(abs, [-1, 2, -3]) == [1, 2, 3]
        assert list(map_ahead(abs, [-1, 2, -3])) == [1, 2, 3]
        with pytest.raises(ZeroDivisionError):
            map_parallel(lambda item: 1 / item, [1, 0])


def test_an_error_is_raised_where_its_result_is_taken() -> None:
    results = map_in_pool(NoThreads(), lambda item: 1 / item, [1, 0])
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_a_task_after_a_commit_that_gets_no_thread_raises_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    effects, done = build_effects(MemoryStore()), threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        effects.later(lambda: None)
    effects.later(done.set)
    wait_for_pending(effects, 60)
    assert done.is_set()


def test_threads_write_compact_and_read_after_the_main_thread_has_ended(tmp_path: Path) -> None:
    script = [sys.executable, "-c", AFTER_THE_MAIN_THREAD, str(tmp_path / "lake")]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    ids, deltas = done.stdout.rsplit(" ", 1)
    assert ids == str(list(range(8)))
    assert int(deltas) < 8

"""What runs later: the newest task at least, at the latest when somebody waits for it."""

from mangrove.effects import build_effects, wait_for_pending
from mangrove.storage.memory import MemoryStore


def test_the_newest_task_has_run_after_wait_for_pending() -> None:
    effects = build_effects(MemoryStore())
    ran: list[int] = []
    for number in range(100):
        effects.later(lambda number=number: ran.append(number))  # type: ignore[misc]
    wait_for_pending(effects, 60.0)
    assert ran[-1] == 99
    assert ran == sorted(set(ran))


def test_wait_for_pending_runs_each_queued_task_in_order() -> None:
    effects = build_effects(MemoryStore())
    ran: list[str] = []
    for name in ("first", "second", "third"):
        effects.later(lambda name=name: ran.append(name))  # type: ignore[misc]
        wait_for_pending(effects, 60.0)
    assert ran == ["first", "second", "third"]


def test_wait_for_pending_returns_without_tasks() -> None:
    wait_for_pending(build_effects(MemoryStore()), 60.0)

"""Interleaved measurement: every operation runs on all systems before the next one."""

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.peers.client import Answer, Failed, Worker
from benchmarks.peers.results import PartResult
from benchmarks.peers.setting import Budget, OutOfTime

PREPARE_FACTOR = 10
"""How much longer than a measured operation an unmeasured one may take."""


class Comparison:
    """Runs operations on the workers of a part and records figures, failures and differing answers."""

    def __init__(self, result: PartResult, workers: Mapping[str, Worker], turn: int, budget: Budget) -> None:
        """Compare in an order of systems that depends on the turn, so that none is always first."""
        names = [*workers]
        start = turn % len(names) if names else 0
        self._result = result
        self._workers = {name: workers[name] for name in names[start:] + names[:start]}
        self._budget = budget

    def prepare(self, operation: str, **arguments: Any) -> None:
        """Run an operation unmeasured; a failure shows in the next measured operation."""
        for worker in self._workers.values():
            try:
                worker.call(operation, self._budget.limit_next(PREPARE_FACTOR), **arguments)
            except Failed:
                continue

    def measure(self, what: str, operation: str, requires: str | None = None, **arguments: Any) -> None:
        """Run an operation on every system and record its times.

        A system that failed is not asked again in later rounds. `requires` names a row
        without which this one has no meaning.
        """
        row = self._result.row(what)
        answers: dict[str, Answer] = {}
        for name, worker in self._workers.items():
            cell = row.cells[name]
            if requires and not cell.reason:
                cell.reason = self._result.row(requires).cells[name].reason
            if cell.reason:
                continue
            try:
                answers[name] = answer = worker.call(operation, self._budget.limit_next(), **arguments)
            except OutOfTime as failure:
                # A figure of an earlier round stays.
                cell.reason = "" if cell.wall else str(failure)
            except Failed as failure:
                cell.reason = str(failure)
            else:
                cell.wall.append(statistics.median(answer.wall))
                cell.cpu.append(statistics.mean(answer.cpu))
        self._result.differences += find_differences(what, {name: answer.value for name, answer in answers.items()})
        figures = (f"{name} {statistics.median(answer.wall):,.0f} ms" for name, answer in answers.items())
        print(f"   {what}: {', '.join(figures)}", flush=True)


def find_differences(what: str, values: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each answer that differs from the most frequent one.

    >>> find_differences("scan", {"a": 1, "b": 1, "c": 2})
    ['scan: c answered 2, not 1']
    """
    answers = [*values.values()]
    if not answers:
        return []
    usual = max(answers, key=answers.count)
    return [f"{what}: {name} answered {value}, not {usual}" for name, value in values.items() if value != usual]

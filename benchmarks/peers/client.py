"""Workers as seen by the benchmark: each is a process with its own environment."""

import json
import queue
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import ROOT
from benchmarks.peers.systems.port import Place

START_SECONDS_MAX = 300.0
"""Spark downloads JARs when it starts for the first time."""


class Failed(Exception):  # noqa: N818  an answer of the report
    """An operation gave no figure, for the reason given."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The times of each repetition in milliseconds, and the value of the last one."""

    wall: list[float]
    cpu: list[float]
    retries: int = 0
    value: Any = None


class Worker:
    """A running worker; a call that takes too long ends it, and the next call starts it again."""

    def __init__(self, name: str, python: Path, place: Place) -> None:
        self.name = name
        self.place = place
        self._python = python
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()

    def call(self, operation: str, seconds_max: float, **arguments: Any) -> Answer:
        """Run one operation and return its answer; raise `Failed` if there is none."""
        self.send(operation, **arguments)
        return self.receive(operation, seconds_max)

    def send(self, operation: str, **arguments: Any) -> None:
        """Start an operation."""
        process = self.start()
        assert process.stdin is not None
        process.stdin.write(json.dumps({"call": operation, **arguments}) + "\n")
        process.stdin.flush()

    def receive(self, operation: str, seconds_max: float) -> Answer:
        """Wait for the answer to the operation that was sent."""
        answer = self._take(operation, seconds_max)
        if reason := answer.get("unsupported") or answer.get("error"):
            raise Failed(reason)
        return Answer(**answer)

    def start(self) -> "subprocess.Popen[str]":
        """Start the process if it does not run, and wait until its system is open."""
        if self._process is not None:
            return self._process
        Path(self.place.folder).mkdir(parents=True, exist_ok=True)
        command = [str(self._python), "-m", "benchmarks.peers.worker", self.name, json.dumps(asdict(self.place))]
        with (Path(self.place.folder) / "worker.log").open("ab") as log:
            self._process = process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._answers = queue.Queue()
        self._reader = threading.Thread(target=self._forward, args=(process, self._answers), daemon=True)
        self._reader.start()
        if reason := self._take("start", START_SECONDS_MAX).get("error"):
            self.stop()
            raise Failed(reason)
        return process

    def stop(self, seconds_max: float = 10.0) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            process.stdin.close()
            process.wait(seconds_max)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        self._reader.join()

    def _take(self, operation: str, seconds_max: float) -> Mapping[str, Any]:
        try:
            line = self._answers.get(timeout=seconds_max)
        except queue.Empty:
            self.stop(0)
            raise Failed(f"stopped after {seconds_max:.0f} s") from None
        if line is None:
            self.stop(0)
            raise Failed(f"the process ended during {operation!r}")
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    @staticmethod
    def _forward(process: "subprocess.Popen[str]", answers: "queue.Queue[str | None]") -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                answers.put(line)
        answers.put(None)

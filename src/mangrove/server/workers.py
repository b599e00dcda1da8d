"""Several worker processes that accept connections on one socket.

A worker that ends is replaced, unless it ended before it listened: then all end. If the parent
process ends, its workers stop too.
"""

import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final, TypeAlias

from mangrove.errors import StorageError

__all__ = ["RunWorker", "run_workers"]

RunWorker: TypeAlias = Callable[[socket.socket, Callable[[], None]], None]
"""Serves on a socket until stopped by a signal, and calls the function when it listens. It must be picklable."""
_LOGGER: Final = logging.getLogger(__name__)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_workers(run: RunWorker, listening: socket.socket, count: int, on_listening: Callable[[], None]) -> None:
    """Run `count` processes until this one gets SIGINT or SIGTERM; call `on_listening` when all listen."""
    supervisor = _Supervisor(run, listening, on_listening)
    previous = {number: signal.signal(number, lambda *_: supervisor.stop()) for number in _SIGNALS}
    try:
        supervisor.supervise(count)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Supervisor:
    def __init__(self, run: RunWorker, listening: socket.socket, on_listening: Callable[[], None]) -> None:
        # A forked process would share the locks of the storage client's threads, but not the threads.
        self._context = multiprocessing.get_context("spawn")
        self._run = run
        self._listening = listening
        self._on_listening = on_listening
        self._workers: dict[BaseProcess, Connection] = {}
        self._ready: set[BaseProcess] = set()
        self._is_stopping = False

    def stop(self) -> None:
        """Let all workers finish their requests and end."""
        self._is_stopping = True
        for worker in self._workers:
            worker.terminate()

    def supervise(self, count: int) -> None:
        """Start the workers and replace those that end, until stopped."""
        try:
            for _ in range(count):
                self._start()
            has_announced = False
            while self._workers:
                self._handle_events()
                if not has_announced and len(self._ready) == count:
                    has_announced = True
                    self._on_listening()
        finally:
            self.stop()
            for worker in self._workers:
                worker.join()

    def _start(self) -> None:
        receiving, sending = self._context.Pipe(duplex=False)
        worker = self._context.Process(target=_run_worker, args=(self._run, self._listening, sending))
        worker.start()
        sending.close()
        self._workers[worker] = receiving
        if self._is_stopping:
            worker.terminate()

    def _handle_events(self) -> None:
        """Wait until a worker listens or ends."""
        waiting = {reader: worker for worker, reader in self._workers.items() if worker not in self._ready}
        sentinels = {worker.sentinel: worker for worker in self._workers}
        for event in wait([*waiting, *sentinels]):
            if isinstance(event, Connection):
                # A worker that ended before it listened has closed its end; its sentinel reports it.
                if _receives(event):
                    self._ready.add(waiting[event])
                continue
            assert isinstance(event, int)
            worker = sentinels[event]
            worker.join()
            self._workers.pop(worker).close()
            was_ready = worker in self._ready
            self._ready.discard(worker)
            if self._is_stopping:
                continue
            if not was_ready:
                raise StorageError(
                    f"a worker process ended with code {worker.exitcode} before it listened; its error is in the log"
                )
            _LOGGER.warning("worker process %s ended with code %s and is replaced", worker.pid, worker.exitcode)
            self._start()


def _receives(reader: Connection) -> bool:
    try:
        return bool(reader.recv())
    except (EOFError, OSError):
        return False


def _run_worker(run: RunWorker, listening: socket.socket, ready: Connection) -> None:
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    run(listening, lambda: ready.send("ready"))


def _stop_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)

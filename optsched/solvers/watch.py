"""Waiting for a solver: signs of life go to the caller, the wish to stop goes to the solver."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from optsched.solvers.outcome import Progress, SolverOptions

Answer = TypeVar("Answer")

POLL_S = 0.05


class Watch:
    """Runs a job in a thread of its own while the caller's thread stays responsive.

    ``options.report`` and ``options.stop`` are called in the caller's thread only. Ctrl-C there
    is the wish to stop; a second one is raised and leaves the job behind. A fresh thread per job
    also gives HiGHS a fresh scheduler, the only way to change its number of threads.
    """

    def __init__(self, options: SolverOptions) -> None:
        self._options = options
        self._told: queue.SimpleQueue[Progress | None] = queue.SimpleQueue()
        self._stop = threading.Event()

    @property
    def stopping(self) -> bool:
        """Whether the job has been asked to stop."""
        return self._stop.is_set()

    def tell(self, progress: Progress) -> None:
        """Pass a sign of life to the caller; called by the job, from any thread."""
        if self._options.report is not None:
            self._told.put(progress)

    def run(self, job: Callable[[], Answer]) -> Answer:
        """Result of ``job()``; what it raises is raised here."""
        results: list[Answer] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(job())
            except BaseException as error:
                errors.append(error)
            finally:
                self._told.put(None)

        thread = threading.Thread(target=work, name="optsched-solver", daemon=True)
        thread.start()
        self._attend()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]

    def _attend(self) -> None:
        while True:
            try:
                if self._attend_once():
                    return
            except KeyboardInterrupt:
                if self.stopping:
                    raise
                self._stop.set()
            except BaseException:
                self._stop.set()
                self._drain()
                raise

    def _attend_once(self) -> bool:
        stop = self._options.stop
        if stop is not None and not self.stopping and stop():
            self._stop.set()
        try:
            progress = self._told.get(timeout=POLL_S)
        except queue.Empty:
            return False
        if progress is None:
            return True
        if self._options.report is not None:
            self._options.report(progress)
        return False

    def _drain(self) -> None:
        while self._told.get() is not None:
            pass

"""Waiting for a solver: signs of life go to the caller, the wish to stop goes to the solver."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
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
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether the job has been asked to stop."""
        return self._stopping

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

        with self._ctrl_c_is_a_wish():
            thread = threading.Thread(target=work, name="optsched-solver", daemon=True)
            thread.start()
            self._attend()
            thread.join()
        if errors:
            raise errors[0]
        return results[0]

    @contextmanager
    def _ctrl_c_is_a_wish(self) -> Iterator[None]:
        """Let Ctrl-C set a flag, so that no KeyboardInterrupt can come at a bad moment.

        Only in the main thread, where signals arrive, and only in place of Python's own handler:
        a caller with a handler of its own has decided otherwise.
        """
        mine = threading.current_thread() is threading.main_thread()
        if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def handler(number: int, frame: FrameType | None) -> None:
            if self._stopping:
                signal.default_int_handler(number, frame)
            self._stopping = True

        signal.signal(signal.SIGINT, handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _attend(self) -> None:
        try:
            while self._attend_once():
                pass
        except BaseException as error:
            self._stopping = True
            if not isinstance(error, KeyboardInterrupt):
                self._drain()
            raise

    def _attend_once(self) -> bool:
        """Whether the job is still running, after at most a moment."""
        stop = self._options.stop
        if stop is not None and not self._stopping and stop():
            self._stopping = True
        try:
            progress = self._told.get(timeout=POLL_S)
        except queue.Empty:
            return True
        if progress is None:
            return False
        if self._options.report is not None:
            self._options.report(progress)
        return True

    def _drain(self) -> None:
        while self._told.get() is not None:
            pass

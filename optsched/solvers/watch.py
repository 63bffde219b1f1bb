"""Waiting for a solver: signs of life go to the caller, the wish to stop goes to the solver."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from optsched.errors import SolverError
from optsched.solvers.outcome import Progress, SolverOptions

Answer = TypeVar("Answer")

POLL_S = 0.05


class Wish:
    """The wish to stop, which once expressed stays: by Ctrl-C, or by ``stop`` saying True."""

    def __init__(self, stop: Callable[[], bool] | None = None) -> None:
        self._stop = stop
        self._expressed = False

    @property
    def expressed(self) -> bool:
        """Whether it has been expressed so far, without asking again."""
        return self._expressed

    def express(self) -> None:
        """Wish to stop."""
        self._expressed = True

    def ask(self) -> bool:
        """Whether it is expressed; asks ``stop``, so only for the caller's thread."""
        if not self._expressed and self._stop is not None and self._stop():
            self._expressed = True
        return self._expressed


@contextmanager
def ctrl_c_is_a_wish(wish: Wish) -> Iterator[None]:
    """Let Ctrl-C express ``wish``, so that no KeyboardInterrupt can come at a bad moment.

    A second Ctrl-C is raised. Only in the main thread, where signals arrive, and only in place of
    Python's own handler: a caller with a handler of its own has decided otherwise. So of nested
    uses the outermost gets the wish and hands it on as ``stop``.
    """
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def handler(number: int, frame: FrameType | None) -> None:
        if wish.expressed:
            signal.default_int_handler(number, frame)
        wish.express()

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Watch:
    """Runs a job in a thread of its own while the caller's thread stays responsive.

    ``options.report`` and ``options.stop`` are called in the caller's thread only. Ctrl-C there
    is the wish to stop; a second one is raised and leaves the job behind. A fresh thread per job
    also gives HiGHS a fresh scheduler, the only way to change its number of threads.
    """

    def __init__(self, options: SolverOptions) -> None:
        self._options = options
        self._told: queue.SimpleQueue[Progress | None] = queue.SimpleQueue()
        self._wish = Wish(options.stop)

    @property
    def stopping(self) -> bool:
        """Whether the job has been asked to stop, also if it ended before it heard of that."""
        return self._wish.expressed

    def tell(self, progress: Progress) -> None:
        """Pass a sign of life to the caller; called by the job, from any thread."""
        if self._options.report is not None:
            self._told.put(progress)

    def run(self, job: Callable[[], Answer]) -> Answer:
        """Result of ``job()``; what it raises is raised here.

        Raises
        ------
        SolverError
            The job ran out of memory.
        """
        results: list[Answer] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(job())
            except BaseException as error:
                errors.append(error)
            finally:
                self._told.put(None)

        with ctrl_c_is_a_wish(self._wish):
            thread = threading.Thread(target=work, name="optsched-solver", daemon=True)
            thread.start()
            self._attend()
            thread.join()
        self._wish.ask()
        if errors and isinstance(errors[0], MemoryError):
            raise out_of_memory() from errors[0]
        if errors:
            raise errors[0]
        return results[0]

    def _attend(self) -> None:
        try:
            while self._attend_once():
                pass
        except BaseException as error:
            self._wish.express()
            if not isinstance(error, KeyboardInterrupt):
                self._drain()
            raise

    def _attend_once(self) -> bool:
        """Whether the job is still running, after at most a moment."""
        self._wish.ask()
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


def out_of_memory() -> SolverError:
    """What to raise for a MemoryError in a solver."""
    return SolverError(
        "the solver ran out of memory",
        hint="use fewer threads, a smaller instance or a shorter horizon",
    )

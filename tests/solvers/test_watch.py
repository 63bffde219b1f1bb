"""Ctrl-C and errors while a job runs."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from optsched.errors import InvalidInputError, SolverError
from optsched.solvers.outcome import Progress, SolverOptions
from optsched.solvers.watch import Watch


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_result_and_the_error_of_a_job() -> None:
    assert Watch(SolverOptions()).run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        Watch(SolverOptions()).run(lambda: 1 // 0)


def test_ctrl_c_at_any_moment_is_a_wish() -> None:
    for _ in range(30):
        watch = Watch(SolverOptions(report=lambda progress: None))

        def job(watch: Watch = watch) -> str:
            interrupt()
            while not watch.stopping:
                watch.tell(Progress(value=None, bound=None, wall_s=0.0))
            return "best found"

        assert watch.run(job) == "best found"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_does_not_wait() -> None:
    watch, done = Watch(SolverOptions()), threading.Event()

    def deaf() -> None:
        interrupt()
        while not watch.stopping:
            time.sleep(0.01)
        interrupt()
        done.wait()

    with pytest.raises(KeyboardInterrupt):
        watch.run(deaf)
    done.set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_caller_is_left_alone() -> None:
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(number))
    try:
        watch = Watch(SolverOptions(stop=lambda: bool(caught)))

        def job() -> str:
            interrupt()
            while not watch.stopping:
                time.sleep(0.01)
            return "stopped"

        assert watch.run(job) == "stopped"
        assert caught == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_callbacks_run_in_the_callers_thread_even_if_that_is_not_the_main_one() -> None:
    seen: list[int] = []

    def caller() -> None:
        watch = Watch(SolverOptions(report=lambda progress: seen.append(threading.get_ident())))
        watch.run(lambda: watch.tell(Progress(value=None, bound=None, wall_s=0.0)))
        seen.append(threading.get_ident())

    thread = threading.Thread(target=caller)
    thread.start()
    thread.join()
    assert len(seen) == 2
    assert seen[0] == seen[1]


def test_ctrl_c_just_before_the_end_is_not_lost() -> None:
    watch = Watch(SolverOptions())
    assert watch.run(interrupt) is None
    assert watch.stopping


def test_a_stop_that_comes_too_late_to_be_polled_is_not_lost() -> None:
    asked: list[int] = []
    watch = Watch(SolverOptions(stop=lambda: bool(asked)))
    watch.run(lambda: asked.append(1))
    assert watch.stopping


def test_running_out_of_memory_is_told_as_such() -> None:
    def hungry() -> None:
        raise MemoryError("std::bad_alloc")

    with pytest.raises(SolverError, match="out of memory"):
        Watch(SolverOptions()).run(hungry)


@pytest.mark.parametrize("threads", [0, 100_000])
def test_more_threads_than_processors_are_refused(threads: int) -> None:
    with pytest.raises(InvalidInputError, match=f"threads: got {threads}"):
        SolverOptions(threads=threads)

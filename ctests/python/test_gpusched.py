"""The Python package over the real library."""

import asyncio
import concurrent.futures
import contextlib
import copy
import ctypes
import dataclasses
import gc
import itertools
import logging
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import warnings
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any
from unittest import mock

import gpusched
import numpy as np
from gpusched import _fd, _jobs, _library, _loans, _scheduler, _tasks, abi

SPACING = 10.0


def setUpModule() -> None:
    # Most shots are smaller than a useful one.
    warnings.filterwarnings(
        "ignore", "(.* cells per shortest wavelength|the centre of the wavelet|epsilon and delta are reduced)"
    )


def small_model(**more: object) -> gpusched.Model:
    return gpusched.Model(np.full((8, 9, 10), 2000.0), spacing_m=SPACING, **more)


def small_shot(**changes: object) -> gpusched.Shot:
    return gpusched.Shot(**{"nt": 12, "dt_s": 1e-3, "frequency_hz": 30, "source": (4, 4, 2), "plane_iz": 1, **changes})


def nothing(*_: object) -> None:
    """Does nothing: as a task, a piece of a range, a callback."""


def until_cancelled(exec: gpusched.Exec, _piece: range = range(0)) -> None:
    while not exec.cancelled:
        time.sleep(0.001)
    raise gpusched.Cancelled()


def shoot(**changes: object) -> gpusched.Gather:
    with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
        return scheduler.submit_shot(model, small_shot(**changes)).result()


def program(code: str) -> str:
    """Runs a program that must succeed and leave standard error empty; returns its output."""
    told = subprocess.run([sys.executable, "-Wignore", "-c", code], capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stderr) == (0, ""), told
    return told.stdout


def interrupt_wait() -> None:
    """Sends SIGINT to the main thread once a wait of the library runs there."""
    main, waits = threading.main_thread().ident, (_tasks.wait_for.__code__, _tasks.wait_once.__code__)
    assert main is not None
    while not any(frame.f_code in waits for frame, _ in traceback.walk_stack(sys._current_frames()[main])):
        time.sleep(0.001)
    signal.pthread_kill(main, signal.SIGINT)


class WithScheduler(unittest.TestCase):
    def setUp(self) -> None:
        self.scheduler = gpusched.Scheduler(devices="cpu", slots=2)
        self.addCleanup(self.scheduler.close)
        self.go = threading.Event()
        self.addCleanup(self.go.set)

    def hang(self, *_: object) -> bool:
        return self.go.wait(60)


class OfAShot(gpusched.GpuschedError):
    """A user's subclass, whose constructor takes other arguments."""

    def __init__(self, shot: int) -> None:
        super().__init__(abi.SCHED_E_UNSTABLE, f"shot {shot} blows up")
        self.shot = shot


class Errors(unittest.TestCase):
    def test_pickled_or_copied_error_keeps_its_type_and_attributes(self) -> None:
        """A worker whose error cannot be unpickled would make `Pool.map` wait for ever."""
        plain = gpusched.GpuschedError(abi.SCHED_E_MEMORY, "too little memory")
        plain.shot = 12  # type: ignore[attr-defined]
        for error in (plain, gpusched.Cancelled(), gpusched.Cancelled("the survey was stopped"), OfAShot(7)):
            protocols = range(pickle.HIGHEST_PROTOCOL + 1)
            pickled = [pickle.loads(pickle.dumps(error, protocol)) for protocol in protocols]
            for found in [*pickled, copy.copy(error), copy.deepcopy(error)]:
                self.assertIs(type(found), type(error))
                self.assertEqual((str(found), found.args, vars(found)), (str(error), error.args, vars(error)))


class Loops(WithScheduler):
    def test_range_processes_each_element_once(self) -> None:
        times = np.zeros(1000, dtype=int)
        for grain in (None, 1, 7, 5000):

            def count(exec: gpusched.Exec, piece: range) -> None:
                self.assertLessEqual(len(piece), grain or 1000)
                times[piece.start : piece.stop] += 1

            task = self.scheduler.submit_range(0, 1000, count, grain, label="count")
            self.assertIsNone(task.result())
            self.assertEqual(task.info.progress, 1.0)
        self.assertTrue((times == 4).all())

    def test_map_returns_results_in_order(self) -> None:
        self.assertEqual(self.scheduler.map(lambda x: x * x, range(300)), [x * x for x in range(300)])
        self.assertEqual(self.scheduler.map(str, (x for x in "abc"), grain=1), ["a", "b", "c"])
        self.assertEqual(self.scheduler.map(str, []), [])

    def test_mapped_function_learns_its_device(self) -> None:
        def place(x: int) -> tuple[Any, ...]:
            exec = gpusched.current_exec()
            # This worker may run the other task meanwhile.
            other = self.scheduler.submit(lambda exec: gpusched.current_exec() is exec).result()
            return other, gpusched.current_exec() is exec, exec.backend, exec.ordinal, exec.stream, exec.uuid

        cpu = self.scheduler.devices[0]
        wanted = (True, True, "cpu", cpu.ordinal, None, cpu.uuid)
        self.assertEqual(self.scheduler.map(place, range(3), grain=1), [wanted] * 3)
        self.assertRaisesRegex(RuntimeError, "outside a task", gpusched.current_exec)

    def test_imap_yields_in_order_and_may_be_left(self) -> None:
        self.assertEqual(list(self.scheduler.imap(lambda x: -x, range(100))), [-x for x in range(100)])
        begun: list[int] = []

        def hang_after_ten(x: int) -> int:
            begun.append(x)
            if x > 10:
                self.hang()
            return x

        for x in self.scheduler.imap(hang_after_ten, range(100_000), grain=1):
            if x == 3:
                break
        self.scheduler.imap(hang_after_ten, range(100_000), grain=1).close()
        self.go.set()
        self.scheduler.wait_all(timeout=20)
        self.assertLess(len(begun), 1000)

    def test_exception_ends_a_map_and_is_raised_itself(self) -> None:
        raised = KeyError("density")

        def fail(x: int) -> int:
            if x == 30:
                raise raised
            return x

        with self.assertRaises(KeyError) as caught:
            self.scheduler.map(fail, range(100))
        self.assertIs(caught.exception, raised)
        seen = []
        with self.assertRaises(KeyError):
            for x in self.scheduler.imap(fail, range(100), grain=1):
                seen.append(x)
        self.assertEqual(seen, list(range(len(seen))))
        self.assertLessEqual(len(seen), 30)
        found: Future[None] = Future()
        again = lambda: self.assertRaises(KeyError, list, self.scheduler.imap(fail, range(100)))  # noqa: E731
        slow = self.scheduler.submit(self.hang)
        slow.add_done_callback(lambda _: found.set_result(again()))
        self.go.set()
        self.assertIsNone(found.result(20))

    def test_first_exception_of_a_range_counts(self) -> None:
        for later in (KeyError, gpusched.Cancelled):
            both, free = threading.Barrier(2, timeout=20), threading.Event()

            def fail(exec: Any, piece: range, both: Any = both, free: Any = free, later: Any = later) -> None:
                both.wait()
                if piece[0]:
                    # The other worker runs it once it has left the first piece.
                    self.scheduler.submit(lambda exec: free.set())
                    self.assertTrue(free.wait(20))
                raise later() if piece[0] else ValueError("the first")

            self.assertRaisesRegex(ValueError, "the first", self.scheduler.submit_range(0, 2, fail, grain=1).result)

    def test_chunk_that_begins_after_the_failure_of_another_keeps_it(self) -> None:
        both, order = threading.Barrier(2, timeout=20), itertools.count()

        def late(number: int) -> Any:
            job = _jobs.jobs[number]
            both.wait()
            if next(order):
                while not job.failures:
                    time.sleep(0.001)
            return job

        errors = iter([ValueError("the first"), KeyError("the second")])

        def fail(*_: object) -> None:
            raise next(errors)

        with mock.patch.object(_jobs, "find", late):
            self.assertRaisesRegex(ValueError, "the first", self.scheduler.submit_range(0, 2, fail, grain=1).result)

    def test_bad_ranges_are_refused(self) -> None:
        for begin, end, grain, words in ((3, 2, None, "begin is 3"), (-1, 2, None, "-1"), (0, 2, 0, "grain is 0")):
            with self.assertRaisesRegex((gpusched.GpuschedError, ValueError), words):
                self.scheduler.submit_range(begin, end, nothing, grain)
        self.assertRaisesRegex(TypeError, "retries", self.scheduler.submit_range, 0, 2, nothing, retries=1)
        self.assertEqual(_jobs.jobs, {})


class Orders(WithScheduler):
    def test_task_is_known_before_wait_next_returns_it(self) -> None:
        submit = _library.lib.sched_submit_many

        def late(*arguments: Any) -> Any:
            status = submit(*arguments)
            time.sleep(0.05)
            return status

        found = []

        def take() -> None:
            while not found:
                with contextlib.suppress(gpusched.GpuschedError):
                    found.append(self.scheduler.wait_next())

        taker = threading.Thread(target=take, daemon=True)
        taker.start()
        with mock.patch.object(_library.lib, "sched_submit_many", late):
            task = self.scheduler.submit(lambda exec: 1, ordered=True)
        taker.join(20)
        self.assertEqual(found, [task])
        self.assertEqual(concurrent.futures.wait([task], 20).done, {task})


    def test_refusal_on_another_thread_does_not_disturb_wait_next(self) -> None:
        refused, reads = threading.Event(), threading.Event()
        cancel = self.scheduler._completer.cancel

        def refuse(tasks: Any) -> None:
            cancel(tasks)
            refused.set()
            self.assertTrue(reads.wait(20))

        def submit() -> None:
            with contextlib.suppress(gpusched.GpuschedError):
                self.scheduler.submit(nothing, ordered=True, device_bytes=2**60)

        def id_of(task: Any) -> int:
            found: int = task._job.id
            if not found and threading.current_thread() is not other:
                reads.set()
                other.join(0.2)  # Until the other thread has removed the task, or waits for this one.
            return found

        other = threading.Thread(target=submit)
        with mock.patch.object(self.scheduler._completer, "cancel", refuse):
            other.start()
            self.assertTrue(refused.wait(20))
            task = self.scheduler.submit(nothing, ordered=True)
            with mock.patch.object(gpusched.Task, "id", property(id_of)):
                self.assertIs(self.scheduler.wait_next(), task)
        other.join(20)
        self.assertEqual(self.scheduler._ordered, {})


class Futures(WithScheduler):
    def test_tasks_are_futures(self) -> None:
        begun = threading.Event()
        slow = self.scheduler.submit(lambda exec: begun.set() or self.hang())
        begun.wait(20)
        fast = [self.scheduler.submit(lambda exec, i=i: i) for i in range(20)]
        first = concurrent.futures.wait([slow, *fast], timeout=20, return_when=concurrent.futures.FIRST_COMPLETED)
        self.assertTrue(first.done and slow in first.not_done)
        self.assertEqual(self.scheduler.wait_any([slow, fast[0]]), 1)
        self.assertEqual(sorted(task.result() for task in concurrent.futures.as_completed(fast, 20)), list(range(20)))
        self.assertEqual((slow.running(), slow.done(), slow.cancelled()), (True, False, False))
        self.go.set()
        bad = self.scheduler.submit(lambda exec: 1 / 0)
        self.assertIs(type(bad.exception(20)), ZeroDivisionError)
        self.assertEqual((slow.result(), slow.running(), slow.done(), slow.cancel()), (True, False, True, False))

        async def both() -> list[Any]:
            return await asyncio.gather(asyncio.wrap_future(slow), asyncio.wrap_future(bad), return_exceptions=True)

        self.assertEqual(asyncio.run(both()), [True, bad.exception()])

    def test_queued_task_that_is_cancelled_never_starts(self) -> None:
        with self.assertLogs("concurrent.futures"), gpusched.Scheduler(devices="cpu", slots=1) as scheduler:
            running, ran = scheduler.submit(until_cancelled), []
            queued = scheduler.submit(ran.append)
            queued.add_done_callback(lambda task: sys.exit())
            self.assertTrue(queued.cancel() and queued.cancelled() and not running.cancelled())
            self.assertEqual(concurrent.futures.wait([queued], 20).done, {queued})
        self.assertTrue(running.cancelled() and not ran)

    def test_ctrl_c_during_the_first_submission_starts_one_thread(self) -> None:
        start = threading.Thread.start

        def interrupted(thread: threading.Thread) -> None:
            start(thread)
            raise KeyboardInterrupt

        for _ in range(20):
            scheduler, threads = gpusched.Scheduler(devices="cpu"), set()
            with mock.patch.object(threading.Thread, "start", interrupted):
                self.assertRaises(KeyboardInterrupt, scheduler.submit, nothing)
            tasks = [scheduler.submit(nothing) for _ in range(10)]
            for task in tasks:
                task.add_done_callback(lambda task: threads.add(threading.get_ident()))
            scheduler.wait_all()
            scheduler.shutdown(20)
            self.assertLessEqual(len(threads - {threading.get_ident()}), 1)

    def test_callbacks_are_called_once_by_one_thread(self) -> None:
        seen: list[Any] = []

        def seen_by(task: Any) -> None:
            seen.append((task.result(), threading.current_thread().name))
            raise SystemExit("a callback's own")

        with self.assertLogs("concurrent.futures") as logged:
            for i in range(10):
                # No other reference to the task.
                self.scheduler.submit(lambda exec, i=i: self.hang() and i).add_done_callback(seen_by)
            self.go.set()
            self.scheduler.wait_all()
            self.scheduler.close()
        self.assertEqual(sorted(value for value, _ in seen), list(range(10)))
        self.assertEqual(len({name for _, name in seen} - {threading.current_thread().name}), 1)
        self.assertEqual(len(logged.output), 10)

    def test_outcomes_outlive_the_scheduler(self) -> None:
        begun, seen = threading.Barrier(3), []

        def commits(exec: gpusched.Exec) -> int:
            exec.commit()
            begun.wait()
            while not exec.cancelled and not self.scheduler.stats.cancelled:
                time.sleep(0.001)
            return 7

        tasks = [self.scheduler.submit(lambda exec: 3), self.scheduler.submit(lambda exec: 1 / 0)]
        self.scheduler.wait_all()
        stops = lambda exec: (begun.wait(), until_cancelled(exec))  # noqa: E731
        tasks += [self.scheduler.submit(commits), self.scheduler.submit(stops)]
        begun.wait()
        tasks.append(self.scheduler.submit(abs))
        for task in tasks:
            # The outcomes are stored before the slow callbacks run.
            task.add_done_callback(lambda task: (time.sleep(0.05), seen.append(task)))
        self.scheduler.close()
        self.assertEqual([task.state for task in tasks], ["done", "failed", "done", "cancelled", "cancelled"])
        self.assertEqual((tasks[0].result(), tasks[2].result(), set(seen)), (3, 7, set(tasks)))
        self.assertRaises(concurrent.futures.CancelledError, tasks[4].result)
        self.assertFalse(tasks[0].cancel())

    def test_outcome_of_a_task_whose_worker_pauses_before_its_end_is_kept(self) -> None:
        completer, end = self.scheduler._completer, _library.lib.sched_shutdown
        dropped, added, busy, left, ended = completer.dropped, *(threading.Event() for _ in range(4))

        def pause(job: _jobs.Job) -> None:
            dropped(job)
            left.set()
            self.hang()

        def shut_down(*args: object) -> Any:
            self.go.set()
            while task.state == "running" or end(*args) == abi.SCHED_PENDING:
                time.sleep(0.001)
            ended.set()
            return abi.SCHED_OK

        # The completer, which would store the outcome too, is busy.
        other = self.scheduler.submit(lambda exec: added.wait(20))
        other.add_done_callback(lambda _: (busy.set(), ended.wait(20)))
        added.set()
        busy.wait(20)
        with mock.patch.object(completer, "dropped", pause):
            task = self.scheduler.submit(lambda exec: 7)
        left.wait(20)
        threading.Timer(1.5, self.go.set).start()
        with mock.patch.object(_library.lib, "sched_shutdown", shut_down):
            self.scheduler.close()
        self.assertEqual((task.state, task.result()), ("done", 7))

    def test_callback_may_submit_and_close(self) -> None:
        found: Future[Any] = Future()
        again = lambda: self.scheduler.submit(lambda exec: 5)  # noqa: E731
        uses = lambda _: found.set_result((again().result(20), again(), self.scheduler.close()))  # noqa: E731
        self.scheduler.submit(self.hang).add_done_callback(uses)
        self.go.set()
        value, task, _ = found.result(20)
        self.assertEqual((value, task.done()), (5, True))

    def test_submissions_that_race_with_close_end(self) -> None:
        tasks: list[gpusched.Task[None]] = []

        def submit(scheduler: gpusched.Scheduler) -> None:
            with contextlib.suppress(ValueError, gpusched.GpuschedError):
                while True:
                    tasks.append(scheduler.submit(nothing))

        for _ in range(20):
            scheduler = gpusched.Scheduler(devices="cpu")
            thread = threading.Thread(target=submit, args=[scheduler])
            thread.start()
            scheduler.close()
            thread.join()
        self.assertFalse(concurrent.futures.wait(tasks, 20).not_done)

    def test_task_that_hangs_past_its_deadline_completes(self) -> None:
        inner, states, begun = [], [], threading.Event()

        def outer(exec: gpusched.Exec) -> None:
            begun.wait(20)  # The other worker must not run `inner`.
            inner.append(self.scheduler.submit(self.hang))
            inner[0].result()

        task = self.scheduler.submit(outer, deadline_s=0.1)
        items = self.scheduler.imap(lambda _: begun.set() or self.hang(), [0], deadline_s=0.1)
        task.add_done_callback(lambda task: states.append(task.state))
        self.assertEqual(concurrent.futures.wait([task], 30).done, {task})
        self.assertRaisesRegex(gpusched.GpuschedError, "SCHED_E_DEADLINE", next, items)
        self.assertEqual((concurrent.futures.wait(inner, 20).done, states), (set(inner), ["failed"]))
        self.assertEqual(len(_jobs.jobs), 3, "a callable that runs could be freed")
        self.go.set()
        while _jobs.jobs:
            time.sleep(0.001)

    def test_wait_all_waits_for_earlier_tasks_only(self) -> None:
        wait_all, waits, begun = _library.lib.sched_wait_all, threading.Event(), threading.Event()

        def wait(handle: int, ns: int) -> int:
            if ns:
                waits.set()
            return wait_all(handle, ns)

        def earlier(exec: gpusched.Exec) -> None:
            waits.wait(20)
            time.sleep(0.3)  # Until the call is in the library.
            later.append(self.scheduler.submit(lambda exec: begun.set() or self.hang()))

        later: list[gpusched.Task[bool]] = []
        task = self.scheduler.submit(earlier)
        with mock.patch.object(_library.lib, "sched_wait_all", wait):
            self.scheduler.wait_all(timeout=20)
        self.assertTrue(task.done() and begun.wait(20) and not later[0].done())
        self.assertEqual(self.scheduler.stats.running, 1)

    def test_shutdown_times_out(self) -> None:
        begun, left, seen = threading.Event(), threading.Event(), []
        task = self.scheduler.submit(lambda exec: begun.set() or self.hang())
        task.add_done_callback(lambda task: (left.wait(20), seen.append(task)))
        begun.wait()
        self.assertRaises(concurrent.futures.TimeoutError, self.scheduler.shutdown, 0.05)
        self.assertTrue(task.running())
        self.assertRaisesRegex(gpusched.GpuschedError, "SHUTDOWN", self.scheduler.submit, abs)
        self.go.set()
        said = ""
        while "in a callback" not in said:  # First it may time out before the workers have ended.
            with self.assertRaises(concurrent.futures.TimeoutError) as caught:
                self.scheduler.shutdown(1)
            said = str(caught.exception)
        self.assertEqual(repr(self.scheduler), "<gpusched.Scheduler, closed>")
        left.set()
        self.scheduler.shutdown(float("inf"))
        self.assertEqual((seen, task.state), ([task], "cancelled"))
        self.assertRaisesRegex(ValueError, "closed", self.scheduler.submit, nothing)

    def test_tasks_and_maps_wait_for_others_in_one_slot(self) -> None:
        with gpusched.Scheduler(devices="cpu", slots=1) as scheduler:
            outer = scheduler.submit(lambda exec: scheduler.submit(lambda exec: 2).result() + 1)
            self.assertEqual(outer.result(20), 3)
            row = lambda y: sum(scheduler.imap(lambda x: x * y, range(10)))  # noqa: E731
            self.assertEqual(scheduler.map(row, range(10), grain=1), [45 * y for y in range(10)])

    def test_forked_child_is_refused_and_does_not_hang(self) -> None:
        told = program("""
import gpusched, os, signal, threading
scheduler = gpusched.Scheduler(devices="cpu")
locked, go = threading.Event(), threading.Event()
def hold():
    with scheduler._completer.submitting, scheduler._completer.ending, gpusched._loans._lock:
        locked.set()
        go.wait()
task = scheduler.submit(lambda exec: go.wait() and None)
threading.Thread(target=hold).start()
locked.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    for call in (task.result, task.done, lambda: scheduler.submit(abs)):
        try:
            call()
        except gpusched.GpuschedError as error:
            print(error.name, flush=True)
    scheduler.close()
    os._exit(0)
go.set()
print(os.waitpid(child, 0)[1], task.result())
""")
        self.assertEqual(told, "SCHED_E_FORKED\n" * 3 + "0 None\n")


class Callables(WithScheduler):
    def test_callable_allocates_memory_of_the_device(self) -> None:
        def fill(exec: gpusched.Exec) -> int:
            memory = np.frombuffer((ctypes.c_float * 1000).from_address(exec.memory(4000)), dtype=np.float32)
            memory[:] = 2.0
            self.assertRaisesRegex(MemoryError, "needs .*iB", exec.memory, 1 << 60)
            self.assertRaisesRegex(gpusched.GpuschedError, "1 or more", exec.memory, 0)
            return int(memory.sum())

        self.assertEqual(self.scheduler.submit(fill).result(), 2000)

    def test_exception_of_a_callable_is_raised_itself(self) -> None:
        raised = KeyError("velocity")
        task = self.scheduler.submit(mock.Mock(side_effect=raised))
        with self.assertRaises(KeyError) as caught:
            task.result()
        self.assertIs(caught.exception, raised)
        self.assertEqual(task.state, "failed")
        self.assertIs(task.exception(), raised)
        self.assertRaisesRegex(TypeError, "callable is None", self.scheduler.submit, None)
        self.assertRaisesRegex(TypeError, "callable is 5", self.scheduler.submit_range, 0, 3, 5)

    def test_exception_without_a_text_is_raised_itself(self) -> None:
        class Answer(Exception):
            def __getattr__(self, name: str) -> object:
                return {"code": 7}[name]

        def fail(*_: object) -> None:
            raise Answer()

        with mock.patch.object(sys, "unraisablehook") as hook:
            for task in (self.scheduler.submit(fail), self.scheduler.submit_range(0, 1, fail)):
                self.assertRaises(Answer, task.result)
                self.assertLess(_library.lib.sched_wait(task._owner, task.id, 0), 0)
                self.assertIn("Answer", _library.last_error())
            hook.assert_not_called()
            with mock.patch.object(_jobs, "Exec", side_effect=Answer):
                self.assertRaisesRegex(gpusched.GpuschedError, "callback", self.scheduler.submit(nothing).result)
            hook.assert_not_called()

    def test_attempt_that_lacked_memory_keeps_no_local_variables(self) -> None:
        found: list[Any] = []

        def fill(size: int) -> None:
            array = threading.Event()
            found.append(weakref.ref(array))
            raise RuntimeError(f"{size} bytes are too many")

        def fail(_: object) -> None:
            array = threading.Event()
            found.append(weakref.ref(array))
            try:
                fill(100)
            except RuntimeError as error:
                raise MemoryError("too little memory") from error

        task = self.scheduler.submit(fail)
        # The second attempt begins a second later.
        while not task._job.failures:
            time.sleep(0.001)
        self.assertEqual([array() for array in found[:2]], [None] * 2)
        _, kept = task._job.failure(abi.SCHED_E_MEMORY)
        self.assertIn("fail", [frame.name for frame in traceback.extract_tb(kept)])
        task.cancel()

    def test_failed_task_that_is_forgotten_keeps_no_local_variables(self) -> None:
        found: list[Any] = []

        def fail(*_: object) -> None:
            thing = threading.Event()
            found.append(weakref.ref(thing))
            raise ValueError("bad")

        def call(wait: Any) -> None:
            with contextlib.suppress(ValueError):
                wait()

        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        call(lambda: self.scheduler.submit(fail).result())
        call(lambda: self.scheduler.submit_range(0, 1, fail).result())
        call(lambda: self.scheduler.map(fail, [1]))
        call(lambda: list(self.scheduler.imap(fail, [1])))
        call(lambda: gpusched.parallel(fail)([1]))
        self.assertEqual(len(found), 5)
        for _ in range(100):
            if not any(thing() for thing in found):
                break
            time.sleep(0.05)  # The completer's thread forgets the tasks.
        self.assertEqual([thing() for thing in found], [None] * 5)

    def test_tasks_run_after_others(self) -> None:
        first = self.scheduler.submit(lambda exec: 1, task_class=3, deadline_s=60.0)
        second = self.scheduler.submit(lambda exec: first.state, after=[first])
        self.assertEqual(second.result(), "done")
        bad = self.scheduler.submit(lambda exec: 1 / 0)
        for task in self.scheduler.submit_many([nothing] * 2, after=iter([first, bad])):
            self.assertRaisesRegex(gpusched.GpuschedError, "did not succeed", task.result)
        self.assertRaisesRegex(TypeError, "unknown option 'before'.*after", self.scheduler.submit, lambda exec: 1, before=[first])

    def test_wait_next_returns_in_the_order_of_submission(self) -> None:
        calls = [lambda exec, i=i: (time.sleep(0.001 * (3 - i)), i)[1] for i in range(4)]
        tasks = self.scheduler.submit_many(calls, ordered=True)
        self.assertEqual([self.scheduler.wait_next() for _ in tasks], tasks)
        self.assertEqual([task.result() for task in tasks], [0, 1, 2, 3])
        self.assertEqual(tasks[0].state, "done")
        self.assertRaisesRegex(gpusched.GpuschedError, "ordered tasks", self.scheduler.wait_next)
        self.assertEqual(self.scheduler.submit_many([]), [])

    def test_shared_scheduler_ends_with_its_last_holder(self) -> None:
        one, two = gpusched.Scheduler.shared(), gpusched.Scheduler.shared()
        self.assertEqual(one.submit(lambda exec: 1).result(), 1)
        begun, go = threading.Event(), threading.Event()
        left = one.submit(lambda exec: begun.set() or go.wait(20))
        begun.wait()
        one.close()
        self.assertTrue(left.cancelled())
        go.set()
        self.assertEqual(two.submit(lambda exec: 2).result(), 2)
        two.close()

    def test_closed_handle_of_the_shared_scheduler_releases_its_ended_tasks(self) -> None:
        with gpusched.Scheduler.shared() as other:
            with gpusched.Scheduler.shared() as scheduler:
                task = scheduler.submit(lambda exec: 1)
                self.assertEqual(task.result(), 1)
            info = abi.sched_task_info_t(size=ctypes.sizeof(abi.sched_task_info_t))
            found = _library.lib.sched_task_info(other._raw, task.id, ctypes.byref(info))
            self.assertEqual((found, task.result()), (abi.SCHED_E_STALE, 1))

    def test_handle_that_is_closed_inside_a_task_of_another_scheduler_releases_its_tasks(self) -> None:
        def closes(exec: gpusched.Exec) -> int:
            with gpusched.Scheduler.shared() as scheduler:
                task = scheduler.submit(lambda exec: 1)
                task.result()
            return task.id

        with gpusched.Scheduler.shared() as other:
            ended = self.scheduler.submit(closes).result()
            info = abi.sched_task_info_t(size=ctypes.sizeof(abi.sched_task_info_t))
            found = _library.lib.sched_task_info(other._raw, ended, ctypes.byref(info))
            self.assertEqual(found, abi.SCHED_E_STALE)

    def test_shared_scheduler_that_can_not_be_closed_keeps_its_tasks(self) -> None:
        def closes(exec: gpusched.Exec) -> None:
            with self.assertRaises(gpusched.GpuschedError):
                scheduler.close()

        with gpusched.Scheduler.shared() as scheduler:
            task = scheduler.submit(lambda exec: 1)
            task.result()
            scheduler.submit(closes).result()
            self.assertEqual(task.state, "done")

    def test_wait_times_out_and_running_task_is_cancelled(self) -> None:
        task = self.scheduler.submit(until_cancelled)
        for wait in (task.result, task.exception):
            self.assertRaises(concurrent.futures.TimeoutError, wait, timeout=0.01)
        self.assertTrue(task.cancel())
        for wait in (task.result, task.exception):
            self.assertRaises(gpusched.Cancelled, wait)
            self.assertRaises(concurrent.futures.CancelledError, wait)
        self.assertEqual(task.state, "cancelled")
        stats = self.scheduler.stats
        self.assertEqual((stats.submitted, stats.done, stats.cancelled), (1, 0, 1))

    def test_retries_count_attempts(self) -> None:
        task = self.scheduler.submit(lambda exec: exec.attempt if exec.attempt > 1 else 1 / 0, retries=3)
        self.assertEqual(task.result(), 2)

    def test_task_that_ended_does_not_keep_its_callable(self) -> None:
        thing = threading.Event()
        gone = weakref.ref(thing)
        task = self.scheduler.submit(lambda exec, thing=thing: None)
        task.result()
        del thing
        self.scheduler.wait_all()
        gc.collect()
        self.assertIsNone(gone())

    def test_bad_option_is_named_as_it_was_written(self) -> None:
        calls = (
            lambda **options: self.scheduler.submit(nothing, **options),
            lambda **options: self.scheduler.submit_many([nothing] * 3, **options),
        )
        for submit in calls:
            for value, words in ((float("nan"), "^work is NaN; accepted"), (-1.5, "^work is -1.5; accepted")):
                self.assertRaisesRegex(gpusched.GpuschedError, words, lambda: submit(work=value))
        self.assertEqual(_jobs.jobs, {})

    def test_values_that_c_cannot_hold_are_refused(self) -> None:
        values = {"priority": 2**31, "device_mask": 2**64, "retries": -1, "device_bytes": -1, "task_class": 2**32}
        for name, value in values.items():
            self.assertRaisesRegex(ValueError, f"^{name} is {value}; accepted: ", self.scheduler.submit, nothing, **{name: value})
        for value in (1e300, float("inf"), -1, 0, float("nan")):
            with self.assertRaisesRegex(ValueError, "^deadline_s is .*; accepted: a positive"):
                self.scheduler.submit(nothing, deadline_s=value)
        self.assertRaisesRegex(TypeError, "^label is 5; accepted: text", self.scheduler.submit, nothing, label=5)
        self.assertRaisesRegex(ValueError, "NUL", self.scheduler.submit, nothing, label="a\0b")
        self.assertRaisesRegex(ValueError, "NUL", lambda: self.scheduler.write_trace("a\0b"))
        for begin, end in ((-1, 5), (0, 2**64)):
            with self.assertRaisesRegex(ValueError, "accepted: 0 to 18446744073709551615"):
                self.scheduler.submit_range(begin, end, nothing)
        for slots in (-1, 65, "many", abi.SCHED_SLOTS_AUTO):
            self.assertRaisesRegex(ValueError, '^slots is .*; accepted: 0 to 64, or "auto"', gpusched.Scheduler, slots=slots)
        for name in ("cpu_threads", "trace_events"):
            self.assertRaisesRegex(ValueError, f"^{name} is -1; accepted: 0 to 4294967295", gpusched.Scheduler, **{name: -1})
        with self.assertRaisesRegex(gpusched.GpuschedError, "^stack_bytes is 4096; accepted: 1048576 to 68719476736"):
            gpusched.Scheduler(stack_bytes=4096)
        self.assertRaisesRegex(ValueError, "size is -1", self.scheduler.submit(lambda exec: exec.memory(-1)).result)
        self.assertEqual(self.scheduler.submit(nothing, priority=np.int64(3), label="nä\udcffe").result(timeout=1e300), None)
        self.assertEqual(_jobs.jobs, {})

    def test_refusal_names_the_value_and_what_is_accepted(self) -> None:
        submit, many = self.scheduler.submit, self.scheduler.submit_many
        calls = [
            ("deadline_s is 'x'; accepted: a positive", lambda: submit(nothing, deadline_s="x")),
            ("deadline_s is None; accepted: a positive", lambda: submit(nothing, deadline_s=None)),
            ("grain is 'x'; accepted: an integer of at least 1", lambda: self.scheduler.submit_range(0, 3, nothing, "x")),
            ("slots is None; accepted: 0 to 64", lambda: gpusched.Scheduler("cpu", None)),
            ("tasks is \\[1\\]; accepted: ", lambda: self.scheduler.wait_any([1])),
            ("nt is -1; accepted: an integer, 1 to 10000000 steps", lambda: gpusched.wavelet("ricker", 20.0, 1e-3, -1)),
            ("nt is 0; accepted: an integer, 1 to 10000000 steps", lambda: gpusched.wavelet("ricker", 20.0, 1e-3, 0)),
            ("nt is 10000001; accepted: an integer, 1 to", lambda: gpusched.wavelet("ricker", 20.0, 1e-3, 10_000_001)),
            ("frequency_hz is 'x'; accepted: a number", lambda: gpusched.wavelet("ricker", "x", 1e-3, 9)),
            ("dt_s is None; accepted: a number", lambda: gpusched.wavelet("ricker", 20.0, None, 9)),
            ("fraction is 'x'; accepted: a number", submit(lambda exec: exec.report("x")).result),
            ("size is 1.5; accepted: a number of bytes", submit(lambda exec: exec.memory(1.5)).result),
            ("call is 3; accepted: ", lambda: self.scheduler.on_progress(3)),
            ("interval_s is 'x'; accepted: 0.001", lambda: self.scheduler.on_progress(nothing, "x")),
            ("logger is 5; accepted: ", lambda: gpusched.log_to(5)),
            ("rates_path is 5; accepted: a path", lambda: gpusched.Scheduler("cpu", rates_path=5)),
            ("path is 1; accepted: a path", lambda: self.scheduler.write_trace(1)),
            ("level is 'x'; accepted: ", lambda: gpusched.log_to(logging.getLogger("x"), "x")),
        ]
        for after in (5, [5], [None], None, "task"):
            words = f"after is {re.escape(repr(after))}; accepted: tasks"
            calls += [(words, lambda after=after, one=one: one(after)) for one in (
                lambda after: submit(nothing, after=after), lambda after: many([nothing], after=after))]
        task = submit(self.hang)
        for timeout in ("x", float("nan"), float("-inf")):
            waits = (task.result, task.exception, self.scheduler.wait_all, self.scheduler.wait_next,
                     self.scheduler.shutdown, lambda timeout: self.scheduler.wait_any([task], timeout))
            words = f"timeout is {timeout!r}; accepted: a number of seconds, or None"
            calls += [(words, lambda wait=wait, timeout=timeout: wait(timeout)) for wait in waits]
        for words, call in calls:
            with self.subTest(words):
                self.assertRaisesRegex((TypeError, ValueError), f"^{words}", call)

    def test_exec_is_invalid_after_the_return(self) -> None:
        left = []
        with gpusched.Scheduler(devices="cpu", slots=1) as scheduler:
            scheduler.submit(left.append).result()
            begun = threading.Event()
            # The thread's next task, whose Exec is at the same address.
            task = scheduler.submit(lambda exec: begun.set() or self.hang())
            begun.wait()
            for call in (lambda: left[0].cancelled, lambda: left[0].report(0.5), lambda: left[0].memory(1), left[0].commit):
                self.assertRaisesRegex(gpusched.GpuschedError, "its callable has returned.*SCHED_E_STALE", call)
            self.assertTrue(task.cancel())
            self.go.set()
        self.assertTrue(task.cancelled())

    def test_handles_are_not_copied(self) -> None:
        task = self.scheduler.submit(lambda exec: 7)
        # A copy of an Exec would be valid after the return of the callable.
        exec = self.scheduler.submit(lambda exec: exec).result()
        with small_model() as model:
            for handle in (task, self.scheduler, model, exec):
                for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                    self.assertRaisesRegex(TypeError, "neither copied nor pickled", copied, handle)
        self.assertEqual(task.result(), 7)

    def test_traceback_of_a_failed_task_does_not_grow(self) -> None:
        task = self.scheduler.submit(lambda exec: int("x"))
        lengths = []
        for _ in range(3):
            # assertRaises would clear the traceback.
            try:
                task.result()
            except ValueError as error:
                lengths.append(len(list(traceback.walk_tb(error.__traceback__))))
        self.assertEqual(lengths, lengths[:1] * 3, lengths)

    def test_waits_hear_ctrl_c_and_go_on(self) -> None:
        task = self.scheduler.submit(self.hang)
        for wait in (task.result, self.scheduler.wait_all, self.scheduler.close):
            threading.Thread(target=interrupt_wait, daemon=True).start()
            self.assertRaises(KeyboardInterrupt, wait)
        self.go.set()
        self.scheduler.close()

    def test_ctrl_c_after_the_library_has_accepted_tasks_cancels_them(self) -> None:
        # Some tasks are cancelled while they are queued, the others while they run.
        def interrupted(*_: object) -> None:
            time.sleep(delay_s)
            raise KeyboardInterrupt

        for delay_s in (0.0, 0.2):
            with self.subTest(delay_s=delay_s), mock.patch.object(_scheduler, "check", side_effect=interrupted):
                self.assertRaises(KeyboardInterrupt, self.scheduler.submit_many, [until_cancelled] * 3, ordered=True)
                self.assertRaises(KeyboardInterrupt, self.scheduler.submit_range, 0, 2, until_cancelled, ordered=True)
        after = self.scheduler.submit(nothing, ordered=True)
        found = [self.scheduler.wait_next(20) for _ in range(9)]
        self.assertEqual([task.state for task in found], ["cancelled"] * 8 + ["done"])
        self.assertIs(found[-1], after)
        self.assertEqual(concurrent.futures.wait(found, 20).not_done, set())
        self.scheduler.close()
        self.assertEqual((self.scheduler._ordered, self.scheduler._completer._tasks, _jobs.jobs), ({}, {}, {}))

    def test_refused_tasks_are_not_in_order(self) -> None:
        with self.assertRaises(gpusched.GpuschedError):
            self.scheduler.submit(nothing, ordered=True, device_bytes=2**60)
        self.assertEqual(self.scheduler._ordered, {})

    def test_close_goes_on_after_ctrl_c_at_its_end(self) -> None:
        end, task = _library.lib.sched_shutdown, self.scheduler.submit(self.hang)

        def interrupted(*args: object) -> None:
            self.go.set()
            while _jobs.jobs:  # The callable returns, but its task must not end unseen.
                time.sleep(0.001)
            end(*args)
            raise KeyboardInterrupt

        with self.scheduler._completer.submitting, mock.patch.object(_library.lib, "sched_shutdown", interrupted):
            self.assertRaises(KeyboardInterrupt, self.scheduler.close)
            self.assertRaises(KeyboardInterrupt, self.scheduler.close)
        self.scheduler.close()
        self.assertEqual((repr(self.scheduler), task.state), ("<gpusched.Scheduler, closed>", "done"))


class Shots(unittest.TestCase):
    def test_gather_has_axes(self) -> None:
        gather = shoot(snapshot_every=4, plane_every=(2, 3), record_every=5)
        self.assertEqual((gather.record.shape, gather.record.dtype), ((3, 5, 3), np.float32))
        assert gather.snapshots is not None
        self.assertEqual(gather.snapshots.shape, (3, 8, 9, 10))
        self.assertGreater(float(np.abs(gather.record).max()), 0.0)
        np.testing.assert_array_equal(gather.record, shoot().record[::3, ::2, ::5])
        np.testing.assert_allclose(gather.time, [1e-3, 6e-3, 11e-3])
        np.testing.assert_allclose(gather.snapshot_time, [1e-3, 5e-3, 9e-3])
        self.assertEqual((list(gather.x), list(gather.y), gather.z), ([0, 20, 40, 60, 80], [0, 30, 60], 10.0))
        self.assertEqual(repr(gather), "<gpusched.Gather: record (3, 5, 3), time 0.001 to 0.011 s, snapshots (3, 8, 9, 10)>")

    def test_list_of_receivers_equals_the_plane_at_those_cells(self) -> None:
        plane, some = shoot().record, shoot(receivers=[(5, 3, 1), (0, 7, 1)])
        np.testing.assert_array_equal(some.record, plane[[3, 7], [5, 0]])
        self.assertEqual((list(some.x), list(some.y), list(some.z)), ([50, 0], [30, 70], [10, 10]))

    def test_results_go_to_arrays_of_the_caller(self) -> None:
        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            shot = small_shot(snapshot_every=6)
            size = model.shot_size(shot)
            record = np.full(size.record_shape, np.nan, np.float32)
            snapshots = np.full(size.snapshots_shape, np.nan, np.float32)
            gather = scheduler.submit_shot(model, shot, record, snapshots).result()
            self.assertIs(gather.record, record)
            self.assertIs(gather.snapshots, snapshots)
            self.assertTrue(np.isfinite(record).all() and np.isfinite(snapshots).all())
            fixed = record.copy()
            fixed.flags.writeable = False
            for bad in (record[:-1], record.astype(float), np.zeros((12, 9, 8), np.float32).T, fixed, [0.0]):
                with self.assertRaisesRegex((TypeError, ValueError), "^record (is|has).*; accepted: "):
                    scheduler.submit_shot(model, shot, bad)
            self.assertRaisesRegex(ValueError, "snapshots", scheduler.submit_shot, model, small_shot(), None, snapshots)

    def test_array_is_lent_to_one_shot_at_a_time(self) -> None:
        go = threading.Event()
        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            self.addCleanup(go.set)
            before = scheduler.submit(lambda exec: go.wait(20))
            shot = small_shot(receivers=[(1, 2, 3)], snapshot_every=6)
            memory, field = np.zeros((5, 12), np.float32), np.zeros((2, 8, 9, 10), np.float32)
            one = scheduler.submit_shot(model, shot, memory[2:3], field, after=[before])
            shot = dataclasses.replace(shot, nt=36)  # Three rows as one: over the row that is lent.
            for rows in (memory[2:5], memory[1:4], memory[:3]):
                with self.assertRaisesRegex(ValueError, "^record shares memory .*; accepted: "):
                    scheduler.submit_shot(model, shot, rows.reshape(1, 36))
            shot = dataclasses.replace(shot, nt=12)
            with self.assertRaisesRegex(ValueError, "^snapshots shares memory .*; accepted: "):
                scheduler.submit_shot(model, shot, memory[1:2], field)
            # Arrays of refused shots are not lent.
            others = [scheduler.submit_shot(model, shot, memory[row : row + 1]) for row in (0, 1, 3, 4)]
            self.assertRaises(TypeError, scheduler.submit_shot, model, shot, np.zeros((1, 12), np.float32), label=5)
            go.set()
            for task in (one, *others):
                task.result()
            np.testing.assert_array_equal(memory, np.repeat(memory[:1], 5, axis=0))
            scheduler.submit_shot(model, shot, memory[2:3], field).result()
        self.assertEqual((_jobs.jobs, _loans.current()), ({}, []))

    def test_array_stays_lent_when_a_handle_of_the_shared_scheduler_is_closed(self) -> None:
        go, record = threading.Event(), np.zeros((8, 9, 12), np.float32)
        self.addCleanup(go.set)
        with small_model() as model, gpusched.Scheduler.shared() as other:
            with gpusched.Scheduler.shared() as scheduler:
                before = scheduler.submit(lambda exec: go.wait(20))
                scheduler.submit_shot(model, small_shot(), record, after=[before])
            with self.assertRaisesRegex(ValueError, "^record shares memory"):
                other.submit_shot(model, small_shot(), record)
            go.set()
            other.wait_all()
            other.submit_shot(model, small_shot(), record).result()
        self.assertEqual((_jobs.jobs, _loans.current()), ({}, []))

    def test_array_that_a_parent_lent_is_free_in_a_forked_child(self) -> None:
        told = program("""
import gpusched, numpy, os
from gpusched import _loans
array = numpy.zeros(5, numpy.float32)
_loans.lend(1, {"record": array}, [], lambda job: True)
child = os.fork()
if child == 0:
    _loans.lend(2, {"record": array}, [], lambda job: True)
    os._exit(0)
print(os.waitpid(child, 0)[1], len(_loans.current()))
""")
        self.assertEqual(told, "0 1\n")

    def test_scheduler_that_is_collected_during_a_loan_ends(self) -> None:
        scheduler = gpusched.Scheduler(devices="cpu")
        task = scheduler.submit(until_cancelled)
        while not task.running():
            time.sleep(0.001)
        with _loans._lock:
            # As garbage collection in `lend` does.
            scheduler.shutdown(10)

    def test_submission_without_a_thread_lends_nothing(self) -> None:
        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            calls = (
                lambda: scheduler.submit_shot(model, small_shot()),
                lambda: scheduler.submit(nothing),
                lambda: scheduler.submit_range(0, 3, nothing),
            )
            for call in calls:
                with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("no thread")):
                    self.assertRaisesRegex(RuntimeError, "no thread", call)
                self.assertEqual((_jobs.jobs, _loans.current()), ({}, []))

    def test_submission_that_ctrl_c_interrupts_lends_nothing(self) -> None:
        lend = _loans.lend

        def lend_and_stop(*arguments: Any) -> None:
            lend(*arguments)
            raise KeyboardInterrupt

        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            calls = (
                lambda: scheduler.submit_shot(model, small_shot()),
                lambda: scheduler.submit_many([nothing] * 3),
                lambda: scheduler.submit_range(0, 3, nothing),
            )
            places = (
                (_loans, "lend", lend_and_stop),
                (gpusched.Scheduler, "_submission", KeyboardInterrupt),
                (gpusched.Scheduler, "_register", KeyboardInterrupt),
                (_scheduler, "check", KeyboardInterrupt),
            )
            for call in calls:
                for where, name, effect in places:
                    with self.subTest(name), mock.patch.object(where, name, side_effect=effect):
                        self.assertRaises(KeyboardInterrupt, call)
                        scheduler.wait_all()
                        self.assertEqual((_jobs.jobs, _loans.current()), ({}, []))

    def test_model_that_is_closed_meanwhile_leaves_nothing_lent(self) -> None:
        def close() -> Iterator[gpusched.Task[None]]:
            model.close()
            yield scheduler.submit(nothing)

        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            with self.assertRaisesRegex(gpusched.GpuschedError, "model .* is unknown here"):
                scheduler.submit_shot(model, small_shot(), after=close())
            scheduler.wait_all()
            self.assertEqual((_jobs.jobs, _loans.current()), ({}, []))

    def test_shot_with_a_bad_value_has_a_text(self) -> None:
        self.assertIn("receivers=5, ", repr(small_shot(receivers=5, wavelet_samples=(1, 2, 3, 4))))

    def test_shots_are_compared_by_value(self) -> None:
        samples = np.arange(5.0)
        one = small_shot(wavelet_samples=samples, receivers=np.array([[1, 2, 3]]))
        self.assertEqual(one, small_shot(wavelet_samples=samples.copy(), receivers=[(1, 2, 3)]))
        for other in (small_shot(), small_shot(wavelet_samples=samples + 1, receivers=[(1, 2, 3)]), 5):
            self.assertNotEqual(one, other)
        self.assertEqual(
            repr(one),
            "Shot(nt=12, dt_s=0.001, source=[4, 4, 2], frequency_hz=30, wavelet_samples=<5>, receivers=[[1, 2, 3]],"
            " plane_iz=1)",
        )
        with small_model() as model:
            self.assertEqual(repr(model), "<gpusched.Model: nx=9, ny=8, nz=10, spacing_m=(10, 10, 10)>")

    def test_custom_source_function_equals_its_wavelet(self) -> None:
        samples = gpusched.wavelet("ricker", 30, 1e-3, 12)
        np.testing.assert_array_equal(shoot().record, shoot(wavelet_samples=samples).record)

    def test_wavelets_begin_and_end_near_zero_unless_they_are_cut(self) -> None:
        for name in gpusched.WAVELETS:
            samples = np.trim_zeros(gpusched.wavelet(name, 30, 1e-3, 100), "b")
            ends = np.abs(samples[[0, -1]]) / np.abs(samples).max()
            # The cut derivative of a Gaussian has half the width of the others.
            near_zero = not name.startswith("cut-") or name == "cut-gaussian-derivative"
            self.assertEqual(bool((ends < 1e-5).all()), near_zero, f"{name}: {ends}")

    def test_mute_lasts_as_long_as_the_wavelet(self) -> None:
        # 60 steps and the travel time, beside the wavelet.
        muted = {}
        for name in ("cut-ricker", "ricker"):
            record = shoot(nt=250, wavelet=name, receivers=[(1, 2, 3)], mute_direct=True).record
            muted[name] = int(np.flatnonzero(record)[0])
        self.assertEqual(muted["ricker"] - muted["cut-ricker"], 83 - 66)

    def test_options_change_the_record(self) -> None:
        plain = shoot().record
        kinds = [{"source_kind": kind} for kind in ("monopole", "force-x", "force-y", "force-z")]
        for option in ({"exact_time": True}, {"stencil": "optimised"}, *kinds):
            self.assertGreater(float(np.abs(shoot(**option).record - plain).max()), 0.0)
        for bad in ({"stencil": "best"}, {"wavelet": "square"}, {"stencil": True}, {"source_kind": "dipole"}):
            words = "^(stencil|wavelet|source_kind) is .*; accepted: (taylor|ricker|pressure), "
            self.assertRaisesRegex(ValueError, words, shoot, **bad)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the mute zeroes all samples")
            self.assertFalse(shoot(mute_direct=True, exact_time=True).record.any())
        with small_model() as model:
            shot = small_shot(dt_s=model.dt_max, stencil="optimised")
            self.assertRaisesRegex(gpusched.GpuschedError, "SCHED_E_UNSTABLE", model.shot_size, shot)
            model.shot_size(small_shot(dt_s=0.9634 * model.dt_max, stencil="optimised"))
        for equation in ("acoustic1", "acoustic2", "vti", "tti"):
            anisotropy = {"epsilon": 0.2, "delta": 0.1} if equation in ("vti", "tti") else {}
            vp = np.full((8, 9, 18), 2000.0, np.float32)
            with gpusched.Model(vp, 10.0, equation=equation, **anisotropy) as model:
                model.shot_size(small_shot(dt_s=0.9616 * model.dt_max, stencil="optimised"))

    def test_each_property_has_its_effect(self) -> None:
        # The lowest cells are 15 cells from the source: smaller models of "vti" and "tti" are refused.
        vp = np.full((8, 9, 18), 2000.0)
        varied = np.full(vp.shape, 0.1, np.float32)
        varied[:, :, 4:] = 0.05
        vti = {"epsilon": 0.2, "delta": varied}
        tilted = {**vti, "equation": "tti", "theta_rad": varied}
        before = shoot().record
        second = {"equation": "acoustic2"}
        pml = {**second, "absorbing_layer": "pml"}
        for properties in (second, pml, {"equation": "vti", **vti}, tilted, {**tilted, "phi_rad": 0.2}):
            with gpusched.Model(vp, SPACING, **properties) as model, gpusched.Scheduler(devices="cpu") as scheduler:
                shots = (small_shot(anisotropic_source=kept) for kept in (False, True))
                record, kept = (scheduler.submit_shot(model, shot).result().record for shot in shots)
            self.assertGreater(float(np.abs(record - before).max()), 0.0, properties.keys())
            self.assertEqual(np.array_equal(kept, record), properties["equation"] == "acoustic2")
            before = record

    def test_density_at_cells_changes_the_record(self) -> None:
        rho = np.tile(np.repeat((1000.0, 2000.0), 5), (8, 9, 1))
        records = []
        for density_at in ("half-points", "cells"):
            with small_model(rho=rho, density_at=density_at) as model, gpusched.Scheduler(devices="cpu") as scheduler:
                records.append(scheduler.submit_shot(model, small_shot()).result().record)
        self.assertGreater(float(np.abs(records[1] - records[0]).max()), 0.0)
        self.assertRaisesRegex(ValueError, "^density_at is 'cell'; accepted: half-points, cells", small_model, density_at="cell")

    def test_16_bit_storage_is_smaller(self) -> None:
        with small_model(storage="float32") as plain, small_model(storage="16-bit") as half:
            sizes = [model.shot_size(small_shot()).device_bytes for model in (half, plain)]
        self.assertLess(*sizes)

    def test_density_that_jumps_causes_one_warning(self) -> None:
        rho = np.tile(np.repeat((800.0, 2400.0), 8), (8, 9, 1))
        self.addCleanup(gpusched.log_to, None)
        gpusched.log_to(logging.getLogger("gpusched.density"), logging.WARNING)
        with gpusched.Model(np.full((8, 9, 16), 2000.0), SPACING, rho) as model, gpusched.Scheduler(devices="cpu") as scheduler:
            for part, expected in ((0.95, 0), (0.96, 1)):
                # Short waves have few cells, but the wavelet is over in time: no other warning.
                shot = small_shot(nt=70, dt_s=part * model.dt_max, frequency_hz=20, receivers=[(1, 2, 3)])
                logs = self.assertLogs("gpusched.density") if expected else contextlib.nullcontext()
                with logs as logged, warnings.catch_warnings(record=True) as issued:
                    warnings.simplefilter("always")
                    scheduler.submit_shot(model, shot).result()
                self.assertEqual([str(warning.message).count("jump from cell to cell") for warning in issued], [1] * expected)
                if expected:
                    self.assertEqual(len(logged.output), 1)

    def test_pml_where_the_axis_is_nearly_horizontal_causes_a_warning(self) -> None:
        for theta, layer, expected in ((1.2, "pml", 1), (0.7, "pml", 0), (1.2, "default", 0)):
            with small_model(equation="tti", theta_rad=theta, absorbing_layer=layer) as model:
                warned = "\n".join(model.shot_warnings(small_shot()))
            self.assertEqual(warned.count(f"up to {theta:.2f} rad from the vertical"), expected, (theta, layer))

    def test_buffers_outlive_a_forgotten_task(self) -> None:
        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            for _ in range(20):
                scheduler.submit_shot(model, small_shot())
            gc.collect()
            scheduler.wait_all()
        self.assertEqual(_jobs.jobs, {})

    def test_bad_shots_are_refused(self) -> None:
        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            words, outside = "99.*SCHED_E_ARGUMENT", small_shot(source=(4, 4, 99))
            self.assertRaisesRegex(gpusched.GpuschedError, words, scheduler.submit_shot, model, outside)
            with self.assertRaisesRegex(TypeError, "^model and shot are Shot and Model; accepted: Model and Shot"):
                scheduler.submit_shot(small_shot(), model)
            within = r"the grid is 9 x 8 x 10 cells, all nearer than 15 cells to the source \(4, 4, 2\), so none keeps its"
            with small_model(equation="vti", epsilon=0.2, delta=0.1) as vti:
                self.assertRaisesRegex(gpusched.GpuschedError, within, scheduler.submit_shot, vti, small_shot())
                self.assertRaisesRegex(gpusched.GpuschedError, within, vti.shot_size, small_shot())
                scheduler.submit_shot(vti, small_shot(anisotropic_source=True)).result()
        for steps in (-1, 2**64 + 5):
            words = f"^nt is {steps}; accepted: an integer, 1 to 10000000 steps$"
            self.assertRaisesRegex(ValueError, words, shoot, nt=steps)
        for name, accepted in (
            ("plane_iz", "an integer, 0 to the number of the last cell"),
            ("record_every", "an integer, 1 to 10000000 steps"),
            ("snapshot_every", "an integer, 1 to 10000000 steps, or 0: no snapshots"),
        ):
            for value in (-1, 2**64 + 5):
                words = f"^{name} is {value}; accepted: {accepted}$"
                self.assertRaisesRegex(ValueError, words, shoot, **{name: value})
        self.assertRaisesRegex(ValueError, "^record_every is 0; accepted: an integer, 1 to 10000000 steps$", shoot, record_every=0)
        last = "; accepted: an integer, 0 to the number of the last cell$"
        for words, change in (
            ("iy of source is -1", {"source": (4, -1, 2)}),
            (f"iz of source is {2**64}", {"source": (4, 1, 2**64)}),
            (r"iz of receivers\[1\] is -1", {"receivers": [(0, 0, 0), (0, 0, -1)]}),
        ):
            self.assertRaisesRegex(ValueError, f"^{words}{last}", shoot, **change)
        for every in ((0, 1), (1, -1), (1, 2**32), (100001, 1), (2.5, 1), "ab", 2, (2, 2, 2)):
            words = f"^plane_every is {re.escape(repr(every))}; accepted: 2 integers, 1 to 100000 cells, along x and along y$"
            self.assertRaisesRegex((TypeError, ValueError), words, shoot, plane_every=every)
        for change in ({"nt": 2.5}, {"dt_s": "auto"}, {"record_every": None}, {"wavelet_samples": "ricker"}):
            name, value = next(iter(change.items()))
            self.assertRaisesRegex((TypeError, ValueError), f"^{name} is {value!r}; accepted: an? ", shoot, **change)
        whole = "; accepted: 3 integers, ix, iy and iz, the numbers of a cell from 0$"
        for words, change in ((r"receivers\[0\] is 1", {"receivers": (1, 2, 3)}), (r"source is \(1, 2\)", {"source": (1, 2)})):
            self.assertRaisesRegex(ValueError, f"^{words}{whole}", shoot, **change)
        self.assertRaisesRegex(ValueError, "^receivers is 5; accepted: a sequence", shoot, receivers=5)

    def test_positions_are_whole_cells(self) -> None:
        whole = shoot(source=(5, 5, 2), receivers=[(1, 2, 3)]).record
        same = shoot(source=np.array([5, 5, 2]), receivers=np.array([[1, 2, 3]])).record
        np.testing.assert_array_equal(same, whole)
        for bad in ((0.3 / 0.1, 5, 2), (5, 5.9, 2), (5, 5, np.float32(2)), (5, 5, "2"), (5, 5)):
            for change in ({"source": bad}, {"receivers": [bad]}):
                self.assertRaisesRegex((TypeError, ValueError), "; accepted: ", shoot, **change)

    def test_many_receivers_cost_little_to_submit(self) -> None:
        cells = np.zeros((1000, 3), np.int32)
        cells[:, 1] = np.arange(1000) % 8
        descriptions = mock.patch.object(gpusched.Shot, "_describe", autospec=True, side_effect=gpusched.Shot._describe)
        expected = shoot(receivers=[(np.uint8(0), int(iy), 0) for _, iy, _ in cells]).record
        for receivers in (cells, cells.astype(np.uint64), np.asfortranarray(cells), cells.tolist()):
            with descriptions as described, mock.patch.object(_fd, "cell", side_effect=_fd.cell) as converted:
                record = shoot(receivers=receivers).record
            np.testing.assert_array_equal(record, expected)
            self.assertEqual((described.call_count, converted.call_count), (1, 1), "the source alone is converted by itself")

    def test_models_are_checked(self) -> None:
        for single in (2000.0, None):
            self.assertRaisesRegex(ValueError, "^vp has 0 dimensions", gpusched.Model, single, SPACING)
        self.assertRaisesRegex(ValueError, "^vp has 2 dimensions", gpusched.Model, np.ones((3, 3)), SPACING)
        for wrong in (np.full((8, 9, 10), 2000j), np.full((8, 9, 10), "2000")):
            self.assertRaisesRegex(ValueError, "^vp is .*; accepted: an array of numbers", gpusched.Model, wrong, SPACING)
        vp = np.full((8, 9, 10), 2000.0)
        self.assertRaisesRegex(ValueError, "^storage is 16; accepted: float32, 16-bit", gpusched.Model, vp, SPACING, storage=16)
        self.assertRaises(gpusched.GpuschedError, gpusched.Model, np.full((8, 8, 8), np.nan), spacing_m=SPACING)
        with gpusched.Model(np.full((8, 9, 10), 2000.0), spacing_m=[10.0, 5.0, 10.0]) as model:
            self.assertLess(model.dt_max, 2e-3)
        for spacing in ([10.0, 5.0], "ten", None):
            with self.assertRaisesRegex(ValueError, "^spacing_m is .*; accepted: one number of metres, or three"):
                gpusched.Model(np.full((8, 9, 10), 2000.0), spacing_m=spacing)
        with self.assertRaisesRegex(gpusched.GpuschedError, "2 looks like km/s.*or any with any_values=True"):
            gpusched.Model(np.full((8, 9, 10), 2.0), SPACING)
        self.assertRaisesRegex(ValueError, "^vp is 'vp.npy'; accepted: an array", gpusched.Model, "vp.npy", SPACING)
        gpusched.Model(vp, SPACING, rho=1800.0).close()
        for change, part in (
            ({"equation": "elastic"}, "equation is 'elastic'; accepted: acoustic1, "),
            ({"equation": "vti", "epsilon": 0.1}, "^delta is missing; accepted: a constant or a value for each cell, which vti needs"),
            ({"epsilon": 0.1}, "^epsilon is no property of acoustic1; accepted: vp, rho"),
            ({"equation": "vti", "epsilon": 0.1, "delta": 0.2}, "epsilon is 0.1; accepted: delta, which is 0.2"),
            ({"equation": "vti", "epsilon": 20.0, "delta": -1.0}, "delta is -1; accepted: "),
            ({"delta": vp[1:]}, "delta has the shape .* accepted: that of vp"),
            ({"theta_rad": 45.0}, "theta_rad is 45; accepted: -2 pi to 2 pi radians"),
            ({"phi_rad": vp}, r"phi_rad of cell \(0, 0, 0\) is 2000; accepted: .*looks like degrees"),
        ):
            self.assertRaisesRegex((ValueError, gpusched.GpuschedError), part, gpusched.Model, vp, SPACING, **change)
        with small_model() as model:
            self.assertGreater(model.dt_max, 0.0)
            self.assertEqual(model.dt_max, np.float32(model.dt_max), "not usable as dt_s")
            self.assertRaisesRegex(ValueError, "wavelet_samples has 2 dimensions", shoot, wavelet_samples=np.ones((3, 3)))
        self.assertRaisesRegex(ValueError, "closed", lambda: model.shot_size(small_shot()))


class Library(unittest.TestCase):
    def test_missing_library_is_named(self) -> None:
        environment = {**os.environ, "GPUSCHED_LIBRARY": "/nowhere/libgpusched.so"}
        told = subprocess.run([sys.executable, "-c", "import gpusched"], env=environment, stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(told.returncode, 0)
        self.assertRegex(told.stderr, "(?s)GPUSCHED_LIBRARY.*/nowhere/libgpusched.so")

    def test_python_ends_while_tasks_are_queued(self) -> None:
        code = "tasks = [s.submit(lambda exec: time.sleep(0.01)) for _ in range(50)]"
        self.assertEqual(program(f"import gpusched, time; s = gpusched.Scheduler(devices='cpu'); {code}"), "")

    def test_nothing_is_submitted_once_python_has_closed_the_schedulers(self) -> None:
        code = """
import atexit, os, sys, time
def submit():
    scheduler = gpusched.Scheduler("cpu")
    for call in (lambda: scheduler.submit(lambda exec: time.sleep(1)), lambda: scheduler.on_progress(print)):
        try:
            call()
        except RuntimeError as error:
            os.write(1, str(error).encode() + b"; ")
class Late:
    def __del__(self):
        submit()
late = Late()
atexit.register(submit)
import gpusched
"""
        words = "the program ends: its schedulers are closed; "
        self.assertEqual(program(code), words * 4)

    def test_log_goes_to_a_logger(self) -> None:
        with self.assertLogs("gpusched.test", logging.DEBUG) as logged:
            gpusched.log_to(logging.getLogger("gpusched.test"), logging.DEBUG)
            with gpusched.Scheduler(devices="cpu") as scheduler:
                self.assertRaises(ValueError, scheduler.submit(lambda exec: int("x"), label="bad").result)
            gpusched.log_to(None)
        self.assertTrue(any("task 'bad' failed" in line and "ValueError: invalid" in line for line in logged.output), logged.output)

    def test_logger_stays_after_ctrl_c(self) -> None:
        code = """
import gc, logging
import gpusched
from gpusched import _log
def interrupted(status):
    check(status)
    raise KeyboardInterrupt
class Lines(logging.Handler):
    def emit(self, record):
        print("task 'bad' failed" in record.getMessage())
logger = logging.getLogger("gpusched.test")
logger.addHandler(Lines())
check, _log.check = _log.check, interrupted
try:
    gpusched.log_to(logger, logging.WARNING)
except KeyboardInterrupt:
    _log.check = check
gc.collect()
with gpusched.Scheduler(devices="cpu") as scheduler:
    print(type(scheduler.submit(lambda exec: int("x"), label="bad").exception()).__name__)
"""
        self.assertEqual(sorted(program(code).split()), ["True", "ValueError"])

    def test_devices_are_described(self) -> None:
        (cpu,) = gpusched.devices("cpu")
        self.assertEqual((cpu.index, cpu.backend, cpu.ordinal, cpu.health, cpu.done), (0, "cpu", 0, "good", 0))
        self.assertGreater(cpu.total_bytes, cpu.free_bytes)
        self.assertIsNone(cpu.compute_capability)
        with gpusched.Scheduler(devices="cpu", slots=2) as scheduler:
            tasks = [scheduler.submit(lambda exec: exec.device, label="planned") for _ in range(3)]
            self.assertEqual([task.result() for task in tasks], [0] * 3)
            cpu = scheduler.devices[0]
            self.assertEqual((cpu.slots, cpu.done, cpu.leased_bytes), (2, 3, 0))
            self.assertTrue(0 < cpu.busy_s < 20 and 0 < scheduler.stats.makespan_s < 20)
            info = tasks[0].info
            self.assertEqual((info.device, info.attempts, 0 <= info.queued_s + info.running_s < 20), (0, 1, True))
            self.assertEqual(repr(scheduler), "<gpusched.Scheduler on cpu:0: 0 queued, 0 running, 3 done>")
            self.assertEqual(repr(tasks[0]), f"<gpusched.Task {tasks[0].id}: done>")
        self.assertEqual(repr(scheduler), "<gpusched.Scheduler, closed>")
        with gpusched.Scheduler(devices="cpu", slots="auto") as scheduler:
            self.assertEqual(scheduler.submit(lambda exec: 1).result(), 1)

    def test_copies_of_the_library_have_different_handles(self) -> None:
        with tempfile.TemporaryDirectory() as folder, gpusched.Scheduler(devices="cpu") as scheduler:
            other = abi.Functions(ctypes.CDLL(shutil.copy(os.environ["GPUSCHED_LIBRARY"], folder)))
            config = abi.sched_config_t(size=ctypes.sizeof(abi.sched_config_t), devices=b"cpu")
            handles = set()
            for _ in range(300):
                made = ctypes.c_void_p()
                self.assertEqual(other.sched_create(ctypes.byref(config), ctypes.byref(made)), abi.SCHED_OK)
                handles.add(made.value)
                other.sched_destroy(made)
            self.assertNotIn(scheduler._raw, handles)

    def test_library_of_another_abi_is_refused(self) -> None:
        self.assertRegex(gpusched.__version__, r"^\d+\.\d+\.\d+")
        with mock.patch.object(abi, "SCHED_ABI_VERSION", 99):
            self.assertRaisesRegex(ImportError, "needs 99", _library._load)


if __name__ == "__main__":
    unittest.main()

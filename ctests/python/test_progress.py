"""Progress callbacks while tasks run."""

import gc
import sys
import threading
import unittest
import weakref
from collections.abc import Callable
from typing import Any
from unittest import mock

import gpusched
from gpusched import _library, _progress, _tasks

LONG = 20.0


class Told:
    """Counts calls, so that a test can wait for some."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.seen: list[Any] = []

    def __call__(self, progress: gpusched.Progress) -> None:
        with self.changed:
            self.seen.append(progress)
            self.changed.notify_all()

    def came(self, count: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: len(self.seen) >= count, LONG)


class Progress(unittest.TestCase):
    def setUp(self) -> None:
        self.scheduler = gpusched.Scheduler(devices="cpu", slots=1)
        self.addCleanup(self.scheduler.close)

    def unraisable(self) -> list[Any]:
        """Collects the exceptions of callbacks from now on."""
        raised: list[Any] = []
        before, sys.unraisablehook = sys.unraisablehook, lambda what: raised.append(what.exc_value)
        self.addCleanup(setattr, sys, "unraisablehook", before)
        return raised

    def test_callback_is_called_until_it_is_unset(self) -> None:
        go, told = threading.Event(), Told()
        tasks = [self.scheduler.submit(lambda exec: go.wait(LONG), work=2.0) for _ in range(2)]
        self.scheduler.on_progress(told, 0.001)
        self.assertTrue(told.came(3))
        last = told.seen[-1]
        self.assertEqual((last.done, last.running + last.queued, last.work_total, last.eta_s), (0, 2, 4.0, None))
        go.set()
        for task in tasks:
            task.result()
        self.assertTrue(told.came(len(told.seen) + 2))
        self.assertEqual((told.seen[-1].done, told.seen[-1].work_done), (2, 4.0))
        # The object that the callback received does not change.
        self.assertEqual(last.done, 0)
        self.scheduler.on_progress(None)
        count = len(told.seen)
        threading.Event().wait(0.02)
        self.assertEqual(len(told.seen), count)
        self.assertEqual(_progress.listeners, {})

    def test_callback_is_replaced_and_ends_with_the_scheduler(self) -> None:
        first, second = Told(), Told()
        gone = weakref.ref(first)
        self.scheduler.on_progress(first, 0.001)
        self.assertTrue(first.came(1))
        self.scheduler.on_progress(second, 0.001)
        del first
        gc.collect()
        self.assertIsNone(gone())
        self.assertTrue(second.came(1))
        self.scheduler.close()
        self.assertEqual(_progress.listeners, {})

    def test_exception_does_not_end_the_calls(self) -> None:
        told, raised = Told(), self.unraisable()
        problem = KeyError("inside")

        def listen(progress: gpusched.Progress) -> None:
            told(progress)
            raise problem

        self.scheduler.on_progress(listen, 0.001)
        self.assertTrue(told.came(3))
        self.scheduler.on_progress(None)
        self.assertGreaterEqual(len(raised), 3)
        self.assertTrue(all(error is problem for error in raised))

    def test_bad_interval_is_refused(self) -> None:
        for interval in (0, -1, 0.0005, float("nan"), float("inf")):
            self.assertRaisesRegex(ValueError, "interval_s is .*accepted: 0.001", self.scheduler.on_progress, print, interval)
        self.assertEqual(_progress.listeners, {})

    def closes_beside_a_callback(self, scheduler: gpusched.Scheduler, use: Callable[[], Any]) -> None:
        """Closes a scheduler whose progress callback calls `use` once its outcomes are collected."""
        inside, collected = threading.Event(), threading.Event()

        def listen(progress: gpusched.Progress) -> None:
            inside.set()
            # A close that waits for the callback collects the outcomes later.
            collected.wait(1)
            use()

        def collect(completer: _tasks.Completer) -> None:
            found(completer)
            collected.set()

        found = _tasks.Completer.collect
        with mock.patch.object(_tasks.Completer, "collect", collect):
            scheduler.on_progress(listen, 0.001)
            self.assertTrue(inside.wait(LONG))
            closer = threading.Thread(target=scheduler.close, daemon=True)
            closer.start()
            closer.join(LONG)
        self.assertFalse(closer.is_alive())

    def test_share_closes_while_its_callback_cancels_a_task(self) -> None:
        go, begun = threading.Event(), threading.Event()
        share, other = gpusched.Scheduler.shared(), gpusched.Scheduler.shared()
        self.addCleanup(other.close)
        self.addCleanup(go.set)
        for _ in range(share.devices[0].slots):
            share.submit(lambda exec: (begun.set(), go.wait(LONG)))
        queued = share.submit(lambda exec: 1, priority=-1)
        self.assertTrue(begun.wait(LONG))
        self.closes_beside_a_callback(share, queued.cancel)
        self.assertTrue(queued.cancelled())

    def test_scheduler_closes_while_its_callback_submits_a_task(self) -> None:
        raised = self.unraisable()
        self.closes_beside_a_callback(self.scheduler, lambda: self.scheduler.submit(lambda exec: 1))
        self.assertLessEqual({type(error) for error in raised}, {gpusched.GpuschedError, ValueError})

    def test_scheduler_closes_while_its_callback_waits_for_a_task_that_only_the_close_ends(self) -> None:
        raised = self.unraisable()

        def run(exec: gpusched.Exec) -> None:
            while not exec.cancelled:
                threading.Event().wait(0.01)

        self.scheduler.submit(run)
        queued = self.scheduler.submit(lambda exec: 1)
        self.closes_beside_a_callback(self.scheduler, lambda: queued.result(2 * LONG))
        # The callback may be called once more before the close has its lock.
        self.assertEqual({type(error) for error in raised}, {gpusched.Cancelled})

    def test_ctrl_c_while_a_callback_is_set_leaves_none(self) -> None:
        raised, told = self.unraisable(), Told()

        def interrupted(status: int) -> int:
            _library.check(status)
            raise KeyboardInterrupt

        with mock.patch.object(_progress, "check", interrupted):
            self.assertRaises(KeyboardInterrupt, self.scheduler.on_progress, told, 0.001)
        threading.Event().wait(0.05)
        self.assertEqual((told.seen, _progress.listeners, raised), ([], {}, []))

    def test_callback_of_a_share_ends_with_it(self) -> None:
        one, other, told = gpusched.Scheduler.shared(), gpusched.Scheduler.shared(), Told()
        self.addCleanup(other.close)
        raised = self.unraisable()
        one.on_progress(told, 0.001)
        self.assertTrue(told.came(1))
        one.close()
        count = len(told.seen)
        threading.Event().wait(0.02)
        self.assertEqual((len(told.seen), _progress.listeners, raised), (count, {}, []))
        third, replacing = gpusched.Scheduler.shared(), Told()
        third.on_progress(told, 0.001)
        other.on_progress(replacing, 0.001)
        third.close()
        self.assertTrue(replacing.came(len(replacing.seen) + 3), "the callback of another handle")
        task = other.submit(lambda exec: 1, ordered=True)
        self.assertIs(other.wait_next(LONG), task)


if __name__ == "__main__":
    unittest.main()

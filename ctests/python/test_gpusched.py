"""The Python package over the real library."""

import gc
import logging
import os
import subprocess
import sys
import threading
import time
import unittest
import weakref

import gpusched
import numpy as np
from gpusched import _scheduler, abi

SPACING = 10.0


def small_model() -> gpusched.Model:
    return gpusched.Model(np.full((8, 9, 10), 2000.0), spacing=SPACING)


def small_shot(**changes: object) -> gpusched.Shot:
    return gpusched.Shot(**{"nt": 12, "dt": 1e-3, "frequency": 30, "source": (4, 4, 2), "plane_iz": 1, **changes})


class Callables(unittest.TestCase):
    def setUp(self) -> None:
        self.scheduler = gpusched.Scheduler(devices="cpu", slots=2)
        self.addCleanup(self.scheduler.close)

    def test_what_is_returned_comes_out_of_wait(self) -> None:
        tasks = [self.scheduler.submit(lambda exec, i=i: i * i) for i in range(50)]
        self.assertEqual([task.wait() for task in tasks], [i * i for i in range(50)])
        self.assertEqual(tasks[0].state, "done")

    def test_an_exception_comes_back_as_itself(self) -> None:
        raised = KeyError("velocity")

        def fail(exec: gpusched.Exec) -> None:
            raise raised

        task = self.scheduler.submit(fail)
        with self.assertRaises(KeyError) as caught:
            task.wait()
        self.assertIs(caught.exception, raised)
        self.assertEqual(task.state, "failed")
        self.assertIn("-1", task.error)

    def test_tasks_come_after_others(self) -> None:
        first = self.scheduler.submit(lambda exec: 1, task_class=3, deadline=60.0)
        second = self.scheduler.submit(lambda exec: first.state, after=[first])
        self.assertEqual(second.wait(), "done")
        bad = self.scheduler.submit(lambda exec: 1 / 0)
        with self.assertRaisesRegex(gpusched.GpuschedError, "did not end well"):
            self.scheduler.submit(lambda exec: 1, after=[first, bad]).wait()
        with self.assertRaisesRegex(TypeError, "unknown option 'before'.*after"):
            self.scheduler.submit(lambda exec: 1, before=[first])

    def test_outcomes_come_in_the_order_of_submission(self) -> None:
        calls = [lambda exec, i=i: (time.sleep(0.001 * (3 - i)), i)[1] for i in range(4)]
        tasks = self.scheduler.submit_many(calls, ordered=True)
        self.assertEqual([self.scheduler.wait_next() for _ in tasks], tasks)
        self.assertEqual([task.wait() for task in tasks], [0, 1, 2, 3])
        with self.assertRaisesRegex(gpusched.GpuschedError, "left to hand out"):
            self.scheduler.wait_next()
        with self.assertRaisesRegex(gpusched.GpuschedError, r"descs\[0\]: work is nan|descs\[0\]: work is NaN"):
            self.scheduler.submit_many(calls, work=float("nan"))
        self.assertEqual(self.scheduler.submit_many([]), [])

    def test_one_copy_counts(self) -> None:
        def once(exec: gpusched.Exec) -> int:
            exec.commit()
            return exec.attempt

        self.assertEqual(self.scheduler.submit(once, idempotent=True).wait(), 1)

    def test_the_shared_scheduler_ends_with_its_last_holder(self) -> None:
        one, two = gpusched.Scheduler.shared(), gpusched.Scheduler.shared()
        task = one.submit(lambda exec: 1)
        self.assertEqual(task.wait(), 1)
        one.close()
        self.assertEqual(two.submit(lambda exec: 2).wait(), 2)
        two.close()

    def test_it_runs_on_another_thread(self) -> None:
        self.assertNotEqual(self.scheduler.submit(lambda exec: threading.get_ident()).wait(), threading.get_ident())

    def test_time_runs_out_and_a_running_task_is_cancelled(self) -> None:
        def until_cancelled(exec: gpusched.Exec) -> None:
            while not exec.cancelled:
                time.sleep(0.001)
            raise gpusched.Cancelled()

        task = self.scheduler.submit(until_cancelled)
        with self.assertRaises(TimeoutError):
            task.wait(timeout=0.01)
        task.cancel()
        with self.assertRaises(gpusched.Cancelled):
            task.wait()
        self.assertEqual(task.state, "cancelled")

    def test_retries_count_attempts(self) -> None:
        def second_time(exec: gpusched.Exec) -> int:
            if exec.attempt < 2:
                raise RuntimeError("not yet")
            return exec.attempt

        self.assertEqual(self.scheduler.submit(second_time, retries=3).wait(), 2)

    def test_nothing_is_kept_of_a_task_that_ended(self) -> None:
        class Thing:
            pass

        thing = Thing()
        gone = weakref.ref(thing)
        task = self.scheduler.submit(lambda exec, thing=thing: None)
        task.wait()
        del thing, task
        self.scheduler.wait_all()
        gc.collect()
        self.assertIsNone(gone())

    def test_wait_any_gives_a_position(self) -> None:
        go = threading.Event()
        slow, fast = self.scheduler.submit(lambda exec: go.wait(20)), self.scheduler.submit(lambda exec: None)
        self.assertEqual(self.scheduler.wait_any([slow, fast]), 1)
        go.set()

    def test_an_unknown_option_is_named(self) -> None:
        with self.assertRaisesRegex(TypeError, "prioritee"):
            self.scheduler.submit(lambda exec: None, prioritee=3)


class Shots(unittest.TestCase):
    def test_shapes_and_content(self) -> None:
        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            gather = scheduler.submit_shot(model, small_shot(snapshot_every=4)).wait()
        self.assertEqual(gather.record.shape, (8 * 9, 12))
        self.assertEqual(gather.record.dtype, np.float32)
        assert gather.snapshots is not None
        self.assertEqual(gather.snapshots.shape[1:], (8, 9, 10))
        self.assertGreater(float(np.abs(gather.record).max()), 0.0)

    def test_a_list_of_receivers_is_the_plane_at_those_cells(self) -> None:
        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            plane = scheduler.submit_shot(model, small_shot()).wait().record
            some = scheduler.submit_shot(model, small_shot(receivers=[(5, 3, 1), (0, 7, 1)])).wait().record
        np.testing.assert_array_equal(some, plane[[3 * 9 + 5, 7 * 9 + 0]])

    def test_an_own_source_function_equals_the_wavelet_it_was_taken_from(self) -> None:
        samples = gpusched.wavelet("ricker", 30, 1e-3, 12)
        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            named = scheduler.submit_shot(model, small_shot()).wait().record
            own = scheduler.submit_shot(model, small_shot(samples=samples)).wait().record
        np.testing.assert_array_equal(named, own)

    def test_buffers_outlive_a_forgotten_task(self) -> None:
        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            for _ in range(20):
                scheduler.submit_shot(model, small_shot())
            gc.collect()
            scheduler.wait_all()
        self.assertEqual(_scheduler._jobs, {})

    def test_a_bad_shot_is_refused_in_words(self) -> None:
        with small_model() as model, gpusched.Scheduler(devices="cpu") as scheduler:
            with self.assertRaises(gpusched.GpuschedError) as caught:
                scheduler.submit_shot(model, small_shot(source=(4, 4, 99)))
        self.assertEqual(caught.exception.status, abi.SCHED_E_ARGUMENT)
        self.assertIn("99", caught.exception.message)

    def test_models_are_checked(self) -> None:
        with self.assertRaisesRegex(ValueError, "dimensions"):
            gpusched.Model(np.ones((3, 3)), spacing=1.0)
        with self.assertRaises(gpusched.GpuschedError):
            gpusched.Model(np.full((8, 8, 8), np.nan), spacing=SPACING)
        with small_model() as model:
            self.assertGreater(model.dt_max, 0.0)
            self.assertEqual(model.dt_max, np.float32(model.dt_max), "not usable as dt_s")


class Library(unittest.TestCase):
    def test_a_library_that_is_not_there_is_named(self) -> None:
        told = subprocess.run(
            [sys.executable, "-c", "import gpusched"],
            env={**os.environ, "GPUSCHED_LIBRARY": "/nowhere/libgpusched.so"},
            capture_output=True,
            text=True,
        )
        self.assertNotEqual(told.returncode, 0)
        self.assertIn("GPUSCHED_LIBRARY", told.stderr)
        self.assertIn("/nowhere/libgpusched.so", told.stderr)

    def test_python_ends_while_tasks_are_queued(self) -> None:
        code = (
            "import gpusched, time\n"
            "s = gpusched.Scheduler(devices='cpu')\n"
            "tasks = [s.submit(lambda exec: time.sleep(0.01)) for _ in range(50)]\n"
        )
        self.assertEqual(subprocess.run([sys.executable, "-c", code], timeout=60).returncode, 0)

    def test_the_log_goes_where_it_is_sent(self) -> None:
        logger = logging.getLogger("gpusched.test")
        gpusched.log_to(logger, logging.DEBUG)
        gpusched.log_to(None)

    def test_the_version_is_that_of_the_library(self) -> None:
        self.assertRegex(gpusched.__version__, r"^\d+\.\d+\.\d+")
        self.assertEqual(gpusched.lib.sched_abi_version(), abi.SCHED_ABI_VERSION)


if __name__ == "__main__":
    unittest.main()

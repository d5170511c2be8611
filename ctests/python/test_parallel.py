"""Decorated loops on this machine and on the nodes of a Dask cluster."""

import contextvars
import json
import os
import tempfile
import threading
import unittest
import weakref
from collections import deque
from pathlib import Path
from unittest import mock

import gpusched
from distributed import Client, LocalCluster
from test_gpusched import program

calls: list[int] = []


@gpusched.parallel(max_jobs_per_gpu=2, batch=8)
def squares(numbers: list[int], add: int = 0) -> list[int]:
    calls.append(len(numbers))
    return [number * number + add for number in numbers]


class OutOfMemoryError(RuntimeError):
    """As PyTorch's."""


def fits_two(error: type[Exception], numbers: list[int]) -> list[int]:
    if len(numbers) > 2:
        raise error("too large")
    return [-number for number in numbers]


class Pool:
    """Memory of a GPU with 20 bytes."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error
        self.used = 0
        self.failed: list[int] = []

    def array(self, size: int) -> threading.Event:
        """Returns an object that holds memory as long as it exists."""
        if self.used + size > 20:
            self.failed.append(size)
            raise self.error("too large")
        self.used += size
        array = threading.Event()
        weakref.finalize(array, self.free, size)
        return array

    def free(self, size: int) -> None:
        self.used -= size


class Parallel(unittest.TestCase):
    def setUp(self) -> None:
        calls.clear()
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(holder.name)

    def test_results_are_in_order(self) -> None:
        for items in (list(range(100)), range(100), iter(range(100)), deque(range(100)), dict.fromkeys(range(100))):
            self.assertEqual(squares(items, add=1), [number * number + 1 for number in range(100)])
        self.assertGreaterEqual(len(calls), 5 * 13)
        self.assertLessEqual(max(calls), 8)
        self.assertEqual(squares([]), [])

    def test_jobs_of_a_device_run_at_the_same_time(self) -> None:
        both = threading.Barrier(2, timeout=60)
        split = gpusched.parallel(max_jobs_per_gpu=2, batch=1)(lambda items: [both.wait() >= 0 for _ in items])
        self.assertEqual(split([1, 2]), [True, True])

    def test_batch_is_halved_when_memory_is_short(self) -> None:
        for error in (MemoryError, OutOfMemoryError):
            split = gpusched.parallel(batch=16)(lambda items, error=error: fits_two(error, items))
            self.assertEqual(split(range(50)), [-number for number in range(50)])

    def test_failed_batch_keeps_no_memory(self) -> None:
        for error in (MemoryError, OutOfMemoryError):
            pool = Pool(error)

            @gpusched.parallel(batch=8)
            def split(items: list[int], more: int, pool: Pool = pool) -> list[int]:
                inputs = pool.array(len(items))
                outputs = pool.array(more * len(items))
                return [inputs is not outputs] * len(items)

            self.assertEqual(split(range(64), 2), [True] * 64)
            self.assertEqual((pool.used, pool.failed), (0, [16]))
            self.assertEqual(split([1], 14), [True])
            self.assertEqual((pool.used, pool.failed), (0, [16]))

    def test_switches(self) -> None:
        def whole(**options: bool) -> bool:
            calls.clear()
            self.assertEqual(squares(range(20), **options)[-1], 361)
            return calls == [20]

        file = Path("gpusched.json")
        self.assertTrue(whole(parallel=False))
        self.assertFalse(whole(parallel=True))
        file.write_text(json.dumps({"enabled": False}))
        self.assertTrue(whole())
        with mock.patch.dict(os.environ, GPUSCHED_PARALLEL="1"):
            self.assertFalse(whole())
            with gpusched.parallel(enabled=False) as off:
                contextvars.copy_context().run(off.__enter__)  # As another thread.
                self.assertTrue(whole())
                self.assertFalse(whole(parallel=True))
            self.assertFalse(whole())
        file.unlink()
        with mock.patch.dict(os.environ, GPUSCHED_PARALLEL="0"):
            self.assertTrue(whole())

    def test_wrong_options_are_refused(self) -> None:
        self.assertRaisesRegex(TypeError, "unknown option 'cores'; accepted: enabled", gpusched.parallel, cores=8)
        for name, value, most in (("batch", 0, 2**64 - 1), ("batch", 2**64, 2**64 - 1), ("max_jobs_per_gpu", 65, 64)):
            words = f"{name} is {value}; accepted: an integer of 1 to {most}"
            self.assertRaisesRegex(ValueError, words, gpusched.parallel, **{name: value})
        Path("gpusched.json").write_text('{"cpu": 1}')
        self.assertRaisesRegex(ValueError, "gpusched.json: cpu is 1; accepted: true or false", squares, [1])
        for content in ('{"cpu": tru', "", "[1]", "null", "3", "\xff"):
            Path("gpusched.json").write_text(content, encoding="latin-1")
            self.assertRaisesRegex(ValueError, "^gpusched.json is .*; accepted: a JSON object", squares, [1])
        Path("gpusched.json").unlink()
        with mock.patch.dict(os.environ, GPUSCHED_PARALLEL="yes"):
            self.assertRaisesRegex(ValueError, "GPUSCHED_PARALLEL is yes; accepted: 0 or 1", squares, [1])

    def test_failures_are_raised(self) -> None:
        self.assertRaises(ZeroDivisionError, gpusched.parallel(lambda items: [1 // item for item in items]), [1, 0])
        self.assertRaisesRegex(ValueError, "returned 0 results for 1 elements", gpusched.parallel(lambda items: []), [1])
        with self.assertRaisesRegex(gpusched.GpuschedError, "no device for the task"):
            gpusched.parallel(cpu=False)(lambda items: items)([1])

    def test_inner_loop_runs_in_the_task_of_the_outer_one(self) -> None:
        outer = gpusched.parallel(batch=1)(lambda items: [squares(range(item)) for item in items])
        self.assertEqual(outer([20, 30]), [[n * n for n in range(20)], [n * n for n in range(30)]])
        self.assertEqual(sorted(calls), [20, 30])

    def test_forked_child_splits_loops(self) -> None:
        told = program("""
import gpusched, os, signal, threading
from gpusched import _parallel
locked, go = threading.Event(), threading.Event()
def create():
    with _parallel._lock:
        locked.set()
        go.wait()
threading.Thread(target=create).start()
locked.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    assert gpusched.parallel(list)([1, 2]) == [1, 2]
    os._exit(0)
go.set()
print(os.waitpid(child, 0)[1])
""")
        self.assertEqual(told, "0\n")

    def test_loop_is_split_over_nodes(self) -> None:
        @gpusched.parallel(batch=4)
        def places(numbers: list[int]) -> list[tuple[int, int, int]]:
            here = gpusched.current_exec()
            fits_two(MemoryError, numbers)
            return [(number, os.getpid(), here.task) for number in numbers]

        with LocalCluster(n_workers=2, threads_per_worker=3, dashboard_address=None) as cluster:
            with Client(cluster) as client, gpusched.parallel(client=client, max_jobs_per_gpu=2):
                found = places(range(50))
                self.assertEqual(squares(range(20)), [n * n for n in range(20)])
        self.assertEqual([number for number, _, _ in found], list(range(50)))
        processes = {process for _, process, _ in found}
        self.assertEqual((len(processes), os.getpid() in processes, calls), (2, False, []))


if __name__ == "__main__":
    unittest.main()

"""Submitted tasks as futures, and the thread that completes them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import os
import threading
import time
from concurrent.futures import Future, TimeoutError
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple, TypeVar

from . import _abi
from ._info import TaskInfo, filled, task_info_from
from ._jobs import Job
from ._library import Cancelled, GpuschedError, Handle, check, last_error, lib

if TYPE_CHECKING:
    from ._scheduler import Scheduler

Result = TypeVar("Result")
# The value and the exception of a task that has ended; one of them is None.
Outcome = Tuple[Any, Optional[BaseException]]

STATES = {
    _abi.SCHED_STATE_QUEUED: "queued",
    _abi.SCHED_STATE_RUNNING: "running",
    _abi.SCHED_STATE_DONE: "done",
    _abi.SCHED_STATE_FAILED: "failed",
    _abi.SCHED_STATE_CANCELLED: "cancelled",
}

# A wait of the main thread is cut in slices of this length, so that Ctrl-C is heard.
SLICE_NS = 100_000_000
LONGEST_NS = 2**63 - 1
# A timeout of more seconds counts as none.
FOREVER_S = LONGEST_NS / 1e9


def wait_for(wait: Callable[[int], int], timeout: float | None) -> int:
    """Calls `wait(ns)` until it returns another status than SCHED_PENDING, and returns that status.

    Raises
    ------
    concurrent.futures.TimeoutError
        After `timeout` seconds.
    """
    # Only the main thread hears Ctrl-C. A task waits in one piece, so that a circle of waits is
    # noticed.
    slice_ns = SLICE_NS if threading.current_thread() is threading.main_thread() else None
    end = None if timeout is None or timeout > FOREVER_S else time.monotonic_ns() + int(timeout * 1e9)
    while True:
        left = None if end is None else max(0, min(LONGEST_NS, end - time.monotonic_ns()))
        known = [ns for ns in (left, slice_ns) if ns is not None]
        status = wait(min(known, default=_abi.SCHED_FOREVER))
        if status != _abi.SCHED_PENDING:
            return status
        if end is not None and time.monotonic_ns() >= end:
            raise TimeoutError(f"timed out after {timeout} s")


class Task(Handle, Future[Result]):
    """A submitted task: a `concurrent.futures.Future`.

    `result`, `exception`, `done`, `running`, `cancelled`, `cancel` and `add_done_callback` are
    those of `concurrent.futures.Future`, and `concurrent.futures.wait`, `as_completed` and
    `asyncio.wrap_future` accept tasks. Submitting returns tasks; programs do not create them. Any
    thread may call any method.

    Inside a task, wait with `result`, `exception` or `Scheduler.wait_any`: the worker then runs
    other tasks meanwhile, and a wait that could never end raises `GpuschedError`
    (SCHED_E_DEADLOCK). `concurrent.futures.wait` and `as_completed` block the worker there.

    A task can be neither copied nor pickled.

    Attributes
    ----------
    id : int
        Id of the task in its scheduler.
    """

    # Set once, in the object.
    _outcome: Outcome | None = None

    def __init__(self, scheduler: Scheduler, number: int, job: Job) -> None:
        super().__init__()
        self.id = number
        self._scheduler = scheduler
        # Not `scheduler._handle`, which becomes None: for the library that is the shared scheduler.
        self._owner = scheduler._raw
        self._job = job

    def result(self, timeout: float | None = None) -> Result:
        """Waits for the task and returns its result.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait at most; None: no limit.

        Returns
        -------
        object
            The value that the callable returned; of a shot, its `Gather`; of a range, None.

        Raises
        ------
        concurrent.futures.TimeoutError
            After `timeout` seconds.
        Cancelled
            If the task was cancelled. It is a `concurrent.futures.CancelledError`.
        GpuschedError
            If the task failed for another reason than an exception of its callable, or if the wait
            could never end.
        Exception
            The exception of the callable, itself.
        """
        value, error = self._ended(timeout)
        if error is not None:
            # Each raise adds its own frames.
            raise error.with_traceback(self._job.traceback if error is self._job.error else None)
        found: Result = value
        return found

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the task and returns the exception that `result` would raise, or None.

        Raises
        ------
        concurrent.futures.TimeoutError
            After `timeout` seconds.
        Cancelled
            If the task was cancelled.
        """
        _, error = self._ended(timeout)
        if isinstance(error, Cancelled):
            raise error.with_traceback(None)
        return error

    def cancel(self) -> bool:
        """Cancels the task; does not wait.

        A queued task never starts. A running one finds `Exec.cancelled` true and ends as cancelled,
        whatever its callable returns, unless it has committed its result before (`Exec.commit`; a
        shot commits at its end).

        Returns
        -------
        bool
            False if the task has succeeded or failed, else True.
        """
        if not self.done():
            check(lib.sched_cancel(self._owner, self.id))
        return self.state not in ("done", "failed")

    def done(self) -> bool:
        """Returns whether the task has ended: succeeded, failed or cancelled."""
        return self.state not in ("queued", "running")

    def running(self) -> bool:
        """Returns whether the task runs now."""
        return self.state == "running"

    def cancelled(self) -> bool:
        """Returns whether the task has ended as cancelled."""
        return self.state == "cancelled"

    def add_done_callback(self, fn: Callable[[Future[Result]], object]) -> None:
        """Calls `fn(task)` once the task has ended.

        The calls come from one thread of the scheduler, one after the other, in the order in which
        tasks end and callbacks were added; if the task has ended before, from the calling thread at
        once. So a callback should return soon. It may use and close the scheduler. Exceptions are
        logged, as `concurrent.futures` does. `Scheduler.close` waits for the callbacks.
        """
        super().add_done_callback(fn)

    @property
    def info(self) -> TaskInfo:
        """Place, time and progress of the task. Not available once the scheduler is closed."""
        return task_info_from(self._info())

    @property
    def state(self) -> str:
        """"queued", "running", "done", "failed" or "cancelled"."""
        if self._outcome is None:
            try:
                return STATES[self._info().state]
            except GpuschedError as failure:
                # Another thread closes the scheduler, and completes the task next.
                if failure.status != _abi.SCHED_E_STALE:
                    raise
                return "cancelled"
        _, error = self._outcome
        return "done" if error is None else "cancelled" if isinstance(error, Cancelled) else "failed"

    def _info(self) -> _abi.sched_task_info_t:
        return filled(_abi.sched_task_info_t, lib.sched_task_info, self._owner, self.id)

    def _ended(self, timeout: float | None) -> Outcome:
        """Waits for the outcome."""
        if self._outcome is None:
            try:
                self._collect(timeout)
            except GpuschedError as failure:
                if failure.status != _abi.SCHED_E_STALE:
                    raise
                # Another thread closes the scheduler, which completes all tasks.
                if not concurrent.futures.wait([self], timeout).done:
                    raise TimeoutError(f"timed out after {timeout} s") from None
        assert self._outcome is not None
        return self._outcome

    def _collect(self, timeout: float | None) -> None:
        """Waits for the end of the task and keeps the outcome. The first one counts: all get the same exception."""
        status = wait_for(lambda ns: lib.sched_wait(self._owner, self.id, ns), timeout)
        error: BaseException | None = None
        if status == _abi.SCHED_CANCELLED:
            error = Cancelled()
        elif status in (_abi.SCHED_E_CALLBACK, _abi.SCHED_E_MEMORY) and self._job.error is not None:
            error = self._job.error
        elif status < 0:
            error = GpuschedError(status, last_error())
            if self._info().state != _abi.SCHED_STATE_FAILED:
                # This call failed, not the task.
                raise error
        self._keep(error)

    def _keep(self, error: BaseException | None) -> None:
        # Atomic without a lock, which a forked child could inherit held.
        vars(self).setdefault("_outcome", (None if error else self._job.value, error))

    def _complete(self) -> None:
        """Sets the future's result, which calls the callbacks. Called once, by the completer."""
        if self._outcome is None:
            try:
                self._collect(None)
            except GpuschedError as failure:
                stale = failure.status == _abi.SCHED_E_STALE
                self._keep(Cancelled("the scheduler was closed before the task ended") if stale else failure)
        assert self._outcome is not None
        value, error = self._outcome
        if isinstance(error, Cancelled):
            try:
                super().cancel()
            finally:
                # Wakes `concurrent.futures.wait`, also after a callback that raised SystemExit.
                self.set_running_or_notify_cancel()
        elif error is not None:
            self.set_exception(error)
        else:
            self.set_result(value)

    def __repr__(self) -> str:
        try:
            return f"<gpusched.Task {self.id}: {self.state}>"
        except GpuschedError as error:
            return f"<gpusched.Task {self.id}: {error.name}>"

    def __del__(self) -> None:
        scheduler = getattr(self, "_scheduler", None)
        if scheduler is not None and scheduler._handle is not None and scheduler._pid == os.getpid():
            lib.sched_release(self._owner, self.id)


class Completer:
    """Completes the tasks of a scheduler as futures, on one thread of its own."""

    def __init__(self) -> None:
        # Held during a submission: a task may end before the submission returns its id.
        # A signal handler may submit meanwhile, on the same thread.
        self.submitting = threading.RLock()
        # The tasks that are not completed, which nobody else may hold.
        self._tasks: dict[Job, Task[Any]] = {}
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            # A thread that is no daemon would end before the functions of `atexit` run, which close
            # schedulers.
            thread = threading.Thread(target=self._run, name="gpusched-completer", daemon=True)
            thread.start()
            self._thread = thread

    def add(self, task: Task[Any]) -> None:
        self._tasks[task._job] = task

    def dropped(self, job: Job) -> None:
        """Called when the library has dropped a job: its task has ended or is about to end."""
        self._jobs.put(job)

    def collect(self) -> None:
        """Keeps the outcomes of all tasks that have ended, before the library forgets them."""
        for task in list(self._tasks.values()):
            with contextlib.suppress(TimeoutError, GpuschedError):
                task._collect(0)

    def stop(self, timeout: float | None) -> None:
        """Completes all tasks that are left, and waits for the callbacks."""
        # A submission that the library has accepted adds its task before the thread ends.
        with self.submitting:
            self._jobs.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
            if self._thread.is_alive():
                raise TimeoutError(f"timed out after {timeout} s, in a callback of add_done_callback")

    def _run(self) -> None:
        while self._complete_next():
            pass
        for job in list(self._tasks):
            self._complete(job)

    def _complete_next(self) -> bool:
        # Nothing of the last task is kept while the thread waits for the next.
        job = self._jobs.get()
        if job is not None:
            self._complete(job)
        return job is not None

    def _complete(self, job: Job) -> None:
        with self.submitting:
            task = self._tasks.get(job)
        # None: the submission failed.
        if task is not None:
            try:
                task._complete()
            except BaseException:  # noqa: BLE001: SystemExit in a callback
                logging.getLogger("concurrent.futures").exception("exception completing %r", task)
            del self._tasks[job]

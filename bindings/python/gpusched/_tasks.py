"""Submitted tasks as futures, and the thread that completes them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import enum
import logging
import math
import operator
import os
import threading
import time
from concurrent.futures import Future, TimeoutError
from ctypes import byref, c_size_t, c_uint64
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple, TypeVar

from . import _abi
from ._fields import checked, real
from ._info import TaskInfo, filled, task_info_from
from ._jobs import Job
from ._library import Cancelled, GpuschedError, Handle, check, last_error, lib

if TYPE_CHECKING:
    from ._scheduler import Scheduler

Result = TypeVar("Result")
# The value and the exception of a task that has ended, one of them None, and the traceback of the
# callable's exception.
Outcome = Tuple[Any, Optional[BaseException], Optional[TracebackType]]

STATES = {
    _abi.SCHED_STATE_QUEUED: "queued",
    _abi.SCHED_STATE_RUNNING: "running",
    _abi.SCHED_STATE_DONE: "done",
    _abi.SCHED_STATE_FAILED: "failed",
    _abi.SCHED_STATE_CANCELLED: "cancelled",
}

# A wait of the main thread is divided into slices of this length, so that Ctrl-C ends it.
SLICE_NS = 100_000_000
LONGEST_NS = 2**63 - 1
# Least seconds between two searches for ended tasks whose jobs are not dropped, and least ratio of
# that time to the duration of a search: searches take at most 1/20 of the completer's time.
SEARCH_S = 0.1
SEARCH_FACTOR = 20
# Longest wait in seconds for a task whose job is dropped: it ends once its worker gets a processor.
DROPPED_S = 60.0


def limited(timeout: float | None) -> float | None:
    """Returns the timeout, or None if it is longer than Python can wait."""
    if timeout is None:
        return None
    checked("timeout", timeout, real, "a number of seconds, or None", lambda seconds: seconds > -math.inf)
    return None if timeout > threading.TIMEOUT_MAX else timeout


def wait_for(wait: Callable[[int], int], timeout: float | None) -> int:
    """Calls `wait(ns)` until it returns another status than SCHED_PENDING, and returns that status.

    Raises
    ------
    concurrent.futures.TimeoutError
        After `timeout` seconds.
    """
    # Python raises KeyboardInterrupt on the main thread only. A task waits in one piece, so that
    # the library detects a circle of waits.
    slice_ns = SLICE_NS if threading.current_thread() is threading.main_thread() else None
    timeout = limited(timeout)
    end = None if timeout is None else time.monotonic_ns() + int(timeout * 1e9)
    while True:
        left = None if end is None else max(0, min(LONGEST_NS, end - time.monotonic_ns()))
        known = [ns for ns in (left, slice_ns) if ns is not None]
        status = wait(min(known, default=_abi.SCHED_FOREVER))
        if status != _abi.SCHED_PENDING:
            return status
        if end is not None and time.monotonic_ns() >= end:
            raise TimeoutError(f"timed out after {timeout} s")


def wait_once(wait: Callable[[int], int], timeout: float | None) -> int:
    """Does the same as `wait_for` with one call of `wait`, which depends on the time of the call.
    Checks the status."""
    timeout = limited(timeout)
    if threading.current_thread() is not threading.main_thread():
        return check(wait_for(wait, timeout))
    status = check(wait(0))
    if status != _abi.SCHED_PENDING:
        return status
    ended: Future[int] = Future()

    def run() -> None:
        try:
            ended.set_result(check(wait_for(wait, timeout)))
        except BaseException as error:  # noqa: BLE001: raised by `result`
            ended.set_exception(error)

    try:
        # After Ctrl-C it continues to wait, without a caller.
        threading.Thread(target=run, name="gpusched-wait", daemon=True).start()
    except RuntimeError:
        # Python starts no thread while it ends.
        return check(wait_for(wait, timeout))
    return ended.result()


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

    def __init__(self, scheduler: Scheduler, job: Job) -> None:
        super().__init__()
        # Not `scheduler._handle`, which becomes None: for the library that is the shared scheduler.
        self._owner = scheduler._raw
        self._job = job
        # Set last: `__del__` releases a task that has it.
        self._scheduler = scheduler

    @property
    def id(self) -> int:
        # The library writes the id when it accepts the task, whatever Ctrl-C interrupts.
        return self._job.id

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
        value, error, traceback = self._ended(timeout)
        if error is not None:
            try:
                # Each raise adds its own frames.
                raise error.with_traceback(traceback)
            finally:
                # The traceback refers to this frame. The task refers to the traceback.
                del self, error, traceback
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
        _, error, _ = self._ended(timeout)
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
        _, error, _ = self._outcome
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
                if not concurrent.futures.wait([self], limited(timeout)).done:
                    raise TimeoutError(f"timed out after {timeout} s") from None
        assert self._outcome is not None
        return self._outcome

    def _collect(self, timeout: float | None) -> None:
        """Waits for the end of the task and stores the first outcome, so all raise one
        exception."""
        status = wait_for(lambda ns: lib.sched_wait(self._owner, self.id, ns), timeout)
        error, traceback = self._job.failure(status)
        if status == _abi.SCHED_CANCELLED:
            error = Cancelled()
        elif status < 0 and error is None:
            error = GpuschedError(status, last_error())
            if self._info().state != _abi.SCHED_STATE_FAILED:
                # This call failed, not the task.
                raise error
        self._job.has_ended = True
        self._keep(error, traceback)

    def _keep(self, error: BaseException | None, traceback: TracebackType | None = None) -> None:
        # Atomic without a lock, which a forked child could inherit held.
        vars(self).setdefault("_outcome", (None if error else self._job.value, error, traceback))

    def _complete(self) -> None:
        """Sets the future's result, which calls the callbacks. Called once, by the completer."""
        if self._outcome is None:
            try:
                self._collect(None)
            except GpuschedError as failure:
                stale = failure.status == _abi.SCHED_E_STALE
                self._keep(Cancelled("the scheduler was closed before the task ended") if stale else failure)
        assert self._outcome is not None
        value, error, _ = self._outcome
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


class Message(enum.Enum):
    """Messages to the completer's thread."""

    STOP = enum.auto()
    SEARCH = enum.auto()


def _cancel(tasks: list[Task[Any]]) -> None:
    # Without an id, the library has not accepted the task.
    for task in filter(operator.attrgetter("id"), tasks):
        lib.sched_cancel(task._owner, task.id)


class Completer:
    """Completes the tasks of a scheduler as futures, on one thread of its own.

    A task is completed when the library drops its job. If an attempt was abandoned, that happens
    when its callable returns, if ever: the thread searches for such tasks at intervals.
    """

    def __init__(self) -> None:
        # Held during a submission: a task may end before the submission returns its id.
        # Reentrant: a signal handler may submit on the same thread.
        self.submitting = threading.RLock()
        # Held while the shutdown begins: running tasks end later, when their outcomes can be
        # stored.
        self.ending = threading.RLock()
        # The tasks that are not completed; the caller may hold no reference to them.
        self._tasks: dict[Job, Task[Any]] = {}
        # Those of them whose jobs may be abandoned.
        self._watched: dict[Job, Task[Any]] = {}
        # Jobs of completed tasks that the library has not dropped.
        self._abandoned: set[Job] = set()
        self._next_search = 0.0
        self._jobs: SimpleQueue[Job | Message | list[Task[Any]]] = SimpleQueue()
        # Cancels tasks of a list, if the library has accepted them. Ctrl-C interrupts neither this
        # nor the thread.
        self.cancel: Callable[[list[Task[Any]]], None] = self._jobs.put
        self._is_started = False
        # Taken by the thread for good. If Ctrl-C interrupted `start` after the thread had started, the
        # next submission starts another, which ends at once.
        self._claim = threading.Lock()
        self._thread: threading.Thread | None = None
        self._has_ended = threading.Event()

    def start(self) -> None:
        with self.submitting:
            if not self._is_started:
                # A thread that is no daemon would end before the functions of `atexit` run, which
                # close schedulers.
                threading.Thread(target=self._run, name="gpusched-completer", daemon=True).start()
                self._is_started = True

    def add(self, task: Task[Any]) -> None:
        self._tasks[task._job] = task
        if task._job.may_be_abandoned:
            self._watched[task._job] = task
            # The thread may wait for ever. If it removes another task now, it searches next anyway.
            if len(self._watched) == 1:
                self._jobs.put(Message.SEARCH)

    def dropped(self, job: Job) -> None:
        """Called when the library drops a job: its task is about to end, unless its attempt was
        abandoned."""
        with self.ending:
            job.is_dropped = True
        self._jobs.put(job)

    def collect(self) -> None:
        """Stores the outcomes of all ended tasks, before the library releases them."""
        for task in list(self._tasks.values()):
            with contextlib.suppress(TimeoutError, GpuschedError):
                task._collect(DROPPED_S if task._job.is_dropped else 0)

    def cancel_all(self) -> None:
        """Cancels the tasks that have not ended; does not wait."""
        _cancel(list(self._tasks.values()))

    def stop(self, timeout: float | None) -> None:
        """Completes all tasks that are left, and waits for the callbacks."""
        # A submission that the library has accepted adds its task before the thread ends.
        with self.submitting:
            self._jobs.put(Message.STOP)
        if self._is_started and self._thread is not threading.current_thread():
            if not self._has_ended.wait(timeout):
                raise TimeoutError(f"timed out after {timeout:.3g} s, in a callback of add_done_callback")

    def _run(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        self._thread = threading.current_thread()
        try:
            while self._complete_next():
                pass
            for job in list(self._tasks):
                self._complete(job)
        finally:
            self._has_ended.set()

    def _complete_next(self) -> bool:
        # Drops all references to the last task while the thread waits for the next.
        try:
            message = self._jobs.get(timeout=self._search())
        except Empty:
            return True
        if isinstance(message, Job):
            self._complete(message)
        elif isinstance(message, list):
            _cancel(message)
        return message is not Message.STOP

    def _search(self) -> float | None:
        """Queues ended tasks whose jobs are not dropped. Returns the seconds until the next search;
        None: no search."""
        # An abandoned attempt also ends the tasks that ran on its thread.
        tasks = self._tasks if self._abandoned else self._watched
        if not tasks and not self._abandoned:
            return None
        begun = time.monotonic()
        if begun >= self._next_search:
            self._queue_ended([task for task in list(tasks.values()) if task.id and not task._job.is_dropped])
            self._next_search = begun + max(SEARCH_S, SEARCH_FACTOR * (time.monotonic() - begun))
        return max(0.0, self._next_search - time.monotonic())

    def _queue_ended(self, tasks: list[Task[Any]]) -> None:
        if not tasks:
            return
        ids, index = (c_uint64 * len(tasks))(*(task.id for task in tasks)), c_size_t()
        # An error if the scheduler has ended: `stop` completes all tasks.
        if lib.sched_wait_any(tasks[0]._owner, ids, len(tasks), 0, byref(index)) == _abi.SCHED_OK:
            for task in tasks:
                if task.done():
                    self._abandoned.add(task._job)
                    self._jobs.put(task._job)

    def _complete(self, job: Job) -> None:
        with self.submitting:
            task = self._tasks.get(job)
        # None: the submission failed early.
        if task is not None:
            try:
                # Without an id, the library has not accepted it.
                if task.id:
                    task._complete()
            except BaseException:  # noqa: BLE001: SystemExit in a callback
                logging.getLogger("concurrent.futures").exception("exception completing %r", task)
            del self._tasks[job]
            self._watched.pop(job, None)
        if job.is_dropped:
            self._abandoned.discard(job)

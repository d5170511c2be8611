"""Schedulers: Python callables, ranges and shots as tasks."""

from __future__ import annotations

import atexit
import contextlib
import operator
import os
import re
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from concurrent.futures import TimeoutError
from ctypes import byref, c_size_t, c_uint64, c_void_p, py_object, pythonapi, sizeof
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence, TypeVar

from . import _abi
from ._fd import Model, Shot
from ._fd import pointer as floats
from ._fields import checked, filename, put, text
from ._gather import Gather, output
from ._info import Device, Progress, Stats, devices_of, filled, progress_from, stats_of
from ._jobs import OPTIONS, Exec, Job, describe, drop_job, ids_of, is_in_task, jobs, run_job, tasks_of
from ._library import GpuschedError, Handle, check, lib
from ._progress import Listener, forget, is_in_callback, listen
from ._ranges import Places, range_desc
from ._tasks import Completer, Task, limited, wait_for, wait_once

if TYPE_CHECKING:
    from ._gather import Floats

T = TypeVar("T")
Item = TypeVar("Item")

MOST_SLOTS = 64
# Seconds that the end of the program waits for cancelled shots.
END_S = 60.0


class Scheduler(Handle):
    """Runs tasks on devices. The `with` statement closes it, else the end of the program.

    The end of the program (`atexit`) closes all schedulers; then submissions raise RuntimeError. It
    waits for callables as long as they run, but gives up after a minute if only cancelled shots
    have not returned, such as those on a GPU that hangs.

    Any thread may call any method, also inside a task. A forked child can't use its parent's
    scheduler.

    Parameters
    ----------
    devices : str, optional
        Devices to use: "all", "none", or a list such as "cpu,cuda:0,cuda:GPU-5b...". None: the
        value of GPUSCHED_DEVICES, else "all", which is the GPUs, or the CPU if there are none.
    slots : int or "auto"
        Tasks at a time on each device, 1 to 64, or "auto": tuned while tasks run. 0: the value of
        GPUSCHED_SLOTS, else 1.
    cpu_threads : int
        Threads of the CPU device, shared by its slots. 0: all that the process may use.
    trace_events : int
        Largest number of events that are kept for `write_trace`, about 150 bytes each. 0: no trace.
    rates_path : path, optional
        File that keeps the measured rates of devices between runs. None: none.
    stack_bytes : int
        Stack for each callable, 1 MiB to 64 GiB. 0: 8 MiB.

    Raises
    ------
    ValueError, TypeError
        For a value that is not accepted.
    GpuschedError
        SCHED_E_NO_DEVICE if no device fits the selection; SCHED_E_ARGUMENT.
    """

    def __init__(
        self,
        devices: str | None = None,
        slots: int | str = 0,
        cpu_threads: int = 0,
        trace_events: int = 0,
        rates_path: str | os.PathLike[str] | None = None,
        stack_bytes: int = 0,
    ) -> None:
        self._handle: int | None = None
        self._pid = os.getpid()
        config = _abi.sched_config_t(size=sizeof(_abi.sched_config_t))
        if slots == "auto":
            config.slots = _abi.SCHED_SLOTS_AUTO
        else:
            whole = lambda value: -1 if isinstance(value, str) else operator.index(value)  # noqa: E731
            accepted = f'0 to {MOST_SLOTS}, or "auto"'
            config.slots = checked("slots", slots, whole, accepted, lambda number: 0 <= number <= MOST_SLOTS)
        put(config, "cpu_threads", cpu_threads)
        put(config, "trace_events", trace_events)
        put(config, "stack_bytes", stack_bytes)
        if devices is not None:
            config.devices = text("devices", devices)
        if rates_path is not None:
            config.rates_path = filename("rates_path", rates_path)
        made = c_void_p()
        check(lib.sched_create(byref(config), byref(made)))
        self._own(made.value)

    @classmethod
    def shared(cls) -> Scheduler:
        """Returns a handle of the scheduler that the whole process shares.

        The first handle creates it from the environment; the last one that is closed ends it.
        `wait_next` has an order for each handle; `wait_all`, `stats` and the devices belong to all
        handles together.

        Raises
        ------
        GpuschedError
            SCHED_E_NO_DEVICE; SCHED_E_FORKED in a child of a process that had one.
        """
        self = cls.__new__(cls)
        self._handle = None
        self._pid = os.getpid()
        made = c_void_p()
        check(lib.sched_default(byref(made)))
        self._own(made.value, is_shared=True)
        return self

    def _own(self, handle: int | None, is_shared: bool = False) -> None:
        self._handle = handle
        self._is_shared = is_shared
        self._listener: int | None = None
        # Held during a progress callback. No callback is called while another thread holds it.
        self._calling = threading.RLock()
        # Until `wait_next` returns them.
        self._ordered: OrderedDict[Task[Any], None] = OrderedDict()
        # Holds the tasks of a shared scheduler, to release them when it is closed.
        self._tasks: weakref.WeakValueDictionary[Job, Task[Any]] = weakref.WeakValueDictionary()
        self._completer = Completer()
        _open.add(self)

    @property
    def _raw(self) -> int:
        if self._handle is None:
            raise ValueError("this scheduler is closed")
        return self._handle

    def submit(self, call: Callable[[Exec], T], **options: Any) -> Task[T]:
        """Submits a task that runs `call(exec)` on a thread of the library, and returns at once.

        The callable runs in the floating-point mode (rounding, flushing of denormal numbers, traps)
        that the submitting thread has now; its own changes of the mode end with it. Ctrl-C during
        the submission cancels the task. Exceptions of the callable:

        - `Cancelled` ends the task as cancelled.
        - `MemoryError` means that the device was short of memory. The task is retried alone on the
          device, then on others, before `Task.result` raises it. The local variables of its
          traceback are released first, as by `traceback.clear_frames`.
        - Any other exception fails the task, or retries it if `retries` are left. `Task.result`
          raises it.

        Parameters
        ----------
        call : callable
            Called with an `Exec`. Its return value is the task's result.

        Other Parameters
        ----------------
        label : str
            Name for messages and logs.
        device_bytes : int
            Peak use of device memory, which is reserved while the task runs.
        work : float
            Amount of work, in any unit that all tasks of the scheduler share, 1e-100 to 1e100. 0:
            unknown.
        device_mask : int
            Devices that may run the task: bit i for device i. 0: all.
        backend_mask : int
            Kinds of device that may run the task: bits `abi.SCHED_BACKEND_CPU`,
            `abi.SCHED_BACKEND_CUDA`. 0: all.
        priority : int
            A task with a higher priority runs earlier.
        retries : int
            Number of times that a failed attempt is retried.
        task_class : int
            Tasks of a class are alike: speeds and durations are learned for each class. Classes
            from 0xfd000000 up are the library's.
        deadline_s : float
            Time limit of an attempt in seconds, positive and at most 9e9; the attempt is then asked
            to stop (`Exec.cancelled`). If it has not returned after as long again, and at least 10 s,
            its device counts as hung and is retired, also the CPU.
        after : iterable of Task
            Tasks of this scheduler that must succeed before this one starts.
        idempotent : bool
            Allows further attempts on other devices while the first runs; see `Exec.commit`.
        ordered : bool
            `wait_next` returns the task in its turn.

        Returns
        -------
        Task

        Raises
        ------
        TypeError, ValueError
            For an option that is not accepted, and if the scheduler is closed.
        GpuschedError
            For a task that no device could ever run, and after `drain` or in a forked child.
        """
        return self.submit_many([call], **options)[0]

    def submit_many(self, calls: Iterable[Callable[[Exec], T]], **options: Any) -> list[Task[T]]:
        """Submits a task for each callable with the same options: all or, on any error, none.

        Parameters and exceptions are those of `submit`.
        """
        raw = self._raw_for_submission()
        if "after" in options:
            # Each task reads it, and an iterator can be read once.
            options["after"] = tasks_of("after", options["after"])
        work = [Job(raw, self._completer.dropped, call) for call in calls]
        described = [_describe(job, options) for job in work]
        descs = (_abi.sched_task_desc_t * len(work))(*(desc for desc, _ in described))
        for desc in descs:
            desc.run = run_job
        try:
            return self._submit(work, options, lambda ids: lib.sched_submit_many(raw, descs, len(work), ids))
        except GpuschedError as error:
            # The caller wrote the option once, for all of them.
            raise GpuschedError(error.status, re.sub(r"^descs\[\d+\]: ", "", error.message)) from None

    def _raw_for_submission(self) -> int:
        raw = self._raw
        _check_end()
        if self._pid == os.getpid():
            # Before anything is lent: Python may refuse the thread.
            self._completer.start()
        return raw

    def _submit(self, jobs: list[Job], options: Mapping[str, Any], call: Callable[[Any], int]) -> list[Task[Any]]:
        """Lends the jobs to the library and calls `call(ids)`, which submits them."""
        ids = (c_uint64 * len(jobs))()
        tasks: list[Task[Any]] = []
        try:
            for place, job in enumerate(jobs):
                job.lend(c_uint64.from_buffer(ids, place * sizeof(c_uint64)))
            with self._submission():
                for job in jobs:
                    tasks.append(self._register(job, options))
                check(call(ids))
            return tasks
        except BaseException:
            # Ctrl-C may come before or after the library has accepted the jobs. The library has
            # dropped refused jobs.
            self._completer.cancel(tasks)
            for job in jobs:
                if job.id == 0:
                    job.withdraw()
            # `wait_next` may iterate over them.
            with self._submission():
                for task in tasks:
                    if task.id == 0:
                        self._ordered.pop(task, None)
            raise

    def _submission(self) -> contextlib.AbstractContextManager[Any]:
        # In a forked child the locks may be held for ever. The library refuses the submission and
        # drops the job.
        if self._pid != os.getpid():
            self._completer.ending = threading.RLock()
            return contextlib.nullcontext()
        return self._completer.submitting

    def _register(self, job: Job, options: Mapping[str, Any]) -> Task[Any]:
        """Returns the task of a job, which the library accepts next."""
        task: Task[Any] = Task(self, job)
        self._completer.add(task)
        if self._is_shared:
            self._tasks[job] = task
        if options.get("ordered"):
            self._ordered[task] = None
        return task

    def submit_range(
        self,
        begin: int,
        end: int,
        function: Callable[[Exec, range], Any],
        grain: int | None = None,
        **options: Any,
    ) -> Task[None]:
        """Submits a parallel loop and returns at once.

        All devices that may run it call `function(exec, chunk)` for chunks of `range(begin, end)`
        at the same time; each element is in one successful call. The range is one task, which can
        be waited for and cancelled; its `info.progress` is the part of the elements that is done.

        An exception ends the range; `Task.result` raises it. After a `MemoryError` the chunk is
        halved and called again, down to one element.

        Parameters
        ----------
        begin, end : int
            The first element, and the one after the last.
        function : callable
            Called with an `Exec` and a `range`, on several threads at the same time.
        grain : int, optional
            Largest number of elements of a chunk. None: tuned for each device.
        **options
            label, device_bytes (of one element), device_mask, backend_mask, priority, deadline_s
            (of the whole range), after and ordered, as in `submit`.

        Raises
        ------
        TypeError, ValueError, GpuschedError
            As `submit`.
        """
        raw = self._raw_for_submission()
        job = Job(raw, self._completer.dropped, function)
        desc, _kept = range_desc(job, begin, end, grain, options)
        return self._submit([job], options, lambda ids: lib.sched_submit_range(raw, byref(desc), ids))[0]

    def map(
        self, function: Callable[[Item], T], items: Iterable[Item], grain: int | None = None, **options: Any
    ) -> list[T]:
        """Returns `[function(item) for item in items]`, computed in parallel.

        `function` runs on several threads at the same time. `current_exec` returns its device and
        stream.

        Parameters
        ----------
        function : callable
            Called with one item.
        items : iterable
            Read before the call returns; a sequence is used as it is.
        grain, **options
            As in `submit_range`.

        Raises
        ------
        Exception
            The first exception of `function`; no further chunk starts then.
        TypeError, ValueError, GpuschedError
            As `submit`.
        """
        places = _places(function, items)
        task = self.submit_range(0, len(places.items), places.chunk, grain, **options)
        try:
            task.result()
        except BaseException:
            # Ctrl-C also cancels the rest.
            task.cancel()
            raise
        finally:
            # The traceback refers to this frame. The task refers to the traceback.
            del task
        return places.results

    def imap(
        self, function: Callable[[Item], T], items: Iterable[Item], grain: int | None = None, **options: Any
    ) -> Iterator[T]:
        """Like `map`, but yields the results in the order of the items, each once it is available.

        Leaving the iterator before its end cancels the rest. Inside a task the call waits for all
        results: the worker then runs other tasks meanwhile.
        """
        if is_in_task():
            return iter(self.map(function, items, grain, **options))
        places = _places(function, items)
        task = self.submit_range(0, len(places.items), places.chunk, grain, **options)
        results = self._results(places, task)
        # If a generator that has not begun is closed, its `finally` does not run.
        next(results)
        return results

    @staticmethod
    def _results(places: Places[Item, T], task: Task[None]) -> Iterator[Any]:
        try:
            task.add_done_callback(places.end)
            yield
            yield from places.in_order(task.done)
            task.result()
        finally:
            task.cancel()
            # As in `map`.
            del task

    def submit_shot(
        self,
        model: Model,
        shot: Shot,
        record: Floats | None = None,
        snapshots: Floats | None = None,
        **options: Any,
    ) -> Task[Gather]:
        """Submits a shot and returns at once. The result of its task is a `Gather`.

        The same shot gives the same record, bit for bit, on every device of a kind and after any
        number of retries. The warnings of `Model.shot_warnings` are issued as UserWarning.

        Parameters
        ----------
        model : Model
            May be closed once this has returned.
        shot : Shot
        record, snapshots : ndarray of float32, optional
            Arrays for the results, C-contiguous, with the shapes that `Model.shot_size` returns.
            None: new arrays. They are valid once the task has succeeded, and lent to the library
            until its last attempt has returned; after the end of the task nothing is written to
            `record`. Memory that another shot may write to is refused.
        **options
            As in `submit`. The library sets device_bytes, work, task_class and retries (2) unless
            they are given. A shot without snapshots is idempotent unless that is given.

        Raises
        ------
        TypeError, ValueError
            For an option, a position or an array that is not accepted.
        GpuschedError
            SCHED_E_ARGUMENT, also for a source or receiver outside the grid; SCHED_E_UNSTABLE for a
            time step that is too large; SCHED_E_MEMORY; and as `submit`.
        """
        if not isinstance(model, Model) or not isinstance(shot, Shot):
            given = f"{type(model).__name__} and {type(shot).__name__}"
            raise TypeError(f"model and shot are {given}; accepted: Model and Shot")
        raw, medium = self._raw_for_submission(), model._raw
        desc, _kept = shot._describe()
        size = model._shot_size(shot, desc)
        for warning in model._shot_warnings(desc):
            warnings.warn(warning, stacklevel=2)
        if size.snapshots_shape is None and snapshots is not None:
            raise ValueError("snapshots was passed, but the shot has none; accepted: None while snapshot_every is 0")
        record = output("record", record, size.record_shape)
        lent = {"record": record}
        desc.record, desc.record_len = floats(record), record.size
        if size.snapshots_shape is not None:
            lent["snapshots"] = snapshots = output("snapshots", snapshots, size.snapshots_shape)
            desc.snapshots, desc.snapshots_len = floats(snapshots), snapshots.size
        # The library holds the job until the last attempt has returned; the job holds the arrays.
        options.setdefault("idempotent", size.snapshots_shape is None)
        job = Job(raw, self._completer.dropped, lent=lent)
        job.value = shot._gather(model, record, snapshots)
        task, _also_kept = _describe(job, options)
        call = lambda ids: lib.sched_fd_submit(raw, medium, byref(desc), byref(task), ids)  # noqa: E731
        return self._submit([job], options, call)[0]

    def wait_next(self, timeout: float | None = None) -> Task[Any]:
        """Returns the next task with `ordered`, in the order of submission, once it has ended.

        The task may have succeeded, failed or been cancelled, also by Ctrl-C during its submission.
        Each task is returned once, to one of the waiting threads.

        Raises
        ------
        concurrent.futures.TimeoutError
            After `timeout` seconds.
        GpuschedError
            SCHED_E_ARGUMENT if no task is left to return.
        """
        number = c_uint64()
        check(wait_for(lambda ns: lib.sched_wait_next(self._raw, ns, byref(number)), timeout))
        with self._completer.submitting:
            # In the same order as in the library.
            task = next(task for task in self._ordered if task.id == number.value)
            del self._ordered[task]
            return task

    def wait_all(self, timeout: float | None = None) -> None:
        """Waits until every task that was submitted before has ended, successfully or not.

        Raises
        ------
        concurrent.futures.TimeoutError
            After `timeout` seconds.
        GpuschedError
            SCHED_E_DEADLOCK inside a task.
        """
        wait_once(lambda ns: lib.sched_wait_all(self._raw, ns), timeout)

    def wait_any(self, tasks: Iterable[Task[Any]], timeout: float | None = None) -> int:
        """Waits until one of the tasks has ended, successfully or not, and returns its position.

        Inside a task use this in place of `concurrent.futures.wait`: the worker runs other tasks
        meanwhile.

        Raises
        ------
        concurrent.futures.TimeoutError
            After `timeout` seconds.
        GpuschedError
            SCHED_E_ARGUMENT for no tasks; SCHED_E_DEADLOCK for a wait inside a task that could
            never end.
        """
        ids, index = ids_of("tasks", tasks), c_size_t()
        check(wait_for(lambda ns: lib.sched_wait_any(self._raw, ids, len(ids), ns, byref(index)), timeout))
        return index.value

    def drain(self, timeout: float | None = None) -> None:
        """Closes the scheduler, unless it is shared, to new tasks and waits until all have ended.

        Raises
        ------
        concurrent.futures.TimeoutError
            After `timeout` seconds.
        GpuschedError
            SCHED_E_DEADLOCK inside a task.
        """
        wait_once(lambda ns: lib.sched_drain(self._raw, ns), timeout)

    @property
    def devices(self) -> list[Device]:
        """The devices of the scheduler, with their statistics."""
        return devices_of(self._raw)

    @property
    def stats(self) -> Stats:
        """Counts of the tasks since the scheduler was created."""
        return stats_of(self._raw)

    @property
    def progress(self) -> Progress:
        """Progress of the submitted tasks, with the ETA."""
        return progress_from(filled(_abi.sched_progress_t, lib.sched_progress, self._raw))

    def on_progress(self, call: Listener | None, interval_s: float = 1.0) -> None:
        """Calls `call(progress)` at an interval, in place of the callback that was set before.

        The calls come on a thread of the library, never two at once, the first after `interval_s`.
        The callback may use the scheduler but not close it. Its exceptions go to
        `sys.unraisablehook`. Once this method or `close` has returned, the previous callback is not
        running, unless it made this call itself, and is not called again.

        Parameters
        ----------
        call : callable or None
            Called with a `Progress`. None ends the calls.
        interval_s : float
            Seconds between calls, 0.001 to 1e9.
        """
        _check_end()
        before, self._listener = self._listener, listen(self._raw, call, interval_s, self._calling)
        forget(before)

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace of all attempts to a file in the Chrome trace event format (JSON).

        Raises
        ------
        GpuschedError
            SCHED_E_ARGUMENT for a scheduler without `trace_events`; SCHED_E_IO.
        """
        check(lib.sched_trace_write(self._raw, filename("path", path)))

    def __repr__(self) -> str:
        if self._handle is None or self._pid != os.getpid():
            return "<gpusched.Scheduler, closed>"
        stats = self.stats
        places = ", ".join(f"{device.backend}:{device.ordinal}" for device in self.devices)
        return f"<gpusched.Scheduler on {places}: {stats.queued} queued, {stats.running} running, {stats.done} done>"

    def close(self) -> None:
        """Cancels queued tasks, asks running ones to stop, waits for them, and ends the scheduler.

        Its tasks keep their outcomes, and the callbacks of `Task.add_done_callback` have returned.
        A closed scheduler may be closed again. For a callable that may never return see `shutdown`.

        If this is a handle of the shared scheduler (`Scheduler.shared`) and others exist, its tasks
        run on, but this package reports them as cancelled: wait for them first.

        Raises
        ------
        GpuschedError
            SCHED_E_DEADLOCK inside a task or a progress callback of this scheduler, which then
            continues as before.
        """
        self.shutdown()

    def shutdown(self, timeout: float | None = None) -> None:
        """Does the same as `close`, but waits `timeout` seconds at most.

        Raises
        ------
        concurrent.futures.TimeoutError
            If a callable has not returned in time. The scheduler then starts and accepts no tasks,
            but still exists: `stats` and its tasks show which one hangs. Or if only a callback of
            `Task.add_done_callback` has not returned: the scheduler is closed then. In both cases
            call this again to wait longer. Or if a progress callback has not returned: the
            scheduler, unless it is shared, has cancelled its tasks then, and accepts others.
        GpuschedError
            As `close`.
        """
        timeout = limited(timeout)
        end = None if timeout is None else time.monotonic() + timeout

        def left() -> float | None:
            return None if end is None else max(0.0, end - time.monotonic())

        handle, is_mine = self._handle, self._pid == os.getpid()
        if handle is not None and is_mine:
            try:
                self._end(handle, left)
            except GpuschedError as error:
                # Stale: Ctrl-C interrupted an earlier call of this after the scheduler was
                # destroyed.
                if error.status != _abi.SCHED_E_STALE:
                    raise
            forget(self._listener)
        self._handle = None
        if is_mine:
            # Again after a timeout.
            self._completer.stop(left())
        _open.discard(self)

    def _end(self, handle: int, left: Callable[[], float | None]) -> None:
        # The library waits for the progress callback, which may wait for `ending`.
        with self._without_progress(left()), self._completer.ending:
            self._completer.collect()
            # Other handles may keep the scheduler, and nobody could release these later. The library
            # refuses the shutdown inside a task or a callback.
            inside = is_in_callback() or self._is_shared and lib.sched_drain(handle, 0) == _abi.SCHED_E_DEADLOCK
            for task in (ref() for ref in self._tasks.valuerefs() if not inside):
                if task is not None and task._outcome is not None:
                    lib.sched_release(handle, task.id)
            status = check(lib.sched_shutdown(handle, 0))
        if status == _abi.SCHED_PENDING:
            # The outcomes are lost when the scheduler ends.
            check(wait_for(lambda ns: lib.sched_wait_all(handle, ns), left()))
            self._completer.collect()
            check(wait_for(lambda ns: lib.sched_shutdown(handle, ns), left()))

    @contextlib.contextmanager
    def _without_progress(self, timeout: float | None) -> Iterator[None]:
        """Waits for the progress callback, and leaves out its calls meanwhile."""
        # The library refuses to end a scheduler inside a task. The callback may wait for the task.
        if is_in_task():
            yield
            return
        if not self._calling.acquire(blocking=False):
            # It may wait for a task that only the end of the scheduler would end.
            if not self._is_shared:
                self._completer.cancel_all()
            if not self._calling.acquire(timeout=-1 if timeout is None else timeout):
                raise TimeoutError(f"timed out after {timeout:.3g} s, in a callback of on_progress")
        try:
            yield
        finally:
            self._calling.release()

    def _ends(self) -> bool:
        """Closes the scheduler for the end of the program, or gives up on its shots. Returns False
        after a timeout."""
        with contextlib.suppress(TimeoutError):
            self.shutdown(END_S)
            return True
        has_callbacks = any(task._job.is_dropped for task in list(self._completer._tasks.values()))
        # Nothing is lent to a callable.
        has_callables = any(job.scheduler == self._handle and not job.lent for job in list(jobs.values()))
        if self._handle is None or has_callbacks or has_callables:
            return False
        listen(self._handle, None, 0, self._calling)
        self._handle = None
        # A shot may return until the process has ended: its arrays and its `drop` stay.
        pythonapi.Py_IncRef(py_object((jobs, drop_job)))
        return True

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


def devices(selection: str | None = None) -> list[Device]:
    """Returns the devices that a scheduler would use. Opens no GPU.

    Parameters
    ----------
    selection : str, optional
        As `devices` of `Scheduler`.

    Raises
    ------
    GpuschedError
        SCHED_E_NO_DEVICE if no device fits the selection.
    """
    with Scheduler(devices=selection) as scheduler:
        return scheduler.devices


def _describe(job: Job, options: Mapping[str, Any]) -> tuple[_abi.sched_task_desc_t, list[object]]:
    desc = _abi.sched_task_desc_t(size=sizeof(_abi.sched_task_desc_t))
    return desc, describe(desc, job, options, OPTIONS)


def _places(function: Callable[[Item], T], items: Iterable[Item]) -> Places[Item, T]:
    return Places(function, items if isinstance(items, Sequence) else list(items))


# The workers call into Python, so they have to end before Python does.
_open: weakref.WeakSet[Scheduler] = weakref.WeakSet()
_are_all_closed = False


def _check_end() -> None:
    """Refuses what starts threads that nothing would end before Python."""
    if _are_all_closed:
        raise RuntimeError("the program ends: its schedulers are closed")


@atexit.register
def _close_all() -> None:
    global _are_all_closed
    _are_all_closed = True
    for scheduler in list(_open):
        while not scheduler._ends():
            pass

"""Schedulers and tasks; Python callables and shots as tasks."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import threading
import time
import weakref
from ctypes import byref, c_size_t, c_uint64, c_void_p, sizeof
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, TypeVar

from . import _abi
from ._arrays import np
from ._fields import put, text
from ._devices import Device, devices_of
from ._fd import Gather, Model, Shot
from ._fd import pointer as floats
from ._jobs import OPTIONS, Exec, Job, describe, run_job
from ._library import GpuschedError, Handle, check, lib
from ._progress import Listener, forget, listen
from ._ranges import Places, range_desc
from ._tasks import Completer, Task, wait_for

T = TypeVar("T")
Item = TypeVar("Item")

class Scheduler(Handle):
    """Runs tasks on the devices that it was given; closed when the `with` block ends.

    `devices` as in GPUSCHED_DEVICES, which counts without it; `slots`: tasks at a time on a device;
    `trace_events`: how many events are kept for `write_trace`; `rates_path`: a file that keeps what is learned of
    the devices' speeds between runs; `stack_bytes`: stack for the code of each task, 1 MiB to 64 GiB (0: 8 MiB).
    """

    def __init__(
        self,
        devices: str | None = None,
        slots: int = 0,
        cpu_threads: int = 0,
        trace_events: int = 0,
        rates_path: str | os.PathLike[str] | None = None,
        stack_bytes: int = 0,
    ) -> None:
        self._handle: int | None = None
        self._pid = os.getpid()
        config = _abi.sched_config_t(size=sizeof(_abi.sched_config_t))
        put(config, "slots", slots)
        put(config, "cpu_threads", cpu_threads)
        put(config, "trace_events", trace_events)
        put(config, "stack_bytes", stack_bytes)
        if devices is not None:
            config.devices = text("devices", devices)
        if rates_path is not None:
            config.rates_path = text("rates_path", os.fsencode(rates_path))
        made = c_void_p()
        check(lib.sched_create(byref(config), byref(made)))
        self._own(made.value, shared=False)

    @classmethod
    def shared(cls) -> Scheduler:
        """A share of the scheduler that all libraries of the process may use; it ends with its last holder."""
        self = cls.__new__(cls)
        self._handle = None
        self._pid = os.getpid()
        made = c_void_p()
        check(lib.sched_default(byref(made)))
        self._own(made.value, shared=True)
        return self

    def _own(self, handle: int | None, shared: bool) -> None:
        self._handle = handle
        self._shared = shared
        self._listener: int | None = None
        # Until they are handed out.
        self._ordered: dict[int, Task[Any]] = {}
        self._completer = Completer()
        _open.add(self)

    @property
    def _raw(self) -> int:
        if self._handle is None:
            raise ValueError("this scheduler is closed")
        return self._handle

    def submit(self, call: Callable[[Exec], T], **options: Any) -> Task[T]:
        """Has `call(exec)` run on a thread of the scheduler; what it returns is what `wait` returns.

        Options: label, device_bytes, work, device_mask, backend_mask, priority, retries, task_class; deadline_s: seconds
        that an attempt may take; after: tasks that have to end well first; idempotent: a second copy may be
        started elsewhere, see `Exec.commit`; ordered: `wait_next` hands it out.

        Raising Cancelled ends the task as cancelled; a MemoryError has it tried again, alone on its device and
        elsewhere, before it comes out of `wait`.

        The callable runs in the floating-point mode (rounding, flushing of denormal numbers, traps) that the
        submitting thread has now, and leaves no change of it behind.
        """
        return self.submit_many([call], **options)[0]

    def submit_many(self, calls: Iterable[Callable[[Exec], T]], **options: Any) -> list[Task[T]]:
        """`submit` for each of `calls`, all with the same options: all of them or, on any error, none."""
        raw = self._raw
        work = [Job(self._completer.dropped, call) for call in calls]
        described = [_describe(job, options) for job in work]
        descs = (_abi.sched_task_desc_t * len(work))(*(desc for desc, _ in described))
        for desc in descs:
            desc.run = run_job
        numbers = (c_uint64 * len(work))()
        with self._submission():
            try:
                check(lib.sched_submit_many(raw, descs, len(work), numbers))
            except GpuschedError as error:
                # The caller wrote the option once, for all of them.
                raise GpuschedError(error.status, re.sub(r"^descs\[\d+\]: ", "", error.message)) from None
            return [self._submitted(number, job, options) for number, job in zip(numbers, work)]

    @contextlib.contextmanager
    def _submission(self) -> Iterator[None]:
        # In a forked child the lock may be held for ever; the library refuses the submission.
        if self._pid != os.getpid():
            yield
            return
        with self._completer.submitting:
            self._completer.start()
            yield

    def _submitted(self, number: int, job: Job, options: Mapping[str, Any]) -> Task[Any]:
        task: Task[Any] = Task(self, number, job)
        self._completer.add(task)
        if options.get("ordered"):
            self._ordered[number] = task
        return task

    def wait_next(self, timeout: float | None = None) -> Task[Any]:
        """The next of the tasks submitted as `ordered`, in the order of submission, once it has ended, well or
        not. Raises TimeoutError; GpuschedError if none is left."""
        number = c_uint64()
        check(wait_for(lambda ns: lib.sched_wait_next(self._raw, ns, byref(number)), timeout))
        with self._completer.submitting:
            task = self._ordered.pop(number.value, None)
        # Released by another thread meanwhile: passed over.
        return task if task is not None else self.wait_next(timeout)

    def submit_range(
        self,
        begin: int,
        end: int,
        function: Callable[[Exec, range], Any],
        grain: int | None = None,
        **options: Any,
    ) -> Task[None]:
        """Has `function(exec, piece)` run for pieces of begin to end (not included), each number in one piece, on all
        devices at the same time. One task: wait for it, cancel it, look at its `info.progress`.

        grain: the most numbers of a piece; None: found by measuring. An exception ends the range and comes
        out of `wait`; a MemoryError has the piece halved first. Options: label, device_bytes (of one number),
        device_mask, backend_mask, priority, deadline_s (of the whole range), after, ordered.
        """
        raw, job = self._raw, Job(self._completer.dropped, function)
        desc, _kept = range_desc(job, begin, end, grain, options)
        number = c_uint64()
        with self._submission():
            check(lib.sched_submit_range(raw, byref(desc), byref(number)))
            return self._submitted(number.value, job, options)

    def map(
        self, function: Callable[[Item], T], items: Iterable[Item], grain: int | None = None, **options: Any
    ) -> list[T]:
        """[function(item) for item in items], in parallel. Options as for `submit_range`."""
        places = _places(function, items)
        task = self.submit_range(0, len(places.items), places.piece, grain, **options)
        try:
            task.result()
        except BaseException:
            # Ctrl-C: nobody wants the rest.
            task.cancel()
            raise
        return places.results

    def imap(
        self, function: Callable[[Item], T], items: Iterable[Item], grain: int | None = None, **options: Any
    ) -> Iterator[T]:
        """`map`, one result after the other in the order of the items, each as soon as it is there. An iterator
        that is left before its end cancels the rest."""
        places = _places(function, items)
        task = self.submit_range(0, len(places.items), places.piece, grain, **options)
        return self._results(places, task)

    @staticmethod
    def _results(places: Places[Item, T], task: Task[None]) -> Iterator[T]:
        try:
            task.add_done_callback(places.end)
            yield from places.in_order()
            task.result()
        finally:
            task.cancel()

    def submit_shot(self, model: Model, shot: Shot, **options: Any) -> Task[Gather]:
        """Has a shot computed; `wait` returns its Gather. Options as for `submit`."""
        raw, size = self._raw, model.shot_size(shot)
        record = np.zeros((size.traces, size.samples), dtype=np.float32)
        snapshots = np.zeros((size.snapshots, *model.shape), dtype=np.float32) if size.snapshots else None
        desc, _kept = shot._describe()
        desc.record, desc.record_len = floats(record), record.size
        if snapshots is not None:
            desc.snapshots, desc.snapshots_len = floats(snapshots), snapshots.size
        job = Job(self._completer.dropped, lent=(record, snapshots))
        job.value = Gather(record, snapshots)
        task, _also_kept = _describe(job, options)
        number = c_uint64()
        with self._submission():
            check(lib.sched_fd_submit(raw, model._raw, byref(desc), byref(task), byref(number)))
            return self._submitted(number.value, job, options)

    def wait_all(self, timeout: float | None = None) -> None:
        """Until all tasks so far have ended, well or not. Raises TimeoutError."""
        check(wait_for(lambda ns: lib.sched_wait_all(self._raw, ns), timeout))

    def wait_any(self, tasks: Iterable[Task[Any]], timeout: float | None = None) -> int:
        """The position in `tasks` of one that has ended, well or not. Raises TimeoutError."""
        ids = [task.id for task in tasks]
        array, index = (c_uint64 * len(ids))(*ids), c_size_t()
        check(wait_for(lambda ns: lib.sched_wait_any(self._raw, array, len(ids), ns, byref(index)), timeout))
        return index.value

    def drain(self, timeout: float | None = None) -> None:
        """Takes no more tasks and waits until all have ended. Raises TimeoutError."""
        check(wait_for(lambda ns: lib.sched_drain(self._raw, ns), timeout))

    @property
    def devices(self) -> list[Device]:
        """The devices that run its tasks."""
        return devices_of(self._raw)

    @property
    def stats(self) -> _abi.sched_stats_t:
        answer = _abi.sched_stats_t(size=sizeof(_abi.sched_stats_t))
        check(lib.sched_stats(self._raw, byref(answer)))
        return answer

    @property
    def progress(self) -> _abi.sched_progress_t:
        answer = _abi.sched_progress_t(size=sizeof(_abi.sched_progress_t))
        check(lib.sched_progress(self._raw, byref(answer)))
        return answer

    def on_progress(self, call: Listener | None, interval_s: float = 1.0) -> None:
        """Has `call(progress)` called every `interval_s` seconds (0.001 or more), first after that time, in place of
        what was set before; None: nothing any more. `progress` is as the property `progress`: queued, running, done,
        failed, cancelled, retried, elapsed_ns, eta_ns (-1: not known), work_total, work_done.

        It comes on a thread of the library, never twice at once, and may use the scheduler, but not close it.
        When this, or `close`, has returned, what was set before is not running and does not come again, unless
        this was called from inside it. What it raises goes to `sys.unraisablehook`.
        """
        before, self._listener = self._listener, listen(self._raw, call, interval_s)
        forget(before)

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes what ran where and when as a Chrome trace; needs `trace_events`."""
        check(lib.sched_trace_write(self._raw, text("path", os.fsencode(path))))

    def __repr__(self) -> str:
        if self._handle is None or self._pid != os.getpid():
            return "<gpusched.Scheduler, closed>"
        stats = self.stats
        places = ", ".join(f"{device.backend}:{device.ordinal}" for device in self.devices)
        return f"<gpusched.Scheduler on {places}: {stats.queued} queued, {stats.running} running, {stats.done} done>"

    def close(self) -> None:
        """Cancels the queued tasks, asks the running ones to stop, waits for them, and ends the scheduler.

        Its tasks keep their outcomes. A callable that never returns keeps this from returning; see `shutdown`.
        A closed scheduler may be closed again. From a share (`Scheduler.shared`) others may remain: its tasks then
        run on, but its futures end as cancelled; wait for them first.

        Raises
        ------
        GpuschedError
            SCHED_E_DEADLOCK inside a task or a progress callback of this scheduler, which then goes on as before.
        """
        self.shutdown()

    def shutdown(self, timeout: float | None = None) -> None:
        """Does the same as `close` within `timeout` seconds.

        Raises
        ------
        concurrent.futures.TimeoutError
            If a callable, or a callback of a task, has not returned in time. The scheduler then accepts and starts
            no tasks; `stats` and its tasks still answer. Call this again, or give up: a scheduler that
            is never closed is closed at the end of the program.
        GpuschedError
            As `close`.
        """
        handle = self._handle
        if handle is None:
            return
        if self._pid == os.getpid():
            end = None if timeout is None else time.monotonic() + timeout

            def left() -> float | None:
                return None if end is None else max(0.0, end - time.monotonic())

            try:
                self._end(handle, left)
            except GpuschedError as error:
                # Stale: Ctrl-C interrupted an earlier call of this after the scheduler was destroyed.
                if error.status != _abi.SCHED_E_STALE:
                    raise
            forget(self._listener)
            self._completer.stop(left())
        self._handle = None
        _open.discard(self)

    def _end(self, handle: int, left: Callable[[], float | None]) -> None:
        if self._shared and self._listener is not None:
            # It may have other holders, and go on.
            self.on_progress(None)
        self._completer.collect()
        if check(lib.sched_shutdown(handle, 0)) == _abi.SCHED_PENDING:
            # The library forgets the outcomes when the scheduler ends.
            self.wait_all(left())
            self._completer.collect()
            check(wait_for(lambda ns: lib.sched_shutdown(handle, ns), left()))

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


def devices(selection: str | None = None) -> list[Device]:
    """The devices that a scheduler would use; `selection` as in GPUSCHED_DEVICES. Opens no GPU."""
    with Scheduler(devices=selection) as scheduler:
        return scheduler.devices


def _describe(job: Job, options: Mapping[str, Any]) -> tuple[_abi.sched_task_desc_t, list[object]]:
    desc = _abi.sched_task_desc_t(size=sizeof(_abi.sched_task_desc_t))
    return desc, describe(desc, job, options, OPTIONS)


def _places(function: Callable[[Item], T], items: Iterable[Item]) -> Places[Item, T]:
    return Places(function, items if isinstance(items, Sequence) else list(items))


# The workers call into Python, so they have to be gone before Python is.
_open: weakref.WeakSet[Scheduler] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for scheduler in list(_open):
        scheduler.close()

"""Callables of tasks: how the library calls them, and the calls that they may make."""

from __future__ import annotations

import contextlib
import itertools
import operator
import threading
import traceback
from collections.abc import Iterable
from ctypes import Array, byref, c_uint64, c_void_p, sizeof
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Tuple

from . import _abi, _loans
from ._fields import checked, put, real, text
from ._info import BACKENDS, filled
from ._library import Cancelled, GpuschedError, Handle, check, last_error, lib

if TYPE_CHECKING:
    from ._gather import Floats

# The exception of a callable, and its traceback.
Failure = Tuple[BaseException, Optional[TracebackType]]

OPTIONS = (
    "label",
    "device_bytes",
    "work",
    "device_mask",
    "backend_mask",
    "priority",
    "retries",
    "task_class",
    "deadline_s",
    "after",
    "idempotent",
    "ordered",
)
FLAGS = {"idempotent": _abi.SCHED_TASK_IDEMPOTENT, "ordered": _abi.SCHED_TASK_ORDERED}


class Exec(Handle):
    """The place where a callable runs: argument of the callable, valid until that returns.

    Attributes
    ----------
    task : int
        Id of the task.
    device : int
        Index of the device in its scheduler, as in `Device.index`.
    backend : str
        "cpu" or "cuda".
    ordinal : int
        Number of the device in its backend: `cupy.cuda.Device(ordinal)`, `torch.device("cuda",
        ordinal)`.
    stream : int or None
        CUDA stream (CUstream) for the callable's work; None on the CPU. The device's context is
        current on the callable's thread. The task is done when the callable has returned and the
        work on the stream has ended.
    slot : int
        Slot of the device. No two tasks run in a slot at the same time, except that while a
        callable waits for another task, that one may run in its slot.
    attempt : int
        1 for the first attempt.
    cpu_threads : int
        Threads that the task may use on the CPU device, its own included; 0 on a GPU.
    """

    def __init__(self, raw: Any, job: Job) -> None:
        # None once the callable has returned: the library may describe the thread's next task
        # there.
        self._raw: Any | None = raw
        self._scheduler = job.scheduler
        self.task: int = raw.contents.task
        self.device: int = raw.contents.device
        self.backend: str = BACKENDS[raw.contents.backend]
        self.ordinal: int = raw.contents.ordinal
        self.slot: int = raw.contents.slot
        self.attempt: int = raw.contents.attempt
        self.cpu_threads: int = raw.contents.cpu_threads
        self.stream: int | None = raw.contents.stream

    @property
    def _live(self) -> Any:
        if self._raw is None:
            message = f"the Exec of task {self.task} is unknown here: its callable has returned"
            raise GpuschedError(_abi.SCHED_E_STALE, message)
        return self._raw

    @property
    def uuid(self) -> str:
        """Identity of the device, the same in all processes and after a reboot."""
        info = filled(_abi.sched_device_info_t, lib.sched_device_info, self._scheduler, self.device)
        return info.uuid.decode(errors="replace")

    @property
    def cancelled(self) -> bool:
        """Whether the task was asked to stop.

        A long callable reads this regularly and raises `Cancelled` soon after it is true. If it
        returns instead, the task succeeds, unless it was cancelled.
        """
        return check(lib.sched_exec_cancelled(self._live)) != 0

    def report(self, fraction: float) -> None:
        """Reports the fraction of the task that is done, 0 to 1, for `Task.info` and the ETA."""
        check(lib.sched_exec_report(self._live, checked("fraction", fraction, real, "a number, 0 to 1")))

    def memory(self, size: int) -> int:
        """Allocates memory of the device until the callable returns.

        Call this on the callable's own thread. The task's `device_bytes` should include these
        bytes.

        Parameters
        ----------
        size : int
            Bytes, 1 or more.

        Returns
        -------
        int
            Address, aligned to 64 bytes; the contents are undefined. On a GPU it is memory of the
            GPU, and work on it belongs on `stream`; on the CPU device it is memory of the host.

        Raises
        ------
        MemoryError
            If the device lacks free memory. If it leaves the callable, the task is retried, alone
            on the device, then on others.
        """
        accepted = "a number of bytes below 2**64"
        count = checked("size", size, operator.index, accepted, lambda count: 0 <= count < 2**64)
        address = c_void_p()
        status = lib.sched_exec_memory(self._live, count, byref(address))
        if status == _abi.SCHED_E_MEMORY:
            raise MemoryError(last_error())
        check(status)
        assert address.value is not None
        return address.value

    def commit(self) -> None:
        """Commits this attempt; call it before you publish results.

        From then on the task can't be cancelled, and the results of other attempts do not count.

        Raises
        ------
        Cancelled
            If a cancel or another attempt came first, or this attempt was given up after its
            deadline. Discard the results and let it leave the callable.
        """
        if check(lib.sched_exec_commit(self._live)) == _abi.SCHED_CANCELLED:
            raise Cancelled()

    def __repr__(self) -> str:
        return f"<gpusched.Exec: task {self.task} on {self.backend}:{self.ordinal}, slot {self.slot}>"


def current_exec() -> Exec:
    """Returns the `Exec` of the callable that runs on this thread.

    The functions of `Scheduler.map` and `imap` learn their device from it, and so does code that is
    called from a task.

    Raises
    ------
    RuntimeError
        If no callable of a task runs on this thread.
    """
    found: Exec | None = getattr(_thread, "exec", None)
    if found is None:
        raise RuntimeError("current_exec was called outside a task: no callable runs on this thread")
    return found


def is_in_task() -> bool:
    """Returns whether a callable of a task runs on this thread."""
    return getattr(_thread, "exec", None) is not None


class Job:
    """A callable, its outcome, and the buffers that are lent to the library.

    `scheduler` is the library's handle. `dropped` is called once the library has dropped the job.
    """

    def __init__(
        self,
        scheduler: int,
        dropped: Callable[[Job], None],
        code: Callable[..., Any] = lambda: None,
        lent: Mapping[str, Floats] = MappingProxyType({}),
    ) -> None:
        if not callable(code):
            raise TypeError(f"the callable is {code!r}; accepted: a function of an `Exec`, or another callable")
        self.scheduler = scheduler
        self._dropped = dropped
        self._code: Callable[..., Any] | None = code
        self.lent: Mapping[str, Floats] | None = lent
        self.extents: list[_loans.Extent] = []
        # The `user` of its description.
        self.number = next(_numbers)
        self._id = c_uint64()
        self.value: Any = None
        # By status, and by chunk of a range: the exception that the task raises if it fails there
        # with that status, and its traceback. In the order of time.
        self.failures: dict[tuple[int, range | None], Failure] = {}
        self.idempotent = False
        # Whether the end of the task is known here.
        self.has_ended = False
        # Whether an attempt may be abandoned. The task, and those nested in the attempt, then end
        # before `drop`.
        self.may_be_abandoned = False
        self.is_dropped = False

    @property
    def code(self) -> Callable[..., Any]:
        assert self._code is not None
        return self._code

    @property
    def id(self) -> int:
        """Id of the task; 0 before the library has accepted it."""
        return self._id.value

    def failure(self, status: int) -> Failure | tuple[None, None]:
        """Returns the exception that the task raises if it fails with a status, and its
        traceback."""
        # The first exception ends a range; chunks on other threads may fail later.
        found = (failure for (of, _), failure in list(self.failures.items()) if of == status)
        return next(found, (None, None))

    def forget_failures(self, chunk: range | None) -> None:
        """Drops the failures of elements that the library computes again: they ended nothing."""
        for failure in list(self.failures):
            _, failed = failure
            if chunk is None or failed is None or (failed.start < chunk.stop and chunk.start < failed.stop):
                self.failures.pop(failure, None)

    def lend(self, id: c_uint64) -> None:
        """Registers the job for the library's calls, and lends its buffers. The library writes the
        task's id to `id`."""
        self._id = id
        jobs[self.number] = self
        _loans.lend(self.number, self.lent or {}, self.extents, may_write)

    def withdraw(self) -> None:
        """Drops the job, unless the library has dropped it."""
        if jobs.pop(self.number, None) is not None:
            self.drop()

    def drop(self) -> None:
        _loans.take_back(self.extents)
        # First the destructors of the callable, which may close the scheduler: once a job is
        # dropped, closing waits for the end of its task.
        self._code = self.lent = None
        self._dropped(self)


# Jobs that the library has not dropped, by the number that it passes as `user`.
jobs: dict[int, Job] = {}
_numbers = itertools.count(1)
_thread = threading.local()


def find(number: int) -> Job:
    return jobs[number]


def may_write(number: int) -> bool:
    """Returns whether the library may write to the arrays that are lent to a job."""
    job = jobs.get(number)
    # After the end of the task other copies may still run, but do not write.
    if job is None or (job.idempotent and job.has_ended):
        return False
    if not job.idempotent or job.id == 0:
        return True
    info = _abi.sched_task_info_t(size=sizeof(_abi.sched_task_info_t))
    # An error: its handle of the shared scheduler was closed, and the task may run on.
    known = lib.sched_task_info(job.scheduler, job.id, byref(info)) == _abi.SCHED_OK
    return not known or info.state in (_abi.SCHED_STATE_QUEUED, _abi.SCHED_STATE_RUNNING)


def run(raw: Any, number: int, chunk: range | None = None) -> int:
    """Calls the callable of a job, keeps its result or exception, and returns the library's status.

    `chunk` is the part of a range, None for another task."""
    # A callable that waits may run another one on its thread.
    outer = getattr(_thread, "exec", None)
    place: Exec | None = None
    job: Job | None = None
    try:
        job = find(number)
        job.forget_failures(chunk)
        place = _thread.exec = Exec(raw, job)
        try:
            if chunk is not None:
                job.code(place, chunk)
                return _abi.SCHED_OK
            value = job.code(place)
            # One of several copies commits, and its value is the result.
            if not job.idempotent or lib.sched_exec_commit(raw) == _abi.SCHED_OK:
                job.value = value
            return _abi.SCHED_OK
        except BaseException as error:  # noqa: BLE001: Task.result raises it again
            return _failed(raw, job, chunk, error)
    except BaseException:  # noqa: BLE001: ctypes would return an undefined status
        return _abi.SCHED_E_CALLBACK
    finally:
        if place is not None:
            place._raw = None
        _thread.exec = outer
        # The frames of a kept traceback refer to this one, and the job to the traceback.
        job = None


def _failed(raw: Any, job: Job, chunk: range | None, error: BaseException) -> int:
    """Keeps the exception of a callable, and returns the library's status."""
    if isinstance(error, Cancelled):
        return _abi.SCHED_CANCELLED
    kept = error, error.__traceback__
    if isinstance(error, MemoryError):
        _clear_frames(error)
        job.failures.setdefault((_abi.SCHED_E_MEMORY, chunk), kept)
        return _abi.SCHED_E_MEMORY
    job.failures.setdefault((_abi.SCHED_E_CALLBACK, chunk), kept)
    message = type(error).__name__
    with contextlib.suppress(Exception):
        message = "".join(traceback.format_exception_only(type(error), error)).strip()
    return int(lib.sched_exec_fail(raw, message.replace("\0", " ").encode(errors="replace")))


def _clear_frames(error: BaseException) -> None:
    """Releases the local variables of the frames in the traceback of an exception and of its
    causes. They may hold the memory that the next attempt needs."""
    errors: list[BaseException | None] = [error]
    seen: set[int] = set()
    while errors:
        found = errors.pop()
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            traceback.clear_frames(found.__traceback__)
            errors += found.__cause__, found.__context__


@_abi.sched_run_fn  # type: ignore[untyped-decorator, unused-ignore]
def run_job(raw: Any, user: int) -> int:
    return run(raw, user)


@_abi.sched_drop_fn  # type: ignore[untyped-decorator, unused-ignore]
def drop_job(user: int) -> None:
    jobs.pop(user).drop()


def tasks_of(name: str, tasks: Any) -> list[Any]:
    """Returns a list of tasks, read once."""
    found = list(tasks) if isinstance(tasks, Iterable) else [None]
    if not all(hasattr(task, "id") for task in found):
        raise TypeError(f"{name} is {tasks!r}; accepted: tasks of the scheduler, in a list or another iterable")
    return found


def ids_of(name: str, tasks: Any) -> Array[c_uint64]:
    ids = [task.id for task in tasks_of(name, tasks)]
    return (c_uint64 * len(ids))(*ids)


def describe(desc: Any, job: Job, options: Mapping[str, Any], allowed: tuple[str, ...]) -> list[object]:
    """Fills in the options of a task or a range. The caller keeps the result until the call that
    takes `desc`."""
    kept: list[object] = []
    for name, value in options.items():
        if name not in allowed:
            raise TypeError(f"unknown option {name!r}; accepted: {', '.join(allowed)}")
        if name in FLAGS:
            desc.flags |= FLAGS[name] if value else 0
            job.idempotent |= name == "idempotent" and bool(value)
            job.may_be_abandoned |= job.idempotent
        elif name == "deadline_s":
            accepted = "a positive number of seconds, at most 9e9"
            deadline_s = checked(name, value, real, accepted, lambda seconds: 0 < seconds <= 9e9)
            desc.deadline_ns = max(1, int(deadline_s * 1e9))
            job.may_be_abandoned = True
        elif name == "after":
            array = ids_of(name, value)
            kept.append(array)
            if len(array):
                desc.after, desc.after_count = array, len(array)
        elif name == "label":
            desc.label = text(name, value)
        else:
            put(desc, name, value)
    desc.user, desc.drop = job.number, drop_job
    return kept

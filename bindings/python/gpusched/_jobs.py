"""What a task needs on this side, and how a callable's end is told to the library."""

from __future__ import annotations

import itertools
import traceback
from ctypes import byref, c_uint64, c_void_p
from types import TracebackType
from typing import Any, Callable, Mapping

from . import _abi
from ._fields import put, text
from ._library import Cancelled, check, last_error, lib

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


class Exec:
    """What a running callable is told. Not to be kept after it returned."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.task: int = raw.contents.task
        self.device: int = raw.contents.device
        self.backend: int = raw.contents.backend
        self.ordinal: int = raw.contents.ordinal
        self.slot: int = raw.contents.slot
        self.attempt: int = raw.contents.attempt
        self.cpu_threads: int = raw.contents.cpu_threads
        self.stream: int | None = raw.contents.stream

    @property
    def cancelled(self) -> bool:
        """Whether the task was asked to stop; long callables look now and then, and raise Cancelled.

        One that returns all the same has ended well."""
        return check(lib.sched_exec_cancelled(self._raw)) != 0

    def report(self, done: float) -> None:
        """Tells how much of the task is done, from 0 to 1."""
        check(lib.sched_exec_report(self._raw, done))

    def memory(self, size: int) -> int:
        """Returns the address of `size` bytes of the device's memory, undefined, valid until the callable returns.

        On a GPU it is memory of the GPU, and work on it belongs on `stream`; on the CPU device, memory of the host.
        Call this on the callable's own thread, and include the bytes in the task's `device_bytes`. Raises
        MemoryError if the device does not have that much; if it leaves the callable, the task is retried, alone on
        the device and then elsewhere."""
        if not 0 <= size < 2**64:
            raise ValueError(f"size is {size}; accepted: a number of bytes below 2**64")
        address = c_void_p()
        status = lib.sched_exec_memory(self._raw, size, byref(address))
        if status == _abi.SCHED_E_MEMORY:
            raise MemoryError(last_error())
        check(status)
        assert address.value is not None
        return address.value

    def commit(self) -> None:
        """Before a result is put where others see it: from here on the task can't be cancelled, and no other
        copy of it counts. Raises Cancelled if it already was, or another copy does."""
        if check(lib.sched_exec_commit(self._raw)) == _abi.SCHED_CANCELLED:
            raise Cancelled()


class Job:
    """A callable, its outcome, buffers that are lent."""

    def __init__(
        self, dropped: Callable[[Job], None], code: Callable[..., Any] | None = None, lent: object = None
    ) -> None:
        self._code = code
        self._dropped = dropped
        self.lent = lent
        self.value: Any = None
        self.error: BaseException | None = None
        self.traceback: TracebackType | None = None
        self.idempotent = False

    @property
    def code(self) -> Callable[..., Any]:
        assert self._code is not None
        return self._code

    def drop(self) -> None:
        """Called once, when the library needs the job no more."""
        self._code = self.lent = None
        self._dropped(self)


# Jobs that the library still knows, by the number that it is given as `user`.
jobs: dict[int, Job] = {}
_numbers = itertools.count(1)


def find(number: int) -> Job:
    return jobs[number]


def told(raw: Any, job: Job, code: Callable[[], Any], counts: Callable[[], bool] = lambda: True) -> int:
    """Runs `code` for `raw`, keeps what it returns or raises, and returns the library's status."""
    try:
        value = code()
        if counts():
            job.value = value
        return _abi.SCHED_OK
    except BaseException as error:  # noqa: BLE001: raised again by Task.result
        job.error, job.traceback = error, error.__traceback__
        if isinstance(error, Cancelled):
            return _abi.SCHED_CANCELLED
        if isinstance(error, MemoryError):
            return _abi.SCHED_E_MEMORY
        message = "".join(traceback.format_exception_only(type(error), error)).strip()
        return int(lib.sched_exec_fail(raw, message.replace("\0", " ").encode(errors="replace")))


@_abi.sched_run_fn  # type: ignore[untyped-decorator, unused-ignore]
def run_job(raw: Any, user: int) -> int:
    job = find(user)
    job.error = None
    # Of several copies the value of one counts.
    return told(
        raw,
        job,
        lambda: job.code(Exec(raw)),
        lambda: not job.idempotent or bool(lib.sched_exec_commit(raw) == _abi.SCHED_OK),
    )


@_abi.sched_drop_fn  # type: ignore[untyped-decorator, unused-ignore]
def drop_job(user: int) -> None:
    jobs.pop(user).drop()


def describe(desc: Any, job: Job, options: Mapping[str, Any], allowed: tuple[str, ...]) -> list[object]:
    """Fills in a task's or a range's options; what is returned has to outlive the call that takes `desc`."""
    kept: list[object] = []
    for name, value in options.items():
        if name not in allowed:
            raise TypeError(f"unknown option {name!r}; accepted: {', '.join(allowed)}")
        if name in FLAGS:
            desc.flags |= FLAGS[name] if value else 0
            job.idempotent |= name == "idempotent" and bool(value)
        elif name == "deadline_s":
            if not 0 < value <= 9e9:
                raise ValueError(f"deadline_s is {value}; accepted: a positive number of seconds, at most 9e9")
            desc.deadline_ns = max(1, int(value * 1e9))
        elif name == "after":
            ids = [task.id for task in value]
            array = (c_uint64 * len(ids))(*ids)
            kept.append(array)
            if ids:
                desc.after, desc.after_count = array, len(ids)
        elif name == "label":
            desc.label = text(name, value)
        else:
            put(desc, name, value)
    number = next(_numbers)
    jobs[number] = job
    desc.user, desc.drop = number, drop_job
    return kept

"""The library's reports about devices, tasks and schedulers: the C ABI's structs as values."""

from __future__ import annotations

from ctypes import Structure, byref, c_uint32, sizeof
from dataclasses import dataclass, fields
from typing import Any, Callable, TypeVar

from . import _abi
from ._library import check, lib

Struct = TypeVar("Struct", bound=Structure)
Value = TypeVar("Value")

BACKENDS = {_abi.SCHED_BACKEND_CPU: "cpu", _abi.SCHED_BACKEND_CUDA: "cuda"}
HEALTH = {
    _abi.SCHED_HEALTH_GOOD: "good",
    _abi.SCHED_HEALTH_RETIRED: "retired",
    _abi.SCHED_HEALTH_BARRED: "barred",
}


def filled(kind: type[Struct], call: Callable[..., int], *arguments: Any) -> Struct:
    """Returns the struct that a call of the library fills in."""
    struct: Any = kind(size=sizeof(kind))
    check(call(*arguments, byref(struct)))
    return struct  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Device:
    """A device of a scheduler, and what ran on it so far.

    Attributes
    ----------
    index : int
        Number of the device in its scheduler, as in `Exec.device`; bit `index` of `device_mask`.
    backend : str
        "cpu" or "cuda".
    ordinal : int
        Number of the device in its backend, as `torch.device("cuda", ordinal)` takes it. Valid in
        this process only.
    name : str
        Product name.
    uuid : str
        Identity of the device, the same in all processes and after a reboot.
    pci_bus_id : str
        PCI address, such as "0000:01:00.0"; "" if the device has none.
    compute_capability : tuple of int or None
        Major and minor; None for the CPU.
    cpu_threads : int
        Threads of the CPU device; 0 for a GPU.
    total_bytes : int
        Memory.
    free_bytes : int
        Memory that was free when the device was found.
    health : str
        "good", "retired" (failed, runs no more tasks) or "barred" (closed to programs, or too old).
    slots : int
        Tasks that run at a time.
    done : int
        Attempts that succeeded here, including those that ended after another attempt at their
        task had committed.
    failed : int
        Attempts that failed here, or stopped on request.
    busy_s : float
        Time that the slots have spent in attempts that have ended, summed.
    leased_bytes : int
        Memory that is reserved for running tasks now.
    peak_bytes : int
        Largest reserved memory so far.
    """

    index: int
    backend: str
    ordinal: int
    name: str
    uuid: str
    pci_bus_id: str
    compute_capability: tuple[int, int] | None
    cpu_threads: int
    total_bytes: int
    free_bytes: int
    health: str
    slots: int
    done: int
    failed: int
    busy_s: float
    leased_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class Stats:
    """Counts of the tasks of a scheduler since its creation.

    Attributes
    ----------
    submitted : int
        Tasks that were accepted.
    queued, running : int
        Tasks that wait to start, and that run, now.
    done, failed, cancelled : int
        Tasks that succeeded, failed, and were cancelled.
    retried : int
        Attempts that followed a failed attempt.
    makespan_s : float
        Time from the first submission to the latest end so far.
    lower_bound_s : float
        Lower bound of the makespan by the measured rates. It excludes ranges and tasks that state
        nothing (no label, work, memory, ...), and is 0 if no other task has succeeded.
    """

    submitted: int
    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    retried: int
    makespan_s: float
    lower_bound_s: float


@dataclass(frozen=True)
class Progress:
    """Progress of a scheduler.

    Attributes
    ----------
    queued, running : int
        Tasks that wait to start, and that run, now.
    done, failed, cancelled : int
        Tasks that succeeded, failed, and were cancelled.
    retried : int
        Attempts that followed a failed attempt.
    elapsed_s : float
        Time since the first submission.
    eta_s : float or None
        Estimated time until all submitted tasks have ended; None: unknown.
    work_total : float
        Work of all tasks that state it.
    work_done : float
        Part of `work_total` that is done.
    """

    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    retried: int
    elapsed_s: float
    eta_s: float | None
    work_total: float
    work_done: float


@dataclass(frozen=True)
class TaskInfo:
    """Place, time and progress of a task.

    Attributes
    ----------
    device : int or None
        Index of the device where the task runs or ran last; None if it never started.
    slot : int
        Slot of that device.
    attempts : int
        Attempts that have begun.
    progress : float
        Fraction of the attempt that is done, 0 to 1, as `Exec.report` has it; of a range, of its
        elements.
    queued_s : float
        Time from the submission to the start, or until now.
    running_s : float
        Time from the start to the end, or until now.
    """

    device: int | None
    slot: int
    attempts: int
    progress: float
    queued_s: float
    running_s: float


def value(kind: type[Value], raw: Structure, **others: Any) -> Value:
    """Returns a value whose fields, except `others`, are those of a struct."""
    names = (field.name for field in fields(kind) if field.name not in others)  # type: ignore[arg-type]
    return kind(**{name: getattr(raw, name) for name in names}, **others)


def devices_of(scheduler: int) -> list[Device]:
    count = c_uint32()
    check(lib.sched_device_count(scheduler, byref(count)))
    return [_device(scheduler, index) for index in range(count.value)]


def _device(scheduler: int, index: int) -> Device:
    info = filled(_abi.sched_device_info_t, lib.sched_device_info, scheduler, index)
    stats = filled(_abi.sched_device_stats_t, lib.sched_device_stats, scheduler, index)
    is_gpu = info.backend == _abi.SCHED_BACKEND_CUDA
    return value(
        Device,
        info,
        index=index,
        backend=BACKENDS[info.backend],
        name=info.name.decode(errors="replace"),
        uuid=info.uuid.decode(errors="replace"),
        pci_bus_id=info.pci_bus_id.decode(errors="replace"),
        compute_capability=(info.compute_major, info.compute_minor) if is_gpu else None,
        health=HEALTH[stats.health],
        slots=stats.slots,
        done=stats.done,
        failed=stats.failed,
        busy_s=stats.busy_ns * 1e-9,
        leased_bytes=stats.leased_bytes,
        peak_bytes=stats.peak_bytes,
    )


def stats_of(scheduler: int) -> Stats:
    raw = filled(_abi.sched_stats_t, lib.sched_stats, scheduler)
    return value(Stats, raw, makespan_s=raw.makespan_ns * 1e-9, lower_bound_s=raw.lower_bound_ns * 1e-9)


def progress_from(raw: _abi.sched_progress_t) -> Progress:
    eta_s = raw.eta_ns * 1e-9 if raw.eta_ns >= 0 else None
    return value(Progress, raw, elapsed_s=raw.elapsed_ns * 1e-9, eta_s=eta_s)


def task_info_from(raw: _abi.sched_task_info_t) -> TaskInfo:
    device = raw.device if raw.device >= 0 else None
    times = {"queued_s": raw.queued_ns * 1e-9, "running_s": raw.running_ns * 1e-9}
    return value(TaskInfo, raw, device=device, **times)

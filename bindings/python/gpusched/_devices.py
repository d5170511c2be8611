"""The devices of a scheduler."""

from __future__ import annotations

from ctypes import byref, c_uint32, sizeof
from dataclasses import dataclass

from . import _abi
from ._library import check, lib

BACKENDS = {_abi.SCHED_BACKEND_CPU: "cpu", _abi.SCHED_BACKEND_CUDA: "cuda"}
HEALTH = {
    _abi.SCHED_HEALTH_GOOD: "good",
    _abi.SCHED_HEALTH_RETIRED: "retired",
    _abi.SCHED_HEALTH_BARRED: "barred",
}


@dataclass(frozen=True)
class Device:
    """A device of a scheduler, and what the scheduler has done on it so far."""

    index: int
    """Number in the scheduler, as `Exec.device`."""
    backend: str
    """"cpu" or "cuda"."""
    ordinal: int
    """Number in the backend, as `torch.device("cuda", ordinal)` takes it."""
    name: str
    uuid: str
    compute_capability: tuple[int, int] | None
    """None for the CPU."""
    cpu_threads: int
    """0 for a GPU."""
    total_bytes: int
    free_bytes: int
    health: str
    """"good", "retired" (failed, runs no more tasks) or "barred" (closed to programs, or too old)."""
    slots: int
    """Tasks that run at a time."""
    done: int
    """Tasks that ended well here."""
    failed: int
    """Attempts that failed here."""
    busy_s: float
    """Seconds that slots were busy, summed over the slots."""


def devices_of(scheduler: int) -> list[Device]:
    count = c_uint32()
    check(lib.sched_device_count(scheduler, byref(count)))
    return [_device(scheduler, index) for index in range(count.value)]


def _device(scheduler: int, index: int) -> Device:
    info = _abi.sched_device_info_t(size=sizeof(_abi.sched_device_info_t))
    stats = _abi.sched_device_stats_t(size=sizeof(_abi.sched_device_stats_t))
    check(lib.sched_device_info(scheduler, index, byref(info)))
    check(lib.sched_device_stats(scheduler, index, byref(stats)))
    is_gpu = info.backend == _abi.SCHED_BACKEND_CUDA
    return Device(
        index=index,
        backend=BACKENDS[info.backend],
        ordinal=info.ordinal,
        name=info.name.decode(errors="replace"),
        uuid=info.uuid.decode(errors="replace"),
        compute_capability=(info.compute_major, info.compute_minor) if is_gpu else None,
        cpu_threads=info.cpu_threads,
        total_bytes=info.total_bytes,
        free_bytes=info.free_bytes,
        health=HEALTH[stats.health],
        slots=stats.slots,
        done=stats.done,
        failed=stats.failed,
        busy_s=stats.busy_ns * 1e-9,
    )

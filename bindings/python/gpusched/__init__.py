"""Python on top of the C ABI of gpusched: ctypes, nothing compiled; numpy where arrays are.

    with gpusched.Scheduler() as scheduler:
        task = scheduler.submit(lambda exec: 6 * 7)
        print(task.result())

A callable runs on a thread of the scheduler; what it raises comes out of `result()` as it
was. The library is found through $GPUSCHED_LIBRARY, beside this package, or by the
system's loader. The raw C ABI is `gpusched.abi` and `gpusched.lib`.
"""

from . import _abi as abi
from ._devices import Device
from ._fd import Gather, Model, Shot, WAVELETS, wavelet
from ._library import Cancelled, GpuschedError, lib, status_name
from ._jobs import Exec
from ._log import log_to
from ._scheduler import Scheduler, devices
from ._tasks import Task

__version__: str = lib.sched_version().decode()

__all__ = [
    "Cancelled",
    "Device",
    "Exec",
    "Gather",
    "GpuschedError",
    "Model",
    "Scheduler",
    "Shot",
    "Task",
    "WAVELETS",
    "abi",
    "devices",
    "lib",
    "log_to",
    "status_name",
    "wavelet",
]

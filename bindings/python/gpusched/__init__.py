"""Runs independent jobs, seismic shots above all, on the GPUs of a machine.

    with gpusched.Scheduler() as scheduler:
        task = scheduler.submit(lambda exec: 6 * 7)
        print(task.result())

Tasks are `concurrent.futures.Future` objects. Their callables run on threads of the library, and
`result` raises the exceptions that leave them. Names end with their units: _s, _m, _hz, _bytes;
timeouts are in seconds.

numpy is needed for shots only. The library is found through $GPUSCHED_LIBRARY, beside this package,
or by the system's loader. `gpusched.abi` and `gpusched.lib` are the C ABI as it is.
"""

from . import _abi as abi
from ._fd import WAVELETS, Model, Shot, wavelet
from ._gather import Gather, ShotSize
from ._info import Device, Progress, Stats, TaskInfo
from ._jobs import Exec, current_exec
from ._library import Cancelled, GpuschedError, lib, status_name
from ._log import log_to
from ._parallel import parallel
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
    "Progress",
    "Scheduler",
    "Shot",
    "ShotSize",
    "Stats",
    "Task",
    "TaskInfo",
    "WAVELETS",
    "abi",
    "current_exec",
    "devices",
    "lib",
    "log_to",
    "parallel",
    "status_name",
    "wavelet",
]

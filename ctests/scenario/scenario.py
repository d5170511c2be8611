"""How the library behaves, told line by line, as scenario.c tells it."""

import ctypes
import time
from typing import Any, Callable

import gpusched
import numpy as np
from gpusched import abi

ran = 0


def hello(exec: gpusched.Exec) -> None:
    global ran
    ran += exec.attempt


@abi.sched_run_fn
def fail(_exec: Any, _user: Any) -> int:
    return -7


def until_cancelled(exec: gpusched.Exec) -> None:
    while not exec.cancelled:
        time.sleep(0.001)
    raise gpusched.Cancelled()


def told(call: Callable[[], object]) -> str:
    """The status that a call ends with, by name."""
    try:
        call()
    except gpusched.GpuschedError as error:
        return error.name
    except TimeoutError:
        return "SCHED_PENDING"
    return "SCHED_OK"


scheduler = gpusched.Scheduler(devices="cpu", slots=1)
print("create: SCHED_OK")

task = scheduler.submit(hello)
print(f"hello: {told(task.wait)}, ran {ran}")

# A number cannot come from a Python callable: this one task goes the raw way.
desc = abi.sched_task_desc_t(size=ctypes.sizeof(abi.sched_task_desc_t), run=fail)
number = ctypes.c_uint64()
gpusched.lib.sched_submit(scheduler._raw, ctypes.byref(desc), ctypes.byref(number))
failed: gpusched.Task[None] = gpusched.Task(scheduler, number.value)
print(f"fail: {told(failed.wait)}, {failed.error}")

running, queued = scheduler.submit(until_cancelled), scheduler.submit(hello)
print(f"not yet: {told(lambda: running.wait(0))}")
queued.cancel()
running.cancel()
print(f"cancel: {told(running.wait)} {told(queued.wait)}, ran {ran}")

failed.release()
print(f"stale: {told(lambda: failed.wait(0))}")

stats = scheduler.stats
print(
    f"stats: {stats.submitted} submitted, {stats.done} done, {stats.failed} failed, {stats.cancelled} cancelled"
)

model = gpusched.Model(np.full((8, 8, 8), 2000.0), spacing=10.0)
print("model: SCHED_OK")
shot = gpusched.Shot(nt=10, dt=1e-3, frequency=30, record_every=2, source=(4, 4, 2), plane_iz=1)
traces, samples = scheduler.submit_shot(model, shot).wait().record.shape
print(f"shot: SCHED_OK, {traces} traces, {samples} samples")
outside = gpusched.Shot(nt=10, dt=1e-3, frequency=30, record_every=2, source=(4, 4, 8), plane_iz=1)
try:
    scheduler.submit_shot(model, outside)
except gpusched.GpuschedError as error:
    print(f"outside: {error.name}\n{error.message}")

model.close()
print(f"destroy: {told(scheduler.close)}")

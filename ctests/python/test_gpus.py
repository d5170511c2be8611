"""Shots on virtual GPUs (ctests/doubles/fakecuda), in processes of their own."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY = Path(os.environ["GPUSCHED_LIBRARY"]).resolve()
# The virtual driver, which cargo builds beside the library.
DRIVER = LIBRARY.parent / "libfakecuda_driver.so"
TWO = "dev=mem:1G,ctx:2M;dev=mem:1G,ctx:2M"


def output(code: str, faults: str) -> str:
    """Runs a program with two GPUs, calls of which fail as FAKECUDA_FAULTS says; returns its
    output."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            os.symlink(DRIVER, os.path.join(folder, name))
        others = {key: value for key, value in os.environ.items() if not key.startswith(("GPUSCHED_", "CUDA_"))}
        virtual = {"LD_LIBRARY_PATH": folder, "FAKECUDA": TWO, "FAKECUDA_FAULTS": faults}
        own = {"GPUSCHED_LIBRARY": str(LIBRARY), "GPUSCHED_LEASE_DIR": folder + "/leases", "XDG_CACHE_HOME": folder}
        command = [sys.executable, "-Wignore", "-c", code]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env={**others, **virtual, **own}
        )
    assert ended.returncode == 0, ended
    return ended.stdout


SHOTS = """
import gpusched, numpy, os
from gpusched import _jobs
model = gpusched.Model(numpy.full((4, 4, 4), 2000.0), spacing_m=10.0)
scheduler = gpusched.Scheduler("cuda")

def submit(**more):
    shot = gpusched.Shot(nt=2, dt_s=1e-3, source=(1, 2, 2), frequency_hz=100.0, receivers=[(1, 1, 1)])
    return scheduler.submit_shot(model, shot, **more)
"""


class Shots(unittest.TestCase):
    def test_gpu_that_hangs_does_not_block_shots(self) -> None:
        code = """
tasks = [submit(record=numpy.zeros((1, 2), numpy.float32)) for _ in range(8)]
records = [task.result(40).record for task in tasks]
print(all((record == records[0]).all() for record in records), max(task.info.attempts for task in tasks))
print([job.lent is not None for job in _jobs.jobs.values()])
# The copy on the hung GPU writes to its array no more.
print(all((submit(record=record).result(40).record == records[0]).all() for record in records), flush=True)
os._exit(0)  # Not after ten seconds, when the GPU is retired.
"""
        self.assertEqual(output(SHOTS + code, "0:launch:3:hang"), "True 2\n[True]\nTrue\n")

    def test_program_ends_while_a_cancelled_shot_hangs(self) -> None:
        code = """
import ctypes, json, time
from gpusched import _scheduler
_scheduler.END_S = 2.0
scheduler = gpusched.Scheduler("cuda:0")
for shot in [submit() for _ in range(3)]:
    shot.add_done_callback(lambda shot: print(shot.state, flush=True))
driver, text = ctypes.CDLL("libcuda.so.1"), ctypes.create_string_buffer(1 << 16)

def launches():
    driver.fakecuda_report(text, ctypes.c_size_t(len(text)))
    return json.loads(text.value)["gpus"][0]["launches"]

# Until the second shot hangs.
while not scheduler.stats.done or launches() < 7:
    time.sleep(0.01)
scheduler.on_progress(lambda progress: None, 0.001)
"""
        self.assertEqual(output(SHOTS + code, "0:launch:7:hang"), "done\ncancelled\n")

    def test_exception_of_a_failed_gpu_does_not_replace_that_of_the_range(self) -> None:
        code = """
import gpusched, threading
failed, both = [], threading.Barrier(2, timeout=30)

def compute(exec, chunk):
    if chunk[0] in failed:
        raise ValueError("the model is bad")
    if exec.attempt == 1 and not failed and chunk[0] < 2:
        both.wait()
    if exec.ordinal == 0:
        failed.append(chunk[0])
        exec.memory(1000)

with gpusched.Scheduler("cuda") as scheduler:
    task = scheduler.submit_range(0, 64, compute, grain=1)
    print(repr(task.exception(40)), len(failed))
"""
        self.assertEqual(output(code, "0:alloc:1+:719"), "ValueError('the model is bad') 1\n")


if __name__ == "__main__":
    unittest.main()

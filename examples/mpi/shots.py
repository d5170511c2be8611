"""The survey of shots.c in Python: a pool of MPI processes, each with one scheduler over all GPUs
of its node.

    mpirun -n 5 python3 -m mpi4py.futures shots.py FOLDER

Process 0 hands out the shots, the others compute them: start one more than there are nodes. A
process computes the shots of a call at the same time. Each record is written to
FOLDER/shot_0001.bin, whole or not at all; shots whose file is there are not computed again. A shot
that fails is computed again, by the process that is free.
"""

import dataclasses
import functools
import itertools
import os
import sys
from pathlib import Path

import gpusched
import numpy as np
from mpi4py.futures import MPIPoolExecutor

N, SHOTS, ROUNDS = 32, 16, 3
# Shots of a call: a multiple of the slots of a node, because the next call begins when all have
# ended.
BATCH = 2


@functools.lru_cache(maxsize=None)
def node() -> tuple[gpusched.Model, gpusched.Scheduler]:
    """Returns the model and the scheduler of this process."""
    vp = np.full((N, N, N), 1800.0, dtype=np.float32)
    vp[:, :, N // 2 :] = 2600.0
    return gpusched.Model(vp, spacing_m=10.0), gpusched.Scheduler()


def path_of(folder: str, shot: int) -> Path:
    return Path(folder, f"shot_{shot + 1:04}.bin")


def write_whole(path: Path, record: np.ndarray) -> None:
    """Writes a file that is whole or absent."""
    part = path.with_suffix(".bin.part")
    with open(part, "wb") as file:
        file.write(record.tobytes())
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def compute(folder: str, shots: list[int]) -> list[int]:
    """Computes shots on the node of this process, and returns those that failed."""
    model, scheduler = node()
    first = gpusched.Shot(nt=120, dt_s=1e-3, frequency_hz=20, source=(0, N // 2, 2), plane_iz=3)
    sources = [(1 + 30 * shot // SHOTS, N // 2, 2) for shot in shots]
    tasks = [scheduler.submit_shot(model, dataclasses.replace(first, source=source)) for source in sources]
    failed = []
    for shot, task in zip(shots, tasks):
        try:
            write_whole(path_of(folder, shot), task.result().record)
        except gpusched.GpuschedError as error:
            print(f"shot {shot + 1}: {error}", file=sys.stderr)
            failed.append(shot)
    return failed


def main(folder: str) -> int:
    left = [shot for shot in range(SHOTS) if not path_of(folder, shot).exists()]
    print(f"{len(left)} of {SHOTS} shots are to be computed")
    with MPIPoolExecutor() as pool:
        for _ in range(ROUNDS):
            batches = [left[first : first + BATCH] for first in range(0, len(left), BATCH)]
            left = sorted(itertools.chain(*pool.map(compute, itertools.repeat(folder), batches, unordered=True)))
    print(f"{len(left)} shots failed")
    return 1 if left else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: shots.py FOLDER")
    sys.exit(main(sys.argv[1]))

"""The survey of examples/c/survey.c: eight shots over two layers.

    python3 survey.py RECORD.bin
"""

import dataclasses
import sys

import gpusched
import numpy as np

NX, NY, NZ, SHOTS, EVERY = 32, 24, 28, 8, 2


def main(path: str) -> None:
    vp = np.full((NY, NX, NZ), 1800.0, dtype=np.float32)
    rho = np.full((NY, NX, NZ), 2000.0, dtype=np.float32)
    vp[:, :, 14:] = 2600.0
    rho[:, :, 14:] = 2200.0
    first = gpusched.Shot(
        nt=120, dt_s=1e-3, frequency_hz=20, source=(2, NY // 2, 2), plane_iz=3, plane_every=(EVERY, EVERY)
    )
    with gpusched.Model(vp, spacing_m=10.0, rho=rho) as model, gpusched.Scheduler() as scheduler:
        shots = [dataclasses.replace(first, source=(2 + 4 * i, NY // 2, 2)) for i in range(SHOTS)]
        tasks = [scheduler.submit_shot(model, shot) for shot in shots]
        records = np.stack([task.result().record for task in tasks])
    records.tofile(path)
    _, ny, nx, samples = records.shape
    print(f"{SHOTS} shots of {ny * nx} traces and {samples} samples")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: survey.py RECORD.bin")
    main(sys.argv[1])

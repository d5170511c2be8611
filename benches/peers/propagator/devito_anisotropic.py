"""A shot in Devito with Devito's pseudo-acoustic operators, of constant density, centred, of space
order 8:

- `vti`: epsilon and delta
- `tti`: epsilon, delta, tilt and azimuth

    devito_anisotropic.py vti|tti N LAYER

Input and output are those of devito_shot.py. The operators are those of Devito's
`examples.seismic.tti`.
"""

import sys
import time

import numpy as np
from examples.seismic import AcquisitionGeometry, SeismicModel
from examples.seismic.tti.wavesolver import AnisotropicWaveSolver

SPACING = 10.0


def solver(form: str, n: int, width: int, steps: int) -> AnisotropicWaveSolver:
    def depths(top: float, step: float) -> np.ndarray:
        """Returns values that grow with depth in steps of ten cells."""
        return np.broadcast_to((top + step * (np.arange(n) // 10 % 20)).astype(np.float32), (n,) * 3).copy()

    angles = {"theta": depths(0.1, 0.03), "phi": depths(0.3, 0.02)} if form == "tti" else {}
    model = SeismicModel(
        space_order=8, origin=(0.0,) * 3, shape=(n,) * 3, spacing=(SPACING,) * 3, nbl=width, bcs="damp",
        dtype=np.float32, vp=depths(1.5, 0.125), epsilon=depths(0.1, 0.005), delta=depths(0.02, 0.003), **angles,
    )
    line = np.full((n, 3), n * SPACING / 2)
    line[:, 0], line[:, 2] = np.arange(n) * SPACING, 0.0
    end = float(model.critical_dt) * (steps + 2)
    source = np.full((1, 3), n * SPACING / 2)
    geometry = AcquisitionGeometry(model, line, source, 0.0, end, f0=0.015, src_type="Ricker")
    return AnisotropicWaveSolver(model, geometry, space_order=8, kernel="centered")


def main() -> None:
    form, n, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # Capacity of source and receivers in samples.
    shot = solver(form, n, width, 1000)
    op = shot.op_fwd(False)
    op.cfunction  # Compiled.
    print("ready", flush=True)
    sys.stdin.readline()
    shot.forward(time_m=1, time_M=10, autotune=("aggressive", "preemptive"))
    tuned = op._state["autotuning"][-1]["tuned"]
    print(tuned, flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        _, u, _, summary = shot.forward(time_m=1, time_M=int(line), autotune="off", **tuned)
        whole = time.perf_counter() - begin
        loop = sum(entry.time for entry in summary.values())
        print(f"{loop:.6f} {whole:.6f} {bool(np.isfinite(u.data).all())}", flush=True)


main()

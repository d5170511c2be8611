"""A shot in Deepwave's `acoustic`: pressure and velocity in a medium of variable density, accuracy
8, with Deepwave's PML.

    deepwave_shot.py N LAYER THREADS

Reads numbers of steps, one per line, and prints the seconds that they took. A call pads the model
and allocates its fields before the first step. Calls of one step before and after measure that
time, which is subtracted.
"""

import sys
import time

import deepwave
import torch

SPACING, STEP = 10.0, 1e-3


def main() -> None:
    n, width = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(int(sys.argv[3]))
    depth = torch.arange(n) // 10 % 20
    vp = (1500.0 + 125.0 * depth).float().expand(n, n, n).contiguous()
    rho = (1000.0 + 70.0 * depth).float().expand(n, n, n).contiguous()
    source = torch.tensor([[[n // 2, n // 2, n // 2]]])
    line = torch.stack([torch.arange(n), torch.full((n,), n // 2), torch.zeros(n, dtype=torch.long)], -1)[None]

    def call(steps: int) -> float:
        wavelet = deepwave.wavelets.ricker(15.0, steps, STEP, 1 / 15.0)[None, None]
        begin = time.perf_counter()
        with torch.no_grad():
            out = deepwave.acoustic(
                vp, rho, SPACING, STEP, source_amplitudes_volume_rate=wavelet, source_locations_volume_rate=source,
                receiver_locations_p=line, accuracy=8, pml_width=width, pml_freq=15.0, max_vel=float(vp.max()),
                check_output_finite=False,
            )
        took = time.perf_counter() - begin
        del out
        return took

    call(2)
    print("ready", flush=True)
    for asked in sys.stdin:
        steps = int(asked)
        before, whole, after = call(1), call(steps + 1), call(1)
        print(f"{whole - (before + after) / 2:.6f} {whole:.6f}", flush=True)


main()

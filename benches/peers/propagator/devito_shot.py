"""A shot in Devito, of space order 8, with Devito's plain damping layer:

- `first`: pressure and velocity in a medium of variable density
- `second`: the pressure alone in a medium of constant density
- `adjoint`: the pressure alone in a medium of variable density, the self-adjoint operator;
  the physics of this library

    devito_shot.py first|second|adjoint N LAYER

Tunes its block sizes after the first line of input, and prints them. Each further line is a number
of steps. The answer is the seconds of the time loop as Devito measures them, and of the whole call.
"""

import sys
import time

import numpy as np
from devito import (
    Eq, Function, Grid, NODE, Operator, SparseTimeFunction, TimeFunction, VectorTimeFunction, div, grad, solve,
)

SPACING, STEP = 10.0, 1e-3


def layer(grid: Grid, inner: int, width: int, name: str) -> Function:
    """Returns the damping profile of the examples of Devito: 0 inside, growing outwards."""
    damp = Function(name=name, grid=grid, space_order=8)
    values = np.zeros(grid.shape, dtype=np.float32)
    top = 1.5 * np.log(1000.0) / 40.0
    for axis in range(3):
        for depth in range(width):
            pos = (width - depth) / width
            value = top * (pos - np.sin(2 * np.pi * pos) / (2 * np.pi))
            for at in (depth, inner + 2 * width - 1 - depth):
                plane = [slice(None)] * 3
                plane[axis] = at
                values[tuple(plane)] += value
    damp.data[:] = values
    return damp


def depths(grid: Grid, top: float, step: float) -> np.ndarray:
    """Returns velocities that grow with depth in steps of ten cells."""
    return np.broadcast_to((top + step * (np.arange(grid.shape[2]) // 10 % 20)).astype(np.float32), grid.shape)


def operator(form: str, n: int, width: int, steps: int):
    grid = Grid(shape=(n + 2 * width,) * 3, extent=((n + 2 * width - 1) * SPACING,) * 3, dtype=np.float32)
    dt = grid.stepping_dim.spacing
    vp, rho = depths(grid, 1500.0, 125.0), depths(grid, 1000.0, 70.0)
    damp = layer(grid, n, width, "damp")
    if form == "first":
        p = TimeFunction(name="p", grid=grid, staggered=NODE, space_order=8, time_order=1)
        v = VectorTimeFunction(name="v", grid=grid, space_order=8, time_order=1)
        b = Function(name="b", grid=grid, space_order=8)
        kappa = Function(name="kappa", grid=grid, space_order=8)
        b.data[:], kappa.data[:] = 1.0 / rho, rho * vp * vp
        damp.data[:] = 1.0 - damp.data[:]
        equations = [
            Eq(v.forward, damp * (v - dt * b * grad(p))),
            Eq(p.forward, damp * (p - dt * kappa * div(v.forward))),
        ]
    elif form == "adjoint":
        p = TimeFunction(name="p", grid=grid, space_order=8, time_order=2)
        b, v = (Function(name=name, grid=grid, space_order=8) for name in ("b", "v"))
        b.data[:], v.data[:] = 1.0 / rho, vp
        damp.data[:] /= STEP
        flux = sum(
            (b * getattr(p, f"d{axis.name}")(x0=axis + axis.spacing / 2)).diff(axis, x0=axis - axis.spacing / 2)
            for axis in grid.dimensions
        )
        update = 2 * p - p.backward + dt * damp * (p.backward - p) + dt**2 * v**2 / b * flux
        equations = [Eq(p.forward, update)]
    else:
        p = TimeFunction(name="p", grid=grid, space_order=8, time_order=2)
        m = Function(name="m", grid=grid, space_order=8)
        m.data[:] = 1.0 / (vp * vp)
        damp.data[:] /= STEP
        damp.data[:] *= m.data[:]
        equations = [Eq(p.forward, solve(m * p.dt2 - p.laplace + damp * p.dt, p.forward))]
    times = np.arange(steps + 2) * STEP
    arg = (np.pi * 15.0 * (times - 1 / 15.0)) ** 2
    middle = (n / 2 + width) * SPACING
    source = SparseTimeFunction(name="src", grid=grid, npoint=1, nt=steps + 2, coordinates=np.full((1, 3), middle))
    source.data[:, 0] = (1 - 2 * arg) * np.exp(-arg)
    line = np.full((n, 3), middle)
    line[:, 0] = (np.arange(n) + width) * SPACING
    line[:, 2] = width * SPACING
    receivers = SparseTimeFunction(name="rec", grid=grid, npoint=n, nt=steps + 2, coordinates=line)
    sampling = source.inject(field=p.forward, expr=source * dt) + receivers.interpolate(expr=p)
    return Operator(equations + sampling, opt="advanced", subs=grid.spacing_map), p


def main() -> None:
    form, n, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # Capacity of source and receivers in samples.
    steps = 1000
    op, p = operator(form, n, width, steps)
    first = 1
    op.cfunction  # Compiled.
    print("ready", flush=True)
    sys.stdin.readline()
    op.apply(time_m=first, time_M=first + 9, dt=STEP, autotune=("aggressive", "preemptive"))
    tuned = op._state["autotuning"][-1]["tuned"]
    print(tuned, flush=True)
    for line in sys.stdin:
        asked = int(line)
        begin = time.perf_counter()
        summary = op.apply(time_m=first, time_M=first + asked - 1, dt=STEP, autotune="off", **tuned)
        whole = time.perf_counter() - begin
        loop = sum(entry.time for entry in summary.values())
        finite = bool(np.isfinite(p.data).all())
        print(f"{loop:.6f} {whole:.6f} {finite}", flush=True)


main()

"""A shot loop as tasks, as in examples/c/shot_loop.c: shots run in any order, and their traces are
appended to one SU file in the order of the shots. A shot that fails is reported, and the file has
no trace of it.

    python3 shot_loop.py LOOP.su TASKS.su

writes the file twice, by a loop and by tasks, with the same bytes. docs/porting.md explains it.
"""

from __future__ import annotations

import functools
import sys
from typing import BinaryIO

import gpusched
import numpy as np

NX, NZ, NT, SHOTS, APERTURE, EVERY = 320, 80, 250, 9, 60, 4
TRACE = np.dtype(
    {
        "names": ["fldr", "tracf", "sx", "gx", "ns", "dt", "samples"],
        "formats": ["i4", "i4", "i4", "i4", "u2", "u2", ("f4", NT)],
        "offsets": [8, 12, 72, 80, 114, 116, 240],
    }
)


def window(source: int) -> range:
    """Returns the cells of a shot along x."""
    return range(max(0, source - APERTURE), min(NX, source + APERTURE))


def source_of(number: int) -> int:
    return NX + 10 if number == 4 else 35 * number - 15  # Shot 4 fails.


def compute(number: int, exec: gpusched.Exec | None = None) -> bytes:
    """Returns the traces of a shot as the file has them."""
    source = source_of(number)
    if source >= NX:
        raise ValueError("the source is outside the model")
    first, width = window(source).start, len(window(source))
    now, last = np.zeros((2, width, NZ), dtype=np.float32)
    courant = np.where(np.arange(NZ) < NZ // 2, 0.4, 0.6).astype(np.float32)[1:-1]  # v dt / dx
    traces = np.zeros(width // EVERY, dtype=TRACE)
    traces["fldr"], traces["tracf"] = number, np.arange(len(traces)) + 1
    traces["sx"], traces["gx"] = 10 * source, 10 * (first + EVERY * np.arange(len(traces)))
    traces["ns"], traces["dt"] = NT, 2000
    for step in range(NT):
        if exec is not None and exec.cancelled:
            raise gpusched.Cancelled
        total = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * now[1:-1, 1:-1]
        last[1:-1, 1:-1] = 2 * now[1:-1, 1:-1] - last[1:-1, 1:-1] + courant**2 * total
        now, last = last, now
        t = 0.1 * step - 3
        now[source - first, 2] += (1 - 2 * t**2) * np.exp(-(t**2))
        traces["samples"][:, step] = now[: EVERY * len(traces) : EVERY, 4]
    return traces.tobytes()


# begin before
def loop(file: BinaryIO) -> None:
    for number in range(1, SHOTS + 1):
        try:
            file.write(compute(number))
        except ValueError as error:
            print(f"shot {number}: {error}", file=sys.stderr)


# end before


# begin after
def tasks(file: BinaryIO) -> None:
    with gpusched.Scheduler(devices="cpu", slots=2) as scheduler:
        submitted = []
        for number in range(1, SHOTS + 1):
            width = len(window(source_of(number)))
            run = functools.partial(compute, number)  # It is called with the task's Exec.
            submitted.append(scheduler.submit(run, work=width, device_bytes=8 * NZ * width))
        for number, task in enumerate(submitted, start=1):
            try:
                file.write(task.result())
            except ValueError as error:
                print(f"shot {number} failed: {error}", file=sys.stderr)


# end after


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: shot_loop.py LOOP.su TASKS.su")
    for path, write in zip(sys.argv[1:], (loop, tasks)):
        with open(path, "wb") as file:
            write(file)

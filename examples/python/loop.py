"""Parallel loops: chunks of a range, and a map with its results in order."""

import gpusched
import numpy as np

COUNT = 100_000
squares = np.zeros(COUNT)


def square(exec: gpusched.Exec, chunk: range) -> None:
    """Runs for several chunks at the same time; each writes to its own elements."""
    squares[chunk.start : chunk.stop] = np.arange(chunk.start, chunk.stop, dtype=float) ** 2


with gpusched.Scheduler(slots=2) as scheduler:
    scheduler.submit_range(0, COUNT, square).result()
    print(f"sum of squares: {squares.sum():.0f}")

    rows = squares.reshape(1000, 100)
    assert scheduler.map(np.sum, rows) == [row.sum() for row in rows]

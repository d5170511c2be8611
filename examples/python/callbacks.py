"""Custom code as tasks: a sum over pieces, and a task that fails with an exception."""

import functools

import gpusched


def add(exec: gpusched.Exec, piece: range) -> int:
    if exec.cancelled:
        raise gpusched.Cancelled
    return sum(piece)


def fail(exec: gpusched.Exec) -> None:
    raise RuntimeError(f"no luck in attempt {exec.attempt}")


with gpusched.Scheduler(slots=2) as scheduler:
    pieces = [range(i * 1000, (i + 1) * 1000) for i in range(16)]
    tasks = [scheduler.submit(functools.partial(add, piece=piece), label="piece") for piece in pieces]
    print(f"sum of 0 to 15999: {sum(task.result() for task in tasks)}")

    task = scheduler.submit(fail)
    try:
        task.result()
    except RuntimeError as error:
        print(f"{type(error).__name__}: {error}")

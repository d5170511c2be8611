"""Prints the error that a worker process raises: pool_errors.py POOL METHOD CASE.

POOL is `pool` or `executor`, METHOD a start method of multiprocessing, CASE a function below.
"""

import concurrent.futures
import multiprocessing
import sys

import gpusched


def memory(_: int) -> None:
    with gpusched.Scheduler(devices="cpu") as scheduler:
        scheduler.submit(lambda exec: None, device_bytes=2**62).result()


def forked(_: int) -> None:
    gpusched.Scheduler.shared()


def cancelled(_: int) -> None:
    raise gpusched.Cancelled("the survey was stopped")


def main() -> None:
    pool, method, case = sys.argv[1:]
    code = {"memory": memory, "forked": forked, "cancelled": cancelled}[case]
    if case == "forked":
        # It stays open: a child can't use a scheduler that its parent holds.
        held = gpusched.Scheduler.shared()
        held.submit(lambda exec: None).result()
    context = multiprocessing.get_context(method)
    try:
        if pool == "pool":
            with context.Pool(1) as workers:
                workers.map(code, [0])
        else:
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
                executor.submit(code, 0).result()
    except Exception as error:
        print(type(error).__name__, getattr(error, "name", None), error, sep="|")


if __name__ == "__main__":
    main()

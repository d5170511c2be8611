"""Runs the steps of a level and prints their outcomes; see ctests/run."""

import sys

# Ctrl-C before `main` handles it ends the process without a traceback.
sys.excepthook = lambda kind, *rest: (None if kind is KeyboardInterrupt else sys.__excepthook__(kind, *rest))

import argparse
import fcntl
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TextIO

import steps as table
from counting import Counts
from schedule import ROOT, Result, Schedule, excerpt, read

TARGET = ROOT / "target" / "ctests"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ROW = "{:<24} {:>7} {:>7} {:>7} {:>8} {:>8}"


def lock() -> TextIO:
    """Waits until no other run works in this checkout; the lock ends with the returned file."""
    TARGET.mkdir(parents=True, exist_ok=True)
    file = open(TARGET / "lock", "a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        other = file.read().strip()
        print(f"waiting for process {other}, which runs the tests in {ROOT}", flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def interrupt(_signal: int, _frame: object) -> None:
    """Ends the run. A further signal must not interrupt it, or steps would continue to run."""
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def print_row(result: Result) -> None:
    c = result.counts
    times = f"{result.wall:.1f}", f"{result.cpu:.1f}"
    print(ROW.format(result.name, c.passed, c.failed, c.skipped, *times), flush=True)


def report(result: Result) -> None:
    """Prints the line of a finished step, and the end of its log if it failed."""
    print_row(result)
    if result.wrong:
        print("---", result.name + ":", "; ".join(result.wrong))
        if result.log:
            print(excerpt(read(result.log)))
            print(f"--- all of it: {result.log}", flush=True)


def print_summary(results: list[Result], wall: float, strict: bool) -> int:
    """Prints the slowest steps and the sums; returns the exit status."""
    print("\nsteps by CPU time:")
    for result in sorted(results, key=lambda result: -result.cpu):
        print_row(result)
    failed = [result for result in results if result.wrong]
    for result in failed:
        print(f"FAILED {result.name}: {'; '.join(result.wrong)}")
    total = sum((result.counts for result in results), Counts())
    if strict and total.skipped:
        print("skipped tests, and GPUSCHED_TEST_STRICT is set")
    print(f"{wall:.0f} s, {sum(result.cpu for result in results):.0f} CPU seconds")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if failed or total.failed or (strict and total.skipped) else 0


def test_environment(level: str) -> dict[str, str]:
    """Returns the environment of all steps: the caller's, without settings of library and tests."""
    own, strict = ("GPUSCHED_", "FAKECUDA", "CUDA_", "FUZZ_", "CARGO_BUILD_", "UPDATE"), "GPUSCHED_TEST_STRICT"
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(own) or name == strict
    } | {
        "CARGO_TARGET_DIR": str(ROOT / "target"),
        "GPUSCHED_TEST_LEVEL": level,
        "CARGO_TERM_COLOR": "never",
        "PYTHONDONTWRITEBYTECODE": "1",
        "RUST_TEST_THREADS": "2",
        # CMake builds the library with the same setting: one build for both. `quick` shares its
        # build with `cargo test`.
    } | ({} if level == "quick" else {"GPUSCHED_SONAME": table.soname()})


def main() -> int:
    parser = argparse.ArgumentParser(prog="ctests/run", description="Runs the tests of every language.")
    parser.add_argument("level", nargs="?", default="full", choices=table.LEVELS)
    level = str(parser.parse_args().level)
    capacity = len(os.sched_getaffinity(0))
    strict = os.environ.get("GPUSCHED_TEST_STRICT", "0") not in ("", "0")
    try:
        for each in SIGNALS:
            signal.signal(each, interrupt)
        held = lock()
        steps = table.steps(level, max(1, capacity // 2))
        shutil.rmtree(table.LOGS, ignore_errors=True)
        Path(table.LOGS).mkdir()
        begun = time.monotonic()
        print(f"{level}: {len(steps)} steps and the test programs on {capacity} cores;", end=" ")
        print(f"logs: {table.LOGS}")
        print(ROW.format("step", "passed", "failed", "skipped", "s", "CPU s"), flush=True)
        environment = test_environment(level)
        results = Schedule(steps, capacity, table.LOGS, environment, strict, report).run()
        held.close()
        return print_summary(results, time.monotonic() - begun, strict)
    except KeyboardInterrupt:
        print("interrupted: all steps were killed")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Nobody reads the results.
        return 1
    except OSError as error:
        print(f"{error}; {TARGET} has to be writable")
        return 2


if __name__ == "__main__":
    sys.exit(main())

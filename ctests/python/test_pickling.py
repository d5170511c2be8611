"""Errors of the package cross process boundaries and survive copies."""

import copy
import os
import pickle
import signal
import subprocess
import sys
import unittest
from pathlib import Path

import gpusched
from gpusched import abi

# A worker whose error can't be unpickled leaves `Pool.map` waiting for ever.
LIMIT_S = 60


class OfAShot(gpusched.GpuschedError):
    """A user's subclass, whose constructor takes other arguments."""

    def __init__(self, shot: int) -> None:
        super().__init__(abi.SCHED_E_UNSTABLE, f"shot {shot} blows up")
        self.shot = shot


def errors() -> list[gpusched.GpuschedError]:
    return [
        gpusched.GpuschedError(abi.SCHED_E_MEMORY, "too little memory"),
        gpusched.Cancelled(),
        gpusched.Cancelled("the survey was stopped"),
        OfAShot(7),
    ]


def raised_by_worker(pool: str, method: str, case: str) -> str:
    """Returns the output of `pool_errors.py`. A hang ends the program, its workers and the test."""
    code = [sys.executable, str(Path(__file__).with_name("pool_errors.py")), pool, method, case]
    # Output goes to pipes, which workers that outlive the program would keep open.
    with subprocess.Popen(
        code, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            printed, complaints = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, complaints
    return printed.strip()


class Pickling(unittest.TestCase):
    def test_pickled_or_copied_error_keeps_its_type_and_attributes(self) -> None:
        with_attribute = errors()[0]
        with_attribute.shot = 12  # type: ignore[attr-defined]
        for error in [*errors(), with_attribute]:
            protocols = range(pickle.HIGHEST_PROTOCOL + 1)
            pickled = [pickle.loads(pickle.dumps(error, protocol)) for protocol in protocols]
            for found in [*pickled, copy.copy(error), copy.deepcopy(error)]:
                self.assertIs(type(found), type(error))
                self.assertEqual((str(found), found.args, vars(found)), (str(error), error.args, vars(error)))

    def test_pool_hands_on_the_error_of_a_worker(self) -> None:
        for method, case, wanted in (
            ("spawn", "memory", r"^GpuschedError\|SCHED_E_MEMORY\|.+ \(SCHED_E_MEMORY\)$"),
            ("fork", "forked", r"^GpuschedError\|SCHED_E_FORKED\|.+ \(SCHED_E_FORKED\)$"),
            ("spawn", "cancelled", r"^Cancelled\|SCHED_CANCELLED\|the survey was stopped \(SCHED_CANCELLED\)$"),
        ):
            for pool in ("pool", "executor"):
                with self.subTest(pool=pool, case=case):
                    self.assertRegex(raised_by_worker(pool, method, case), wanted)


if __name__ == "__main__":
    unittest.main()

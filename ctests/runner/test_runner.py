"""Tests of the test runner."""

import os
import runpy
import shlex
import tempfile
import threading
import time
import unittest.mock
from pathlib import Path

from counting import Counts, count
from schedule import Result, Schedule, Step

HERE = str(Path(__file__).resolve().parent)
LIBTEST = """
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
CTEST = """
 1/5 Test  #1: first_c ......................   Passed    0.10 sec
 2/5 Test  #2: kernel_python ................***Skipped   0.20 sec
 3/5 Test #13: crashes ......................***Exception: SegFault  0.20 sec
 4/5 Test  #4: slow .........................***Timeout   9.20 sec
 5/5 Test  #5: absent .......................***Not Run   0.00 sec
"""
UNITTEST = "Ran 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=3)\n"


def shell(name: str, text: str, **fields: object) -> Step:
    return Step(name, shlex.join(["sh", "-c", text]), **fields)  # type: ignore[arg-type]


class Counting(unittest.TestCase):
    def test_tests_are_counted_from_the_log_the_skips_and_the_exit_status(self) -> None:
        passed = "test result: ok. 3 passed; 0 failed; 0 ignored"
        skipped = "Ran 4 tests in 1.0s\n\nOK (skipped=1)\n"
        late = "Ran 4 tests in 1.0s\n\na thread that ends\nOK (skipped=1)\n"
        both = "Ran 4 tests in 1.0s\nOK\n\nFAILED (failures=2)\n"
        skips = "SKIPPED: io::a: no room\nSKIPPED: io::a: no links\nSKIPPED: io::b: no room\n"
        for kind, log, reported, status, expected in (
            ("libtest", LIBTEST, "", 101, Counts(5, 1, 1)),
            ("ctest", CTEST, "", 8, Counts(1, 2, 2)),
            ("unittest", UNITTEST, "", 1, Counts(3, 3, 3)),
            ("unittest", skipped, "", 0, Counts(3, 0, 1)),
            ("unittest", late, "", 0, Counts(3, 0, 1)),
            ("unittest", both, "", 1, Counts(4, 1, 0)),
            ("unittest", f"Ran 2 tests in 1.0s\n{skipped}", "", 0, Counts(3, 0, 1)),
            ("libtest", passed, "", -11, Counts(3, 1, 0)),
            ("", "", "", 1, Counts(0, 1, 0)),
            ("", "", "", 77, Counts(0, 0, 1)),
            ("libtest", "", "", 77, Counts(0, 0, 1)),
            # Two tests have reported them, one of them twice.
            ("libtest", passed, skips, 0, Counts(1, 0, 2)),
        ):
            self.assertEqual(count(kind, log, reported, status), expected, (kind, log, status))


class Scheduling(unittest.TestCase):
    def run_steps(self, *steps: Step, capacity: int = 2, strict: bool = False) -> dict[str, Result]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        logs = Path(folder.name)
        schedule = Schedule(steps, capacity, logs, dict(os.environ), strict, lambda _: None)
        return {result.name: result for result in schedule.run()}

    def test_step_below_its_minimum_fails(self) -> None:
        text = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'"
        results = self.run_steps(
            shell("few", text, counts="libtest", minimum=3),
            shell("enough", text, counts="libtest", minimum=2),
        )
        self.assertEqual(results["few"].counts.failed, 1)
        self.assertEqual(results["few"].wrong, ["2 tests executed or skipped; the minimum is 3"])
        self.assertEqual(results["enough"].wrong, [])

    def test_strict_run_fails_on_a_skip(self) -> None:
        reported = "echo SKIPPED: a: b >>$GPUSCHED_TEST_SKIPS"
        log = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'"
        skips = [
            shell("exits", "echo no GPU; exit 77"),
            shell("reports", f"{reported}; {log}", counts="libtest"),
        ]
        for strict in (False, True):
            results = self.run_steps(*skips, strict=strict).values()
            self.assertEqual([bool(result.wrong) for result in results], [strict, strict])

    def test_hanging_step_is_killed_with_all_its_processes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pids = Path(folder) / "pids"
            # One child in the group of the shell, one in a group of its own.
            grouped = f"bash -mc 'sleep 1000 & echo $! >>{pids}; wait'"
            text = f"sleep 1000 & echo $! >{pids}; {grouped} & sleep 1000"
            step, begun = shell("hangs", text, limit=500), time.monotonic()

            def end_limit() -> None:
                while not pids.exists() or pids.read_text().count("\n") < 2:
                    time.sleep(0.01)
                step.limit = 0

            threading.Thread(target=end_limit, daemon=True).start()
            result = self.run_steps(step)["hangs"]
            self.assertLess(time.monotonic() - begun, 500)
            self.assertEqual(result.wrong, ["still running after 0 s: killed"])
            self.assertEqual(result.counts, Counts(failed=1))
            left = [int(pid) for pid in pids.read_text().split()]
            self.assertEqual(len(left), 2)
            for stat in (Path(f"/proc/{pid}/stat") for pid in left):
                ended = not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"
                self.assertTrue(ended, stat)

    def test_processes_that_survive_the_kill_are_reported(self) -> None:
        patch = unittest.mock.patch.multiple("schedule", session_members=lambda _: [1 << 30], KILL_S=0.05)
        with patch:
            result = self.run_steps(shell("leaves", "true"))["leaves"]
        self.assertEqual(result.wrong, ["killed processes that have not ended: 1073741824"])

    def test_settings_of_library_and_tests_do_not_reach_the_steps(self) -> None:
        removed = ("GPUSCHED_DEVICES", "CUDA_VISIBLE_DEVICES", "GPUSCHED_TEST_WORLDS", "FUZZ_RUNS", "UPDATE")
        chosen = (*removed, "GPUSCHED_TEST_STRICT")
        function = runpy.run_path(f"{HERE}/__main__.py", run_name="runner")["test_environment"]
        with unittest.mock.patch.dict(os.environ, dict.fromkeys(chosen, "1")):
            self.assertEqual([name for name in chosen if name in function("full")], [chosen[-1]])

    def test_step_whose_need_failed_is_not_started(self) -> None:
        log = "echo 'test result: FAILED. 1 passed; 1 failed'; exit 1"
        results = self.run_steps(
            shell("bad", "exit 1"),
            shell("next", "true", needs=("bad",)),
            shell("partly", log, counts="libtest"),
            shell("behind", "true", needs=("partly",)),
            shell("absent", "exit 77"),
            shell("after", "true", needs=("absent",)),
        )
        self.assertEqual(results["next"].counts, Counts(failed=1))
        self.assertEqual(results["behind"].counts, Counts(failed=1))
        self.assertEqual(results["after"].counts, Counts(skipped=1))

if __name__ == "__main__":
    unittest.main()

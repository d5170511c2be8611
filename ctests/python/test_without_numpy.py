"""Without numpy tasks and ranges run, and models and shots say what to install."""

import subprocess
import sys
import textwrap
import unittest

HIDDEN = """
import sys
sys.modules["numpy"] = None  # Importing it fails.
import gpusched
"""


def told(code: str) -> str:
    """Runs a program without numpy that must succeed; returns its output."""
    code = HIDDEN + textwrap.dedent(code)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


class WithoutNumpy(unittest.TestCase):
    def test_tasks_and_ranges_run(self) -> None:
        printed = told(
            """
            with gpusched.Scheduler(devices="cpu", slots=2) as scheduler:
                print(scheduler.submit(lambda exec: 6 * 7, work=1.0, label="plain").result())
                print(sum(task.result() for task in scheduler.submit_many([lambda exec: 1] * 3)))
                print(scheduler.map(lambda x: x * x, range(5)))
                print(gpusched.Shot(nt=1, dt_s=1e-3, source=(0, 0, 0)).nt, sorted(gpusched.WAVELETS)[-1])
            """
        )
        self.assertEqual(printed, "42\n3\n[0, 1, 4, 9, 16]\n1 ricker\n")

    def test_model_says_what_to_install(self) -> None:
        printed = told(
            """
            def refused(call):
                try:
                    call()
                except ImportError as error:
                    print(error.name, error)

            refused(lambda: gpusched.Model([[[2000.0]]], spacing_m=10.0))
            refused(lambda: gpusched.wavelet("ricker", 30.0, 1e-3, 10))
            """
        )
        lines = printed.splitlines()
        self.assertEqual(len(lines), 2, printed)
        for line in lines:
            self.assertRegex(line, "^numpy gpusched.Model.* need numpy 1.22 .*: python3 -m pip install numpy$")


if __name__ == "__main__":
    unittest.main()

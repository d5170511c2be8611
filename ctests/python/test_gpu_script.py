"""benches/gpu/measure.py without a GPU: what it runs and how it judges."""

import ast
import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

SCRIPT = Path(__file__).resolve().parent.parent.parent / "benches" / "gpu" / "measure.py"
sys.path.insert(0, str(SCRIPT.parent))
import measure  # noqa: E402

GPU = {"device": "cuda:0", "name": "A", "free_bytes": 1 << 40, "total_bytes": 1 << 40, "ordinal": 0}
OPTIONS = SimpleNamespace(pml=20, slow=False, least=3.0)


class Commands(measure.Report):
    """A report whose commands are recorded and get an answer."""

    def __init__(self, answer, seconds=470.0):
        super().__init__(seconds)
        self.answer, self.calls, self.limits = answer, [], []

    def run(self, command, seconds=1e9, **variables):
        self.calls.append(([str(word) for word in command], variables))
        self.limits.append(seconds)
        return 0, self.answer(self.calls[-1][0]), ""

    def texts(self):
        return [f"{row['what']}: {row['value']}" for row in self.rows]


def line_of_bench(seconds_of_step, share=1.0, bytes_of_cell=28):
    """Returns what answers `bench fd`, as a GPU does that needs so many seconds for a step."""

    def answer(command):
        steps = int(command[command.index("--nt") + 1])
        seconds = seconds_of_step * steps
        rate = share * 2.8e6 / bytes_of_cell
        # A third of the cells of a shot from rest is skipped, and a hundredth of it is no step.
        shot = {"shot_seconds": seconds * 2 / 3 / 0.99, "covered_mcells_per_s": rate * 1.5, "computed": 2 / 3}
        line = {"seconds": seconds, "mcells_per_s": rate, "interior_mcells_per_s": rate / 2, "copy_gb_per_s": 2800.0}
        return json.dumps({**line, **shot})

    return answer


def quietly(function, *words):
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*words)


def rate(report, case=measure.ACOUSTIC1, size=400, nt=1000, options=OPTIONS):
    with mock.patch.object(measure, "host_memory", return_value=1 << 40):
        quietly(measure.rate, report, Path("/here"), GPU, options, case, size, nt)


def repetitions(report):
    command = report.calls[-1][0]
    return int(command[command.index("--repeats") + 1])


class GpuScript(unittest.TestCase):
    def test_the_script_is_python_3_8(self):
        ast.parse(SCRIPT.read_text(), feature_version=(3, 8))

    def test_a_rate_takes_a_thousand_steps_or_three_seconds_and_is_repeated_once_at_least(self):
        for seconds, repeats in [(0.2e-3, 15), (1e-3, 3), (1.4e-3, 3), (5.4e-3, 2)]:
            report = Commands(line_of_bench(seconds))
            rate(report)
            self.assertEqual(repetitions(report), repeats, seconds)
            self.assertEqual([call[0][call[0].index("--nt") + 1] for call in report.calls], ["50", "1000"])

    def test_a_rate_is_repeated_less_if_the_time_is_short_and_left_out_if_it_is_over(self):
        report = Commands(line_of_bench(5e-3), seconds=measure.KEPT_SECONDS + 20)
        rate(report)
        self.assertEqual(repetitions(report), 1)
        report = Commands(line_of_bench(5e-3), seconds=measure.KEPT_SECONDS + 10)
        rate(report)
        self.assertEqual((len(report.calls), len(report.left_out), report.rows), (1, 1, []))

    def test_each_equation_has_a_share_of_its_own_roof_as_gate(self):
        for case in [measure.ACOUSTIC1, *measure.OTHERS]:
            for factor, failures in [(1.01, 0), (0.99, 1)]:
                report = Commands(line_of_bench(1e-3, factor * case.share, case.bytes))
                rate(report, case, size=case.judged_size)
                self.assertEqual(len(report.failures), failures, (case, report.rows))
                self.assertEqual(report.calls[-1][0][-len(case.options) :] if case.options else [], case.options)
            report = Commands(line_of_bench(1e-3, 0.1, case.bytes))
            rate(report, case, size=case.judged_size - 100, nt=999)
            self.assertEqual(report.failures, [], "smaller grids are not judged")
        cases = {" ".join(case.options) for case in measure.OTHERS}
        pml = {f"--equation {name} --absorbing-layer pml" for name in ("acoustic2", "tti")}
        self.assertTrue(pml | {"--equation vti", "--storage 16-bit"} <= cases, cases)

    def test_the_time_outside_the_loop_is_that_of_the_shot_from_rest(self):
        report = Commands(line_of_bench(1e-3))
        rate(report, size=300)
        value = "0.673 s, 1.00% of it outside the time loop, 67% of the cells computed"
        self.assertIn(f"cuda:0 a shot, 300 cubed, 1000 steps: {value}", report.texts())
        self.assertEqual(report.failures, [])

    def test_a_grid_that_does_not_fit_is_left_out(self):
        report = Commands(line_of_bench(1e-3))
        small = {**GPU, "free_bytes": 1 << 30}
        with mock.patch.object(measure, "host_memory", return_value=1 << 40):
            quietly(measure.rate, report, Path("/here"), small, OPTIONS, measure.ACOUSTIC1, 400, 1000)
        self.assertEqual((report.calls, len(report.left_out)), ([], 1))

    def test_compilation_is_measured_without_the_cache_of_the_driver(self):
        one = {"registers": 168, "local_bytes": 0, "shared_bytes": 1, "occupancy": 0.2}
        found = [{"a_4x2": {**one, "load_seconds": 1.25}, "b_4x2": {**one, "load_seconds": 0.5}}]
        report = Commands(lambda _: json.dumps(found))
        quietly(measure.kernels, report, Path("/here"), [GPU])
        self.assertEqual(report.calls[0][1]["CUDA_CACHE_DISABLE"], "1")
        self.assertIn("cuda:0 compilation: 1.75 s for all 2 kernels, 1.25 s for the longest", report.texts())
        self.assertIn("compiled in 1.25 s", report.texts()[0])

    def test_each_kernel_of_the_steps_is_compiled_alone(self):
        texts = {}

        class Driver:
            def capability(self, ordinal):
                return 90

            def kernels(self, ordinal, found):
                texts.update(found)
                return {name: {} for name in found}

        head = ".version 7.0\n.target sm_35\n"
        entries = [f"{measure.ENTRY}{name}(\n.param .u64 a)\n" for name in ("a_source", "a_4x2", "a_4x2_16_bit")]
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(measure, "Driver", Driver):
            (Path(folder) / "a.ptx").write_text(head + "".join(entries))
            found = measure.all_kernels(folder, [0])
        self.assertEqual(list(found[0]), ["a_4x2", "a_4x2_16_bit"])
        self.assertEqual(texts["a_4x2"], (head + entries[1], 128))

    def test_a_context_is_released_with_drivers_before_cuda_11(self):
        called = []
        names = "cuDeviceGet cuDevicePrimaryCtxRetain cuCtxSetCurrent cuDeviceGetAttribute cuDevicePrimaryCtxRelease"
        for newer in ("", "_v2"):
            functions = {name: mock.Mock(return_value=0) for name in names.split()}
            functions["cuDevicePrimaryCtxRelease" + newer] = lambda _, newer=newer: called.append(newer) or 0
            driver = object.__new__(measure.Driver)
            driver.cu = SimpleNamespace(**functions)
            self.assertEqual(driver.kernels(0, {}), {})
        self.assertEqual(called, ["", "_v2"])

    def test_a_program_that_is_ended_has_its_complete_lines(self):
        code = "import time; print(1, flush=True); print('{', end='', flush=True); time.sleep(30)"
        done = measure.Report(60).run([sys.executable, "-c", code], seconds=5)
        self.assertEqual(done, (None, "1\n", "the time was up"))
        done = measure.Report(60).run([sys.executable, "-c", "import time; time.sleep(30)"], seconds=2)
        self.assertEqual(done, (None, "", "the time was up"))

    def test_shots_that_were_not_reached_fail(self):
        class Ended(Commands):
            def run(self, command, seconds=1e9, **variables):
                return None, super().run(command, seconds, **variables)[1], "the time was up"

        times = {"first_s": 1.0, "next_s": 1.0, "one_receiver_s": 1.0, "two_at_once_s": 1.0, "three_at_once_s": 1.0}
        line = {"device": "cuda:0", "grid": "8x8x8", "ok": True, "steps": 9, "bits": True, **times}
        report = Ended(lambda _: json.dumps(line))
        quietly(measure.details, report, Path("/here"), SimpleNamespace(pml=20, slow=False, shots=["8x8x8", "9x9x9"]))
        self.assertEqual((report.failures, len(report.rows)), (["shots: the time was up"], 5))

    def test_memory_checks_have_limits_of_their_own(self):
        report = Commands(lambda _: "ERROR SUMMARY: 0 errors")
        with mock.patch.object(measure.shutil, "which", return_value="compute-sanitizer"):
            quietly(measure.memcheck, report, Path("/here"))
        self.assertEqual((report.limits, report.failures), ([120, 120], []))

    def test_shots_whose_records_differ_fail(self):
        line = {"device": "cuda:0", "grid": "8x8x8", "ok": False, "why": "a later shot: record"}
        report = Commands(lambda _: json.dumps(line))
        options = SimpleNamespace(pml=20, slow=False, shots=["8x8x8"])
        quietly(measure.details, report, Path("/here"), options)
        self.assertEqual(report.failures, ["cuda:0 8x8x8 shots: a later shot: record"])


if __name__ == "__main__":
    unittest.main()

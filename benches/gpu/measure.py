#!/usr/bin/env python3
"""Tests and measures gpusched on the GPUs of this machine, with the folder that `benches/gpu/run
--build` has filled.

Writes report.json and report.txt. Exit status: 0 if everything is right and fast enough, 77 without
a GPU, else 1, also for a GPU that cannot be used.
"""

import argparse
import ctypes
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import List, NamedTuple


class Case(NamedTuple):
    """An equation with a storage and a layer, as `bench fd` measures it."""

    name: str
    options: List[str]
    # Bytes that a step moves for each padded cell: outside absorbing layers, and on average with
    # layers of 20 cells. The second number gives the memory roof: the bandwidth of a copy divided
    # by it.
    plain_bytes: int
    bytes: int
    # Smallest share of the roof that is accepted, and the size of grids from which on. The share is
    # the lower end of the prediction in docs/performance.md and docs/performance-notes.md.
    share: float
    judged_size: int
    # Bytes of a padded cell that the GPU holds, and the host for the model, at most.
    held: int


ACOUSTIC1 = Case("acoustic1", [], 24, 28, 0.50, 400, 32)
OTHERS = [
    # Predicted: as fast as float32, whose share at 300 cubed is 40 %.
    Case("acoustic1, 16 bits", ["--storage", "16-bit"], 20, 24, 0.34, 300, 32),
    Case("acoustic2", ["--equation", "acoustic2"], 16, 16, 0.55, 300, 32),
    # The first launch of a step moves 32, 48 and 64 bytes a cell in the layers of one, two and
    # three axes: 11 bytes on average at 300 cubed.
    Case("acoustic2, PML", ["--equation", "acoustic2", "--absorbing-layer", "pml"], 16, 27, 0.55, 300, 32),
    Case("vti", ["--equation", "vti"], 48, 52, 0.60, 300, 48),
    Case("tti", ["--equation", "tti"], 104, 104, 0.55, 300, 64),
    # The old operators.
    Case("tti, PML", ["--equation", "tti", "--absorbing-layer", "pml"], 104, 108, 0.55, 300, 64),
]
# Largest share of a shot's wall time outside its time loop, in a grid of this size.
OUTSIDE, OUTSIDE_SIZE = 0.02, 300
# Seconds that are kept for what follows the rates of the equations.
KEPT_SECONDS = 120
# Relative difference up to which two times count as equal.
EQUAL = 1.05
# Time steps of a measurement, and of the one that finds how often to repeat it.
STEPS, SHORT_STEPS = 1000, 50
# Failures in the order of their tests, last the one that may cost the GPU; with the time limit of
# each in s.
FAILURES = ["no-memory", "fork", "two-processes", "two-schedulers", "out-of-bounds", "misaligned", "trap", "endless"]
FAILURE_SECONDS = 60
# Time limit of `compute-sanitizer` for each of its commands.
MEMCHECK_SECONDS = 120
NO_GPU = 77


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("binaries", type=Path, help="the folder that --build has made")
    parser.add_argument("--report", type=Path, default=Path("."), help="the folder for report.json and report.txt")
    parser.add_argument("--seconds", type=float, default=3600, help="what is not done by then has failed")
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 200, 300, 400, 600], help="of bench fd")
    parser.add_argument("--nt", type=int, default=STEPS, help="steps of bench fd")
    parser.add_argument("--least", type=float, default=3, help="seconds of steps that a measurement takes at least")
    grids = ["41x13x150", "128x128x128", "200x200x200", "300x100x300"]
    parser.add_argument("--grids", nargs="*", default=grids, help="grids that are compared with the CPU bit for bit")
    parser.add_argument("--grid-steps", type=int, help="steps there, instead of as many as reach all cells")
    parser.add_argument("--pml", type=int, default=20, help="cells of absorbing layer, there and of bench fd")
    parser.add_argument("--shots", nargs="*", default=["128x128x128", "300x300x300"], help="grids of whole shots")
    parser.add_argument("--failures", nargs="*", default=FAILURES, help="failures that are provoked")
    parser.add_argument("--others", type=int, nargs=2, default=[300, STEPS], help="size and steps of other equations")
    parser.add_argument("--small", type=int, nargs=2, default=[128, 2000], help="size and steps of small shots")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 2, 3, 4, 8], help="small shots at a time on a GPU")
    parser.add_argument("--survey", type=int, nargs=2, default=[200, 500], help="size and steps of the survey's shots")
    parser.add_argument("--cases", nargs="+", default=[], help="parts of the names of recorded cases; all, if none")
    parser.add_argument("--steps", type=int, help="cut the recorded cases to so many steps")
    parser.add_argument("--slow", action="store_true", help="speeds are not judged: for virtual GPUs")
    return parser.parse_args()


class Report:
    """Results as rows of a table, and the list of failures."""

    def __init__(self, seconds):
        self.begin, self.end = time.monotonic(), time.monotonic() + seconds
        self.rows, self.failures, self.left_out, self.found = [], [], [], {}

    def row(self, what, value, good=None):
        self.rows.append({"what": what, "value": value, "good": good})
        if good is False:
            self.failures.append(f"{what}: {value}")
        mark = {None: "", True: "ok", False: "FAILED"}[good]
        print(f"{what:44} {mark:7} {value}", flush=True)

    def without(self, what, why):
        self.left_out.append(f"{what}: {why}")
        print(f"{what:44} {'-':7} left out: {why}", flush=True)

    def run(self, command, seconds=1e9, **variables):
        """Returns the exit status, standard output and standard error. After a timeout: None, the
        complete lines of standard output, and the reason."""
        left = min(seconds, self.end - time.monotonic())
        if left <= 1:
            return None, "", "the time was up"
        environment = dict(os.environ, **variables)
        try:
            done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired as over:
            # Bytes, although `run` returns text.
            out = over.stdout or b""
            return None, out[: out.rfind(b"\n") + 1].decode(errors="replace"), "the time was up"
        return done.returncode, done.stdout, done.stderr


def last_words(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was said"


def objects(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def devices(report, here):
    """Returns the GPUs that can be used."""
    status, out, err = report.run([here / "gpusched", "devices", "--json"])
    if status != 0:
        report.row("gpusched devices", last_words(err), False)
        return []
    listed = json.loads(out)
    report.found["devices"] = listed
    for note in listed["notes"]:
        report.row("note", note)
    gpus = [d for d in listed["devices"] if d["backend"] == "cuda" and d["health"] == "good"]
    for gpu in gpus:
        size = gpu["total_bytes"] / 2**30
        report.row(gpu["device"], f"{gpu['name']}, {gpu['compute_capability']}, {size:.0f} GiB, {gpu['uuid']}")
    return gpus


class Driver:
    """The calls of the driver that report how it has compiled the kernels."""

    REGISTERS, LOCAL, SHARED = 4, 3, 1

    def __init__(self):
        self.cu = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)

    def call(self, name, *values):
        status = getattr(self.cu, name)(*values)
        if status != 0:
            raise OSError(f"{name} gives {status}")

    def number(self, name, *values):
        number = ctypes.c_int()
        self.call(name, ctypes.byref(number), *values)
        return number.value

    def capability(self, ordinal):
        """Returns the compute capability of a GPU in PTX notation, such as 80."""
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        return 10 * self.number("cuDeviceGetAttribute", 75, device) + self.number("cuDeviceGetAttribute", 76, device)

    def kernels(self, ordinal, texts):
        """Returns for each kernel, by its PTX and the threads of its blocks: registers, local and
        shared memory, occupancy (share of a multiprocessor's threads), and the seconds of the
        driver's compiler."""
        device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        most = self.number("cuDeviceGetAttribute", 39, device)  # threads of a multiprocessor
        found = {}
        for name, (text, threads) in texts.items():
            begin = time.monotonic()
            self.call("cuModuleLoadData", ctypes.byref(module), text.encode() + b"\0")
            seconds = time.monotonic() - begin
            self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            blocks = ctypes.c_int()
            self.call(
                "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                ctypes.byref(blocks), function, threads, ctypes.c_size_t(0),
            )
            found[name] = {
                "registers": self.number("cuFuncGetAttribute", self.REGISTERS, function),
                "local_bytes": self.number("cuFuncGetAttribute", self.LOCAL, function),
                "shared_bytes": self.number("cuFuncGetAttribute", self.SHARED, function),
                "occupancy": blocks.value * threads / most,
                "load_seconds": seconds,
            }
            self.call("cuModuleUnload", module)
        # The name until CUDA 11.0, and since then.
        release = "cuDevicePrimaryCtxRelease"
        self.call(release + "_v2" if hasattr(self.cu, release + "_v2") else release, device)
        return found


def kernels(report, here, gpus):
    """Reports how the driver has compiled the kernels. Runs in its own process, without the
    driver's cache of compiled kernels."""
    ordinals = [gpu["ordinal"] for gpu in gpus]
    code = f"import measure, json; print(json.dumps(measure.all_kernels({str(here)!r}, {ordinals})))"
    status, out, err = report.run([sys.executable, "-c", code], PYTHONPATH=str(Path(__file__).parent), CUDA_CACHE_DISABLE="1")
    if status != 0:
        report.row("kernels", last_words(err), False)
        return
    report.found["kernels"] = json.loads(out)
    for gpu, found in zip(gpus, report.found["kernels"]):
        for name, one in found.items():
            value = f"{one['registers']} registers, {one['occupancy']:.0%} of the threads that a multiprocessor can have"
            value += f", compiled in {one['load_seconds']:.2f} s"
            good = one["local_bytes"] == 0 and one["occupancy"] > 0
            report.row(f"{gpu['device']} {name}", value + ("" if good else f", {one['local_bytes']} bytes spilled"), good)
        seconds = [one["load_seconds"] for one in found.values()]
        if seconds:
            value = f"{sum(seconds):.2f} s for all {len(seconds)} kernels, {max(seconds):.2f} s for the longest"
            report.row(f"{gpu['device']} compilation", value)


def all_kernels(here, ordinals):
    driver, found = Driver(), [{} for _ in ordinals]
    for file in sorted(Path(here).glob("*.ptx")):
        text = file.read_text()
        head, *kernels = text.split(ENTRY)
        names = [kernel.split("(")[0] for kernel in kernels]
        # The text of one kernel, as the library compiles it.
        texts = {name: (head + ENTRY + kernel, threads(name)) for name, kernel in zip(names, kernels) if threads(name)}
        oldest = int(re.search(r"\.target sm_(\d+)", text)[1])
        for of_gpu, n in zip(found, ordinals):
            if driver.capability(n) >= oldest:
                of_gpu.update(driver.kernels(n, texts))
    return found


# The words of PTX before the name of a kernel.
ENTRY = "\n.visible .entry "


def threads(kernel):
    """Returns the threads of a block of a kernel that computes steps; 0 for the small kernels."""
    return 128 if re.search(r"(_4x2(_16_bit)?|_layers)$", kernel) else 0


def golden(report, here, options):
    """Runs the recorded cases on each GPU, and on all at once."""
    variables = {"GPUSCHED_GOLDEN": str(here / "golden")}
    if options.steps:
        variables["GPUSCHED_GPU_STEPS"] = str(options.steps)
    status, out, err = report.run([here / "gpu-tests", *options.cases], RUST_BACKTRACE="0", **variables)
    found = objects(out)
    report.found["golden"] = found
    for device in sorted({one["device"] for one in found}):
        mine = [one for one in found if one["device"] == device]
        bad = [f"{one['case']}: {one.get('why')}" for one in mine if not one["ok"]]
        shots = sum(one.get("shots", 0) for one in mine)
        worst = max((one.get("record", 0.0) for one in mine), default=0.0)
        bits = "bits as on the CPU" if all(one.get("bits") for one in mine) else "as on the CPU, which does not fuse"
        told = f"{shots} shots, {bits}" + (f"; record off by {worst:.1e} at most" if worst else "")
        name = "recorded cases on all GPUs at once" if device == "cuda" else f"recorded cases on {device}"
        report.row(name, "; ".join(bad) or told, not bad)
    # Also if the process ended before it could report the cause.
    if (status != 0 and all(one["ok"] for one in found)) or not found:
        report.row("recorded cases", last_words(err), False)


def production(report, here, options):
    """Compares every kernel with the CPU, bit for bit, in grids with tiles of every kind."""
    if not options.grids:
        return
    variables = {"GPUSCHED_GPU_PML": str(options.pml)}
    if options.grid_steps:
        variables["GPUSCHED_GPU_STEPS"] = str(options.grid_steps)
    command = [here / "gpu-tests", "--production", *options.grids]
    status, out, err = report.run(command, RUST_BACKTRACE="0", **variables)
    found = objects(out)
    report.found["production"] = found
    for device in sorted({one["device"] for one in found}):
        mine = [one for one in found if one["device"] == device]
        bad = [f"{one['case']}: {one.get('why')}" for one in mine if not one["ok"]]
        shots = sum(one.get("shots", 0) for one in mine)
        value = f"{len(mine)} combinations of grid, equation, layer, storage and stencil, {shots} shots, bits as on the CPU"
        report.row(f"kernels of production on {device}", "; ".join(bad) or value, not bad)
    if (status != 0 and all(one["ok"] for one in found)) or not found:
        report.row("kernels of production", last_words(err), False)


def failures(report, here, options):
    """Runs kernels that fail, each in its own process; a recorded case after each must have the
    bits of the CPU."""
    variables = {"GPUSCHED_GOLDEN": str(here / "golden"), "RUST_BACKTRACE": "0"}
    if options.steps:
        variables["GPUSCHED_GPU_STEPS"] = str(options.steps)
    for name in options.failures:
        names = [name] if name != "endless" else [name, "none"]
        for name in names:
            status, out, err = report.run([here / "gpu-tests", "--fault", name], FAILURE_SECONDS, **variables)
            found = objects(out)
            report.found.setdefault("faults", []).extend(found)
            ok = status == 0 and len(found) == 1 and found[0]["ok"]
            value = found[0].get("why") or found[0].get("status") or "as it should be" if found else last_words(err)
            if ok and "recovered_in_s" in found[0]:
                value += f"; the case after it took {found[0]['recovered_in_s']:.1f} s"
            what = "recorded case in the next process" if name == "none" else f"failure: {name}"
            report.row(what, value if status is not None else f"no end within {FAILURE_SECONDS} s", ok)


def details(report, here, options):
    """Measures the times that `bench fd` does not, on each GPU: the lines of `gpu-tests
    --measure`."""
    judged = lambda good: None if options.slow else good
    variables = {"GPUSCHED_GPU_PML": str(options.pml), "RUST_BACKTRACE": "0"}
    if options.slow:
        variables["GPUSCHED_GPU_STEPS"] = "16"
    status, out, err = report.run([here / "gpu-tests", "--measure", *options.shots], **variables)
    found = objects(out)
    report.found["shots"] = found
    if (status != 0 and all(one["ok"] for one in found)) or not found:
        report.row("shots", last_words(err), False)
    for one in found:
        what = f"{one['device']} {one['grid']}"
        if not one["ok"]:
            report.row(f"{what} shots", one.get("why"), False)
            continue
        next_one = one["next_s"]
        bits = "the CPU's bits" if one["bits"] else "as on the CPU, which does not fuse"
        value = f"the first {one['first_s']:.3f} s, later ones {next_one:.3f} s, {one['steps']} steps; all records alike, {bits}"
        report.row(f"{what} shots", value, True)
        value = f"{next_one / one['one_receiver_s']:.3f} times a shot of one receiver"
        report.row(f"{what} record", value, judged(next_one <= EQUAL * one["one_receiver_s"]))
        for count, word in [(2, "two"), (3, "three")]:
            share = one[f"{word}_at_once_s"] / next_one
            report.row(f"{what} {word} at once", f"{share:.2f} times one alone", judged(share <= EQUAL * count))


def memcheck(report, here):
    tool = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not tool:
        return report.without("compute-sanitizer", "it is not installed; it comes with the CUDA toolkit")
    # A call that the driver refuses is not a fault of the kernel.
    options = ["--tool", "memcheck", "--report-api-errors", "no", "--error-exitcode", "9"]
    cases = {
        "a recorded case": (["iso1_corner"], {"GPUSCHED_GPU_STEPS": "40"}),
        # A small grid with tiles of every kind, until the wave has reached each tile.
        "every kernel": (["--production", "41x10x134"], {"GPUSCHED_GPU_PML": "8"}),
    }
    for what, (words, variables) in cases.items():
        command = [tool, *options, here / "gpu-tests", *words]
        status, out, err = report.run(command, MEMCHECK_SECONDS, GPUSCHED_GOLDEN=str(here / "golden"), **variables)
        summary = [line.strip("= ") for line in (out + err).splitlines() if "ERROR SUMMARY" in line]
        value = summary[-1] if summary else last_words(out + err)
        report.row(f"compute-sanitizer memcheck, {what}", value, status == 0)


def own_kernel(report, here):
    """Runs a callback with a custom kernel."""
    if not (here / "kernel").exists():
        return report.without("a callback's own kernel", "there was no C compiler when the folder was made")
    status, out, err = report.run([here / "kernel"])
    report.row("a callback's own kernel", last_words(out + err), status == 0)


def bench(report, here, gpu, options, case, size, nt, repeats):
    """Returns the line of `bench fd` in a list, or an empty list if it does not run. It compares
    the records of all repetitions bit for bit."""
    what, padded = name_of(gpu, case, size, nt), size + 2 * options.pml
    # The shot and the two sides of the copy; on the host the model, and the records of a
    # repetition and of the first one.
    on_gpu = case.held * padded**3 + 128 * size**2 + (512 << 20)
    on_host = case.held * size**3 + 16 * size**2 * nt
    for needed, there, place in [
        (on_gpu, gpu["free_bytes"] or gpu["total_bytes"], "the GPU"),
        (on_host, 2 * host_memory() / 3, "the host"),
    ]:
        if needed > there:
            report.without(what, f"it takes about {needed / 2**30:.1f} GiB on {place}")
            return []
    grid = [str(size)] * 3
    command = [here / "gpusched", "bench", "fd", "--json", "--device", gpu["device"], "--n", *grid, "--nt", str(nt)]
    status, out, err = report.run([*command, "--pml", str(options.pml), "--repeats", str(repeats), *case.options])
    if status != 0:
        report.row(what, last_words(err), False)
        return []
    lines = objects(out)
    for found in lines:
        found["roof_share"] = found["mcells_per_s"] * 1e6 * case.bytes / (found["copy_gb_per_s"] * 1e9)
        # `seconds` are those of fields that are nowhere at rest, and a shot begins at rest.
        loop_seconds = found["seconds"] * found["mcells_per_s"] / found["covered_mcells_per_s"]
        found["outside_share"] = 1 - loop_seconds / found["shot_seconds"]
    report.found.setdefault("bench", []).extend(lines)
    return lines


def name_of(gpu, case, size, nt):
    return f"{gpu['device']} {case.name}, {size} cubed, {nt} steps"


def host_memory():
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 1 << 62


def speeds(report, here, gpu, options):
    for size in options.sizes:
        rate(report, here, gpu, options, ACOUSTIC1, size, options.nt)
    for case in OTHERS:
        rate(report, here, gpu, options, case, *options.others)
    size, nt = options.small
    for found in bench(report, here, gpu, options, ACOUSTIC1, size, nt, 3):
        row_of_shot(report, gpu, options, size, nt, found)


def rate(report, here, gpu, options, case, size, nt):
    """Reports the rate of steps, and its share of the roof."""
    repeats = repeats_for(report, here, gpu, options, case, size, nt)
    for found in bench(report, here, gpu, options, case, size, nt, repeats) if repeats else []:
        share = found["roof_share"]
        value = (
            f"{found['mcells_per_s']:.0f} Mcells/s, {found['interior_mcells_per_s']:.0f} of the "
            f"user's; of the copy's {found['copy_gb_per_s']:.0f} GB/s {share * case.plain_bytes / case.bytes:.0%} at "
            f"{case.plain_bytes} bytes a cell, {share:.0%} at {case.bytes}"
        )
        judged = size >= case.judged_size and not options.slow
        value += f"; accepted: {case.share:.0%}" if judged else ""
        report.row(name_of(gpu, case, size, nt), value, share >= case.share if judged else None)
        if case is ACOUSTIC1:
            row_of_shot(report, gpu, options, size, nt, found)


def row_of_shot(report, gpu, options, size, nt, found):
    outside = found["outside_share"]
    value = f"{found['shot_seconds']:.3f} s, {outside:.2%} of it outside the time loop, {found['computed']:.0%} of the cells computed"
    judged = size == OUTSIDE_SIZE and not options.slow
    report.row(f"{gpu['device']} a shot, {size} cubed, {nt} steps", value, outside < OUTSIDE if judged else None)


def repeats_for(report, here, gpu, options, case, size, nt):
    """Returns the number of repetitions whose steps take `--least` seconds, at least 2, whose
    records are compared; fewer where the time is short. 0: nothing can be measured."""
    if options.slow:
        return 2
    short = bench(report, here, gpu, options, case, size, SHORT_STEPS, 1)
    if not short:
        return 0
    seconds = short[0]["seconds"] * nt / SHORT_STEPS
    # A repetition has three runs of so many steps.
    affordable = int((report.end - KEPT_SECONDS - time.monotonic()) / (3 * seconds))
    if affordable < 1:
        report.without(name_of(gpu, case, size, nt), "no time is left for it")
    return max(0, min(1000, affordable, max(2, math.ceil(options.least / seconds))))


def small_shots(report, here, gpu, options):
    """Measures the rate of small shots, several at a time, in shots per second."""
    size, nt = options.small
    first = None
    for slots in options.at_once:
        shots = min(2 * max(options.at_once), size)
        end, why = surveyed(report, here, gpu["device"], size, nt, shots, slots)
        what = f"{gpu['device']} {slots} shots at once, {size} cubed"
        if end is None:
            report.row(what, why, False)
            continue
        seconds = end["schedule"]["devices"][0]["busy_s"] / slots / shots
        first = first or seconds
        report.found.setdefault("at_once", []).append({"device": gpu["device"], "slots": slots, "seconds": seconds})
        report.row(what, f"{seconds:.3f} s for each of {shots}, {first / seconds:.2f} times as many a second as the first line")


SURVEY = """
[grid]
n = [{n}, {n}, {n}]
spacing_m = 10.0
[model]
rho = "gardner"
[model.vp]
layers = [{{ value = 1500.0 }}, {{ top_m = {middle}.0, value = 2500.0, gradient = 0.2 }}]
[time]
dt_s = "auto"
nt = {nt}
[wavelet]
frequency_hz = 15.0
[sources]
first_m = [0.0, {middle}.0, 0.0]
step_m = [10.0, 0.0]
count = [{shots}, 1]
[receivers]
depth_m = 10.0
every = [{every}, {every}]
[run]
slots = {slots}
[output]
pictures = 0
"""


def surveyed(report, here, devices, n, nt, shots, slots=1, every=16):
    """Returns the summary of `gpusched run` at the end of a survey, or None and the reason."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "survey.toml"
        file.write_text(SURVEY.format(n=n, nt=nt, shots=shots, middle=n // 2 * 10, slots=slots, every=every))
        command = [here / "gpusched", "run", file, "--devices", devices, "--json", "--no-rates-cache"]
        status, out, err = report.run(command)
    events = objects(out)
    ends = [event for event in events if event.get("event") == "end"]
    if status != 0 or not ends or ends[-1]["done"] != shots:
        why = [event["error"] for event in events if "error" in event]
        return None, why[0] if why else last_words(out + err)
    return ends[-1], ""


def survey(report, here, gpus, options):
    """Measures a survey from files to files, on all GPUs."""
    n, nt = options.survey
    shots = min(4 * len(gpus), n)
    end, why = surveyed(report, here, "cuda", n, nt, shots, every=4)
    what = f"survey of {shots} shots, {n} cubed, {nt} steps"
    if end is None:
        return report.row(what, why, False)
    report.found["survey"] = end
    schedule = end["schedule"]
    busy = ", ".join(f"{d['device']} {d['done']} shots" for d in schedule["devices"])
    report.row(what, f"{end['seconds']:.2f} s, no schedule could take less than {schedule['lower_bound_s']:.2f}: {busy}", True)


def main():
    options = arguments()
    here = options.binaries.resolve()
    report = Report(options.seconds)
    report.found["machine"] = {"host": platform.node(), "kernel": platform.release(), "processors": os.cpu_count()}
    gpus = devices(report, here)
    if not gpus and not report.failures:
        # The test program ends with 0 without a GPU, and fails if a GPU cannot be used.
        status, out, err = report.run([here / "gpu-tests"])
        if status == 0:
            print("no GPU that could be measured")
            return NO_GPU
        bad = [one["why"] for one in objects(out) if not one["ok"]]
        report.row("gpus", bad[0] if bad else last_words(err), False)
    if gpus:
        kernels(report, here, gpus)
        golden(report, here, options)
        production(report, here, options)
        memcheck(report, here)
        own_kernel(report, here)
        # GPUs of the same name count as equal.
        alike = {gpu["name"]: gpu for gpu in reversed(gpus)}
        for gpu in reversed(alike.values()):
            speeds(report, here, gpu, options)
            small_shots(report, here, gpu, options)
        details(report, here, options)
        survey(report, here, gpus, options)
        failures(report, here, options)
    seconds = time.monotonic() - report.begin
    report.row("all of it", f"{seconds:.0f} s")
    write(report, options.report, seconds)
    return 1 if report.failures else 0


def write(report, folder, seconds):
    folder.mkdir(parents=True, exist_ok=True)
    whole = {
        **report.found,
        "rows": report.rows,
        "left_out": report.left_out,
        "failures": report.failures,
        "seconds": seconds,
    }
    (folder / "report.json").write_text(json.dumps(whole, indent=1) + "\n")
    mark = {None: "", True: "ok", False: "FAILED"}
    lines = [f"{row['what']:44} {mark[row['good']]:7} {row['value']}" for row in report.rows]
    lines += [f"left out: {what}" for what in report.left_out]
    lines += [f"FAILED: {what}" for what in report.failures]
    (folder / "report.txt").write_text("\n".join(lines) + "\n")
    for failure in report.failures:
        print(f"FAILED: {failure}")
    print(f"written: {folder / 'report.json'}, {folder / 'report.txt'}")


if __name__ == "__main__":
    sys.exit(main())

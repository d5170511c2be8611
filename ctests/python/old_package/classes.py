"""The old package's classes, alone and in their pools of processes, through four links to one
library.

    classes.py LIBRARY VIRTUAL COMMAND

The records of pools, made by fork and by spawn, on the CPU and on virtual GPUs, have the bits of
those that one process computes on the CPU. These have the bits of the records of surveys that
COMMAND runs. Pools with a shot that fails end. No process prints or stays behind.
"""

import array
import math
import multiprocessing
import os
import random
import subprocess
import sys
from ctypes import c_bool, c_char_p, c_float, c_int, cdll

import node
import shots

MEDIA = ("vel", "rho", "delta", "epsilon", "theta", "psi")


class Model:
    """Size of a model, and the names of its files: those of MEDIA."""

    def __init__(self, nx, ny, nz, dx, dy, dz, **files):
        self.nx, self.ny, self.nz = nx, ny, nz
        self.dx, self.dy, self.dz = dx, dy, dz
        self.__dict__ |= {f"{name}_file": file for name, file in files.items()}


class ShotReceiver:
    """Sources from `begin` to `end` in steps of `every`, and the intervals between receivers."""

    def __init__(self, begin, every, end, dgx, dgy, dgt, shotfolder):
        xs, ys, zs = (range(first, last + 1, step) for first, last, step in zip(begin, end, every))
        self.shotlist = [(x, y, z, *every) for x in xs for y in ys for z in zs]
        self.receiver_dx, self.receiver_dy, self.receiver_dt = dgx, dgy, dgt
        self.shotfile = shotfolder


class FD:
    """The shots of a model. A child has the library, the function and the media of its equation."""

    def __init__(self, model, sg, nt, dt, fpeak, snap_folder, snap_interval, wtype=1, savesnap=False,
                 cut_directwave=False):
        self.model, self.sg, self.nt, self.dt, self.fpeak, self.wtype = model, sg, nt, dt, fpeak, wtype
        self.snap_folder, self.snap_interval = snap_folder, snap_interval
        self.savesnap, self.cut_directwave = savesnap, cut_directwave
        self.kernel = None

    def parallel_run(self, start, processes):
        """Computes all shots in a pool. Like the old package, it ignores failures."""
        pool = multiprocessing.get_context(start).Pool(processes)
        for number, shot in enumerate(self.sg.shotlist):
            pool.apply_async(func=self.run, args=(shot, number % processes))
        pool.close()
        pool.join()

    def times(self):
        return [c_int(self.nt), c_float(self.dt)]

    def flags(self):
        return [c_bool(self.savesnap), c_bool(self.cut_directwave), c_int(self.snap_interval)]

    def run(self, ishot, device):
        """Computes one shot, whose record is named by x and y of its source."""
        model, sg = self.model, self.sg
        self.kernel = cdll.LoadLibrary(f"./lib/{self.library}.so")
        names = [getattr(model, f"{medium}_file") for medium in self.media]
        names += [self.snap_folder, f"{sg.shotfile}{ishot[0]}.{ishot[1]}.bin"]
        getattr(self.kernel, self.function)(
            *(c_char_p(bytes(name, "utf-8")) for name in names),
            c_int(0), c_int(1),
            c_int(model.nx), c_int(model.ny), c_int(model.nz),
            c_float(model.dx), c_float(model.dy), c_float(model.dz),
            *map(c_int, ishot),
            c_float(sg.receiver_dx), c_float(sg.receiver_dy), c_float(sg.receiver_dt),
            *self.times(), c_float(self.fpeak), *self.flags(), c_int(device),
        )


class Acoustic3d1order(FD):
    library, function, media = "acoustic1order", "cuda_3dfd_1order", ("vel", "rho")

    def times(self):
        return [*super().times(), c_int(self.wtype)]


class Acoustic3d2order(FD):
    library, function, media = "acoustic2order", "cuda_3dfd", ("vel",)

    def times(self):
        steps, dt = super().times()
        return [steps, c_int(300), dt]

    def flags(self):
        """The old package swaps the interval and the mute, which the function ignores."""
        show, cut, interval = super().flags()
        return [show, interval, cut]


class Acoustic3dvti(FD):
    library, function, media = "acoustic1vti", "cuda_3dfd_vti", ("vel", "rho", "epsilon", "delta")


class Acoustic3dtti(FD):
    library, function, media = "acoustic1tti", "cuda_3dfd_tti", (*Acoustic3dvti.media, "theta", "psi")


KINDS = (Acoustic3d1order, Acoustic3d2order, Acoustic3dvti, Acoustic3dtti)
# All sizes are odd, so that the old functions' layers damp by the velocity of the middle cell.
# `write_model` makes it the largest, by which a survey damps. The lowest cells are 15 cells from the
# source: surveys refuse smaller models of `vti` and `tti`.
N, H, DT, FREQUENCY, SOURCE = (9, 7, 19), 10.0, 0.002, 200.0, (3, 3, 3)
RECORD_EVERY, SNAPSHOTS_EVERY = 2, 10
# Steps and shots of each equation. Kernels of virtual GPUs are interpreted; three steps are the
# least with a second sample.
ON_CPU, ON_GPUS = (24, 2), (3, 1)
LIMIT = 300


def write_model(place):
    random.seed(1)
    ranges = {"vel": (1500, 1700), "rho": (1000, 2000), "epsilon": (0.1, 0.2), "delta": (0, 0.1)}
    in_the_middle = {"vel": 2100, "epsilon": 0, "delta": 0}
    for medium in MEDIA:
        values = [random.uniform(*ranges.get(medium, (0, 1))) for _ in range(math.prod(N))]
        values[len(values) // 2] = in_the_middle.get(medium, values[0])
        with open(place.path(f"{medium}.bin"), "wb") as file:
            array.array("f", values).tofile(file)


def source(kind):
    """Returns the cell of the first source, as the function of the class counts it."""
    return SOURCE if kind is Acoustic3d2order else tuple(cell + 1 for cell in SOURCE)


def records(kind, shots):
    x, y, _ = source(kind)
    return [f"{kind.library}-{x + 2 * shot}.{y}.bin" for shot in range(shots)]


def snapshots(kind, steps):
    """Returns the names of snapshots, each with its step."""
    link = {Acoustic3d1order: ""}.get(kind, "_")
    every = {Acoustic3d2order: 500, Acoustic3dtti: 100}.get(kind, SNAPSHOTS_EVERY)
    begin = every if kind is Acoustic3dtti else 0
    return {f"{kind.library}-ishot_0{link}it_{step}.bin": step for step in range(begin, steps, every)}


def stencil(kind, folder, steps, shots, model="{}.bin"):
    x, y, z = source(kind)
    prefix = f"{folder}/{kind.library}-"
    sg = ShotReceiver((x, y, z), (2, 1, 1), (x + 2 * (shots - 1), y, z), 2 * H, H, RECORD_EVERY * DT, prefix)
    model = Model(*N, H, H, H, **{medium: model.format(medium) for medium in MEDIA})
    return kind(model, sg, steps, DT, FREQUENCY, prefix, SNAPSHOTS_EVERY, savesnap=True,
                cut_directwave=kind is Acoustic3d2order)


def package(start, folder, steps, shots, model="{}.bin"):
    """A user's program: computes the shots of all equations. start: alone, fork or spawn."""
    os.mkdir(folder)
    for kind in KINDS:
        work = stencil(kind, folder, int(steps), int(shots), model)
        if start != "alone":
            work.parallel_run(start, 2)
            continue
        for shot in work.sg.shotlist:
            work.run(shot, 0)


def survey(equation, lines):
    """Returns the survey of all shots of an equation on the CPU. `lines`: those that depend on the
    equation, by section."""
    sections = {
        "grid": f"n = {list(N)}\nspacing_m = {H}",
        "model": 'vp = "vel.bin"',
        "time": f"dt_s = {DT}\nnt = {ON_CPU[0]}\nrecord_every = {RECORD_EVERY}",
        "wavelet": f'shape = "cut-ricker"\nfrequency_hz = {FREQUENCY}',
        "sources": f"first_m = {[H * cell for cell in SOURCE]}\ncount = [2, 1]\nstep_m = [{2 * H}, {H}]",
        "receivers": "every = [2, 1]",
        "accuracy": "",
        "snapshots": f"every = {SNAPSHOTS_EVERY}",
        "output": f'folder = "{equation}"',
    }
    text = [f"[{name}]\n{sections[name]}\n{lines.get(name, '')}\n" for name in sections]
    return f'equation = "{equation}"\n' + "".join(text)


RHO, CELLS, MONOPOLE = 'rho = "rho.bin"\n', 'density_at = "cells"', "amplitude = 10.0"
THOMSEN = 'epsilon = "epsilon.bin"\ndelta = "delta.bin"\n'
ANGLES = 'theta_rad = "theta.bin"\nphi_rad = "psi.bin"'
# The settings of docs/moving-from-acoustic3d-fd.md.
SURVEYS = {
    "acoustic1": {"model": RHO, "accuracy": CELLS},
    "acoustic2": {"wavelet": "amplitude = -1.0", "receivers": "depth_m = 10.0"},
    "vti": {"model": RHO + THOMSEN, "wavelet": MONOPOLE, "accuracy": CELLS},
    "tti": {"model": THOMSEN + ANGLES, "wavelet": MONOPOLE, "accuracy": 'absorbing_layer = "pml"'},
}


def read(path):
    with open(path, "rb") as file:
        return file.read()


def traces(record, steps):
    """Returns the samples of each receiver."""
    values, samples = array.array("f", record), -(-steps // RECORD_EVERY)
    return [values[begin : begin + samples] for begin in range(0, len(values), samples)]


def start(place, how, folder, *more):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return place.start("classes.py", "package", how, folder, *more, **pipes)


def prints(started):
    """Returns the output of a program and of its processes, once all of them have ended."""
    said = started.communicate(timeout=LIMIT)[0]
    return [f"{started.args}: {started.returncode}, {said}"] if started.returncode or said else []


def missing(place, folder, expected):
    found = sorted(os.listdir(place.path(folder)))
    return [] if found == sorted(expected) else [f"{place.kind}, {folder}: {found}, expected {sorted(expected)}"]


def right_records(host):
    """Returns the records that one process has computed on the CPU, by name."""
    names = [name for kind in KINDS for name in records(kind, ON_CPU[1])]
    return {name: read(host.path("alone", name)) for name in names}


def differences(place, folder, size, truth):
    """Returns the problems of the files of a program. `truth`: the right records by name, of the
    steps on the CPU."""
    steps, shots = size
    expected = [name for kind in KINDS for name in [*records(kind, shots), *snapshots(kind, steps)]]
    wrong = missing(place, folder, expected)
    kept = -(-steps // RECORD_EVERY)
    for name in () if wrong else (name for kind in KINDS for name in records(kind, shots)):
        right = [trace[:kept] for trace in traces(truth[name], ON_CPU[0])]
        if traces(read(place.path(folder, name)), steps) != right:
            wrong.append(f"{place.kind}, {folder}: {name} differs from that of one process on the CPU")
    return wrong


def differences_from_survey(place, kind, equation, truth):
    """Returns the problems of the files in `alone`, whose snapshots are those of the last shot."""
    wrong, flat = [], lambda record: [value for trace in record for value in trace]
    steps, shots = ON_CPU
    for number, name in enumerate(records(kind, shots), 1):
        old, new = traces(truth[name], steps), traces(read(place.path(equation, f"shot_000{number}.bin")), steps)
        if kind is Acoustic3d2order:
            # The old function's records are two steps late, and its wavelet has one value more, of a
            # thousandth of the peak.
            old, new = [trace[1:] for trace in old], [trace[:-1] for trace in new]
        off = math.dist(flat(old), flat(new)) / math.hypot(*flat(new))
        if off > (1e-2 if kind is Acoustic3d2order else 0):
            wrong.append(f"{name} is off by {off:g} from the survey's")
    same_steps = () if kind is Acoustic3d2order else snapshots(kind, steps).items()
    for name, step in same_steps:
        if read(place.path("alone", name)) != read(place.path(equation, f"shot_000{shots}_step_{step:06}.bin")):
            wrong.append(f"{name} differs from the survey's")
    return wrong


def run_surveys(place, command):
    for equation, lines in SURVEYS.items():
        with open(place.path(f"{equation}.toml"), "w") as file:
            file.write(survey(equation, lines))
        run = [command, "run", f"{equation}.toml", "--quiet"]
        ended = subprocess.run(run, cwd=place.folder, env=place.environment, capture_output=True, text=True)
        if ended.returncode:
            sys.exit(ended.stderr)


def failures(place):
    """Lets all shots fail in pools; returns the problems."""
    shots = 2
    program = start(place, "fork", "bad", ON_GPUS[0], shots, "no-{}.bin")
    wrong = prints(program) + missing(place, "bad", [])
    log = read(place.path("log")).decode()
    counts = {kind.function: log.count(f"{kind.function}: ") for kind in KINDS}
    if set(counts.values()) != {shots} or log.count("no-vel.bin") != shots * len(KINDS):
        wrong.append(f"the log of failed shots: {log}")
    return wrong


def main(library, virtual, command):
    variables = {"PYTHONWARNINGS": "always", "GPUSCHED_LOG": "error:log"}
    host = node.Node(library, virtual, GPUSCHED_DEVICES="cpu", **variables)
    machine = node.Node(library, virtual, memory=1 << 30, GPUSCHED_DEVICES="cuda:0,cuda:1", **variables)
    with host, machine:
        host.kind, machine.kind = "CPU", "GPUs"
        programs = []
        for place, size in ((machine, ON_GPUS), (host, ON_CPU)):
            write_model(place)
            programs += [start(place, how, how, *size) for how in ("alone", "fork", "spawn")]
        run_surveys(host, command)
        problems = [line for program in programs for line in prints(program)]
        for place in (host, machine):
            logged = os.path.exists(place.path("log")) and read(place.path("log"))
            problems += [f"{place.kind}: {logged.decode()}"] if logged else []
        shots.check(problems)
        truth = right_records(host)
        for place, size in ((machine, ON_GPUS), (host, ON_CPU)):
            for folder in ("alone", "fork", "spawn"):
                problems += differences(place, folder, size, truth)
        for kind, equation in zip(KINDS, SURVEYS):
            problems += differences_from_survey(host, kind, equation, truth)
        for place in (host, machine):
            problems += failures(place)
    shots.check(problems)


if __name__ == "__main__":
    package(*sys.argv[2:]) if sys.argv[1] == "package" else main(*sys.argv[1:])

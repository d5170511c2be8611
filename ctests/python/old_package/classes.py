"""The old package's four classes in a pool of processes: through its links each call writes the recorded file or fails.

    classes.py LIBRARY VIRTUAL

Each class makes its call as the package does: the loop over shots is in Python, so a call has `is` 0 and `ns` 1; the record
is named by the source; and `cuda_3dfd` gets a mute and an interval in the order of the other functions' interval and mute.
"""

import multiprocessing
import os
import sys
from ctypes import c_bool, c_char_p, c_float, c_int

import node
import shots


class FD:
    """A call of an old function. `of`: a recorded call, which has the arguments by their name."""

    media = ("vel", "rho")
    has_status = False

    def __init__(self, of):
        self.of = of

    def paths(self):
        return [c_char_p(self.of.value(f"FN{name}").encode()) for name in self.media]

    def geometry(self, source):
        def all(type_, names):
            return [type_(self.of.value(name)) for name in names.split()]

        grid = all(c_int, "nx ny nz") + all(c_float, "dx dy dz")
        steps = all(c_int, "jsx jsy jsz") + all(c_float, "dgx dgy dgt")
        return [c_int(0), c_int(1), *grid, *map(c_int, source), *steps]

    def times(self):
        return [c_int(self.of.value("nt")), c_float(self.of.value("dt"))]

    def rest(self):
        interval = c_int(self.of.value("snap_interval"))
        return [c_float(self.of.value("fm")), c_bool(False), c_bool(self.of.value("cut_directwave")), interval]

    def shoot(self, source, folder, device):
        """Returns what went wrong."""
        library = shots.load(f"./lib/{self.library}.so")
        ends = [c_char_p(text.encode()) for text in (f"{folder}snap", record(folder, source))]
        call = [*self.paths(), *ends, *self.geometry(source), *self.times(), *self.rest(), c_int(device)]
        returned = getattr(library, self.function)(*call)
        return shots.error(library) or (f"it returned {returned}" if self.has_status and returned else "")


class Acoustic1(FD):
    library, function = "acoustic1order", "cuda_3dfd_1order"

    def times(self):
        return [*super().times(), c_int(self.of.value("wtype"))]


class Acoustic2(FD):
    library, function, media = "acoustic2order", "cuda_3dfd", ("vel",)

    def times(self):
        steps, dt = super().times()
        return [steps, c_int(300), dt]

    def rest(self):
        frequency, show, cut, interval = super().rest()
        return [frequency, show, interval, cut]


class Vti(FD):
    library, function, media = "acoustic1vti", "cuda_3dfd_vti", ("vel", "rho", "epsilon", "delta")


class Tti(FD):
    library, function, media = "acoustic1tti", "cuda_3dfd_tti", (*Vti.media, "theta", "psi")
    has_status = True


# Shots of recorded calls, the cells in y and z from one to the next, and the steps: None for all.
SURVEYS = [
    (Acoustic1, "iso1_multishot", (0, 1, 2), (0, 0), None),
    (Acoustic2, "fd2_is1", (1,), (3, 2), None),
    (Vti, "vti_multishot", (0, 1), (0, 0), None),
    (Tti, "tti_hetero", (0,), (0, 0), 80),
]


def record(folder, source):
    return f"{folder}{source[0]}.{source[1]}.bin"


def all_shots():
    """Returns class, recorded call, source and folder of every shot."""
    found = []
    for kind, case, numbers, step, steps in SURVEYS:
        for number in numbers:
            of = shots.Shot(case, number, steps)
            x, y, z = (of.value(name) for name in ("sxbeg", "sybeg", "szbeg"))
            source = [x, y + number * step[0], z + number * step[1]]
            found.append((kind, of, source, f"out/{kind.__name__}/"))
    return found


def shoot(number):
    kind, of, source, folder = all_shots()[number]
    os.makedirs(folder, exist_ok=True)
    return kind(of).shoot(source, folder, device=number % 2) or of.wrong(record(folder, source))


def fail(number):
    """Makes a bad call; returns what is wrong with the error."""
    kind, case, *_ = SURVEYS[number]
    bad = shots.Shot(case)
    fault = bad.call(shots.load(bad.library), "out/bad.bin", FNvel=None)
    if "vel is NULL" not in fault:
        return f"{kind.function} without vel: {fault}"
    return "it returned 0 after a failure" if kind.has_status and not bad.returned else ""


def package():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        faults = pool.map(fail, range(len(SURVEYS))) + pool.map(shoot, range(len(all_shots())), chunksize=1)
    return [fault for fault in faults if fault]


def main(library, virtual):
    # Two of the functions have no kernel for GPUs.
    with node.Node(library, virtual, GPUSCHED_DEVICES="cpu") as place:
        if place.start("classes.py", "package").wait(500):
            sys.exit("the package failed")


if __name__ == "__main__":
    shots.check(package()) if sys.argv[1] == "package" else main(*sys.argv[1:])

"""Calls of the old functions whose results are known: the recorded ones of tests/golden, cut short.

A record of fewer steps is the beginning of one of more. Three steps are enough, because the kernels
of virtual GPUs are interpreted.
"""

import array
import ctypes
import json
import math
import os
import sys
from ctypes import c_bool, c_char_p, c_float, c_int

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests", "golden")
CASES = ["iso1_multishot", "iso1_corner"] + [f"iso1_wtype{number}" for number in range(1, 7)]
STEPS = 3
# RECORD of ctests/kit/models/src/gate.rs.
TOLERANCE = 5e-6

TYPES = {"char*": lambda path: c_char_p(path and path.encode()), "int": c_int, "float": c_float, "bool": c_bool}


class Shot:
    """One shot of a recorded call with its first `steps`, or all for None; without a number, the
    whole call."""

    def __init__(self, case, number=None, steps=STEPS):
        self.folder = os.path.join(GOLDEN, case)
        with open(os.path.join(self.folder, "case.json")) as file:
            known = json.load(file)
        self.library, self.kernel = f"./lib/{known['library']}", known["kernel"]
        self.args = {name: (kind, value) for name, kind, value in known["args"]}
        for name, (kind, file) in self.args.items():
            if kind == "char*":
                self.set(**{name: os.path.join(self.folder, file)})
        if number is None:
            self.truth = floats(os.path.join(self.folder, "shot.bin"))
            return
        steps = steps or self.value("nt")
        self.set(ns=1, nt=steps, show_snapshot=False, sxbeg=self.value("sxbeg") + number * self.value("jsx"))
        record = known["record"]
        ny, nx, nt = record["shape_per_shot"]
        every = record["steps_xyt"][2]
        kept = -(-steps // every)
        with open(os.path.join(self.folder, "shot.bin"), "rb") as file:
            file.seek(record["byte_offset_per_shot"][record["shots"].index(number)])
            whole = array.array("f", file.read(4 * ny * nx * nt))
        self.truth = array.array("f")
        for trace in range(ny * nx):
            self.truth += whole[trace * nt : trace * nt + kept]

    def value(self, name):
        return self.args[name][1]

    def set(self, **values):
        for name, value in values.items():
            self.args[name] = (self.args[name][0], value)

    def call(self, library, record, device=0, **changes):
        """Calls the library as the old package does: without argument types. Returns its error."""
        self.set(**{"FNshot": record, "FNsnap": record + "_", "cudaDevicei": device} | changes)
        self.returned = getattr(library, self.kernel)(*(TYPES[kind](value) for kind, value in self.args.values()))
        return error(library)

    def wrong(self, record):
        """Returns the difference of a record from the recorded one, or None."""
        try:
            found = floats(record)
        except FileNotFoundError:
            return f"{record} is not there"
        if len(found) != len(self.truth):
            return f"{record} has {len(found)} values and not {len(self.truth)}"
        off = math.dist(found, self.truth) / math.hypot(*self.truth)
        return None if off <= TOLERANCE else f"{record} is off by {off:g} of its norm"


def all_shots():
    return [Shot(case, number) for case in CASES for number in range(3 if case == "iso1_multishot" else 1)]


def floats(path):
    with open(path, "rb") as file:
        return array.array("f", file.read())


def error(library):
    library.sched_last_error.restype = c_char_p
    return library.sched_last_error().decode()


def load(path="./lib/acoustic1order.so"):
    return ctypes.CDLL(path)


def check(problems):
    """Ends the program with the first problems, if there are any."""
    if problems:
        more = [f"and {len(problems) - 12} more"] if len(problems) > 12 else []
        sys.exit("\n".join(problems[:12] + more))

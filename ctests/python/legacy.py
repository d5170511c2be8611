"""Calls the library as the old Python package does: ctypes without argument types.

    legacy.py acoustic1order.so CASE_FOLDER OUT_FOLDER

Prints nothing. Exit status 0: the record agrees with the recorded one.
"""

import array
import math
import multiprocessing
import os
import sys
from ctypes import CDLL, c_bool, c_char_p, c_float, c_int

# RECORD of ctests/kit/models/src/gate.rs.
TOLERANCE = 5e-6


def shoot(library, case, out, name):
    """One call, as the old package makes it; three shots with snapshots."""
    kernel = CDLL(library).cuda_3dfd_1order
    path = lambda folder, file: c_char_p(bytes(os.path.join(folder, file), "utf-8"))
    kernel(
        path(case, "vel.bin"), path(case, "rho.bin"), path(out, name + "_"), path(out, name + ".bin"),
        c_int(2), c_int(3), c_int(24), c_int(20), c_int(18),
        c_float(12.0), c_float(10.0), c_float(10.0),
        c_int(4), c_int(7), c_int(6), c_int(7), c_int(3), c_int(2),
        c_float(24.0), c_float(20.0), c_float(0.002),
        c_int(120), c_float(0.001), c_int(1), c_float(30.0),
        c_bool(True), c_bool(False), c_int(60), c_int(0),
    )


def floats(path):
    with open(path, "rb") as file:
        return array.array("f", file.read())


def main(library, case, out):
    truth = floats(os.path.join(case, "shot.bin"))
    # The package runs shots in a pool of forked processes.
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.starmap(shoot, [(library, case, out, name) for name in ("first", "second")])
    shoot(library, case, out, "alone")
    for name in ("alone", "first", "second"):
        found = floats(os.path.join(out, name + ".bin"))
        if len(found) != len(truth):
            sys.exit(f"{name}: {len(found)} values, {len(truth)} expected")
        error = math.dist(found, truth) / math.hypot(*truth)
        if not error <= TOLERANCE:
            sys.exit(f"{name}: off by {error:g} of its norm")


if __name__ == "__main__":
    main(*sys.argv[1:])

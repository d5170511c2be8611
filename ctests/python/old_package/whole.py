"""Recorded calls as a whole, through links of the old names: each function, modes of devices, paths that are NULL.

    whole.py LIBRARY VIRTUAL

The library writes the recorded files or refuses the call, and prints nothing in its caller's terminal.
"""

import subprocess
import sys

import node
import shots

FILES = [f"ishot_{shot}it_{step}.bin" for shot in range(3) for step in (0, 60)] + ["shot.bin"]
# Device, GPUSCHED_LEGACY_DEVICE, and why the call is refused. A device number that is not there is a
# hint, unless the mode is strict.
CASES = [
    (7, None, None),
    (7, "strict", "it asks for device 7 and GPUSCHED_LEGACY_DEVICE is strict; there are: cpu:0"),
    (-1, "strict", "it asks for device -1"),
    (0, "always", "GPUSCHED_LEGACY_DEVICE is always; accepted: dynamic (the default) or strict"),
    (0, "strict", None),
]


def child(device):
    call, library = shots.Shot("iso1_multishot"), shots.load()
    for path in ("FNvel", "FNrho", "FNsnap", "FNshot"):
        said = call.call(library, "out/shot.bin", device, **{"FNsnap": "out/", path: None})
        shots.check([] if path[2:] in said else [f"{path} is NULL: {said}"])
        call = shots.Shot("iso1_multishot")
    said = call.call(library, "out/shot.bin", device, FNsnap="out/") or call.wrong("out/shot.bin")
    shots.check([said] if said else [])


def functions():
    """Calls each function from the library of its name with the argument list of a recorded call."""
    problems = []
    for case in ("iso1_multishot", "fd2_is1", "vti_multishot", "tti_homog"):
        shot, bad = shots.Shot(case), shots.Shot(case)
        library, record = shots.load(shot.library), f"out/{case}.bin"
        said = shot.call(library, record) or shot.wrong(record)
        problems += [f"{shot.kernel}: {said}"] if said else []
        said = bad.call(library, "out/bad.bin", FNvel=None)
        problems += [] if "vel is NULL" in said else [f"{shot.kernel} without vel: {said}"]
        if case.startswith("tti") and (shot.returned, bad.returned) != (0, 1):
            problems.append(f"{shot.kernel} returns {shot.returned}, and {bad.returned} after a failure")
    shots.check(problems)


def main():
    problems = []
    with node.Node(*sys.argv[1:], GPUSCHED_DEVICES="cpu") as place:
        if place.start("whole.py", "functions").wait():
            sys.exit("a function failed")
    for device, mode, sentence in CASES:
        modes = {"GPUSCHED_LEGACY_DEVICE": mode} if mode else {}
        with node.Node(*sys.argv[1:], GPUSCHED_DEVICES="cpu", **modes) as place:
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            said = place.start("whole.py", "child", device, **pipes).communicate()[0]
            expected = [] if sentence else FILES
            if not (sentence in said if sentence else not said) or place.records() != expected:
                problems.append(f"device {device}, mode {mode}: {said!r}, files: {place.records()}")
    shots.check(problems)


if sys.argv[1] == "functions":
    functions()
elif sys.argv[1] == "child":
    child(int(sys.argv[2]))
else:
    main()

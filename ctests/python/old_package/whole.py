"""A recorded call as a whole, through a link of the old name: modes of devices, paths that are
NULL.

    whole.py LIBRARY VIRTUAL

The library writes the recorded files or refuses the call, and prints nothing in its caller's
terminal.
"""

import subprocess
import sys

import node
import shots

FILES = [f"ishot_{shot}it_{step}.bin" for shot in range(3) for step in (0, 60)] + ["shot.bin"]
# Device, GPUSCHED_LEGACY_DEVICE, and why the call is refused. A device number that is not there is
# a hint, unless the mode is strict.
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


def main():
    problems = []
    for device, mode, sentence in CASES:
        modes = {"GPUSCHED_LEGACY_DEVICE": mode} if mode else {}
        with node.Node(*sys.argv[1:], GPUSCHED_DEVICES="cpu", **modes) as place:
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            said = place.start("whole.py", "child", device, **pipes).communicate()[0]
            expected = [] if sentence else FILES
            if not (sentence in said if sentence else not said) or place.records() != expected:
                problems.append(f"device {device}, mode {mode}: {said!r}, files: {place.records()}")
    shots.check(problems)


if sys.argv[1] == "child":
    child(int(sys.argv[2]))
else:
    main()

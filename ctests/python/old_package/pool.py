"""The old package's pool on a node with four virtual GPUs: every shot gives the recorded result, none hangs.

    pool.py LIBRARY VIRTUAL START

A pool of as many processes as there are GPUs, made by START (fork or spawn). Each shot names a GPU,
which is ignored, and one names a model that is not there.
"""

import multiprocessing
import os
import sys
import time

import node
import shots

SHOTS = 12
BAD = 7


def shoot(number, shot, device):
    begin = time.monotonic_ns()
    said = shot.call(shots.load(), f"out/{number}.bin", device)
    with open("calls", "a") as file:
        file.write(f"{os.getpid()} {begin} {time.monotonic_ns()} {number} {said}\n")


def package(start):
    """What the old package does, in the folder of the node; nothing is looked at afterwards."""
    known = shots.all_shots()
    pool = multiprocessing.get_context(start).Pool(len(node.SPEEDS))
    for number in range(SHOTS):
        shot = known[number % len(known)]
        if number == BAD:
            shot.set(FNvel="nowhere.bin")
        pool.apply_async(shoot, (number, shot, number % len(node.SPEEDS)))
    pool.close()
    pool.join()


def main(library, virtual, start):
    with node.Node(library, virtual) as place:
        status = place.start("pool.py", "package", start).wait(500)
        problems = [] if status == 0 else [f"the package ended with {status}"]
        known, good = shots.all_shots(), [number for number in range(SHOTS) if number != BAD]
        wrong = [known[number % len(known)].wrong(place.path("out", f"{number}.bin")) for number in good]
        problems += filter(None, wrong)
        if place.records() != sorted(f"{number}.bin" for number in good):
            problems.append(f"files: {place.records()}")
        with open(place.path("calls")) as file:
            calls = [line.rstrip("\n").split(" ", 4) for line in file]
        if len(calls) != SHOTS:
            problems.append(f"{len(calls)} calls")
        problems += [f"shot {call[3]}: {call[4] or 'no error'}" for call in calls if (call[4] != "") != (call[3] == str(BAD))]
        events = place.events()
        problems += node.overlaps(node.spans(events, [tuple(map(int, call[:3])) for call in calls])) + node.refused(events)
    shots.check(problems)


if __name__ == "__main__":
    package(sys.argv[2]) if sys.argv[1] == "package" else main(*sys.argv[1:])

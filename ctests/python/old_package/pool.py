"""The old package's pool on a node with four virtual GPUs: every shot gives the recorded result, none hangs.

    pool.py LIBRARY VIRTUAL [fork|spawn] [--shots N] [--pause SECONDS] [--bad NUMBER] [--copy]

LIBRARY is our library, VIRTUAL a folder with the virtual libraries (`ctests/doubles/fakecuda/lay-out` prints it).
"""

import argparse

import node
import shots


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ours", metavar="library")
    parser.add_argument("virtual")
    parser.add_argument("start", nargs="?", default="fork")
    parser.add_argument("--shots", type=int, default=40)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--bad", type=int)
    parser.add_argument("--copy", action="store_true", help="our library as a file of that name, not a link")
    options = parser.parse_args()
    with node.Node(options.ours, options.virtual, copy=options.copy) as place:
        bad = [] if options.bad is None else [options.bad]
        pool = place.start("package.py", options.start, options.shots, options.pause, *bad)
        status = pool.wait(500)
        problems = [] if status == 0 else [f"the package ended with {status}"]
        known = shots.all_shots()
        bad = {number for first in bad for number in (first, first + 1)}
        for number in set(range(options.shots)) - bad:
            wrong = known[number % len(known)].wrong(place.path("out", f"{number}.bin"))
            problems += [wrong] if wrong else []
        expected = sorted(f"{number}.bin" for number in set(range(options.shots)) - bad)
        if place.records() != expected:
            problems.append(f"files: {place.records()}, expected {expected}")
        with open(place.path("calls")) as file:
            lines = [line.rstrip("\n").split(" ", 5) for line in file]
        for process, begin, end, number, device, said in lines:
            if (said != "") != (int(number) in bad):
                problems.append(f"shot {number}: {said or 'no error'}")
        if len(lines) != options.shots:
            problems.append(f"{len(lines)} calls")
        events = place.events()
        found = node.spans(events, [tuple(map(int, line[:3])) for line in lines])
        problems += node.overlaps(found) + node.refused(events)
    shots.check(problems)


main()

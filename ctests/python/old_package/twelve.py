"""Twelve processes that call `cuda_3dfd_1order` at the same moment on a node with four virtual
GPUs.

    twelve.py LIBRARY VIRTUAL [--kill]

Never two work on a GPU at a time, no GPU is asked for memory that it does not have, each process
makes one context, and each record is the recorded one. `--kill`: three are killed in the middle.
"""

import collections
import ctypes
import json
import os
import signal
import subprocess
import sys
import time

import node
import shots

PROCESSES = 12


def child(number):
    """Makes one call after a line on standard input; then prints a line with the result."""
    library = shots.load()
    shot = shots.all_shots()[number % len(shots.all_shots())]
    print("ready", flush=True)
    sys.stdin.readline()
    copies = 0

    @ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)
    def log(_, line, __):
        nonlocal copies
        copies += b"gets a copy" in line

    library.sched_log_callback(log, None, 3)
    begin = time.monotonic_ns()
    said = shot.call(library, f"out/{number:02}.bin", number % len(node.SPEEDS))
    end = time.monotonic_ns()
    library.sched_log_callback(None, None, 3)
    print(json.dumps({"begin": begin, "end": end, "said": said, "copies": copies}), flush=True)


def start(place, *arguments):
    started = place.start("twelve.py", *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said = started.stdout.readline().strip()
    if said != "ready":
        sys.exit(f"{arguments}: {said!r}")
    return started


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def at_the_same_moment(place, meanwhile=lambda processes: set()):
    """Returns the report of each process by its number; processes that `meanwhile` has killed
    have none."""
    processes = [start(place, "child", number) for number in range(PROCESSES)]
    for process in processes:
        go(process)
    killed = meanwhile(processes)
    told = {}
    for number, process in enumerate(processes):
        said = process.stdout.readline()
        process.wait()
        if number not in killed:
            told[number] = json.loads(said or "null") or {"begin": 0, "end": 0, "said": "it died", "copies": 0}
            told[number]["process"] = process.pid
    return told


def look(place, told):
    """Returns the problems of the node, and how often each GPU was used."""
    events = place.events()
    calls = [(one["process"], one["begin"], one["end"]) for one in told.values()]
    found = node.spans(events, calls)
    problems = node.overlaps(found) + node.refused(events)
    problems += [f"process {number}: {one['said']}" for number, one in told.items() if one["said"]]
    made = node.contexts(events)
    for one in told.values():
        # The last remaining process may start its shot a second time, on a GPU that is faster and
        # idle.
        if sum(made[one["process"]]) > 1 + one["copies"]:
            problems.append(f"process {one['process']} made contexts: {made[one['process']]}, copies: {one['copies']}")
    counted = collections.Counter(span.gpu for span in found)
    by_gpu = [counted[gpu] for gpu in range(len(node.SPEEDS))]
    print(f"shots by GPU: {by_gpu}")
    return problems, by_gpu


def records(place, numbers):
    known = shots.all_shots()
    problems = [known[number % len(known)].wrong(place.path("out", f"{number:02}.bin")) for number in numbers]
    expected = [f"{number:02}.bin" for number in sorted(numbers)]
    if place.records() != expected:
        problems.append(f"files: {place.records()}, expected {expected}")
    return [problem for problem in problems if problem]


def twelve(library, virtual):
    with node.Node(library, virtual, pace=PACE) as place:
        told = at_the_same_moment(place)
        problems, by_gpu = look(place, told)
        if 0 in by_gpu:
            problems.append(f"shots by GPU: {by_gpu}")
        return problems + records(place, told)


def kill(library, virtual):
    """Kills two processes that compute and one that waits, as soon as all GPUs are in use."""
    with node.Node(library, virtual, pace=PACE) as place:
        def meanwhile(processes):
            numbers = {process.pid: number for number, process in enumerate(processes)}

            def without_record(some):
                return [process for process in some if f"{numbers[process]:02}.bin" not in place.records()]

            while any(process.poll() is None for process in processes):
                time.sleep(0.02)
                begun = list({event.process: 0 for event in place.events() if event.what == "begin"})
                working, waiting = without_record(begun), [process for process in numbers if process not in begun]
                if len(working) < len(node.SPEEDS) or not waiting:
                    continue
                chosen = [working[0], working[-1], waiting[0]]
                for process in chosen:
                    # None of them ends between the check and the kill.
                    os.kill(process, signal.SIGSTOP)
                    os.waitid(os.P_PID, process, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                killed = without_record(chosen) == chosen
                for process in chosen:
                    os.kill(process, signal.SIGKILL if killed else signal.SIGCONT)
                if killed:
                    return {numbers[process] for process in chosen}
            sys.exit(f"all {PROCESSES} processes have ended; {len(node.SPEEDS)} never worked at a time")

        told = at_the_same_moment(place, meanwhile=meanwhile)
        problems, _ = look(place, told)
        if len(told) != PROCESSES - 3:
            problems.append(f"{len(told)} processes came to their end")
        halves = [name for name in place.records() if name.endswith(".part")]
        for name in halves:
            os.remove(place.path("out", name))
        return problems + records(place, told)


# Million instructions a second: about two seconds a shot on a slow GPU, whose interpretation takes
# less than one.
PACE = 60


def main():
    name, *arguments = sys.argv[1:]
    if name == "child":
        return child(int(*arguments))
    virtual, *options = arguments
    cases = {(): twelve, ("--kill",): kill}
    shots.check(cases[tuple(options)](name, virtual))


main()

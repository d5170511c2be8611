"""Old calls in forked processes: they return the recorded result or the reason of a failure, and
never hang.

    forks.py LIBRARY VIRTUAL

A process forks after a call, during a call of another thread, or without one; its children and
grandchildren call. Without GPUs all calls work. With GPUs, children of a process that has used them,
or searches for them, get an error: NVIDIA's driver does not survive a fork. No child computes on
the CPU instead.
"""

import os
import signal
import sys
import threading
import time

import node
import shots

SENTENCE = "NVIDIA's driver does not survive that"
TOO_DEEP = "forks since the first call is 8; accepted: at most 7: create the pool before the first call"
LIMIT = 120


def call(library, name, number=0):
    """Returns the error of a call, as the library's message or a difference of its record; None
    if neither."""
    shot = shots.all_shots()[number]
    record = f"out/{name}.bin"
    said = shot.call(library, record)
    if said and os.path.exists(record):
        return f"{said}; and its record is there"
    return said or shot.wrong(record)


def in_child(work):
    """Returns the result of `work`, from a child process with a time limit of LIMIT seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT)
        os.write(writer, (work() or "").encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    status = os.waitpid(child, 0)[1]
    return said if status == 0 else f"a child ended with {os.waitstatus_to_exitcode(status)} (-14: it hung)"


def call_on_gpu(library, name):
    """As `call`; computing on the CPU is an error, too."""
    said = call(library, name)
    events = []
    if os.path.exists("node.log"):
        with open("node.log") as log:
            events = [line.split() for line in log]
    begun = any(event[1] == str(os.getpid()) and event[3] == "begin" for event in events)
    return said or (None if begun else f"{name}: no kernel of it has run")


def after_a_call_on_the_cpu(library):
    """Returns the error of a call of a child whose parent has called with the CPU alone."""
    os.environ["GPUSCHED_DEVICES"] = "cpu"
    said = call(library, "on-the-cpu")
    del os.environ["GPUSCHED_DEVICES"]
    return said or in_child(lambda: call_on_gpu(library, "on-a-gpu"))


def expect(problems, what, said, sentence=None):
    """Checks the error of a call: it contains `sentence`; without one, no error is accepted."""
    good = sentence in (said or "") if sentence else not said
    if not good:
        problems.append(f"{what}: {said or 'nothing was said'}")


def family(gpus):
    sentence = SENTENCE if gpus else None
    problems = []
    library = shots.load()

    expect(problems, "a child, before", in_child(lambda: call(library, "before")))
    expect(problems, "a child's child", in_child(lambda: in_child(lambda: call(library, "grandchild", 3))))

    if gpus:
        said = in_child(lambda: after_a_call_on_the_cpu(library))
        expect(problems, "a child of a process without GPUs", said)

    expect(problems, "the parent", call(library, "parent", 1))
    expect(problems, "a child, after", in_child(lambda: call(library, "after", 2)), sentence)
    twice = lambda: call(library, "twice-1", 4) or call(library, "twice-2", 5)
    expect(problems, "two calls of a child", in_child(twice), sentence)
    deep = lambda: in_child(lambda: call(library, "deep", 6))
    expect(problems, "a child's child, after", in_child(deep), sentence)
    both = lambda: call(library, "above", 7) or in_child(lambda: call(library, "below", 8))
    expect(problems, "a child that calls and its child", in_child(both), sentence)


    def descend(forks, name):
        return in_child(lambda: descend(forks - 1, name)) if forks else call(library, name, 3)

    expect(problems, "a child seven forks deep", descend(7, "seventh"), sentence)
    expect(problems, "a child eight forks deep", descend(8, "eighth"), sentence or TOO_DEEP)

    # A child must not wait for a lock that a thread of its parent holds, so the fork comes during
    # calls.
    over = threading.Event()
    said = []

    def busy():
        while not over.is_set():
            said.append(call(library, "busy", 9))

    threads = [threading.Thread(target=busy)]
    [thread.start() for thread in threads]
    for number in range(4 if gpus else 12):
        time.sleep(0.013 * number)
        expect(problems, f"child {number}, meanwhile", in_child(lambda: call(library, f"meanwhile-{number}")), sentence)
    over.set()
    [thread.join() for thread in threads]
    expect(problems, "the parent, meanwhile", next(filter(None, said), None))
    expect(problems, "the parent, afterwards", call(library, "afterwards", 2))
    shots.check(problems)


def searching():
    """Forks during the first call, while the driver is being initialised."""
    problems, said = [], []
    library = shots.load()
    thread = threading.Thread(target=lambda: said.append(call(library, "parent")))
    thread.start()
    has_driver = lambda: "libfakecuda" in open("/proc/self/maps").read()
    while thread.is_alive() and not has_driver():
        time.sleep(0.01)
    # The driver is loaded; the search begins at once, and takes four seconds.
    time.sleep(1)
    if not thread.is_alive():
        problems.append("the call was over before its process forked")
    expect(problems, "a child, meanwhile", in_child(lambda: call_on_gpu(library, "meanwhile")), SENTENCE)
    thread.join()
    expect(problems, "the parent", said[0])
    shots.check(problems)


def main():
    if sys.argv[1] == "family":
        return searching() if sys.argv[2] == "searching" else family(sys.argv[2] == "gpus")
    library, virtual = sys.argv[1:]
    problems = []
    for kind in ("cpu", "searching", "gpus"):
        variables = {"GPUSCHED_DEVICES": "cpu"} if kind == "cpu" else {}
        with node.Node(library, virtual, **variables) as place:
            if kind == "searching":
                place.environment["FAKECUDA"] += ";nvmlms=4000"
            status = place.start("forks.py", "family", kind).wait(5 * LIMIT)
            problems += [f"{kind}: ended with {status}"] if status else []
            halves = [name for name in place.records() if name.endswith(".part")]
            problems += [f"{kind}: {halves} are left"] if halves else []
    shots.check(problems)


main()

"""A node with virtual GPUs that processes share, in a folder of its own, and checks of its log."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict, namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
# Two GPUs of one generation and two of another, like the machines of the old package's users.
SPEEDS = [2.2, 2.2, 1, 1]
# Memory of a GPU. A shot takes 9 to 12 MB, and a process that has a context there 2.4: one of
# the largest fits beside four processes, two do not.
MEMORY = 22 << 20

Event = namedtuple("Event", "time process gpu what bytes in_use kernel")
# The use of a GPU by a process during a call: from the start of its first kernel to the end of its
# last.
Span = namedtuple("Span", "begin end process gpu")


class Node:
    """`pace`: million instructions a second of a GPU of speed 1 (0: as fast as they are
    interpreted). `memory`: bytes of a GPU."""

    def __init__(self, library, virtual, pace=0, memory=MEMORY, **variables):
        self.folder = tempfile.mkdtemp(prefix="gpusched-node-")
        os.mkdir(os.path.join(self.folder, "lib"))
        for name in ("acoustic1order", "acoustic2order", "acoustic1vti", "acoustic1tti"):
            os.symlink(os.path.abspath(library), os.path.join(self.folder, "lib", name + ".so"))
        for folder in ("out", "leases", "cache"):
            os.mkdir(os.path.join(self.folder, folder), 0o700)
        gpus = ";".join(f"dev=name:GPU of {speed},speed:{speed},mem:{memory},ctx:2M" for speed in SPEEDS)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("GPUSCHED_", "FAKECUDA", "CUDA_"))},
            "FAKECUDA": f"pace={pace};{gpus}",
            "FAKECUDA_NODE": os.path.join(self.folder, "node"),
            "LD_LIBRARY_PATH": os.path.abspath(virtual),
            "GPUSCHED_LEASE_DIR": os.path.join(self.folder, "leases"),
            "XDG_CACHE_HOME": os.path.join(self.folder, "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Settings of the caller that are to break the test.
            **{key: value for key, value in os.environ.items() if key in ("GPUSCHED_LEASE_DIR", "GPUSCHED_LOG")},
            **variables,
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, script, *arguments, **options):
        """Starts a Python program of this folder, in the folder of the node."""
        command = [sys.executable, os.path.join(HERE, script), *map(str, arguments)]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True, **options)

    def records(self):
        return sorted(os.listdir(self.path("out")))

    def events(self):
        try:
            with open(self.path("node.log")) as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return []
        events = []
        for line in lines:
            time, process, gpu, what, bytes_, in_use, *kernel = line.split()
            kernel = kernel[0] if kernel else ""
            events.append(Event(int(time), int(process), int(gpu), what, int(bytes_), int(in_use), kernel))
        return events


def spans(events, calls):
    """Returns the GPU and the time of each call's kernels; a call is (process, begin, end). A
    call without kernels has none."""
    found = []
    for process, begin, end in calls:
        runs = defaultdict(list)
        for event in events:
            if event.process == process and event.what in ("begin", "end") and begin <= event.time <= end:
                runs[event.gpu].append(event.time)
        found += [Span(min(times), max(times), process, gpu) for gpu, times in runs.items()]
    return found


def overlaps(found):
    """Returns a problem for each two processes that worked on one GPU at the same time."""
    problems = []
    for one, span in enumerate(found):
        for other in found[:one]:
            if span.gpu == other.gpu and span.process != other.process:
                if span.begin < other.end and other.begin < span.end:
                    problems.append(f"processes {span.process} and {other.process} worked on GPU {span.gpu} at a time")
    return problems


def contexts(events):
    """Returns the number of contexts that each process has created, by GPU."""
    made = defaultdict(lambda: [0] * len(SPEEDS))
    for event in events:
        if event.what == "context":
            made[event.process][event.gpu] += 1
    return made


def refused(events):
    return [
        f"process {event.process} asked GPU {event.gpu} for {event.bytes} bytes while {event.in_use} were in use"
        for event in events
        if event.what == "refuse"
    ]

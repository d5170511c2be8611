"""Runs steps beside each other, each in a process group with a time limit and a log."""

import contextlib
import ctypes
import os
import re
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterable

from counting import SKIPPED_STATUS, Counts, count

ROOT = Path(__file__).resolve().parent.parent.parent
ALL, HALF = -1, -2
POLL_S = 0.05
# Seconds within which killed processes have to end.
KILL_S = 10.0
PR_SET_PDEATHSIG = 1


@dataclass
class Step:
    """One line of the table.

    `command`: words, quoted as for a shell. `cores`: processor cores that the step keeps busy, or
    ALL or HALF of them; 0 for a download. `needs`: steps that must have passed before.
    `exclusive`: steps with the same word do not run at the same time. `counts`: format of the log,
    see counting.py. `minimum`: the smallest number of executed tests. `limit`: seconds after which
    the step is killed. `output`: file for standard output, if that does not belong in the log.
    `expands`: called when the step has passed; returns further steps.
    """

    name: str
    command: str
    levels: str = "quick full night"
    cores: int = 1
    needs: tuple[str, ...] = ()
    exclusive: str = ""
    counts: str = ""
    minimum: int = 1
    limit: float = 1800
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path = ROOT
    output: str = ""
    expands: "Callable[[], list[Step]] | None" = None


@dataclass
class Result:
    """The outcome of a step. `wrong` holds the reasons for which it failed."""

    name: str
    counts: Counts
    wrong: list[str]
    wall: float = 0.0
    cpu: float = 0.0
    log: "Path | None" = None


def end_with_runner() -> None:
    """Has the calling process killed when the runner ends, however it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Running:
    """A started step."""

    def __init__(self, step: Step, cores: int, logs: Path, environment: dict[str, str]):
        """Raises OSError if the program can't be started."""
        self.step, self.cores = step, cores
        self.log, self.skips = logs / f"{step.name}.log", logs / f"{step.name}.skips"
        self.skips.write_text("")
        self.killed = False
        self.left: list[int] = []
        self.begun = time.monotonic()
        own = environment | step.environment | {"GPUSCHED_TEST_SKIPS": str(self.skips)}
        changed = sorted(f"{name}={value}" for name, value in own.items() - os.environ.items())
        variables = shlex.join([*(f"-u{name}" for name in os.environ.keys() - own), *changed])
        folder = shlex.quote(str(step.folder))
        self.log.write_text(f"cd {folder} && env {variables} {step.command}\n")
        other = logs / step.output if step.output else os.devnull
        with open(self.log, "ab") as log, open(other, "wb") as output:
            # A session of its own, by which the runner finds all processes of the step.
            self.process = subprocess.Popen(
                shlex.split(step.command), cwd=step.folder, env=own,
                stdin=subprocess.DEVNULL, stdout=output if step.output else log, stderr=log,
                start_new_session=True, preexec_fn=end_with_runner,
            )  # fmt: skip

    def kill(self) -> None:
        """Kills all processes of the step, also those that have a process group of their own, and
        waits until they have ended; `left` are those that have not after KILL_S."""
        end = time.monotonic() + KILL_S
        while (left := session_members(self.process.pid)) and time.monotonic() < end:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self.left = left

    def poll(self, strict: bool) -> "Result | None":
        """Returns the result once the step has ended; kills the step at its limit."""
        wall = time.monotonic() - self.begun
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid == 0:
            if wall > self.step.limit and not self.killed:
                self.killed = True
                self.kill()
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        # Processes that the step left behind.
        self.kill()
        return self.result(self.process.returncode, wall, usage.ru_utime + usage.ru_stime, strict)

    def result(self, status: int, wall: float, cpu: float, strict: bool) -> Result:
        wrong = []
        if self.killed:
            wrong.append(f"still running after {self.step.limit:.0f} s: killed")
        elif status not in (0, SKIPPED_STATUS):
            wrong.append(f"exit status {status}" if status > 0 else f"ended by signal {-status}")
        text, skips = read(self.log), read(self.skips)
        counts = count(self.step.counts, text, skips, status, strict)
        if not wrong and counts.failed:
            wrong.append(f"failed tests, and yet exit status {status}")
        found = counts.executed + counts.skipped
        if found < self.step.minimum and not wrong and status != SKIPPED_STATUS:
            wrong.append(f"{found} tests executed or skipped; the minimum is {self.step.minimum}")
            counts.failed += 1
        if strict and counts.skipped:
            wrong.append("skipped tests, and GPUSCHED_TEST_STRICT is set")
        if self.left:
            wrong.append(f"killed processes that have not ended: {', '.join(map(str, self.left))}")
        with open(self.log, "a") as log:
            log.writelines(f"{line}\n" for line in [*skips.splitlines(), *wrong])
        return Result(self.step.name, counts, wrong, wall, cpu, self.log)


def session_members(session: int) -> list[int]:
    """Returns the processes of a session that have not ended."""
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, _group, of = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # It has ended meanwhile.
            continue
        if int(of) == session and state not in "ZX":
            members.append(int(path.parent.name))
    return members


def read(path: Path) -> str:
    return path.read_text(errors="replace")


class Schedule:
    """Keeps `capacity` cores busy with steps; earlier steps of the list start first."""

    def __init__(self, steps: Iterable[Step], capacity: int, logs: Path, environment: dict[str, str],
                 strict: bool, report: Callable[[Result], None]):
        self.waiting = list(steps)
        self.running: list[Running] = []
        self.results: dict[str, Result] = {}
        self.capacity, self.logs, self.environment = capacity, logs, environment
        self.strict, self.report = strict, report

    def cores(self, step: Step) -> int:
        if step.cores < 0:
            return self.capacity if step.cores == ALL else max(1, self.capacity // 2)
        return min(step.cores, self.capacity)

    def run(self) -> list[Result]:
        """Runs all steps; kills those that run if this call is interrupted."""
        try:
            while self.waiting or self.running:
                self.start_ready()
                self.collect()
                time.sleep(POLL_S)
        finally:
            for running in self.running:
                running.kill()
                running.process.wait()
        return list(self.results.values())

    def finish(self, result: Result) -> None:
        self.results[result.name] = result
        self.report(result)

    def collect(self) -> None:
        for running in list(self.running):
            result = running.poll(self.strict)
            if result is None:
                continue
            self.running.remove(running)
            if running.step.expands and not result.wrong:
                try:
                    self.waiting += running.step.expands()
                except ValueError as error:
                    result.wrong.append(str(error))
                    result.counts = Counts(failed=1)
            self.finish(result)

    def start_ready(self) -> None:
        free = self.capacity - sum(running.cores for running in self.running)
        busy = {running.step.exclusive for running in self.running} - {""}
        for step in list(self.waiting):
            needed = [self.results.get(name) for name in step.needs]
            bad = next((r for r in needed if r and (r.wrong or not r.counts.passed)), None)
            cores = self.cores(step)
            if not bad and (cores > free or step.exclusive in busy or not all(needed)):
                continue
            self.waiting.remove(step)
            if bad:
                # A step that needs a skipped one is skipped, too.
                wrong = [f"not started: {bad.name} did not pass"] if bad.wrong else []
                counts = Counts(failed=1) if bad.wrong else Counts(skipped=1)
                self.finish(Result(step.name, counts, wrong))
                continue
            try:
                self.running.append(Running(step, cores, self.logs, self.environment))
            except OSError as error:
                self.finish(Result(step.name, Counts(failed=1), [f"not started: {error}"]))
                continue
            free -= cores
            busy |= {step.exclusive} - {""}


def excerpt(log: str, lines: int = 60) -> str:
    """Returns the last lines of a log, after the panics of the lines before them."""
    before, last = log.splitlines()[:-lines], log.splitlines()[-lines:]
    panics = re.findall(r"^.*panicked at.*\n(?:.*\n){0,6}", "\n".join(before), re.M)
    frame = re.compile(r" *\d+: ")
    kept = [line[:600] for line in "".join(panics).splitlines() if not frame.match(line)]
    return "\n".join([*kept[:60], *last])

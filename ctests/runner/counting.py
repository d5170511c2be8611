"""Counts the tests that a step executed, from its log, its list of skips and its exit status."""

import re
from dataclasses import dataclass

SKIPPED_STATUS = 77

LIBTEST = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed(?:; (\d+) ignored)?", re.M)
CTEST = re.compile(r"^ *\d+/\d+ Test +#\d+: \S+ \.*(?: +(Passed)|\*\*\*(Skipped|Not Run|[A-Z]\w*))", re.M)
# Other threads may print lines before the last.
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*\n(?:(?!Ran \d).*\n)*?(?:OK|FAILED)(?: \((.*)\))?$", re.M)


@dataclass
class Counts:
    """Numbers of tests. `executed` leaves out the skipped ones."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    @property
    def executed(self) -> int:
        return self.passed + self.failed

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


def libtest(log: str) -> list[Counts]:
    """Reads the summary lines of Rust test programs."""
    return [Counts(*(int(number or 0) for number in line)) for line in LIBTEST.findall(log)]


def ctest(log: str) -> list[Counts]:
    """Reads CTest's line of each test; a test that CTest did not start is a skipped one."""
    skips = ("Skipped", "Not Run")
    return [
        Counts(bool(passed), not passed and other not in skips, other in skips)
        for passed, other in CTEST.findall(log)
    ]


def unittest(log: str) -> list[Counts]:
    """Reads Python's `Ran N tests` and the details after it."""
    found = []
    for ran, details in UNITTEST.findall(log):
        numbers = {name: int(number) for name, number in re.findall(r"([a-z][a-z ]*)=(\d+)", details)}
        failed = sum(numbers.get(name, 0) for name in ("failures", "errors", "unexpected successes"))
        skipped = numbers.get("skipped", 0)
        found.append(Counts(int(ran) - failed - skipped, failed, skipped))
    return found


FORMATS = {"libtest": libtest, "ctest": ctest, "unittest": unittest}


def count(form: str, log: str, skips: str, status: int, strict: bool = False) -> Counts:
    """Returns the counts of one step.

    `form` names one of FORMATS; "" stands for a step that is one test. `skips` has a line
    `SKIPPED: test: reason` for each skip. A status other than 0 and 77 is at least one failure. A
    Rust test that reported a skip returned normally, and libtest counted it as passed; in strict
    mode it panicked, and libtest counted it as failed.
    """
    counts = sum(FORMATS[form](log), Counts()) if form else Counts(status == 0)
    if status == SKIPPED_STATUS and counts.executed == 0:
        counts.skipped = max(counts.skipped, 1)
    elif status != 0:
        counts.failed = max(counts.failed, 1)
    reported = len({line.split(": ")[1] for line in skips.splitlines() if line})
    if not strict:
        counts.passed = max(0, counts.passed - reported)
    counts.skipped += reported
    return counts

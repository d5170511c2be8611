"""Parallel loops: chunks of a range on all devices, and maps over a sequence.

Python code holds the GIL: chunks of pure Python code run one after the other, whatever the number
of slots.
"""

from __future__ import annotations

import operator
import threading
from ctypes import sizeof
from typing import Any, Callable, Generic, Iterator, Mapping, Sequence, TypeVar

from . import _abi
from ._fields import checked, put
from ._jobs import OPTIONS, Exec, Job, describe, drop_job, run

Item = TypeVar("Item")
Result = TypeVar("Result")

# The thread that completes tasks may wait for results itself, so a wait for one also asks after the
# range's state.
POLL_S = 0.1

RANGE_OPTIONS = tuple(name for name in OPTIONS if name not in ("work", "retries", "task_class", "idempotent"))


@_abi.sched_range_fn  # type: ignore[untyped-decorator, unused-ignore]
def _chunk(raw: Any, begin: int, end: int, user: int) -> int:
    return run(raw, user, range(begin, end))


def range_desc(
    job: Job, begin: int, end: int, grain: int | None, options: Mapping[str, Any]
) -> tuple[_abi.sched_range_desc_t, list[object]]:
    if grain is not None:
        grain = checked("grain", grain, operator.index, "an integer of at least 1, or None", lambda number: number >= 1)
    desc = _abi.sched_range_desc_t(size=sizeof(_abi.sched_range_desc_t))
    for name, value in (("begin", begin), ("end", end), ("grain", grain or 0)):
        put(desc, name, value)
    kept = describe(desc, job, options, RANGE_OPTIONS)
    desc.run, desc.drop = _chunk, drop_job
    return desc, kept


class Places(Generic[Item, Result]):
    """The results of a map, each at the place of its item."""

    def __init__(self, function: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self.function = function
        self.items = items
        self.results: list[Any] = [None] * len(items)
        self.ready = bytearray(len(items))
        self.ended = False
        self.changed = threading.Condition()

    def chunk(self, _exec: Exec, places: range) -> None:
        for place in places:
            result = self.function(self.items[place])
            with self.changed:
                self.results[place] = result
                self.ready[place] = 1
                self.changed.notify_all()

    def end(self, _task: object) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def in_order(self, has_ended: Callable[[], bool]) -> Iterator[Result]:
        """Yields the results one after the other, until one is missing though the range has
        ended."""
        for place in range(len(self.items)):
            with self.changed:
                while not self.ready[place]:
                    if self.ended:
                        return
                    if not self.changed.wait(POLL_S):
                        self.ended = has_ended()
                result, self.results[place] = self.results[place], None
            yield result

"""Memory that is lent to jobs: no two jobs may write to the same memory."""

from __future__ import annotations

import contextlib
import os
import threading
from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING, Callable, Mapping, Tuple

if TYPE_CHECKING:
    from ._gather import Floats

# The first byte of an array, the byte after its last one, and the number of the job.
Extent = Tuple[int, int, int]

# Sorted and apart from each other.
_extents: list[Extent] = []
# Extents whose loans have ended, until the next use of `_extents`.
_ended: deque[Extent] = deque()
# Reentrant: a signal handler may submit on the thread that holds the lock.
_lock = threading.RLock()


def lend(job: int, arrays: Mapping[str, Floats], lent: list[Extent], may_write: Callable[[int], bool]) -> None:
    """Lends arrays to a job, unless another job that may write shares their memory.

    Appends their extents to `lent`, which the caller takes back also after an exception.
    """
    with _lock:
        current()
        for name, array in arrays.items():
            begin = array.ctypes.data
            extent = begin, begin + array.nbytes, job
            while (other := _overlapped(extent)) is not None:
                if may_write(other[2]):
                    accepted = "memory that no shot writes to"
                    raise ValueError(f"{name} shares memory with an array of a shot that has not ended; accepted: {accepted}")
                _delete(other)
            lent.append(extent)
            insort(_extents, extent)


def take_back(lent: list[Extent]) -> None:
    """Ends loans. Takes no lock: garbage collection in `lend` may close a scheduler, which waits
    for this."""
    _ended.extend(lent)


def current() -> list[Extent]:
    """Returns the extents that are lent."""
    with _lock, contextlib.suppress(IndexError):
        while True:
            _delete(_ended.popleft())
    return _extents


def _delete(extent: Extent) -> None:
    place = bisect_left(_extents, extent)
    # Not if it was deleted before.
    if _extents[place : place + 1] == [extent]:
        del _extents[place]


def _overlapped(extent: Extent) -> Extent | None:
    begin, end, job = extent
    place = bisect_left(_extents, extent)
    # The extents are apart, so one of the neighbours overlaps if any does.
    for other in _extents[max(0, place - 1) : place + 1]:
        # The library refuses arrays of one shot that overlap.
        if other[2] != job and other[0] < end and begin < other[1]:
            return other
    return None


def _after_fork() -> None:
    """Forgets the loans: shots of the parent write to its memory only. Another thread may have held
    the lock."""
    global _lock
    _lock = threading.RLock()
    _extents.clear()
    _ended.clear()


os.register_at_fork(after_in_child=_after_fork)

"""Progress callbacks of schedulers."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Callable

from . import _abi
from ._fields import checked, real
from ._info import Progress, progress_from
from ._library import check, lib

Listener = Callable[[Progress], Any]

# The callbacks that the library may call, and the locks that are held during a call, by the number
# that it passes as `user`.
listeners: dict[int, tuple[Listener, threading.RLock]] = {}
_numbers = itertools.count(1)
# `inside`: the thread is inside a callback.
_here = threading.local()


def is_in_callback() -> bool:
    return getattr(_here, "inside", False)


@_abi.sched_progress_fn  # type: ignore[untyped-decorator, unused-ignore]
def _call(raw: Any, user: int) -> None:
    found = listeners.get(user)
    # None: Ctrl-C ended `listen` once the library had accepted the callback.
    if found is None:
        return
    call, calling = found
    # Else the scheduler is being closed.
    if calling.acquire(blocking=False):
        _here.inside = True
        try:
            call(progress_from(raw.contents))
        finally:
            _here.inside = False
            calling.release()


def listen(scheduler: int, call: Listener | None, interval_s: float, calling: threading.RLock) -> int | None:
    """Sets the callback of a scheduler, which is not called while another thread holds `calling`.
    Returns the number that `forget` takes."""
    if call is None:
        check(lib.sched_progress_callback(scheduler, _abi.sched_progress_fn(), None, 0))
        return None
    if not callable(call):
        raise TypeError(f"call is {call!r}; accepted: a function of a `Progress`, or None")
    interval_s = checked("interval_s", interval_s, real, "0.001 to 1e9", lambda seconds: 0.001 <= seconds <= 1e9)
    number = next(_numbers)
    listeners[number] = call, calling
    try:
        check(lib.sched_progress_callback(scheduler, _call, number, int(interval_s * 1e9)))
    except BaseException:
        forget(number)
        raise
    return number


def forget(number: int | None) -> None:
    """Releases a callback that the library does not call any more."""
    listeners.pop(number or 0, None)

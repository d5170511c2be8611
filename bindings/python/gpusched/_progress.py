"""Progress callbacks of schedulers."""

from __future__ import annotations

import itertools
from typing import Any, Callable

from . import _abi
from ._fields import checked, real
from ._info import Progress, progress_from
from ._library import check, lib

Listener = Callable[[Progress], Any]

# The callbacks that the library may call, by the number that it passes as `user`.
listeners: dict[int, Listener] = {}
_numbers = itertools.count(1)


@_abi.sched_progress_fn  # type: ignore[untyped-decorator, unused-ignore]
def _call(raw: Any, user: int) -> None:
    call = listeners.get(user)
    # None: Ctrl-C ended `listen` once the library had accepted the callback.
    if call is not None:
        call(progress_from(raw.contents))


def listen(scheduler: int, call: Listener | None, interval_s: float) -> int | None:
    """Sets the callback of a scheduler. Returns the number that `forget` takes."""
    if call is None:
        check(lib.sched_progress_callback(scheduler, _abi.sched_progress_fn(), None, 0))
        return None
    if not callable(call):
        raise TypeError(f"call is {call!r}; accepted: a function of a `Progress`, or None")
    interval_s = checked("interval_s", interval_s, real, "0.001 to 1e9", lambda seconds: 0.001 <= seconds <= 1e9)
    number = next(_numbers)
    listeners[number] = call
    try:
        check(lib.sched_progress_callback(scheduler, _call, number, int(interval_s * 1e9)))
    except BaseException:
        forget(number)
        raise
    return number


def forget(number: int | None) -> None:
    """Releases a callback that the library does not call any more."""
    listeners.pop(number or 0, None)

"""Progress that is told every so often: which callable a scheduler calls."""

from __future__ import annotations

import itertools
from typing import Any, Callable

from . import _abi
from ._library import check, lib

Listener = Callable[[_abi.sched_progress_t], Any]

# Those that the library may call, by the number that it is given as `user`.
listeners: dict[int, Listener] = {}
_numbers = itertools.count(1)


@_abi.sched_progress_fn  # type: ignore[untyped-decorator, unused-ignore]
def _tell(raw: Any, user: int) -> None:
    listeners[user](_abi.sched_progress_t.from_buffer_copy(raw.contents))


def listen(scheduler: int, call: Listener | None, interval_s: float) -> int | None:
    """Has `call` called in place of what was before; the number that ends with `forget`."""
    if call is None:
        check(lib.sched_progress_callback(scheduler, _abi.sched_progress_fn(), None, 0))
        return None
    if not 0.001 <= interval_s <= 1e9:
        raise ValueError(f"interval_s is {interval_s}; accepted: 0.001 to 1e9")
    number = next(_numbers)
    listeners[number] = call
    try:
        check(lib.sched_progress_callback(scheduler, _tell, number, int(interval_s * 1e9)))
    except BaseException:
        forget(number)
        raise
    return number


def forget(number: int | None) -> None:
    """Once the library does not call it any more."""
    listeners.pop(number or 0, None)

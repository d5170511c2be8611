"""Sends the library's log to Python's `logging`."""

from __future__ import annotations

import atexit
import logging
import operator
from typing import Any

from . import _abi
from ._fields import checked
from ._library import check, lib

# The library's levels, from 1.
LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG, 5: logging.DEBUG - 5}

# The library calls this function, so it must not be freed.
_kept: Any = None


def log_to(logger: logging.Logger | None, level: int = logging.INFO) -> None:
    """Sends the library's log of the whole process to a logger in place of the previous target.

    Any thread of the library may log, several at the same time. Handlers must not close a
    scheduler.

    Parameters
    ----------
    logger : logging.Logger or None
        None turns the log off. At the start GPUSCHED_LOG sets the target.
    level : int
        Lowest level of `logging` that is sent. Warnings report failed tasks, late attempts
        and retired devices; information reports retries and copies of tasks. Level 5 is the
        library's trace.

    Raises
    ------
    GpuschedError
        SCHED_E_DEADLOCK from inside a handler.
    """
    global _kept
    if logger is None:
        check(lib.sched_log_callback(_abi.sched_log_fn(), None, 0))
        _kept = None
        return
    if not callable(getattr(logger, "log", None)):
        raise TypeError(f"logger is {logger!r}; accepted: a logging.Logger, or None")
    target, lowest = logger, checked("level", level, operator.index, "a level of logging, an integer")

    def emit(number: int, message: bytes, _user: Any) -> None:
        target.log(LEVELS.get(number, logging.INFO), "%s", message.decode(errors="replace"))

    callback = _abi.sched_log_fn(emit)
    most = max((number for number, python in LEVELS.items() if python >= lowest), default=1)
    check(lib.sched_log_callback(callback, None, most))
    _kept = callback


@atexit.register
def _silence() -> None:
    if _kept is not None:
        log_to(None)

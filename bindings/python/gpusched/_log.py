"""Sends the library's log to Python's `logging`."""

from __future__ import annotations

import atexit
import logging
import operator

from . import _abi
from ._fields import checked
from ._library import check, lib

# The library's levels, from 1.
LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG, 5: logging.DEBUG - 5}

# All loggers so far, by the number that the library passes as `user`. None is removed: after Ctrl-C,
# or beside another thread, `log_to` does not know which one is set.
_loggers: dict[int, logging.Logger] = {}


@_abi.sched_log_fn  # type: ignore[untyped-decorator, unused-ignore]
def _call(number: int, message: bytes, user: int) -> None:
    _loggers[user].log(LEVELS.get(number, logging.INFO), "%s", message.decode(errors="replace"))


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
    if logger is None:
        check(lib.sched_log_callback(_abi.sched_log_fn(), None, 0))
        return
    if not callable(getattr(logger, "log", None)):
        raise TypeError(f"logger is {logger!r}; accepted: a logging.Logger, or None")
    lowest = checked("level", level, operator.index, "a level of logging, an integer")
    most = max((number for number, python in LEVELS.items() if python >= lowest), default=1)
    _loggers[id(logger)] = logger
    check(lib.sched_log_callback(_call, id(logger), most))


@atexit.register
def _silence() -> None:
    if _loggers:
        log_to(None)

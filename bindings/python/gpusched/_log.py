"""The library's log, in Python's own."""

from __future__ import annotations

import atexit
import logging
from typing import Any

from . import _abi
from ._library import check, lib

# The library's levels, from 1.
LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG, 5: logging.DEBUG - 5}

# What the library calls has to stay.
_kept: Any = None


def log_to(logger: logging.Logger | None, level: int = logging.INFO) -> None:
    """Sends what the library has to say, from `level` up, to `logger`. None: nowhere, as at the start."""
    global _kept
    if logger is None:
        check(lib.sched_log_callback(_abi.sched_log_fn(), None, 0))
        _kept = None
        return
    target = logger

    def emit(number: int, message: bytes, _user: Any) -> None:
        target.log(LEVELS.get(number, logging.INFO), "%s", message.decode(errors="replace"))

    callback = _abi.sched_log_fn(emit)
    most = max((number for number, python in LEVELS.items() if python >= level), default=1)
    check(lib.sched_log_callback(callback, None, most))
    _kept = callback


@atexit.register
def _silence() -> None:
    if _kept is not None:
        log_to(None)

"""Finds and loads libgpusched.so, and turns its statuses into exceptions."""

from __future__ import annotations

import os
from concurrent.futures import CancelledError
from ctypes import CDLL
from pathlib import Path
from typing import Any

from . import _abi

NAMES = ("libgpusched.so", "libgpusched.so.0.1")


def _restore(kind: type[Exception], *args: object) -> Exception:
    """Returns an exception that was pickled; the caller sets its attributes."""
    return kind.__new__(kind, *args)


class GpuschedError(Exception):
    """A call or a task failed.

    Attributes
    ----------
    status : int
        One of `abi.SCHED_E_*`.
    name : str
        Name of the status, such as "SCHED_E_ARGUMENT".
    message : str
        Message of the library: what is wrong, the value, and what is accepted.
    """

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.name = status_name(status)
        self.message = message
        super().__init__(f"{message} ({self.name})")

    def __reduce__(self) -> tuple[Any, ...]:
        # By default `type(self)(*self.args)` rebuilds an exception, which is not how these are
        # constructed. multiprocessing.Pool waits for ever for a result that it can't unpickle.
        return _restore, (type(self), *self.args), vars(self)


class Handle:
    """Stands for an object of the library. A copy would release it a second time, or outlive it."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled: it stands for an object of the library")


class Cancelled(GpuschedError, CancelledError):
    """The task was cancelled. A `concurrent.futures.CancelledError`.

    A callable that stops because `Exec.cancelled` is true raises it.
    """

    def __init__(self, message: str = "the task was cancelled") -> None:
        super().__init__(_abi.SCHED_CANCELLED, message)


def _candidates() -> list[str]:
    """Returns $GPUSCHED_LIBRARY alone if it is set; else paths beside this package, then names for
    the system's loader."""
    chosen = os.environ.get("GPUSCHED_LIBRARY")
    if chosen:
        return [chosen]
    here = Path(__file__).resolve().parent
    beside = [str(here / name) for name in NAMES if (here / name).exists()]
    return [*beside, *NAMES]


def _load() -> _abi.Functions:
    tried = []
    for candidate in _candidates():
        try:
            library = _abi.Functions(CDLL(candidate))
        except (OSError, AttributeError) as error:
            tried.append(f"  {candidate}: {error}")
            continue
        there = library.sched_abi_version()
        if there == _abi.SCHED_ABI_VERSION:
            return library
        tried.append(f"  {candidate}: its ABI version is {there}; this package needs {_abi.SCHED_ABI_VERSION}")
    raise ImportError(
        "the gpusched library could not be loaded; set GPUSCHED_LIBRARY to the path of libgpusched.so, "
        "or put it where the system's loader looks. Tried:\n" + "\n".join(tried)
    )


lib = _load()


def status_name(status: int) -> str:
    """Returns the name of a status, such as "SCHED_E_ARGUMENT"."""
    return str(lib.sched_status_name(status).decode())


def last_error() -> str:
    """Returns the message of this thread's last failed call."""
    return str(lib.sched_last_error().decode(errors="replace"))


def check(status: int) -> int:
    """Raises GpuschedError for a negative status; returns any other."""
    if status < 0:
        raise GpuschedError(status, last_error())
    return status

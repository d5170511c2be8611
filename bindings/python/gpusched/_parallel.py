"""Loops over a sequence, split over the GPUs of this machine or over the nodes of a Dask
cluster."""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _abi
from ._jobs import Exec, is_in_task
from ._scheduler import MOST_SLOTS, Scheduler

if TYPE_CHECKING:
    from distributed import Client

Result = TypeVar("Result")

FILE = "gpusched.json"
VARIABLE = "GPUSCHED_PARALLEL"
# Types of the options that the file accepts.
OPTIONS: dict[str, type] = {"enabled": bool, "max_jobs_per_gpu": int, "batch": int, "cpu": bool}
# Average number of batches of a node without `batch`: few messages, and short waits at the end.
BATCHES = 32

# The options that hold inside each of the contexts of this thread, the innermost last.
_contexts: ContextVar[tuple[dict[str, Any], ...]] = ContextVar("gpusched.parallel", default=({},))
_schedulers: dict[tuple[int, int], Scheduler] = {}
_lock = threading.Lock()


class Parallel:
    """Options of decorated functions: decorates a function, or is the context of a `with`
    statement."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def __call__(self, function: Callable[..., Iterable[Result]]) -> Callable[..., list[Result]]:
        @functools.wraps(function)
        def split(items: Any, *arguments: Any, parallel: bool | None = None, **named: Any) -> list[Result]:
            options = _options(self._options, parallel)
            call = functools.partial(_call, function, arguments, named)
            if is_in_task() or not options.get("enabled", True):
                return call(items)
            run = _on_nodes if options.get("client") else _here
            return run(call, _sequence(items), options)

        return split

    def __enter__(self) -> Parallel:
        contexts = _contexts.get()
        _contexts.set((*contexts, {**contexts[-1], **self._options}))
        return self

    def __exit__(self, *_: object) -> None:
        _contexts.set(_contexts.get()[:-1])


@overload
def parallel(function: Callable[..., Iterable[Result]]) -> Callable[..., list[Result]]: ...


@overload
def parallel(function: None = None, **options: Any) -> Parallel: ...


def parallel(function: Callable[..., Iterable[Result]] | None = None, **options: Any) -> Any:
    """Splits a function's loop over its first argument among devices or a client's nodes::

        @gpusched.parallel
        def migrate(shots, model):
            return [migrate_one(shot, model) for shot in shots]

        images = migrate(shots, model)

    The function takes a sequence and returns one result for each element, in order. Each call of
    the decorated function calls it for slices of the sequence, on several threads at the same time,
    and returns the list of all results in order. An iterable without slices, such as an iterator or
    a deque, becomes a list, a dict the list of its keys. The other arguments are passed on
    unchanged. `current_exec` returns the device of a call.

    After `MemoryError`, or a class named `OutOfMemoryError` as PyTorch's, the slice is halved and
    computed again, down to one element. Any other exception of the function is raised, and no
    further slice starts. In a task, so also in another decorated function, the call is not split.

    As a context, `with gpusched.parallel(client=client):` sets options for the calls of decorated
    functions that its thread makes inside.

    An option has the value of the first that states it: the innermost context, the decorator, the
    file `gpusched.json` in the working folder. `enabled` is also stated by the call, as the keyword
    `parallel`, which comes first, and by the variable GPUSCHED_PARALLEL (0 or 1), which comes after
    the contexts.

    Parameters
    ----------
    function : callable, optional
        The function to decorate.
    enabled : bool
        False: the function is called once, here, with the whole sequence. Default: True.
    max_jobs_per_gpu : int
        Slices at a time on each device, 1 to 64. Default: the value of GPUSCHED_SLOTS, else 1.
    batch : int
        Largest number of elements of a slice. Default: tuned for each device; with a client, a 32nd
        of a node's share.
    cpu : bool
        Compute on the CPU if there is no GPU. Default: True.
    client : distributed.Client
        Client of a Dask cluster, whose nodes compute. Default: None, this machine.

    Raises
    ------
    TypeError, ValueError
        For an option that is not accepted, and if the results are not as many as the elements.
    GpuschedError
        SCHED_E_NO_DEVICE if `cpu` is false and there is no GPU.
    """
    _check(options, "gpusched.parallel", {**OPTIONS, "client": object})
    stated = Parallel(options)
    return stated if function is None else stated(function)


def _check(options: dict[str, Any], where: str, accepted: dict[str, type]) -> None:
    for name, value in options.items():
        kind: Any = accepted.get(name)
        if kind is None:
            raise TypeError(f"{where}: unknown option {name!r}; accepted: {', '.join(accepted)}")
        most = MOST_SLOTS if name == "max_jobs_per_gpu" else 2**64 - 1
        if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or not 1 <= value <= most)):
            accepts = "true or false" if kind is bool else f"an integer of 1 to {most}"
            raise ValueError(f"{where}: {name} is {value!r}; accepted: {accepts}")


def _options(stated: dict[str, Any], enabled: bool | None) -> dict[str, Any]:
    """Returns the options of a call. `stated`: those of the decorator."""
    path = Path(FILE)
    found: Any = {}
    if path.exists():
        try:
            found = json.loads(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{FILE} is not valid JSON ({error}); accepted: a JSON object of options") from None
    if not isinstance(found, dict):
        raise ValueError(f"{FILE} is {found!r}; accepted: a JSON object of options")
    _check(found, FILE, OPTIONS)
    found = {**found, **stated}
    variable = os.environ.get(VARIABLE)
    if variable:
        if variable not in ("0", "1"):
            raise ValueError(f"{VARIABLE} is {variable}; accepted: 0 or 1")
        found["enabled"] = variable == "1"
    found.update(_contexts.get()[-1])
    return found if enabled is None else {**found, "enabled": enabled}


def _sequence(items: Any) -> Any:
    """Returns `items` if it has a length and slices, else the list of its elements."""
    if isinstance(items, Mapping) or not hasattr(items, "__len__"):
        return list(items)
    try:
        items[:0]
    except (TypeError, LookupError):
        return list(items)
    return items


def _call(
    function: Callable[..., Iterable[Result]], arguments: tuple[Any, ...], named: dict[str, Any], items: Any
) -> list[Result]:
    """Returns the results of a slice."""
    try:
        results = list(function(items, *arguments, **named))
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError" and not isinstance(error, MemoryError):
            raise MemoryError(str(error)) from error
        raise
    if hasattr(items, "__len__") and len(results) != len(items):
        name = getattr(function, "__name__", "the function")
        raise ValueError(f"{name} returned {len(results)} results for {len(items)} elements; accepted: one for each")
    return results


def _here(call: Callable[[Any], list[Result]], items: Sequence[Any], options: dict[str, Any]) -> list[Result]:
    results: list[Any] = [None] * len(items)

    def chunk(_: Exec, places: range) -> None:
        results[places.start : places.stop] = call(items[places.start : places.stop])

    masks = {} if options.get("cpu", True) else {"backend_mask": _abi.SCHED_BACKEND_CUDA}
    task = _scheduler(options.get("max_jobs_per_gpu", 0)).submit_range(
        0, len(items), chunk, options.get("batch"), **masks
    )
    try:
        task.result()
    except BaseException:
        # Ctrl-C also cancels the rest.
        task.cancel()
        raise
    finally:
        # The traceback refers to this frame. The task refers to the traceback.
        del task
    return results


def _scheduler(slots: int) -> Scheduler:
    """Returns the scheduler of this process for a number of slots. The end of the program closes
    it."""
    key = (os.getpid(), slots)
    with _lock:
        if key not in _schedulers:
            _schedulers[key] = Scheduler(slots=slots)
        return _schedulers[key]


def _after_fork() -> None:
    """Replaces the lock, which another thread of the parent may have held."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _on_nodes(call: Callable[[Any], list[Result]], items: Sequence[Any], options: dict[str, Any]) -> list[Result]:
    from . import dask

    client: Client = options["client"]
    nodes = max(1, len(client.nthreads()))
    batch = options.get("batch") or max(1, len(items) // (BATCHES * nodes))
    slices = [items[begin : begin + batch] for begin in range(0, len(items), batch)]
    devices = None if options.get("cpu", True) else "cuda"
    halved = functools.partial(_halved, call)
    found = dask.map(halved, slices, client, slots=options.get("max_jobs_per_gpu", 0), devices=devices)
    return [result for results in found for result in results]


def _halved(call: Callable[[Any], list[Result]], items: Any) -> list[Result]:
    """Returns the results of a slice, computed in halves if the device is short of memory."""
    try:
        return call(items)
    except MemoryError:
        if len(items) < 2:
            raise
    half = len(items) // 2
    return _halved(call, items[:half]) + _halved(call, items[half:])

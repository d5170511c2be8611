"""Runs surveys and functions on the nodes of a Dask cluster.

    from distributed import Client
    import gpusched.dask

    with Client("scheduler:8786") as client:
        found = gpusched.dask.run("survey.toml", client)

Each shot is a Dask task. A shot is handed to a node when the node has a place for it and is
expected to end it before the others could; the shots of a lost node are computed elsewhere. Start
one Dask worker a node, with at least one thread more than the node has slots. Each worker keeps one
process, `gpusched run`, whose scheduler shares the node's GPUs among its shots.

Needs the package distributed: pip install gpusched[dask].
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import heapq
import itertools
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from distributed import Client, Worker, WorkerPlugin, get_worker
from distributed.comm import CommClosedError
from distributed.core import clean_exception, error_message
from distributed.protocol import pickle

from ._jobs import Exec
from ._scheduler import Scheduler

__all__ = ["map", "run"]

T = TypeVar("T")
R = TypeVar("R")

# Name of the resource by which a worker states its places.
RESOURCE = "gpusched"
# Shots of a worker beyond those that run, so that a slot that becomes free has a next shot at once.
AHEAD = 1
# Times that a failed shot is computed again, on another node if there is one.
RETRIES = 2
# Times that a shot is computed again because its worker was lost.
LOSSES = 3
# Seconds between two reads of the list of workers.
LOOK_S = 0.5
# Seconds for which a worker waits while its process saves the states of its shots: several GB each.
STOP_S = 900.0
# Name of the metric of a worker's occupancy.
METRIC = "gpusched"
# Seconds without a shot after which a node's process ends, as when the client was killed.
IDLE_S = 60.0


class _Places:
    """The places of a worker, and the durations of items there."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        # Submitted items, and the start of each; items beyond the slots have not started.
        self.begun: dict[int, float | None] = {}
        # Number and total seconds of the items that have succeeded there.
        self.done = 0
        self.seconds = 0.0

    def is_free(self) -> bool:
        return len(self.begun) < self.slots + AHEAD

    def begin(self, item: int) -> None:
        running = sum(begun is not None for begun in self.begun.values())
        self.begun[item] = time.monotonic() if running < self.slots else None

    def end(self, item: int, seconds: float | None) -> None:
        self.begun.pop(item, None)
        if seconds is not None:
            self.done += 1
            self.seconds += seconds
        waiting = next((other for other, begun in self.begun.items() if begun is None), None)
        if waiting is not None:
            self.begun[waiting] = time.monotonic()

    def ends(self, mean: float) -> list[float]:
        """Returns a heap of the times at which the slots are expected to be free."""
        now = time.monotonic()
        times = [max(now, begun + mean) for begun in self.begun.values() if begun is not None]
        times += [now] * (self.slots - len(times))
        heapq.heapify(times)
        for begun in self.begun.values():
            if begun is None:
                heapq.heappush(times, heapq.heappop(times) + mean)
        return times


class _HandOut:
    """Decides which worker computes which item. `begin` submits an item to a worker, whose result
    is seconds and a value."""

    def __init__(self, client: Client, begin: Callable[[int, str], Any], count: int, attempts: int) -> None:
        if client.asynchronous or client.status != "running":
            raise ValueError(f"`client` is {'asynchronous' if client.asynchronous else client.status}; accepted: a running, blocking one")
        self.client = client
        self.begin = begin
        self.count = count
        # Called if workers come or go.
        self.changed: Callable[[], None] = lambda: None
        self.left = deque(range(count))
        self.attempts = attempts
        self.workers: dict[str, _Places] = {}
        self.running: dict[Any, tuple[int, str]] = {}
        self.failed: dict[int, list[str]] = {}
        self.ended: SimpleQueue[Any] = SimpleQueue()
        self.losses: dict[int, int] = {}
        self.looked = float("-inf")
        self.scheduler: str | None = None

    def __iter__(self) -> Iterator[tuple[int, Any, BaseException | None]]:
        """Yields the items as they end, each with its value or its exception."""
        try:
            yield from self._items()
        except OSError as error:
            raise ConnectionError("Dask's scheduler was lost, or its tasks were cancelled") from error

    def _items(self) -> Iterator[tuple[int, Any, BaseException | None]]:
        while self.left or self.running:
            for item in self._look():
                why = f"{LOSSES + 1} workers were lost or paused, one after the other, during item {item + 1}"
                yield item, None, RuntimeError(f"{why}; their logs say more")
            while any([self._hand(address) for address in self._next()]):
                pass
            ended = [one for one in self._ended() if one[0] in self.running]
            if any(future.status == "cancelled" for future, _, _ in ended):
                raise OSError("Dask cancels all tasks when the connection breaks")
            for future, result, error in ended:
                if isinstance(error, OSError) and future.status == "finished":
                    raise error  # of the connection, not of the item
                item, address = self.running.pop(future)
                seconds, value = result or (None, None)
                if address in self.workers:
                    self.workers[address].end(item, seconds)
                if error is not None:
                    self.failed.setdefault(item, []).append(address)
                if error is None or len(self.failed[item]) >= self.attempts:
                    yield item, value, error
                else:
                    self.left.appendleft(item)

    async def _follow(self, future: Any) -> None:
        """Waits for a future and its result, for ever if its worker is lost: `_look` cancels it."""
        try:
            self.ended.put((future, await future, None))
        except BaseException as error:
            self.ended.put((future, None, error))

    def _ended(self) -> list[tuple[Any, Any, BaseException | None]]:
        """Waits for LOOK_S at most. Returns the futures that have ended, with their results or
        errors."""
        found = []
        try:
            found.append(self.ended.get(timeout=LOOK_S))
            while True:
                found.append(self.ended.get_nowait())
        except Empty:
            return found

    def cancel(self) -> None:
        if self.client.status == "running":
            self.client.cancel(list(self.running))

    def outlook(self) -> tuple[list[float], float | None]:
        """Returns the items a second of each worker that has ended some, and the seconds until all
        should have ended."""
        rates = [worker.slots * worker.done / worker.seconds for worker in self.workers.values() if worker.seconds]
        if not rates:
            return [], None
        usual = sum(worker.seconds for worker in self.workers.values()) / sum(w.done for w in self.workers.values())
        now, items, last = time.monotonic(), float(len(self.left)), 0.0
        for worker in self.workers.values():
            mean = worker.seconds / worker.done if worker.done else usual
            parts = [min(1.0, (now - begun) / mean) if begun else 0.0 for begun in worker.begun.values()]
            items += sum(1 - part for part in parts)
            last = max([last, *(mean * (1 - part) for part in parts)])
        total = sum(rates) + sum(worker.slots / usual for worker in self.workers.values() if not worker.done)
        return rates, max(items / total, last)

    def _look(self) -> list[int]:
        """Reads the list of workers. A worker is ready once it reports its slots, until Dask pauses
        it.

        Takes back the items of lost and paused workers, and returns those that have lost too many.
        """
        if time.monotonic() < self.looked + LOOK_S:
            return []
        self.looked = time.monotonic()
        found = self.client.sync(self.client.scheduler.identity)
        if found["id"] != (self.scheduler or found["id"]):
            raise OSError("another scheduler has its address")
        self.scheduler = found["id"]
        places = {a: round(w["resources"].get(RESOURCE, 0)) for a, w in found["workers"].items() if w["status"] == "running"}
        before = len(self.workers)
        self.workers = {
            address: self.workers.get(address) or _Places(count - AHEAD) for address, count in places.items() if count
        }
        if len(self.workers) != before:
            self.changed()
        lost = {future: item for future, (item, address) in self.running.items() if address not in self.workers}
        if lost:  # Dask's scheduler logs a request to cancel nothing too
            self.client.cancel(list(lost))
        given_up = []
        for future, item in lost.items():
            del self.running[future]
            self.losses[item] = self.losses.get(item, 0) + 1
            if self.losses[item] > LOSSES:
                given_up.append(item)
            else:
                self.left.appendleft(item)
        return given_up

    def _next(self) -> list[str]:
        """Returns the workers that get an item now: those with a place that would end it before the
        others."""
        if not any(worker.is_free() for worker in self.workers.values()):
            return []
        # Workers without a place count neither as free nor as other workers.
        able = {address: worker for address, worker in self.workers.items() if self._item_for(address) is not None}
        known = [worker.seconds / worker.done for worker in self.workers.values() if worker.done]
        usual = sum(known) / len(known) if known else 1.0
        means = {a: max(w.seconds / w.done if w.done else usual, 1e-9) for a, w in self.workers.items()}
        rate = sum(worker.slots / means[address] for address, worker in able.items())
        firsts = sorted((worker.ends(means[a])[0] + means[a], a) for a, worker in able.items() if worker.is_free())
        now, chosen = time.monotonic(), []
        times: list[tuple[float, float]] = []
        for end, address in firsts:
            # The others end less than (end - now) * rate items before. Where that does not decide,
            # count them.
            if (end - now) * rate >= len(self.left):
                times = times or [(t, means[a]) for a, worker in able.items() for t in worker.ends(means[a])]
                before = sum(math.ceil((end - t) / mean - 1e-9) - 1 for t, mean in times if end - t > mean)
                if before >= len(self.left):
                    break
            chosen.append(address)
        return chosen

    def _item_for(self, address: str) -> int | None:
        """Returns the next item for a worker: one that has not failed there, or that has failed
        everywhere."""
        for item in self.left:
            if address not in self.failed.get(item, []) or set(self.workers) <= set(self.failed[item]):
                return item
        return None

    def _hand(self, address: str) -> bool:
        """Submits an item to a worker. Returns whether an item exists for it."""
        item = self._item_for(address)
        if item is None:
            return False
        self.left.remove(item)
        self.workers[address].begin(item)
        future = self.begin(item, address)
        self.running[future] = (item, address)
        self.client.loop.add_callback(self._follow, future)
        return True


class _Node(WorkerPlugin):  # type: ignore[misc] # distributed has no complete types
    """Runs a process on a worker that computes shots as their numbers arrive."""

    def __init__(self, name: str, command: list[str], folder: str) -> None:
        self.name = name
        self.command = command
        self.folder = folder

    async def setup(self, worker: Worker) -> None:
        self.lock = threading.Lock()
        # Callers that wait for a shot of the process.
        self.waiting: dict[int, Future[dict[str, Any]]] = {}
        self.process: subprocess.Popen[str] | None = None
        self.closed = False
        self.timer = threading.Timer(IDLE_S, self._rest)
        survey = await asyncio.to_thread(self._start)
        self._set_timer()
        _show_occupancy(worker, survey["slots"], lambda: len(self.waiting))
        await worker.set_resources(**{RESOURCE: survey["slots"] + AHEAD})

    async def teardown(self, worker: Worker) -> None:
        worker.metrics.pop(METRIC, None)
        await asyncio.to_thread(self._stop)

    def _start(self) -> dict[str, Any]:
        """Starts the process. Returns its description of the survey."""
        pipe = subprocess.PIPE
        # A session of its own: a Ctrl-C for the worker's group would stop the process before `_stop` does.
        process = subprocess.Popen(
            self.command, cwd=self.folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        assert process.stdout and process.stderr
        last: deque[str] = deque(maxlen=20)
        listener = threading.Thread(target=last.extend, args=(process.stderr,), daemon=True)
        listener.start()
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "survey":
                self.process, self.waiting = process, {}
                threading.Thread(target=self._listen, args=(process, self.waiting, listener, last), daemon=True).start()
                return dict(event["survey"])
        process.wait()
        listener.join()
        raise RuntimeError(f"{socket.gethostname()}: {''.join(last).strip() or 'gpusched ended'}")

    def _listen(
        self,
        process: subprocess.Popen[str],
        waiting: dict[int, Future[dict[str, Any]]],
        listener: threading.Thread,
        last: deque[str],
    ) -> None:
        """Passes the reports of the process to the callers that wait for a shot."""
        assert process.stdout
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "shot":
                with self.lock:
                    future = waiting.pop(event["shot"], None)
                if future:
                    future.set_result(event)
        status = process.wait()
        listener.join()
        with self.lock:
            lost = list(waiting.values())
            waiting.clear()
        why = f"gpusched ended with status {status} on {socket.gethostname()}: {''.join(last).strip()}"
        for future in lost:
            future.set_exception(RuntimeError(why))

    def compute(self, number: int) -> dict[str, Any]:
        """Returns the report of a shot once it has ended."""
        with self.lock:
            if self.closed:
                raise RuntimeError(f"the run on {socket.gethostname()} was stopped")
            self.timer.cancel()
            if self.process is None or self.process.poll() is not None:
                self._start()
            assert self.process and self.process.stdin
            # A shot that was cancelled, as when the worker was paused, may still run.
            running = number in self.waiting
            future = self.waiting.setdefault(number, Future())
            # An OSError: it has just ended; its listener reports why.
            with contextlib.suppress(OSError):
                if not running:
                    self.process.stdin.write(f"{number}\n")
                    self.process.stdin.flush()
        try:
            event = future.result()
        finally:
            self._set_timer()
        if event["state"] not in ("done", "kept"):
            why = event.get("error", "the run was stopped")
            raise RuntimeError(f"shot {number} {event['state']} on {socket.gethostname()}: {why}")
        return {**event, "node": socket.gethostname()}

    def _set_timer(self) -> None:
        """Ends the process after IDLE_S if no caller waits for a shot. `compute` starts another."""
        with self.lock:
            self.timer.cancel()
            if not self.waiting and not self.closed:
                self.timer = threading.Timer(IDLE_S, self._rest)
                self.timer.daemon = True
                self.timer.start()

    def _rest(self) -> None:
        with self.lock:
            if self.process and self.process.stdin and not self.waiting:
                self.process.stdin.close()
                self.process = None

    def _stop(self) -> None:
        with self.lock:
            self.closed = True
            self.timer.cancel()
            process = self.process
            running = bool(self.waiting)
        if process is None or process.poll() is not None:
            return
        assert process.stdin
        if running:
            process.terminate()
        process.stdin.close()
        # A process that needs longer may still write states, and ends by itself.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)


class _ShotError(RuntimeError):
    """The cause of a shot's failure, and its node."""

    def __init__(self, why: str, node: str) -> None:
        super().__init__(why, node)
        self.node = node

    def __str__(self) -> str:
        return str(self.args[0])


def _compute(name: str, number: int) -> tuple[float | None, dict[str, Any]]:
    try:
        report: dict[str, Any] = get_worker().plugins[name].compute(number)
    except Exception as error:
        raise _ShotError(str(error), socket.gethostname()) from error
    return report.get("seconds"), report


def _find_command() -> str:
    """Returns the path of the command: on PATH, or beside this Python."""
    beside = Path(sysconfig.get_path("scripts"), "gpusched")
    found = shutil.which("gpusched") or (str(beside) if beside.exists() else None)
    if found is None:
        raise FileNotFoundError("the command gpusched is neither on PATH nor beside Python; state `command`")
    return found


def _call(command: str, *arguments: str, event: str | None = None) -> dict[str, Any]:
    """Runs the command here, and returns its last object, of an event if that is stated. Raises
    `RuntimeError` if it was refused."""
    done = subprocess.run([command, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.strip())
    try:
        objects = [json.loads(line) for line in done.stdout.splitlines()]
        last: dict[str, Any] = [found for found in objects if event in (None, found.get("event"))][-1]
    except (IndexError, ValueError):
        raise RuntimeError(f"{command} is not the command gpusched: {done.stderr.strip() or 'it prints no JSON'}") from None
    return last


def _check_devices(devices: str | None) -> None:
    """Raises ValueError for a list that no node would accept."""
    items = [item.strip() for item in ((devices or "").strip() or "all").split(",")]
    if items not in (["all"], ["none"]) and not all(re.fullmatch(r"(cpu|cuda)(:\S+)?", item) for item in items):
        accepted = "all, none, or a list of cpu, cuda, cuda:NUMBER and cuda:UUID"
        raise ValueError(f"devices is {devices!r}; accepted: {accepted}")


def run(
    survey: str | os.PathLike[str],
    client: Client,
    *,
    resume: bool = False,
    devices: str | None = None,
    command: str | None = None,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Computes the shots of a survey on all workers, and collects their results.

    The survey file, its model and its output folder must have the same paths on all nodes. A shot
    that fails is tried three times in all, on other nodes if there are any. A shot whose node is
    lost is computed elsewhere, up to three times more. A worker that joins gets shots. On
    `KeyboardInterrupt` running shots save their state for `resume`.

    Parameters
    ----------
    survey : path
        Survey file.
    client : distributed.Client
        Client of the cluster.
    resume : bool
        Keep complete shots and continue stopped ones.
    devices : str
        Devices to use on each node, such as "cuda". Default: all.
    command : str
        Path of the command `gpusched` on the nodes and here. Default: on PATH, or beside Python.
    show_progress : bool
        Print the number of ended shots, the rate of the nodes and the expected end to standard
        error.

    Returns
    -------
    dict
        The object that `gpusched collect --json` prints: `shots`, `done`, `failed`, `not_done`,
        `errors` and more. Each of `errors` has `shot`, `node` and `error`; `node` is None if it is
        not known, as after lost workers.

    Raises
    ------
    ValueError
        `devices` is no list of devices.
    RuntimeError
        The survey was refused, here or on a node, its results cannot be collected, or Dask's
        scheduler was lost.
    """
    path = Path(survey).resolve()
    command = command or _find_command()
    if os.path.dirname(command):
        command = os.path.abspath(command)  # the nodes have other working folders
    _check_devices(devices)
    # A part, of all shots: nodes of a client that was killed may still write to the folder. Only
    # the nodes need the devices, and memory for the shots.
    dry = ["run", str(path), "--dry-run", "--array-index", "1/1", "--devices", "none"]
    described = _call(command, *dry, event="survey")["survey"]
    folder = path.parent / described["folder"]
    name = f"gpusched-{uuid.uuid4().hex[:8]}"
    options = [*(["--devices", devices] if devices else []), *(["--resume"] if resume else [])]
    node = _Node(name, [command, "run", str(path), "--json", "--shots-from", "-", *options], str(path.parent))
    attempts = itertools.count()

    def begin(shot: int, worker: str) -> Any:
        key = f"shot-{shot + 1}-{name}-{next(attempts)}"
        return client.submit(_compute, name, shot + 1, key=key, workers=[worker])

    def show() -> None:
        if show_progress:
            print(f"\r{_progress(done, shots):<100}", end="", file=sys.stderr, flush=True)

    shots = _HandOut(client, begin, described["shots"], 1 + RETRIES)
    shots.changed = show
    done = 0
    lost: dict[int, BaseException] = {}
    try:
        show()
        _register(client, node)
        for done, (shot, _, error) in enumerate(shots, 1):
            if error is not None:
                lost[shot + 1] = error
            show()
    except KeyboardInterrupt:
        shots.cancel()
        raise
    except ConnectionError as error:
        raise RuntimeError(f"{error}; run again with resume") from error
    finally:
        _unregister(client, name)
        if show_progress:
            print(file=sys.stderr)
    found = _call(command, "collect", str(folder))
    listed = {error["shot"] for error in found["errors"]}
    found["errors"] += [
        {"shot": shot, "node": error.node if isinstance(error, _ShotError) else None, "error": str(error)}
        for shot, error in lost.items()
        if shot not in listed
    ]
    return found


def _progress(done: int, shots: _HandOut) -> str:
    """Returns one line, however many nodes there are."""
    line = f"{done} of {shots.count} shots"
    rates, left_s = shots.outlook()
    if left_s is None:
        return line if shots.workers else f"{line}, waiting for workers"
    factor, unit = next(((f, u) for f, u in ((1, "s"), (60, "min")) if min(rates) * f >= 1), (3600, "h"))
    low, high = (f"{rate * factor:.3g}" for rate in (min(rates), max(rates)))
    nodes = f"{len(rates)} nodes with {low} to {high}" if len(rates) > 1 else f"1 node with {low}"
    end = time.strftime("%a %H:%M:%S", time.localtime(time.time() + left_s))
    return f"{line}, {nodes} shots/{unit}, expected end {end}"


_has_package = lambda: find_spec("gpusched") is not None  # noqa: E731 # pickled by its code, unlike a function


def _register(client: Client, plugin: _Node | _Functions) -> None:
    """Registers the plugin on all workers, again if one leaves. The scheduler unpickles tasks."""
    for last in (False, False, True):
        try:
            found = {"Dask's scheduler": client.run_on_scheduler(_has_package), **client.run(_has_package)}
            if lacking := [place for place, has_package in found.items() if not has_package]:
                places = ", ".join([*lacking[:3], *(["others"] if lacking[3:] else [])])
                raise RuntimeError(f"the package gpusched is missing on {places}; install it on all nodes")
            client.register_plugin(plugin, plugin.name)
            return
        except CommClosedError:
            if last or client.status != "running":
                raise


def _unregister(client: Client, name: str) -> None:
    # A scheduler that was lost, or replaced, does not know the plugin; nor does a worker that could
    # not load it.
    if client.status == "running":
        with contextlib.suppress(OSError, ValueError, KeyError):
            client.unregister_worker_plugin(name)


def _show_occupancy(worker: Worker, slots: int, running: Callable[[], int]) -> None:
    """Adds a column to the table of workers on Dask's dashboard."""
    worker.metrics[METRIC] = lambda _: f"{min(slots, running())} of {slots} slots busy"


class _Functions(WorkerPlugin):  # type: ignore[misc]
    """Holds a scheduler and the function on a worker."""

    def __init__(self, name: str, function: Callable[[Any], Any], devices: str | None, slots: int) -> None:
        self.name = name
        self.function = function
        self.devices = devices
        self.slots = slots
        self.scheduler: Scheduler | None = None

    async def setup(self, worker: Worker) -> None:
        # It may load drivers, which can take seconds.
        self.scheduler = scheduler = await asyncio.to_thread(Scheduler, self.devices, self.slots)
        slots = sum(device.slots for device in scheduler.devices)
        _show_occupancy(worker, slots, lambda: scheduler.stats.running)
        await worker.set_resources(**{RESOURCE: slots + AHEAD})

    async def teardown(self, worker: Worker) -> None:
        worker.metrics.pop(METRIC, None)
        if self.scheduler:  # None if the setup failed
            # `close` waits for the running calls. Dask would kill a worker without heartbeats.
            await asyncio.to_thread(self.scheduler.close)


def _apply(name: str, item: Any) -> tuple[float, Any]:
    node: _Functions = get_worker().plugins[name]
    scheduler = node.scheduler
    assert scheduler

    def call(_: Exec) -> tuple[float, Any]:
        begun = time.monotonic()
        result = node.function(item)
        return time.monotonic() - begun, result

    try:
        seconds, result = scheduler.submit(call).result()
        # A result that cannot be sent would be looked for on all workers.
        pickle.dumps(result, buffer_callback=lambda _: None)
        return seconds, result
    except BaseException as error:
        found = _sendable(error)
    raise found


def _sendable(error: BaseException) -> BaseException:
    """Returns the error that is being handled, or a plain one if Dask would end the worker or lose
    the error."""
    with contextlib.suppress(Exception):
        message = error_message(error)
        clean_exception(*(message[part] and message[part].data for part in ("exception", "traceback")))
        if isinstance(error, Exception):
            return error
    return RuntimeError(traceback.format_exception_only(type(error), error)[-1].strip())


def map(
    function: Callable[[T], R],
    items: Iterable[T],
    client: Client,
    *,
    devices: str | None = None,
    slots: int = 0,
) -> list[R]:
    """Calls `function(item)` for each item on all workers' devices; returns the results in order.

    `gpusched.current_exec` returns the device of a call. The first exception is raised, or
    `ConnectionError` if Dask's scheduler is lost; a call whose worker is lost is made again on
    another. `devices` and `slots` are those of the scheduler of each node, as in `Scheduler`.
    """
    name = f"gpusched-{uuid.uuid4().hex[:8]}"
    listed = list(items)

    def begin(item: int, worker: str) -> Any:
        return client.submit(_apply, name, listed[item], pure=False, workers=[worker])

    calls = _HandOut(client, begin, len(listed), 1)
    results: dict[int, R] = {}
    try:
        _register(client, _Functions(name, function, devices, slots))
        for item, value, error in calls:
            if error is not None:
                raise error
            results[item] = value
    finally:
        calls.cancel()
        _unregister(client, name)
    return [results[item] for item in range(len(listed))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gpusched.dask", description="Runs a survey on a Dask cluster.")
    parser.add_argument("survey", help="survey file; it has the same path on all nodes")
    parser.add_argument("--scheduler", required=True, help="address of the Dask scheduler, such as node1:8786")
    parser.add_argument("--resume", action="store_true", help="keep complete shots and continue stopped ones")
    parser.add_argument("--devices", help="devices to use on each node, such as cuda")
    given = parser.parse_args()
    try:
        with Client(given.scheduler) as client:
            found = run(given.survey, client, resume=given.resume, devices=given.devices, show_progress=True)
    except KeyboardInterrupt:
        print("gpusched.dask: stopped; --resume continues", file=sys.stderr)
        return 130
    except (RuntimeError, OSError, ValueError) as error:
        print(f"gpusched.dask: {error}", file=sys.stderr)
        return 2
    for one in found["errors"]:
        print(f"shot {one['shot']}: {one['error']}", file=sys.stderr)
    print(f"{found['done']} of {found['shots']} shots done")
    return 0 if found["done"] == found["shots"] else 1


if __name__ == "__main__":
    # Functions of __main__ would travel to the workers as code, with each shot.
    from gpusched import dask

    sys.exit(dask.main())

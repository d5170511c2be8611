"""Runs surveys and functions on the nodes of a Dask cluster.

    from distributed import Client
    import gpusched.dask

    with Client("scheduler:8786") as client:
        found = gpusched.dask.run("survey.toml", client)

Each shot is a Dask task, so Dask decides which node computes it, and moves the shots of a lost node.
Start one Dask worker a node, with at least one thread more than the node has slots. Each worker
keeps one process, `gpusched run`, whose scheduler shares the node's GPUs among its shots.

Needs the package distributed: pip install gpusched[dask].
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from distributed import Client, Worker, WorkerPlugin, as_completed, get_worker, progress

from ._scheduler import Scheduler

__all__ = ["map", "run"]

T = TypeVar("T")
R = TypeVar("R")

# Dask's name for the places of a worker.
RESOURCE = "gpusched"
# Shots of a worker beyond those that run, so that a slot that becomes free has a next shot at once.
AHEAD = 1
# Times that Dask computes a failed shot again, perhaps on another node.
RETRIES = 2
# Seconds for which a node's process may save the state of its shots.
STOP_S = 60.0


class _Node(WorkerPlugin):  # type: ignore[misc] # distributed has no complete types
    """Keeps a process on a worker that computes shots as their numbers arrive."""

    def __init__(self, name: str, command: list[str], folder: str) -> None:
        self.name = name
        self.command = command
        self.folder = folder

    async def setup(self, worker: Worker) -> None:
        self.lock = threading.Lock()
        self.waiting: dict[int, Future[dict[str, Any]]] = {}
        self.process: subprocess.Popen[str] | None = None
        self.closed = False
        survey = await asyncio.to_thread(self._start)
        await worker.set_resources(**{RESOURCE: survey["slots"] + AHEAD})

    async def teardown(self, worker: Worker) -> None:
        await asyncio.to_thread(self._stop)

    def _start(self) -> dict[str, Any]:
        """Starts the process. Returns its description of the survey."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(self.command, cwd=self.folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert process.stdout and process.stderr
        last: deque[str] = deque(maxlen=20)
        listener = threading.Thread(target=last.extend, args=(process.stderr,), daemon=True)
        listener.start()
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "survey":
                self.process = process
                threading.Thread(target=self._listen, args=(process, listener, last), daemon=True).start()
                return dict(event["survey"])
        process.wait()
        listener.join()
        raise RuntimeError(f"{socket.gethostname()}: {''.join(last).strip() or 'gpusched ended'}")

    def _listen(self, process: subprocess.Popen[str], listener: threading.Thread, last: deque[str]) -> None:
        """Passes the reports of the process to those who wait for a shot."""
        assert process.stdout
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "shot":
                with self.lock:
                    future = self.waiting.pop(event["shot"], None)
                if future:
                    future.set_result(event)
        status = process.wait()
        listener.join()
        with self.lock:
            waiting, self.waiting = self.waiting, {}
        why = f"gpusched ended with status {status} on {socket.gethostname()}: {''.join(last).strip()}"
        for future in waiting.values():
            future.set_exception(RuntimeError(why))

    def compute(self, number: int) -> dict[str, Any]:
        """Returns the report of a shot once it has ended."""
        future: Future[dict[str, Any]] = Future()
        with self.lock:
            if self.closed:
                raise RuntimeError(f"the run on {socket.gethostname()} was stopped")
            if self.process is None or self.process.poll() is not None:
                self._start()
            assert self.process and self.process.stdin
            self.waiting[number] = future
            try:
                self.process.stdin.write(f"{number}\n")
                self.process.stdin.flush()
            except OSError:
                # It has just ended; its listener reports why.
                pass
        event = future.result()
        if event["state"] not in ("done", "kept"):
            why = event.get("error", "the run was stopped")
            raise RuntimeError(f"shot {number} {event['state']} on {socket.gethostname()}: {why}")
        return {**event, "node": socket.gethostname()}

    def _stop(self) -> None:
        with self.lock:
            self.closed = True
            process = self.process
            running = bool(self.waiting)
        if process is None or process.poll() is not None:
            return
        assert process.stdin
        if running:
            process.terminate()
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _compute(name: str, number: int) -> dict[str, Any]:
    report: dict[str, Any] = get_worker().plugins[name].compute(number)
    return report


def _find_command() -> str:
    """Returns the path of the command: on PATH, or beside this Python."""
    beside = Path(sysconfig.get_path("scripts"), "gpusched")
    found = shutil.which("gpusched") or (str(beside) if beside.exists() else None)
    if found is None:
        raise FileNotFoundError("the command gpusched is neither on PATH nor beside Python; state `command`")
    return found


def _call(command: str, *arguments: str) -> dict[str, Any]:
    """Runs the command here, and returns its last object. Raises `RuntimeError` if it was refused."""
    done = subprocess.run([command, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.strip())
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


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

    The survey file, its model and its output folder must have the same paths on all nodes. A shot that
    fails, or whose node is lost, is computed again elsewhere, up to three times in all. A worker that
    joins gets shots. On `KeyboardInterrupt` running shots save their state for `resume`.

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
        Show Dask's progress bar.

    Returns
    -------
    dict
        The object that `gpusched collect --json` prints: `shots`, `done`, `failed`, `not_done`, `errors` and more.
        Each of `errors` has `shot`, `node` and `error`.

    Raises
    ------
    RuntimeError
        The survey was refused, here or on a node, or its results cannot be collected.
    """
    path = Path(survey).resolve()
    command = command or _find_command()
    options = ["--devices", devices] if devices else []
    described = _call(command, "run", str(path), "--dry-run", *options)["survey"]
    folder = path.parent / described["folder"]
    name = f"gpusched-{uuid.uuid4().hex[:8]}"
    options += ["--resume"] if resume else []
    node = _Node(name, [command, "run", str(path), "--json", "--shots-from", "-", *options], str(Path.cwd()))
    client.register_plugin(node, name)
    shots = {
        client.submit(
            _compute, name, number, key=f"shot-{number}-{name}", resources={RESOURCE: 1}, retries=RETRIES, pure=False
        ): number
        for number in range(1, described["shots"] + 1)
    }
    lost: dict[int, str] = {}
    try:
        if show_progress:
            progress(list(shots))
        for shot in as_completed(shots):
            if shot.status == "error":
                lost[shots[shot]] = str(shot.exception())
    except KeyboardInterrupt:
        client.cancel(list(shots))
        raise
    finally:
        client.unregister_worker_plugin(name)
    found = _call(command, "collect", str(folder))
    listed = {error["shot"] for error in found["errors"]}
    found["errors"] += [{"shot": shot, "error": why} for shot, why in lost.items() if shot not in listed]
    return found


class _Functions(WorkerPlugin):  # type: ignore[misc]
    """Keeps a scheduler on a worker."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def setup(self, worker: Worker) -> None:
        self.scheduler = Scheduler()
        slots = sum(device.slots for device in self.scheduler.devices)
        await worker.set_resources(**{RESOURCE: slots + AHEAD})

    def teardown(self, worker: Worker) -> None:
        self.scheduler.close()


def _apply(name: str, function: Callable[[T], R], item: T) -> R:
    scheduler: Scheduler = get_worker().plugins[name].scheduler
    return scheduler.submit(lambda _: function(item)).result()


def map(function: Callable[[T], R], items: Iterable[T], client: Client) -> list[R]:
    """Calls `function(item)` for each item on the devices of all workers, and returns the results in order.

    `gpusched.current_exec` returns the device of a call. The first exception is raised; a call whose
    worker is lost is made again on another.
    """
    name = f"gpusched-{uuid.uuid4().hex[:8]}"
    client.register_plugin(_Functions(name), name)
    calls = [client.submit(_apply, name, function, item, resources={RESOURCE: 1}, pure=False) for item in items]
    try:
        results: list[R] = client.gather(calls)
        return results
    finally:
        client.cancel(calls)
        client.unregister_worker_plugin(name)


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
    except RuntimeError as error:
        print(f"gpusched.dask: {error}", file=sys.stderr)
        return 2
    for one in found["errors"]:
        print(f"shot {one['shot']}: {one['error']}", file=sys.stderr)
    print(f"{found['done']} of {found['shots']} shots done")
    return 0 if found["done"] == found["shots"] else 1


if __name__ == "__main__":
    sys.exit(main())

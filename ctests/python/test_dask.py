"""Surveys and functions on a Dask cluster, whose nodes are processes of this machine."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import Future
from pathlib import Path
from unittest import mock

import gpusched
import gpusched.dask
from distributed import Client, LocalCluster, Worker

# Cargo puts the library of the tests into a folder beside the command.
COMMAND = str(Path(os.environ["GPUSCHED_LIBRARY"]).parents[1] / "gpusched")
SHOTS = 8
SURVEY = f"""
grid = {{ n = [24, 8, 16], spacing_m = 10.0 }}
model.vp = {{ layers = [{{ value = 1500.0 }}, {{ top_m = 80.0, value = 2000.0 }}] }}
time = {{ dt_s = 0.002, nt = %d }}
wavelet.frequency_hz = 20.0
sources = {{ first_m = [60.0, 40.0, 10.0], step_m = [10.0, 10.0], count = [{SHOTS}, 1] }}
output.pictures = 0
"""


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "out").iterdir() if path.name.startswith("shot_")}


class OnDask(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(n_workers=2, threads_per_worker=3, dashboard_address=None)
        cls.client = Client(cls.cluster)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.cluster.close()

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def start_program(self, survey: str, commands: Path = Path(COMMAND).parent) -> subprocess.Popen[str]:
        words = ["-m", "gpusched.dask", survey, "--scheduler", self.cluster.scheduler_address, "--devices", "cpu"]
        environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, *words], env=environment, stdout=pipe, stderr=pipe, text=True)

    def survey(self, steps: int) -> str:
        path = self.folder / "survey.toml"
        path.write_text(SURVEY % steps)
        return str(path)

    def assert_files_of_one_run(self) -> None:
        other = self.folder / "one"
        other.mkdir()
        (other / "survey.toml").write_text((self.folder / "survey.toml").read_text())
        subprocess.run([COMMAND, "run", "survey.toml", "--quiet"], cwd=other, check=True)
        self.assertEqual(files(self.folder), files(other))

    def run_all(self, survey: str, **options: bool) -> None:
        found = gpusched.dask.run(survey, self.client, command=COMMAND, **options)
        self.assertEqual((found["done"], found["errors"]), (SHOTS, []))

    def wait_for_a_shot(self) -> None:
        while not any((self.folder / "out").glob("shot_*.json")):
            time.sleep(0.01)

    def test_survey_on_two_nodes_has_the_bits_of_one_run(self) -> None:
        self.run_all(self.survey(200))
        self.assert_files_of_one_run()
        report = json.loads((self.folder / "out/survey.json").read_text())
        self.assertEqual((report["state"], len(report["runs"])), ("done", 2))
        # Resumed, it computes nothing.
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "out").glob("*.bin")}
        self.run_all(self.survey(200), resume=True)
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in before})

    def test_shots_of_a_killed_node_are_computed_elsewhere(self) -> None:
        victim = next(iter(self.client.run(os.getpid).values()))

        def kill_once_a_shot_is_done() -> None:
            self.wait_for_a_shot()
            os.kill(victim, signal.SIGKILL)

        threading.Thread(target=kill_once_a_shot_is_done, daemon=True).start()
        self.run_all(self.survey(400))
        # Later tests need the worker that replaces it.
        processes = {victim}
        while victim in processes or len(processes) < 2:
            time.sleep(0.1)
            processes = set(self.client.run(os.getpid, on_error="ignore").values())
        with self.assertRaises(ProcessLookupError):
            os.kill(victim, 0)
        self.assert_files_of_one_run()

    def test_survey_is_resumed_after_its_client_was_killed(self) -> None:
        survey = self.survey(400)
        self.client.run(lambda: setattr(gpusched.dask, "IDLE_S", 0.1))
        self.addCleanup(self.client.run, lambda: setattr(gpusched.dask, "IDLE_S", 60.0))
        program = self.start_program(survey)
        self.wait_for_a_shot()
        program.kill()
        program.communicate()
        self.run_all(survey, resume=True)
        self.assert_files_of_one_run()
        # The processes of the nodes end, and with them their claims of the folder.
        end = time.monotonic() + 30
        while subprocess.run([COMMAND, "run", survey, "--resume", "--quiet"], stderr=subprocess.DEVNULL).returncode:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)

    def test_signal_for_the_group_of_a_worker_is_none_for_its_process(self) -> None:
        def leads_a_session(dask_worker: Worker) -> bool:
            found = (plugin for plugin in dask_worker.plugins.values() if isinstance(plugin, gpusched.dask._Node))
            process = next(found).process
            assert process
            return os.getsid(process.pid) == process.pid

        # They take seconds, so the processes still run.
        run = threading.Thread(target=self.run_all, args=(self.survey(2000),))
        run.start()
        self.wait_for_a_shot()
        self.assertEqual(set(self.client.run(leads_a_session).values()), {True})
        run.join()

    def test_failed_shots_are_reported_with_their_node(self) -> None:
        survey = self.survey(20)
        (self.folder / "out/shot_0003.bin").mkdir(parents=True)
        with self.assertRaisesRegex(RuntimeError, "shot_0003.bin.*it is a folder"):
            gpusched.dask.run(survey, self.client, command=COMMAND)
        (self.folder / "out/shot_0003.bin").rmdir()
        Path(survey).write_text(Path(survey).read_text().replace("dt_s = 0.002", "dt_s = 0.2"))
        with self.assertRaisesRegex(RuntimeError, "time.dt_s"):
            gpusched.dask.run(survey, self.client, command=COMMAND)

    def test_shots_that_fail_or_are_lost_without_a_report_are_listed_with_their_node(self) -> None:
        # Shot 8 fails wherever it begins, and the folder does not show it.
        command = self.folder / "command"
        failure = json.dumps({"event": "shot", "shot": SHOTS, "state": "failed", "error": "bad GPU"})
        number = f"if [ $number = {SHOTS} ]; then echo '{failure}' >&3; else echo $number; fi"
        numbers = f"while read number; do {number}; done"
        command.write_text(
            f'#!/bin/sh\ncase $* in *shots-from*) {{ {numbers} | {COMMAND} "$@"; }} 3>&1;;\n*) exec {COMMAND} "$@"; esac\n'
        )
        command.chmod(0o755)
        found = gpusched.dask.run(self.survey(20), self.client, command=str(command))
        node = socket.gethostname()
        error = {"shot": SHOTS, "node": node, "error": f"shot {SHOTS} failed on {node}: bad GPU"}
        self.assertEqual((found["done"], found["errors"]), (SHOTS - 1, [error]))

        class Losing(gpusched.dask._HandOut):
            def _look(self) -> list[int]:
                return [self.left.pop()] if len(self.left) == SHOTS else super()._look()

        with mock.patch.object(gpusched.dask, "_HandOut", Losing):
            found = gpusched.dask.run(self.survey(20), self.client, command=COMMAND)
        self.assertEqual([(error["shot"], error["node"]) for error in found["errors"]], [(SHOTS, None)])

    def test_survey_runs_where_one_of_two_gpus_is_hidden(self) -> None:
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            (self.folder / name).symlink_to(Path(os.environ["GPUSCHED_LIBRARY"]).parent / "libfakecuda_driver.so")
        command = self.folder / "command"
        # The nodes compute on the CPU: a virtual GPU takes seconds for a shot.
        virtual = f"LD_LIBRARY_PATH={self.folder} FAKECUDA='dev=mem:1G;dev=mem:1G' CUDA_VISIBLE_DEVICES=0"
        hidden = f"{virtual} GPUSCHED_DEVICES=cuda GPUSCHED_LEASE_DIR=none"
        command.write_text(
            f'#!/bin/sh\ncase $* in *--dry-run*) {hidden} exec {COMMAND} "$@";; esac\nexec {COMMAND} "$@"\n'
        )
        command.chmod(0o755)
        survey = self.survey(20)
        told = subprocess.run([command, "run", survey, "--dry-run"], capture_output=True, text=True).stderr
        self.assertIn("CUDA_VISIBLE_DEVICES=0 hides from this process", told)
        found = gpusched.dask.run(survey, self.client, command=str(command))
        self.assertEqual((found["done"], found["errors"]), (SHOTS, []))

    def test_client_needs_neither_the_devices_nor_the_working_folder_of_the_nodes(self) -> None:
        command = self.folder / "command"
        on_node = f"pwd >{self.folder}/place; exec {COMMAND} $(echo $* | sed s/cuda:99/cpu/)"
        command.write_text(f'#!/bin/sh\ncase $* in *shots-from*) {on_node};; esac\nexec {COMMAND} "$@"\n')
        command.chmod(0o755)
        found = gpusched.dask.run(self.survey(20), self.client, devices="cuda:99", command=os.path.relpath(command))
        self.assertEqual((found["done"], found["errors"]), (SHOTS, []))
        self.assertEqual((self.folder / "place").read_text().strip(), str(self.folder.resolve()))

    def test_misspelt_devices_of_a_survey_are_refused_at_once(self) -> None:
        for devices in ("cdua", "cuda:", "all,cuda"):
            with self.assertRaisesRegex(ValueError, f"devices is '{devices}'; accepted: all, none"):
                gpusched.dask.run(self.survey(20), self.client, devices=devices, command=COMMAND)

    def test_plugin_that_a_node_refuses_is_removed(self) -> None:
        command = self.folder / "command"
        refusal = "case $* in *shots-from*) echo no licence >&2; exit 2; esac"
        command.write_text(f'#!/bin/sh\n{refusal}\nexec {COMMAND} "$@"\n')
        command.chmod(0o755)
        with self.assertRaisesRegex(RuntimeError, "no licence"):
            gpusched.dask.run(self.survey(20), self.client, command=str(command))
        with self.assertRaisesRegex(gpusched.GpuschedError, "quantum"):
            gpusched.dask.map(abs, [1], self.client, devices="quantum")

        class Absent:
            def __reduce__(self) -> tuple[object, tuple[str]]:
                return __import__, ("absent",)

        with self.assertRaisesRegex(Exception, "No module named 'absent'"):
            gpusched.dask.map(Absent(), [1], self.client)  # type: ignore[arg-type]
        # Workers that join would refuse it too, and end.
        plugins = self.client.run(lambda dask_worker: [name for name in dask_worker.plugins if "gpusched" in name])
        self.assertEqual(list(plugins.values()), [[], []])

    def test_program_runs_a_survey(self) -> None:
        program = self.start_program(self.survey(20))
        output, progress = program.communicate()
        self.assertEqual((program.returncode, output), (0, f"{SHOTS} of {SHOTS} shots done\n"), progress)
        rates = r"(1 node with|2 nodes with \S+ to) \S+ shots/(s|min|h), expected end \w+ \d\d:\d\d:\d\d"
        self.assertRegex(progress, rf"^\n0 of {SHOTS} shots, waiting for workers +\n0 of {SHOTS} shots +\n")
        self.assertRegex(progress, rf"\b{SHOTS} of {SHOTS} shots, {rates}\s*$")

    def test_interrupted_program_says_how_to_go_on(self) -> None:
        # Each node gets one shot only, so the survey does not end.
        command = self.folder / "gpusched"
        command.write_text(
            f'#!/bin/bash\ncase $* in *shots-from*) exec {COMMAND} "$@" < <(head -n1; cat >/dev/null);; esac\nexec {COMMAND} "$@"\n'
        )
        command.chmod(0o755)
        program = self.start_program(self.survey(400), self.folder)
        self.wait_for_a_shot()
        program.send_signal(signal.SIGINT)
        self.assertRegex(program.communicate()[1], r"stopped; --resume continues\n$")
        self.assertEqual(program.returncode, 130)

    def test_functions_run_on_the_devices_of_the_nodes(self) -> None:
        def where(item: int) -> tuple[int, str, int]:
            time.sleep(0.05)
            here = gpusched.current_exec()
            (worker,) = Worker._instances
            occupancy = worker.metrics[gpusched.dask.METRIC](worker)
            return item * item, f"{here.backend}:{here.ordinal}, {occupancy}", os.getpid()

        found = gpusched.dask.map(where, range(20), self.client)
        self.assertEqual([square for square, _, _ in found], [item * item for item in range(20)])
        self.assertEqual({label for _, label, _ in found}, {"cpu:0, 1 of 1 slots busy"})
        self.assertEqual(len({process for _, _, process in found}), 2)
        with self.assertRaisesRegex(RuntimeError, "/bin/true is not the command gpusched"):
            gpusched.dask.run(self.survey(20), self.client, command="/bin/true")

    def test_worker_stays_responsive_while_devices_are_searched(self) -> None:
        threads: list[int] = []

        def create(*_: object) -> None:
            threads.append(threading.get_ident())
            raise gpusched.GpuschedError(gpusched.abi.SCHED_E_NO_DEVICE, "no device")

        setup = gpusched.dask._Functions("functions", len, "cpu", 0).setup
        with mock.patch.object(gpusched.dask, "Scheduler", create):
            self.assertRaisesRegex(gpusched.GpuschedError, "no device", asyncio.run, setup(mock.Mock()))
        self.assertEqual(len(threads), 1)
        self.assertNotEqual(threads, [threading.get_ident()])

    def test_worker_stays_responsive_until_its_running_calls_have_ended(self) -> None:
        folder = self.folder

        def call(item: int) -> None:
            if item == 0:
                while not (folder / "begun").exists():
                    time.sleep(0.01)
                raise ValueError("first")
            (worker,) = Worker._instances
            (folder / "begun").touch()
            while gpusched.dask.METRIC in worker.metrics:  # until the teardown
                time.sleep(0.01)
            answered = threading.Event()
            worker.loop.add_callback(answered.set)
            (folder / "answered").write_text(str(answered.wait(60)))

        with self.assertRaisesRegex(ValueError, "first"):
            gpusched.dask.map(call, range(2), self.client)
        self.assertEqual((folder / "answered").read_text(), "True")

    def test_each_failed_call_ends_with_an_error(self) -> None:
        def recurse(item: int) -> int:
            return recurse(item) + 1

        for call, error, message in (
            (recurse, RuntimeError, "RecursionError: maximum"),
            (sys.exit, RuntimeError, "SystemExit: 0"),
            (lambda _: threading.Lock(), TypeError, "cannot pickle.*lock"),
            (lambda item: 1 // item, ZeroDivisionError, ""),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, message):
                gpusched.dask.map(call, [0], self.client)

    def test_paused_worker_gets_no_calls(self) -> None:
        def pause(fraction: float, dask_worker: Worker) -> None:
            dask_worker.memory_manager.memory_pause_fraction = fraction

        (address, _), (_, other) = self.client.run(os.getpid).items()
        self.client.run(pause, 1e-9, workers=[address])
        self.addCleanup(self.client.run, pause, 0.9, workers=[address])
        while self.client.scheduler_info()["workers"][address]["status"] != "paused":
            time.sleep(0.1)
        self.assertEqual(gpusched.dask.map(lambda _: os.getpid(), range(4), self.client), [other] * 4)
        client = Client(self.cluster)
        client.close()
        with self.assertRaisesRegex(ValueError, "`client` is closed; accepted"):
            gpusched.dask.map(abs, [1], client)

    def test_worker_without_the_package_is_named(self) -> None:
        # A cluster of its own: this has plugins of a client that was killed, with which such a
        # worker does not start.
        with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster) as client:
            words = [sys.executable, "-m", "dask", "worker", "--no-dashboard", cluster.scheduler_address]
            environment = {**os.environ, "PYTHONPATH": ""}
            worker = subprocess.Popen(words, env=environment, cwd=self.folder, stderr=subprocess.DEVNULL)
            self.addCleanup(worker.wait)
            self.addCleanup(worker.terminate)
            client.wait_for_workers(1, timeout=60)
            with self.assertRaisesRegex(RuntimeError, r"gpusched is missing on tcp://[0-9.:]+; install it on all nodes"):
                gpusched.dask.map(abs, [1], client)

    def test_few_calls_begin_on_all_nodes(self) -> None:
        folder = self.folder

        def meets_the_other(item: int) -> bool:
            (folder / str(item)).touch()
            end = time.monotonic() + 20
            while not (folder / str(1 - item)).exists() and time.monotonic() < end:
                time.sleep(0.01)
            return time.monotonic() < end

        self.assertEqual(gpusched.dask.map(meets_the_other, range(2), self.client), [True, True])


class HandOut(unittest.TestCase):
    def setUp(self) -> None:
        client = mock.Mock(asynchronous=False, status="running")
        self.items = gpusched.dask._HandOut(client, mock.Mock(), 3, 3)
        self.items.left.popleft()
        self.items.left.popleft()
        for address, mean in (("fast", 1.0), ("slow", 5.0)):
            worker = self.items.workers[address] = gpusched.dask._Places(1)
            worker.done, worker.seconds = 1, mean

    def fill_fast(self) -> None:
        for item in range(2):
            self.items.workers["fast"].begin(item)

    def test_last_item_waits_for_the_node_that_ends_it_first(self) -> None:
        self.assertEqual(self.items._next(), ["fast"])
        self.fill_fast()
        self.assertEqual(self.items._next(), [])

    def test_failed_item_goes_to_a_node_where_it_has_not_failed(self) -> None:
        self.items.failed[2] = ["fast"]
        self.assertEqual(self.items._next(), ["slow"])
        self.fill_fast()
        self.assertEqual(self.items._next(), ["slow"])

    def test_item_that_has_failed_on_all_nodes_goes_to_the_fastest(self) -> None:
        self.items.failed[2] = ["fast", "slow"]
        self.assertEqual(self.items._next(), ["fast"])


class NodeProcess(unittest.TestCase):
    def test_process_that_saves_its_state_for_long_is_not_killed(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        command = Path(holder.name, "command")
        survey = json.dumps({"event": "survey", "survey": {"slots": 1}})
        save = "trap 'sleep 2; echo whole >state; exit' TERM"
        command.write_text(f"#!/bin/sh\n{save}\necho '{survey}'\nwhile :; do sleep 0.1; done\n")
        command.chmod(0o755)
        node = gpusched.dask._Node("node", [str(command)], holder.name)
        asyncio.run(node.setup(mock.Mock(metrics={}, set_resources=mock.AsyncMock())))
        node.waiting[1] = Future()
        with mock.patch.object(gpusched.dask, "STOP_S", 1.0):
            node._stop()
        assert node.process
        self.assertEqual(node.process.wait(), 0)
        self.assertEqual(Path(holder.name, "state").read_text(), "whole\n")


class OverSsh(unittest.TestCase):
    def start_sshd(self, home: Path, nodes: list[str]) -> bool:
        """Returns whether sshd listens at all nodes; not if another process has taken its port."""
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        names = ",".join(f"[{node}]:{port}" for node in nodes)
        (home / "known").write_text(f"{names} {(home / 'host.pub').read_text()}")
        ours = f"Port {port}\nIdentityFile {home}/user\nUserKnownHostsFile {home}/known\n"
        (home / ".ssh/config").write_text(ours)
        kept = " ".join(f"{name}={os.environ[name]}" for name in ("PYTHONPATH", "GPUSCHED_LIBRARY"))
        (home / "sshd").write_text(
            f"Port {port}\nListenAddress {nodes[0]}\nListenAddress {nodes[1]}\nHostKey {home}/host\n"
            f"AuthorizedKeysFile {home}/user.pub\nStrictModes no\nPidFile none\nSetEnv {kept}\n"
        )
        server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", home / "sshd"], stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        while server.poll() is None:
            with contextlib.suppress(ConnectionRefusedError):
                for node in nodes:
                    socket.create_connection((node, port)).close()
                return True
            time.sleep(0.05)
        return False

    def test_example_runs_a_survey_on_nodes_reached_by_ssh(self) -> None:
        if not Path("/usr/sbin/sshd").exists():
            self.skipTest("sshd is not installed")
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        home = Path(holder.name)
        (home / ".ssh").mkdir()
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / key], check=True)
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd changes its root to it
        nodes = ["127.0.0.1", "127.0.0.2"]
        self.assertTrue(any(self.start_sshd(home, nodes) for _ in range(5)), "sshd does not listen")
        (home / "survey.toml").write_text(SURVEY % 100)
        example = Path(__file__).resolve().parents[2] / "examples/dask/ssh.py"
        environment = {**os.environ, "HOME": str(home), "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}"}
        words = [sys.executable, example, home / "survey.toml", *nodes]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout[-19:]), (0, f"{SHOTS} of {SHOTS} shots done\n"), done.stderr)
        report = json.loads((home / "out/survey.json").read_text())
        self.assertEqual((report["state"], len(report["runs"])), ("done", 2))


if __name__ == "__main__":
    unittest.main()

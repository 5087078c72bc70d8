"""The pause of a job with almost no state after a failure, and the duration of a checkpoint.

    python benchmarks/recovery.py [--rounds 20] [--subtasks 50] [--lease 1000] [--only spark]

An endless job on two local workers fails again and again; measured is the time from an exception,
or from the death of a worker by `kill -9`, to the first record that a task gets afterwards.  On
Spark's `local-cluster[3,1,1024]` the same job loses workers and JVMs of executors by `kill -9`;
measured is the time from that to the first record, and the part of it after Spark's report that it
has lost the task; the rest is Spark's.  Then a job of many subtasks takes checkpoints without
state; measured is the time from the trigger to the published metadata. Then a session has two
jobmanagers: the leader is killed by `kill -9`, which its machine knows, or stopped, so that the
other waits for its lease; measured is the time from that to the first record.  Medians, in
milliseconds, and the goals of those that have one.
"""

import argparse
import contextlib
import json
import os
import queue
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from jobs import ended
from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.checkpoint_storage.storage import load_metadata
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.jobmaster.dispatcher import Dispatcher

PATIENCE_S = 120.0
SPARK = "local-cluster[3,1,1024]"
#: How the processes to kill on Spark are identified.
HOSTED = {"worker": "penstock.taskexecutor", "executor": "CoarseGrainedExecutorBackend"}


class Watched(MapFunction):
    """Records the time of its first record, and raises on request."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, runtime_context):
        self.seen = 0
        self.is_first = runtime_context.get_index_of_this_subtask() == 0

    def map(self, value):
        if self.is_first:
            if self.seen == 0:
                note(self.folder, "first", time.monotonic_ns())
            elif self.seen % 20 == 0 and os.path.exists(f"{self.folder}/raise"):  # noqa: PTH110
                Path(self.folder, "raise").unlink()
                note(self.folder, "failed", time.monotonic_ns())
                raise RuntimeError("on purpose")
            self.seen += 1
        time.sleep(0.0005)
        return value


def note(folder, name, number):
    beside = Path(folder, f".{name}")
    beside.write_text(str(number))
    beside.replace(Path(folder, name))


def environment(parallelism, folder, **options):
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "0 ms",
        **options,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def numbers(env):
    source = NumberSequenceSource(0, 2**60)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def awaited(path, other_than=None):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()) != other_than:
            return text
        time.sleep(0.001)
    raise TimeoutError(f"{path} does not change")


def watched(env, folder):
    """Start the job that fails; return its client once it runs."""
    stream = numbers(env).map(Watched(folder), Types.LONG())
    job = stream.key_by(lambda value: value % 10, Types.LONG()).map(lambda value: value)
    job.filter(lambda value: False).print()
    return env.execute_async("recovery"), awaited(Path(folder, "first"))


def standstills(rounds):
    """Return the times from a failure to the first record, for exceptions and for dead workers."""
    found = {"exception": [], "kill": []}
    with tempfile.TemporaryDirectory() as folder:
        env = environment(2, folder, **{"execution.checkpointing.interval": "100 ms"})
        client, last = watched(env, folder)
        first, failed = Path(folder, "first"), Path(folder, "failed")
        for round_ in range(2 * rounds):
            time.sleep(0.4)
            if round_ % 2:
                begin = time.monotonic_ns()
                servers = psutil.Process().children()
                workers = [one for server in servers for one in server.children()]
                workers[round_ % len(workers)].kill()
                last = awaited(first, last)
                found["kill"].append((int(last) - begin) / 1e6)
            else:
                Path(folder, "raise").touch()
                last = awaited(first, last)
                found["exception"].append((int(last) - int(failed.read_text())) / 1e6)
        ended(client)
    return found


def standstills_on_spark(rounds):
    """Return the times from a process's death on Spark, and from Spark's report, to an element."""
    found = {f"Spark, {name} {since}": [] for name in HOSTED for since in ("killed", "noticed")}
    noticed = queue.SimpleQueue()
    method = Dispatcher._worker_exited

    def worker_exited(self, end):
        noticed.put(time.monotonic_ns())
        method(self, end)

    Dispatcher._worker_exited = worker_exited
    with tempfile.TemporaryDirectory() as folder:
        env = environment(
            2,
            folder,
            **{
                "execution.target": "spark",
                "spark.master": SPARK,
                "spark.ui.enabled": "false",
                "execution.checkpointing.interval": "100 ms",
            },
        )
        client, _ = watched(env, folder)
        first = Path(folder, "first")
        for round_ in range(2 * rounds):
            # Spark replaces lost executors.
            victims = awaited_workers()
            name = list(HOSTED)[round_ % 2]
            before, begin = first.read_text(), time.monotonic_ns()
            victims[name].kill()
            last = int(awaited(first, before))
            found[f"Spark, {name} killed"].append((last - begin) / 1e6)
            found[f"Spark, {name} noticed"].append((last - noticed.get(timeout=PATIENCE_S)) / 1e6)
        ended(client)
    return found


def awaited_workers():
    """Return a worker, and an executor that hosts one, once all of Spark's executors exist."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        time.sleep(0.5)
        executors = processes(psutil.Process(), HOSTED["executor"])
        hosted = [(one, processes(one, HOSTED["worker"])) for one in executors]
        busy = [(one, workers[0]) for one, workers in hosted if workers]
        if len(executors) == 3 and len(busy) == 2:
            time.sleep(2)  # a new executor is not ready yet
            return {"executor": busy[0][0], "worker": busy[0][1]}
    raise TimeoutError("Spark has no three executors, two of which host workers")


def processes(parent, word):
    found = []
    for process in parent.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(word in argument for argument in process.cmdline()):
                found.append(process)
    return found


class Session:
    """Two jobmanagers, one of which stands by, and a taskexecutor."""

    def __init__(self, folder, lease_ms):
        os.environ["PENSTOCK_SESSION_TOKEN"] = secrets.token_hex(16)
        os.environ["PENSTOCK_RUN_DIR"] = f"{folder}/run"
        self.options = {
            "high-availability.type": "filesystem",
            "high-availability.storageDir": f"{folder}/high-availability",
            "high-availability.cluster-id": "benchmark",
            "penstock.high-availability.lease": f"{lease_ms} ms",
        }
        self.logs = Path(folder, "logs")
        self.logs.mkdir()
        self.roles = []
        self.leader, _ = self.jobmanager("jobmanager at")
        self.role("taskexecutor", "--slots", "2", says="is registered")
        self.standby, self.standby_log = self.jobmanager("stands by")

    def jobmanager(self, says):
        return self.role("jobmanager", "--port", "0", "--name", f"n{len(self.roles)}", says=says)

    def role(self, *arguments, says):
        options = [f"-D{key}={value}" for key, value in self.options.items()]
        path = self.logs / f"{len(self.roles)}"
        command = [sys.executable, "-m", "penstock", *arguments, *options]
        with path.open("w") as log:
            process = subprocess.Popen(command, stderr=log, start_new_session=True)
        self.roles.append(process)
        awaited_words(path, says)
        return process, path

    def lose_leader(self, number):
        """Send a signal to the leader; then the other one leads, and a third one stands by."""
        former, self.leader = self.leader, self.standby
        former.send_signal(number)
        yield
        awaited_words(self.standby_log, "jobmanager at")
        former.kill()
        former.wait()
        self.standby, self.standby_log = self.jobmanager("stands by")

    def close(self):
        for process in reversed(self.roles):
            process.terminate()
        for process in self.roles:
            process.wait(PATIENCE_S)


def awaited_words(path, words):
    deadline = time.monotonic() + PATIENCE_S
    while words not in path.read_text():
        if time.monotonic() >= deadline:
            raise TimeoutError(f"not said: {words}\n{path.read_text()}")
        time.sleep(0.01)


def takeovers(rounds, lease_ms):
    """Return the times from a leader's loss to the first record, for killed and hung leaders."""
    found = {"leader killed": [], "leader stopped": []}
    with tempfile.TemporaryDirectory() as folder:
        session = Session(folder, lease_ms)
        try:
            env = environment(
                1,
                folder,
                **{
                    **session.options,
                    "execution.target": "session",
                    "execution.checkpointing.interval": "100 ms",
                },
            )
            numbers(env).map(Watched(folder), Types.LONG()).filter(lambda value: False).print()
            client = env.execute_async("takeover")
            last = awaited(Path(folder, "first"))
            for round_ in range(2 * rounds):
                time.sleep(0.5)
                name = list(found)[round_ % 2]
                begin = time.monotonic_ns()
                for _ in session.lose_leader([signal.SIGKILL, signal.SIGSTOP][round_ % 2]):
                    last = awaited(Path(folder, "first"), last)
                found[name].append((int(last) - begin) / 1e6)
            ended(client)
        finally:
            session.close()
    return found


def checkpoints(subtasks, rounds):
    """Return the times of checkpoints without state."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(
            subtasks // 2,
            folder,
            **{
                "execution.checkpointing.interval": "50 ms",
                "execution.checkpointing.num-retained": str(rounds),
                "taskmanager.numberOfTaskSlots": str((subtasks + 3) // 4),
                "taskmanager.memory.segment-size": "4 kb",
            },
        )
        # Sources wait, not functions: a barrier does not pass an element whose function sleeps.
        few = DataGeneratorSource(
            lambda index: index, 2**60, RateLimiterStrategy.per_second(subtasks), Types.LONG()
        )
        stream = env.from_source(few, WatermarkStrategy.no_watermarks(), "few")
        stream.rebalance().filter(lambda value: False).print()
        client = env.execute_async("checkpoints")
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            complete = list(Path(folder).glob("checkpoints/*/chk-*/_metadata"))
            if len(complete) >= rounds:
                break
            time.sleep(0.1)
        found = []
        for path in complete:
            try:
                metadata, _ = load_metadata(str(path.parent), FileSystems({}))
                found.append(path.stat().st_mtime * 1000 - metadata.timestamp_ms)
            except OSError:
                continue
        ended(client)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--subtasks", type=int, default=50)
    parser.add_argument("--lease", type=int, default=1000)
    parser.add_argument("--only", choices=["local", "spark", "takeover", "checkpoints"])
    arguments = parser.parse_args()
    rounds, few = arguments.rounds, max(1, arguments.rounds // 4)
    parts = {
        "local": lambda: standstills(rounds),
        "spark": lambda: standstills_on_spark(few),
        "takeover": lambda: takeovers(few, arguments.lease),
        "checkpoints": lambda: {
            f"checkpoint of {arguments.subtasks}": checkpoints(arguments.subtasks, rounds)
        },
    }
    goals_ms = {
        "kill": 1000,
        "Spark, worker noticed": 1000,
        "Spark, executor noticed": 1000,
        "leader killed": arguments.lease + 2000,
        "leader stopped": arguments.lease + 2000,
    }
    found = {}
    for name, measure in parts.items():
        if arguments.only in (None, name):
            found |= measure()
    summary = {}
    for name, times in found.items():
        median, goal = round(statistics.median(times), 1), goals_ms.get(name)
        summary[name] = {
            "median_ms": median,
            "least_ms": round(min(times), 1),
            "most_ms": round(max(times), 1),
            "goal_ms": goal,
            "met": None if goal is None else median <= goal,
        }
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()

"""A session whose processes are killed and stopped while its jobs write files, exactly once.

The session has two jobmanagers, one of which stands by, and two taskexecutors, all of them
processes; one taskexecutor finds the leader by its lease, the other is led to it by a relay.  At
random a worker, a taskexecutor or the leader dies by `kill -9` or is suspended for a while, the
relay's connections are cut or delayed, the storage of checkpoints is unavailable for a while, or
the disk of all workers is full; a supervisor restarts dead processes.  Each fault follows once the
jobs have made progress after the one before.  Then the sources end, and the files must contain the
results of `endless_jobs`, each line once.  The run ends with a table of faults and of the times
until all jobs made progress.

`python -m recovery.nemesis --faults 40 --seed 1 --jobs sessions broadcast`
"""

import argparse
import contextlib
import os
import random
import re
import resource
import signal
import statistics
import tempfile
import time
from pathlib import Path

import psutil
from support.leader_places import FilePlace
from support.relay import Relay
from support.sessions import TOKEN, Role

from recovery.chaos import Progress, lives
from recovery.endless_jobs import JOBS

LEASE_MS = 1_000
#: The relative frequency of each fault.
FAULTS = {
    "worker killed": 3,
    "taskexecutor killed": 2,
    "leader killed": 2,
    "leader stopped": 2,
    "worker stopped": 2,
    "connections cut": 2,
    "connections held up": 2,
    "storage away": 2,
    "disk full": 2,
}


class Cluster:
    """The processes, and the supervisor that restarts them."""

    def __init__(self, folder):
        self.options = FilePlace(folder / "high-availability").with_lease(LEASE_MS)
        self.number = 0
        self.roles = []
        self.hosts = []
        self.leader = self.standby = self.relay = None

    def start(self):
        self.leader = self.jobmanager()
        self.relay = Relay(self.address_of_leader())
        self.hosts = [self.taskexecutor(index) for index in range(2)]
        self.restock()

    def address_of_leader(self):
        self.leader.says("jobmanager at")
        host, port = re.search(r"jobmanager at (\S+):(\d+)", self.leader.log).groups()
        return host, int(port)

    def restock(self):
        """Restart lost processes."""
        for host in self.hosts:
            host.says("is registered")
        if self.standby is None:
            self.standby = self.jobmanager()
            self.standby.says("stands by")

    def role(self, *arguments):
        self.roles.append(Role(*arguments))
        return self.roles[-1]

    def by_lease(self):
        return [text for option in self.options.items() for text in ("-D", "=".join(option))]

    def jobmanager(self):
        self.number += 1
        name = f"n{self.number}"
        return self.role("jobmanager", "--port", "0", "--name", name, *self.by_lease())

    def taskexecutor(self, index):
        host, port = self.relay.address
        leader = self.by_lease() if index == 0 else ["--jobmanager", f"{host}:{port}"]
        return self.role("taskexecutor", "--slots", "2", *leader)

    def taken_over(self):
        """Wait until the standby leads; return the former leader."""
        former, self.leader, self.standby = self.leader, self.standby, None
        self.relay.turn(self.address_of_leader())
        return former

    def workers(self):
        """Return all live worker processes, which are forked."""
        return [
            one.pid
            for host in self.hosts
            for server in psutil.Process(host.pid).children()
            for one in server.children()
            if lives(one.pid)
        ]

    def close(self):
        for role in reversed(self.roles):
            if role.process.poll() is None:
                role.process.send_signal(signal.SIGCONT)
                role.signal(signal.SIGTERM)
        if self.relay is not None:
            self.relay.close()


class Nemesis:
    """Injects faults, and records how long the job stood still."""

    def __init__(self, cluster, folders, seed):
        self.cluster = cluster
        self.jobs = folders
        self.folders = list(folders.values())
        self.progress = [Progress(folder / "checkpoints") for folder in self.folders]
        self.random = random.Random(seed)
        self.times_s = {name: [] for name in FAULTS}

    def strike(self, name):
        for job, folder in self.jobs.items():
            JOBS[job].feed(folder)
        began_s = time.monotonic()
        getattr(self, name.replace(" ", "_"))()
        self.await_all()
        self.times_s[name].append(time.monotonic() - began_s)
        self.cluster.restock()

    def await_all(self):
        """Wait for two new checkpoints; all tasks have taken part in the second one."""
        for progress in self.progress:
            progress.await_checkpoint()

    def run(self, faults):
        names = list(FAULTS)
        # Each fault occurs, whatever the seed.
        chosen = self.random.sample(names, min(faults, len(names)))
        chosen += self.random.choices(names, list(FAULTS.values()), k=faults - len(chosen))
        for name in chosen:
            time.sleep(self.random.random() * 0.3)
            self.strike(name)

    def worker_killed(self):
        os.kill(self.random.choice(self.cluster.workers()), signal.SIGKILL)

    def worker_stopped(self):
        """Suspend a worker, and resume it before it counts as lost."""
        pid = self.random.choice(self.cluster.workers())
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.random.random() * 2)
        os.kill(pid, signal.SIGCONT)

    def taskexecutor_killed(self):
        index = self.random.randrange(len(self.cluster.hosts))
        self.cluster.hosts[index].signal(signal.SIGKILL)
        self.cluster.hosts[index] = self.cluster.taskexecutor(index)

    def leader_killed(self):
        self.cluster.leader.signal(signal.SIGKILL)
        self.cluster.taken_over()

    def leader_stopped(self):
        """Suspend the leader until another one leads; it ends when it wakes up."""
        os.kill(self.cluster.leader.pid, signal.SIGSTOP)
        former = self.cluster.taken_over()
        os.kill(former.pid, signal.SIGCONT)
        assert former.end() == 1, former.log
        assert "no longer leads" in former.log

    def connections_cut(self):
        self.cluster.relay.cut()

    def connections_held_up(self):
        """Delay traffic, but end before a side considers the other lost."""
        self.cluster.relay.hold()
        time.sleep(self.random.random() * 2)
        self.cluster.relay.go_on()

    def storage_away(self):
        """Make the checkpoints' storage unavailable for a while."""
        for folder in self.folders:
            redirect(folder / "checkpoints", folder / "nowhere")
        time.sleep(self.random.random() * 2)
        for folder in self.folders:
            redirect(folder / "checkpoints", folder / "storage")

    def disk_full(self):
        """Prevent workers' files from growing for a while: checkpoints, results, a database."""
        workers = self.cluster.workers()
        for pid in workers:
            limit_files(pid, is_lifted=False)
        time.sleep(self.random.random() * 2)
        for pid in workers:
            limit_files(pid, is_lifted=True)

    def table(self):
        """Return faults, their number, and the times until the job continued."""
        lines = [f"{'fault':<22}{'times':>6}{'median s':>10}{'most s':>8}"]
        for name, times_s in self.times_s.items():
            if times_s:
                middle, most = statistics.median(times_s), max(times_s)
                lines.append(f"{name:<22}{len(times_s):>6}{middle:>10.2f}{most:>8.2f}")
        return "\n".join(lines)


def limit_files(pid, *, is_lifted):
    """Prevent a process's files from growing, like a full disk, or lift the limit."""
    with contextlib.suppress(ProcessLookupError):
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most if is_lifted else 0, most))


def redirect(link, target):
    """Redirect a link atomically."""
    beside = link.with_name("next")
    beside.symlink_to(target)
    beside.replace(link)


def prepare(folder):
    """Return a folder for a job whose checkpoint storage can be made unavailable."""
    folder.mkdir()
    (folder / "nowhere").touch()
    (folder / "storage").mkdir()
    redirect(folder / "checkpoints", folder / "storage")
    return folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", choices=JOBS, nargs=2, default=["counts", "rocksdb"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["PENSTOCK_RUN_DIR"] = str(folder / "run")
        os.environ["PENSTOCK_SESSION_TOKEN"] = TOKEN
        cluster = Cluster(folder)
        try:
            cluster.start()
            folders = {name: prepare(folder / name) for name in arguments.jobs}
            for name, path in folders.items():
                JOBS[name].feed(path)
            options = {**cluster.options, "execution.target": "session"}
            clients = {name: JOBS[name].start(path, options) for name, path in folders.items()}
            nemesis = Nemesis(cluster, folders, arguments.seed)
            nemesis.await_all()
            nemesis.run(arguments.faults)
            for name, path in folders.items():
                JOBS[name].end(path, clients[name])
            numbers = {name: JOBS[name].check(path) for name, path in folders.items()}
        finally:
            cluster.close()
        print(f"numbers, each once, seed {arguments.seed}: {numbers}")
        print(nemesis.table())


if __name__ == "__main__":
    main()

"""Several drivers of one job, which stand by, lead, hang, die and are started again.

They elect the leader by the files of one folder, which also contains their checkpoints.  A driver
may be killed or stopped at every file that it touches and at any other time; its storage is slow or
fails, before an operation has its effect or after; its workers learn of its end late, and its
messages arrive late or twice.  After a while the faults stop, and the job must end, once.
"""

import contextlib
import copy
import heapq
import os
import random
import tempfile
import time
from functools import cache
from pathlib import Path
from unittest import mock

from penstock.checkpoint_storage.file_systems import LocalFileSystem
from penstock.high_availability import file_leader_election
from penstock.high_availability.file_leader_election import current_epoch
from simulation.dice import Dice
from simulation.leader_invariants import LeaderInvariants
from simulation.simulated_driver import SimulatedDriver
from simulation.simulated_process import KilledError
from support.graphs import Program

FAULTS_UNTIL_MS = 900
MUST_END_BY_MS = 10_000
MAX_STEPS = 60_000
JOB_ID = bytes(16)


@cache
def job_graph(parallelism):
    """Return a job graph of sources that are sinks as well."""
    program = Program(parallelism=parallelism)
    program.map(program.source("numbers"), "sink")
    return program.job_graph(job_id=JOB_ID)


def memory_folder():
    """Return a folder in memory, if there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class LeaderWorld:
    """The drivers, their files, and time."""

    def __init__(self, seed, allowed=None, trace=None):
        self.rng = rng = random.Random(seed)
        self.dice = Dice(seed, allowed)
        self.trace = trace
        self.now = 0
        self.events = []
        self.sequence = 0
        self.current = None
        self.slots = rng.choice([1, 2])
        self.parallelism = rng.choice([1, 1, 1, 2])
        self.records = rng.choice([5, 15, 25])
        self.knows_processes = rng.random() < 0.5
        self.settings = {
            "execution.checkpointing.timeout": "400 ms",
            "execution.checkpointing.num-retained": str(rng.choice([1, 1, 2])),
            "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
            "execution.checkpointing.externalized-checkpoint-retention": rng.choice(
                ["DELETE_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"]
            ),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000000",
            "restart-strategy.fixed-delay.delay": "10 ms",
        }
        self.interval_ms = rng.choice([30, 50, 100])
        self.allocations = 0
        self.folder = None
        self.invariants = LeaderInvariants(self)
        self.job = self.new_job()
        [vertex] = self.job.vertices.values()
        self.operator = vertex.operators[0].id
        self.subtasks = [(vertex.id, index) for index in range(vertex.parallelism)]
        self.drivers = []
        self.num_drivers = rng.choice([1, 2, 2, 2])
        self.started = self.starting = 0
        self.broken = None

    def new_job(self):
        job = copy.copy(job_graph(self.parallelism))
        job.checkpoint_interval_ms = self.interval_ms
        job.configuration = {
            **self.settings,
            "execution.checkpointing.dir": f"{self.folder}/checkpoints",
        }
        return job

    def new_allocation(self):
        self.allocations += 1
        return b"slot-%d" % self.allocations

    # Time and chance ----------------------------------------------------------------------------

    @property
    def may_fail(self):
        return self.now < FAULTS_UNTIL_MS

    def faulty(self, name, chance):
        happens = self.may_fail and self.dice.chance(name, chance)
        if happens:
            self.note(name)
        return happens

    def delay(self, name, options):
        return self.dice.choice(name, options) if self.may_fail else options[0]

    def note(self, text):
        if self.trace is not None:
            self.trace.append(f"{self.now:>6} ms  {text}")

    def now_ms(self):
        return self.now

    def wall_ms(self):
        return self.now

    def at(self, time_ms, thread, action):
        self.sequence += 1
        heapq.heappush(self.events, (time_ms, self.sequence, thread, action))

    def later(self, delay_ms, action, *args):
        """Schedule an action outside of all drivers."""
        self.at(self.now + delay_ms, None, lambda: action(*args))

    def step(self):
        time_ms, number, thread, action = heapq.heappop(self.events)
        self.now = max(self.now, time_ms)
        if thread is not None:
            if thread.process.is_over:
                return
            if thread.is_busy:
                thread.put_off.append((number, action))
                return
            if thread.process.stopped_until > self.now:
                # Its number keeps it before later events of that time.
                entry = (thread.process.stopped_until, number, thread, action)
                heapq.heappush(self.events, entry)
                return
        before, self.current = self.current, thread
        try:
            action()
        except KilledError:
            assert thread is not None
            assert thread.process.is_over
        finally:
            self.current = before
        if self.broken is not None:
            raise self.broken

    # Faults of a driver at a file -----------------------------------------------------------------

    def touch(self, name):
        """Inject a fault where a driver's thread is about to touch a file, or has just done so.

        Raises:
            OSError: The storage fails.
        """
        thread = self.current
        if thread is None:
            return
        process = thread.process
        self.leave()
        if not self.may_fail:
            return
        fate = self.dice.chance(f"{process} at {name}", 0.03) and self.dice.choice(
            "fate", ("stopped", "stopped", "slow", "killed", "fails")
        )
        if not fate:
            return
        self.note(f"{thread} at {name}: {fate}")
        if fate == "killed":
            self.kill(process.driver)
            self.leave()
        elif fate == "fails":
            raise OSError(f"{name}: the storage fails")
        until = self.now + self.delay("how long", (400, 100, 700))
        if fate == "stopped":
            process.stop_until(until)
        self.wait(thread, until)

    def wait(self, thread, until):
        """Let the others continue until the thread does."""
        thread.is_busy = True
        while self.events and self.events[0][0] <= until and not thread.process.is_over:
            self.step()
        thread.is_busy = False
        self.leave()
        self.now = max(self.now, until)
        put_off, thread.put_off = thread.put_off, []
        for number, action in put_off:
            heapq.heappush(self.events, (self.now, number, thread, action))

    def leave(self):
        """Unwind a thread whose process has ended."""
        if self.current is not None and self.current.process.is_over:
            raise KilledError

    # Mishaps --------------------------------------------------------------------------------------

    def start_later(self, delay_ms):
        self.starting += 1
        self.later(delay_ms, self.start_driver)

    def start_driver(self):
        self.starting -= 1
        self.started += 1
        driver = SimulatedDriver(self, self.started)
        self.drivers.append(driver)

    def kill(self, driver):
        """End a driver; its workers notice, and its supervisor, too, unless the job has ended."""
        if driver.process.is_over:
            return
        driver.process.is_over = True
        self.drivers.remove(driver)
        for worker in list(driver.workers.values()):
            self.later(self.delay(f"end of {worker}", (300, 1, 20, 700)), worker.end)
        if not driver.has_ended or self.invariants.result_of is None:
            self.start_later(self.delay("supervisor", (20, 200)))

    def misbehave(self):
        if not self.may_fail:
            return
        self.later(self.delay("next fault", (60, 30, 150)), self.misbehave)
        for driver in list(self.drivers):
            if self.faulty(f"{driver} is killed", 0.04):
                self.kill(driver)
            elif self.faulty(f"{driver} is stopped", 0.06):
                driver.process.stop_until(self.now + self.delay("how long", (400, 100, 700)))
            for worker in list(driver.workers.values()):
                if self.faulty(f"{worker} dies", 0.03):
                    worker.end()
            if driver.handle is not None and self.faulty("the user cancels", 0.003):
                driver.handle.cancel()

    def look_who_leads(self):
        """End workers of former leaders, as their hosts do from time to time."""
        root = Path(self.folder, "job")
        if root.exists():
            epoch, _ = current_epoch(root)
            for driver in self.drivers:
                record = driver.leadership._record
                if driver.leads and record is not None and record.epoch < epoch:
                    for worker in list(driver.workers.values()):
                        self.later(self.delay(f"look of {worker}", (1, 100, 400)), worker.end)
        if self.drivers or self.starting:
            self.later(200, self.look_who_leads)

    # A run ----------------------------------------------------------------------------------------

    def run(self):
        with tempfile.TemporaryDirectory(dir=memory_folder()) as folder, self.simulated():
            self.folder = folder
            for _ in range(self.num_drivers):
                self.start_later(self.delay("start of a driver", (0, 30)))
            self.later(1, self.misbehave)
            self.later(200, self.look_who_leads)
            steps = 0
            while self.drivers or self.starting:
                steps += 1
                assert steps < MAX_STEPS, "the drivers neither end nor wait"
                assert self.now < MUST_END_BY_MS, "the drivers do not end"
                self.step()
            while self.events:
                self.step()
            self.invariants.check_end()

    @contextlib.contextmanager
    def simulated(self):
        """Give drivers the world's time, threads and processes; intercept their file accesses."""

        def touching(name):
            method = getattr(LocalFileSystem, name)

            def touch(files, path):
                self.touch(f"{name} {path.removeprefix(self.folder)}")
                method(files, path)
                self.invariants.touched(self.current.process.driver, name, path)

            return touch

        def touch_disk(descriptor):
            self.touch("the disk")

        replace = Path.replace

        def replaced(path, target):
            replace(path, target)
            self.invariants.published(self.current.process.driver, target.name)

        files = {n: touching(n) for n in ("make_directory", "delete_file", "delete_directory")}
        with (
            mock.patch.multiple(
                time,
                monotonic=lambda: self.now / 1000,
                monotonic_ns=lambda: self.now * 1_000_000,
                time_ns=lambda: self.now * 1_000_000,
            ),
            mock.patch.object(os, "fsync", touch_disk),
            mock.patch.object(Path, "replace", replaced),
            mock.patch.multiple(
                file_leader_election,
                this_process=lambda: ("", "", self.current.process.driver.number, 0),
                is_gone=self.is_known_to_be_gone,
            ),
            mock.patch.multiple(LocalFileSystem, **files),
        ):
            yield

    def is_known_to_be_gone(self, process):
        """Return whether a process is known to have ended, as drivers on one machine know it."""
        return self.knows_processes and all(one.number != process[2] for one in self.drivers)

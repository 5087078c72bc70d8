"""A driver as a process: it stands by, leads, runs the job, and ends in any way.

`FileLeaderElectionService`, `JobRecords`, `Dispatcher`, `JobMaster`, `CheckpointService` and
`ResourceManager` are the production classes; this module connects them as `PerJobCluster` does.
"""

from functools import partial

from penstock.errors import PenstockError
from penstock.high_availability.file_leader_election import FileLeaderElectionService
from penstock.high_availability.job_records import JobRecords
from penstock.jobmaster.cluster_settings import ClusterSettings
from penstock.jobmaster.dispatcher import Dispatcher
from penstock.jobmaster.job_master_services import JobMasterServices
from penstock.jobmaster.workers.resource_manager import ResourceManager, WorkerExit
from penstock.jobmaster.workers.worker_losses import WorkerLosses
from simulation.simulated_process import SimulatedProcess, SimulatedThread
from simulation.simulated_worker_process import SimulatedWorkerProcess

LEASE_MS = 300
SETTINGS = ClusterSettings.from_configuration({})


class WatchedLeadership(FileLeaderElectionService):
    """A leadership that may stop where a driver may."""

    def __init__(self, driver):
        super().__init__(driver.world.folder, "job", LEASE_MS)
        self.driver = driver

    def _led(self):
        directory = super()._led()
        self.driver.world.touch("the leader's directory")
        return directory

    def _try_to_lead(self, epoch, directory):
        self.driver.world.touch("the way to lead")
        return super()._try_to_lead(epoch, directory)

    def _gone(self, directory):
        self.driver.world.invariants.num_fenced += 1
        return super()._gone(directory)


class Nothing:
    """An unused part of a Dispatcher."""

    def __getattr__(self, name):
        return lambda *_, **__: None


class SimulatedDispatcher(Dispatcher):
    """A Dispatcher whose messages the world delivers."""

    def __init__(self, driver):
        self.settings = SETTINGS
        self.collect = self.gateway = self._metrics = self._inspections = Nothing()
        self._heartbeats = self._data_plane = self._logs = self._printed = Nothing()
        self._configuration = {}
        self._serves_many = False
        self._extras_of = {}
        self._stopping = False
        self._jobs = {}
        self._losses = WorkerLosses()
        self._services = JobMasterServices(
            driver.world, partial(SimulatedThread, driver.process), lambda: driver.world.rng
        )
        self._main_thread = main = driver.process.main
        self._calls = Calls(main)
        self._ends = main.user("ends", 1 << 20)
        world = driver.world
        self._resources = ResourceManager(
            driver,
            world.slots,
            lambda *_: {},
            (1_000, 5_000),
            main.user("starts", 1 << 20).schedule,
            lambda: world.now / 1000,
            world.new_allocation,
        )
        self.router = self._routed(main.user("messages", 1 << 20))


class Calls:
    """The program's calls, which the main thread runs at once."""

    def __init__(self, main):
        self.post = main.user("calls", 1 << 20).post

    def call(self, action, timeout_s):
        return action()


class SimulatedDriver:
    """One driver, from its start to its end."""

    def __init__(self, world, number):
        self.world = world
        self.number = number
        self.process = SimulatedProcess(self)
        self.leadership = WatchedLeadership(self)
        self.leads = self.has_ended = False
        self.dispatcher = None
        self.handle = None
        self.workers = {}
        self.started = 0
        self.process.main.later(0, self.begin)

    def __str__(self):
        return f"driver {self.number}"

    @property
    def is_over(self):
        return self.process.is_over

    # Who leads ----------------------------------------------------------------------------------

    def begin(self):
        self.trying(self.leadership._make_root)
        self.process.main.later(0, self.look)

    def look(self):
        if not self.trying(self.leadership._look):
            self.process.main.later(LEASE_MS // 5, self.look)
            return
        self.leads = True
        self.world.note(f"{self} leads in epoch {self.leadership._record.epoch}")
        self.process.main.later(LEASE_MS // 5, self.renew)
        self.trying(self.run_the_job)

    def renew(self):
        if not self.has_ended and self.leadership._renew():
            self.process.main.later(LEASE_MS // 5, self.renew)

    def trying(self, action):
        """Run an action; an exception ends the program, which a supervisor starts again."""
        try:
            return action()
        except (OSError, PenstockError) as error:
            self.world.note(f"{self} ends: {error}")
            self.world.kill(self)
            self.world.leave()

    # The job ------------------------------------------------------------------------------------

    def run_the_job(self):
        world = self.world
        records = JobRecords(self.leadership, world.job.job_id)
        result = records.results.get()
        if result is not None:
            world.note(f"{self} finds the job {result.status}")
            self.end()
            return
        self.dispatcher = SimulatedDispatcher(self)
        self.leadership.on_lost(self.dispatcher.leadership_lost)
        world.invariants.job_begins(self)
        self.handle = self.dispatcher.submit(
            world.new_job(), on_ended=lambda handle: self.end(), records=records
        )

    def end(self):
        self.has_ended = True
        if self.handle is not None:
            self.world.note(f"{self} has ended: the job is {self.handle.status().name}")
        self.leadership.release()
        self.world.kill(self)

    # Where workers run --------------------------------------------------------------------------

    def start(self, requests):
        for spec in requests:
            self.started += 1
            worker = SimulatedWorkerProcess(self, spec)
            self.workers[spec.executor_id] = worker
            delay = self.world.delay(f"start of {worker}", (10, 30, 100))
            self.world.later(delay, worker.comes_up)

    def places(self):
        return None

    def granted(self):
        return self.started

    def describe(self, registered):
        return registered

    def kill(self, job_id):
        """Do nothing: user code does not hang here."""

    def forget_job(self, job_id):
        """Do nothing: no data of a job is stored here."""

    def failures(self):
        return ()

    def worker_ended(self, worker):
        """Report both ends of a worker: of its connection, and of its process."""
        if self.workers.pop(worker.id, None) is None or self.dispatcher is None:
            return
        # Its earlier messages arrive first.
        worker.tell(lambda: self.dispatcher._peer_lost(worker, "the connection broke"))
        exited = WorkerExit(worker.id, 1, -9)
        self.process.main.put(lambda: self.dispatcher._worker_exited(exited))

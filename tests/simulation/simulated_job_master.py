"""The production JobMaster and CheckpointService, with time, threads and storage of a world.

Invariants check each action before it is carried out.  The world raises their errors, too, because
a future swallows the exceptions of its callbacks.
"""

import math
from concurrent.futures import Future

from penstock.jobmaster.checkpointing import actions as c
from penstock.jobmaster.checkpointing.state_assignment import assign_states
from penstock.jobmaster.cluster_settings import ClusterSettings
from penstock.jobmaster.job_master import JobMaster
from penstock.jobmaster.job_master_services import JobMasterServices
from penstock.jobmaster.local_job_gateway import LocalJobGateway
from penstock.jobmaster.main_thread import QueueUser
from penstock.jobmaster.scheduling import actions as a
from penstock.jobmaster.scheduling.states import ExecutionState

S = ExecutionState
SETTINGS = ClusterSettings.from_configuration({})
ANY_NUMBER = 1 << 20


class WorldThread:
    """A thread of the driver: posted calls run in order, each after a while."""

    is_current = True

    def __init__(self, world, name, run_later):
        self.world = world
        self.name = name
        self.is_closed = False
        self._run_later = run_later

    def user(self, name, limit, *, waits=False, on_error=None):
        # An exception here ends the simulation, which shows it.
        return QueueUser(self, name, ANY_NUMBER, on_error, waits=waits)

    def start(self):
        pass

    def close(self, timeout_s=0.0):
        self.is_closed = True

    def put(self, action, user):
        if self.is_closed:
            return

        def run():
            user.gone()
            action()

        self._run_later(run)

    def put_timer(self, delay_s, timer):
        def run():
            if timer.user.end(timer):
                timer.action()

        self.world.later(math.ceil(delay_s * 1000), run)


class SimulatedSources:
    """The coordinators of the job's sources, which sometimes have no state to give."""

    def __init__(self, world):
        self.world = world

    def checkpoint(self, checkpoint_id):
        if not self.world.faulty(f"coordinator fails in {checkpoint_id}", 0.01):
            return {}
        failed = Future()
        failed.set_exception(OSError("no state"))
        return {b"source": failed}

    def __getattr__(self, name):
        return lambda *_, **__: None


class SimulatedJobMaster(JobMaster):
    """Runs the world's job."""

    def __init__(self, world):
        self.world = world
        main = WorldThread(world, "main", lambda run: world.send("main thread", run))
        super().__init__(
            world.job,
            SETTINGS,
            main.user("calls", ANY_NUMBER),
            world.cluster.resources,
            LocalJobGateway(world.job.job_id, "job", None, None, None, lambda: None),
            on_ended=lambda master: None,
            on_stuck=lambda: None,
            on_checkpoint_request=lambda future: None,
            rebuilt=lambda failure: RuntimeError(str(failure)),
            services=JobMasterServices(
                world,
                lambda name: WorldThread(world, name, world.io),
                lambda: world.rng,
                lambda job, timeout_ms, now_ms: world.scheduler,
                lambda job: world.storage,
            ),
        )
        self.checkpoints._sources = SimulatedSources(world)
        self._watch_checkpoints()
        self._watch_causes()

    def _watch_checkpoints(self):
        service, world = self.checkpoints, self.world
        run, request = service._run, service.coordinator.request

        def run_watched(todo):
            def watched():
                for action in todo:
                    world.watch(world.checkpoint_action, action)
                    yield action

            run(watched())
            world.watch(world.invariants.check_checkpoints)

        def request_watched(properties, now_ms):
            number, todo = request(properties, now_ms)
            world.watch(world.invariants.requested, number, properties)
            return number, todo

        service._run = run_watched
        service.coordinator.request = request_watched

    def _watch_causes(self):
        reported, world = self._causes.reported, self.world

        def reported_watched(report, now_ms, *, is_canceling):
            world.invariants.reported(report, is_canceling=is_canceling)
            return reported(report, now_ms, is_canceling=is_canceling)

        self._causes.reported = reported_watched

    # Actions of the JobMaster -------------------------------------------------------------------

    def _take(self, reports):
        graph = self.world.scheduler.graph

        def watched():
            for report in reports:
                if not self._ended:
                    self.world.watch(self.world.invariants.taken, report)
                    self.world.is_late = graph.find_attempt(report.attempt_id) is None
                yield report

        super()._take(watched())

    def _run(self, todo):
        world = self.world
        if world.is_late:
            # A late report may coincide with a due restart, and must have no other effect.
            world.is_late = False
            moves = {x.new for x in todo if isinstance(x, a.TaskStateChanged)}
            world.watch(lambda: check(moves <= {S.SCHEDULED, S.DEPLOYING}))

        def watched():
            for action in todo:
                world.watch(world.action, action)
                yield action

        super()._run(watched())
        world.watch(world.invariants.check)

    def _log_undone(self, action, error):
        self.world.broken = self.world.broken or error
        super()._log_undone(action, error)

    def _restart_rescaled(self, parallelisms):
        self.world.note(f"the job is rescaled {parallelisms}")
        super()._restart_rescaled(parallelisms)

    # Events without a message -------------------------------------------------------------------

    def slot_failed(self, allocation_id, failure):
        self._run(self._scheduler.slot_failed(allocation_id, failure, self.world.now))


def check(condition):
    assert condition


class WatchedActions:
    """Notes in a world about each action, before the JobMaster carries it out."""

    def action(self, action):
        match action:
            case a.RequestSlots():
                assert action.missing == max(0, action.required - len(self.accepted))
            case a.AcceptSlot():
                self.accepted[action.allocation_id] = action.executor_id
            case a.ReleaseSlot():
                assert self.accepted.pop(action.allocation_id) == action.executor_id
            case a.Deploy():
                self.invariants.check_deployment(action)
                execution = self.scheduler.graph.find_attempt(action.attempt_id).current
                self.deployed(action.attempt_id, execution.restored)
            case a.ReleasePartitions():
                self.invariants.partitions_released(action)
            case a.JobStatusChanged():
                self.note(f"the job is {action.new.name} {action.failure or ''}")
                self.invariants.job_moved(action)
            case a.TaskStateChanged():
                self.invariants.task_moved(action)
            case a.RestoreState():
                self.restoring(action)
            case a.ParallelismChanged():
                self.note(f"the job has parallelisms {self.shape}")
                self.invariants.shape_changed()

    def restoring(self, action):
        latest = self.coordinator.store.latest
        self.invariants.restoring(action, latest)
        if latest is not None:
            self.note(f"restored from checkpoint {latest.checkpoint_id}")
            assigned = assign_states(self.job, latest.metadata.operators)
            self.check_all_is_given_out(latest, assigned)

    def checkpoint_action(self, action):
        self.invariants.checkpoint_action(action)
        match action:
            case c.RequestCompleted():
                self.shapes[action.checkpoint.checkpoint_id] = self.shape
            case c.RequestFailed():
                self.note(f"request {action.number} fails: {action.reason.name} {action.detail}")

    def watch(self, check, *args):
        """Fail the world with a check's error, even if a caller swallows it."""
        try:
            check(*args)
        except Exception as error:
            self.broken = self.broken or error
            raise

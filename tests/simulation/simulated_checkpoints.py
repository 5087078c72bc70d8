"""The CheckpointService: it executes the actions of the coordinator in their order."""

from penstock.checkpoint_storage.disposal import _exclusive_streams
from penstock.checkpoint_storage.handles import FileHandle
from penstock.jobmaster.checkpointing import actions as c
from penstock.jobmaster.failure import Failure
from penstock.network.events import CheckpointBarrier
from simulation.simulated_task import METRICS


class SimulatedCheckpoints:
    """The checkpoints of the world that it is a part of, and the thread of the storage."""

    def run_checkpoints(self, todo, *, check=True):
        self.has_moved = True
        for action in todo:
            self.carry_out_checkpoint(action)
        if check:
            self.invariants.check_checkpoints()

    def carry_out_checkpoint(self, action):
        self.invariants.checkpoint_action(action)
        match action:
            case c.CreateLocation():
                self.io("directory", self.create_location, action)
            case c.SnapshotCoordinators():
                self.snapshot_coordinators(action.checkpoint_id)
            case c.TriggerTasks():
                self.trigger_tasks(action)
            case c.StoreMetadata():
                self.io("metadata", self.store_metadata, action)
            case c.NotifyComplete():
                for task in action.tasks:
                    self.down(task, "complete", "notify_complete", action.checkpoint_id)
            case c.NotifyAborted():
                for task in action.tasks:
                    self.down(
                        task,
                        "aborted",
                        "notify_aborted",
                        action.checkpoint_id,
                        action.latest_completed_id,
                    )
            case c.DiscardState():
                self.io("discard", self.discard_states, [action.state])
            case c.DiscardPending():
                self.io("discard", self.discard_pending, action)
            case c.DiscardCheckpoint():
                self.io("discard", self.discard_checkpoint, action.checkpoint)
            case c.RequestCompleted():
                self.shapes[action.checkpoint.checkpoint_id] = self.shape
                self.request_answered(action, action.checkpoint)
            case c.RequestFailed():
                self.note(f"request {action.number} fails: {action.reason.name} {action.detail}")
                self.request_answered(action, None)
            case c.FailJob():
                self.call("fail", Failure("penstock.Checkpoint", action.message))

    def io(self, name, work, *args):
        """The thread that works on the storage: one thing after the other, sometimes slowly."""
        if self.io_is_closed:
            return
        self.io_free_at = max(self.now, self.io_free_at) + self.delay(
            f"{name} takes", (0, 0, 0, 1, 1, 20, 20, 300)
        )
        self.later(self.io_free_at - self.now, work, *args)

    def answer(self, event, *args):
        """An answer of the storage, which the main thread takes in a moment."""
        self.send("main thread", self.answered, event, args)

    def answered(self, event, args):
        self.run_checkpoints(getattr(self.coordinator, event)(*args, self.now))

    def create_location(self, action):
        if self.faulty(f"directory of {action.checkpoint_id} cannot be made", 0.02):
            self.answer("storage_failed", action.checkpoint_id, "no directory")
            return
        location = f"/{action.properties.target or 'job'}/{action.checkpoint_id}"
        self.storage.make(location)
        self.locations[action.checkpoint_id] = location
        self.answer("location_created", action.checkpoint_id, location)

    def snapshot_coordinators(self, checkpoint_id):
        if self.faulty(f"coordinator fails in {checkpoint_id}", 0.01):
            self.answer("coordinators_failed", checkpoint_id, "no state")
        else:
            delay = self.delay(f"coordinator of {checkpoint_id}", (0, 0, 0, 10))
            self.later(delay, self.answer, "coordinators_snapshotted", checkpoint_id, {})

    def trigger_tasks(self, action):
        barrier = CheckpointBarrier(
            action.checkpoint_id,
            action.timestamp_ms,
            action.properties.kind,
            alignment=action.alignment,
        )
        for task in action.tasks:
            self.down(task, "trigger", "trigger", barrier)

    def down(self, participant, kind, event, *args):
        if self.loses_messages and self.faulty(f"{kind} to {participant.attempt_id} is lost", 0.02):
            return
        self.send(
            (participant.executor_id, "down"), self.arrives, participant.attempt_id, event, args
        )

    def arrives(self, attempt, event, args):
        task = self.tasks.get(attempt)
        if task is not None and task.executor in self.workers:
            getattr(task, event)(*args)

    def store_metadata(self, action):
        checkpoint_id = action.metadata.checkpoint_id
        if self.faulty(f"metadata of {checkpoint_id} cannot be written", 0.02):
            self.answer("storage_failed", checkpoint_id, "no metadata")
            return
        try:
            self.storage.publish(action.location, action.metadata)
        except OSError as error:
            self.answer("storage_failed", checkpoint_id, str(error))
            return
        self.answer("metadata_stored", checkpoint_id, action.location)

    def discard_states(self, states):
        for state in states:
            for operator in state.operators.values():
                for stream in _exclusive_streams(operator):
                    if isinstance(stream, FileHandle):
                        self.storage.delete(stream.path)

    def discard_pending(self, action):
        self.discard_states(action.states)
        if action.location is not None:
            self.storage.discard(action.location)

    def discard_checkpoint(self, checkpoint):
        self.storage.discard(checkpoint.pointer)
        self.answer("discarded")

    def acknowledged(self, attempt, checkpoint_id, state):
        self.run_checkpoints(
            self.coordinator.acknowledged(attempt, checkpoint_id, state, METRICS, self.now)
        )

    def declined(self, attempt, checkpoint_id, reason):
        self.run_checkpoints(
            self.coordinator.declined(attempt, checkpoint_id, reason, "so", self.now)
        )

    def final_wanted(self, attempt):
        self.run_checkpoints(self.coordinator.hurry(attempt, self.now))

    def committed(self, task, checkpoint_id):
        self.invariants.committed(task, checkpoint_id)

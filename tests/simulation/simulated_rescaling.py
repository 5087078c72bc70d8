"""An adaptive job, and users who change the bounds of its parallelism.

The counts of channels belong to one shape of the job, that is to the parallelisms of its vertices:
tasks that start from a checkpoint of another shape start new counts, and are aligned, so that
nothing was in flight.  Each part of a source's state goes to one of the new subtasks.
"""

from collections import Counter

from penstock.errors import RescalingError
from penstock.jobmaster.adaptive.adaptive_scheduler import AdaptiveScheduler
from penstock.jobmaster.adaptive.adaptive_waits import AdaptiveSettings
from penstock.jobmaster.scheduling.scheduler import Scheduler


def random_adaptive_settings(rng):
    return AdaptiveSettings(
        wait_timeout_ms=rng.choice([2_000, 20_000]),
        stabilization_ms=rng.choice([0, 30, 500]),
        cooldown_ms=rng.choice([0, 50, 500]),
        executing_stabilization_ms=rng.choice([0, 100, 1_000]),
    )


class SimulatedRescaling:
    """The rescaling of the world that it is a part of."""

    def make_scheduler(self, rng, strategy, settings):
        """Create the scheduler; for one in four streaming jobs, an adaptive one."""
        self.is_adaptive = not self.is_batch and rng.random() < 0.25
        self.shapes = {}  # checkpoint id -> the shape of the job that took it
        self.shapes_of = {}  # attempt -> its shape, and that of the checkpoint that it starts from
        self.assigned = {}  # attempt -> the state that it shall start from
        self.num_spread = 0
        if not self.is_adaptive:
            self.scheduler = Scheduler(self.job, strategy, 0, settings)
            return
        for vertex in self.job.vertices.values():
            vertex.has_own_parallelism = False
        self.scheduler = AdaptiveScheduler(
            self.job, strategy, 0, settings, random_adaptive_settings(rng)
        )

    @property
    def shape(self):
        return tuple(vertex.parallelism for vertex in self.job.vertices.values())

    def wish_for_parallelism(self):
        if self.is_adaptive and self.faulty("a rescaling is asked for", 0.5):
            try:
                self.master.rescale(self.dice.choice("parallelism", (1, 3, 2, 4)))
            except RescalingError as error:
                self.note(f"it is refused: {error}")

    def deployed(self, attempt_id, restored):
        shape = self.shape
        former = shape if restored is None else self.shapes[restored.checkpoint_id]
        self.shapes_of[attempt_id] = (shape, former)
        self.assigned[attempt_id] = restored

    def check_all_is_given_out(self, checkpoint, assigned):
        """F12: each part of the state is assigned to one subtask."""
        if self.shapes[checkpoint.checkpoint_id] == self.shape:
            return
        kept, given = Counter(), Counter()
        for operator in checkpoint.metadata.operators.values():
            for state in operator.subtasks.values():
                kept.update(str(handle.stream) for handle in state.managed_operator)
        for snapshot in assigned.values():
            for state in snapshot.operators.values():
                given.update(str(handle.stream) for handle in state.managed_operator)
        assert kept == given, "state is lost, or given out twice"
        self.num_spread += 1

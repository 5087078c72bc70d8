"""The simulation finds defects of barriers: F-6 to F-14 are checked, with in-flight data.

Method: one defect at a time in the production barrier handler, or in a task's stored channel data;
a seed must fail by the invariant that the defect violates.
"""

import pytest
from penstock.taskexecutor.checkpointing.barrier_handler import SingleCheckpointBarrierHandler
from simulation.schedules import outcome
from simulation.simulated_task import SimulatedTask

SEEDS = 1000


def test_records_are_in_flight_in_complete_checkpoints():
    """Of both kinds: overtaken records, and records read after a snapshot."""
    worlds = [outcome(seed)[0] for seed in range(300)]
    assert sum(world.invariants.overtaken for world in worlds) > 10
    assert sum(world.invariants.unread for world in worlds) > 0


def goes_on_with_what_it_gave_up(monkeypatch):
    give_up = SingleCheckpointBarrierHandler._abort

    def forgetful(self, checkpoint_id, reason):
        give_up(self, checkpoint_id, reason)
        self._last_done_id = checkpoint_id - 1

    monkeypatch.setattr(SingleCheckpointBarrierHandler, "_abort", forgetful)


def takes_snapshots_of_obsolete_barriers(monkeypatch):
    on_barrier = SingleCheckpointBarrierHandler.on_barrier

    def eager(self, channel, barrier):
        if self._is_obsolete(barrier.checkpoint_id):
            self._target.take_snapshot(barrier, self._figures(barrier))
        on_barrier(self, channel, barrier)

    monkeypatch.setattr(SingleCheckpointBarrierHandler, "on_barrier", eager)


def leaves_channels_stopped(monkeypatch):
    monkeypatch.setattr(SingleCheckpointBarrierHandler, "_release", lambda self: None)


def is_content_with_two_barriers(monkeypatch):
    complete = SingleCheckpointBarrierHandler._complete_if_all_came

    def early(self, barrier):
        if len(self._arrived) == 2:
            self._arrived |= self._open
        complete(self, barrier)

    monkeypatch.setattr(SingleCheckpointBarrierHandler, "_complete_if_all_came", early)


def forgets_what_it_overtakes(monkeypatch):
    send = SimulatedTask._send_barrier
    monkeypatch.setattr(SimulatedTask, "_send_barrier", lambda *args: send(*args)[1:])


def keeps_what_comes_behind_barriers(monkeypatch):
    snapshot = SimulatedTask.take_snapshot

    def forgetful(self, barrier, figures):
        snapshot(self, barrier, figures)
        self.barriers.clear()

    monkeypatch.setattr(SimulatedTask, "take_snapshot", forgetful)


def restores_in_another_order(monkeypatch):
    send = SimulatedTask._send_barrier
    monkeypatch.setattr(SimulatedTask, "_send_barrier", lambda *args: send(*args)[::-1])


def goes_on_with_an_older_one(monkeypatch):
    """A second unaligned checkpoint starts while barriers of the first one are missing."""
    monkeypatch.setattr(SimulatedTask, "_stop_keeping", lambda self, checkpoint_id: None)


@pytest.mark.parametrize(
    ("defect", "invariant"),
    [
        (goes_on_with_what_it_gave_up, "F-8 or F-9"),
        (leaves_channels_stopped, "F-8 or F-9"),
        (takes_snapshots_of_obsolete_barriers, "F-7 or F-9"),
        (is_content_with_two_barriers, "F-10"),
        (forgets_what_it_overtakes, "F-11"),
        (keeps_what_comes_behind_barriers, "F-11"),
        (restores_in_another_order, "F-12"),
        (goes_on_with_an_older_one, "F-14"),
    ],
)
def test_a_defect_breaks_an_invariant(monkeypatch, defect, invariant):
    defect(monkeypatch)
    assert any(invariant in str(outcome(seed)[1]) for seed in range(SEEDS))

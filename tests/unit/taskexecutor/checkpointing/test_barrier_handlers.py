"""F4b, F5, F6: the effect of barriers, cancellations and ends of channels.

Method: a scenario is fed channel by channel; a log records the requests to the task.
"""

import random

import pytest
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.network.events import Alignment, CheckpointBarrier
from penstock.taskexecutor.checkpointing.barrier_handler import SingleCheckpointBarrierHandler
from penstock.taskexecutor.checkpointing.barrier_tracker import CheckpointBarrierTracker
from support.gathering import GatheringChannels


class Channels(GatheringChannels):
    """Channels that stop at an aligned barrier until they are resumed."""

    def __init__(self, count):
        self.num_channels = count
        self.stopped = set()
        self.prioritized = []
        self.processed_bytes = 0

    def resume_consumption(self, channel):
        assert channel in self.stopped, f"channel {channel} was not stopped"
        self.stopped.remove(channel)

    def prioritize_barrier(self, channel, checkpoint_id):
        self.prioritized.append((channel, checkpoint_id))
        return True


class Scenario:
    """One task with some channels; snapshots and aborts are logged as +id and -id."""

    def __init__(self, count, tracked=False):
        self.channels = Channels(count)
        self.channels.wall_ms = lambda: self.now
        self.log = []
        self.reasons = {}
        self.snapshots = []
        self.completions = []
        self.timers = []
        self.now = 1000
        make = CheckpointBarrierTracker if tracked else SingleCheckpointBarrierHandler
        more = () if tracked else (lambda delay, action: self.timers.append((delay, action)),)
        self.handler = make(self.channels, self, lambda: self.now, *more)

    # Requests to the task.

    def take_snapshot(self, barrier, figures):
        self.log.append(barrier.checkpoint_id)
        self.snapshots.append((barrier, figures))

    def barriers_complete(self, checkpoint_id, figures):
        self.log.append(("complete", checkpoint_id))
        self.completions.append(figures)

    def abort_snapshot(self, checkpoint_id, reason):
        self.log.append(-checkpoint_id)
        self.reasons[checkpoint_id] = reason

    # Input.

    def barrier(self, channel, number, **fields):
        event = CheckpointBarrier(number, 900, **fields)
        if event.needs_alignment:
            assert channel not in self.channels.stopped, "a stopped channel delivers nothing"
            self.channels.stopped.add(channel)
        if not self.channels.gathers(channel, event):
            self.handler.on_barrier(channel, event)
        return self

    def announce(self, channel, number, timeout_ms=100):
        event = CheckpointBarrier(number, 900, aligned_timeout_ms=timeout_ms)
        self.handler.on_announcement(channel, event)
        return self

    def cancel(self, channel, number):
        self.handler.on_cancellation(channel, number)
        return self

    def end(self, channel):
        self.handler.on_end_of_partition(channel)
        return self


def test_one_channel():
    scenario = Scenario(1)
    for number in (1, 2, 5):
        scenario.barrier(0, number)
    assert scenario.log == [1, 2, 5]
    assert not scenario.channels.stopped


def test_alignment_of_three_channels():
    """F-6, F-8: the last barrier triggers, and no channel stays stopped."""
    scenario = Scenario(3)
    scenario.barrier(2, 1).barrier(1, 1)
    assert scenario.channels.stopped == {1, 2}
    scenario.now += 30
    scenario.barrier(0, 1)
    assert scenario.log == [1]
    assert not scenario.channels.stopped
    [(barrier, figures)] = scenario.snapshots
    assert barrier.alignment is Alignment.ALIGNED
    assert (figures.alignment_ms, figures.start_delay_ms) == (30, 100)


def test_only_the_last_barrier_of_the_next_checkpoint_is_reported():
    """F-6: the first one counts once the previous checkpoint is complete, but keeps its time."""
    scenario = Scenario(3)
    told = []
    on_barrier = scenario.handler.on_barrier
    scenario.handler.on_barrier = lambda channel, event: (
        told.append((channel, event.checkpoint_id)),
        on_barrier(channel, event),
    )
    scenario.barrier(2, 1).barrier(1, 1).barrier(0, 1)
    scenario.channels.processed_bytes = 50
    scenario.barrier(1, 2)
    scenario.now += 30
    scenario.channels.processed_bytes = 70
    scenario.barrier(0, 2).barrier(2, 2)
    assert told == [(2, 1), (0, 1), (2, 2)]
    assert scenario.log == [1, 2]
    figures = scenario.snapshots[1][1]
    assert (figures.alignment_ms, figures.start_delay_ms) == (30, 100)
    assert figures.processed_bytes == 20
    # One channel less; then late barriers of aborted checkpoints are reported, and stop no channel.
    scenario.barrier(1, 3).end(0).barrier(2, 3)
    assert scenario.log == [1, 2, 3]
    scenario.barrier(1, 4).cancel(2, 4)
    assert scenario.log == [1, 2, 3, -4]
    assert not scenario.channels.stopped
    scenario.cancel(1, 5).barrier(2, 5)
    assert not scenario.channels.stopped
    scenario.barrier(1, 6).barrier(2, 7)
    assert scenario.log == [1, 2, 3, -4, -5, -6]
    assert scenario.channels.stopped == {2}


def test_a_checkpoint_that_is_jumped_over():
    """Barriers of 2 on two channels, then 3: 2 is aborted; then 4: 3 is aborted."""
    scenario = Scenario(3)
    for channel in range(3):
        scenario.barrier(channel, 1)
    scenario.barrier(1, 2).barrier(0, 2).barrier(2, 3)
    assert scenario.log == [1, -2]
    assert scenario.channels.stopped == {2}
    assert scenario.reasons[2] is Reason.DECLINED_SUBSUMED
    scenario.barrier(0, 4)
    assert scenario.log == [1, -2, -3]
    scenario.barrier(1, 4).barrier(2, 4)
    assert scenario.log == [1, -2, -3, 4]
    assert not scenario.channels.stopped


def test_late_barriers_are_ignored():
    """F-7, F-9: of a completed, aborted or subsumed checkpoint."""
    scenario = Scenario(2)
    scenario.barrier(0, 5).cancel(1, 5)
    assert scenario.log == [-5]
    scenario.barrier(1, 5).barrier(1, 4)
    assert scenario.log == [-5]
    assert not scenario.channels.stopped
    scenario.barrier(0, 6).barrier(1, 6)
    assert scenario.log == [-5, 6]


@pytest.mark.parametrize("tracked", [False, True])
def test_cancellation(tracked):
    scenario = Scenario(2, tracked)
    fields = {"alignment": Alignment.AT_LEAST_ONCE} if tracked else {}
    scenario.cancel(0, 1)
    assert scenario.log == [-1]
    scenario.cancel(1, 1)
    assert scenario.log == [-1], "it is told once"
    scenario.barrier(0, 2, **fields).cancel(1, 3)
    assert scenario.log == [-1, -2, -3]
    assert scenario.reasons[3] is Reason.DECLINED_ON_CANCELLATION_BARRIER
    assert not scenario.channels.stopped
    scenario.barrier(1, 3, **fields).barrier(0, 3, **fields)
    assert scenario.log == [-1, -2, -3]
    scenario.barrier(1, 4, **fields).barrier(0, 4, **fields)
    assert scenario.log == [-1, -2, -3, 4]


@pytest.mark.parametrize("tracked", [False, True])
def test_an_ended_channel_holds_nobody_up(tracked):
    scenario = Scenario(3, tracked)
    fields = {"alignment": Alignment.AT_LEAST_ONCE} if tracked else {}
    scenario.barrier(0, 1, **fields).barrier(1, 1, **fields).end(2)
    assert scenario.log == [1]
    scenario.barrier(0, 2, **fields).end(0)
    assert scenario.log == [1], "a barrier and an end of one channel count once (F-10)"
    scenario.barrier(1, 2, **fields)
    assert scenario.log == [1, 2]
    scenario.end(1)
    assert not scenario.channels.stopped


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("ended", [[], [0], [0, 1]])
def test_a_trigger_of_the_driver(tracked, ended):
    """F14: all producers have ended, whether or not their ends have been read."""
    scenario = Scenario(2, tracked)
    for channel in ended:
        scenario.end(channel)
    scenario.handler.on_trigger(CheckpointBarrier(7, 900))
    scenario.handler.on_trigger(CheckpointBarrier(7, 900))
    assert scenario.log == [7]
    assert not scenario.channels.stopped


UNALIGNED = {"alignment": Alignment.UNALIGNED}


def test_an_unaligned_barrier_triggers_at_once():
    scenario = Scenario(3)
    scenario.barrier(1, 1, **UNALIGNED)
    assert scenario.log == [1]
    scenario.barrier(0, 1, **UNALIGNED).barrier(2, 1, **UNALIGNED)
    assert scenario.log == [1, ("complete", 1)]


def test_a_later_unaligned_checkpoint_ends_the_one_before():
    """F-14."""
    scenario = Scenario(2)
    scenario.barrier(0, 1, **UNALIGNED).barrier(0, 2, **UNALIGNED)
    assert scenario.log == [1, -1, 2]
    scenario.barrier(1, 1, **UNALIGNED).barrier(1, 2, **UNALIGNED)
    assert scenario.log == [1, -1, 2, ("complete", 2)]


def test_alignment_that_takes_too_long():
    """One barrier arrived, one is announced, nothing is known of the third."""
    scenario = Scenario(3)
    scenario.barrier(0, 1, aligned_timeout_ms=150).announce(1, 1, 150)
    [(delay, fire)] = scenario.timers
    assert delay == 50, "100 ms have passed since the trigger"
    fire()
    assert scenario.log == [1]
    assert scenario.snapshots[0][0].alignment is Alignment.UNALIGNED
    assert (1, 1) in scenario.channels.prioritized
    assert not scenario.channels.stopped
    scenario.barrier(1, 1, aligned_timeout_ms=150)
    assert not scenario.channels.stopped, "nobody waits any more"
    scenario.announce(2, 1, 150)
    assert (2, 1) in scenario.channels.prioritized
    scenario.barrier(2, 1, aligned_timeout_ms=150)
    assert scenario.log == [1, ("complete", 1)]
    assert not scenario.channels.stopped


def test_the_time_passes_before_any_barrier():
    """Then the first barrier triggers."""
    scenario = Scenario(2)
    scenario.announce(0, 1)
    scenario.timers[0][1]()
    assert scenario.log == []
    assert scenario.channels.prioritized == [(0, 1)]
    scenario.barrier(0, 1, aligned_timeout_ms=100)
    assert scenario.log == [1]
    scenario.barrier(1, 1, **UNALIGNED)
    assert scenario.log == [1, ("complete", 1)]


def test_the_time_passes_too_late():
    """Aligned in time, or aborted: the timer has no effect any more."""
    scenario = Scenario(2)
    scenario.barrier(0, 1, aligned_timeout_ms=100).barrier(1, 1, aligned_timeout_ms=100)
    scenario.barrier(0, 2, aligned_timeout_ms=100).cancel(1, 2)
    for _, fire in scenario.timers:
        fire()
    assert scenario.log == [1, -2]
    assert scenario.snapshots[0][0].alignment is Alignment.ALIGNED


def test_an_unaligned_barrier_switches_an_alignment():
    """The barrier's producer had already timed out itself."""
    scenario = Scenario(3)
    scenario.barrier(0, 1, aligned_timeout_ms=100).barrier(1, 1, **UNALIGNED)
    assert scenario.log == [1]
    assert not scenario.channels.stopped
    scenario.barrier(2, 1, aligned_timeout_ms=100)
    assert scenario.log == [1, ("complete", 1)]
    assert not scenario.channels.stopped


TRACKED = {"alignment": Alignment.AT_LEAST_ONCE}


def test_tracked_barriers_interleave():
    """F5: a complete checkpoint ends all earlier ones; skipped ones are not reported."""
    scenario = Scenario(3, tracked=True)
    for channel, number in [
        *((c, 2) for c in range(3)),
        (0, 3), (1, 3), (0, 4), (1, 4), (2, 4),
        (2, 3),
        (0, 5), (2, 5), (0, 6), (1, 5),
        (0, 7), (1, 7), (2, 7), (1, 6), (2, 6),
    ]:  # fmt: skip
        scenario.barrier(channel, number, **TRACKED)
    assert scenario.log == [2, 4, 5, 7]


def test_fifty_are_tracked():
    """The oldest is dropped."""
    scenario = Scenario(2, tracked=True)
    for number in range(1, 53):
        scenario.barrier(0, number, **TRACKED)
    scenario.barrier(1, 2, **TRACKED)
    assert scenario.log == []
    scenario.barrier(1, 3, **TRACKED)
    assert scenario.log == [3]


@pytest.mark.parametrize("seed", range(200))
def test_random_alignments(seed):
    """F-6 to F-10 for any order: channels stop, cancel and end at random."""
    source = random.Random(seed)
    count = source.randint(1, 4)
    scenario = Scenario(count)
    positions = [0] * count
    ended = set()
    for _ in range(source.randint(1, 60)):
        free = [c for c in range(count) if c not in scenario.channels.stopped | ended]
        assert free or len(ended) == count, "everybody waits for nobody"
        if not free:
            break
        channel = source.choice(free)
        kind = source.random()
        if kind < 0.05:
            ended.add(channel)
            scenario.end(channel)
            continue
        positions[channel] += source.choice([1, 1, 1, 2])
        if kind < 0.15:
            scenario.cancel(channel, positions[channel])
        else:
            scenario.barrier(channel, positions[channel])
    taken = [number for number in scenario.log if number > 0]
    assert taken == sorted(set(taken)), "each once, in order"
    assert len(set(map(abs, scenario.log))) == len(scenario.log), "taken or aborted, not both"


@pytest.mark.parametrize("tracked", [False, True])
def test_alignment_times_are_reported(tracked):
    """With at least once, no channel waits for another."""
    scenario = Scenario(2, tracked)
    assert scenario.handler.alignment_until_now_ms() is None
    scenario.barrier(0, 1)
    scenario.now += 40
    assert scenario.handler.alignment_until_now_ms() == (None if tracked else 40)
    scenario.barrier(1, 1)
    assert scenario.handler.alignment_until_now_ms() is None

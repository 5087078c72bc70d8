"""F4b, F5, F6: a task's actions for sequences of barriers, announcements, cancellations and ends.

Method: a script lists what its channels deliver, word by word, and the task's actions.

=========  ========================================  =========  ================================
delivered                                            action
=========  ========================================  =========  ================================
``0!3``    channel 0: the barrier of checkpoint 3    ``+3``     take an aligned snapshot
``0~3``    the same, unaligned                       ``~3``     take an unaligned one
``0^3``    the same, forced to align                 ``=3``     all its barriers have arrived
``0@3``    the same, timeoutable                     ``-3``     abort it
``0?3``    its announcement                          ``^0:3``   let a barrier overtake
``0x3``    a cancellation                            ``>0``     resume a channel
``0.``     the end of channel 0
``t``      the time of all alignments is over
=========  ========================================  =========  ================================
"""

import random
import re

import pytest
from penstock.network.events import Alignment, CheckpointBarrier
from penstock.taskexecutor.checkpointing.barrier_handler import SingleCheckpointBarrierHandler
from penstock.taskexecutor.checkpointing.barrier_tracker import CheckpointBarrierTracker
from support.gathering import GatheringChannels

WORD = re.compile(r"(\d+)([!~^@?x.])(\d*)")
FIELDS = {
    "!": {},
    "~": {"alignment": Alignment.UNALIGNED},
    "^": {"alignment": Alignment.FORCED_ALIGNED},
    "@": {"aligned_timeout_ms": 200},
    "?": {"aligned_timeout_ms": 200},
}


class Task(GatheringChannels):
    """The channels and the task that a handler sees."""

    def __init__(self, count, *, tracked=False):
        self.num_channels = count
        self.processed_bytes = 0
        self.now = 1000
        self.log = []
        self.stopped = set()
        self.timers = []
        self.figures = {}
        self.tracked = tracked
        self.handler = (
            CheckpointBarrierTracker(self, self, lambda: self.now)
            if tracked
            else SingleCheckpointBarrierHandler(
                self, self, lambda: self.now, lambda delay, fire: self.timers.append((delay, fire))
            )
        )

    def wall_ms(self):
        return self.now

    def resume_consumption(self, channel):
        self.stopped.remove(channel)
        self.log.append(f">{channel}")

    def prioritize_barrier(self, channel, checkpoint_id):
        self.log.append(f"^{channel}:{checkpoint_id}")
        return True

    def take_snapshot(self, barrier, figures):
        kind = "~" if barrier.alignment is Alignment.UNALIGNED else "+"
        self.log.append(f"{kind}{barrier.checkpoint_id}")
        self.figures[barrier.checkpoint_id] = figures

    def barriers_complete(self, checkpoint_id, figures):
        self.log.append(f"={checkpoint_id}")
        self.figures[checkpoint_id] = figures

    def abort_snapshot(self, checkpoint_id, reason):
        del reason
        self.log.append(f"-{checkpoint_id}")

    def run(self, script):
        """Return the task's actions, without the channels that were resumed."""
        for word in script.split():
            if word == "t":
                timers, self.timers = self.timers, []
                for _, fire in timers:
                    fire()
                continue
            channel, kind, number = WORD.fullmatch(word).groups()
            self.deliver(int(channel), kind, int(number or 0))
        return " ".join(word for word in self.log if word[0] != ">")

    def deliver(self, channel, kind, number):
        assert channel not in self.stopped, "a stopped channel delivers nothing"
        if kind == ".":
            self.handler.on_end_of_partition(channel)
            return
        if kind == "x":
            self.handler.on_cancellation(channel, number)
            return
        fields = {"alignment": Alignment.AT_LEAST_ONCE} if self.tracked else FIELDS[kind]
        barrier = CheckpointBarrier(number, 900, **fields)
        if kind == "?":
            self.handler.on_announcement(channel, barrier)
            return
        if barrier.needs_alignment:
            self.stopped.add(channel)
        if not self.gathers(channel, barrier):
            self.handler.on_barrier(channel, barrier)


ALIGNED = {
    "one channel": (1, "0!1 0!2 0!3 0!4 0!5 0!6 0.", "+1 +2 +3 +4 +5 +6"),
    "barriers of several": (3, "1!1 2!1 0!1 0!2 1!2 2!2 2!3 0!3 1!3 1!4 2!4 0!4", "+1 +2 +3 +4"),
    "trailing blocked": (3, "1!1 2!1 0!1 1!2 0!2 2. 0. 1.", "+1 +2"),
    "skipping": (3, "0!1 1!1 2!1 1!2 0!2 2!3 0!4 1!4 2!4", "+1 -2 -3 +4"),
    "the last ends a later one": (3, "1!2 0!2 2!3 0. 1. 2.", "-2 +3"),
    "cancellations that do not come": (2, "0!1 1!1 0!2 1!3 0!3 1!4 0!5 1!5", "+1 -2 +3 -4 +5"),
    "a channel ended before": (3, "1. 0!2 2!2 0!3 2!3", "+2 +3"),
    "all but one ended": (3, "1. 2. 0!2 0!3", "+2 +3"),
    "an end while others wait": (3, "0!1 1!1 2. 0!2 1!2", "+1 +2"),
    "an end makes it complete": (2, "0!1 1.", "+1"),
    "single abort": (1, "0!1 0!2 0x4 0!5 0x6", "+1 +2 -4 +5 -6"),
    "abort of what is aligned": (3, "0!1 1!1 2x1 0!2 1!2 2!2", "-1 +2"),
    "abort before any barrier": (3, "1x1 0!1 2!1 1!2 0!2 2!2", "-1 +2"),
    "abort of a later one": (3, "0!1 1x2 0!2 2!2 0!3 1!3 2!3", "-1 -2 +3"),
    "cancellation of what was subsumed": (3, "1!3 2x1 0!3 2!3 0x2 1!4 0!4 2!4", "+3 +4"),
    "a cancellation for each channel": (3, "0x1 1x1 2x1 0!2 1x2 2x2", "-1 -2"),
    "late barriers of what was given up": (3, "0!5 1x5 2!5 1!5 2!4 0!6 1!6 2!6", "-5 +6"),
}


@pytest.mark.parametrize("name", ALIGNED)
def test_aligned(name):
    """F-6 to F-10, for barriers of every kind that aligns; no channel stays stopped."""
    count, script, expected = ALIGNED[name]
    for kind in ("!", "^"):
        task = Task(count)
        assert task.run(script.replace("!", kind)) == expected
        assert not task.stopped


UNALIGNED = {
    "one channel": (1, "0~1 0~2 0~3", "~1 =1 ~2 =2 ~3 =3"),
    "the first one triggers": (3, "2~1 0~1 1~1 1~2 0~2 2~2", "~1 =1 ~2 =2"),
    "an older one does not": (2, "0~2 1~1 1~2 0~1 0~3 1~3", "~2 =2 ~3 =3"),
    "a newer one ends it": (2, "0~1 0~2 1~1 1~2", "~1 -1 ~2 =2"),
    "a newer one of another channel": (2, "0~1 1~2 0~2", "~1 -1 ~2 =2"),
    "skipping several": (2, "0~1 1~1 0~2 0~3 1~4 0~4", "~1 =1 ~2 -2 ~3 -3 ~4 =4"),
    "a cancellation in the middle": (2, "0~1 1x1 0~2 1~2", "~1 -1 ~2 =2"),
    "a cancellation first": (2, "0x1 1~1 0~2 1~2", "-1 ~2 =2"),
    "a cancellation of a later one": (2, "0~1 1x2 0~2 0~3 1~3", "~1 -1 -2 ~3 =3"),
    "a cancellation of an older one": (2, "0~2 1x1 1~2", "~2 =2"),
    "a cancellation after all": (2, "0~1 1~1 0x1 0~2 1~2", "~1 =1 ~2 =2"),
    "an end completes": (3, "0~1 1. 2~1", "~1 =1"),
    "barrier and end": (3, "0~1 0. 1~1 2~1", "~1 =1"),
    "ended before": (3, "1. 0~1 2~1", "~1 =1"),
    "with an input that aligns": (2, "0^1 1~1", "~1 =1"),
    "an input that aligns, afterwards": (2, "1~1 0^1 0^2 1~2", "~1 =1 ~2 =2"),
    "given up with a channel stopped": (3, "0^1 1~2 0^2 2~2", "-1 ~2 =2"),
}


@pytest.mark.parametrize("name", UNALIGNED)
def test_unaligned(name):
    """F6, F-14: the first barrier triggers, the last one completes, a newer one ends an older."""
    count, script, expected = UNALIGNED[name]
    task = Task(count)
    assert task.run(script) == expected
    assert not task.stopped


ALTERNATING = {
    "in time": (2, "0?1 0@1 1?1 1@1 t", "+1"),
    "in time, one channel": (1, "0?1 0@1 t 0?2 0@2", "+1 +2"),
    "over after the first barrier": (2, "0?1 0@1 t 1~1", "~1 =1"),
    "over, the other one announced": (2, "0?1 1?1 0@1 t 1@1", "^1:1 ~1 =1"),
    "over before any barrier": (2, "0?1 1?1 t 0@1 1@1", "^0:1 ^1:1 ~1 =1"),
    "over before the announcement": (2, "0?1 t 1?1 0@1 1@1", "^0:1 ^1:1 ~1 =1"),
    "announced after the snapshot": (3, "0?1 0@1 t 1?1 2?1 1@1 2@1", "~1 ^1:1 ^2:1 =1"),
    "a producer's time was over": (2, "0?1 0@1 1~1", "~1 =1"),
    "every producer's time was over": (2, "0~1 1~1 t", "~1 =1"),
    "unaligned first, then announced": (2, "0~1 1?1 1@1", "~1 ^1:1 =1"),
    "unaligned although announced": (2, "0?1 0~1 1~1", "~1 =1"),
    "all ended but one": (3, "1. 2. 0?1 0@1 t", "+1"),
    "an end completes in time": (2, "0?1 0@1 1. t", "+1"),
    "an end completes after the time": (2, "0?1 0@1 t 1.", "~1 =1"),
    "an end before the time is over": (3, "0?1 0@1 1. t 2~1", "~1 =1"),
    "the end of an announced channel": (2, "0?1 1?1 0@1 1. t", "+1"),
    "only what is announced, then the end": (2, "0?1 t 0@1 1.", "^0:1 ~1 =1"),
    "cancelled while it aligns": (2, "0?1 0@1 1x1 t 0?2 0@2 1?2 1@2", "-1 +2"),
    "cancelled after the time": (2, "0?1 0@1 t 1x1 0?2 0@2 1@2", "~1 -1 +2"),
    "cancelled when announced": (2, "0?1 1x1 t 0@1 0?2 0@2 1@2", "-1 +2"),
    "cancelled before it is announced": (2, "1x1 0?1 t 0@1 1?2 1@2 0@2", "-1 +2"),
    "the next one while it aligns": (2, "0?1 0@1 1?2 1@2 0@2 t", "-1 +2"),
    "the next one announced": (2, "0?1 0@1 1?2 t 1@2 0@2", "-1 ^1:2 ~2 =2"),
    "the next one after the time": (2, "0?1 0@1 t 1~2 0~2", "~1 -1 ~2 =2"),
    "aligned again afterwards": (2, "0?1 0@1 t 1~1 0?2 0@2 1?2 1@2", "~1 =1 +2"),
    "a late announcement": (2, "0?1 0@1 1?1 1@1 0?1 t", "+1"),
    "an older announcement": (2, "0?2 0@2 1?1 1@1 1?2 1@2", "+2"),
    "a timer of an older one": (2, "0?1 0@1 1@1 0?2 t 0@2 1~2", "+1 ^0:2 ~2 =2"),
    "forced beside timeoutable": (2, "0^1 1?1 1@1 t", "+1"),
    "forced waits, the other's time is over": (3, "0^1 1?1 1@1 t 2~1", "~1 =1"),
    "given up, then a late unaligned one": (2, "0?1 0@1 1x1 1~1 0~2 1~2", "-1 ~2 =2"),
}


@pytest.mark.parametrize("name", ALTERNATING)
def test_alternating(name):
    """F6: aligned until its time is over, and aligned again with the next one."""
    count, script, expected = ALTERNATING[name]
    task = Task(count)
    assert task.run(script) == expected
    assert not task.stopped


def test_the_time_is_counted_from_the_trigger():
    task = Task(2)
    task.run("0?1")
    assert [delay for delay, _ in task.timers] == [100], "100 of 200 ms have passed"
    task.now = 5000
    task.run("0@1 1@1 0?2")
    assert task.timers[1][0] == 0, "all of it has passed"


def test_figures_of_an_unaligned_checkpoint():
    """From the first barrier to the last, with the bytes processed meanwhile."""
    task = Task(2)
    task.processed_bytes = 50
    task.run("0~1")
    assert (task.figures[1].alignment_ms, task.figures[1].start_delay_ms) == (0, 100)
    task.now += 30
    task.processed_bytes += 700
    task.run("1~1")
    figures = task.figures[1]
    assert (figures.alignment_ms, figures.start_delay_ms) == (30, 100)
    assert figures.processed_bytes == 700


@pytest.mark.parametrize("tracked", [False, True])
def test_figures_of_an_aligned_checkpoint(tracked):
    task = Task(3, tracked=tracked)
    task.run("2!1")
    task.now += 7
    task.processed_bytes += 40
    task.run("0!1 1!1")
    figures = task.figures[1]
    assert (figures.alignment_ms, figures.start_delay_ms) == (7, 100)
    assert figures.processed_bytes == 40


@pytest.mark.parametrize("kind", ["~", "@", "!", "^"])
def test_triggered_by_the_driver(kind):
    """F14: a task whose producers have ended gets no barrier, and has no in-flight data."""
    task = Task(2)
    barrier = CheckpointBarrier(4, 900, **FIELDS[kind])
    task.handler.on_trigger(barrier)
    task.handler.on_trigger(barrier)
    assert task.log == (["~4", "=4"] if kind == "~" else ["+4"])


TRACKED = {
    "one channel": (1, "0!1 0!2 0!3 0!4 0!5 0!6 0.", "+1 +2 +3 +4 +5 +6"),
    "one channel, gaps": (1, "0!1 0!3 0!4 0!6 0!7 0!10", "+1 +3 +4 +6 +7 +10"),
    "several channels": (
        3,
        "0!1 2!1 1!1 0!2 1!2 2!2 2!3 1!3 0!3 0!4 1!4 2!4",
        "+1 +2 +3 +4",
    ),
    "one is left behind": (3, "0!1 1!1 2!1 0!2 1!2 0!3 1!3 2!3 0!4 1!4 2!4 2!2", "+1 +3 +4"),
    "they interleave": (
        3,
        # One channel skips 6; all others complete, some out of order.
        "0!2 1!2 0!3 2!2 1!3 0!4 2!3 1!4 2!4 1!5 0!5 0!6 2!5 0!7 1!6 1!7 2!7 "
        "0!8 1!8 2!8 2!9 1!9 0!9 0!10 1!10 2!10",
        "+2 +3 +4 +5 +7 +8 +9 +10",
    ),
    "a quick channel": (2, "0!1 0!2 0!3 0!4 1!1 1!2 1!4 1!3", "+1 +2 +4"),
    "single abort": (1, "0!1 0!2 0x4 0!5 0x6", "+1 +2 -4 +5 -6"),
    "abort of what is pending": (3, "0!1 1!1 2x1 0!2 1!2 2!2", "-1 +2"),
    "abort before any barrier": (3, "1x1 0!1 2!1 0!2 1!2 2!2", "-1 +2"),
    "interleaved cancellations": (
        3,
        "0!1 0!2 1!1 1x2 2!1 0!3 2!2 1!3 2x3 0!4 1!4 2!4",
        # 1 is older than the cancelled 2, so it cannot complete.
        "-1 -2 -3 +4",
    ),
    "a cancellation of each channel": (3, "0x2 1x2 2x2 0!3 1!3 2!3", "-2 +3"),
    "a cancellation of an old one": (2, "0!2 1!2 0x1 0!3 1!3", "+2 +3"),
    "an end completes": (3, "0!1 1!1 2. 0!2 1!2", "+1 +2"),
    "an end completes the newest": (2, "0!1 0!2 0!3 1.", "+3"),
    "ended before": (3, "1. 0!1 2!1", "+1"),
    "barrier and end count once": (3, "0!1 0. 1!1", ""),
    "all but one ended": (3, "0. 1. 2!1 2!2", "+1 +2"),
    "an end after a cancellation": (2, "0x1 1. 0!2", "-1 +2"),
}


@pytest.mark.parametrize("name", TRACKED)
def test_tracked(name):
    """F5: no channel waits; a complete checkpoint ends all earlier ones."""
    count, script, expected = TRACKED[name]
    task = Task(count, tracked=True)
    assert task.run(script) == expected
    assert not task.stopped


@pytest.mark.parametrize("seed", range(300))
def test_any_order(seed):
    """F-6 to F-10, F-14 for barriers of every kind, timeouts, cancellations and ends."""
    source = random.Random(seed)
    count = source.randint(1, 4)
    task = Task(count)
    positions = [0] * count
    ended = set()
    number = 0
    for _ in range(source.randint(5, 80)):
        if source.random() < 0.1:
            task.run("t")
        free = [c for c in range(count) if c not in task.stopped | ended]
        if not free:
            assert len(ended) == count, "everybody waits for nobody"
            break
        channel = source.choice(free)
        kind = source.choice("!~^@?@~!x.") if source.random() < 0.9 else "?"
        if kind == ".":
            if source.random() < 0.8:
                continue
            ended.add(channel)
        elif kind == "?":
            task.run(f"{channel}?{positions[channel] + 1}")
            continue
        else:
            positions[channel] = min(positions[channel] + 1, number + 1)
            number = max(number, positions[channel])
        task.run(f"{channel}{kind}{positions[channel] if kind != '.' else ''}")
    begun = [int(word[1:]) for word in task.log if word[0] in "+~"]
    assert begun == sorted(set(begun)), "each once, in order"
    complete = [int(word[1:]) for word in task.log if word[0] in "+="]
    aborted = [int(word[1:]) for word in task.log if word[0] == "-"]
    assert not set(complete) & set(aborted), "complete or given up"
    assert len(set(aborted)) == len(aborted)

"""F4a: alignment that stores the data behind barriers, in memory and on disk.

Method: a script lists what the channels deliver, word by word: ``a0`` is data "a" of channel 0,
``0!3`` its barrier of checkpoint 3, ``0x3`` a cancellation of 3, ``0.`` its end.  The output is
compared word by word with the expected one, with snapshots as ``+3`` and aborts as ``-3``.
"""

import random
from pathlib import Path

import pytest
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.errors import CorruptStreamError
from penstock.network.data_type import DataType
from penstock.network.events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfPartition,
    data_type_of,
    parse_event,
    serialize_event,
)
from penstock.taskexecutor.checkpointing.barrier_buffer import BarrierBuffer
from penstock.taskexecutor.checkpointing.buffer_blocker import (
    BufferOrEvent,
    BufferSpiller,
    CachedBufferBlocker,
)


def element(word):
    """Return channel, data type and bytes of a word of a script."""
    event = None
    if "!" in word:
        channel, number = word.split("!")
        event = CheckpointBarrier(int(number), 900)
    elif "x" in word:
        channel, number = word.split("x")
        event = CancelCheckpointMarker(int(number))
    elif word.endswith("."):
        channel = word[:-1]
        event = EndOfPartition()
    if event is not None:
        return int(channel), int(data_type_of(event)), serialize_event(event)
    return int(word[-1]), int(DataType.DATA_BUFFER), word[:-1].encode()


class ScriptedGate:
    """Delivers the words of a script."""

    def __init__(self, count, script):
        self.num_channels = count
        self.waiting = [element(word) for word in script.split()]
        self.ended = 0
        self.stopped = set()

    def next_buffer(self, timeout_ms):
        assert timeout_ms == 0
        if not self.waiting:
            return None
        channel, data_type, data = self.waiting.pop(0)
        assert channel not in self.stopped, "a channel that was not told to go on delivers nothing"
        if DataType(data_type).is_blocking_upstream:
            self.stopped.add(channel)
        self.ended += data_type == DataType.END_OF_PARTITION
        return channel, data_type, data

    def resume_consumption(self, channel):
        self.stopped.remove(channel)

    def is_finished(self):
        return self.ended == self.num_channels


class Alignment:
    """A buffer over a script, and its output."""

    def __init__(self, blocker, count, script, limit=-1):
        self.gate = ScriptedGate(count, script)
        self.now = 1000
        self.buffer = BarrierBuffer(self.gate, blocker, lambda: self.now, limit)
        self.buffer.target = self
        self.out = []
        self.reasons = {}
        self.figures = {}

    def take_snapshot(self, barrier, figures):
        self.out.append(f"+{barrier.checkpoint_id}")
        self.figures[barrier.checkpoint_id] = figures

    def abort_snapshot(self, checkpoint_id, reason):
        self.out.append(f"-{checkpoint_id}")
        self.reasons[checkpoint_id] = reason

    def run(self):
        """Return all output until the script has ended."""
        while (taken := self.buffer.get_next_non_blocked(0)) is not None:
            if taken.data_type.is_buffer:
                self.out.append(f"{taken.data.decode()}{taken.channel}")
            else:
                assert isinstance(parse_event(taken.data), EndOfPartition)
                self.out.append(f"{taken.channel}.")
        return " ".join(self.out)


@pytest.fixture(params=["memory", "disk"])
def blocker(request, tmp_path):
    """Yield either storage; files on disk have no name, so that a killed process leaves none."""
    if request.param == "memory":
        yield CachedBufferBlocker()
        return
    spiller = BufferSpiller(str(tmp_path))
    yield spiller
    spiller.close()
    assert not list(Path(tmp_path).iterdir())


SCENARIOS = {
    "one channel, no barriers": (1, "a0 b0 c0 0.", "a0 b0 c0 0."),
    "several channels, no barriers": (
        4,
        "a2 b2 c0 d1 0. e3 1. 3. f2 2.",
        "a2 b2 c0 d1 0. e3 1. 3. f2 2.",
    ),
    "one channel, barriers": (
        1,
        "a0 b0 0!1 c0 d0 0!2 0!3 e0 0!4 0!5 f0 0.",
        "a0 b0 +1 c0 d0 +2 +3 e0 +4 +5 f0 0.",
    ),
    "several channels, barriers": (
        3,
        # 1 with blocked data, 2 with data of a waiting channel only, 3 with none, 4 and 5 trailing.
        "a0 b2 c0 1!1 2!1 d2 e1 f0 0!1 g0 h0 i1 j2 1!2 k1 l1 2!2 m2 n0 0!2 o1 p2 q2 "
        "1!3 0!3 2!3 r2 s1 0!4 t0 1!4 u1 2!4 0. 1. 2.",
        "a0 b2 c0 f0 +1 d2 e1 g0 h0 i1 j2 n0 +2 k1 l1 m2 o1 p2 q2 +3 r2 s1 +4 t0 u1 0. 1. 2.",
    ),
    "trailing blocked data": (
        3,
        "a0 b1 c2 1!1 2!1 0!1 d0 0!2 1!2 e2 f1 2!2 2. g0 h1 0. 1.",
        "a0 b1 c2 +1 d0 e2 +2 f1 2. g0 h1 0. 1.",
    ),
    "barriers of later checkpoints wait": (
        3,
        "a0 0!1 b0 0!2 c0 1!1 d1 1!2 e2 f1 2!1 g2 2!2 h0 0. 1. 2.",
        "a0 e2 +1 b0 d1 g2 +2 c0 f1 h0 0. 1. 2.",
    ),
    "checkpoints are skipped": (
        3,
        "a0 0!1 1!1 b2 2!1 c0 1!2 d1 0!2 e0 f1 2!3 g2 0!3 h0 1!3 i2 j1 0. 1. 2.",
        # The barrier of 3 aborts 2; the data that waited for 2 comes next.
        "a0 b2 +1 c0 -2 d1 e0 f1 +3 g2 h0 i2 j1 0. 1. 2.",
    ),
    "a checkpoint is jumped over": (
        3,
        "a0 0!1 1!1 2!1 b0 1!2 c1 0!2 d0 2!4 e2 0!4 f0 g1 1!4 0. 1. 2.",
        "a0 +1 b0 -2 c1 d0 g1 +4 e2 f0 0. 1. 2.",
    ),
    "skipped by inputs that wait": (
        3,
        # Channel 0 never sends 2: its barrier of 3 waits behind that of 1, channel 1's of 2 too.
        "1!1 a0 2!1 b2 1!2 c1 2!2 d2 0!1 0!3 e0 1!3 f1 2!3 g2 0. 1. 2.",
        "a0 +1 b2 -2 c1 d2 +3 e0 f1 g2 0. 1. 2.",
    ),
    "channels that have ended": (
        4,
        "a2 1. b3 0!2 c0 2!2 3!2 0!3 d0 e2 2!3 3. 0!4 2!4 0. 2.",
        "a2 1. b3 +2 c0 e2 -3 3. d0 +4 0. 2.",
    ),
    "the end while a checkpoint is under way": (
        3,
        "0!1 a0 1!1 b1 2. c0 0. d1 1.",
        "-1 2. a0 b1 c0 0. d1 1.",
    ),
    "one channel, cancellation": (
        1,
        "a0 0!1 b0 0!2 0x4 c0 0!5 d0 0x6 0.",
        "a0 +1 b0 +2 -4 c0 +5 d0 -6 0.",
    ),
    "several channels, cancellation": (
        3,
        # Of an aligning checkpoint, of one that has not begun, and late barriers of both.
        "a0 0!1 1!1 2!1 b0 0!2 c0 1x2 2!2 1!2 d1 2x3 0!3 1!3 2!3 e2 0!4 1!4 f0 2!4 0. 1. 2.",
        "a0 +1 b0 -2 c0 d1 -3 e2 +4 f0 0. 1. 2.",
    ),
    "cancellation of what waits": (
        3,
        "1!1 a1 2!1 b2 1x2 c1 2!2 d2 0!1 e0 0!2 f0 1!3 2!3 0!3 0. 1. 2.",
        "+1 a1 b2 -2 c1 d2 e0 f0 +3 0. 1. 2.",
    ),
    "cancellation while others wait": (
        3,
        "1!1 0!1 a0 1!2 0!2 b0 c1 2x1 d2 2!2 e2 0. 1. 2.",
        # Barriers that waited behind 1 begin 2 at once; its data waits again, now for channel 2.
        "-1 a0 d2 +2 b0 c1 e2 0. 1. 2.",
    ),
    "cancellation of a subsumed checkpoint": (
        3,
        "1!3 a1 2x1 0!3 b0 0x2 2x3 1!3 0!3 2!4 1!4 0!4 0. 1. 2.",
        "-3 a1 b0 +4 0. 1. 2.",
    ),
    "cancellation of a later checkpoint": (
        2,
        # Each checkpoint is reported once: 3 and 5 are aborted.
        "0!3 a0 1x5 0!5 1!5 0!6 1!6 0. 1.",
        "-3 -5 a0 +6 0. 1.",
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios(blocker, name):
    count, script, expected = SCENARIOS[name]
    alignment = Alignment(blocker, count, script)
    assert alignment.run() == expected
    assert alignment.buffer.is_finished
    assert alignment.buffer.is_empty
    assert not alignment.gate.stopped


def test_blocked_channels(blocker):
    """F-8: channels block during the alignment, and none once the snapshot is taken."""
    alignment = Alignment(blocker, 3, "0!1 2!1 a0 b1")
    alignment.run()
    assert [alignment.buffer.is_blocked(channel) for channel in range(3)] == [True, False, True]
    assert alignment.buffer.current_checkpoint_id == 1
    alignment.gate.waiting.append(element("1!1"))
    assert alignment.run() == "b1 +1 a0"
    assert not any(alignment.buffer.is_blocked(channel) for channel in range(3))


def test_why_a_checkpoint_was_given_up(blocker):
    alignment = Alignment(blocker, 2, "0!1 0!2 1!2 0!3 1x3 0!4 1.")
    assert alignment.run() == "-1 +2 -3 -4 1."
    assert alignment.reasons == {
        1: Reason.DECLINED_SUBSUMED,
        3: Reason.DECLINED_ON_CANCELLATION_BARRIER,
        4: Reason.DECLINED_INPUT_END_OF_STREAM,
    }


def test_figures(blocker):
    alignment = Alignment(blocker, 2, "a0 0!1 b1 c1 d0")
    alignment.run()
    alignment.now += 40
    alignment.gate.waiting.append(element("1!1"))
    alignment.run()
    figures = alignment.figures[1]
    assert (figures.alignment_ms, figures.start_delay_ms, figures.processed_bytes) == (40, 100, 2)


def test_early_cleanup(blocker, tmp_path):
    """A task that fails in the middle of alignments leaves no file."""
    alignment = Alignment(blocker, 3, "0!1 a0 0!2 b0 1!1 c1 1!2 d1 2!1 e0 f1")
    for _ in range(2):
        alignment.buffer.step(0)
    alignment.run()
    assert not alignment.buffer.is_empty
    alignment.buffer.cleanup()
    assert alignment.buffer.is_empty
    assert not list(tmp_path.iterdir())


def test_the_limit(blocker):
    """More data than the limit: the checkpoint is aborted, waiting data continues in order."""
    wide = "w" * 300
    script = f"a1 1!7 {wide}1 {wide}1 b0 0!7 {wide}1 {wide}1 {wide}1 c2 d1 2!7 1!8 0!8 2!8 0. 1. 2."
    alignment = Alignment(blocker, 3, script, limit=1000)
    expected = f"a1 b0 -7 {wide}1 {wide}1 {wide}1 {wide}1 {wide}1 c2 d1 +8 0. 1. 2."
    alignment.run()
    # The fourth wide record would exceed the limit; the fifth passes directly.
    assert " ".join(alignment.out) == expected
    assert alignment.reasons == {7: Reason.ALIGNMENT_LIMIT_EXCEEDED}


def test_the_limit_and_queued_alignments(blocker):
    """Data that waited for one checkpoint and waits again for the next one counts again."""
    w = "w" * 100
    script = f"0!1 {w}0 0!2 {w}0 {w}0 1!1 2!1 {w}0 {w}0 {w}0 a1 1!2 2!2 0!3 1!3 2!3 0. 1. 2."
    alignment = Alignment(blocker, 3, script, limit=500)
    assert alignment.run() == f"+1 {w}0 -2 {w}0 {w}0 {w}0 {w}0 {w}0 a1 +3 0. 1. 2."
    assert alignment.reasons == {2: Reason.ALIGNMENT_LIMIT_EXCEEDED}


def test_a_trigger_of_the_driver(blocker):
    """F14: all producers have ended."""
    alignment = Alignment(blocker, 2, "0!1 a0")
    alignment.run()
    alignment.buffer.on_trigger(CheckpointBarrier(3, 900))
    alignment.buffer.on_trigger(CheckpointBarrier(3, 900))
    assert alignment.run() == "-1 +3 a0"


def test_a_torn_spill_file(tmp_path):
    spiller = BufferSpiller(str(tmp_path))
    spiller.add(BufferOrEvent(0, DataType.DATA_BUFFER, b"data"))
    sequence = spiller.roll_over()
    sequence._file.truncate(11)
    with pytest.raises(CorruptStreamError, match="expected 4 bytes"):
        sequence.get_next()
    sequence.cleanup()


@pytest.mark.parametrize("seed", range(150))
def test_any_order(blocker, seed):
    """F-6, F-7: no data behind barrier n before snapshot n; each channel's data in order."""
    source = random.Random(seed)
    count = source.randint(1, 4)
    positions, numbers, words = [0] * count, [0] * count, []
    before = {}
    for _ in range(source.randint(5, 120)):
        channel = source.randrange(count)
        kind = source.random()
        if kind < 0.6:
            positions[channel] += 1
            words.append(f"{positions[channel]}_{channel}")
        else:
            numbers[channel] += source.choice([1, 1, 1, 2])
            words.append(f"{channel}{'!' if kind < 0.95 else 'x'}{numbers[channel]}")
            before[(channel, numbers[channel])] = positions[channel]
    words += [f"{channel}." for channel in range(count)]
    alignment = Alignment(blocker, count, " ".join(words))
    out = alignment.run().split()
    for channel in range(count):
        data = [word for word in out if word.endswith(f"_{channel}")]
        assert data == [f"{n + 1}_{channel}" for n in range(positions[channel])]
    taken = [int(word[1:]) for word in out if word[0] == "+"]
    told = [int(word[1:]) for word in out if word[0] in "+-"]
    assert taken == sorted(set(taken))
    assert len(told) == len(set(told)), "taken or given up, and told once"
    for number in taken:
        place = out.index(f"+{number}")
        for channel in range(count):
            seen = sum(word.endswith(f"_{channel}") for word in out[:place])
            if (channel, number) in before:
                assert seen == before[(channel, number)]
    assert alignment.buffer.is_finished

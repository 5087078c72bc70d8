"""Iterations: feedback, the markers of supersteps, and how the head ends."""

import resource
from types import SimpleNamespace

import pytest
from penstock.errors import TemporaryFileError
from penstock.graph import operators
from penstock.network.events import TaskEvent, parse_event, serialize_event
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.compiled import END_OF_DATA, MORE_AVAILABLE, NOTHING_AVAILABLE
from penstock.taskexecutor.iterations import head as heads
from penstock.taskexecutor.iterations.feedback_channel import FeedbackChannel, SuperstepEnd
from penstock.taskexecutor.iterations.supersteps import SuperstepAlignment, superstep_event
from penstock.testing import OneInputStreamOperatorTestHarness, redistribute


def head_harness(wait_time_ms=0, size=1, **options):
    descriptor = operators.IterationHead(
        iteration="i", group="g", group_size=size, wait_time_ms=wait_time_ms
    )
    return OneInputStreamOperatorTestHarness(descriptor, **options)


def tail_harness(**options):
    descriptor = operators.IterationTail(iteration="i", group="g")
    return OneInputStreamOperatorTestHarness(descriptor, **options)


def drain(channel):
    found = []
    while (item := channel.take()) is not None:
        found.append(item)
    return found


def test_records_beyond_memory_wait_in_a_file_and_keep_their_order(tmp_path):
    channel = FeedbackChannel(limit=3)
    channel.spill_with(TypeSerializer(), lambda: str(tmp_path))
    for number in range(5):
        channel.put(("e", number), number * 10)
    channel.end_superstep(SuperstepEnd(quiet_steps=0))
    channel.put("after", -1)
    assert channel.num_spilled == 4
    assert channel.take() == (("e", 0), 0)
    channel.put("last", 7)
    assert drain(channel) == [
        (("e", 1), 10),
        (("e", 2), 20),
        (("e", 3), 30),
        (("e", 4), 40),
        (0,),
        ("after", -1),
        ("last", 7),
    ]
    channel.put("memory", 0)
    assert channel.num_spilled == 0
    channel.close()
    channel.put("dropped", 0)
    assert drain(channel) == []


def test_a_marker_is_complete_when_all_open_channels_brought_it():
    alignment = SuperstepAlignment()
    alignment.add(0, superstep_event("a", 2))
    assert alignment.completed([0, 1]) == []
    alignment.add(1, superstep_event("b", 1))
    assert alignment.completed([0, 1]) == []
    alignment.add(1, superstep_event("a", 1))
    assert alignment.completed([0, 1]) == [("a", 1)]
    # Channel 0 ends: only channel 1 still counts.
    assert alignment.completed([1]) == [("b", 1)]
    assert alignment.completed([1]) == []


def test_a_channel_may_be_a_superstep_ahead():
    alignment = SuperstepAlignment()
    for quiet_steps in (1, 5):
        alignment.add(0, superstep_event("a", quiet_steps))
    alignment.add(1, superstep_event("a", 3))
    assert alignment.completed([0, 1]) == [("a", 1)]
    alignment.add(1, superstep_event("a", 4))
    assert alignment.completed([0, 1]) == [("a", 4)]


def test_the_last_marker_of_a_channel_that_ended_counts():
    """Elements preceded it, so the superstep was not quiet."""
    alignment = SuperstepAlignment()
    alignment.add(0, superstep_event("a", 0))
    alignment.add(1, superstep_event("a", 3))
    assert alignment.completed([1]) == [("a", 0)]


def test_a_marker_survives_the_wire():
    event = superstep_event("iterations-3", 7)
    parsed = parse_event(serialize_event(event))
    assert parsed == event
    assert parsed == TaskEvent("penstock.iteration.superstep", b"\0\0\0\7iterations-3")


def test_the_head_ends_after_a_superstep_without_records():
    with head_harness() as head, tail_harness() as tail:
        assert head.operator.emit_next(10) == NOTHING_AVAILABLE
        tail.process_element("a", 5)
        # The first marker does not mean quiet: it was sent before any element could be.
        tail.operator.end_superstep("g", 0)
        tail.operator.end_superstep("another", 1)
        assert head.operator.emit_next(10) == NOTHING_AVAILABLE
        assert head.records == [("a", 5)]
        tail.process_element("b")
        tail.operator.end_superstep("g", 0)
        assert head.operator.emit_next(1) == MORE_AVAILABLE
        assert head.operator.emit_next(10) == NOTHING_AVAILABLE
        tail.operator.end_superstep("g", 1)
        assert head.operator.emit_next(10) == END_OF_DATA
        assert head.values == ["a", "b"]


def test_heads_of_a_group_tell_each_other_of_quiet_supersteps():
    """Each head sends one more than it received, or 0 after records.

    A head ends when it receives the number of iterations in its group.
    """
    sent = []
    with (
        head_harness(size=2) as head,
        tail_harness() as tail,
    ):
        head.operator.context.broadcast_event = sent.append
        assert head.operator.emit_next(10) == NOTHING_AVAILABLE
        tail.process_element("a")
        for quiet_steps in (0, 1, 0, 1):
            tail.operator.end_superstep("g", quiet_steps)
            assert head.operator.emit_next(10) == NOTHING_AVAILABLE
        assert sent == [superstep_event("g", steps) for steps in (0, 0, 2, 1, 2)]
        tail.operator.end_superstep("g", 2)
        assert head.operator.emit_next(10) == END_OF_DATA


def test_the_head_ends_when_nothing_came_for_the_wait_time():
    with head_harness(wait_time_ms=1) as head, tail_harness() as tail:
        tail.process_element("a", 5)
        while head.operator.emit_next(10) != END_OF_DATA:
            head.operator.wait_available(1000)
        assert head.records == [("a", 5)]


def test_a_cancelled_head_ends():
    with head_harness() as head:
        assert head.operator.emit_next(10) == NOTHING_AVAILABLE
        head.operator.cancel()
        head.operator.wait_available(600_000)
        assert head.operator.emit_next(10) == END_OF_DATA


def started(snapshots, subtask=0, parallelism=1):
    """Return head and tail of a subtask; the head may be opened first, as here."""
    made = []
    for harness, snapshot in zip((head_harness, tail_harness), snapshots, strict=True):
        test = harness(subtask=subtask, parallelism=parallelism)
        test.initialize_state(snapshot)
        test.open()
        made.append(test)
    return made


def emitted(head, limit=1000):
    head.output.clear()
    head.operator.emit_next(limit)
    return head.values


def test_records_on_their_way_back_belong_to_a_checkpoint():
    """Elements that the head has not emitted when its barrier leaves, and later ones."""
    head, tail = started((None, None))
    tail.process_element("emitted before the barrier")
    tail.process_element(["on its way"], 7)
    assert emitted(head, 1) == ["emitted before the barrier"]
    of_head = head.snapshot(1)
    (on_its_way,) = emitted(head)
    on_its_way.append("changed in place")
    tail.process_element("comes before the barrier", 8)
    of_tail = tail.snapshot(1)
    tail.process_element("comes behind it")
    assert emitted(head) == ["comes before the barrier", "comes behind it"]
    for test in (head, tail):
        test.close()
    for _ in range(2):
        head, tail = started((of_head, of_tail))
        assert emitted(head) == [["on its way"], "comes before the barrier"]
        assert [record.timestamp for record in head.records] == [7, 8]
        head.snapshot(2)
        assert tail.snapshot(2).lists["feedback"] == []
        for test in (head, tail):
            test.close()


def test_a_barrier_may_come_round_before_its_head_has_taken_its_snapshot():
    """The head's thread sends the barrier, and another one brings it to the tail at once."""
    head, tail = started((None, None))
    tail.process_element("on its way")
    head.operator.prepare_snapshot_pre_barrier(1)
    of_tail = tail.snapshot(1)
    for test in (head, tail):
        test.close()
    head, tail = started((None, of_tail))
    assert emitted(head) == ["on its way"]
    for test in (head, tail):
        test.close()


def test_checkpoints_of_an_iteration_may_overlap_and_be_aborted():
    head, tail = started((None, None))
    head.snapshot(1)
    tail.process_element("a")
    head.snapshot(2)
    tail.process_element("b")
    head.notify_checkpoint_aborted(1)
    assert len(tail.snapshot(1).lists["feedback"]) == 0  # the checkpoint was aborted
    head.snapshot(3)
    assert len(tail.snapshot(2).lists["feedback"]) == 2
    tail.process_element("c")
    assert len(tail.snapshot(3).lists["feedback"]) == 3
    head.snapshot(4)
    head.close()  # the iteration has ended, fed back elements are dropped
    assert tail.snapshot(4).lists["feedback"] == []
    tail.close()


def test_records_in_the_file_belong_to_a_checkpoint(tmp_path):
    channel = FeedbackChannel(limit=2)
    serializer = TypeSerializer()
    channel.spill_with(serializer, lambda: str(tmp_path))
    for number in range(4):
        channel.put(number, number)
        channel.end_superstep(SuperstepEnd(quiet_steps=0))
    channel.begin_snapshot(1)
    assert channel.take() == (0, 0)
    channel.put(4, 4)
    found = channel.end_snapshot(1)
    assert [(timestamp, serializer.deserialize(data)) for timestamp, data in found] == [
        (number, number) for number in range(5)
    ]
    assert [item for item in drain(channel) if len(item) == 2] == [(n, n) for n in range(1, 5)]
    channel.close()


def test_fed_back_records_are_spread_over_another_parallelism():
    snapshots = []
    for subtask in range(2):
        head, tail = started((None, None), subtask, 2)
        tail.process_element(f"a{subtask}")
        tail.process_element(f"b{subtask}")
        snapshots.append((head.snapshot(1), tail.snapshot(1)))
        for test in (head, tail):
            test.close()
    restored = zip(
        *(redistribute(of_one, 3) for of_one in zip(*snapshots, strict=True)), strict=True
    )
    found = []
    for subtask, pair in enumerate(restored):
        head, tail = started(pair, subtask, 3)
        found.extend(emitted(head))
        for test in (head, tail):
            test.close()
    assert sorted(found) == ["a0", "a1", "b0", "b1"]


def test_the_head_gives_a_tail_time_to_come():
    """The waiting time starts with the tail, which may restore records from a snapshot."""
    head = head_harness(wait_time_ms=1)
    with head:
        for _ in range(3):
            assert head.operator.emit_next(10) == NOTHING_AVAILABLE
            head.operator.wait_available(5)
        with tail_harness():
            while head.operator.emit_next(10) != END_OF_DATA:
                head.operator.wait_available(1000)


def test_a_head_that_stood_still_while_its_tail_came_does_not_end(monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr(heads, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    with head_harness(wait_time_ms=1000) as head:
        assert head.operator.emit_next(10) == NOTHING_AVAILABLE
        now_s[0] = 10.0
        assert head.operator.emit_next(10) == NOTHING_AVAILABLE
        with tail_harness() as tail:
            now_s[0] = 20.0
            assert head.operator.emit_next(10) == NOTHING_AVAILABLE
            tail.process_element("restored")
            assert head.operator.emit_next(10) == NOTHING_AVAILABLE
            assert head.values == ["restored"]
            now_s[0] = 21.0
            assert head.operator.emit_next(10) == END_OF_DATA


def test_a_full_disk_under_an_iteration_is_named_and_loses_nothing(tmp_path):
    """All records in the file can still be read whole."""
    channel = FeedbackChannel(limit=2)
    channel.spill_with(TypeSerializer(), lambda: str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    taken = 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * 1024, hard))
    try:
        with pytest.raises(TemporaryFileError) as caught:
            while True:
                channel.put("x" * 100_000, taken)
                taken += 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    message = str(caught.value)
    assert f"a file in {tmp_path}, which has 1000" in message
    assert "File too large; make room there or name other folders in io.tmp.dirs" in message
    assert [timestamp for _, timestamp in drain(channel)] == list(range(taken))
    channel.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_named():
    channel = FeedbackChannel(limit=0)
    channel.spill_with(TypeSerializer(), lambda: "/nowhere")
    with pytest.raises(TemporaryFileError, match="a file in /nowhere, which has 0 bytes: No such"):
        channel.put("a", 0)
    channel.close()

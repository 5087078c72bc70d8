"""Iterations: the way back, the markers of supersteps, and how the head ends."""

from penstock.graph.operators import OperatorDescriptor
from penstock.network.codec import codec_for
from penstock.network.events import TaskEvent, parse_event, serialize_event
from penstock.taskexecutor.iterations.feedback_channel import FeedbackChannel, SuperstepEnd
from penstock.taskexecutor.iterations.supersteps import SuperstepAlignment, superstep_event
from penstock.taskexecutor.loop import END_OF_DATA, MORE_AVAILABLE, NOTHING_AVAILABLE
from penstock.testing import OneInputStreamOperatorTestHarness


def harness(kind, wait_time_ms=0, size=1):
    arguments = {"iteration": "i", "group": "g", "group_size": size, "wait_time_ms": wait_time_ms}
    return OneInputStreamOperatorTestHarness(OperatorDescriptor(kind, None, arguments))


def drain(channel):
    found = []
    while (item := channel.take()) is not None:
        found.append(item)
    return found


def test_what_exceeds_memory_waits_in_a_file_and_keeps_its_order(tmp_path):
    channel = FeedbackChannel(limit=3)
    channel.spill_with(codec_for(None), lambda: str(tmp_path))
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
    # Channel 0 ends: only channel 1 is waited for.
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
    """Elements were before it, so the superstep was not quiet."""
    alignment = SuperstepAlignment()
    alignment.add(0, superstep_event("a", 0))
    alignment.add(1, superstep_event("a", 3))
    assert alignment.completed([1]) == [("a", 0)]


def test_a_marker_survives_the_wire():
    event = superstep_event("iterations-3", 7)
    parsed = parse_event(serialize_event(event))
    assert parsed == event
    assert parsed == TaskEvent("penstock.iteration.superstep", b"\0\0\0\7iterations-3")


def test_the_head_ends_after_a_superstep_without_elements():
    with harness("iteration_head") as head, harness("iteration_tail") as tail:
        assert head.operator.emit_next(10) == NOTHING_AVAILABLE
        tail.process_element("a", 5)
        # The first marker says nothing about quiet: it was sent before any element could be.
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
    """Each head sends one more than it heard, or 0 after elements, and ends when it heard of as
    many as the group has iterations."""
    sent = []
    with (
        harness("iteration_head", size=2) as head,
        harness("iteration_tail", size=2) as tail,
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
    with harness("iteration_head", wait_time_ms=1) as head, harness("iteration_tail") as tail:
        tail.process_element("a", 5)
        while head.operator.emit_next(10) != END_OF_DATA:
            head.operator.wait_available(1000)
        assert head.records == [("a", 5)]


def test_a_cancelled_head_ends():
    with harness("iteration_head") as head:
        assert head.operator.emit_next(10) == NOTHING_AVAILABLE
        head.operator.cancel()
        head.operator.wait_available(600_000)
        assert head.operator.emit_next(10) == END_OF_DATA

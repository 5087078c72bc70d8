"""The combination of watermarks and idleness of several channels (internals M31)."""

from penstock.taskexecutor.compiled import MAX_TIMESTAMP
from penstock.taskexecutor.time.watermark_valve import CombinedWatermarkStatus, StatusWatermarkValve


def make_valve(channels):
    emitted = []
    valve = StatusWatermarkValve(
        channels,
        emitted.append,
        lambda idle: emitted.append("IDLE" if idle else "ACTIVE"),
    )
    return valve, emitted


def test_smallest_watermark_counts_until_all_are_idle():
    valve, emitted = make_valve(3)
    for channel, timestamp in enumerate((10, 5, 3)):
        valve.watermark(channel, timestamp)
    assert emitted == [3]
    valve.status(0, True)
    valve.status(1, True)
    assert emitted == [3]
    valve.status(2, True)
    assert emitted == [3, 10, "IDLE"]


def test_lagging_channel_is_ignored_until_it_has_caught_up():
    valve, emitted = make_valve(3)
    for channel, timestamp in enumerate((10, 7, 3)):
        valve.watermark(channel, timestamp)
    valve.status(2, True)
    assert emitted == [3, 7]
    valve.status(2, False)
    valve.watermark(2, 5)
    valve.watermark(2, 9)
    assert emitted == [3, 7]
    valve.watermark(1, 12)
    assert emitted == [3, 7, 9]


def test_watermark_never_decreases():
    valve, emitted = make_valve(1)
    for timestamp in (5, 4, 5, 8):
        valve.watermark(0, timestamp)
    assert emitted == [5, 8]


def test_idle_channel_speaks_again_only_after_it_became_active():
    valve, emitted = make_valve(1)
    valve.status(0, True)
    valve.watermark(0, 5)
    valve.status(0, False)
    valve.watermark(0, 6)
    assert emitted == ["IDLE", "ACTIVE", 6]


def test_combined_status_of_two_inputs():
    combined = CombinedWatermarkStatus(2)
    assert not combined.update_watermark(0, 10)
    assert combined.update_watermark(1, 4)
    assert combined.watermark == 4
    assert combined.update_status(1, True)
    assert combined.watermark == 10
    assert not combined.update_status(0, True)
    assert combined.all_idle


def test_a_channel_that_has_ended_does_not_speak_for_idle_ones():
    """A reader without splits ends at once: the other's records after a pause are not late."""
    valve, emitted = make_valve(2)
    valve.watermark(1, MAX_TIMESTAMP)
    valve.watermark(0, 5)
    valve.status(0, True)
    assert emitted == [5, "IDLE"]
    valve.status(0, False)
    valve.watermark(0, 7)
    assert emitted == [5, "IDLE", "ACTIVE", 7]
    valve.watermark(0, MAX_TIMESTAMP)
    assert emitted == [5, "IDLE", "ACTIVE", 7, MAX_TIMESTAMP]


def test_the_last_active_channel_ends():
    valve, emitted = make_valve(3)
    for channel, timestamp in enumerate((10, 7, 3)):
        valve.watermark(channel, timestamp)
    valve.status(0, True)
    valve.status(1, True)
    assert emitted == [3]
    valve.watermark(2, MAX_TIMESTAMP)
    assert emitted == [3, 10, "IDLE"]
    # Event time ends with the last of them, whether or not they become active before their end.
    valve.watermark(1, MAX_TIMESTAMP)
    assert emitted == [3, 10, "IDLE"]
    valve.status(1, False)
    valve.watermark(0, MAX_TIMESTAMP)
    assert emitted == [3, 10, "IDLE", "ACTIVE", MAX_TIMESTAMP]


def test_an_input_that_has_ended_does_not_speak_for_an_idle_one():
    combined = CombinedWatermarkStatus(2)
    assert not combined.update_watermark(0, MAX_TIMESTAMP)
    assert combined.update_watermark(1, 4)
    assert not combined.update_status(1, True)
    assert combined.all_idle
    assert combined.watermark == 4
    assert combined.update_watermark(1, 5)
    assert not combined.all_idle
    assert combined.update_watermark(1, MAX_TIMESTAMP)
    assert combined.watermark == MAX_TIMESTAMP
    assert not combined.all_idle


def test_the_channels_that_are_behind_hold_the_others_back():
    valve, _ = make_valve(4)
    assert valve.holding_channels() == [0, 1, 2, 3]
    valve.watermark(0, 10)
    valve.watermark(2, 10)
    assert valve.holding_channels() == [1, 3]
    valve.status(1, True)
    assert valve.holding_channels() == [3]
    valve.status(3, True)
    assert valve.holding_channels() == [0, 2]
    valve.watermark(0, MAX_TIMESTAMP)
    assert valve.holding_channels() == [2]
    valve.status(2, True)
    assert valve.is_idle
    assert valve.holding_channels() == []

"""Timers: order, identity, and what callbacks may do (internals M33)."""

from types import SimpleNamespace

import pytest
from penstock.taskexecutor.compiled import InternalTimerService, TimerQueue
from penstock.taskexecutor.state.heap import KeyContext, StateTable
from penstock.taskexecutor.time.processing_time import ProcessingTimeService


class Recorder:
    def __init__(self):
        self.fired = []
        self.on_event = None

    def on_event_time(self, timestamp, key, namespace):
        self.fired.append((timestamp, key, namespace))
        if self.on_event is not None:
            self.on_event(timestamp)

    def on_processing_time(self, timestamp, key, namespace):
        self.fired.append((timestamp, key, namespace))
        if self.on_event is not None:
            self.on_event(timestamp)


def new_table(domain):
    return StateTable(domain, "timer")


@pytest.fixture
def world():
    now = SimpleNamespace(ms=0)
    clock = ProcessingTimeService(lambda: now.ms)
    keys = KeyContext()
    target = Recorder()
    service = InternalTimerService(keys, clock, target, new_table)
    return SimpleNamespace(now=now, clock=clock, keys=keys, target=target, service=service)


def test_registering_twice_is_one_timer(world):
    world.keys.current_key = "a"
    world.service.register_event_time_timer("n", 5)
    world.service.register_event_time_timer("n", 5)
    world.service.register_event_time_timer("m", 5)
    assert world.service.num_event_timers == 2
    world.service.advance_watermark(5)
    assert world.target.fired == [(5, "a", "n"), (5, "a", "m")]


def test_timers_fire_in_order_of_time_with_their_key(world):
    for key, timestamp in (("a", 30), ("b", 20), ("a", 10)):
        world.keys.current_key = key
        world.service.register_event_time_timer(None, timestamp)
    seen = []
    world.target.on_event = lambda timestamp: seen.append(world.keys.current_key)
    world.service.advance_watermark(25)
    assert world.service.num_fired == 2
    assert world.target.fired == [(10, "a", None), (20, "b", None)]
    assert seen == ["a", "b"]


def test_callback_may_register_timers_of_the_past(world):
    world.keys.current_key = "a"
    for timestamp in (100, 150):
        world.service.register_event_time_timer(None, timestamp)

    def register(timestamp):
        if timestamp == 100:
            world.service.register_event_time_timer(None, 7)
            world.service.register_event_time_timer(None, 120)

    world.target.on_event = register
    world.service.advance_watermark(200)
    assert [t for t, _, _ in world.target.fired] == [100, 7, 120, 150]
    assert world.service.num_event_timers == 0


def test_callback_may_delete_timers_that_are_due(world):
    world.keys.current_key = "a"
    for namespace in ("x", "y"):
        world.service.register_event_time_timer(namespace, 5)
    world.target.on_event = lambda t: world.service.delete_event_time_timer("y", t)
    world.service.advance_watermark(5)
    assert world.target.fired == [(5, "a", "x")]


def test_watermark_is_set_before_timers_fire(world):
    world.keys.current_key = "a"
    world.service.register_event_time_timer(None, 5)
    seen = []
    world.target.on_event = lambda t: seen.append(world.service.current_watermark)
    world.service.advance_watermark(9)
    assert seen == [9]


def test_only_the_earliest_processing_timer_is_physical(world):
    world.keys.current_key = "a"
    world.service.register_processing_time_timer(None, 50)
    assert world.clock.wait_ms(1000) == 50
    world.service.register_processing_time_timer(None, 20)
    assert world.clock.wait_ms(1000) == 20
    world.service.delete_processing_time_timer(None, 20)
    world.now.ms = 30
    world.clock.fire_due()
    assert world.target.fired == []
    world.now.ms = 50
    world.clock.fire_due()
    assert world.target.fired == [(50, "a", None)]


def test_processing_timer_may_register_itself_again(world):
    world.keys.current_key = "a"
    world.service.register_processing_time_timer(None, 10)
    world.target.on_event = lambda t: world.service.register_processing_time_timer(None, t + 10)
    for now in (10, 20, 30):
        world.now.ms = now
        world.clock.fire_due()
    assert [t for t, _, _ in world.target.fired] == [10, 20, 30]
    assert world.service.num_processing_timers == 1


def test_timers_of_a_restored_table_fire(world):
    """A snapshot contains the tables, by key group; the service adopts the restored ones (M33)."""
    tables = {domain: StateTable(domain, "timer") for domain in ("event", "processing")}
    other = InternalTimerService(world.keys, world.clock, world.target, tables.__getitem__)
    for domain, timestamp in (("event", 7), ("event", 5), ("processing", 6)):
        tables[domain].map(timestamp).put((2, "w"), 1)
    other.take_over()
    assert (other.num_event_timers, other.num_processing_timers) == (2, 1)
    other.advance_watermark(5)
    world.now.ms = 6
    world.clock.fire_due()
    assert world.target.fired == [(5, 2, "w"), (6, 2, "w")]
    assert len(tables["event"]) == 1


def test_queue_forgets_times_whose_timers_were_deleted():
    queue = TimerQueue(new_table("event"))
    queue.add(1, "a", None)
    queue.add(2, "a", None)
    queue.remove(1, "a", None)
    assert queue.earliest() == 2
    assert len(queue) == 1


def test_cancelled_timers_are_removed_before_their_time():
    clock = ProcessingTimeService(lambda: 0)
    fired = []
    timers = [clock.register(3_600_000 + number, fired.append) for number in range(1000)]
    for timer in timers[:-1]:
        timer.cancel()
        timer.cancel()
    assert clock.num_timers <= 2
    timers[-1].cancel()
    assert clock.num_timers == 0


def test_a_cancelled_timer_does_not_wake_an_operator_that_waits():
    clock = ProcessingTimeService(lambda: 0)
    timers = [clock.register(at, print, position=1) for at in (100, 200, 300)]
    timers[1].cancel()
    clock.register(50, print)
    assert clock.wait_ms(1000, position=1) == 100
    timers[0].cancel()
    assert clock.wait_ms(1000, position=1) == 300


def test_timers_that_are_cancelled_by_others_do_not_fire():
    now = SimpleNamespace(ms=0)
    clock = ProcessingTimeService(lambda: now.ms)
    fired = []
    later = [clock.register(20 + number, fired.append) for number in range(5)]

    def cancel(timestamp):
        fired.append(timestamp)
        for timer in later[:4]:
            timer.cancel()

    clock.register(10, cancel)
    now.ms = 100
    clock.fire_due()
    assert fired == [10, 24]
    assert clock.num_timers == 0

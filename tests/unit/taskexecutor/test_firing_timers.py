"""Arguments and results of ``on_timer``, for any number of timers with one time."""

import pytest
from penstock.datastream.functions import KeyedProcessFunction
from penstock.testing import ProcessFunctionTestHarnesses

NONE = -(2**63)
MAX_WATERMARK = 2**63 - 1


def first(value):
    return value[0]


class Registering(KeyedProcessFunction):
    """Registers a timer for each record, at its time; subclasses define the output of a firing."""

    def process_element(self, value, ctx):
        register = ctx.timer_service().register_event_time_timer
        if len(value) == 3:
            register = ctx.timer_service().register_processing_time_timer
        register(value[1])


def harness(function):
    return ProcessFunctionTestHarnesses.for_keyed_process_function(function, first)


def test_each_firing_has_its_own_time():
    """Also if times alternate between the clocks, and at the ends of time."""

    class Show(Registering):
        def on_timer(self, timestamp, ctx):
            assert timestamp == ctx.timestamp()
            yield ctx.get_current_key(), timestamp, ctx.time_domain().name

    with harness(Show()) as test:
        for key in ("a", "b"):
            for time in (NONE, 5, -3, 2**62, 7, 5, MAX_WATERMARK):
                test.process_element((key, time))
            test.process_element((key, 5, "clock"))
            test.process_element((key, 6, "clock"))
        test.process_watermark(5)
        assert sorted(test.values) == sorted(
            (key, time, "EVENT_TIME") for key in ("a", "b") for time in (NONE, -3, 5)
        )
        test.set_processing_time(6)
        assert sorted(test.values[6:]) == sorted(
            (key, time, "PROCESSING_TIME") for key in ("a", "b") for time in (5, 6)
        )
        test.process_watermark(MAX_WATERMARK)
        times = [(key, time) for key in ("a", "b") for time in (7, 2**62, MAX_WATERMARK)]
        assert sorted(test.values[10:]) == sorted((k, t, "EVENT_TIME") for k, t in times)
        assert [type(value[1]) for value in test.values] == [int] * len(test.values)
        # The smallest time means no timestamp.
        times = [None if value[1] == NONE else value[1] for value in test.values]
        assert [timestamp for _, timestamp in test.records] == times


def test_a_timer_registered_while_another_fires_has_its_own_time():
    class Again(Registering):
        def on_timer(self, timestamp, ctx):
            if timestamp < 4:
                ctx.timer_service().register_event_time_timer(timestamp + 1)
            yield timestamp
            yield timestamp

    with harness(Again()) as test:
        test.process_element(("a", 1))
        test.process_element(("b", 3))
        test.process_watermark(10)
        assert test.values == [1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]


def given(result):
    class Giving(Registering):
        def on_timer(self, timestamp, ctx):
            return result(timestamp)

    return Giving()


@pytest.mark.parametrize(
    ("result", "emitted"),
    [
        (lambda time: None, []),
        (lambda time: [], []),
        (lambda time: [time, "more"], [4, "more"]),
        (lambda time: (time,), [4]),
        (lambda time: iter([time]), [4]),
        (lambda time: (time * n for n in (1, 2)), [4, 8]),
        (lambda time: {"key": "value"}, ["key"]),
    ],
)
def test_results_of_a_firing(result, emitted):
    with harness(given(result)) as test:
        test.process_element(("a", 4))
        test.process_watermark(4)
        assert test.values == emitted


def test_a_generator_that_raises_has_emitted_what_came_before():
    class Failing(Registering):
        def on_timer(self, timestamp, ctx):
            yield timestamp
            raise ValueError("on purpose")

    with harness(Failing()) as test:
        test.process_element(("a", 4))
        with pytest.raises(ValueError, match="on purpose"):
            test.process_watermark(4)
        assert test.values == [4]


def test_results_must_be_iterable():
    with harness(given(lambda time: time)) as test:
        test.process_element(("a", 4))
        with pytest.raises(TypeError, match="iterable"):
            test.process_watermark(4)

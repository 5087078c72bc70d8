"""A key that an element lacks is an error with the user's line, as in any function."""

import traceback

import pytest
from penstock.common.time import Time
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.testing import PipelineTestHarness


class ByNothing(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 0


class Passing(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


def windowed(keyed):
    return keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))


@pytest.mark.parametrize(
    "operation",
    [
        lambda keyed: keyed.reduce(lambda one, other: other),
        lambda keyed: keyed.sum(1),
        lambda keyed: keyed.process(Passing()),
        lambda keyed: windowed(keyed).reduce(lambda one, other: other),
    ],
    ids=["reduce", "sum", "process", "window"],
)
def test_a_tuple_without_the_key_s_field(operation):
    def third(element):
        return element[2]

    harness = PipelineTestHarness()
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(ByNothing())
    stream = harness.source("elements").assign_timestamps_and_watermarks(strategy)
    harness.sink("results", operation(stream.key_by(third)))
    with harness:
        harness.process_element("elements", (1, 2, 3))
        with pytest.raises(IndexError, match="tuple index out of range") as caught:
            harness.process_element("elements", (1, 2))
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "third"

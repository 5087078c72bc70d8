"""A Duration is accepted wherever a Time is, and a Time wherever a Duration is."""

import pytest
from penstock.common import Duration, Time, Types, WatermarkStrategy
from penstock.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.state import StateTtlConfig
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.errors import PenstockError, WrongArgumentError


class Ask(AsyncFunction):
    async def async_invoke(self, value):
        return [value]


def ints():
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([1], Types.INT())


def files():
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/tmp/none")


def joined(span):
    keyed = ints().key_by(lambda v: v, Types.INT())
    return keyed.interval_join(keyed).between(span, span)


def checkpointing(span):
    config = StreamExecutionEnvironment.get_execution_environment().get_checkpoint_config()
    return config.set_alignment_timeout(span).get_aligned_checkpoint_timeout()


STRATEGY = WatermarkStrategy.for_monotonous_timestamps()
TAKES_A_SPAN = [
    TumblingEventTimeWindows.of,
    lambda span: TumblingEventTimeWindows.of(Time.minutes(1), span),
    TumblingProcessingTimeWindows.of,
    lambda span: SlidingEventTimeWindows.of(Time.minutes(1), span),
    lambda span: SlidingProcessingTimeWindows.of(span, span),
    EventTimeSessionWindows.with_gap,
    ProcessingTimeSessionWindows.with_gap,
    ContinuousEventTimeTrigger.of,
    ContinuousProcessingTimeTrigger.of,
    TimeEvictor.of,
    lambda span: StateTtlConfig.new_builder(span).build().get_ttl(),
    lambda span: StateTtlConfig.new_builder(Time.days(1)).set_ttl(span).build().get_ttl(),
    lambda span: AsyncDataStream.ordered_wait(ints(), Ask(), span),
    joined,
    checkpointing,
    WatermarkStrategy.for_bounded_out_of_orderness,
    lambda span: STRATEGY.with_idleness(span),
    lambda span: STRATEGY.with_watermark_alignment("group", span, span),
    lambda span: files().monitor_continuously(span),
]


@pytest.mark.parametrize("make", TAKES_A_SPAN)
def test_either_span_is_taken(make):
    assert str(make(Duration.of_seconds(5)))[:30] == str(make(Time.seconds(5)))[:30]
    with pytest.raises(PenstockError, match=r"Duration|Time"):
        make("5 s")


def test_spans_tell_their_length():
    assert Duration.of_seconds(5).to_milliseconds() == Time.seconds(5).to_millis() == 5_000
    assert Time.milliseconds(2).to_nanos() == 2_000_000


@pytest.mark.parametrize("unit", ["milliseconds", "seconds", "minutes", "hours", "days"])
@pytest.mark.parametrize("amount", ["x", "5", None])
def test_an_amount_of_time_is_a_number(unit, amount):
    with pytest.raises(WrongArgumentError, match=rf"Time\.{unit}: {unit} must be a number, got "):
        getattr(Time, unit)(amount)
    assert getattr(Time, unit)(0.5).to_milliseconds() == getattr(Time, unit)(1).to_millis() / 2

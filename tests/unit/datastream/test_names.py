"""Names that a program chooses are stored with checkpoints and sent: wrong ones are errors."""

import pytest
from penstock.common import Duration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import SourceFunction
from penstock.datastream.operators import (
    OneInputStreamOperator,
    TwoInputStreamOperator,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import InvalidProgramError

STRATEGY = WatermarkStrategy.no_watermarks()


class One(OneInputStreamOperator):
    def process_element(self, element):
        self.output.collect(element)


class Two(TwoInputStreamOperator):
    def process_element1(self, element):
        self.output.collect(element)

    process_element2 = process_element1


class Endless(SourceFunction):
    def run(self, ctx):
        ctx.collect(1)

    def cancel(self):
        """Do nothing: the source ends by itself."""


def numbers():
    return StreamExecutionEnvironment.get_execution_environment().from_collection([1])


def sink():
    return numbers().sink_to(DiscardingSink())


WAYS = {
    "an operator": lambda name: numbers().map(str).name(name),
    "an operator's state": lambda name: numbers().map(str).uid(name),
    "a description": lambda name: numbers().set_description(name),
    "a slot sharing group": lambda name: numbers().map(str).slot_sharing_group(name),
    "a co-location group": lambda name: numbers().map(str).set_co_location_group_key(name),
    "the sink: an operator": lambda name: sink().name(name),
    "the sink: an operator's state": lambda name: sink().uid(name),
    "the sink: a description": lambda name: sink().set_description(name),
    "the sink: a slot sharing group": lambda name: sink().slot_sharing_group(name),
    "the sink: a co-location group": lambda name: sink().set_co_location_group_key(name),
    "the source: an operator": lambda name: (
        StreamExecutionEnvironment.get_execution_environment().from_source(
            NumberSequenceSource(1, 3), STRATEGY, name
        )
    ),
    "the function: an operator": lambda name: (
        StreamExecutionEnvironment.get_execution_environment().add_source(Endless(), name)
    ),
    "one input: an operator": lambda name: numbers().transform(name, None, One()),
    "two inputs: an operator": lambda name: (
        numbers().connect(numbers()).transform(name, None, Two())
    ),
    "a broadcast set": lambda name: numbers().map(str).with_broadcast_set(numbers(), name),
    "a field": lambda name: Types.ROW_NAMED([name], [Types.INT()]),
    "a watermark group": lambda name: STRATEGY.with_watermark_alignment(
        name, Duration.of_millis(1)
    ),
    "a side output": lambda name: OutputTag(name, Types.INT()),
    "a state": lambda name: ValueStateDescriptor(name, Types.INT()),
    "of a map: a state": lambda name: MapStateDescriptor(name, Types.INT(), Types.INT()),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_cannot_be_sent_is_an_error_where_it_is_given(way):
    what = way.split(": ")[-1]
    with pytest.raises(InvalidProgramError, match=rf"{what}, 'caf.*cannot be written in UTF-8"):
        WAYS[way](b"caf\xe9".decode(errors="surrogateescape"))
    with pytest.raises(InvalidProgramError, match=rf"{what}, 'xxx.*has 65536 bytes"):
        WAYS[way]("x" * 65_536)
    WAYS[way]("x" * 65_535)

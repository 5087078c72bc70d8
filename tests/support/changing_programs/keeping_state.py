"""Programs that store values in state and then mutate the values elsewhere.

Keyed and broadcast state hold the function's own objects, including later changes in place;
operator lists hold copies.
"""

from penstock.common import Time, Types
from penstock.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
)
from penstock.datastream.functions import (
    CheckpointedFunction,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from support.changing_programs.registry import ANY, PROGRAMS, changing, key, program


class Remembering(KeyedProcessFunction):
    def __init__(self, copied, descriptor):
        self.copied = copied
        self.descriptor = descriptor

    def open(self, runtime_context):
        self.state = runtime_context.get_state(self.descriptor)

    def process_element(self, value, ctx):
        before = self.copied(self.state.value())
        yield self.copied(before)
        self.state.update(self.copied(value))
        yield self.copied(value)


def remembering(descriptor):
    def build(harness, copied):
        stream = harness.source("in").key_by(key).process(Remembering(copied, descriptor))
        stream = stream.filter(lambda v: v is not None)
        harness.sink("out", stream.map(changing(copied, "x")))

    return build


PROGRAMS["value_state"] = remembering(ValueStateDescriptor("state", ANY))
PROGRAMS["value_state_of_a_list"] = remembering(
    ValueStateDescriptor("state", Types.LIST(Types.STRING()))
)
EXPIRING = ValueStateDescriptor("state", ANY)
EXPIRING.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
PROGRAMS["value_state_that_expires"] = remembering(EXPIRING)


@program
def a_timer_that_emits_state(harness, copied):
    class Timed(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("state", ANY))

        def process_element(self, value, ctx):
            self.state.update(copied(value))
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)

        def on_timer(self, timestamp, ctx):
            yield copied(self.state.value())
            yield copied(self.state.value())

    stream = harness.source("in").key_by(key).process(Timed())
    harness.sink("out", stream.map(changing(copied, "x")))


@program
def collections_in_state(harness, copied):
    class Collecting(KeyedProcessFunction):
        def open(self, runtime_context):
            self.elements = runtime_context.get_list_state(ListStateDescriptor("list", ANY))
            self.pairs = runtime_context.get_map_state(MapStateDescriptor("map", Types.INT(), ANY))

        def process_element(self, value, ctx):
            self.elements.add(copied(value))
            self.pairs.put(len(list(self.pairs)), copied(value))
            self.elements.add_all([[*value, "more"]])
            yield copied(list(self.elements.get()))
            yield copied([self.pairs[0]])
            self.pairs.put_all({7: copied(value)})
            self.elements.update(copied(list(self.elements)))
            yield [str(sorted(self.pairs.items())), str(self.elements.get())]

    def change(values):
        values = copied(values)
        for value in values:
            if isinstance(value, list):
                value.append("x")
        return copied(values)

    stream = harness.source("in").key_by(key).process(Collecting())
    harness.sink("out", stream.map(change))


class Gathering(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


@program
def folds_in_state(harness, copied):
    def join(left, right):
        left.extend(right)
        return left

    class Folding(KeyedProcessFunction):
        def open(self, runtime_context):
            self.fold = runtime_context.get_reducing_state(
                ReducingStateDescriptor("fold", join, ANY)
            )
            self.gathered = runtime_context.get_aggregating_state(
                AggregatingStateDescriptor("gathered", Gathering(), ANY)
            )

        def process_element(self, value, ctx):
            self.fold.add(copied(value))
            self.gathered.add(list(value))
            yield copied(self.fold.get())
            yield copied(self.gathered.get())

    stream = harness.source("in").key_by(key).process(Folding())
    harness.sink("out", stream.map(changing(copied, "x")))


CONTENT = MapStateDescriptor("content", Types.STRING(), ANY)


def broadcasting(copied, base):
    class Own(base):
        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(CONTENT)
            state.put(value[0], copied(value))
            yield copied(state.get(value[0]))

        def process_element(self, value, ctx):
            state = ctx.get_broadcast_state(CONTENT)
            for pair in state.items():
                copied(pair[1]).append("item")
            for found in state.values():
                yield copied(found)

    return Own()


@program
def broadcast_state(harness, copied):
    rules = harness.source("other").broadcast(CONTENT)
    source = harness.source("in")
    plain = source.connect(rules).process(broadcasting(copied, BroadcastProcessFunction))
    keyed = source.key_by(key).connect(rules)
    keyed = keyed.process(broadcasting(copied, KeyedBroadcastProcessFunction))
    harness.sink("plain", plain.map(changing(copied, "x")))
    harness.sink("keyed", keyed.map(changing(copied, "x")))


@program
def operator_state(harness, copied):
    class Keeps(MapFunction, CheckpointedFunction):
        def initialize_state(self, context):
            store = context.get_operator_state_store()
            self.state = store.get_list_state(ListStateDescriptor("kept", ANY))
            self.content = store.get_broadcast_state(CONTENT)

        def snapshot_state(self, context):
            """Do nothing: the state is always up to date."""

        def map(self, value):
            self.state.add(copied(value))
            self.content.put("last", list(value))
            value.append("own")
            copied(self.state.get())[0].append("got")
            return [str(self.state.get()), str(self.content.get("last"))]

    harness.sink("out", harness.source("in").map(Keeps()))

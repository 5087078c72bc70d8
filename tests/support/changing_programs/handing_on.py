"""Programs whose functions mutate their results or their arguments."""

from penstock.common import Time
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    MapFunction,
    ProcessFunction,
)
from penstock.datastream.state import (
    ValueStateDescriptor,
)
from support.changing_programs.registry import ANY, LATER, changing, key, program


class Keeping(MapFunction):
    """Emits all values received so far, in their present state."""

    def __init__(self, copied):
        self.copied = copied
        self.kept = []

    def map(self, value):
        self.kept.append(self.copied(value))
        return str(self.kept)


@program
def a_fork(harness, copied):
    source = harness.source("in").map(changing(copied, "first"))
    harness.sink("left", source.map(changing(copied, "left")).map(changing(copied, "more")))
    harness.sink("right", source.map(changing(copied, "right")))
    harness.sink("kept", source.map(Keeping(copied)))


@program
def a_fork_of_a_function_that_only_computes(harness, copied):
    source = harness.source("in").map(lambda v: (v, 1))

    def change(pair):
        pair = copied(pair)
        pair[0].append("changed")
        return copied(pair)

    harness.sink("left", source.map(change))
    harness.sink("right", source.filter(lambda v: True).map(change))


@program
def a_function_that_keeps_what_it_hands_on(harness, copied):
    class Own(MapFunction):
        def __init__(self):
            self.kept = []

        def map(self, value):
            self.kept.append(copied(value))
            return copied(self.kept[0])

    harness.sink("out", harness.source("in").map(Own()).map(changing(copied, "x")))


@program
def a_filter_that_keeps_and_changes(harness, copied):
    class Own(FilterFunction):
        def __init__(self):
            self.kept = []

        def filter(self, value):
            for kept in self.kept:
                kept.append("later")
            self.kept.append(copied(value))
            return True

    filtered = harness.source("in").filter(Own())
    harness.sink("out", filtered.map(Keeping(copied)))


@program
def one_list_that_changes_between_yields(harness, copied):
    class Growing(FlatMapFunction):
        def flat_map(self, value):
            grown = []
            for item in value:
                grown.append(item)
                yield copied(grown)

    grown = harness.source("in").flat_map(Growing())
    harness.sink("kept", grown.map(Keeping(copied)))
    harness.sink("changed", grown.map(changing(copied, "x")))


@program
def one_object_several_times(harness, copied):
    def twice(value):
        return [copied(value), copied(value)]

    repeated = harness.source("in").flat_map(twice)
    harness.sink("changed", repeated.map(changing(copied, "x")))


@program
def main_and_side_output(harness, copied):
    class Both(ProcessFunction):
        def process_element(self, value, ctx):
            yield copied(value)
            yield LATER, copied(value)
            value.append("own")
            yield LATER, copied(value)

    both = harness.source("in").process(Both())
    harness.sink("main", both.map(changing(copied, "main")))
    side = both.get_side_output(LATER)
    harness.sink("side", side.map(changing(copied, "side")))
    harness.sink("kept", side.map(Keeping(copied)))


@program
def a_fold(harness, copied):
    def join(left, right):
        left.extend(right[1:])
        return left

    folded = harness.source("in").key_by(key).reduce(join)
    harness.sink("changed", folded.map(changing(copied, "x")))


@program
def the_smallest_element(harness, copied):
    def change(value):
        value = copied(value)
        value[1].append("x")
        return copied(value)

    pairs = harness.source("in").map(lambda v: (v[0], v))
    smallest = pairs.key_by(key).min_by(0)
    harness.sink("changed", smallest.map(change))


@program
def two_inputs_of_one_stream(harness, copied):
    class Map(CoMapFunction):
        def __init__(self):
            self.change = changing(copied, "map")

        def map1(self, value):
            return self.change(value)

        def map2(self, value):
            return self.change(value)

    class FlatMap(CoFlatMapFunction):
        def flat_map1(self, value):
            yield changing(copied, "one")(value)

        def flat_map2(self, value):
            yield changing(copied, "two")(value)

    class Process(CoProcessFunction):
        def process_element1(self, value, ctx):
            yield changing(copied, "one")(value)

        def process_element2(self, value, ctx):
            yield changing(copied, "two")(value)

    source = harness.source("in")
    both = source.connect(source)
    harness.sink("map", both.map(Map()))
    harness.sink("flat map", both.flat_map(FlatMap()))
    harness.sink("process", both.process(Process()))


@program
def keyed_inputs(harness, copied):
    class Process(KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("state", ANY))

        def process_element1(self, value, ctx):
            self.state.update(copied(value))
            return []

        def process_element2(self, value, ctx):
            value.append("two")
            yield copied(self.state.value())

    source = harness.source("in").key_by(key)
    both = source.connect(source).process(Process())
    harness.sink("out", both.map(changing(copied, "x")))


@program
def united_branches(harness, copied):
    source = harness.source("in")
    united = source.map(changing(copied, "branch")).union(source, source)
    harness.sink("out", united.map(changing(copied, "x")))
    harness.sink("kept", united.map(Keeping(copied)))


@program
def selected_outputs(harness, copied):
    chosen = harness.source("in").split(lambda value: ["a", "b"])
    for name in "ab":
        harness.sink(name, chosen.select(name).map(changing(copied, name)))


@program
def an_async_function(harness, copied):
    class Twice(AsyncFunction):
        async def async_invoke(self, value):
            value = copied(value)
            value.append("async")
            return [copied(value), copied(value)]

        def timeout(self, value):
            return []

    source = harness.source("in")
    stream = AsyncDataStream.ordered_wait(source, Twice(), Time.seconds(60), 2)
    harness.sink("out", stream.map(changing(copied, "x")))


@program
def an_async_function_that_is_called_again(harness, copied):
    from penstock.datastream import AsyncRetryStrategy

    class Second(AsyncFunction):
        def __init__(self):
            self.attempts = 0

        async def async_invoke(self, value):
            value = copied(value)
            value.append("attempt")
            self.attempts += 1
            if self.attempts % 2:
                raise OSError("again")
            return [value]

        def timeout(self, value):
            return []

    strategy = AsyncRetryStrategy.fixed_delay(2, 1, None, lambda error: True)
    stream = AsyncDataStream.ordered_wait_with_retry(
        harness.source("in"), Second(), Time.seconds(60), strategy, 1
    )
    harness.sink("out", stream)

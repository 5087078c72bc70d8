"""Programs whose functions mutate the records of windows, joins and groups."""

from penstock.common import Time
from penstock.datastream import (
    ProcessWindowFunction,
)
from penstock.datastream.functions import (
    ProcessAllWindowFunction,
    ProcessJoinFunction,
)
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
)
from support.changing_programs.keeping_state import Gathering
from support.changing_programs.registry import ANY, PROGRAMS, TEN, changing, key, program


def windowed(assigner, finish, **parts):
    def build(harness, copied):
        class Show(ProcessWindowFunction):
            def process(self, key, context, elements):
                for element in elements:
                    shown = copied(element)
                    shown.append("seen")
                    yield copied(shown)

        stream = harness.source("in").key_by(key).window(assigner)
        if "trigger" in parts:
            stream = stream.trigger(parts["trigger"])
        if "evictor" in parts:
            stream = stream.evictor(parts["evictor"])
        result = finish(stream, Show(), copied)
        harness.sink("out", result.map(changing(copied, "x")))

    return build


def processed(stream, show, copied):
    del copied
    return stream.process(show)


def reduced(stream, show, copied):
    def join(left, right):
        left = copied(left)
        left.extend(right[1:])
        return left

    return stream.reduce(join, show)


def gathered(stream, show, copied):
    class Own(Gathering):
        def add(self, value, accumulator):
            return [*accumulator, copied(value)]

        def get_result(self, accumulator):
            return copied(accumulator)

    return stream.aggregate(Own(), show, accumulator_type=ANY, output_type=ANY)


SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
SESSION = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
for name, parts in {
    "sliding": {"assigner": SLIDING},
    "counting": {"assigner": GlobalWindows.create(), "trigger": CountTrigger(1)},
    "evicting": {
        "assigner": GlobalWindows.create(), "trigger": CountTrigger(1),
        "evictor": CountEvictor.of(5),
    },
}.items():  # fmt: skip
    for finish in (processed, reduced, gathered):
        PROGRAMS[f"{name}_windows_{finish.__name__}"] = windowed(finish=finish, **parts)

PROGRAMS["tumbling_windows"] = windowed(TEN, processed)
PROGRAMS["session_windows"] = windowed(SESSION, reduced)


@program
def windows_of_all(harness, copied):
    class Show(ProcessAllWindowFunction):
        def process(self, context, elements):
            for element in elements:
                shown = copied(element)
                shown.append("seen")
                yield copied(shown)

    stream = harness.source("in").window_all(SLIDING).process(Show())
    harness.sink("out", stream.map(changing(copied, "x")))


#: Windows that fire once and hold each record once share nothing, nor do these accumulators.


@program
def pairs_of_an_interval_join(harness, copied):
    class Join(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            left, right = copied(left), copied(right)
            left.append("left")
            right.append("right")
            yield [str(left), str(right)]

    stream = harness.source("in").key_by(key)
    joined = stream.interval_join(harness.source("other").key_by(key))
    bounds = joined.between(Time.milliseconds(-9), Time.milliseconds(9))
    harness.sink("out", bounds.process(Join()))


@program
def pairs_of_a_window_join(harness, copied):
    def join(left, right):
        left, right = copied(left), copied(right)
        left.append("left")
        right.append("right")
        return [str(left), str(right)]

    joined = harness.source("in").join(harness.source("other"))
    harness.sink("out", joined.where(key).equal_to(key).window(TEN).apply(join))


@program
def groups_of_two_streams(harness, copied):
    def group(left, right):
        for value in [*left, *right]:
            shown = copied(value)
            shown.append("seen")
            yield copied(shown)

    stream = harness.source("in")
    grouped = stream.co_group(stream).where(key).equal_to(key).window(TEN).apply(group)
    harness.sink("out", grouped.map(changing(copied, "x")))

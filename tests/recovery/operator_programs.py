"""Jobs with one kind of operator each, which fail halfway, and the results of an unfailed run.

The results of these jobs follow from their elements alone, in any order.
"""

import asyncio

import pyarrow as pa
import pyarrow.compute as pc
from penstock import aggregates as agg
from penstock.cep import CEP, Pattern
from penstock.common import Configuration, Row, Time, Types, WatermarkStrategy
from penstock.common.row_kind import RowKind
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import AsyncDataStream, StreamExecutionEnvironment
from penstock.datastream.functions import (
    AsyncFunction,
    BroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
)
from penstock.datastream.operators import OneInputStreamOperator
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.expressions import argument, as_tuple, field

from recovery.sink_programs import KEYS, FailingOnTheWay, PacedNumbers

ELEMENTS = 4000
WINDOW_MS = 70
#: The number of consecutive numbers in a session of a key.
RUN = 25


class NumberAsTime(TimestampAssigner):
    """Uses a number as its own event time."""

    def extract_timestamp(self, value, record_timestamp):
        return value


def numbers(fate, options, source=None):
    """Emit numbers with event time, in two subtasks that fail halfway."""
    configuration = Configuration.from_dict(
        {
            "execution.checkpointing.interval": "10 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "20",
            "restart-strategy.fixed-delay.delay": "1 ms",
            **options,
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(NumberAsTime())
    return (
        env.add_source(source or PacedNumbers(ELEMENTS), type_info=Types.LONG())
        .assign_timestamps_and_watermarks(strategy)
        .set_parallelism(1)
        .map(FailingOnTheWay(fate), Types.LONG())
    )


def key_of(number):
    return number % KEYS


# ---- windows -----------------------------------------------------------------------------------


def windows(stream):
    return (
        stream.map(lambda n: (n % KEYS, n), Types.TUPLE([Types.LONG(), Types.LONG()]))
        .key_by(lambda pair: pair[0], Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
    )


def expected_windows():
    sums = {}
    for number in range(ELEMENTS):
        window = number % KEYS, number // WINDOW_MS
        sums[window] = sums.get(window, 0) + number
    return [(key, total) for (key, _), total in sums.items()]


# ---- sessions ----------------------------------------------------------------------------------


def sessions(stream):
    return (
        stream.map(lambda n: (n // RUN % KEYS, n), Types.TUPLE([Types.LONG(), Types.LONG()]))
        .key_by(lambda pair: pair[0], Types.LONG())
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(5)))
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
    )


def expected_sessions():
    return [
        (first // RUN % KEYS, sum(range(first, first + RUN))) for first in range(0, ELEMENTS, RUN)
    ]


# ---- timers ------------------------------------------------------------------------------------


class Later(KeyedProcessFunction):
    """Emits each number by a timer."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value + 500)

    def on_timer(self, timestamp, ctx):
        yield (ctx.get_current_key(), timestamp - 500)


def timers(stream):
    return stream.key_by(key_of, Types.LONG()).process(Later())


def expected_timers():
    return [(number % KEYS, number) for number in range(ELEMENTS)]


# ---- operators of users, behind several subtasks -------------------------------------------------


class Arrivals(OneInputStreamOperator):
    """Counts the arrivals of each number, and emits the count by a timer with a namespace."""

    def open(self):
        self.counts = self.get_runtime_context().get_state(
            ValueStateDescriptor("count", Types.LONG())
        )

    def process_element(self, value, timestamp):
        self.counts.update((self.counts.value() or 0) + 1)
        self.get_internal_timer_service().register_event_time_timer("all", timestamp + 500)

    def on_event_time(self, timer):
        self.output.collect((timer.key, timer.namespace, self.counts.value()), timer.timestamp)
        self.counts.clear()


def transform(stream):
    two_of_three = stream.partition_custom(lambda key, n: [key % n, (key + 1) % n], lambda n: n)
    copies = two_of_three.map(lambda n: n, Types.LONG()).set_parallelism(3)
    return copies.key_by(lambda n: n, Types.LONG()).transform("Arrivals", None, Arrivals())


def expected_transform():
    return [(number, "all", 2) for number in range(ELEMENTS)]


# ---- broadcast ---------------------------------------------------------------------------------


class Told(BroadcastProcessFunction):
    """Counts its broadcast input, and forwards the other side."""

    COUNT = MapStateDescriptor("count", Types.STRING(), Types.LONG())

    def process_element(self, value, ctx):
        yield ("passed", value)

    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(self.COUNT)
        count = (state.get("count") or 0) + 1
        state.put("count", count)
        yield ("told", count)


def broadcast(stream):
    told = stream.map(lambda n: n, Types.LONG()).set_parallelism(1).broadcast(Told.COUNT)
    return stream.connect(told).process(Told())


def expected_broadcast():
    """Return the expected counts: each of both subtasks receives all records."""
    return [
        *(("passed", number) for number in range(ELEMENTS)),
        *(("told", count) for count in range(1, ELEMENTS + 1) for _ in range(2)),
    ]


# ---- async -------------------------------------------------------------------------------------


class Negate(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0)
        return [-value]


def async_wait(stream):
    return AsyncDataStream.unordered_wait(stream, Negate(), Time.seconds(60), 50, Types.LONG())


def expected_async_wait():
    return [-number for number in range(ELEMENTS)]


# ---- interval join -----------------------------------------------------------------------------


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield (left, right)


def interval_join(stream):
    left = stream.key_by(key_of, Types.LONG())
    right = stream.map(lambda n: n, Types.LONG()).key_by(key_of, Types.LONG())
    joined = left.interval_join(right)
    return joined.between(Time.milliseconds(-KEYS), Time.milliseconds(0)).process(Pair())


def expected_interval_join():
    return [
        (left, right) for left in range(ELEMENTS) for right in (left - KEYS, left) if right >= 0
    ]


# ---- patterns ----------------------------------------------------------------------------------


def patterns(stream):
    """Match, for each key, every third number and the two behind it."""
    begun = Pattern.begin("first").where(lambda n: n // KEYS % 3 == 0)
    whole = begun.next("others").times(2).where(lambda n, ctx: n > ctx.first("first"))
    return CEP.pattern(stream.key_by(key_of, Types.LONG()), whole).select(
        lambda match: (match["first"][0], match["others"][0], match["others"][1])
    )


def expected_patterns():
    firsts = (number for number in range(ELEMENTS - 2 * KEYS) if number // KEYS % 3 == 0)
    return [(first, first + KEYS, first + 2 * KEYS) for first in firsts]


# ---- two inputs --------------------------------------------------------------------------------


class Totals(KeyedCoProcessFunction):
    """Adds up both sides' records of a key, and emits the total at the end, by a timer.

    Each key has records twice, with a long time in between.
    """

    LEFT = ValueStateDescriptor("left", Types.LONG())
    RIGHT = ValueStateDescriptor("right", Types.LONG())

    def open(self, runtime_context):
        self.left = runtime_context.get_state(self.LEFT)
        self.right = runtime_context.get_state(self.RIGHT)

    def process_element1(self, value, ctx):
        self.left.update((self.left.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(2 * ELEMENTS)

    def process_element2(self, value, ctx):
        self.right.update((self.right.value() or 0) + value)

    def on_timer(self, timestamp, ctx):
        yield (ctx.get_current_key(), self.left.value(), self.right.value())
        self.left.clear()


def rare_key_of(number):
    return number % (ELEMENTS // 2)


def two_inputs(stream):
    left = stream.key_by(rare_key_of, Types.LONG())
    right = stream.map(lambda n: n, Types.LONG()).key_by(rare_key_of, Types.LONG())
    return left.connect(right).process(Totals())


def expected_two_inputs():
    return [
        (key, total, total) for key in range(ELEMENTS // 2) for total in [2 * key + ELEMENTS // 2]
    ]


# ---- batches of columns ------------------------------------------------------------------------

KEYED = Types.ROW_NAMED(["key", "number"], [Types.LONG(), Types.LONG()])


def keyed(stream):
    """Return numbers as rows with their keys, grouped by key."""
    return stream.map(lambda n: Row(key=n % KEYS, number=n), KEYED).key_by(field("key"))


def in_windows(stream):
    return keyed(stream).window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))


def as_pairs(rows):
    return rows.map(lambda row: (row[0], row[1]), Types.TUPLE([Types.LONG(), Types.LONG()]))


def negated(batch):
    return pa.record_batch({"key": batch["key"], "number": pc.negate(batch["number"])})


def keyed_batches(stream):
    return as_pairs(keyed(stream).map_batches(negated, KEYED))


def expected_keyed_batches():
    return [(number % KEYS, -number) for number in range(ELEMENTS)]


def total(batch):
    return pa.record_batch({"key": batch["key"][:1], "number": [pc.sum(batch["number"]).as_py()]})


def window_batches(stream):
    return as_pairs(in_windows(stream).apply_batches(total, KEYED))


def window_aggregates(stream):
    totals = in_windows(stream).aggregate({"total": agg.sum("number")})
    return totals.map(lambda row: (row.key, row.total), Types.TUPLE([Types.LONG(), Types.LONG()]))


def kept(batch):
    return batch


LABELLED = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


def joined_and_ranked_batches(stream):
    """Join, rank, deduplicate and add batches; each key has two numbers, far apart."""
    rare = stream.map(lambda n: Row(key=n % (ELEMENTS // 2), number=n), KEYED)
    left, right = (rare.map_batches(kept, KEYED) for _ in range(2))
    joined = left.join(right).where("key").equal_to("key")
    pairs = joined.apply(as_tuple("join", argument(0)["number"], argument(1)["number"]))
    keyed = left.key_by("key")
    return pairs.union(
        keyed.top_n(1, "number").map(as_change("top"), LABELLED),
        keyed.deduplicate("last").map(as_change("last"), LABELLED),
        keyed.aggregate({"total": agg.sum("number")}, emit="running").map(as_total, LABELLED),
    )


def as_total(row):
    return "total", row.key, row.total


def as_change(label):
    return lambda row: (label, row.get_row_kind().value, row.number)


def expected_joined_and_ranked_batches():
    half = ELEMENTS // 2
    both = [(key, key + half) for key in range(half)]
    insert, delete = RowKind.INSERT.value, RowKind.DELETE.value
    before, after = RowKind.UPDATE_BEFORE.value, RowKind.UPDATE_AFTER.value
    changes = [
        change
        for first, second in both
        for change in (
            *(("top", insert, first), ("top", delete, first), ("top", insert, second)),
            *(("last", insert, first), ("last", before, first), ("last", after, second)),
            *(("total", first, first), ("total", first, first + second)),
        )
    ]
    joined = [("join", one, other) for pair in both for one in pair for other in pair]
    return [*joined, *changes]


# ---- iterations --------------------------------------------------------------------------------


def iteration(stream):
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    loop = stream.map(lambda n: (n, n % 3), pair).iterate()
    stepped = loop.map(lambda pair: (pair[0], pair[1] - 1), pair)
    loop.close_with(stepped.filter(lambda pair: pair[1] >= 0))
    return stepped.filter(lambda pair: pair[1] < 0)


def expected_iteration():
    return [(number, -1) for number in range(ELEMENTS)]


# ---- joins without windows, and rankings -------------------------------------------------------


def thirds(stream):
    return stream.filter(lambda n: n % 3 == 0).map(lambda n: n, Types.LONG())


def either(one, other):
    return (one, -1 if other is None else other)


def regular_join(stream):
    """Join two sides in which each key has two numbers, with a long time in between."""
    copy = stream.map(lambda n: n, Types.LONG())
    by_key = stream.join(copy).where(rare_key_of, Types.LONG()).equal_to(rare_key_of)
    return by_key.apply(either)


def expected_regular_join():
    half = ELEMENTS // 2
    both = [(key, key + half) for key in range(half)]
    return [(one, other) for pair in both for one in pair for other in pair]


def deadline_join(stream):
    by_key = stream.join(thirds(stream)).where(key_of, Types.LONG()).equal_to(key_of)
    return by_key.apply(either, how="left", deadline=Time.milliseconds(KEYS))


def expected_deadline_join():
    found = []
    for one in range(ELEMENTS):
        near = [n for n in (one - KEYS, one, one + KEYS) if n % 3 == 0 and 0 <= n < ELEMENTS]
        found += [(one, other) for other in near or [-1]]
    return found


def temporal_join(stream):
    by_key = stream.join_latest(thirds(stream)).where(key_of, Types.LONG()).equal_to(key_of)
    return by_key.apply(either, how="left", event_time=True)


def expected_temporal_join():
    return [
        (one, next((n for n in range(one, -1, -KEYS) if n % 3 == 0), -1)) for one in range(ELEMENTS)
    ]


def top_n(stream):
    return stream.key_by(key_of, Types.LONG()).top_n(3, lambda n: n, results="final")


def expected_top_n():
    return list(range(ELEMENTS - 3 * KEYS, ELEMENTS))


def deduplicated(stream):
    """Which of two numbers arrives first may differ, but their half does not."""
    first = stream.key_by(lambda n: n // 2, Types.LONG()).deduplicate()
    return first.map(lambda n: n // 2, Types.LONG())


def expected_deduplicated():
    return list(range(ELEMENTS // 2))


KINDS = {
    "window": (windows, expected_windows),
    "sessions": (sessions, expected_sessions),
    "timer": (timers, expected_timers),
    "transform": (transform, expected_transform),
    "broadcast": (broadcast, expected_broadcast),
    "async": (async_wait, expected_async_wait),
    "interval join": (interval_join, expected_interval_join),
    "pattern": (patterns, expected_patterns),
    "two inputs": (two_inputs, expected_two_inputs),
    "keyed batches": (keyed_batches, expected_keyed_batches),
    "window batches": (window_batches, expected_windows),
    "window aggregates": (window_aggregates, expected_windows),
    "iteration": (iteration, expected_iteration),
    "regular join": (regular_join, expected_regular_join),
    "deadline join": (deadline_join, expected_deadline_join),
    "temporal join": (temporal_join, expected_temporal_join),
    "top n": (top_n, expected_top_n),
    "deduplicate": (deduplicated, expected_deduplicated),
}


def results(kind, fate, options=None):
    """Return the job's results, and the expected ones."""
    build, expected = KINDS[kind]
    with build(numbers(fate, options or {})).execute_and_collect() as shown:
        return sorted(shown), sorted(expected())


def results_and_counts(build, fate):
    """Return the results of a job, and the counts of its last attempt, by operator."""
    options = {"penstock.metrics.reported-at-end": "true"}
    stream = build(numbers(fate, options, PacedNumbers(ELEMENTS, batches=10)))
    with stream.execute_and_collect() as shown:
        found = sorted(shown)
        totals = shown.get_job_client().handle.operator_totals()
    return found, {name: counts for (_, name), counts in totals.items()}

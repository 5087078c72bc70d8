"""Programs whose savepoints are stored for each release: see `golden.make`.

Each program reads the first half of its events, is stopped with a savepoint, and reads the rest
when it starts from the savepoint.  Uids, names and types must not change: the savepoints refer to
them.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from penstock.cep import CEP, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler
from penstock.common import Configuration, Duration, Row, Time, Types
from penstock.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    SourceFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.functions import AggregateFunction, CheckpointedFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.expressions import field
from penstock.table import DataTypes, Schema, StreamTableEnvironment

#: A number, a key and an amount; the timestamp of an event is its number in seconds.
EVENT = Types.ROW_NAMED(["number", "key", "amount"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
EVENTS = [Row(number=n, key="abc"[n // 2 % 3], amount=n * 0.5) for n in range(24)]
HALF = len(EVENTS) // 2
#: Set when a halting source has emitted the first half; it runs in the process of `golden.make`.
HALTED = threading.Event()
RESULT = Types.TUPLE([Types.STRING(), Types.STRING()])


class Events(SourceFunction, CheckpointedFunction):
    """Emit the events; with `halts`, emit the first half, and then wait to be stopped."""

    def __init__(self, halts):
        self.halts = halts

    def initialize_state(self, context):
        self.stopped = threading.Event()
        store = context.get_operator_state_store()
        self.position = store.get_list_state(ListStateDescriptor("position", Types.LONG()))
        self.next = next(iter(self.position.get()), 0)

    def snapshot_state(self, context):
        self.position.update([self.next])

    def run(self, ctx):
        while self.next < (HALF if self.halts else len(EVENTS)):
            with ctx.get_checkpoint_lock():
                time_ms = self.next * 1000
                ctx.collect_with_timestamp(EVENTS[self.next], time_ms)
                ctx.emit_watermark(time_ms - 1)
                self.next += 1
        if self.halts:
            HALTED.set()
            self.stopped.wait()

    def cancel(self):
        self.stopped.set()


@dataclass
class Visit:
    """A value without a declared type."""

    number: int
    tags: list[str]


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0.0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class AllStates(KeyedProcessFunction):
    """Store a value in each kind of keyed state; report all of it at the end."""

    def open(self, runtime_context):
        expiring = ValueStateDescriptor("expiring", Types.STRING())
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.days(36_500)).build())
        average = AggregatingStateDescriptor(
            "average", Average(), Types.TUPLE([Types.LONG(), Types.DOUBLE()])
        )
        largest = ReducingStateDescriptor("largest", max, Types.DOUBLE())
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.expiring = runtime_context.get_state(expiring)
        self.average = runtime_context.get_aggregating_state(average)
        self.largest = runtime_context.get_reducing_state(largest)
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self.amounts = runtime_context.get_map_state(
            MapStateDescriptor("amounts", Types.STRING(), Types.DOUBLE())
        )
        self.visits = runtime_context.get_list_state(
            ListStateDescriptor("visits", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.expiring.update((self.expiring.value() or "") + str(value.number % 10))
        self.average.add(value.amount)
        self.largest.add(value.amount)
        self.numbers.add(value.number)
        self.amounts.put(f"of {value.number % 4}", value.amount)
        self.visits.add(Visit(value.number, [value.key]))
        if value.number < HALF:  # so that timers fire only if they are restored
            ctx.timer_service().register_event_time_timer(60_000 + value.number % 2)
        yield ctx.get_current_key(), f"{value.number}: {self.count.value()}"

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), f"at {timestamp}: {self._all()}"

    def _all(self):
        return repr(
            (
                self.count.value(),
                self.expiring.value(),
                self.average.get(),
                self.largest.get(),
                list(self.numbers.get()),
                sorted(self.amounts.items()),
                list(self.visits.get()),
            )
        )


def states(events):
    """Return each kind of keyed state, and timers."""
    by_key = events.key_by(lambda event: event.key, Types.STRING())
    return by_key.process(AllStates(), RESULT).uid("states")


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, f"{window.start}-{window.end}: {sorted(event.number for event in elements)}"


def added(one, other):
    return Row(number=one.number, key=one.key, amount=one.amount + other.amount)


def windows(events):
    """Windows that hold a reduced value, a list, a session that merges, and a count."""
    amounts = events.key_by(lambda event: event.key, Types.STRING())
    tumbling = (
        amounts.window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(added)
        .uid("tumbling")
        .map(lambda event: (event.key, f"sum {event.amount}"), RESULT)
    )
    sliding = (
        amounts.window(SlidingEventTimeWindows.of(Time.seconds(12), Time.seconds(6)))
        .process(Contents(), RESULT)
        .uid("sliding")
    )
    sessions = (
        amounts.window(EventTimeSessionWindows.with_gap(Time.seconds(4)))
        .process(Contents(), RESULT)
        .uid("sessions")
    )
    counted = (
        amounts.count_window(5)
        .reduce(added)
        .uid("counted")
        .map(lambda event: (event.key, f"five {event.amount}"), RESULT)
    )
    return tumbling.union(sliding, sessions, counted)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.DOUBLE())


class Limits(KeyedBroadcastProcessFunction):
    """Count the events above the limit of their key; an event with an even number sets it."""

    def open(self, runtime_context):
        self.above = runtime_context.get_state(ValueStateDescriptor("above", Types.LONG()))

    def process_element(self, value, ctx):
        limits = ctx.get_broadcast_state(RULES)
        if value.number >= HALF:
            yield ctx.get_current_key(), f"limits {sorted(limits.items())}"
        # Before the savepoint the limit may still be in transit.
        if value.number < HALF or value.amount > (limits.get("limit") or 0):
            self.above.update((self.above.value() or 0) + 1)
        yield ctx.get_current_key(), f"{value.number}: {self.above.value()}"

    def process_broadcast_element(self, value, ctx):
        if value.number < 4:
            ctx.get_broadcast_state(RULES).put("limit", 2.0)
            ctx.get_broadcast_state(RULES).put(f"rule {value.number}", value.amount)


def broadcast(events):
    """Build broadcast state beside keyed state."""
    rules = events.filter(lambda event: event.number < 4).uid("rules").broadcast(RULES)
    by_key = events.key_by(lambda event: event.key, Types.STRING())
    return by_key.connect(rules).process(Limits(), RESULT).uid("limits")


LATE = OutputTag("timed out", RESULT)


class Climbs(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match, ctx):
        numbers = [event.number for part in match.values() for event in part]
        yield match["first"][0].key, f"match {numbers}"

    def process_timed_out_match(self, match, ctx):
        yield LATE, (match["first"][0].key, f"timed out {match['first'][0].number}")


def patterns(events):
    """Build partial matches, whose events are shared."""
    climbing = (
        Pattern.begin("first")
        .where(field("number") % 3 == 0)
        .followed_by_any("more")
        .where(lambda event, ctx: event.amount > ctx.first("first").amount + 1.0)
        .times(2)
        .within(Duration.of_seconds(9))
    )
    by_key = events.key_by(lambda event: event.key, Types.STRING())
    matches = CEP.pattern(by_key, climbing).process(Climbs(), RESULT).uid("climbs")
    return matches.union(matches.get_side_output(LATE))


QUERIES = {
    "group_by": "SELECT key, COUNT(*) AS amount, SUM(amount) AS total, MIN(number) AS least,"
    " COUNT(DISTINCT number % 4) AS kinds FROM events GROUP BY key",
    "top_n": "SELECT key, number, amount FROM (SELECT *, ROW_NUMBER() OVER"
    " (PARTITION BY key ORDER BY amount DESC) AS place FROM events) WHERE place <= 2",
    "deduplicate": "SELECT key, number FROM (SELECT *, ROW_NUMBER() OVER"
    " (PARTITION BY key, number % 5 ORDER BY moment) AS place FROM events) WHERE place = 1",
    "join": "SELECT `one`.number, other.number AS twice FROM events AS `one`"
    " JOIN events AS other ON other.number = 2 * `one`.number",
    "window": "SELECT key, window_start, SUM(amount) AS total FROM TABLE("
    "TUMBLE(TABLE events, DESCRIPTOR(moment), INTERVAL '10' SECOND))"
    " GROUP BY key, window_start, window_end",
    "over": "SELECT key, number, SUM(amount) OVER (PARTITION BY key ORDER BY moment"
    " ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS total FROM events",
}


def sql(query):
    """Return a program that runs a query."""

    def program(events):
        tables = StreamTableEnvironment.create(events.get_execution_environment())
        schema = (
            Schema.new_builder()
            .column("number", DataTypes.BIGINT())
            .column("key", DataTypes.STRING())
            .column("amount", DataTypes.DOUBLE())
            .column_by_metadata("moment", DataTypes.TIMESTAMP_LTZ(3), "rowtime")
            .watermark("moment", "SOURCE_WATERMARK()")
            .build()
        )
        tables.create_temporary_view("events", tables.from_data_stream(events, schema))
        return tables.to_changelog_stream(tables.sql_query(QUERIES[query]))

    return program


INCREMENTAL = {"execution.checkpointing.incremental": "true"}
IN_ROCKSDB = {"state.backend.type": "rocksdb"}
COMPRESSED = {"execution.checkpointing.snapshot-compression": "true"}
LOGGED = {"state.changelog.enabled": "true"}


@dataclass(frozen=True)
class Program:
    """A job whose state is stored.

    Attributes:
        build: Returns the results of a stream of events.
        options: Options of the job that writes the state and of the one that starts from it.
        retained: Whether a retained checkpoint is stored rather than a savepoint.
        parallelism: The parallelism with which a job starts from the state; the state is
        written with
            parallelism 1.
    """

    build: Callable[[DataStream], DataStream]
    options: dict[str, str]
    retained: bool = False
    parallelism: int = 2


PROGRAMS = {
    "states": Program(states, {}),
    "states_compressed": Program(states, COMPRESSED),
    "states_rocksdb": Program(states, IN_ROCKSDB),
    "states_rocksdb_files": Program(states, IN_ROCKSDB | INCREMENTAL, retained=True),
    "states_incremental": Program(states, INCREMENTAL, retained=True),
    "states_changelog": Program(states, LOGGED, retained=True),
    "windows": Program(windows, {}),
    "windows_rocksdb": Program(windows, IN_ROCKSDB),
    "broadcast": Program(broadcast, {}),
    "patterns": Program(patterns, {}),
    # Another parallelism would change the order in which records reach a key.
    **{f"sql_{query}": Program(sql(query), {}, parallelism=1) for query in QUERIES},
    **{f"sql_{query}_rocksdb": Program(sql(query), IN_ROCKSDB, parallelism=1) for query in QUERIES},
    **{
        f"sql_{query}_rocksdb_files": Program(
            sql(query), IN_ROCKSDB | INCREMENTAL, retained=True, parallelism=1
        )
        for query in ("deduplicate", "join", "top_n")
    },
}


def run(name, options, parallelism=1, halts=False):
    """Start the program of a name in this process and return its results."""
    program = PROGRAMS[name]
    configuration = Configuration()
    for key, value in {"execution.target": "in-process", **program.options, **options}.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    events = env.add_source(Events(halts), "events", EVENT).uid("events").set_parallelism(1)
    return program.build(events).execute_and_collect()


def results_from(name, directory, checkpoints):
    """Return the results of a job that starts from a savepoint, as sorted texts."""
    options = {
        "execution.state-recovery.path": str(directory),
        "execution.checkpointing.dir": str(checkpoints),
    }
    with run(name, options, PROGRAMS[name].parallelism) as results:
        return sorted(map(repr, results))

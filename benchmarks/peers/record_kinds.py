"""W6: a keyed fold over records of one kind, as a penstock job or as one plain loop.

``BENCH["workload"]`` is ``W6-KIND``; with ``BENCH["root"]`` "plain" a loop calls the functions of
the job.  The classes are the program's own: they are in the file that is run.
"""

import dataclasses
import datetime
import decimal
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import counted_paths
from penstock.common import Configuration, Row, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DiscardingSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import KeyedProcessFunction, MapFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor

BENCH = json.loads(os.environ["BENCH"])
KEYS = 10_000
MARKS = BENCH["marks"]


def mark(**values):
    with Path(MARKS).open("a") as out:
        out.write(json.dumps(values) + "\n")


@dataclasses.dataclass
class Order:
    user: int
    amount: float
    note: str


@dataclasses.dataclass(slots=True)
class SlottedOrder:
    user: int
    amount: float
    note: str


class PlainOrder:
    def __init__(self, user, amount, note):
        self.user = user
        self.amount = amount
        self.note = note


class PlainSlottedOrder:
    __slots__ = ("amount", "note", "user")

    def __init__(self, user, amount, note):
        self.user = user
        self.amount = amount
        self.note = note


class TupleOrder(NamedTuple):
    user: int
    amount: float
    note: str


DAY = datetime.datetime(2026, 1, 1)
SECOND = datetime.timedelta(seconds=1)
CENT = decimal.Decimal("0.01")


def merged(cls):
    return lambda a, b: cls(a.user, a.amount + b.amount, b.note)


def merge_dicts(a, b):
    return {"user": a["user"], "amount": a["amount"] + b["amount"], "tags": b["tags"]}


#: kind → the factory of a record, its declared type, its key, and the merge of two records.
FOLDS: dict[str, tuple[Any, Any, Any, Any]] = {
    "dataclass": (lambda n: Order(n % KEYS, 0.5, "x"), None, lambda r: r.user, merged(Order)),
    "slots": (
        lambda n: SlottedOrder(n % KEYS, 0.5, "x"),
        None,
        lambda r: r.user,
        merged(SlottedOrder),
    ),
    "plain": (
        lambda n: PlainOrder(n % KEYS, 0.5, "x"),
        None,
        lambda r: r.user,
        merged(PlainOrder),
    ),
    "plain-slots": (
        lambda n: PlainSlottedOrder(n % KEYS, 0.5, "x"),
        None,
        lambda r: r.user,
        merged(PlainSlottedOrder),
    ),
    "named-tuple": (
        lambda n: TupleOrder(n % KEYS, 0.5, "x"),
        None,
        lambda r: r.user,
        merged(TupleOrder),
    ),
    "dict": (
        lambda n: {"user": n % KEYS, "amount": 1, "tags": ["a", "b"]},
        None,
        lambda r: r["user"],
        merge_dicts,
    ),
    "times": (
        lambda n: (n % KEYS, DAY + SECOND, CENT),
        None,
        lambda r: r[0],
        lambda a, b: (a[0], b[1], a[2] + b[2]),
    ),
    "row": (
        lambda n: Row(n % KEYS, 1, "x"),
        Types.ROW([Types.LONG(), Types.LONG(), Types.STRING()]),
        lambda r: r[0],
        lambda a, b: Row(a[0], a[1] + b[1], b[2]),
    ),
    "row-by-name": (
        lambda n: Row(user=n % KEYS, amount=1, note="x"),
        Types.ROW_NAMED(["user", "amount", "note"], [Types.LONG(), Types.LONG(), Types.STRING()]),
        lambda r: r.user,
        lambda a, b: Row(user=a.user, amount=a.amount + b.amount, note=b.note),
    ),
    "method-key": (
        lambda n: ("Word" + str(n % KEYS), 1),
        None,
        lambda r: r[0].lower(),
        lambda a, b: (a[0], a[1] + b[1]),
    ),
}


class NoState(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], value[1] + 1


class OneValue(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + value[1]
        self.count.update(count)
        yield value[0], count


class OneMap(KeyedProcessFunction):
    def open(self, runtime_context):
        self.counts = runtime_context.get_map_state(
            MapStateDescriptor("counts", Types.LONG(), Types.LONG())
        )

    def process_element(self, value, ctx):
        field = value[1] & 3
        count = (self.counts.get(field) or 0) + 1
        self.counts.put(field, count)
        yield value[0], count


class DictInValue(KeyedProcessFunction):
    """Mutates a dict of its value."""

    def open(self, runtime_context):
        self.counts = runtime_context.get_state(
            ValueStateDescriptor("counts", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        counts = self.counts.value()
        if counts is None:
            counts = {}
        field = value[1] & 3
        counts[field] = counts.get(field, 0) + 1
        self.counts.update(counts)
        yield value[0], counts[field]


class ListInMap(KeyedProcessFunction):
    """Mutates a list of its map."""

    def open(self, runtime_context):
        self.latest = runtime_context.get_map_state(
            MapStateDescriptor("latest", Types.LONG(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        field = value[1] & 3
        latest = self.latest.get(field)
        if latest is None:
            latest = []
        latest.append(value[1])
        del latest[:-4]
        self.latest.put(field, latest)
        yield value[0], latest[0]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Timers(KeyedProcessFunction):
    """Registers a timer for each second of a key; event time advances a millisecond per record."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] // 1000 * 1000 + 999)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


PROCESSES = {
    "process": NoState,
    "value-state": OneValue,
    "map-state": OneMap,
    "dict-in-value": DictInValue,
    "list-in-map": ListInMap,
    "timers": Timers,
}


def marking(function):
    """Return a map by ``function`` that marks the moment of its opening, just before its first
    record.

    The function is its method: each record costs the same calls as in the loop.
    """

    def opened(self, runtime_context):
        mark(first=time.time_ns())

    cls = type("Marking", (MapFunction,), {"open": opened, "map": staticmethod(function)})
    return cls()


def numbers(env):
    return env.from_source(
        NumberSequenceSource(0, BENCH["n"] - 1),
        WatermarkStrategy.no_watermarks(),
        "numbers",
        Types.LONG(),
    )


def job(kind):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({counted_paths.OPTION: "true"})
    )
    env.set_parallelism(BENCH["parallelism"])
    if kind in FOLDS:
        make, declared, key, merge = FOLDS[kind]
        records = numbers(env).map(marking(make), declared)
        records.key_by(key).reduce(merge).sink_to(DiscardingSink())
    else:
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        records = numbers(env).map(marking(lambda n: (n % KEYS, n)), pair)
        if kind == "timers":
            strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
                SecondField()
            )
            records = records.assign_timestamps_and_watermarks(strategy)
        keyed = records.key_by(lambda r: r[0], Types.LONG())
        keyed.process(PROCESSES[kind](), pair).sink_to(DiscardingSink())
    paths = counted_paths.run(env, f"W6-{kind}")
    mark(paths=paths)


def loop(kind):
    """Measure the cost of the job's functions when a loop calls them."""
    state: dict[Any, Any] = {}
    if kind in FOLDS:
        make, _, key, merge = FOLDS[kind]
        for n in range(BENCH["n"]):
            record = make(n)
            k = key(record)
            before = state.get(k)
            state[k] = record if before is None else merge(before, record)
    elif kind == "process":
        function = NoState()
        for n in range(BENCH["n"]):
            for _ in function.process_element((n % KEYS, n), None):
                pass
    elif kind == "value-state":

        def process(value):
            count = (state.get(value[0]) or 0) + value[1]
            state[value[0]] = count
            yield value[0], count

        for n in range(BENCH["n"]):
            for _ in process((n % KEYS, n)):
                pass
    elif kind == "map-state":

        def process(value):
            counts = state.setdefault(value[0], {})
            field = value[1] & 3
            count = (counts.get(field) or 0) + 1
            counts[field] = count
            yield value[0], count

        for n in range(BENCH["n"]):
            for _ in process((n % KEYS, n)):
                pass
    elif kind in ("dict-in-value", "list-in-map"):
        process = dict_in_value if kind == "dict-in-value" else list_in_map
        for n in range(BENCH["n"]):
            for _ in process(state, (n % KEYS, n)):
                pass
    else:
        timers()


def dict_in_value(state, value):
    counts = state.get(value[0])
    if counts is None:
        counts = state[value[0]] = {}
    field = value[1] & 3
    counts[field] = counts.get(field, 0) + 1
    yield value[0], counts[field]


def list_in_map(state, value):
    lists = state.setdefault(value[0], {})
    latest = lists.setdefault(value[1] & 3, [])
    latest.append(value[1])
    del latest[:-4]
    yield value[0], latest[0]


def timers():
    """Emulate timers by a heap without duplicates."""
    import heapq

    heap: list[tuple[int, int]] = []
    known: set[tuple[int, int]] = set()
    for n in range(BENCH["n"]):
        timer = (n // 1000 * 1000 + 999, n % KEYS)
        if timer not in known:
            known.add(timer)
            heapq.heappush(heap, timer)
        while heap and heap[0][0] < n:
            known.remove(heapq.heappop(heap))


def main():
    kind = BENCH["workload"].removeprefix("W6-")
    if BENCH["root"] == "plain":
        mark(first=time.time_ns())
        loop(kind)
    else:
        job(kind)
    mark(last=time.time_ns())


if __name__ == "__main__":
    main()

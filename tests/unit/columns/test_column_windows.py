"""Windows over batches of columns emit the rows of operators that process single records.

Goal: tumbling and sliding windows emit the same rows, drop the same late records and leave the same
state whether they get batches or their records.  Method: one operator gets generated batches and
watermarks, another one the rows; a trigger of another class makes it the general operator where
needed.
"""

import random

import penstock.aggregates as agg
import pyarrow as pa
import pytest
from penstock.aggregates.resolution import key_fields, named_aggregates, result_type
from penstock.aggregates.windows import KeyedWindowRows
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.state import AggregatingStateDescriptor
from penstock.datastream.window import (
    EventTimeTrigger,
    MissingTimestampError,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.expressions import as_tuple, field
from penstock.expressions.computed import computed
from penstock.graph import operators
from penstock.network import runtime
from penstock.taskexecutor.windowing.column_windows import ColumnWindowOperator
from penstock.taskexecutor.windowing.window_operator import WindowOperator
from penstock.testing import KeyedOneInputStreamOperatorTestHarness, redistribute

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns")

MAX_WATERMARK = 2**63 - 1
ROW = Types.ROW_NAMED(
    ["k", "t", "i", "x"], [Types.INT(), Types.STRING(), Types.LONG(), Types.DOUBLE()]
)
SCHEMA = batch_schema(ROW)
BY_NUMBER = field("k")


class Largest(AggregateFunction):
    """The two largest values, whose accumulator is changed in place."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        accumulator.sort(reverse=True)
        del accumulator[2:]
        return accumulator

    def get_result(self, accumulator):
        return sum(accumulator)

    def merge(self, acc_a, acc_b):
        return sorted(acc_a + acc_b, reverse=True)[:2]


AGGREGATES = {
    "count": agg.count(),
    "high": agg.count(where=field("k") > 1),
    "sum": agg.sum("i"),
    "floats": agg.sum("x"),
    "mean": agg.mean("x"),
    "min": agg.min("i"),
    "text": agg.max_by("t", "i"),
    "first": agg.first("i"),
    "last": agg.last("t"),
    "distinct": agg.count_distinct("i"),
    "about": agg.count_distinct("i", approximate=True),
    "all": agg.collect("i"),
    "largest": agg.user_defined(Largest(), "i", output_type=Types.LONG()),
}
WINDOWS = {
    "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(10)),
    "shifted": TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(3)),
    "sliding": SlidingEventTimeWindows.of(Time.milliseconds(12), Time.milliseconds(4)),
    "no multiple": SlidingEventTimeWindows.of(
        Time.milliseconds(11), Time.milliseconds(4), Time.milliseconds(1)
    ),
}


def inputs_of(seed):
    """Return batches, and how far event time is behind each."""
    chance = random.Random(seed)

    def row():
        return (
            chance.randrange(4),
            chance.choice("abc"),
            chance.choice([None, *range(-5, 6)]),
            chance.choice([None, 0.1, 0.2, -0.3, 1e17]),
            chance.randrange(-20, 60),
        )

    return [
        ([row() for _ in range(chance.randrange(8, 40))], chance.randrange(-20, 70))
        for _ in range(chance.randrange(1, 5))
    ]


class OtherEventTimeTrigger(EventTimeTrigger):
    """The same trigger under another name."""


def batch_of(rows):
    *columns, times = zip(*rows, strict=True)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, SCHEMA, strict=True)]
    data = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return ColumnBatch(data, ROW, pa.array(times, pa.int64()))


def harness(windows, key=BY_NUMBER, trigger=None, aggregates=AGGREGATES, late_tag=None, **options):
    function, fields = named_aggregates(aggregates, ROW, "aggregate")
    selector = computed(key, "key_by", [ROW])
    keys = key_fields(selector, None, ROW, None, "aggregate")
    bounds = [(name, Types.LONG()) for name in ("window_start", "window_end")]
    of_rows = result_type([*zip(keys.names, keys.types, strict=True), *bounds, *fields], "test")
    descriptor = operators.Window(
        function,
        function_kind="aggregate",
        assigner=windows,
        trigger=trigger or EventTimeTrigger(),
        window_function=KeyedWindowRows(keys, of_rows, has_bounds=True),
        late_tag=late_tag,
        state_descriptor=AggregatingStateDescriptor(
            "contents", function, Types.PICKLED_BYTE_ARRAY()
        ),
    )
    return KeyedOneInputStreamOperatorTestHarness(descriptor, selector, **options)


def shown(records):
    return sorted((record.timestamp, repr(list(record.value))) for record in records)


def process(test, rows, *, in_columns):
    batch = batch_of(rows)
    if in_columns:
        test.operator.process_batch(batch)
        test.operator.flush()
        return
    for row, timestamp in zip(batch.rows(), batch.timestamp_list(), strict=True):
        test.process_element(row, timestamp)


def emitted(windows, inputs, *, in_columns, key=BY_NUMBER, trigger=None, late_tag="late"):
    """Return the rows after each watermark with the entries of state, and the late records."""
    found = []
    with harness(windows, key, trigger, late_tag=late_tag) as test:
        kind = WindowOperator if trigger is not None else ColumnWindowOperator
        assert isinstance(test.operator, kind)
        reached = -(2**63)
        for rows, watermark in [*inputs, (None, MAX_WATERMARK)]:
            if rows is not None:
                process(test, rows, in_columns=in_columns)
                found.append(test.num_keyed_state_entries)
            reached = max(reached, watermark)
            before = len(test.records)
            test.process_watermark(reached)
            found.append(shown(test.records[before:]))
        if in_columns:
            assert test.operator.columns.batches == len(inputs)
            assert test.operator.columns.given_up == 0
        late = test.output.side_output("late")
        assert test.num_keyed_state_entries == 0
        return found, [(timestamp, repr(list(row))) for row, timestamp in late]


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("seed", range(10))
def test_rows_are_those_of_records(name, seed):
    windows, inputs = WINDOWS[name], inputs_of(seed)
    by_columns = emitted(windows, inputs, in_columns=True)
    assert by_columns == emitted(windows, inputs, in_columns=False)


@pytest.mark.parametrize("name", ["tumbling", "sliding"])
@pytest.mark.parametrize("seed", range(10, 20))
def test_rows_are_those_of_the_general_operator(name, seed):
    windows, inputs = WINDOWS[name], inputs_of(seed)
    key = as_tuple(field("t"), field("k"))
    found, late = emitted(windows, inputs, in_columns=True, key=key)
    trigger = OtherEventTimeTrigger()
    expected = emitted(windows, inputs, in_columns=False, key=key, trigger=trigger)
    # The state has entries of another kind, too.
    assert [f for f in found if isinstance(f, list)] == [
        f for f in expected[0] if isinstance(f, list)
    ]
    assert late == expected[1]


def test_late_records_are_counted_without_a_side_output():
    rows = [(n % 4, "a", n, 0.5, n) for n in range(40)]
    for in_columns in (True, False):
        with harness(WINDOWS["tumbling"]) as test:
            test.process_watermark(19)
            process(test, rows, in_columns=in_columns)
            assert test.operator.late_records_dropped.get_count() == 20
            test.process_watermark(MAX_WATERMARK)
            assert len(test.records) == 8


def test_rows_of_many_keys_leave_as_a_batch():
    batches = []
    with harness(WINDOWS["tumbling"], aggregates={"count": agg.count()}) as test:
        test.output.collect_batch = batches.append
        process(test, [(n % 16, "a", n, 0.5, n % 10) for n in range(64)], in_columns=True)
        test.process_watermark(9)
        assert [len(batch) for batch in batches] == [16]
        assert batches[0].timestamps == 9
        assert {tuple(row) for row in batches[0].rows()} == {(n, 0, 10, 4) for n in range(16)}


def test_records_without_timestamps_are_refused():
    batch = batch_of([(1, "a", 1, 0.5, 0)] * 10).with_timestamps(-(2**63))
    with harness(WINDOWS["tumbling"]) as test:
        test.operator.process_batch(batch)
        with pytest.raises(MissingTimestampError):
            test.operator.flush()


def test_times_beyond_what_columns_count_with_are_taken_one_by_one():
    rows = [(1, "a", 1, 0.5, 2**62 + n) for n in range(10)]
    with harness(WINDOWS["tumbling"]) as test:
        process(test, rows, in_columns=True)
        assert test.operator.columns.batches == 0
        test.process_watermark(MAX_WATERMARK)
        assert sum(record.value["count"] for record in test.records) == 10


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_open_windows_go_with_their_keys_to_another_parallelism(backend):
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    options = {"configuration": {"state.backend.type": backend}}
    rows = [(n % 50, "abc"[n % 3], n % 11, n / 4, n % 30) for n in range(300)]
    windows = WINDOWS["sliding"]
    with harness(windows, **options) as test:
        process(test, rows, in_columns=True)
        snapshot = test.snapshot(1)
        test.process_watermark(MAX_WATERMARK)
        expected = shown(test.records)
    found = []
    for subtask, part in enumerate(redistribute([snapshot], 2)):
        test = harness(windows, subtask=subtask, parallelism=2, **options)
        test.initialize_state(part)
        with test:
            test.process_watermark(MAX_WATERMARK)
            assert test.records
            found += shown(test.records)
    assert sorted(found) == expected


def test_batches_wait_until_a_watermark_or_a_barrier():
    rows = [(n % 4, "a", n, 0.5, n % 10) for n in range(40)]
    for event in (lambda test: test.process_watermark(3), lambda test: test.snapshot(1)):
        with harness(WINDOWS["tumbling"]) as test:
            for _ in range(3):
                test.operator.process_batch(batch_of(rows))
            assert test.num_keyed_state_entries == 0
            event(test)
            assert test.num_keyed_state_entries == 4
            assert test.operator.columns.batches == 1
            assert test.operator.columns.rows == 120

"""The local combine before an exchange does not change the results.

Goal: records that are combined by key before they are sent leave the same accumulators, rows and
counts of late records.  Method: generated batches are combined, split, encoded and decoded, and
merged by one operator; another one gets the records themselves.  Counters show that rows were
combined.
"""

import math
import random
from types import SimpleNamespace

import pyarrow as pa
import pytest
from penstock import aggregates as agg
from penstock.aggregates.combination import combination_of, why_not_combined
from penstock.aggregates.resolution import key_fields, named_aggregates, result_type
from penstock.aggregates.windows import KeyedWindowRows
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.combining import Combiner
from penstock.columns.exchange import BatchExchange, KeyOfBatches, ReceivedBatches
from penstock.columns.keyed_columns import keyed_columns
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.datastream.state import AggregatingStateDescriptor
from penstock.datastream.window import (
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.errors import CorruptStreamError
from penstock.expressions import as_tuple, field
from penstock.expressions.computed import computed
from penstock.expressions.evaluation import Evaluation
from penstock.expressions.functions import bound_function
from penstock.graph import operators
from penstock.network import runtime
from penstock.taskexecutor.task.rescaled_input import RescaledInput
from penstock.testing import KeyedOneInputStreamOperatorTestHarness

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns")

MAX_WATERMARK = 2**63 - 1
ROW = Types.ROW_NAMED(
    ["k", "t", "i", "x", "b"],
    [Types.INT(), Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.BOOLEAN()],
)
SCHEMA = batch_schema(ROW)
BY_NUMBER = field("k")
BY_TWO = as_tuple(field("t"), field("k") % 2)
WHERE = field("k") > 2

#: Windows whose panes may be combined, too.
UNORDERED = {
    "count": agg.count(),
    "count_of": agg.count("i"),
    "count_where": agg.count(where=WHERE),
    "sum": agg.sum("i"),
    "sum_of_computed": agg.sum(field("k") * 3),
    "sum_where": agg.sum("i", where=field("b")),
    "mean": agg.mean("i"),
    "mean_where": agg.mean("k", where=WHERE),
    "min": agg.min("i"),
    "max": agg.max("k"),
    "max_where": agg.max("i", where=WHERE),
    "min_of_floats": agg.min("x"),
    "max_of_texts": agg.max("t"),
}
AGGREGATES = UNORDERED | {
    "first": agg.first("t"),
    "first_where": agg.first("x", where=WHERE),
    "last": agg.last("x"),
    "last_where": agg.last("t", where=field("b")),
    "min_by": agg.min_by("t", "i"),
    "max_by": agg.max_by("b", "x"),
    "max_by_text": agg.max_by("i", "t", where=WHERE),
}
WINDOWS = {
    "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(3)),
    "sliding": SlidingEventTimeWindows.of(Time.milliseconds(12), Time.milliseconds(4)),
    "no multiple": SlidingEventTimeWindows.of(
        Time.milliseconds(15), Time.milliseconds(6), Time.milliseconds(1)
    ),
}


def aggregate_of(aggregates, key):
    function, fields = named_aggregates(aggregates, ROW, "aggregate")
    selector = computed(key, "key_by", [ROW])
    keys = key_fields(selector, None, ROW, ["p", "q"] if key is BY_TWO else None, "aggregate")
    return function, fields, selector, keys


def running(aggregates=AGGREGATES, key=BY_NUMBER, *, is_running=False):
    function, fields, selector, keys = aggregate_of(aggregates, key)
    rows = result_type([*zip(keys.names, keys.types, strict=True), *fields], "test")
    descriptor = operators.Aggregate(
        function, key_fields=keys, result_type=rows, is_running=is_running
    )
    return descriptor, selector


def windowed(windows, aggregates=AGGREGATES, key=BY_NUMBER, late_tag=None):
    function, fields, selector, keys = aggregate_of(aggregates, key)
    bounds = [(name, Types.LONG()) for name in ("window_start", "window_end")]
    rows = result_type([*zip(keys.names, keys.types, strict=True), *bounds, *fields], "test")
    descriptor = operators.Window(
        function,
        function_kind="aggregate",
        assigner=windows,
        trigger=EventTimeTrigger(),
        window_function=KeyedWindowRows(keys, rows, has_bounds=True),
        late_tag=late_tag,
        state_descriptor=AggregatingStateDescriptor(
            "contents", function, Types.PICKLED_BYTE_ARRAY()
        ),
    )
    return descriptor, selector


class Sender:
    """The exchange of one sender, and the decoder of its receivers."""

    def __init__(self, descriptor, selector, num_channels=1):
        combination = combination_of(descriptor)
        evaluation = Evaluation()
        select = bound_function(selector, "get_key")
        keys = KeyOfBatches(
            evaluation.over_columns(evaluation.program(select, 1, (ROW,))),
            None,
            None,
            128,
            num_channels,
        )
        columns = keyed_columns(
            evaluation,
            select,
            None,
            combination.aggregates.arguments,
            combination.key_fields,
            (ROW,),
        )
        self.combiner = Combiner(combination, columns, None, 128, num_channels)
        self.exchange = BatchExchange(ROW, keys, combiner=self.combiner)
        self.received = ReceivedBatches(ROW, combination.declared)

    def send(self, batch):
        """Send a batch; return the batches that arrive, with their channels."""
        return [
            (channel, part if record is None else self.received.decode(record[5:]))
            for channel, part, record in self.exchange.split(batch)
        ]


def batch_of(rows):
    *columns, times = zip(*rows, strict=True)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, SCHEMA, strict=True)]
    data = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return ColumnBatch(data, ROW, pa.array(times, pa.int64()))


def rows_of(chance, count=200):
    return [
        (
            chance.randrange(6),
            chance.choice([None, "", "a", "b", "ä"]),
            chance.choice([None, *range(-5, 6)]),
            chance.choice([None, 0.5, -0.25, math.inf]),
            chance.choice([None, True, False]),
            chance.randrange(-20, 60),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("key", [BY_NUMBER, BY_TWO], ids=["one field", "two fields"])
@pytest.mark.parametrize("seed", range(8))
def test_merged_accumulators_are_those_of_records(key, seed):
    chance = random.Random(seed)
    batches = [batch_of(rows_of(chance)) for _ in range(3)]
    descriptor, selector = running(key=key)
    sender = Sender(descriptor, selector)
    with KeyedOneInputStreamOperatorTestHarness(descriptor, selector) as test:
        for batch in batches:
            ((_, found),) = sender.send(batch)
            assert len(found) < len(batch)
            test.operator.process_batch(found)
            test.operator.flush()
        assert test.operator.combined.batches == 3
        merged = last_rows_by_key(test, key)
    assert sender.combiner.rows == 600
    with KeyedOneInputStreamOperatorTestHarness(*running(key=key)) as test:
        for batch in batches:
            for row, timestamp in zip(batch.rows(), batch.timestamp_list(), strict=True):
                test.process_element(row, timestamp)
        assert merged == last_rows_by_key(test, key)


def last_rows_by_key(test, key):
    size = 2 if key is BY_TWO else 1
    return {tuple(r.value)[:size]: (repr(list(r.value)), r.timestamp) for r in test.records}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("seed", range(8))
def test_merged_windows_are_those_of_records(name, seed):
    aggregates = AGGREGATES if name == "tumbling" else UNORDERED
    chance = random.Random(seed)
    inputs = [(batch_of(rows_of(chance)), watermark) for watermark in (-5, 30, MAX_WATERMARK)]
    found = []
    for is_combined in (True, False):
        descriptor, selector = windowed(WINDOWS[name], aggregates)
        sender = Sender(descriptor, selector)
        with KeyedOneInputStreamOperatorTestHarness(descriptor, selector) as test:
            for batch, watermark in inputs:
                if is_combined:
                    for _, part in sender.send(batch):
                        test.operator.process_batch(part)
                else:
                    for row, timestamp in zip(batch.rows(), batch.timestamp_list(), strict=True):
                        test.process_element(row, timestamp)
                test.process_watermark(watermark)
            late = test.operator.late_records_dropped.get_count()
            found.append((sorted((r.timestamp, repr(list(r.value))) for r in test.records), late))
            assert test.num_keyed_state_entries == 0
        assert sender.combiner.rows == (600 if is_combined else 0)
    assert found[0] == found[1]
    assert found[0][1] > 0


@pytest.mark.parametrize("key", [BY_NUMBER, BY_TWO], ids=["one field", "two fields"])
def test_combined_rows_go_where_their_records_go(key):
    descriptor, selector = running(UNORDERED, key)
    batch = batch_of(rows_of(random.Random(1)))
    sender = Sender(descriptor, selector, 3)
    combined = sender.send(batch)
    assert sender.combiner.rows == len(batch)
    plain = Sender(descriptor, selector, 3)
    plain.exchange.combiner = None
    select = bound_function(selector, "get_key")

    def channels_of(parts, key_of):
        return {key_of(row): channel for channel, part in parts for row in part.rows()}

    size = 2 if key is BY_TWO else 1
    by_record = channels_of(plain.send(batch), select)
    by_combined = channels_of(
        combined, lambda row: tuple(row)[:size] if size > 1 else next(iter(row))
    )
    assert by_combined == by_record


def test_a_sum_beyond_64_bits_is_left_to_the_receiver():
    descriptor, selector = running({"sum": agg.sum("i")})
    sender = Sender(descriptor, selector)
    batch = batch_of([(1, "a", 2**62, 0.5, True, n) for n in range(100)])
    ((_, found),) = sender.send(batch)
    assert found.declared == ROW
    assert sender.combiner.rows == 0
    with KeyedOneInputStreamOperatorTestHarness(descriptor, selector) as test:
        test.operator.process_batch(found)
        test.operator.flush()
        assert [record.value["sum"] for record in test.records] == [100 * 2**62]


def test_nothing_is_combined_that_needs_its_own_records():
    descriptor, selector = windowed(WINDOWS["tumbling"], UNORDERED)
    sender = Sender(descriptor, selector)
    rows = rows_of(random.Random(2))
    for batch in (
        batch_of(rows[:63]),
        batch_of(rows).with_timestamps(-(2**63)),
        batch_of([(n, *row[1:5], n) for n, row in enumerate(rows)]),
    ):
        assert all(part.declared == ROW for _, part in sender.send(batch))
    assert sender.combiner.rows == 0


def test_combining_stops_when_nearly_every_row_has_its_own_key():
    descriptor, selector = running({"count": agg.count()})
    sender = Sender(descriptor, selector)

    def send(distinct):
        batch = batch_of([(n % distinct, "a", n, 0.5, True, n) for n in range(20_000)])
        return sum(len(part) for _, part in sender.send(batch))

    assert [send(10) for _ in range(5)] == [10] * 5
    assert not sender.combiner.is_off
    assert [send(17_000) for _ in range(5)] == [20_000] * 5
    assert sender.combiner.is_off
    assert send(10) == 20_000
    assert sender.combiner.rows == 100_000


def test_combining_stops_when_each_receiver_gets_few_rows_of_a_batch():
    descriptor, selector = running({"count": agg.count()})
    sender = Sender(descriptor, selector, 128)
    batch = batch_of([(n % 500, "a", n, 0.5, True, n) for n in range(1000)])
    for _ in range(100):
        assert not sender.combiner.is_off
        assert sender.combiner.split(batch) is None
    assert sender.combiner.is_off
    assert sender.combiner.rows == 0


@pytest.mark.parametrize(
    ("aggregate", "reason"),
    [
        (agg.sum("x"), "sum of floats"),
        (agg.mean("x"), "mean of floats"),
        (agg.max("b"), "orders"),
        (agg.collect("i"), "collect"),
        (agg.count_distinct("i"), "count_distinct"),
        (agg.count_distinct("i", approximate=True), "approximate_distinct"),
    ],
)
def test_aggregates_that_are_not_combined_say_why(aggregate, reason):
    descriptor, _ = running({"all": agg.count(), "one": aggregate})
    assert reason in why_not_combined(descriptor)
    assert combination_of(descriptor) is None


def test_operators_that_need_every_record_say_why():
    assert "emits a row" in why_not_combined(running(is_running=True)[0])
    sliding = WINDOWS["sliding"]
    assert "late" in why_not_combined(windowed(sliding, UNORDERED, late_tag="late")[0])
    assert "panes" in why_not_combined(windowed(sliding, {"one": agg.last("i")})[0])
    assert "no aggregates" in why_not_combined(SimpleNamespace())


def test_a_receiver_that_cannot_merge_refuses_combined_rows():
    descriptor, selector = running({"count": agg.count()})
    sender = Sender(descriptor, selector)
    record = next(sender.exchange.split(batch_of(rows_of(random.Random(3)))))[2]
    with pytest.raises(CorruptStreamError, match="combined"):
        ReceivedBatches(ROW).decode(record[5:])


@pytest.mark.parametrize("key", [BY_NUMBER, BY_TWO], ids=["one field", "two fields"])
def test_combined_rows_in_flight_go_to_the_subtasks_of_another_parallelism(key, tmp_path):
    descriptor, selector = running(UNORDERED, key)
    batch = batch_of(rows_of(random.Random(4)))
    records = [record for _, _, record in Sender(descriptor, selector).exchange.split(batch)]
    expected = dict(Sender(descriptor, selector, 3).send(batch))
    gate = SimpleNamespace(type=ROW, input_number=0, combination=combination_of(descriptor))
    head = SimpleNamespace(
        descriptor=descriptor, name="aggregate", key_selectors=(selector,), key_type=None
    )
    config = SimpleNamespace(gates=[gate], operators=[head])
    for subtask in range(3):
        found = []
        target = SimpleNamespace(process_batch=found.append)
        chain = SimpleNamespace(
            get_input=lambda _, target=target: target,
            contexts=[SimpleNamespace(evaluation=Evaluation())],
            combined_type=lambda gate: gate.combination.declared,
        )
        environment = SimpleNamespace(
            temp_directory=lambda: str(tmp_path),
            parallelism=3,
            max_parallelism=128,
            subtask=subtask,
            task_name="task",
        )
        channel = SimpleNamespace(gate=0, is_keyed=True)
        RescaledInput(config, chain, environment).process(channel, b"".join(records))
        assert [part.data for part in found] == (
            [expected[subtask].data] if subtask in expected else []
        )
    assert expected

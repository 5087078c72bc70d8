"""Accumulators in columns: the rows and the state of accumulators by key.

Goal: named aggregates emit the same rows, and snapshots have the same state, whether the operator
gets batches, whose accumulators stay in columns, or single records.  Method: two operators get
generated records, one mostly as batches, the other one by one; between the phases each is restored
at another parallelism, at some places from the snapshot of the other way.
"""

import random
from types import SimpleNamespace

import pyarrow as pa
import pytest
from penstock import aggregates as agg
from penstock.aggregates.resolution import key_fields, named_aggregates, result_type
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.exchange import KeyOfBatches
from penstock.common.typeinfo import Types
from penstock.expressions import as_tuple, field
from penstock.expressions.computed import computed
from penstock.expressions.evaluation import Evaluation
from penstock.expressions.functions import bound_function
from penstock.graph import operators
from penstock.network import runtime
from penstock.taskexecutor.operators import column_groups
from penstock.taskexecutor.state.snapshots.snapshot import serialised
from penstock.taskexecutor.task.state_lookup import StateLookup
from penstock.testing import KeyedOneInputStreamOperatorTestHarness, redistribute

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns")

ROW = Types.ROW_NAMED(
    ["k", "t", "i", "x"], [Types.INT(), Types.STRING(), Types.LONG(), Types.DOUBLE()]
)
SCHEMA = batch_schema(ROW)
KEYS = {
    "number": field("k"),
    "text": field("t"),
    "both": as_tuple(field("t"), field("k")),
    "numbers": as_tuple(field("k"), field("k") % 3),
    "condition": field("k") > 1,
}
AGGREGATES = {
    "count": agg.count(),
    "count_where": agg.count(where=field("k") > 1),
    "count_of_texts": agg.count("t"),
    "sum": agg.sum("i"),
    "sum_where": agg.sum("i", where=field("k") > 1),
    "sum_of_floats": agg.sum("x"),
    "mean": agg.mean("i"),
    "mean_of_floats": agg.mean("x"),
    "min": agg.min("i"),
    "max": agg.max("i"),
    "max_where": agg.max("i", where=field("k") > 1),
    "min_of_floats": agg.min("x"),
    "max_of_texts": agg.max("t"),
    "first": agg.first("t"),
    "last": agg.last("i"),
    "max_by": agg.max_by("t", "i"),
}


class Running:
    """All subtasks of an operator."""

    def __init__(self, key, aggregates, emit="running", parts=1, snapshots=(), **options):
        function, fields = named_aggregates(aggregates, ROW, "aggregate")
        selector = computed(KEYS[key], "key_by", [ROW])
        keys = key_fields(selector, None, ROW, None, "aggregate")
        of_rows = result_type([*zip(keys.names, keys.types, strict=True), *fields], "aggregate")
        descriptor = operators.Aggregate(
            function, key_fields=keys, result_type=of_rows, is_running=emit == "running"
        )
        self.subtasks = [
            KeyedOneInputStreamOperatorTestHarness(
                descriptor, selector, subtask=number, parallelism=parts, **options
            )
            for number in range(parts)
        ]
        restored = redistribute(snapshots, parts) if snapshots else []
        for test, part in zip(self.subtasks, restored, strict=False):
            test.initialize_state(part)
        for test in self.subtasks:
            test.open()
        evaluation = Evaluation()
        select = evaluation.program(bound_function(selector, "get_key"), 1, (ROW,))
        self.keys = KeyOfBatches(evaluation.over_columns(select), None, None, 128, parts)

    def process(self, rows, *, in_columns):
        for channel, part in self.keys.split(batch_of(rows)):
            test = self.subtasks[channel]
            if in_columns:
                test.operator.process_batch(part)
                test.operator.flush()
                continue
            for value, timestamp in part.records():
                test.process_element(value, timestamp)

    def results(self):
        """Return the rows of each subtask in order."""
        return [
            [(repr(record.value.as_dict()), record.timestamp) for record in test.records]
            for test in self.subtasks
        ]

    def batches(self):
        """Return the number of batches whose accumulators were in columns."""
        groups = [test.operator.groups for test in self.subtasks]
        return sum(each.batches for each in groups if each is not None)

    def entries(self):
        return [test.num_keyed_state_entries for test in self.subtasks]

    def snapshots(self):
        """Stop, and return the snapshot of each subtask."""
        found = [test.snapshot(1) for test in self.subtasks]
        self.close()
        return found

    def close(self):
        for test in self.subtasks:
            test.close()


def batch_of(rows):
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, SCHEMA, strict=True)]
    data = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return ColumnBatch(data, ROW, pa.array(range(len(rows)), pa.int64()))


def rows_of(chance, count, *, has_large=False):
    """Return rows of few or many keys, with a few None, and maybe with large integers."""
    keys = chance.choice([4, 200])
    odd = [2**62, -(2**62)] if has_large else []
    return [
        (
            chance.randrange(keys),
            chance.choice([None, "", "ä", *(f"text {n}" for n in range(keys))]),
            chance.choice([None, *range(-3, 4), *odd]),
            chance.choice([None, 0.5, 0.0, -0.0, float("nan"), 1e300, 0.1]),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(15))
def test_results_and_state_are_those_of_records(seed, monkeypatch):
    chance = random.Random(seed)
    # Changes are also written when they are many.
    monkeypatch.setattr(column_groups, "_MOST_CHANGED", chance.choice([3, 1 << 15]))
    key = chance.choice(list(KEYS))
    names = chance.sample(list(AGGREGATES), chance.choice([1, 3, len(AGGREGATES)]))
    aggregates = {name: AGGREGATES[name] for name in names}
    has_large = chance.random() < 0.2
    saved = {True: (), False: ()}
    batches = 0
    for parts in (1, chance.choice([1, 2, 3]), 1):
        # Each way continues from its state or that of the other one.
        other = chance.random() < 0.5
        running = {
            in_columns: Running(key, aggregates, "running", parts, saved[in_columns is not other])
            for in_columns in (True, False)
        }
        for _ in range(chance.randrange(1, 4)):
            rows = rows_of(chance, chance.choice([3, 30, 300]), has_large=has_large)
            is_single = chance.random() < 0.2
            for in_columns, each in running.items():
                each.process(rows, in_columns=in_columns and not is_single)
        batches += running[True].batches()
        assert running[False].batches() == 0
        assert running[True].results() == running[False].results()
        assert running[True].entries() == running[False].entries()
        saved = {in_columns: each.snapshots() for in_columns, each in running.items()}
    assert batches or has_large


@pytest.mark.parametrize("key", KEYS)
def test_the_last_row_of_each_key_of_a_batch(key):
    chance = random.Random(key)
    whole = {in_columns: Running(key, AGGREGATES, "batch") for in_columns in (True, False)}
    for _ in range(3):
        rows = rows_of(chance, 300)
        found = {}
        for in_columns, running in whole.items():
            (test,) = running.subtasks
            before = len(test.records)
            running.process(rows, in_columns=in_columns)
            names = list(test.operator.key_fields.names)
            found[in_columns] = {
                repr([record.value[name] for name in names]): (repr(record.value), record.timestamp)
                for record in test.records[before:]
            }
            if in_columns:
                assert len(found[True]) == len(test.records) - before
        assert found[True] == found[False]
    assert whole[True].batches() == 3
    for running in whole.values():
        running.close()


def test_a_plain_loop_adds_the_same():
    rows = [(n * 7 % 50, f"{n % 3}", n, n / 4) for n in range(1000)]
    running = Running("number", {"sum": agg.sum("i"), "count": agg.count(), "max": agg.max("t")})
    for start in range(0, 1000, 250):
        running.process(rows[start : start + 250], in_columns=True)
    expected, sums = [], {}
    for k, t, i, _ in rows:
        total, count, largest = sums.get(k, (0, 0, ""))
        sums[k] = total + i, count + 1, max(largest, t)
        expected.append((k, *sums[k]))
    (test,) = running.subtasks
    assert [tuple(record.value) for record in test.records] == expected
    assert running.batches() == 4
    running.close()


def total_of(running):
    (test,) = running.subtasks
    return test.records[-1].value["sum"]


def test_columns_end_with_an_accumulator_beyond_64_bits():
    running = Running("number", {"sum": agg.sum("i")})
    rows = [(1, "t", 2**62, 0.0)] * 10
    running.process(rows[:1] * 8, in_columns=True)
    assert total_of(running) == 2**65
    (test,) = running.subtasks
    assert test.operator.groups is None
    assert test.operator.columns.given_up == 0
    running.process(rows, in_columns=True)
    assert total_of(running) == 18 * 2**62
    saved = running.snapshots()
    restored = Running("number", {"sum": agg.sum("i")}, snapshots=saved)
    restored.process([(1, "t", 1, 0.0)] * 8, in_columns=True)
    assert total_of(restored) == 18 * 2**62 + 8
    assert restored.subtasks[0].operator.groups is None
    restored.close()


def test_a_snapshot_has_no_later_changes():
    running = Running("number", {"sum": agg.sum("i"), "last": agg.last("t")})
    (test,) = running.subtasks
    running.process([(n % 20, "a", n, 0.0) for n in range(100)], in_columns=True)
    open_snapshot = test.begin_snapshot(1)
    running.process([(n % 20, "b", n, 0.0) for n in range(100)], in_columns=True)
    later = test.snapshot(2)
    found = []
    for snapshot in (serialised(open_snapshot), later):
        restored = Running(
            "number", {"sum": agg.sum("i"), "last": agg.last("t")}, "batch", snapshots=[snapshot]
        )
        restored.process([(n, None, None, 0.0) for n in range(20)], in_columns=True)
        values = [record.value for record in restored.subtasks[0].records]
        found.append(({value["last"] for value in values}, sum(value["sum"] for value in values)))
        restored.close()
    assert found == [({"a"}, 4950), ({"b"}, 9900)]
    running.close()


def test_a_lookup_in_a_running_task_sees_the_last_batch():
    running = Running("number", {"sum": agg.sum("i"), "mean": agg.mean("i")})
    (test,) = running.subtasks
    context = test._context
    for _ in range(2):
        running.process([(n % 20, "a", n, 0.0) for n in range(100)], in_columns=True)
        lookup = StateLookup([context.config.id], "_aggregates", ["3"], redacted=False)
        lookup.run(SimpleNamespace(contexts=[context]))
        assert lookup.problem == ""
    assert [found.text for found in lookup.found] == ["(430, (430, 10))"]
    assert running.batches() == 2
    running.close()


@pytest.mark.parametrize("name", ["collect", "count_distinct"])
def test_accumulators_that_change_in_place_stay_in_keyed_state(name):
    running = Running("number", {"n": agg.count(), "all": getattr(agg, name)("i")})
    running.process([(n % 20, "a", n, 0.0) for n in range(100)], in_columns=True)
    (test,) = running.subtasks
    assert test.operator.groups is None
    assert test.operator.columns.batches == 1
    running.close()


def test_state_in_a_database_has_no_columns():
    pytest.importorskip("rocksdict")
    options = {"configuration": {"state.backend.type": "rocksdb"}}
    running = Running("number", {"n": agg.count()}, **options)
    running.process([(n % 20, "a", n, 0.0) for n in range(100)], in_columns=True)
    assert running.subtasks[0].operator.groups is None
    assert running.entries() == [20]
    running.close()

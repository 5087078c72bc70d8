"""Rankings over batches of columns emit the rows of the functions for single records.

Goal: `top_n` and `deduplicate` emit the same changes in the same order, and keep the same state,
whether they get batches or their records.  Method: two operators get generated records, one as
batches, the other one by one; at some places both are restored at another parallelism, from the
snapshot of the other way.
"""

import functools
import random

import pyarrow as pa
import pytest
from penstock import aggregates as agg
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.exchange import KeyOfBatches
from penstock.common import Configuration, Row, Time, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DiscardingSink
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import InvalidProgramError
from penstock.expressions import as_tuple, field
from penstock.expressions.evaluation import Evaluation
from penstock.expressions.functions import bound_function
from penstock.network import runtime
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    operator_harness,
    redistribute,
)

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns")

END = 2**63 - 1
ROW = Types.ROW_NAMED(
    ["k", "t", "i", "x", "n"],
    [Types.LONG(), Types.STRING(), Types.INT(), Types.DOUBLE(), Types.LONG()],
)
ORDERS = {
    "integer": "i",
    "text": "t",
    "float": "x",
    "expression": -field("n"),
    "several": ["i", "x", "t"],
    "several expressions": [field("i"), field("n") % 3],
}
KEYS = {"number": ("k",), "text": ("t",), "both": ("k", "t"), "expression": (field("n") % 3,)}


def programs(chance):
    """Return a key and a call of a keyed stream."""
    key = chance.choice(list(KEYS.values()))
    results = chance.choice(["changes", "changes", "final"])
    kind = chance.choice(["top", "top", "top", "first", "last"])
    if kind == "top":
        most = chance.choice([1, 2, 3, 10])
        by, descending = chance.choice(list(ORDERS.values())), chance.random() < 0.5
        return key, lambda keyed: keyed.top_n(most, by, descending, results=results)
    return key, lambda keyed: keyed.deduplicate(kind, results=results)


def rows_of(chance, count, number):
    """Return rows with few keys, many ties and a few None, and a number for each."""
    return [
        (
            chance.choice([None, *range(5)]),
            chance.choice(["a", "b", None]),
            chance.choice([None, *range(-3, 4)]),
            chance.choice([None, 0.5, 0.0, -0.0, float("nan"), 1e300]),
            number + n,
        )
        for n in range(count)
    ]


def batch_of(rows, declared=ROW, kinds=None):
    columns = zip(*rows, strict=True)
    schema = batch_schema(declared)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, schema, strict=True)]
    data = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return ColumnBatch(data, declared, pa.array(range(len(rows)), pa.int64()), kinds)


@pytest.fixture(autouse=True)
def declared_types(monkeypatch):
    """Let operators in harnesses know the type of their records."""
    config = functools.partial(operator_harness.OperatorConfig, input_types=(ROW,))
    monkeypatch.setattr(operator_harness, "OperatorConfig", config)


class Running:
    """All subtasks of a ranking."""

    def __init__(self, program, parts=1, snapshots=(), **configuration):
        options = {name.replace("_", "."): value for name, value in configuration.items()}
        self.subtasks = []
        for number in range(parts):
            # Each subtask has its own function.
            transformation = self.transformation(*program)
            self.subtasks.append(
                KeyedOneInputStreamOperatorTestHarness(
                    transformation.operator,
                    transformation.key_selector,
                    subtask=number,
                    parallelism=parts,
                    configuration=options,
                )
            )
        selector = transformation.key_selector
        for test, part in zip(
            self.subtasks, redistribute(snapshots, parts) if snapshots else [], strict=False
        ):
            test.initialize_state(part)
        for test in self.subtasks:
            test.open()
        evaluation = Evaluation()
        select = evaluation.program(bound_function(selector, "get_key"), 1, (ROW,))
        self.keys = KeyOfBatches(evaluation.over_columns(select), None, None, 128, parts)

    @staticmethod
    def transformation(key, call):
        environment = StreamExecutionEnvironment.get_execution_environment()
        return call(environment.from_collection([], ROW).key_by(*key)).transformation

    def process(self, batch, *, in_columns):
        for channel, part in self.keys.split(batch):
            test = self.subtasks[channel]
            if in_columns:
                test.operator.process_batch(part)
            else:
                for value, timestamp in part.records():
                    test.process_element(value, timestamp)

    def end(self, timestamp=END):
        for test in self.subtasks:
            test.process_watermark(timestamp)

    def entries(self):
        return [test.num_keyed_state_entries for test in self.subtasks]

    def results(self):
        """Return the results of each subtask in order, with their kinds and timestamps."""
        return [
            [
                (repr(record.value.get_row_kind()), repr(record.value.as_dict()), record.timestamp)
                for record in test.records
            ]
            for test in self.subtasks
        ]

    def snapshots(self):
        """Stop, and return the snapshot of each subtask."""
        found = [test.snapshot(1) for test in self.subtasks]
        self.close()
        return found

    def close(self):
        for test in self.subtasks:
            test.close()

    def is_ranking(self):
        """Return whether a subtask has columns as state."""
        return any(test.operator.ranked is not None for test in self.subtasks)

    def counts(self):
        """Return the batches that were processed by columns, and those given up."""
        columns = [test.operator.columns for test in self.subtasks]
        return sum(c.batches for c in columns), sum(c.given_up for c in columns)


@pytest.mark.parametrize("seed", range(40))
def test_results_are_those_of_records(seed):
    chance = random.Random(seed)
    program = programs(chance)
    saved = {True: (), False: ()}
    number, batches = 0, 0
    for phase, parts in enumerate([1, chance.choice([1, 2, 3]), 1]):
        # Each way continues from its state or that of the other one.
        other = chance.random() < 0.5
        running = {
            in_columns: Running(program, parts, saved[in_columns is not other])
            for in_columns in (True, False)
        }
        for _ in range(chance.randrange(1, 4)):
            rows = rows_of(chance, chance.choice([3, 8, 30, 100]), number)
            number += len(rows)
            is_single = chance.random() < 0.2
            for in_columns, each in running.items():
                each.process(batch_of(rows), in_columns=in_columns and not is_single)
        if phase == 2:
            for each in running.values():
                each.end()
        saved = {in_columns: each.snapshots() for in_columns, each in running.items()}
        assert running[True].results() == running[False].results()
        if not running[True].is_ranking():
            assert running[True].entries() == running[False].entries()
        batches += running[True].counts()[0]
        assert running[False].counts() == (0, 0)
    assert batches or number < 30


TOP = (("k",), lambda keyed: keyed.top_n(2, "i"))


def both_ways(steps, **configuration):
    """Return the results of steps by columns and by records, and the first operator."""
    found = []
    for in_columns in (True, False):
        running = Running(TOP, **configuration)
        for step in steps:
            step(running, in_columns)
        running.end()
        (test,) = running.subtasks
        found.append(running.results())
        running.close()
        if in_columns:
            operator = test.operator
    return *found, operator


def batches_of(rows):
    return lambda running, in_columns: running.process(batch_of(rows), in_columns=in_columns)


def records_of(rows):
    return lambda running, _: running.process(batch_of(rows), in_columns=False)


def test_records_between_batches_become_columns():
    rows = rows_of(random.Random(1), 200, 0)
    steps = [records_of(rows[:20]), batches_of(rows[20:100]), records_of(rows[100:103])]
    by_columns, by_records, operator = both_ways([*steps, batches_of(rows[103:])])
    assert by_columns == by_records
    assert operator.ranked is not None
    assert operator.columns.given_up == 0


def test_columns_end_with_an_order_that_no_kernel_computes():
    rows = rows_of(random.Random(2), 200, 0)
    odd = [(1, "a", None, 0.5, 2**62)] * 40
    key, call = ("k",), lambda keyed: keyed.top_n(2, field("n") * 4)
    found = []
    for in_columns in (True, False):
        running = Running((key, call))
        for part in (rows[:100], odd, rows[100:]):
            running.process(batch_of(part), in_columns=in_columns)
            running.end(0)
        found.append((running.results(), running.entries()))
        running.close()
        if in_columns:
            assert not running.is_ranking()
            assert running.counts()[1] == 2
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "options", [{"state_backend_type": "rocksdb"}, {"pipeline_columns": "off"}, {}]
)
def test_restored_columns_become_records_where_the_job_has_no_columns(options):
    if "state_backend_type" in options:
        pytest.importorskip("rocksdict")
    rows = rows_of(random.Random(3), 200, 0)
    saved = []
    for in_columns in (True, False):
        running = Running(TOP)
        running.process(batch_of(rows[:150]), in_columns=in_columns)
        saved.append(running.snapshots())
    found = []
    lifetime = None if options else Time.hours(1)
    program = (("k",), lambda keyed: keyed.top_n(2, "i", ttl=lifetime))
    for snapshots in saved:
        running = Running(program, 1, snapshots, **options)
        for value, timestamp in batch_of(rows[150:]).records():
            running.subtasks[0].process_element(value, timestamp)
        found.append((running.results(), running.entries()))
        running.close()
    assert found[0] == found[1]


def test_restored_columns_of_another_type_are_rejected(monkeypatch):
    running = Running(TOP)
    running.process(batch_of(rows_of(random.Random(4), 100, 0)), in_columns=True)
    saved = running.snapshots()
    wider = Types.ROW_NAMED([*ROW.get_field_names(), "y"], [*ROW.get_field_types(), Types.LONG()])
    config = functools.partial(operator_harness.OperatorConfig, input_types=(wider,))
    monkeypatch.setattr(operator_harness, "OperatorConfig", config)
    with pytest.raises(InvalidProgramError, match=r"are of the type .*n: Long\), and now"):
        Running(TOP, 1, saved)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", ["top", "first", "last"])
def test_state_is_that_of_records(backend, name):
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    call = {
        "top": lambda keyed: keyed.top_n(2, "i", ttl=Time.hours(1)),
        "first": lambda keyed: keyed.deduplicate(ttl=Time.hours(1)),
        "last": lambda keyed: keyed.deduplicate("last", ttl=Time.hours(1)),
    }[name]
    rows = rows_of(random.Random(1), 200, 0)
    found = []
    for in_columns in (True, False):
        running = Running((("k",), call), state_backend_type=backend)
        for start in (0, 100):
            running.process(batch_of(rows[start : start + 100]), in_columns=in_columns)
            running.end(start)
        if in_columns:
            assert running.counts() == (2, 0)
        found.append((running.results(), running.entries()))
        running.close()
    assert found[0] == found[1]
    assert found[0][1] == [6]


def test_state_expires():
    running = Running((("k",), lambda keyed: keyed.deduplicate(ttl=Time.seconds(10))))
    (test,) = running.subtasks
    for now, emitted in ((0, 2), (5_000, 2), (20_000, 4)):
        test.set_processing_time(now)
        running.process(batch_of([(n % 2, "a", 1, 0.5, n) for n in range(20)]), in_columns=True)
        running.end(now)
        assert len(test.records) == emitted
    running.close()


def test_batches_wait_for_others_but_not_beyond_a_record_a_watermark_or_a_barrier():
    rows = [(n % 4, "a", n, 0.5, n) for n in range(40)]
    for event in (
        lambda test: test.process_watermark(3),
        lambda test: test.snapshot(1),
        lambda test: test.operator.process_status(True),
        lambda test: test.process_element(Row(9, "a", 9, 0.5, 9), 1),
    ):
        running = Running((("k",), lambda keyed: keyed.deduplicate()))
        (test,) = running.subtasks
        for _ in range(3):
            running.process(batch_of(rows), in_columns=True)
        assert not test.records
        event(test)
        assert [record.value[0] for record in test.records][:4] == [0, 1, 2, 3]
        assert running.counts() == (1, 0)
        running.close()


def test_results_leave_as_batches():
    batches = []
    running = Running((("k",), lambda keyed: keyed.deduplicate("last")))
    (test,) = running.subtasks
    test.output.collect_batch = batches.append
    for number in range(2):
        running.process(
            batch_of([(n % 8, "a", 1, 0.5, number) for n in range(16)]), in_columns=True
        )
        running.end(number)
    running.close()
    first, second = batches
    assert first.kinds.to_pylist() == [0] * 8 + [1, 2] * 8
    assert second.kinds.to_pylist() == [1, 2] * 16
    assert second.timestamp_list() == [n // 2 for n in range(32)]


@pytest.mark.parametrize(
    ("call", "where"),
    [(lambda k: k.top_n(1, "i"), "top_n"), (lambda k: k.deduplicate("last"), "deduplicate")],
)
def test_changes_are_refused(call, where):
    rows = [(1, "a", n, 0.5, n) for n in range(20)]
    running = Running((("k",), call))
    running.process(batch_of(rows, kinds=pa.array([0] * 19 + [3], pa.int8())), in_columns=True)
    with pytest.raises(InvalidProgramError, match=f"{where} takes only insertions, and .* is -D"):
        running.end()
    running.close()


def explained(call, declared=ROW, mode="STREAMING"):
    """Return the line of a plan about the records of a ranking behind a columnar source."""
    configuration = Configuration().set_string("execution.runtime-mode", mode)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    table = batch_of(rows_of(random.Random(1), 9, 0), ROW).data
    stream = environment.from_arrow(pa.Table.from_batches([table]))
    if declared is not ROW:
        stream = stream.map(as_tuple(field("k"), field("i")), declared)
    call(stream).sink_to(DiscardingSink())
    found = environment.explain().partition("TopN")[2] or environment.explain()
    return [line.strip() for line in found.splitlines() if line.strip().startswith("records: ")][-1]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda s: s.key_by("k").top_n(1, "i"), "batches of columns"),
        (
            lambda s: s.key_by("k").top_n(1, "i", rank="r"),
            "one by one, as other ranks change with each",
        ),
        (
            lambda s: s.key_by("k").top_n(1, lambda row: row.i),
            "one by one, as a function computes the order",
        ),
        (
            lambda s: s.key_by(lambda row: row.k + 1).top_n(1, "i"),
            "one by one, as the type of the keys is unknown",
        ),
        (
            lambda s: s.key_by("x").top_n(1, "i"),
            "one by one, as no kernel groups by the field 'x' of the key",
        ),
        (
            lambda s: s.key_by("k").top_n(1, field("x") ** 2),
            "one by one, as no kernel of Arrow computes '**'",
        ),
    ],
)
def test_plans_show_the_path(call, why):
    assert explained(call) == f"records: {why}"


def test_plans_show_that_tuples_are_no_rows():
    pair = Types.TUPLE([Types.LONG(), Types.INT()])
    found = explained(lambda s: s.key_by(field(0)).top_n(1, field(1)), pair)
    assert found == "records: one by one, as they are no rows"


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.key_by("k").top_n(1, "i"),
        lambda s: s.key_by("k").deduplicate(),
        lambda s: (
            s.key_by("k")
            .window(TumblingEventTimeWindows.of(Time.seconds(1)))
            .aggregate({"sum": agg.sum("n")})
        ),
    ],
)
def test_plans_show_that_batch_mode_sorts_records(call):
    assert explained(call, mode="BATCH") == "records: one by one, as BATCH mode sorts them by key"

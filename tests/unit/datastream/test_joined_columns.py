"""Joins by columns emit the results of joins record by record.

Method: generated batches and single records of both sides go through one program with columns and
without; between them the state is restored from snapshots, also in the other form.  Within a step
records of one side arrive, so that results have one possible order.
"""

import functools
import itertools
import random

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.key_columns import KeyColumns
from penstock.columns.partition import Partition
from penstock.common import Configuration, Time
from penstock.common.row_kind import RowKind
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.data_stream.join_functions import Joining
from penstock.datastream.data_stream.regular_joins import RegularJoin, regular_join
from penstock.datastream.functions import FlatJoinFunction
from penstock.errors import InvalidProgramError
from penstock.expressions import argument, as_tuple, field
from penstock.expressions.computed import computed
from penstock.network import runtime
from penstock.testing import PipelineTestHarness, operator_harness, redistribute

native = pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns")

LONG, INT, STRING, DOUBLE = Types.LONG(), Types.INT(), Types.STRING(), Types.DOUBLE()
LEFT = Types.ROW_NAMED(["k", "name", "n", "x"], [LONG, STRING, LONG, DOUBLE])
RIGHT = Types.ROW_NAMED(["n", "key", "text"], [LONG, INT, STRING])
SIDES = ("left", "right")
DECLARED = (LEFT, RIGHT)

one_side, other_side = argument(0), argument(1)
RESULTS = {
    "expression": as_tuple(
        one_side["name"], other_side["text"], one_side["k"], one_side["x"], other_side["n"]
    ),
    "lambda": lambda one, other: (one.k, other.n, one.n),
    "branches": lambda one, other: (
        one.k,
        0 if one.n is None or other.n is None else one.n - other.n,
    ),
    "large": lambda one, other: 0 if one.n is None or other.n is None else one.n * other.n,
}
PADDED = lambda one, other: (one and one.k, other and other.n, one and one.n)  # noqa: E731
KEYS = {
    "integers": (["k"], ["key"]),
    "texts": (["name"], ["text"]),
    "two": (["k", "name"], ["key", "text"]),
    "computed": ([field("k") + 1], [field("key") + 1]),
}


def rows(numbers, side, count, *, has_none):
    def one_of(*values):
        return numbers.choice([*values, None] if has_none else values)

    def text():
        return one_of("a", "b", "ä", "")

    def number():
        return one_of(0, 7, -(2**40), 2**41)

    if side == 0:
        return [
            (one_of(0, 1, 2, 3), text(), number(), one_of(0.5, -0.0, float("inf")))
            for _ in range(count)
        ]
    return [(number(), one_of(0, 1, 2, 9), text()) for _ in range(count)]


def steps_of(seed, *, has_none=True):
    """Return steps: a side, and batches of rows; single rows are no list."""
    numbers = random.Random(seed)
    steps = []
    for _ in range(numbers.randrange(3, 9)):
        side = numbers.randrange(2)
        parts = []
        for _ in range(numbers.randrange(1, 4)):
            if numbers.random() < 0.3:
                parts += rows(numbers, side, numbers.randrange(1, 4), has_none=has_none)
            else:
                parts.append(rows(numbers, side, numbers.randrange(1, 30), has_none=has_none))
        steps.append((side, parts))
    return steps


def batch_of(side, values, stamps):
    schema = batch_schema(DECLARED[side])
    arrays = [
        pa.array(each, f.type) for each, f in zip(zip(*values, strict=True), schema, strict=True)
    ]
    return ColumnBatch(
        pa.RecordBatch.from_arrays(arrays, schema=schema), DECLARED[side], pa.array(stamps)
    )


def build(harness, keys="integers", results="expression", **options):
    left, right = (
        harness.source(name, declared) for name, declared in zip(SIDES, DECLARED, strict=True)
    )
    where, equal_to = KEYS[keys]
    joined = left.join(right).where(*where).equal_to(*equal_to)
    function = PADDED if results == "padded" else RESULTS[results]
    harness.sink("out", joined.apply(function, **options))


def harness_of(columns, **options):
    harness = PipelineTestHarness()
    configuration = Configuration()
    if columns in ("auto", "off"):
        configuration.set_string("pipeline.columns", columns)
    else:
        configuration.set_string("state.backend.type", columns)
    harness.environment.configure(configuration)
    build(harness, **options)
    return harness


def join_of(harness):
    chain = harness._opened()
    pairs = zip(chain.operators, chain.contexts, strict=True)
    return next(operator for operator, context in pairs if context.name == "Join")


def process(harness, side, parts, stamp=0):
    """Let a side emit batches, which become rows where the harness has no columns, and rows."""
    target = join_of(harness).get_input(side)
    names = DECLARED[side].get_field_names()
    for part in parts:
        stamp += 1
        if isinstance(part, list):
            target.process_batch(batch_of(side, part, range(stamp, stamp + len(part))))
        else:
            kind = RowKind.INSERT
            if isinstance(part, dict):
                kind, part = part["kind"], part["row"]
            row = Row.of_kind(kind, *part)
            row.set_field_names(names)
            target.process(row, stamp)


def emitted(harness):
    return [
        (getattr(each.value, "get_row_kind", lambda: None)(), tuple_of(each.value), each.timestamp)
        for each in harness.output("out").records
    ]


def tuple_of(value):
    return tuple(value) if isinstance(value, (tuple, Row)) else value


def run(steps, forms, **options):
    """Return the results of steps, and the join's metrics at the end of each form's part.

    The program is restored with another form of `pipeline.columns` for each part of the steps.
    """
    found, counts, restored = [], [], None
    bounds = [len(steps) * number // len(forms) for number in range(len(forms) + 1)]
    for form, (start, end) in zip(forms, itertools.pairwise(bounds), strict=True):
        with_columns = harness_of(form, **options)
        with_columns.open(restored)
        for number, (side, parts) in enumerate(steps[start:end]):
            process(with_columns, side, parts, stamp=100 * (start + number))
            with_columns.set_processing_time(1000 * (number + 1))
        restored = with_columns.snapshot(1)
        found += emitted(with_columns)
        counts.append(with_columns.metrics("Join"))
        with_columns.close()
    return found, counts


@native
@pytest.mark.parametrize("results", RESULTS)
@pytest.mark.parametrize("keys", KEYS)
def test_columns_and_records_agree(keys, results):
    compared = 0
    for seed in range(6):
        steps = steps_of(seed, has_none=keys != "computed")
        options = {"keys": keys, "results": results}
        expected, _ = run(steps, ["off"], **options)
        found, (counts,) = run(steps, ["auto"], **options)
        assert found == expected, seed
        compared += len(found)
        assert counts["numBatchesInColumns"] > 0
        # Python's integers may be larger.
        assert (counts["numBatchesGivenUp"] > 0) <= (results == "large")
        assert counts["numRowsInBlocks"] == sum(
            len(part) if isinstance(part, list) else 1 for _, parts in steps for part in parts
        )
    assert compared > 100


@native
@pytest.mark.parametrize(
    "forms", [["auto"] * 3, ["auto", "off", "auto"], ["off", "auto"], ["auto", "rocksdb", "auto"]]
)
@pytest.mark.parametrize("keys", ["two", "computed"])
def test_state_of_columns_and_of_records_is_restored_in_either_form(forms, keys):
    if "rocksdb" in forms:
        pytest.importorskip("rocksdict")
    for seed in range(3):
        steps = steps_of(seed + 10, has_none=keys != "computed")
        expected, _ = run(steps, ["off"], keys=keys)
        found, counts = run(steps, forms, keys=keys)
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), seed
        # The order of results for one record is that of the state's records.
        for one, other in zip(counts, forms, strict=True):
            assert one.get("numBatchesGivenUp", 0) == 0
            assert (one.get("numBatchesInColumns", 0) > 0) is (other == "auto")


@native
def test_records_of_another_type_are_rejected():
    with harness_of("auto") as harness:
        process(harness, 0, [[(1, "a", 2, 0.5)]])
        restored = harness.snapshot(1)
    other = PipelineTestHarness()
    wider = Types.ROW_NAMED([*LEFT.get_field_names(), "y"], [*LEFT.get_field_types(), LONG])
    left, right = other.source("left", wider), other.source("right", RIGHT)
    other.sink("out", left.join(right).where("k").equal_to("key").apply(RESULTS["lambda"]))
    with pytest.raises(
        InvalidProgramError, match=r"left side are of the type .*x: Double\), and now"
    ):
        other.open(restored)


@native
def test_a_change_moves_the_records_into_keyed_state():
    steps = steps_of(3)
    kinds = [RowKind.DELETE, RowKind.UPDATE_AFTER, RowKind.UPDATE_BEFORE]
    rows_of_left = [
        row
        for side, parts in steps
        if side == 0
        for part in parts
        for row in (part if isinstance(part, list) else [part])
    ]
    changes = [{"kind": kind, "row": row} for kind, row in zip(kinds, rows_of_left, strict=False)]
    steps = [*steps, (0, changes), *steps_of(4)]
    expected, _ = run(steps, ["off"])
    found, (counts,) = run(steps, ["auto"])
    assert found == expected
    assert any(kind is RowKind.DELETE for kind, _, _ in found)
    assert counts["numBatchesGivenUp"] == 1
    assert counts["numBatchesInColumns"] > 0


@native
@pytest.mark.parametrize(
    ("reason", "options"),
    [
        ("it also emits records without a match", {"how": "full", "results": "padded"}),
        ("its records have a lifetime", {"ttl": Time.days(1)}),
    ],
)
def test_some_joins_are_of_single_records(reason, options):
    steps = steps_of(5)
    expected, _ = run(steps, ["off"], **options)
    found, (counts,) = run(steps, ["auto"], **options)
    assert found == expected
    assert "numBatchesInColumns" not in counts
    assert f"one by one, as {reason}" in explained(
        PADDED, **{name: value for name, value in options.items() if name != "results"}
    )


class Twice(FlatJoinFunction):
    def join(self, first, second):
        return [first, second]


@native
@pytest.mark.parametrize(
    ("reason", "function"),
    [
        ("its function returns any number of results", Twice()),
        ("its function receives a context", lambda one, other, ctx: ctx.key),
        ("a function is called", lambda one, other: print(one, other)),
    ],
)
def test_some_functions_are_called(reason, function):
    assert f"one by one, as {reason}" in explained(function)


def explained(function, configuration=None, **options):
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    left, right = (env.from_arrow(table_of(side, 3)) for side in (0, 1))
    joined = left.join(right).where("k").equal_to("key").apply(function, **options)
    joined.print()
    return env.explain()


def table_of(side, seed, count=2000):
    values = rows(random.Random(seed), side, count, has_none=True)
    schema = batch_schema(DECLARED[side])
    arrays = [
        pa.array(each, f.type) for each, f in zip(zip(*values, strict=True), schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


@native
def test_a_join_of_batches_is_explained():
    plan = explained(RESULTS["expression"])
    assert plan.count("records: batches of columns") == 3
    assert "join: called for records that are not in columns" in plan
    database = Configuration().set_string("state.backend.type", "rocksdb")
    reason = "one by one, as its state is in a database"
    assert reason in explained(RESULTS["expression"], database)
    batch_mode = Configuration().set_string("execution.runtime-mode", "BATCH")
    reason = "one by one, as BATCH mode sorts them by key"
    assert reason in explained(RESULTS["expression"], batch_mode)


@native
def test_subtasks_restore_the_records_of_their_key_groups(monkeypatch):
    monkeypatch.setattr(
        operator_harness,
        "OperatorConfig",
        functools.partial(operator_harness.OperatorConfig, input_types=DECLARED),
    )
    keys = [
        computed(field(name), "test", [declared])
        for name, declared in zip(("k", "key"), DECLARED, strict=True)
    ]
    joining = Joining(RESULTS["lambda"], DECLARED)
    function = RegularJoin(joining, (False, False), (None, None))
    descriptor = regular_join(function, tuple(keys), None, DECLARED)
    given, found, snapshots = ([], []), [], None
    for step, parallelism in enumerate([1, 3, 2, 1]):
        batches = []
        for side in (0, 1):
            values = rows(random.Random(step), side, 200, has_none=True)
            given[side].extend(values)
            batch = batch_of(side, values, range(200))
            partition = Partition(KeyColumns((side,)), 128, parallelism)
            batches.append(dict(partition.split(batch)))
        parts = [None] if snapshots is None else redistribute(snapshots, parallelism)
        snapshots = []
        for subtask, restored in enumerate(parts):
            harness = operator_harness.KeyedTwoInputStreamOperatorTestHarness(
                descriptor, *keys, subtask=subtask, parallelism=parallelism
            )
            harness.initialize_state(restored)
            harness.open()
            for side in (0, 1):
                if subtask in batches[side]:
                    harness.operator.get_input(side).process_batch(batches[side][subtask])
            snapshots.append(harness.snapshot(1))
            assert harness.operator.joined is not None
            found += [each.value for each in harness.output.records]
            harness.close()
    expected = [(a[0], b[0], a[2]) for a in given[0] for b in given[1] if a[0] == b[1]]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.parametrize("columns", ["auto", "off"])
def test_a_job_of_two_subtasks_joins_by_columns(columns):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.configure(Configuration().set_string("pipeline.columns", columns))
    env.set_parallelism(2)
    tables = [table_of(side, 7, count=300) for side in (0, 1)]
    left, right = map(env.from_arrow, tables)
    joined = left.join(right).where("k").equal_to("key").apply(RESULTS["expression"])
    with joined.execute_and_collect() as results:
        found = sorted(map(repr, map(tuple, results)))
    one, other = (list(zip(*table.to_pydict().values(), strict=True)) for table in tables)
    expected = [(a[1], b[2], a[0], a[3], b[0]) for a in one for b in other if a[0] == b[1]]
    assert found == sorted(map(repr, expected))

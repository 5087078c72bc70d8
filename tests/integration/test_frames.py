"""Tables of Arrow, pandas and Polars as streams and back, by columns."""

import dataclasses
import datetime
import decimal
import math
from itertools import chain

import pandas
import polars
import pyarrow as pa
import pytest
from penstock.common import Row, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import MapFunction
from penstock.datastream import frames as frames_module
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.frames import source_of_arrow
from penstock.datastream.functions import SourceFunction
from penstock.errors import DependencyError, FormatError, InvalidProgramError
from penstock.graph import operators
from penstock.taskexecutor.compiled import END_OF_DATA
from penstock.taskexecutor.sources import columns
from penstock.taskexecutor.sources.split_state import Share
from penstock.testing import OneInputStreamOperatorTestHarness, redistribute
from support.environments import in_process

DAY = datetime.datetime(2024, 5, 6, 7, 8, 9)
COLUMNS = {"name": ["a", None, "c"], "number": [1, 2, 3], "share": [0.5, 1.5, None]}
ROWS = [
    Row(name="a", number=1, share=0.5),
    Row(name=None, number=2, share=1.5),
    Row(name="c", number=3, share=None),
]
TYPE = Types.ROW_NAMED(["name", "number", "share"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (lambda env: env.from_arrow(pa.table(COLUMNS)), ROWS),
        (lambda env: env.from_arrow(pa.record_batch(COLUMNS)), ROWS),
        (lambda env: env.from_arrow(pa.table(COLUMNS).to_reader()), ROWS),
        (lambda env: env.from_arrow(polars.DataFrame(COLUMNS)), ROWS),
        (lambda env: env.from_polars(polars.DataFrame(COLUMNS)), ROWS),
        (lambda env: env.from_pandas(pandas.DataFrame(COLUMNS).iloc[:2]), ROWS[:2]),
    ],
    ids=["table", "batch", "reader", "stream", "polars", "pandas"],
)
def test_rows_with_the_names_and_types_of_the_columns(make, rows):
    env = in_process()
    stream = make(env)
    assert stream.get_type() == TYPE
    with stream.execute_and_collect() as results:
        assert list(results) == rows


def test_missing_values_of_pandas():
    """They become None, except for NaN in a column of floats, as in from_collection."""
    frame = pandas.DataFrame(
        {
            "day": [pandas.NaT, pandas.Timestamp(DAY)],
            "whole": pandas.array([None, 3], dtype="Int64"),
            "real": [math.nan, 2.0],
            "text": ["x", math.nan],
            7: pandas.Categorical(["u", "v"]),
        }
    )
    with in_process().from_pandas(frame).execute_and_collect() as results:
        first, second = results
    assert (first.day, first.whole, first.text, first["7"]) == (None, None, "x", "u")
    assert math.isnan(first.real)
    assert (second.day, second.whole, second.real, second.text) == (DAY, 3, 2.0, None)


@pytest.mark.parametrize("values", [[], [1], list(range(200_000))])
def test_a_column_of_any_length_is_read_back(values):
    """Even if a table has several batches, and a subtask several ranges of them."""
    table = pa.table({"n": pa.array(values, pa.int64())})
    found = in_process(parallelism=2).from_arrow(table).to_arrow()
    assert found.schema == table.schema
    assert sorted(found["n"].to_pylist()) == values


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 4, 7, 30])
def test_a_restored_source_emits_the_rest_at_any_parallelism(monkeypatch, parallelism, count):
    """Batches of three rows: positions are within them, at their ends and after the last one."""
    monkeypatch.setattr(frames_module, "_BATCH_ROWS", 3)
    described = source_of_arrow(pa.table({"n": list(range(20))})).source_operator()
    snapshots, values = [], []
    for subtask in range(2):
        test = OneInputStreamOperatorTestHarness(described, subtask=subtask, parallelism=2)
        test.initialize_state()
        with test:
            for _ in range(count):
                test.operator.emit_next(1)
            snapshots.append(test.snapshot(1))
            values.extend(test.values)
    for subtask, snapshot in enumerate(redistribute(snapshots, parallelism)):
        test = OneInputStreamOperatorTestHarness(
            described, subtask=subtask, parallelism=parallelism
        )
        test.initialize_state(snapshot)
        with test:
            while test.operator.emit_next(2) != END_OF_DATA:
                pass
            values.extend(test.values)
    assert sorted(row.n for row in values) == list(range(20))


@pytest.fixture
def small_ranges(monkeypatch):
    monkeypatch.setattr(frames_module, "_BATCH_ROWS", 7)
    monkeypatch.setattr(columns, "_RANGE_ROWS", 4)


def ranges_read(described, snapshots, counts, parallelism):
    """Return the records that subtasks emit in some steps (None for all), and their snapshots."""
    found, taken = [], []
    for subtask, (snapshot, count) in enumerate(zip(snapshots, counts, strict=True)):
        test = OneInputStreamOperatorTestHarness(
            described, subtask=subtask, parallelism=parallelism
        )
        test.initialize_state(snapshot)
        with test:
            while count is None or count > 0:
                if test.operator.emit_next(1) == END_OF_DATA:
                    break
                count = None if count is None else count - 1
            taken.append(test.snapshot(1))
            found.append([row.n for row in test.values])
    return found, taken


def test_subtasks_read_a_frame_side_by_side(small_ranges):
    """With rows ordered by time, few of them then run ahead of event time."""
    described = source_of_arrow(pa.table({"n": list(range(96))})).source_operator()
    parts, _ = ranges_read(described, [None] * 3, [None] * 3, 3)
    assert sorted(chain.from_iterable(parts)) == list(range(96))
    for part in parts:
        assert part == sorted(part)
        assert max(abs(one - other) for one, other in zip(parts[0], part, strict=False)) <= 8


def test_ranges_of_frames_are_small_but_not_too_many():
    def divided(rows, parallelism, number=0):
        described = operators.ColumnSource(batches=[b""], lengths=[rows], row_type=TYPE)
        share = Share(number, parallelism)
        return [last - first + 1 for first, last in columns.RowsOfColumns(described).divide(share)]

    assert divided(1_000_000, 1) == [1_000_000]
    assert divided(5_000, 2) == [2_500]
    assert set(divided(1_000_000, 2)) <= {4_065, 4_066}
    assert len(divided(1_000_000_000, 2)) == 1024
    assert [divided(2, 4, number) for number in range(4)] == [[1], [1], [], []]
    assert divided(0, 2) == []


@pytest.mark.parametrize("counts", [(1, 1), (0, 20), (20, 0), (7, 5, 3)])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_rows_stay_in_their_order_at_another_parallelism(small_ranges, counts, parallelism):
    described = source_of_arrow(pa.table({"n": list(range(100))})).source_operator()
    first, snapshots = ranges_read(described, [None] * len(counts), counts, len(counts))
    again = redistribute(snapshots, parallelism)
    rest, _ = ranges_read(described, again, [None] * parallelism, parallelism)
    assert all(part == sorted(part) for part in rest)
    assert sorted(chain.from_iterable(first + rest)) == list(range(100))


class OwnTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.n


def test_ordered_rows_are_not_late_after_a_restore(small_ranges):
    """No window loses rows if one subtask continues for two."""
    described = source_of_arrow(pa.table({"n": list(range(100))})).source_operator()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnTime())
    described = dataclasses.replace(described, watermark_strategy=strategy)
    _, snapshots = ranges_read(described, [None] * 2, (9, 9), 2)
    (snapshot,) = redistribute(snapshots, 1)
    test = OneInputStreamOperatorTestHarness(described)
    test.initialize_state(snapshot)
    now_ms = 0
    with test:
        while test.operator.emit_next(1) != END_OF_DATA:
            now_ms += 1000
            test.set_processing_time(now_ms)
        test.operator.finish()
        event_time, late, watermarks = -1, [], 0
        for kind, *event in test.output.events:
            if kind == "watermark":
                event_time, watermarks = event[0], watermarks + 1
            elif event[1] <= event_time:
                late.append(event[1])
    assert (late, watermarks > 10) == ([], True)


def test_each_kind_of_stream_becomes_columns():
    env = in_process()
    pairs = [(1, "a"), (2, None)]
    assert env.from_collection(pairs, PAIR).to_arrow().to_pydict() == {
        "f0": [1, 2],
        "f1": ["a", None],
    }
    numbers = env.from_collection([3, 4], Types.INT()).map(lambda n: n, Types.INT())
    assert numbers.to_arrow().schema == pa.schema({"value": pa.int32()})
    assert env.from_collection([3, 4], Types.INT()).to_arrow()["value"].to_pylist() == [3, 4]
    keyed = env.from_collection(pairs, PAIR).key_by(lambda pair: pair[0])
    assert keyed.to_arrow()["f0"].to_pylist() == [1, 2]
    schema = pa.schema({"a": pa.int16(), "b": pa.list_(pa.decimal128(38, 18))})
    undeclared = env.from_collection([{"a": 1, "b": [decimal.Decimal("1.5")]}])
    assert undeclared.to_arrow(schema).to_pylist() == [{"a": 1, "b": [decimal.Decimal("1.5")]}]
    assert env.from_collection([], Types.INT()).to_arrow().num_rows == 0


def test_frames_of_pandas_and_polars():
    env = in_process()
    frame = env.from_arrow(pa.table(COLUMNS)).to_pandas()
    assert frame["number"].tolist() == [1, 2, 3]
    assert frame["number"].dtype == "int64"
    assert env.from_pandas(frame).to_polars()["name"].to_list() == ["a", None, "c"]


@pytest.mark.parametrize("mode", ["BATCH", "STREAMING"])
def test_results_are_complete_with_checkpoints_and_in_batch_mode(mode):
    env = in_process(
        parallelism=2,
        **{"execution_checkpointing_interval": "10 ms", "execution_runtime-mode": mode},
    )
    table = pa.table({"n": list(range(20_000))})
    found = env.from_arrow(table).map(lambda row: row.n * 2, Types.LONG()).to_arrow()
    assert sorted(found["value"].to_pylist()) == [2 * n for n in range(20_000)]


class FailsOnce(MapFunction):
    def __init__(self, marker):
        self.marker = marker

    def map(self, value):
        if value == 15_000 and not self.marker.exists():
            self.marker.touch()
            raise RuntimeError("once")
        return value


def test_results_are_exact_after_a_failure(tmp_path):
    env = in_process(
        **{
            "execution_checkpointing_interval": "10 ms",
            "restart-strategy_type": "fixed-delay",
            "restart-strategy_fixed-delay_attempts": "1",
            "restart-strategy_fixed-delay_delay": "1 ms",
        }
    )
    numbers = env.from_arrow(pa.table({"n": list(range(20_000))})).map(lambda row: row.n)
    found = numbers.map(FailsOnce(tmp_path / "failed"), Types.LONG()).to_arrow()
    assert sorted(found["value"].to_pylist()) == list(range(20_000))
    assert (tmp_path / "failed").exists()


class Endless(SourceFunction):
    def run(self, ctx):
        raise AssertionError("never run")

    def cancel(self):
        pass


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda env: env.from_arrow([1]), r"from_arrow takes a Table, .* got \[1\]"),
        (lambda env: env.from_pandas(pa.table(COLUMNS)), "takes a DataFrame of pandas"),
        (lambda env: env.from_polars(pandas.DataFrame()), "takes a DataFrame of Polars"),
        (lambda env: env.from_polars(polars.LazyFrame(COLUMNS)), r"call collect\(\) on it"),
        (
            lambda env: env.from_arrow(pa.table([[1], [2]], names=["a", "a"])),
            "columns share a name: a, a",
        ),
        (
            lambda env: env.from_pandas(pandas.DataFrame({"mixed": [1, "x"]})),
            "no type for the values of the column 'mixed'",
        ),
        (lambda env: env.from_collection([1]).to_arrow(), "no declared type"),
        (
            lambda env: env.from_collection([], Types.ROW([Types.PICKLED_BYTE_ARRAY()])).to_arrow(),
            "Arrow has no type for",
        ),
        (lambda env: env.from_collection([1]).to_arrow({"a": int}), "to_arrow takes a row"),
        (lambda env: env.add_source(Endless(), "clicks").to_pandas(), "'clicks' may have no end"),
    ],
)
def test_streams_that_cannot_be_a_table_are_rejected(make, expected):
    with pytest.raises(InvalidProgramError, match=expected):
        make(in_process())


def test_the_program_continues_after_a_rejection():
    """No operator of the rejected table is left in the next job."""
    env = in_process()
    stream = env.from_collection([1])
    with pytest.raises(InvalidProgramError):
        stream.to_arrow()
    stream.sink_to(DiscardingSink())
    env.execute()


def test_an_element_that_does_not_fit_names_the_field():
    stream = in_process().from_collection([{"a": "x"}])
    with pytest.raises(FormatError, match="field 'a' does not fit"):
        stream.to_arrow(Types.ROW_NAMED(["a"], [Types.LONG()]))


@pytest.mark.parametrize(("library", "extra"), [("pandas", "pandas"), ("polars", "polars")])
def test_a_missing_library_names_its_extra(monkeypatch, library, extra):
    stream = in_process().from_arrow(pa.table({"n": [1]}))
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(DependencyError, match=rf"penstock-engine\[{extra}\]"):
        getattr(stream, f"to_{library}")()

"""Functions over batches: their arguments, and their results."""

import re
import traceback
from typing import Annotated

import pandas
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from penstock.common import Duration, Row, Time, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import ProcessFunction
from penstock.datastream.connectors import DiscardingSink
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import FormatError, InvalidProgramError, WrongArgumentError
from penstock.expressions import as_tuple, field
from penstock.network import runtime
from penstock.testing import PipelineTestHarness
from support.environments import in_process

pytestmark = pytest.mark.process

NUMBERS = Types.ROW_NAMED(["number", "name"], [Types.LONG(), Types.STRING()])
DOUBLED = Types.ROW_NAMED(["double"], [Types.LONG()])
TABLE = pa.table({"number": list(range(100)), "name": [f"name {n}" for n in range(100)]})


def of_arrow(batch):
    return pa.record_batch({"double": pc.multiply(batch["number"], 2)})


def of_pandas(frame: pandas.DataFrame) -> pandas.DataFrame:
    return pandas.DataFrame({"double": frame["number"] * 2})


def of_polars(frame: polars.DataFrame) -> polars.DataFrame:
    return frame.select((polars.col("number") * 2).alias("double"))


def doubled(function, stream, **options):
    with stream.map_batches(function, DOUBLED, **options).execute_and_collect() as found:
        return [row.double for row in found]


@pytest.mark.parametrize("function", [of_arrow, of_pandas, of_polars])
def test_frames_by_annotation(function):
    found = doubled(function, in_process().from_arrow(TABLE))
    assert found == [2 * n for n in range(100)]


def test_frames_by_argument():
    def untyped(frame):
        assert type(frame).__module__.startswith("pandas")
        assert len(frame) > 0
        return of_pandas(frame)

    assert doubled(untyped, in_process().from_arrow(TABLE), frame="pandas")[-1] == 198


def test_records_that_come_one_by_one_are_gathered():
    rows = [(n, f"name {n}") for n in range(100)]
    stream = in_process().from_collection(rows, Types.TUPLE([Types.LONG(), Types.STRING()]))

    def of_tuples(batch):
        assert batch.schema.names == ["f0", "f1"]
        return pa.table({"double": pc.multiply(batch["f0"], 2)})

    assert doubled(of_tuples, stream) == [2 * n for n in range(100)]


class OfNumber(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.number


class Timestamps(ProcessFunction):
    def process_element(self, value, ctx):
        yield value.double, ctx.timestamp()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (of_arrow, [(2 * n, n) for n in range(100)]),
        (lambda batch: of_arrow(batch).slice(0, 2), [(0, 99), (2, 99)]),
    ],
)
def test_timestamps_of_results(function, expected):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
    timed = (
        in_process()
        .from_arrow(TABLE)
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(OfNumber()))
    )
    mapped = timed.map_batches(function, DOUBLED).process(Timestamps())
    with mapped.execute_and_collect() as found:
        results = list(found)
    if len(expected) == 100:
        assert results == expected
    else:
        # A source's batches are of any size.
        assert all(value in (2 * n for n in range(100)) for value, _ in results)
        assert all(timestamp >= value // 2 for value, timestamp in results)
        assert len(results) < 100


def test_keyed_streams_have_batches_as_well():
    stream = in_process(2).from_arrow(TABLE).key_by(lambda row: row.number % 7)
    assert sorted(doubled(of_arrow, stream)) == [2 * n for n in range(100)]


KEYS = pa.schema([("key", pa.int64()), ("number", pa.int64())])


def keys_and_numbers(batch: pa.RecordBatch) -> Annotated[pa.RecordBatch, KEYS]:
    return batch.select(["key", "number"])


@pytest.mark.parametrize("source", ["columns", "records"])
@pytest.mark.parametrize("columns", ["auto", "off"])
def test_a_computed_key_is_a_column(source, columns):
    env = in_process(2, pipeline_columns=columns)
    rows = [Row(number=n, name="") for n in range(100)]
    stream = env.from_arrow(TABLE) if source == "columns" else env.from_collection(rows, NUMBERS)
    keyed = stream.key_by(lambda row: row.number % 7, Types.LONG())
    with keyed.map_batches(keys_and_numbers).execute_and_collect() as found:
        assert sorted((row.number, row.key) for row in found) == [(n, n % 7) for n in range(100)]


@pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns")
def test_keys_are_computed_by_columns():
    env = in_process()
    keyed = env.from_arrow(TABLE).key_by(field("number") % 7)
    keyed.map_batches(keys_and_numbers).sink_to(DiscardingSink())
    counts = env.explain(analyze=True).split("Map batches")[-1]
    assert re.search(r"[1-9]\d* batch(es)? in columns", counts), counts


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        (field("name"), []),
        (lambda row: row.name, []),
        (lambda row: hash(row), []),
        (as_tuple(field("name"), field("number") % 2), ["key1"]),
        (field("number") % 2, ["key"]),
    ],
)
def test_keys_that_are_fields_are_no_further_columns(selector, names):
    mapped = in_process().from_arrow(TABLE).key_by(selector).map_batches(of_arrow, DOUBLED)
    fields = mapped.transformation.operator.fields
    assert fields.row_type.get_field_names() == ["number", "name", *names]


def window_of(batch):
    return {
        "start": batch["window_start"][0],
        "end": batch["window_end"][0],
        "rows": len(batch["number"]),
        "key": batch["key"][0] if "key" in batch else -1,
    }


WINDOW = pa.schema([(name, pa.int64()) for name in ("key", "start", "end", "rows")])


def pandas_window(batch: pandas.DataFrame) -> Annotated[pandas.DataFrame, WINDOW]:
    return pandas.DataFrame([window_of(batch)])


def polars_window(batch: polars.DataFrame) -> Annotated[polars.DataFrame, WINDOW]:
    return polars.DataFrame([window_of(batch.to_dict())])


@pytest.mark.parametrize("function", [pandas_window, polars_window])
def test_a_window_is_a_batch_with_its_key_and_bounds(function):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    timed = (
        in_process()
        .from_arrow(TABLE)
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(OfNumber()))
    )
    windows = TumblingEventTimeWindows.of(Time.milliseconds(50))
    of_keys = timed.key_by(field("number") % 2).window(windows).apply_batches(function)
    of_all = timed.window_all(windows).apply_batches(function)
    with of_keys.union(of_all).execute_and_collect() as found:
        rows = sorted(tuple(row) for row in found)
    by_key = [(k, s, s + 50, 25) for k in (0, 1) for s in (0, 50)]
    assert rows == [(-1, 0, 50, 50), (-1, 50, 100, 50), *by_key]


def test_windows_without_bounds_in_the_harness():
    def products(batch):
        return pa.table({"double": pc.multiply(batch["value"], batch["key"])})

    harness = PipelineTestHarness()
    keyed = harness.source("numbers", Types.LONG()).key_by(lambda n: n % 3, Types.LONG())
    harness.sink("products", keyed.count_window(2).apply_batches(products, DOUBLED))
    with harness as test:
        for n in range(8):
            test.process_element("numbers", n)
        assert [row.double for row in test.values("products")] == [0, 0, 1, 4, 4, 10]


def failure(function):
    with pytest.raises(FormatError) as caught:
        doubled(function, in_process().from_arrow(TABLE))
    return str(caught.value)


def test_results_that_do_not_fit_name_the_column():
    assert "no column 'double'" in failure(lambda batch: batch)
    assert "returned int" in failure(lambda batch: 7)
    text = failure(lambda batch: pa.table({"double": batch["name"]}))
    assert "column 'double'" in text
    assert "rows" in text


def test_a_failure_shows_the_batch():
    with pytest.raises(pa.ArrowInvalid, match="divide by zero") as caught:
        doubled(lambda batch: pc.divide(batch["number"], 0), in_process().from_arrow(TABLE))
    shown = "".join(traceback.format_exception(caught.value))
    assert re.search(
        r"a batch of \d+ rows; the first is {'number': \d+, 'name': 'name \d+'}", shown
    )


def imported_for_checkers_only(frame: "absent.DataFrame"):  # noqa: F821
    return frame


def test_functions_are_checked_when_the_program_is_built():
    stream = in_process().from_arrow(TABLE)
    with pytest.raises(WrongArgumentError, match=r"a function of one batch; got <lambda>\(a, b\)"):
        stream.map_batches(lambda a, b: a, DOUBLED)
    with pytest.raises(InvalidProgramError, match=r"Annotated\[pyarrow.RecordBatch"):
        stream.map_batches(of_arrow)
    with pytest.raises(WrongArgumentError, match="cannot be evaluated, as its module"):
        stream.map_batches(imported_for_checkers_only, DOUBLED)
    by_seven = lambda row: row.number % 7  # noqa: E731
    with pytest.raises(InvalidProgramError, match="type of the keys is unknown"):
        stream.key_by(by_seven).map_batches(of_arrow, DOUBLED, key_names=["seventh"])
    with pytest.raises(InvalidProgramError, match="have a field 'number', too"):
        stream.key_by(by_seven, Types.LONG()).map_batches(of_arrow, DOUBLED, key_names=["number"])
    with pytest.raises(InvalidProgramError, match="no fields"):
        stream.map(lambda row: Row(), Types.ROW_NAMED([], [])).map_batches(of_arrow, DOUBLED)
    bounds = stream.key_by(by_seven, Types.LONG()).window(
        TumblingEventTimeWindows.of(Time.seconds(1))
    )
    with pytest.raises(InvalidProgramError, match="names must differ"):
        bounds.apply_batches(of_arrow, DOUBLED, key_names=["window_end"])


def test_programs_without_columns_are_refused():
    stream = in_process().from_collection([1, 2])
    with pytest.raises(InvalidProgramError, match="no declared type"):
        stream.map_batches(of_arrow, DOUBLED)
    with pytest.raises(WrongArgumentError, match="frame"):
        in_process().from_arrow(TABLE).map_batches(of_arrow, DOUBLED, frame="dask")
    with pytest.raises(InvalidProgramError, match="schema"):
        in_process().from_arrow(TABLE).map_batches(of_arrow, "double: long")


def test_a_schema_of_arrow_will_do():
    schema = pa.schema([("double", pa.int64())])
    stream = in_process().from_arrow(TABLE).map_batches(of_arrow, schema)
    assert stream.get_type() == DOUBLED
    with stream.execute_and_collect() as found:
        assert next(iter(found)) == Row(double=0)

"""Functions over batches: their arguments, and their results."""

import pandas
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from penstock.common import Duration, Row, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import ProcessFunction
from penstock.errors import FormatError, InvalidProgramError, WrongArgumentError
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

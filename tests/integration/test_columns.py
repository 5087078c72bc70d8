"""Programs over columns: the same results as over rows, and counters that show the path taken.

Goal: every step of a job processes batches of columns where it can, and the oracle is the same
program with `pipeline.columns: off`.  Method: jobs in this process over tables and files; the
counts of `explain(analyze=True)` are asserted, so that a dead path fails a test.
"""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from penstock.common import Duration, Row, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import MapFunction
from penstock.datastream.connectors import DiscardingSink
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from penstock.expressions import as_tuple, field
from penstock.network import runtime
from support.environments import in_process

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns"),
]

COUNT = 20_000
BID = Types.ROW_NAMED(
    ["auction", "bidder", "price", "channel", "at"],
    [Types.LONG(), Types.INT(), Types.DOUBLE(), Types.STRING(), Types.LONG()],
)
PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])


def table(count=COUNT):
    numbers = range(count)
    return pa.table(
        {
            "auction": pa.array([n * 7919 % 1000 for n in numbers], pa.int64()),
            "bidder": pa.array([n % 97 for n in numbers], pa.int32()),
            "price": pa.array([n / 8 for n in numbers], pa.float64()),
            "channel": pa.array([f"channel {n % 13}" for n in numbers]),
            "at": pa.array([n * 10 for n in numbers], pa.int64()),
        }
    )


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.at


WATERMARKS = WatermarkStrategy.for_bounded_out_of_orderness(
    Duration.of_millis(100)
).with_timestamp_assigner(At())


def results(build, parallelism=1, source=None, **options):
    env = in_process(parallelism, **options)
    stream = build((source or (lambda env: env.from_arrow(table())))(env))
    with stream.execute_and_collect() as found:
        return list(found)


def same_both_ways(build, parallelism=1, source=None):
    """Return the results by columns, after a comparison with those by rows."""
    by_columns = results(build, parallelism, source)
    by_rows = results(build, parallelism, source, pipeline_columns="off")
    assert sorted(map(repr, by_columns)) == sorted(map(repr, by_rows))
    if parallelism == 1:
        assert by_columns == by_rows
    return by_columns


def counted(build, source=None, parallelism=1, **options):
    """Return the counts of a job, by operator and name: the numbers of `explain(analyze=True)`."""
    env = in_process(parallelism, **options)
    build((source or (lambda env: env.from_arrow(table())))(env)).sink_to(DiscardingSink())
    found = {}
    for line in env.explain(analyze=True).splitlines():
        name, _, counts = line.strip().partition(": ")
        for number, what in re.findall(r"(\d[\d,]*) ([a-z ]+?)(?:, |$)", counts):
            found[name, what] = int(number.replace(",", ""))
    return found


def cheap_pairs(stream):
    return stream.filter(lambda b: b.auction % 123 == 0).map(
        lambda b: (b.auction, b.channel), output_type=PAIR
    )


PROGRAMS = {
    "pass": lambda s: s,
    "expression": lambda s: s.map(
        as_tuple(field("auction"), field("price") * 0.908), output_type=None
    ),
    "filter": lambda s: s.filter(lambda b: b.price > 100 and b.bidder < 50),
    "pairs": cheap_pairs,
    "project": lambda s: cheap_pairs(s).project(1),
    "called": lambda s: s.map(lambda b: str(b.price)),
    "choice": lambda s: s.map(lambda b: b.channel if b.bidder > 40 else "few"),
    "flat": lambda s: s.flat_map(lambda b: [b.auction] * (b.bidder % 2)),
    "timestamps": lambda s: s.assign_timestamps_and_watermarks(WATERMARKS).map(lambda b: b.bidder),
    "keyed": lambda s: (
        cheap_pairs(s).key_by(lambda t: t[0]).reduce(lambda a, b: (a[0] + b[0], b[1]))
    ),
    "top": lambda s: s.key_by("auction").top_n(3, ["price", -field("at")]),
    "lowest": lambda s: s.key_by("bidder", "channel").top_n(1, "auction", descending=False),
    "first": lambda s: s.key_by("channel").deduplicate(),
    "last": lambda s: s.key_by("bidder").deduplicate("last").filter(lambda b: b.price > 9),
    "projected": lambda s: (
        s.key_by("bidder").top_n(2, "at").map(as_tuple(field("price"), field("at")))
    ),
    "final": lambda s: s.key_by("auction").top_n(2, "price", results="final"),
}

#: The order within a key depends on the subtasks of the source.
OF_ONE_SOURCE = {"keyed", "top", "lowest", "first", "last", "projected", "final"}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("parallelism", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_results_are_those_of_rows(program, parallelism):
    if parallelism == 2 and any(program is PROGRAMS[name] for name in OF_ONE_SOURCE):
        pytest.skip("the order within a key depends on the source's subtasks")
    assert same_both_ways(program, parallelism)


def test_a_chain_of_evaluated_functions_takes_batches():
    found = counted(cheap_pairs)
    assert found["Filter", "batches in columns"] >= 2
    assert found["Filter", "evaluated"] == COUNT
    assert ("Filter", "given up and called") not in found or not found[
        "Filter", "given up and called"
    ]
    assert ("Filter", "batches given up") not in found


@pytest.mark.parametrize(("name", "operator"), [("top", "TopN"), ("last", "Deduplicate")])
def test_rankings_take_batches(name, operator):
    found = counted(PROGRAMS[name])
    assert found[operator, "batches in columns"] >= 1
    assert found[operator, "evaluated"] == COUNT
    assert (operator, "batches given up") not in found
    by_rows = counted(PROGRAMS[name], pipeline_columns="off")
    assert (operator, "batches in columns") not in by_rows


def test_without_columns_records_are_evaluated_one_by_one():
    found = counted(cheap_pairs, pipeline_columns="off")
    assert found["Filter", "evaluated"] == COUNT
    assert ("Filter", "batches in columns") not in found


def test_batches_that_do_not_fit_are_taken_one_by_one():
    """Division by zero: the error is Python's, with the user's line."""
    with pytest.raises(Exception) as caught:
        results(lambda s: s.map(lambda b: b.auction // b.bidder))
    assert "ZeroDivisionError" in repr(caught.value) or caught.type is ZeroDivisionError


def test_timestamps_of_batches_are_columns():
    program = PROGRAMS["timestamps"]
    found = counted(program)
    assert found["Timestamps/Watermarks", "batches in columns"] >= 2
    assert found["Map", "batches in columns"] >= 2


def test_batches_travel_between_subtasks():
    def build(stream):
        return (
            stream.map(lambda b: (b.auction, b.channel), output_type=PAIR)
            .key_by(lambda t: t[0])
            .map(lambda t: t[1])
        )

    same_both_ways(build, 2)
    found = counted(build, parallelism=2)
    assert found["Map", "batches out"] >= 4
    assert found["Map", "records out"] == COUNT


def test_batches_to_several_receivers_are_counted_together(caplog):
    """Each receiver has an exchange of its own; the count of the operator is their sum."""

    def build(stream):
        pairs = stream.map(lambda b: (b.auction, b.channel), output_type=PAIR).name("pairs")
        by_auction = pairs.key_by(lambda t: t[0]).map(lambda t: t[1])
        return by_auction.union(pairs.key_by(lambda t: t[1]).map(lambda t: t[1]))

    assert counted(build, parallelism=2)["pairs", "batches out"] >= 8
    assert "numBatchesOut" not in caplog.text


class Seen(MapFunction):
    """Emits each record, with the order of its timestamps intact."""

    def map(self, value):
        return value.at


@pytest.fixture
def folder(tmp_path):
    pq.write_table(table(), tmp_path / "bids.parquet", row_group_size=6000)
    return tmp_path


def of_files(folder, strategy=None):
    def source(env):
        made = FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat(BID), str(folder)
        ).build()
        return env.from_source(made, strategy or WatermarkStrategy.no_watermarks(), "files")

    return source


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_files_of_parquet(program, folder):
    assert same_both_ways(program, source=of_files(folder))


def test_a_source_with_event_time(folder):
    same_both_ways(lambda s: s.map(Seen()), source=of_files(folder, WATERMARKS))
    found = counted(cheap_pairs, of_files(folder, WATERMARKS))
    assert found["Filter", "batches in columns"] >= 2


def test_a_sink_of_parquet_takes_batches(folder, tmp_path_factory):
    written = {}
    for columns in ("auto", "off"):
        target = tmp_path_factory.mktemp(columns)
        env = in_process(pipeline_columns=columns)
        sink = FileSink.for_bulk_format(str(target), ParquetBulkWriters.for_row_type(BID)).build()
        of_files(folder)(env).filter(lambda b: b.bidder % 2 == 0).sink_to(sink)
        text = env.explain(analyze=True)
        assert ("batches in columns" in text) == (columns == "auto")
        written[columns] = pq.read_table(target).to_pylist()
    assert written["auto"] == written["off"]
    assert len(written["auto"]) == sum(n % 97 % 2 == 0 for n in range(COUNT))


def test_rows_are_made_with_their_class(folder):
    [first, *_] = results(lambda s: s, source=of_files(folder))
    assert first == Row(auction=0, bidder=0, price=0.0, channel="channel 0", at=0)


def explained(build, source=None, **options):
    env = in_process(**options)
    build((source or (lambda env: env.from_arrow(table())))(env)).sink_to(DiscardingSink())
    return [line.strip() for line in env.explain().splitlines() if "records" in line]


def test_the_plan_says_where_batches_go():
    assert explained(cheap_pairs)[:3] == ["records: batches of columns"] * 3
    assert explained(cheap_pairs, pipeline_columns="off") == []
    lines = explained(lambda s: s.map(lambda b: str(b.price)))
    assert lines[0].startswith("records: one by one, as a function is called: it ")
    lines = explained(lambda s: s.filter(lambda b: b.price > 5).map(lambda b: str(b.price)))
    assert lines[:2] == ["records: batches of columns"] * 2
    assert lines[2].startswith("records: one by one, as a function is called: it ")
    lines = explained(lambda s: s.key_by(lambda b: b.auction).map(lambda b: b.bidder))
    assert "records received: batches of columns" in lines
    lines = explained(
        lambda s: s.filter(lambda b: b.bidder > 3).rebalance().map(lambda b: b.bidder)
    )
    assert any(line.startswith("records received: one by one, as ") for line in lines)
    lines = explained(lambda s: s.map(lambda b: b.price**2))
    assert "records: one by one, as no kernel of Arrow computes '**'" in lines


def with_tax(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow.compute as pc

    return pa.record_batch({"auction": batch["auction"], "price": pc.multiply(batch["price"], 2.0)})


TAXED = Types.ROW_NAMED(["auction", "price"], [Types.LONG(), Types.DOUBLE()])


def test_a_function_of_batches():
    found = same_both_ways(lambda s: s.map_batches(with_tax, TAXED))
    assert found == [Row(auction=n * 7919 % 1000, price=n / 4) for n in range(COUNT)]


def test_json_lines_reach_evaluated_functions_as_columns(tmp_path):
    lines = [
        f'{{"auction": {n % 1000}, "bidder": {n}, "price": {n / 8}, "channel": "c{n % 7}"}}\n'
        for n in range(COUNT)
    ]
    lines[COUNT // 2] = '{"auction": "123", "bidder": 1.5, "channel": 7}\n'
    (tmp_path / "bids.json").write_text("".join(lines))
    schema = JsonRowDeserializationSchema.builder().type_info(BID).build()

    def source(env):
        files = FileSource.for_record_stream_format(
            StreamFormat.line_format(schema), str(tmp_path)
        ).build()
        return env.from_source(files, WatermarkStrategy.no_watermarks(), "lines")

    assert (123, "7") in same_both_ways(cheap_pairs, source=source)
    found = counted(cheap_pairs, source=source)
    assert found["Source", "blocks in columns"] >= 2
    assert found["Source", "blocks line by line"] == 1
    assert found["Filter", "batches in columns"] >= 2

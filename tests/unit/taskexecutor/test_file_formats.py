"""Every format of files: all records once, for any checkpoint and any subtasks that continue.

Method: files in the format, read by harnesses that are snapshotted after each number of elements
and restored into one or three subtasks.
"""

import bz2
import datetime
import gzip
import json
import lzma
import zlib
from dataclasses import replace

import fastavro
import fsspec
import pyarrow as pa
import pytest
from penstock.common import Configuration, Row, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.files import splits as file_splits
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.formats.arrow import ArrowColumnarRowInputFormat
from penstock.datastream.formats.avro import AvroSchema
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.datastream.formats.dead_letters import dead_letter_tag
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.datastream.formats.orc import OrcColumnarRowInputFormat
from penstock.datastream.formats.parquet import (
    AvroParquetReaders,
    ParquetColumnarRowInputFormat,
    ParquetColumnInputFormat,
)
from penstock.errors import FormatError, InvalidProgramError, SourceError
from penstock.formats.avro_files import AvroReaderFormat
from penstock.testing import OneInputStreamOperatorTestHarness
from pyarrow import orc, parquet
from support.s3_server import BUCKET, s3_server
from unit.taskexecutor.test_source_positions import run

DECLARED = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])
COUNT = 23
TABLE = pa.table({"s": [f"t{n}" for n in range(COUNT)], "n": list(range(COUNT))})
ROWS = [Row(n=n, s=f"t{n}") for n in range(COUNT)]
JSON = "".join(f'{{"n":{n},"s":"t{n}"}}\n' for n in range(COUNT)).encode()
CSV = "".join(f"{n},t{n}\n" for n in range(COUNT)).encode()


def json_lines(**policy):
    schema = JsonRowDeserializationSchema.builder().type_info(DECLARED).build()
    return StreamFormat.line_format(schema, **policy)


def csv_format(adjust=lambda builder: builder, **policy):
    builder = CsvSchema.builder().add_number_column("n", Types.INT()).add_string_column("s")
    adjust(builder)
    return CsvReaderFormat.for_schema(builder.build(), **policy)


def write_parquet(path):
    parquet.write_table(TABLE, path, row_group_size=5)


def write_orc(path):
    orc.write_table(TABLE, path)


def write_arrow(path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, TABLE.schema) as writer:
        for batch in TABLE.to_batches(5):
            writer.write_batch(batch)


AVRO = AvroSchema.parse_string(
    '{"type":"record","name":"A","fields":[{"name":"n","type":"int"},{"name":"s","type":"string"}]}'
)


def write_avro(path):
    records = [{"n": row.n, "s": row.s} for row in ROWS]
    with path.open("wb") as file:
        fastavro.writer(file, AVRO.parsed, records, codec="deflate", sync_interval=30)


def written(data):
    return lambda path: path.write_bytes(data)


def zstd(data):
    return pa.compress(data, "zstd", asbytes=True)


FORMATS = {
    "json": (json_lines, written(JSON)),
    "json.gz": (json_lines, written(gzip.compress(JSON))),
    "json.bz2": (json_lines, written(bz2.compress(JSON))),
    "json.xz": (json_lines, written(lzma.compress(JSON))),
    "json.deflate": (json_lines, written(zlib.compress(JSON))),
    "json.zst": (json_lines, written(zstd(JSON))),
    "csv": (csv_format, written(CSV)),
    "cut.csv": (lambda: csv_format(lambda b: b.disable_quote_char()), written(CSV)),
    "header.csv": (lambda: csv_format(lambda b: b.set_use_header()), written(b"n,s\n" + CSV)),
    "slow.csv": (lambda: csv_format(lambda b: b.set_allow_comments()), written(b"#c\n" + CSV)),
    "csv.gz": (csv_format, written(gzip.compress(CSV))),
    "parquet": (lambda: ParquetColumnarRowInputFormat(DECLARED, batch_size=3), write_parquet),
    "avro.parquet": (lambda: AvroParquetReaders.for_generic_record(AVRO), write_parquet),
    "avro": (lambda: AvroReaderFormat.for_generic_record(AVRO), write_avro),
    "orc": (lambda: OrcColumnarRowInputFormat(DECLARED, batch_size=3), write_orc),
    "arrow": (lambda: ArrowColumnarRowInputFormat(DECLARED, batch_size=3), write_arrow),
}


def source(file_format, *paths, strategy=None, **columns):
    if isinstance(file_format, StreamFormat):
        builder = FileSource.for_record_stream_format(file_format, *map(str, paths))
    else:
        builder = FileSource.for_bulk_file_format(file_format, *map(str, paths))
    if columns:
        builder.add_path_columns(**columns)
    operator = builder.build().source_operator()
    return replace(operator, watermark_strategy=strategy)


def elements(operator, options=None):
    test = OneInputStreamOperatorTestHarness(operator, configuration=options or {})
    with test:
        while test.operator.emit_next(1000) == 0:
            pass
        return test


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize("block_bytes", [40, 1 << 18])
def test_all_rows_are_read_once_after_a_checkpoint_anywhere(
    tmp_path, monkeypatch, name, block_bytes
):
    monkeypatch.setattr(file_splits, "_SMALLEST_SPLIT_BYTES", 64)
    monkeypatch.setattr(file_splits, "_BLOCK_BYTES", block_bytes)
    make, write = FORMATS[name]
    write(tmp_path / f"a.{name}")
    descriptor = source(make(), tmp_path)
    for count in (0, 1, 2, 3, 5, 6, 11, COUNT - 1, COUNT, COUNT + 2):
        (first,), snapshots = run(descriptor, None, [count])
        (rest,), _ = run(descriptor, snapshots, [None])
        assert first + rest == ROWS
        two, snapshots = run(descriptor, None, [count, 1])
        three, ended = run(descriptor, snapshots, [None] * 3)
        assert sorted(row.n for part in two + three for row in part) == list(range(COUNT))
        assert run(descriptor, ended, [None])[0] == [[]]


def test_large_files_are_cut_and_compressed_ones_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(file_splits, "_SMALLEST_SPLIT_BYTES", 16)
    shares = {}
    for name, (make, write) in FORMATS.items():
        folder = tmp_path / name
        folder.mkdir()
        write(folder / f"a.{name}")
        values, _ = run(source(make(), folder), None, [None] * 3)
        shares[name] = sum(1 for part in values if part)
    cut = {name for name, number in shares.items() if number > 1}
    assert cut == {"json", "cut.csv", "avro", "parquet", "avro.parquet", "arrow"}, "one ORC stripe"


def test_the_values_of_one_column(tmp_path):
    write_parquet(tmp_path / "a")
    numbers = ParquetColumnInputFormat("n", Types.LONG())
    assert elements(source(numbers, tmp_path)).values == list(range(COUNT))


@pytest.mark.parametrize("kind", [Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG()])
def test_whole_numbers_of_any_size_fit_or_are_named(tmp_path, kind):
    values = [0, 1, -1, 127, -128]
    parquet.write_table(pa.table({"n": pa.array(values, pa.int32())}), tmp_path / "a")
    found = elements(source(ParquetColumnInputFormat("n", kind), tmp_path)).values
    assert found == values
    assert {type(value) for value in found} == {int}
    parquet.write_table(pa.table({"n": pa.array([2**63], pa.uint64())}), tmp_path / "a")
    with pytest.raises(FormatError, match="the field 'n' does not fit"):
        elements(source(ParquetColumnInputFormat("n", kind), tmp_path))


def test_integers_continue_at_a_checkpoint(tmp_path):
    count = 1000
    parquet.write_table(pa.table({"n": range(count)}), tmp_path / "a", row_group_size=300)
    operator = source(ParquetColumnInputFormat("n", Types.LONG(), batch_size=70), tmp_path)
    for steps in range(0, 40, 3):
        with OneInputStreamOperatorTestHarness(operator) as test:
            for _ in range(steps):
                test.operator.emit_next(33)
            snapshot, before = test.snapshot(1), test.values
        after = OneInputStreamOperatorTestHarness(operator)
        after.initialize_state(snapshot)
        with after:
            while after.operator.emit_next(33) == 0:
                pass
            assert before + after.values == list(range(count)), steps


NUMBERS = [*range(-3, 4), 2**62, -(2**63), 2**63 - 1, *range(200)]

FUNCTIONS = {
    "a filter": lambda stream: stream.filter(lambda n: n > 1),
    "a map": lambda stream: stream.map(lambda n: n * n % 7, Types.LONG()),
    "beyond 64 bits": lambda stream: stream.map(lambda n: str(n * 4), Types.STRING()),
    "what is called": lambda stream: stream.map(lambda n: f"{n:05}", Types.STRING()),
    "sometimes what is called": lambda stream: stream.filter(
        lambda n: n % 2 == 0 if n < 100 else bool(str(n)[-1:] > "4")
    ),
    "tuples by key": lambda stream: (
        stream.map(lambda n: (n % 3, n), Types.TUPLE([Types.LONG(), Types.LONG()]))
        .key_by(lambda pair: pair[0], Types.LONG())
        .map(lambda pair: pair[1], Types.LONG())
    ),
    "nothing": lambda stream: stream,
    "several": lambda stream: stream.filter(lambda n: n != 0).map(lambda n: n // 2, Types.LONG()),
}


@pytest.mark.process
@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_functions_of_whole_numbers_of_a_column(tmp_path, monkeypatch, name, runtime):
    """They compute the same as with these numbers in a list."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    parquet.write_table(pa.table({"n": pa.array(NUMBERS, pa.int64())}), tmp_path / "a")
    found = []
    for is_column in (True, False):
        configuration = Configuration().set_string("execution.target", "local")
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(1)
        if is_column:
            numbers = ParquetColumnInputFormat("n", Types.LONG())
            made = FileSource.for_bulk_file_format(numbers, str(tmp_path)).build()
            stream = env.from_source(made, WatermarkStrategy.no_watermarks(), "numbers")
        else:
            stream = env.from_collection(NUMBERS, Types.LONG())
        with FUNCTIONS[name](stream).execute_and_collect() as results:
            found.append(list(results))
    assert found[0] == found[1]


def test_types_of_columns(tmp_path):
    declared = Types.ROW_NAMED(
        ["m", "l", "r", "t", "d", "o"],
        [
            Types.MAP(Types.STRING(), Types.LONG()),
            Types.LIST(Types.INT()),
            Types.ROW_NAMED(["x"], [Types.LONG()]),
            Types.SQL_TIMESTAMP(),
            Types.DOUBLE(),
            Types.LONG(),
        ],
    )
    when = datetime.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            "l": [[1, None]],
            "r": [{"x": 1}],
            "t": pa.array([when], pa.timestamp("ns", "UTC")),
            "d": [1],
            "o": pa.array([None], pa.int64()),
        }
    )
    parquet.write_table(table, tmp_path / "a")
    expected = Row(m={"a": 1}, l=[1, None], r=Row(x=1), t=when, d=1.0, o=None)
    for row_type in (declared, table.schema):
        (row,) = elements(source(ParquetColumnarRowInputFormat(row_type), tmp_path)).values
        assert row == expected


@pytest.mark.parametrize(
    ("make", "data", "message"),
    [
        (json_lines, b'{"n":1}\n\n{"n":"x"}\n', "line 3 of .*a: the field 'n': 'x' is not a whole"),
        (csv_format, b'1,"a\nb"\nx,c\n', "line 3 of .*a: the field 'n': 'x' is not a whole number"),
        (csv_format, b"1,a\n2\n", "line 2 of .*a: 2 fields are expected, but there are 1"),
        (csv_format, b'1,a\n2,"a\n', "line 2 of .*a: field 2 begins with a quote"),
        (
            lambda: csv_format(lambda b: b.set_use_header().set_strict_headers()),
            b"a,b\n1,2\n",
            r"line 1 of .*a: the columns are \['a', 'b'\], not \['n', 's'\]",
        ),
        (lambda: ParquetColumnarRowInputFormat(DECLARED), b"no parquet", "a: Parquet"),
        (lambda: AvroReaderFormat.for_generic_record(AVRO), b"no avro", "a is not an Avro file"),
        (lambda: ArrowColumnarRowInputFormat(DECLARED), b"no arrow" * 9, "a: .*Arrow"),
    ],
)
def test_errors_name_file_line_and_field(tmp_path, make, data, message):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(FormatError, match=message):
        elements(source(make(), tmp_path))


def test_avro_files_of_another_version(tmp_path):
    """Fields in another order, and a new one with a default between others."""
    number, text = AVRO.parsed["fields"]
    old = {"type": "record", "name": "A", "fields": [text, number]}
    new = {**old, "fields": [number, {"name": "new", "type": "int", "default": 7}, text]}
    with (tmp_path / "a").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(old), [{"s": "x", "n": 1}])
    avro = AvroReaderFormat.for_generic_record(AvroSchema.parse_string(json.dumps(new)))
    assert elements(source(avro, tmp_path / "a")).values == [Row(n=1, new=7, s="x")]


def test_avro_files_that_are_cut_off_or_hold_something_else(tmp_path):
    write_avro(tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    avro = AvroReaderFormat.for_generic_record(AVRO)
    for wrong, message in (
        (data[:-1], "a: the block at [0-9]+ is cut off"),
        (data + b"\x02\x01", "a: there is no Avro block at [0-9]+"),
        (data + b"\x02\x02x" + b"m" * 16, "a, block at [0-9]+, record 1: "),
    ):
        (tmp_path / "a").write_bytes(wrong)
        with pytest.raises(FormatError, match=message):
            elements(source(avro, tmp_path / "a"))


@pytest.mark.parametrize(
    ("write", "make"),
    [
        (write_parquet, ParquetColumnarRowInputFormat),
        (write_orc, OrcColumnarRowInputFormat),
        (write_arrow, ArrowColumnarRowInputFormat),
    ],
)
def test_damaged_files_of_columns_are_named(tmp_path, write, make):
    """Files of another format, and files whose middle is corrupt."""
    path = tmp_path / "a"
    path.write_bytes(b"something that is no file of columns")
    with pytest.raises((FormatError, SourceError), match=f"^{path}"):
        elements(source(make(DECLARED), path))
    write(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:8] + b"\xff" * (len(whole) // 2) + whole[8 + len(whole) // 2 :])
    with pytest.raises((FormatError, SourceError), match=f"^{path}"):
        elements(source(make(DECLARED), path))


def test_columns_that_do_not_fit(tmp_path):
    write_parquet(tmp_path / "a")
    wrong = Types.ROW_NAMED(["s"], [Types.INT()])
    with pytest.raises(FormatError, match=r"a, rows from 0 of piece 0: the field 's' does not fit"):
        elements(source(ParquetColumnarRowInputFormat(wrong), tmp_path))
    other_case = Types.ROW_NAMED(["N"], [Types.INT()])
    with pytest.raises(FormatError, match=r"a has no column 'N', it has \['s', 'n'\]"):
        elements(source(ParquetColumnarRowInputFormat(other_case), tmp_path))
    lenient = ParquetColumnarRowInputFormat(other_case, is_case_sensitive=False)
    assert elements(source(lenient, tmp_path)).values[1] == Row(N=1)


class OfNumber(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.n


@pytest.mark.parametrize("make", [json_lines, csv_format])
def test_dead_letters_pass_by_the_watermarks(tmp_path, make):
    good, bad = (b'{"n":1}', b'{"n":"x"}') if make is json_lines else (b"1,a", b"x,a")
    (tmp_path / "a").write_bytes(good + b"\n" + bad + b"\n" + good + b"\n")
    skipping = elements(source(make(skip_malformed=True), tmp_path))
    assert len(skipping.values) == 2
    assert skipping.operator.errors.get_count() == 1
    tag = dead_letter_tag("bad")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OfNumber())
    for watermarks in (None, strategy):
        test = elements(source(make(dead_letters=tag), tmp_path, strategy=watermarks))
        assert [row.n for row in test.values] == [1, 1]
        (letter,) = [record.value for record in test.output.side_output(tag)]
        assert (letter.origin, letter.position) == (str(tmp_path / "a"), 2)
        assert "'n'" in letter.error
        assert letter.data.rstrip() == bad


def test_columns_of_the_path(tmp_path):
    folder = tmp_path / "day=2020-01-02" / "shop=7"
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"1,x\n")
    operator = source(
        csv_format(),
        tmp_path,
        path_column="file",
        partition_columns={"shop": Types.INT(), "day": Types.STRING()},
    )
    assert elements(operator).values == [
        Row(n=1, s="x", file=str(folder / "a"), shop=7, day="2020-01-02")
    ]
    with pytest.raises(FormatError, match="is not in a folder year="):
        elements(source(csv_format(), tmp_path, partition_columns={"year": Types.INT()}))
    with pytest.raises(FormatError, match="the field 'day'"):
        elements(source(csv_format(), tmp_path, partition_columns={"day": Types.INT()}))
    with pytest.raises(InvalidProgramError, match="must differ"):
        source(csv_format(), tmp_path, path_column="n")
    with pytest.raises(InvalidProgramError, match="added to rows"):
        source(StreamFormat.text_line_format(), tmp_path, path_column="n")


def test_header_is_left_out_or_chooses_the_columns_or_is_strict(tmp_path):
    (tmp_path / "a").write_bytes(b"s,other\n1,a\n")
    assert elements(source(csv_format(lambda b: b.set_use_header()), tmp_path)).values == [
        Row(n=1, s="a")
    ]
    (tmp_path / "a").write_bytes(b"other,s,n\n0,a,1\n")
    by_name = csv_format(lambda b: b.set_use_header().set_reorder_columns())
    assert elements(source(by_name, tmp_path)).values == [Row(n=1, s="a")]
    strict = csv_format(lambda b: b.set_use_header().set_strict_headers())
    with pytest.raises(FormatError, match="the columns are"):
        elements(source(strict, tmp_path))
    (tmp_path / "a").write_bytes(b"anything\n1,a\n")
    skipping = csv_format(lambda b: b.set_skip_first_data_row())
    assert elements(source(skipping, tmp_path)).values == [Row(n=1, s="a")]


def test_settings_of_csv_files(tmp_path):
    (tmp_path / "a").write_bytes(b"1;'a;b\\'c';1|2;true\n;;;x\n")
    builder = (
        CsvSchema.builder()
        .add_columns_from(CsvSchema.builder().add_number_column("n").build())
        .add_string_column("s")
        .add_array_column("l", "|", Types.INT())
        .add_boolean_column("b")
        .set_column_separator(";")
        .set_quote_char("'")
        .set_escape_char("\\")
        .set_null_value("")
    )
    assert len(builder) == len(builder.build()) == 4
    assert elements(source(CsvReaderFormat.for_schema(builder.build()), tmp_path)).values == [
        Row(n=1, s="a;b'c", l=[1, 2], b=True),
        Row(n=None, s=None, l=None, b=False),
    ]
    for wrong in (
        lambda: CsvSchema.builder().build(),
        lambda: builder.add_string_column("s"),
        lambda: builder.set_quote_char("ab"),
        lambda: builder.set_any_property_name("x"),
        lambda: CsvReaderFormat.for_schema("x"),
        lambda: csv_format(skip_malformed=True, dead_letters=dead_letter_tag("x")),
    ):
        with pytest.raises(InvalidProgramError):
            wrong()


@pytest.mark.parametrize(
    ("adjust", "data", "expected"),
    [
        (lambda b: b.set_use_header().set_skip_first_data_row(), b"n\n1\n2\n", [2]),
        (lambda b: b.set_use_header().set_skip_first_data_row(), b"n\r1\r2\r", [2]),
        (lambda b: b.set_use_header(), b"n\r1\r2\r", [1, 2]),
        (lambda b: b.set_skip_first_data_row(), b"1\r2\r", [2]),
        (lambda b: b.set_skip_first_data_row(), b"1\r\n2\r\n", [2]),
        (lambda b: b.set_use_header().set_use_header(False), b"1\n", [1]),
        (lambda b: b.set_allow_comments(), b"#1\n2\n", [2]),
        (lambda b: b.clear_columns().add_column("n", Types.SQL_DATE()), b"2020-01-02\n", None),
        (lambda b: b.add_string_column("s").set_use_header(), b'n,"s"\n1,"a\nb"\n', [1]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_text_before_the_rows_of_a_csv_file(tmp_path, adjust, data, expected, ending):
    """As in PyFlink: the first row of data follows the header."""
    path = tmp_path / f"a.{ending}"
    path.write_bytes(gzip.compress(data) if ending == "csv.gz" else data)
    schema = adjust(CsvSchema.builder().add_number_column("n")).build()
    found = [row.n for row in elements(source(CsvReaderFormat.for_schema(schema), path)).values]
    assert found == ([datetime.date(2020, 1, 2)] if expected is None else expected)


def test_a_name_in_a_header_may_have_several_lines(tmp_path):
    (tmp_path / "a").write_bytes(b'"of\nus",n\nx,1\n')
    schema = CsvSchema.builder().add_number_column("n").add_string_column("of\nus")
    made = CsvReaderFormat.for_schema(schema.set_use_header().set_reorder_columns().build())
    assert [tuple(row) for row in elements(source(made, tmp_path)).values] == [(1, "x")]


@pytest.mark.parametrize(
    ("adjust", "expected"),
    [
        (lambda b: b.add_array_column("l"), ["a|b:c", "d"]),
        (lambda b: b.add_array_column("l", "|"), ["a", "b:c;d"]),
        (lambda b: b.add_array_column("l", ":").set_array_element_separator("|"), ["a|b", "c;d"]),
        (lambda b: b.add_array_column("l", "").set_array_element_separator("|"), ["a", "b:c;d"]),
        (lambda b: b.set_array_element_separator("|").add_array_column("l", ""), ["a", "b:c;d"]),
        (lambda b: b.add_array_column("l", "").disable_array_element_separator(), ["a|b:c;d"]),
        (lambda b: b.add_array_column("l").disable_array_element_separator(), ["a|b:c", "d"]),
        (
            lambda b: (
                b.add_array_column("l", "|")
                .remove_array_element_separator(0)
                .set_array_element_separator(":")
            ),
            ["a|b", "c;d"],
        ),
        (lambda b: b.add_column("l", Types.BASIC_ARRAY(Types.STRING())), ["a|b:c", "d"]),
        (
            lambda b: b.add_columns_from(CsvSchema.builder().add_array_column("l", "|").build()),
            ["a", "b:c;d"],
        ),
    ],
)
def test_separators_of_arrays(tmp_path, adjust, expected):
    """As in PyFlink: the column's own one, or one for all columns that have none."""
    (tmp_path / "a").write_bytes(b"a|b:c;d\n")
    schema = adjust(CsvSchema.builder()).build()
    (row,) = elements(source(CsvReaderFormat.for_schema(schema), tmp_path)).values
    assert list(row.l) == expected


@pytest.mark.parametrize("name", ["json", "json.gz", "csv", "parquet"])
def test_files_of_a_store(tmp_path, name):
    make, write = FORMATS[name]
    write(tmp_path / "data")
    with s3_server() as server:
        for key in (f"in/a.{name}", f"in/deep/b.{name}", "in/_hidden/c", f"in/.d.{name}"):
            server.client.put_object(Bucket=BUCKET, Key=key, Body=(tmp_path / "data").read_bytes())
        operator = source(make(), f"s3://{BUCKET}/in")
        assert elements(operator, server.options).values == ROWS * 2
        one = source(make(), f"s3://{BUCKET}/in/a.{name}")
        assert elements(one, server.options).values == ROWS
        with pytest.raises(FileNotFoundError, match="it does not exist"):
            elements(source(make(), f"s3://{BUCKET}/no"), server.options)
        with pytest.raises(FileNotFoundError, match="'s3://nowhere/x': it does not exist"):
            elements(source(make(), "s3://nowhere/x"), server.options)
        refused = pytest.raises(SourceError, match=r"cannot read 's3://.*permissions of their user")
        with refused, server.locked():
            elements(source(make(), f"s3://{BUCKET}/data"), server.options)


def test_files_of_fsspec():
    store = fsspec.filesystem("memory")
    store.pipe("/formats/a.csv", CSV)
    try:
        assert elements(source(csv_format(), "memory://formats")).values == ROWS
    finally:
        store.rm("/formats", recursive=True)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "deflate", "zst"])
@pytest.mark.parametrize("damage", ["cut off", "something else"])
def test_a_damaged_compressed_file_is_named(tmp_path, ending, damage):
    path = tmp_path / f"lines.{ending}"
    FORMATS[f"json.{ending}"][1](path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if damage == "cut off" else JSON)
    with pytest.raises(SourceError, match=f"lines.{ending} cannot be decompressed"):
        elements(source(json_lines(), path))

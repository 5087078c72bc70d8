"""Jobs that read and write files and whose workers are killed: every row once (M63).

Method: real processes of the local target, many small splits, a function that kills its worker at
some rows; the FileSink's committed output is compared with the files' rows.
"""

import gzip

import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream import MapFunction
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from pyarrow import parquet, table

from recovery.programs import environment
from recovery.sink_programs import Fate, fates

FILES = 4
ROWS = 60_000
MOMENTS = [0, 15_001, 30_002, 45_003, 59_999]
DECLARED = Types.ROW_NAMED(["n"], [Types.LONG()])


class FailingAt(MapFunction):
    """Kills its worker at the first occurrence of some rows."""

    def __init__(self, fate):
        self.fate = fate

    def map(self, value):
        if value.n in MOMENTS:
            self.fate.strike(str(value.n))
        return value


def json_source(folder):
    folder.mkdir()
    for number in range(FILES):
        lines = (f'{{"n":{n}}}\n' for n in range(number, ROWS, FILES))
        opened = gzip.open if number else open
        with opened(folder / f"{number}.json{'.gz' if number else ''}", "wt") as file:
            file.writelines(lines)
    schema = JsonRowDeserializationSchema.builder().type_info(DECLARED).build()
    return FileSource.for_record_stream_format(StreamFormat.line_format(schema), str(folder))


def parquet_source(folder):
    folder.mkdir()
    for number in range(FILES):
        parquet.write_table(
            table({"n": list(range(number, ROWS, FILES))}),
            folder / f"{number}.parquet",
            row_group_size=1000,
        )
    return FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(DECLARED), str(folder))


def lines_of(stream):
    texts = stream.map(lambda row: str(row.n), Types.STRING())
    return texts, FileSink.for_row_format, Encoder.simple_string_encoder()


def columns_of(stream):
    return stream, FileSink.for_bulk_format, ParquetBulkWriters.for_row_type(DECLARED)


def read_lines(part):
    return map(int, part.read_text().split())


def read_columns(part):
    return parquet.read_table(part)["n"].to_pylist()


@pytest.mark.parametrize("runtime", ["native", "pure"])
@pytest.mark.parametrize(
    ("make", "written_as", "read"),
    [(json_source, lines_of, read_lines), (parquet_source, columns_of, read_columns)],
)
def test_every_row_once_though_workers_are_killed(
    tmp_path, monkeypatch, runtime, make, written_as, read
):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", map(str, MOMENTS))
    out = tmp_path / "out"
    env = environment({})
    source = make(tmp_path / "in").build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    failing = stream.map(FailingAt(Fate(tmp_path / "fates", "kill")), DECLARED)
    elements, of_format, format_of_sink = written_as(failing)
    sink = (
        of_format(str(out), format_of_sink)
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    elements.sink_to(sink)
    env.execute()
    assert not list((tmp_path / "fates").iterdir())
    found = [number for part in out.glob("part-*") for number in read(part)]
    assert sorted(found) == list(range(ROWS))

"""Jobs that read files and whose workers are killed: every row once (F12).

Method: real processes of the local target, many small splits, a function that kills its worker
at some rows; what a FileSink has committed is compared with the files' rows.
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
from penstock.datastream.formats.parquet import ParquetColumnarRowInputFormat
from pyarrow import parquet, table
from recovery.programs import environment
from recovery.sink_programs import Fate, fates

FILES = 4
ROWS = 60_000
MOMENTS = [0, 15_001, 30_002, 45_003, 59_999]
DECLARED = Types.ROW_NAMED(["n"], [Types.LONG()])


class FailingAt(MapFunction):
    """Kills its worker where some rows come first."""

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


@pytest.mark.parametrize("runtime", ["native", "pure"])
@pytest.mark.parametrize("make", [json_source, parquet_source])
def test_every_row_once_though_workers_are_killed(tmp_path, monkeypatch, runtime, make):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", map(str, MOMENTS))
    out = tmp_path / "out"
    env = environment({})
    source = make(tmp_path / "in").build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    sink = (
        FileSink.for_row_format(str(out), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    failing = FailingAt(Fate(tmp_path / "fates", "kill"))
    stream.map(failing, DECLARED).map(lambda row: str(row.n), Types.STRING()).sink_to(sink)
    env.execute()
    assert not list((tmp_path / "fates").iterdir())
    found = [int(n) for part in out.glob("part-*") for n in part.read_text().split()]
    assert sorted(found) == list(range(ROWS))

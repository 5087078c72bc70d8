"""What all sources have in common that need no server, each in the same scenarios.

A job is stopped with a savepoint in the middle of its elements and goes on from it at another
parallelism, to its end: each element once.  A job whose source waits is cancelled.
"""

import asyncio
import queue
import threading

import fastavro
import pyarrow as pa
import pytest
from penstock.common import Configuration, Duration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_generator import DataGeneratorSource
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.formats.arrow import ArrowColumnarRowInputFormat
from penstock.datastream.formats.avro import AvroSchema
from penstock.datastream.formats.avro_files import AvroReaderFormat
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.datastream.formats.orc import OrcColumnarRowInputFormat
from penstock.datastream.formats.parquet import (
    ParquetColumnarRowInputFormat,
    ParquetColumnInputFormat,
)
from penstock.errors import JobCancelledError
from pyarrow import orc, parquet
from support.gates import GATES, Gate, Gated, stopped

pytestmark = pytest.mark.timeout(120)

COUNT = 30_000
FILES = 3
DECLARED = Types.ROW_NAMED(["n"], [Types.LONG()])
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'


def environment(parallelism, **options):
    configuration = Configuration.from_dict({"execution.target": "in-process", **options})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def stream_of(env, source):
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "source")


def parts():
    return [range(number, COUNT, FILES) for number in range(FILES)]


def files_of(write, made):
    """A source of files, of which each has a part of the numbers, as a row or alone."""

    def make(env, folder):
        if not folder.exists():
            folder.mkdir()
            for number, part in enumerate(parts()):
                write(folder / str(number), list(part))
        given = made()
        bulk = not isinstance(given, StreamFormat)
        build = FileSource.for_bulk_file_format if bulk else FileSource.for_record_stream_format
        stream = stream_of(env, build(given, str(folder)).build())
        return stream.map(lambda value: int(getattr(value, "n", value)), Types.LONG())

    return make


def lines(form):
    return lambda path, part: path.write_text("".join(form.format(n) for n in part))


def csv_format(adjust):
    builder = CsvSchema.builder().add_number_column("n")
    adjust(builder)
    return CsvReaderFormat.for_schema(builder.build())


def json_format():
    return StreamFormat.line_format(
        JsonRowDeserializationSchema.builder().type_info(DECLARED).build()
    )


def write_avro(path, part):
    with path.open("wb") as file:
        rows = [{"n": n} for n in part]
        fastavro.writer(file, fastavro.parse_schema(AvroSchema.parse_string(AVRO).parsed), rows)


def write_arrow(path, part):
    table = pa.table({"n": part})
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=500)


def write_parquet(path, part):
    parquet.write_table(pa.table({"n": part}), path, row_group_size=500)


def write_orc(path, part):
    orc.write_table(pa.table({"n": part}), path)


def hybrid(env, folder):
    first = NumberSequenceSource(0, COUNT // 2 - 1)
    return stream_of(
        env,
        HybridSource.builder(first).add_source(NumberSequenceSource(COUNT // 2, COUNT - 1)).build(),
    )


def generated(env, folder):
    source = DataGeneratorSource(lambda n: n, COUNT, type_info=Types.LONG())
    return stream_of(env, source)


SOURCES = {
    "numbers": lambda env, _: stream_of(env, NumberSequenceSource(0, COUNT - 1)),
    "generated": generated,
    "collection": lambda env, _: env.from_collection(list(range(COUNT)), Types.LONG()),
    "arrow": lambda env, _: env.from_arrow(pa.table({"n": list(range(COUNT))})).map(
        lambda row: row.n, Types.LONG()
    ),
    "hybrid": hybrid,
    "lines": files_of(lines("{}\n"), StreamFormat.text_line_format),
    "csv": files_of(lines("{}\n"), lambda: csv_format(lambda made: made.disable_quote_char())),
    "quoted csv": files_of(lines('"{}"\n'), lambda: csv_format(lambda made: made)),
    "csv line by line": files_of(
        lines("{}\n"), lambda: csv_format(lambda made: made.set_allow_comments())
    ),
    "json": files_of(lines('{{"n":{}}}\n'), json_format),
    "avro": files_of(
        write_avro, lambda: AvroReaderFormat.for_generic_record(AvroSchema.parse_string(AVRO))
    ),
    "parquet": files_of(write_parquet, lambda: ParquetColumnarRowInputFormat(DECLARED)),
    "parquet column": files_of(write_parquet, lambda: ParquetColumnInputFormat("n", Types.LONG())),
    "orc": files_of(write_orc, lambda: OrcColumnarRowInputFormat(DECLARED)),
    "arrow file": files_of(write_arrow, lambda: ArrowColumnarRowInputFormat(DECLARED)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_each_element_once_at_another_parallelism(name, tmp_path):
    def started(gate, parallelism, **options):
        GATES[gate] = Gate()
        # One that one subtask reads stands in a chain with the gate, too.
        env = environment(1 if name == "collection" else parallelism, **options)
        stream = SOURCES[name](env, tmp_path / "files")
        stream.map(Gated(gate), Types.LONG()).sink_to(DiscardingSink())
        return env.execute_async(), GATES[gate]

    job, first = started("first", 2)
    # So few that no subtask comes to its end, even if it gets them all.
    first.let(COUNT // 10)
    first.wait_for(COUNT // 10)
    path = stopped(job, first, str(tmp_path / "savepoints"))
    job, second = started("second", 3, **{"execution.state-recovery.path": path})
    second.let(COUNT)
    job.get_job_execution_result().result()
    assert sorted(first.seen + second.seen) == list(range(COUNT))


def monitored(env, folder):
    folder.mkdir()
    (folder / "a").write_text("".join(f"{n}\n" for n in range(10)))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    return stream_of(env, source.monitor_continuously(Duration.of_millis(100)).build())


def queued(env, folder):
    elements = queue.Queue()
    for number in range(10):
        elements.put(number)
    return env.from_queue(elements, Types.LONG())


async def ten_and_silence():
    for number in range(10):
        yield number
    await asyncio.Event().wait()


WAITING = {
    "monitored files": monitored,
    "queue": queued,
    "asynchronous iterator": lambda env, _: env.from_async_iterator(ten_and_silence, Types.LONG()),
}


@pytest.mark.parametrize("name", WAITING)
@pytest.mark.parametrize("interval", [None, "50 ms"])
def test_a_source_that_waits_is_cancelled(name, interval, tmp_path):
    threads = set(threading.enumerate())
    GATES["waiting"] = gate = Gate()
    options = {} if interval is None else {"execution.checkpointing.interval": interval}
    env = environment(2, **options)
    WAITING[name](env, tmp_path / "files").map(Gated("waiting")).sink_to(DiscardingSink())
    job = env.execute_async()
    gate.let(10)
    gate.wait_for(10)
    job.cancel().result()
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()
    left = [thread for thread in set(threading.enumerate()) - threads if thread.is_alive()]
    for thread in left:
        thread.join(30)
    assert [thread.name for thread in left if thread.is_alive()] == []

"""The scenarios that all sources share, for sources that need no server.

A job is stopped with a savepoint amid its elements and continues from it at another parallelism, or
fails or loses a worker there and continues from a checkpoint, to its end: each element once.  A job
whose source waits is cancelled.  Those of Kafka, RabbitMQ, PostgreSQL and Spark, whose servers take
seconds to start, are with their other tests.
"""

import asyncio
import contextlib
import contextvars
import queue
import threading

import deltalake
import fastavro
import pandas
import polars
import pyarrow as pa
import pytest
from integration.test_iceberg import Lake
from penstock.common import Configuration, Duration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_generator import DataGeneratorSource
from penstock.datastream.connectors.delta import DeltaSource
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.http import HttpSource
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.connectors.iceberg import IcebergSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.formats.arrow import ArrowColumnarRowInputFormat
from penstock.datastream.formats.avro import AvroSchema
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.datastream.formats.orc import OrcColumnarRowInputFormat
from penstock.datastream.formats.parquet import (
    ParquetColumnarRowInputFormat,
    ParquetColumnInputFormat,
)
from penstock.errors import JobCancelledError
from penstock.formats.avro_files import AvroReaderFormat
from pyarrow import orc, parquet
from support.gates import GATES, Gate, Gated
from support.number_pages import NumberPages
from support.patience import PATIENCE_S
from support.source_scenarios import (
    a_slow_split_holds_the_watermark,
    an_idle_subtask_does_not_hold_the_watermark,
    once_after_a_failure,
    once_after_a_kill,
    once_at_another_parallelism,
)

COUNT = 30_000
FILES = 3
DECLARED = Types.ROW_NAMED(["n"], [Types.LONG()])
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'


def environment(parallelism, **options):
    configuration = Configuration.from_dict({"execution.target": "in-process", **options})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


#: The strategy of the created sources; set by tests about watermarks.
NONE = WatermarkStrategy.no_watermarks()
STRATEGY = contextvars.ContextVar("strategy", default=NONE)


def stream_of(env, source):
    return env.from_source(source, STRATEGY.get(), "source")


def made_with(make):
    """Return a function that makes a stream with a strategy."""

    def make_with(env, strategy):
        token = STRATEGY.set(strategy)
        try:
            return make(env)
        finally:
            STRATEGY.reset(token)

    return make_with


def parts():
    return [range(number, COUNT, FILES) for number in range(FILES)]


def files_of(write, made):
    """Return a source of files, each of which contains a part of the numbers, as rows or alone."""

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


def delta(source_of):
    """Return a source of a table of Delta Lake, which is written in three versions."""

    def make(env, folder):
        if not folder.exists():
            for part in parts():
                deltalake.write_deltalake(str(folder), pa.table({"n": list(part)}), mode="append")
        return stream_of(env, source_of(str(folder))).map(lambda row: row.n, Types.LONG())

    return make


def iceberg(env, folder):
    lake = Lake(folder.parent) if not folder.exists() else None
    if lake is not None:
        folder.mkdir()
        table = lake.catalog.create_table("db.t", schema=pa.schema([("n", pa.int64())]))
        for part in parts():
            table.append(pa.table({"n": list(part)}))
        lake.catalog.engine.dispose()
    source = IcebergSource.for_snapshot(
        "db.t", catalog=Lake.properties_of(folder.parent), name="lake"
    )
    return stream_of(env, source).map(lambda row: row.n, Types.LONG())


SERVICES = contextlib.ExitStack()


@pytest.fixture(autouse=True)
def services_end():
    with SERVICES:
        yield


def http_service(env, _):
    server = SERVICES.enter_context(NumberPages("n", COUNT, 1000))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    SERVICES.callback(thread.join)
    SERVICES.callback(server.shutdown)
    url = f"http://127.0.0.1:{server.server_port}/"
    source = HttpSource(url, cursor_parameter="after", cursor="n", bounded=True)
    return stream_of(env, source).map(lambda element: element["n"], Types.LONG())


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
    "pandas": lambda env, _: env.from_pandas(pandas.DataFrame({"n": range(COUNT)})).map(
        lambda row: row.n, Types.LONG()
    ),
    "polars": lambda env, _: env.from_polars(polars.DataFrame({"n": range(COUNT)})).map(
        lambda row: row.n, Types.LONG()
    ),
    "hybrid": hybrid,
    "delta": delta(DeltaSource.for_snapshot),
    "delta changes": delta(lambda path: DeltaSource.for_changes(path, end_version=FILES - 1)),
    "iceberg": iceberg,
    "http": http_service,
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


# A source with a single subtask is chained to the gate, too.
PARALLELISM = {"collection": 1}


def made(name, folder):
    return lambda env: SOURCES[name](env, folder)


@pytest.mark.parametrize("name", SOURCES)
def test_each_record_once_at_another_parallelism(name, tmp_path):
    make = made(name, tmp_path / "files")
    once_at_another_parallelism(make, tmp_path, COUNT, parallelism=PARALLELISM.get(name, 2))


@pytest.mark.parametrize("name", SOURCES)
def test_each_record_once_after_a_failure(name, tmp_path):
    make = made(name, tmp_path / "files")
    once_after_a_failure(make, COUNT, parallelism=PARALLELISM.get(name, 2))


#: One for each kind of position: those of other formats and frames use the same checkpoints, and
#: their own positions are restored after a failure, above.
KILLED = [
    *("numbers", "generated", "collection", "arrow", "hybrid", "delta", "delta changes"),
    *("iceberg", "http", "lines", "parquet"),
]


@pytest.mark.parametrize("name", KILLED)
def test_each_record_once_after_a_kill(name, tmp_path):
    make = made(name, tmp_path / "files")
    once_after_a_kill(make, tmp_path, COUNT, parallelism=PARALLELISM.get(name, 2))


#: Sources whose strategy is applied behind them, without splits, or that have only one split.
WITHOUT_SPLITS = ("collection", "arrow", "pandas", "polars", "delta changes", "http", "hybrid")


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in WITHOUT_SPLITS])
def test_a_slow_split_holds_the_watermark(name, tmp_path):
    a_slow_split_holds_the_watermark(made_with(made(name, tmp_path / "files")), COUNT)


# ---- sources without an end --------------------------------------------------------------------


def table_followed(env, folder):
    if not folder.exists():
        for part in parts():
            deltalake.write_deltalake(str(folder), pa.table({"n": list(part)}), mode="append")
    source = DeltaSource.for_changes(str(folder), discovery_interval_ms=20)
    return stream_of(env, source).map(lambda row: row.n, Types.LONG())


def appends_followed(env, folder):
    if not folder.exists():
        folder.mkdir()
        lake = Lake(folder.parent)
        table = lake.catalog.create_table("db.t", schema=pa.schema([("n", pa.int64())]))
        for part in parts():
            table.append(pa.table({"n": list(part)}))
        lake.catalog.engine.dispose()
    source = IcebergSource.for_appends(
        "db.t", catalog=Lake.properties_of(folder.parent), name="lake", discovery_interval_ms=20
    )
    return stream_of(env, source).map(lambda row: row.n, Types.LONG())


def files_followed(env, folder):
    if not folder.exists():
        folder.mkdir()
        for number, part in enumerate(parts()):
            (folder / str(number)).write_text("".join(f"{n}\n" for n in part))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    made = source.monitor_continuously(Duration.of_millis(20)).build()
    return stream_of(env, made).map(int, Types.LONG())


ENDLESS = {
    "delta changes": table_followed,
    "iceberg appends": appends_followed,
    "monitored files": files_followed,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_source_at_another_parallelism(name, tmp_path):
    make = ENDLESS[name]
    once_at_another_parallelism(
        lambda env: make(env, tmp_path / "files"), tmp_path, COUNT, ends=False
    )


@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_source_after_a_failure(name, tmp_path):
    make = ENDLESS[name]
    once_after_a_failure(lambda env: make(env, tmp_path / "files"), COUNT)


@pytest.mark.parametrize("name", ENDLESS)
def test_an_idle_subtask_does_not_hold_the_watermark(name, tmp_path, monkeypatch):
    """Of one split, which one subtask has."""
    monkeypatch.setitem(globals(), "FILES", 1)
    make = made_with(lambda env: ENDLESS[name](env, tmp_path / "files"))
    an_idle_subtask_does_not_hold_the_watermark(make, COUNT)


# ---- elements from the program: such a source outlives failures, but not its job ----------------


def queue_of_numbers(env):
    elements = queue.Queue()
    for number in range(COUNT):
        elements.put(number)
    return env.from_queue(elements, Types.LONG())


async def numbers_one_by_one():
    for number in range(COUNT):
        yield number


GIVEN = {
    "queue": queue_of_numbers,
    "asynchronous iterator": lambda env: env.from_async_iterator(numbers_one_by_one, Types.LONG()),
}


@pytest.mark.parametrize("name", GIVEN)
def test_given_records_arrive_once_after_a_failure(name):
    once_after_a_failure(GIVEN[name], COUNT)


# ---- sources that wait -------------------------------------------------------------------------


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


def delta_followed(env, folder):
    deltalake.write_deltalake(str(folder), pa.table({"n": list(range(10))}))
    source = DeltaSource.for_changes(str(folder), discovery_interval_ms=20)
    return stream_of(env, source)


def iceberg_followed(env, folder):
    lake = Lake(folder.parent)
    schema = pa.schema([("n", pa.int64())])
    lake.catalog.create_table("db.t", schema=schema).append(pa.table({"n": list(range(10))}))
    lake.catalog.engine.dispose()
    source = IcebergSource.for_appends(
        "db.t", catalog=lake.properties, name="lake", discovery_interval_ms=20
    )
    return stream_of(env, source)


WAITING = {
    "delta changes": delta_followed,
    "iceberg appends": iceberg_followed,
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
        thread.join(PATIENCE_S)
    assert [thread.name for thread in left if thread.is_alive()] == []

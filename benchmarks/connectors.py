"""The rates of connectors: Kafka, Parquet and CSV, on two local workers.

    python benchmarks/connectors.py [--only MEASUREMENT] [--rounds 2] [--smoke]
    PENSTOCK_BENCH_PYFLINK=PYTHON python benchmarks/connectors.py --only flink --rounds 1

A rate is the difference between a job of all records and one of a tenth of them, so that the start
does not count; the best of the rounds counts, since the machine's other work only slows jobs down.
The CPU time is that of the job's processes, computed in the same way; on a shared machine it is
more reliable.  Kafka is one broker in a separate process, from the jars that ``ci/jars.sh``
fetches. ``--only flink`` runs the copy from Kafka to Kafka on PyFlink, with the interpreter that
the variable names and Flink's connector, which ``benchmarks/README.md`` says how to fetch. Prints a
table and writes ``benchmarks/results/connectors.json``; ``--only`` measures and prints only some
rows, and ``--smoke`` runs everything once with few records; both write nothing.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kafka_traffic
from jobs import ended
from penstock.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.datastream.formats.parquet import ParquetColumnInputFormat
from workloads import harness

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from integration.kafka.broker import Broker, Topics

PEER = harness.ROOT / "benchmarks" / "peers" / "kafka_copy.py"
PEER_JARS = harness.ROOT / "build" / "peers" / "flink-kafka"
PARALLELISM = 2
LATENCY_RATE = 10_000

COPY = "Kafka to Kafka by a Python map, exactly once, 100 B"
SOURCE = "Kafka source alone, 100 B"
LATENCY = "Kafka to Kafka at 10,000/s, at least once"
DIRECT = "Kafka at 10,000/s, without a job"
LATE = "Load at 10,000/s: late by, p99"
FLINK = "Flink: Kafka to Kafka, no map, exactly once"
PYFLINK = "PyFlink: Kafka to Kafka by a Python map"
PARQUET = "Parquet scan of integers, filtered"
CSV = "CSV of an integer, a text and a double"
CPU = ": CPU"

#: name → (unit, goal, whether the goal is a lower bound)
ROWS = {
    COPY: ("records/s", 300_000, True),
    COPY + CPU: ("ns/record", None, False),
    SOURCE: ("records/s", 1_000_000, True),
    SOURCE + CPU: ("ns/record", None, False),
    LATENCY + ", median": ("ms", None, False),
    LATENCY + ", p99": ("ms", 20, False),
    DIRECT + ", median": ("ms", None, False),
    DIRECT + ", p99": ("ms", None, False),
    LATE: ("ms", None, False),
    PARQUET: ("rows/s", 20_000_000, True),
    PARQUET + CPU: ("ns/row", None, False),
    CSV: ("rows/s", 1_000_000, True),
    CSV + CPU: ("ns/row", None, False),
    FLINK: ("records/s", None, True),
    PYFLINK: ("records/s", None, True),
}


def environment(**options: str) -> StreamExecutionEnvironment:
    settings = {"execution.target": "local", "parallelism.default": str(PARALLELISM)}
    given = {key.replace("_", "."): value for key, value in options.items()}
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(settings | given)
    )


def cpu_s() -> float:
    """Return the CPU time of this process and of all its descendants that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(of.ru_utime + of.ru_stime for of in used)


def measured(name: str, run, size: int, rounds: int) -> dict[str, float | None]:
    """Return records per second of ``run(size)`` and their CPU time, less those of ``run(size

    10)``.

    None stands for an unknown rate: on a busy machine more records took no longer.
    """
    small = size // 10
    best = {}
    for _ in range(rounds):
        for count in (small, size):
            begun, used = time.monotonic(), cpu_s()
            run(count)
            took = time.monotonic() - begun, cpu_s() - used
            best[count] = tuple(map(min, took, best.get(count, took)))
    took_s, used_s = (large - little for large, little in zip(best[size], best[small], strict=True))
    return {
        name: (size - small) / took_s if took_s > 0 else None,
        name + CPU: used_s / (size - small) * 1e9 if used_s > 0 else None,
    }


# ---- files ---------------------------------------------------------------------------------------


def parquet(arguments) -> dict[str, float | None]:
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet as files

    with tempfile.TemporaryDirectory() as folder:

        def path(count):
            return f"{folder}/{count}.parquet"

        for count in (arguments.rows, arguments.rows // 10):
            table = pa.table({"n": np.arange(count)})
            files.write_table(table, path(count), row_group_size=1 << 20)

        def run(count):
            source = FileSource.for_bulk_file_format(
                ParquetColumnInputFormat("n", Types.LONG()), path(count)
            ).build()
            env = environment()
            numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
            numbers.filter(lambda n: n < 0).sink_to(DiscardingSink())
            env.execute()

        return measured(PARQUET, run, arguments.rows, arguments.rounds)


def csv_rows(arguments) -> dict[str, float | None]:
    rows = arguments.rows // 10
    schema = (
        CsvSchema.builder()
        .add_number_column("id")
        .add_string_column("text")
        .add_number_column("price", Types.DOUBLE())
        .disable_quote_char()
        .build()
    )
    with tempfile.TemporaryDirectory() as folder:

        def path(count):
            return f"{folder}/{count}.csv"

        for count in (rows, rows // 10):
            with Path(path(count)).open("w", newline="") as file:
                file.writelines(f"{n},text {n},{n / 8}\r\n" for n in range(count))

        def run(count):
            source = FileSource.for_record_stream_format(
                CsvReaderFormat.for_schema(schema), path(count)
            ).build()
            env = environment()
            read = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
            read.filter(lambda row: row.id < 0).sink_to(DiscardingSink())
            env.execute()

        return measured(CSV, run, rows, arguments.rounds)


# ---- Kafka ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def topics():
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder))
        try:
            broker.start()
            yield Topics(broker.servers)
        finally:
            broker.stop()


def filled(of: Topics, count: int) -> str:
    """Return a topic with so many records of 100 bytes."""
    from confluent_kafka import Producer

    name = of.create(PARALLELISM)
    producer = Producer(
        {"bootstrap.servers": of.servers, "linger.ms": 20, "batch.num.messages": 100_000}
    )
    for number in range(count):
        while True:
            try:
                producer.produce(name, b"%0100d" % number, partition=number % PARALLELISM)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return name


def kafka_source(of: Topics, name: str, *, bounded: bool = True) -> KafkaSource:
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(of.servers)
        .set_topics(name)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
    )
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    return builder.build()


def kafka_sink(of: Topics, name: str, guarantee: DeliveryGuarantee) -> KafkaSink:
    record = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(name)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    builder = (
        KafkaSink.builder()
        .set_bootstrap_servers(of.servers)
        .set_delivery_guarantee(guarantee)
        .set_record_serializer(record)
    )
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        builder.set_transactional_id_prefix(name)
    return builder.build()


def kafka(arguments) -> dict[str, float | None]:
    no_watermarks = WatermarkStrategy.no_watermarks()
    with topics() as of:
        names = {count: filled(of, count) for count in (arguments.records, arguments.records // 10)}

        def read(count):
            env = environment()
            stream = env.from_source(kafka_source(of, names[count]), no_watermarks, "kafka")
            stream.sink_to(DiscardingSink())
            env.execute()

        def copy(count):
            env = environment(execution_checkpointing_interval="1 s")
            stream = env.from_source(kafka_source(of, names[count]), no_watermarks, "kafka")
            target = of.create(PARALLELISM)
            stream.map(lambda text: text.strip() + "!", Types.STRING()).sink_to(
                kafka_sink(of, target, DeliveryGuarantee.EXACTLY_ONCE)
            )
            env.execute()

        return measured(SOURCE, read, arguments.records, arguments.rounds) | measured(
            COPY, copy, arguments.records, arguments.rounds
        )


def flink(arguments) -> dict[str, float | None]:
    """Measure `COPY` in Flink: in Java alone, and with a tenth of the records in Python."""
    python = harness.python_for("pyflink", "PENSTOCK_BENCH_PYFLINK")
    if python is None:
        raise SystemExit("PENSTOCK_BENCH_PYFLINK does not name an interpreter with PyFlink")
    if not PEER_JARS.is_dir():
        raise SystemExit(f"Flink's connector is not in {PEER_JARS}: see benchmarks/README.md")
    records = arguments.records
    path = {"PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    with topics() as of:
        names = {count: filled(of, count) for count in (records, records // 10, records // 100)}

        def ran_s(count: int, *mapped: str) -> float:
            target = of.create(PARALLELISM)
            command = [python, PEER, of.servers, names[count], target, str(PARALLELISM), PEER_JARS]
            done = subprocess.run(
                [*command, *mapped],
                check=True,
                env=os.environ | path,  # Flink looks for the interpreter there
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            return int(done.stdout.splitlines()[-1]) / 1000

        def rate(count: int, *mapped: str) -> float | None:
            """Measure as `measured` does, but by the jobs' own times: Flink's start is longer."""
            runs = [
                (ran_s(count // 10, *mapped), ran_s(count, *mapped))
                for _ in range(arguments.rounds)
            ]
            small_s, large_s = map(min, zip(*runs, strict=True))
            return (count - count // 10) / (large_s - small_s) if large_s > small_s else None

        return {FLINK: rate(records), PYFLINK: rate(records // 10, "map")}


def traffic(*arguments: object) -> subprocess.Popen:
    """Start a process of ``kafka_traffic.py``."""
    command = [sys.executable, kafka_traffic.__file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def under_way(of: Topics, source: str, target: str, arguments) -> tuple[dict, dict]:
    """Return how many ms paced records take from one topic to another, and how late the load was.

    Records do not count while the broker's Java still compiles itself.
    """
    from confluent_kafka import Producer

    seconds = arguments.warm_up_seconds + arguments.latency_seconds
    count, warm_up = LATENCY_RATE * seconds, LATENCY_RATE * arguments.warm_up_seconds
    meter = traffic("meter", of.servers, target, count, warm_up)
    load = None
    try:
        # All have started once a record has arrived.
        producer = Producer({"bootstrap.servers": of.servers})
        producer.produce(source, kafka_traffic.FIRST)
        producer.flush()
        if meter.stdout.readline() != "ready\n":
            raise SystemExit("nothing came through")
        load = traffic("load", of.servers, source, PARALLELISM, LATENCY_RATE, seconds)
        return json.loads(meter.communicate()[0]), json.loads(load.communicate()[0])
    finally:
        for process in (meter, load):
            if process is not None:
                process.kill()
                process.wait()


def latency(arguments) -> dict[str, float]:
    """Measure the time from a load to a meter through a job, and without one, for comparison."""
    with topics() as of:
        alone = of.create(PARALLELISM)
        direct, _ = under_way(of, alone, alone, arguments)
        source, target = of.create(PARALLELISM), of.create(PARALLELISM)
        env = environment(execution_checkpointing_interval="1 s")
        stream = env.from_source(
            kafka_source(of, source, bounded=False), WatermarkStrategy.no_watermarks(), "kafka"
        )
        stream.map(lambda text: text + "!", Types.STRING()).sink_to(
            kafka_sink(of, target, DeliveryGuarantee.AT_LEAST_ONCE)
        )
        client = env.execute_async()
        try:
            through, late = under_way(of, source, target, arguments)
        finally:
            ended(client)
    return {
        LATENCY + ", median": through["median"],
        LATENCY + ", p99": through["p99"],
        DIRECT + ", median": direct["median"],
        DIRECT + ", p99": direct["p99"],
        LATE: late["p99"],
    }


OWN = {"parquet": parquet, "csv": csv_rows, "kafka": kafka, "latency": latency}
"""Each returns values by row name."""

MEASUREMENTS = OWN | {"flink": flink}
"""The benchmark's own measurements and the peer, which is measured on request."""


def judged(values: dict[str, float | None], *, partly: bool) -> list[dict]:
    rows = []
    for name, (unit, goal, is_lower_bound) in ROWS.items():
        value = values.get(name)
        if value is None and (partly or name in (FLINK, PYFLINK)):
            continue
        met = None
        if value is not None and goal is not None:
            met = value >= goal if is_lower_bound else value <= goal
        rows.append({"name": name, "value": value, "unit": unit, "goal": goal, "met": met})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="everything once, with few records")
    parser.add_argument("--only", choices=MEASUREMENTS, action="append", help="what is measured")
    parser.add_argument("--rounds", type=int, default=2, help="pairs of runs for a rate")
    parser.add_argument("--rows", type=int, default=100_000_000, help="of Parquet; CSV a tenth")
    parser.add_argument("--records", type=int, default=5_000_000, help="of Kafka")
    arguments = parser.parse_args()
    arguments.warm_up_seconds = arguments.latency_seconds = 10
    if arguments.smoke:
        arguments.rounds, arguments.rows, arguments.records = 1, 200_000, 20_000
        arguments.warm_up_seconds = arguments.latency_seconds = 1
    values: dict[str, float | None] = {}
    for name in arguments.only or OWN:
        values |= MEASUREMENTS[name](arguments)
    rows = judged(values, partly=bool(arguments.only))
    for row in rows:
        value = "-" if row["value"] is None else f"{row['value']:.4g}"
        print(f"{row['name']:55} {value:>10} {row['unit']:10} goal {row['goal']} met {row['met']}")
    if not arguments.smoke and not arguments.only:
        harness.write_document("connectors", rows)


if __name__ == "__main__":
    main()

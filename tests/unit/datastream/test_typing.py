"""Type checkers follow the element type through a pipeline.

Method: they reveal the types in a small program.
"""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import mypy.api
import penstock
import pytest

PROGRAM = """
    from penstock.common import Types, WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors import PythonSource, SourceSplit

    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1, 2, 3])
    texts = numbers.map(lambda v: str(v), Types.STRING())
    reveal_type(numbers)
    reveal_type(texts)
    reveal_type(texts.filter(lambda v: bool(v)).union(texts).rebalance())
    reveal_type(texts.flat_map(lambda v: v.split()))
    reveal_type(texts.key_by(lambda v: v[0]))
    reveal_type(texts.key_by(lambda v: v[0]).reduce(lambda a, b: a + b))
    reveal_type(texts.execute_and_collect())
    reveal_type(texts.execute_and_collect(limit=3))

    def read(source: PythonSource[bytes, SourceSplit]) -> None:
        reveal_type(env.from_source(source, WatermarkStrategy.no_watermarks(), "source"))
"""
RECORDS = """
    from collections.abc import Iterable, Iterator
    from dataclasses import dataclass
    from typing import Any

    from penstock.cep import CEP, Pattern
    from penstock.common import Time
    from penstock.datastream import (
        AggregateFunction,
        AllWindowFunction,
        CoMapFunction,
        CoProcessFunction,
        KeyedProcessFunction,
        MapFunction,
        ProcessJoinFunction,
        ProcessWindowFunction,
        StreamExecutionEnvironment,
        WindowFunction,
    )
    from penstock.datastream.window import TumblingEventTimeWindows
    from penstock.expressions import field


    @dataclass
    class Click:
        user: str
        price: float


    @dataclass
    class Bill:
        user: str


    def to_bill(click: Click) -> Bill:
        return Bill(click.user)


    def users(click: Click) -> Iterator[str]:
        yield click.user


    class ToBill(MapFunction):
        def map(self, value: Click) -> Bill:
            return Bill(value.user)


    class Billed(KeyedProcessFunction):
        def process_element(self, value: Click, ctx: Any) -> Iterator[Bill]:
            yield Bill(value.user)


    class Counted(AggregateFunction):
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: Click, accumulator: int) -> int:
            return accumulator + 1

        def get_result(self, accumulator: int) -> int:
            return accumulator

        def merge(self, acc_a: int, acc_b: int) -> int:
            return acc_a + acc_b


    class Summed(ProcessWindowFunction[Click, Bill, str, Any]):
        def process(self, key: str, context: Any, elements: Iterable[Click]) -> Iterable[Bill]:
            return [Bill(key)]


    class Largest(WindowFunction[Click, Bill, str, Any]):
        def apply(self, key: str, window: Any, inputs: Iterable[Click]) -> Iterable[Bill]:
            return [Bill(key)]


    class Users(AllWindowFunction[Click, str, Any]):
        def apply(self, window: Any, inputs: Iterable[Click]) -> Iterable[str]:
            return [click.user for click in inputs]


    class Near(ProcessJoinFunction):
        def process_element(self, left: Click, right: Click, ctx: Any) -> Iterator[float]:
            yield left.price


    class Names(CoMapFunction):
        def map1(self, value: Click) -> str:
            return value.user

        def map2(self, value: Bill) -> str:
            return value.user


    class Prices(CoProcessFunction):
        def process_element1(self, value: Click, ctx: Any) -> Iterator[float]:
            yield value.price

        def process_element2(self, value: Bill, ctx: Any) -> Iterator[float]:
            yield 0.0


    def both(click: Click, bill: Bill | None) -> tuple[str, bool]:
        return click.user, bill is None


    env = StreamExecutionEnvironment.get_execution_environment()
    clicks = env.from_collection([Click("ada", 1.0)])
    bills = clicks.map(to_bill)
    reveal_type(bills)
    reveal_type(clicks.map(ToBill()))
    reveal_type(clicks.flat_map(users).map(Bill))
    reveal_type(clicks.flat_map(users))
    keyed = clicks.key_by("user", field("price"))
    reveal_type(keyed)
    reveal_type(keyed.sum("price"))
    reveal_type(keyed.process(Billed()))
    windows = keyed.window(TumblingEventTimeWindows.of(Time.hours(1)))
    reveal_type(windows.reduce(lambda a, b: a))
    reveal_type(windows.aggregate(Counted()))
    reveal_type(windows.process(Summed()))
    reveal_type(windows.top_n(3, "price"))
    joined = clicks.join(bills).where("user").equal_to("user")
    reveal_type(joined.apply(both))
    reveal_type(joined.apply(both, how="left"))
    reveal_type(joined.apply(both, how="left", deadline=Time.hours(1)))
    latest = clicks.join_latest(bills).where("user").equal_to(lambda bill: bill.user)
    reveal_type(latest.apply(both))
    reveal_type(joined.apply(lambda click, bill: (click.price, bill.user)))
    reveal_type(joined.apply(lambda click, bill, ctx: (click.price, bill.user)))
    reveal_type(latest.apply(lambda click, bill: bill, how="left"))
    hour = TumblingEventTimeWindows.of(Time.hours(1))
    reveal_type(joined.window(hour).apply(lambda click, bill: click.price))
    grouped = clicks.co_group(bills).where("user").equal_to("user").window(hour)
    reveal_type(grouped.apply(lambda some, others: [some[0].price]))
    near = keyed.interval_join(keyed).between(Time.seconds(-1), Time.seconds(1))
    reveal_type(near.process(Near()))
    reveal_type(clicks.connect(bills).map(Names()))
    reveal_type(clicks.connect(bills).process(Prices()))
    reveal_type(keyed.deduplicate())
    reveal_type(keyed.top_n(3, "price", results="final"))
    reveal_type(keyed.deduplicate("last"))
    reveal_type(keyed.top_n(3, "price"))
    reveal_type(windows.apply(Largest()))
    reveal_type(clicks.window_all(hour).apply(Users()))
    dear = CEP.pattern(keyed, Pattern.begin("dear").where(lambda click: click.price > 9))
    reveal_type(dear.select(lambda match: match["dear"][0].user))
    reveal_type(env.from_collection([{"user": "ada"}]).as_records(Bill))
"""
REVEALED_RECORDS = [
    "DataStream[Bill]",
    "DataStream[Bill]",
    "DataStream[Bill]",
    "DataStream[str]",
    "KeyedStream[Click]",
    "DataStream[Click]",
    "DataStream[Bill]",
    "DataStream[Click]",
    "DataStream[int]",
    "DataStream[Bill]",
    "DataStream[Click]",
    "DataStream[tuple[str, bool]]",
    "DataStream[Row]",
    "DataStream[tuple[str, bool]]",
    "DataStream[tuple[str, bool]]",
    "DataStream[tuple[float, str]]",
    "DataStream[tuple[float, str]]",
    "DataStream[Bill | None]",
    "DataStream[float]",
    "DataStream[float]",
    "DataStream[float]",
    "DataStream[str]",
    "DataStream[float]",
    "DataStream[Click]",
    "DataStream[Click]",
    "DataStream[Row]",
    "DataStream[Row]",
    "DataStream[Bill]",
    "DataStream[str]",
    "DataStream[str]",
    "DataStream[Bill]",
]
REVEALED = [
    "DataStream[int]",
    "DataStream[str]",
    "DataStream[str]",
    "DataStream[str]",
    "KeyedStream[str]",
    "DataStream[str]",
    "CloseableIterator[str]",
    "list[str]",
    "DataStream[bytes]",
]


DECLARED = """
    from collections.abc import Iterable, Iterator
    from dataclasses import dataclass
    from typing import Any

    from penstock.aggregates import count
    from penstock.common import (
        Duration,
        JsonRowDeserializationSchema,
        Time,
        Types,
        WatermarkStrategy,
    )
    from penstock.datastream import (
        AggregateFunction,
        AsyncDataStream,
        AsyncFunction,
        CoGroupFunction,
        KeyedBroadcastProcessFunction,
        MultipleConnectedStreams,
        OutputTag,
        ProcessFunction,
        StreamExecutionEnvironment,
    )
    from penstock.datastream.connectors import FileSource, Source, StreamFormat
    from penstock.datastream.functions import MapPartitionFunction, MultipleInputProcessFunction
    from penstock.datastream.operators import OneInputStreamOperator, TwoInputStreamOperator
    from penstock.datastream.state import MapStateDescriptor
    from penstock.datastream.window import TumblingEventTimeWindows
    from penstock.expressions import element, field, lit, when
    from penstock.table import DataTypes, StreamTableEnvironment


    @dataclass
    class Click:
        user: str
        price: float


    def price(click: Any) -> Any:
        return click.price


    class Route(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value


    class Fetch(AsyncFunction[Click, str]):
        async def async_invoke(self, value: Click) -> list[str]:
            return [value.user]


    class Ask(AsyncFunction[Any, Any]):
        async def async_invoke(self, value: Any) -> Any:
            return [value]


    class Spent(AggregateFunction):
        def create_accumulator(self) -> Any:
            return 0

        def add(self, value: Any, accumulator: Any) -> Any:
            return accumulator + value.price

        def get_result(self, accumulator: Any) -> Any:
            return accumulator

        def merge(self, acc_a: Any, acc_b: Any) -> Any:
            return acc_a + acc_b


    class Pass(OneInputStreamOperator):
        def process_element(self, value: Any, timestamp: int | None) -> None:
            pass


    class PassBoth(TwoInputStreamOperator):
        def process_element1(self, value: Any, timestamp: int | None) -> None:
            pass

        def process_element2(self, value: Any, timestamp: int | None) -> None:
            pass


    class Rules(KeyedBroadcastProcessFunction[str, Click, str, float]):
        def process_element(self, value: Click, ctx: Any) -> Iterator[float]:
            yield value.price

        def process_broadcast_element(self, value: str, ctx: Any) -> None:
            pass


    class Cheapest(MapPartitionFunction):
        def map_partition(self, values: Iterable[Click]) -> list[Click]:
            return [min(values, key=lambda click: click.price)]


    class Pairs(CoGroupFunction):
        def co_group(self, first: list[Click], second: list[Click]) -> Iterable[int]:
            return [len(first) + len(second)]


    class Inputs(MultipleInputProcessFunction):
        def process_element(self, input_number: int, value: Any, ctx: Any) -> Iterator[str]:
            yield value.user


    env = StreamExecutionEnvironment.get_execution_environment()
    clicks = env.from_collection([Click("ada", 1.0)])
    keyed = clicks.key_by("user")
    hour = TumblingEventTimeWindows.of(Time.hours(1))
    routed = clicks.process(Route(), Types.STRING())
    reveal_type(routed)
    reveal_type(routed.get_side_output(OutputTag("late", Types.of(Click))))
    late: OutputTag[Click] = OutputTag("late")
    reveal_type(routed.get_side_output(late))
    reveal_type(routed.get_side_output(OutputTag("pairs", Types.MAP(Types.STRING(), Types.LONG()))))
    plain = OutputTag("plain")
    reveal_type(routed.get_side_output(plain))
    reveal_type(clicks.map(field("price") + 1, Types.DOUBLE()))
    reveal_type(clicks.map(price, output_type=Types.DOUBLE()))
    reveal_type(clicks.map(field("price") > 1))
    reveal_type(clicks.map(field("user", Types.STRING())))
    reveal_type(clicks.map(field("user").str.length()))
    reveal_type(clicks.map((field("price") * 2).cast(Types.LONG())))
    reveal_type(clicks.map(lit("ada")))
    reveal_type(clicks.map(field("price") + 1))
    reveal_type(clicks.map(when(field("price") > 1).then("dear").otherwise("cheap")))
    reveal_type(clicks.flat_map(lambda click: [None, click], Types.of(Click)))
    reveal_type(env.from_collection([], Types.of(Click)).key_by(element.field("user")))
    reveal_type(AsyncDataStream.unordered_wait(clicks, Fetch(), Time.seconds(1)))
    rules = env.from_collection(["rule"]).broadcast(
        MapStateDescriptor("rules", Types.STRING(), Types.STRING())
    )
    reveal_type(keyed.connect(rules).process(Rules()))
    reveal_type(clicks.full_window_partition().map_partition(Cheapest()))
    reveal_type(clicks.full_window_partition().map_partition(lambda some: [len(list(some))]))
    reveal_type(MultipleConnectedStreams(clicks, clicks).process(Inputs()))
    joined = clicks.join(clicks).where("user").equal_to("user")
    day = Duration.of_days(1)
    reveal_type(joined.apply(lambda a, b: (a.price, b), how="left", deadline=day))
    reveal_type(joined.apply(lambda a, b: (a, b.price), how="right", deadline=day))
    reveal_type(joined.apply(lambda a, b: (a, b), how="full", deadline=day))
    reveal_type(joined.apply(lambda a, b, ctx: ctx.window is None, how="full", deadline=day))
    reveal_type(joined.window(hour).apply(lambda a, b: (a.price, b), how="left"))
    reveal_type(joined.window(hour).apply(lambda a, b: (a, b.price), how="right"))
    grouped = clicks.co_group(clicks).where("user").equal_to("user").window(hour)
    reveal_type(grouped.apply(Pairs()))
    reveal_type(keyed.aggregate({"clicks": count()}))
    reveal_type(keyed.window(hour).aggregate({"clicks": count()}))
    reveal_type(env.from_collection([(1, 2)], Types.TUPLE([Types.INT(), Types.INT()])).project(0))
    tables = StreamTableEnvironment.create(env)
    found = tables.sql_query("SELECT 1")
    reveal_type(found)
    reveal_type(tables.to_data_stream(found))
    reveal_type(tables.to_retract_stream(found, Types.of(Click)))
    reveal_type(DataTypes.BIGINT())
    reveal_type(FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in").build())
    reveal_type(clicks.transform("pass", Types.STRING(), Pass()))
    reveal_type(clicks.transform("pass", None, Pass()))
    reveal_type(clicks.connect(clicks).transform("pass", Types.STRING(), PassBoth()))
    reveal_type(AsyncDataStream.ordered_wait(clicks, Ask(), day, output_type=Types.STRING()))
    reveal_type(AsyncDataStream.unordered_wait(clicks, Ask(), day, 10, Types.STRING()))
    reveal_type(keyed.window(hour).aggregate(Spent(), output_type=Types.DOUBLE()))
    reveal_type(keyed.window(hour).aggregate(Spent()))
    dear = when(field("price") > 9).then("dear")
    reveal_type(clicks.map(dear))
    reveal_type(clicks.map(dear.when(field("price") > 1).then(1.5).otherwise(None)))
    reveal_type(clicks.map(dear.otherwise(field("user", Types.STRING()))))
    reveal_type(JsonRowDeserializationSchema.builder())

    def read(source: Source) -> None:
        times = WatermarkStrategy.no_watermarks()
        reveal_type(env.from_source(source, times, "clicks", Types.of(Click)))
"""
REVEALED_DECLARED = [
    "DataStream[str]",
    "DataStream[Click]",
    "DataStream[Click]",
    "DataStream[dict[str, int]]",
    "DataStream[Any]",
    "DataStream[float]",
    "DataStream[float]",
    "DataStream[bool]",
    "DataStream[str]",
    "DataStream[int]",
    "DataStream[int]",
    "DataStream[str]",
    "DataStream[Any]",
    "DataStream[str]",
    "DataStream[Click]",
    "KeyedStream[Click]",
    "DataStream[str]",
    "DataStream[float]",
    "DataStream[Click]",
    "DataStream[int]",
    "DataStream[str]",
    "DataStream[tuple[float, Click | None]]",
    "DataStream[tuple[Click | None, float]]",
    "DataStream[tuple[Click | None, Click | None]]",
    "DataStream[bool]",
    "DataStream[tuple[float, Click | None]]",
    "DataStream[tuple[Click | None, float]]",
    "DataStream[int]",
    "DataStream[Row]",
    "DataStream[Row]",
    "DataStream[tuple[Any, ...]]",
    "Table",
    "DataStream[Row]",
    "DataStream[tuple[bool, Click]]",
    "BigIntType",
    "FileSource[str]",
    "DataStream[str]",
    "DataStream[Any]",
    "DataStream[str]",
    "DataStream[str]",
    "DataStream[str]",
    "DataStream[float]",
    "DataStream[Any]",
    "DataStream[str | None]",
    "DataStream[str | float | None]",
    "DataStream[str]",
    "Builder[Row]",
    "DataStream[Click]",
]

SOURCES = """
    from dataclasses import dataclass
    from typing import Any

    from penstock.common import DeserializationSchema, SimpleStringSchema, Types, WatermarkStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.connectors import FileSource, StreamFormat
    from penstock.datastream.connectors.dynamic_kafka import DynamicKafkaSource
    from penstock.datastream.connectors.http import HttpSource
    from penstock.datastream.connectors.kafka import KafkaSource
    from penstock.datastream.connectors.kinesis import (
        FlinkKinesisConsumer,
        KinesisDeserializationSchema,
    )
    from penstock.datastream.connectors.mqtt import MqttSource
    from penstock.datastream.connectors.number_seq import NumberSequenceSource
    from penstock.datastream.connectors.postgres_cdc import PostgresCdcSource
    from penstock.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSource
    from penstock.datastream.formats.csv import CsvRowDeserializationSchema
    from penstock.datastream.formats.json import JsonRowDeserializationSchema
    from penstock.datastream.formats.orc import OrcColumnarRowInputFormat
    from penstock.datastream.formats.parquet import (
        ParquetColumnarRowInputFormat,
        ParquetColumnInputFormat,
    )
    from penstock.datastream.functions import SourceFunction


    @dataclass
    class Click:
        user: str
        price: float


    class Prices(DeserializationSchema[float]):
        def deserialize(self, message: bytes) -> float:
            return float(message)


    env = StreamExecutionEnvironment.get_execution_environment()
    times = WatermarkStrategy.no_watermarks()
    topic = KafkaSource.builder().set_topics("clicks")
    texts = topic.set_value_only_deserializer(SimpleStringSchema()).set_group_id("a").build()
    reveal_type(env.from_source(texts, times, "texts"))
    reader = JsonRowDeserializationSchema.builder()
    rows = reader.type_info(Types.ROW_NAMED(["user"], [Types.STRING()])).build()
    reveal_type(env.from_source(topic.set_value_only_deserializer(rows).build(), times, "rows"))
    clicks = reader.type_info(Types.of(Click)).fail_on_missing_field().build()
    reveal_type(env.from_source(topic.set_value_only_deserializer(clicks).build(), times, "clicks"))
    prices = topic.set_value_only_deserializer(Prices()).build()
    reveal_type(env.from_source(prices, times, "prices"))
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in").build()
    reveal_type(env.from_source(lines, times, "lines"))
    line = CsvRowDeserializationSchema.Builder(Types.of(Click)).set_null_literal("").build()
    table = FileSource.for_record_stream_format(StreamFormat.line_format(line), "in").build()
    reveal_type(env.from_source(table, times, "table"))
    reveal_type(env.from_source(NumberSequenceSource(1, 9), times, "numbers"))

    def read(source: PostgresCdcSource) -> None:
        reveal_type(env.from_source(source, times, "changes"))

    moved = DynamicKafkaSource.builder().set_value_only_deserializer(clicks).set_group_id("a")
    reveal_type(env.from_source(moved.build(), times, "moved"))
    reveal_type(env.from_source(MqttSource("mqtt://a", "b", "c"), times, "texts of MQTT"))
    spoken = MqttSource("mqtt://a", "b", "c", schema=Prices())
    reveal_type(env.from_source(spoken, times, "prices of MQTT"))

    def size(message: Any) -> int | None:
        return len(message.payload) or None

    sizes = MqttSource("mqtt://a", "b", "c", deserialize=size)
    reveal_type(env.from_source(sizes, times, "sizes of MQTT"))
    reveal_type(env.from_source(HttpSource("http://a", schema=clicks), times, "polled"))
    reveal_type(env.from_source(HttpSource("http://a"), times, "JSON"))
    broker = RMQConnectionConfig.Builder().set_uri("amqp://a").build()
    reveal_type(env.add_source(RMQSource(broker, "queue", False, clicks)))
    reveal_type(env.add_source(FlinkKinesisConsumer("stream", Prices(), {})))

    def key(record: dict[str, Any]) -> str | None:
        return str(record["PartitionKey"])

    keys = FlinkKinesisConsumer(["stream"], KinesisDeserializationSchema.of(key), {})
    reveal_type(env.add_source(keys, "keys"))

    class Ticks(SourceFunction[int]):
        def run(self, ctx: SourceFunction.SourceContext) -> None:
            ctx.collect(1)

    reveal_type(env.add_source(Ticks()))
    reveal_type(env.add_source(Ticks(), "ticks", Types.of(Click)))
    parquet = ParquetColumnarRowInputFormat(Types.ROW_NAMED(["user"], [Types.STRING()]))
    reveal_type(env.from_source(FileSource.for_bulk_file_format(parquet).build(), times, "rows"))
    orc = OrcColumnarRowInputFormat(Types.ROW_NAMED(["user"], [Types.STRING()]))
    reveal_type(env.from_source(FileSource.for_bulk_file_format(orc).build(), times, "rows"))
    column = ParquetColumnInputFormat("price", Types.of(float))
    reveal_type(env.from_source(FileSource.for_bulk_file_format(column).build(), times, "column"))
"""
REVEALED_SOURCES = [
    "DataStream[str]",
    "DataStream[Row]",
    "DataStream[Click]",
    "DataStream[float]",
    "DataStream[str]",
    "DataStream[Click]",
    "DataStream[int]",
    "DataStream[Row]",
    "DataStream[Click]",
    "DataStream[str]",
    "DataStream[float]",
    "DataStream[int]",
    "DataStream[Click]",
    "DataStream[Any]",
    "DataStream[Click]",
    "DataStream[float]",
    "DataStream[str]",
    "DataStream[int]",
    "DataStream[Click]",
    "DataStream[Row]",
    "DataStream[Row]",
    "DataStream[float]",
]

#: Each program, and the types that it reveals.
PROGRAMS = {
    "elements": (PROGRAM, REVEALED),
    "records": (RECORDS, REVEALED_RECORDS),
    "declared": (DECLARED, REVEALED_DECLARED),
    "sources": (SOURCES, REVEALED_SOURCES),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Write all programs into one folder, so that each checker reads penstock only once."""
    folder = tmp_path_factory.mktemp("programs")
    for name, (text, _) in PROGRAMS.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    return folder


@pytest.fixture(scope="module")
def report_of_mypy(programs):
    # With the cache of `make lint`, which has read penstock.
    report, errors, status = mypy.api.run(
        ["--strict", *(str(programs / f"{name}.py") for name in PROGRAMS)]
    )
    assert (errors, status) == ("", 0), report
    return report


@pytest.fixture(scope="module")
def report_of_pyright(programs):
    package = Path(penstock.__file__).parent
    examples = sorted((Path(__file__).parents[3] / "examples").glob("*.py"))
    settings = {
        "typeCheckingMode": "standard",
        "include": [
            str(programs),
            *(str(path) for path in examples),
        ],
        "extraPaths": [str(package.parent), str(examples[0].parent)],
    }
    (programs / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "--project", programs], stdout=subprocess.PIPE, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["errorCount"] == 0, report
    assert report["summary"]["filesAnalyzed"] == len(settings["include"]) - 1 + len(PROGRAMS)
    return report["generalDiagnostics"]


def unqualified(found):
    """Return a type without the modules of its classes."""
    return re.sub(r"(?:\w+\.)+", "", found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_mypy_follows_element_types(report_of_mypy, name):
    lines = [
        line
        for line in report_of_mypy.splitlines()
        if f"{name}.py:" in line and "Revealed type is" in line
    ]
    assert [unqualified(line.split('"')[1]) for line in lines] == PROGRAMS[name][1]


@pytest.mark.process
@pytest.mark.parametrize("name", PROGRAMS)
def test_pyright_follows_element_types(report_of_pyright, name):
    messages = [found["message"] for found in report_of_pyright if Path(found["file"]).stem == name]
    revealed = [message for message in messages if message.startswith("Type of")]
    assert [message.split('"')[-2] for message in revealed] == PROGRAMS[name][1]

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


#: Each program, and the types that it reveals.
PROGRAMS = {"elements": (PROGRAM, REVEALED), "records": (RECORDS, REVEALED_RECORDS)}


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
    return re.sub(r"[\w.]+\.", "", found)


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

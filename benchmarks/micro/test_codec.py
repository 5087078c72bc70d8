"""Codecs, key hashing, record writer and reading loop: nanoseconds per value, by runtime.

Each round handles ``PENSTOCK_BENCH_RECORDS`` values (1,000 if unset, so that the suite stays quick
in CI); the printed figure divided by that number is the price of one value.  The goals of the
native runtime, in ns to encode and to decode, on an idle machine: ("word", 1) typed 40 and 60;
instances 120 and 200, for models of pydantic none; datetime, Decimal, UUID, Enum, scalars of numpy
100 and 200; a map of two entries 80 to encode; creating a Row 150, and reading a field of it 60.
"""

import dataclasses
import datetime
import decimal
import enum
import gc
import importlib
import importlib.util
import os
import uuid
from typing import NamedTuple

import numpy as np
import pydantic
import pytest
from penstock.common import Row
from penstock.common.typeinfo import Types
from penstock.network import load
from penstock.serialization.type_schema import schema_of

RECORDS = int(os.environ.get("PENSTOCK_BENCH_RECORDS", "1000"))
NO_TIMESTAMP = -(2**63)
NATIVE_IS_BUILT = importlib.util.find_spec("penstock._native.codecs.codec") is not None


@dataclasses.dataclass
class Order:
    user: int
    amount: float
    note: str


@dataclasses.dataclass(slots=True)
class SlottedOrder:
    user: int
    amount: float
    note: str


class TupleOrder(NamedTuple):
    user: int
    amount: float
    note: str


class ModelOrder(pydantic.BaseModel):
    user: int
    amount: float
    note: str


class Color(enum.Enum):
    RED = 1
    BLUE = 2


DAY = datetime.datetime(2026, 1, 1)
WORDS = [(f"word{i % 500}", 1) for i in range(RECORDS)]
CASES = {
    "word_count_typed": (Types.TUPLE([Types.STRING(), Types.INT()]), WORDS),
    "word_count_undeclared": (None, WORDS),
    "row": (
        Types.ROW_NAMED(["w", "n"], [Types.STRING(), Types.INT()]),
        [Row(w=word, n=number) for word, number in WORDS],
    ),
    "string": (Types.STRING(), [word for word, _ in WORDS]),
    "distinct_strings": (Types.STRING(), [f"distinct{i}" for i in range(RECORDS)]),
    "long": (Types.LONG(), list(range(RECORDS))),
    "list_of_10": (Types.LIST(Types.INT()), [list(range(10))] * RECORDS),
    "dict_undeclared": (None, [{"a": 1, "b": 2.0}] * RECORDS),
    "map": (Types.MAP(Types.STRING(), Types.LONG()), [{"a": 1, "b": i} for i in range(RECORDS)]),
    "dataclass": (None, [Order(i, 0.5, "x") for i in range(RECORDS)]),
    "slots": (None, [SlottedOrder(i, 0.5, "x") for i in range(RECORDS)]),
    "named_tuple": (None, [TupleOrder(i, 0.5, "x") for i in range(RECORDS)]),
    "model": (None, [ModelOrder(user=i, amount=0.5, note="x") for i in range(RECORDS)]),
    "datetime": (None, [DAY + datetime.timedelta(seconds=i) for i in range(RECORDS)]),
    "days": (None, [DAY + datetime.timedelta(days=i % 9_999) for i in range(RECORDS)]),
    "utc_datetime": (
        None,
        [
            (DAY + datetime.timedelta(seconds=i)).replace(tzinfo=datetime.UTC)
            for i in range(RECORDS)
        ],
    ),
    "decimal": (None, [decimal.Decimal(i % 500) / 100 for i in range(RECORDS)]),
    "distinct_decimal": (None, [decimal.Decimal(10**9 + i) / 100 for i in range(RECORDS)]),
    "uuid": (
        None,
        [uuid.UUID(int=i * 0x9E3779B97F4A7C15F39CC0605CEDC834 >> 40) for i in range(RECORDS)],
    ),
    "enum": (None, [Color.BLUE] * RECORDS),
    "numpy_float64": (None, list(np.arange(RECORDS, dtype=np.float64))),
    "numpy_int32": (None, list(np.arange(RECORDS, dtype=np.int32))),
}


@pytest.fixture(params=["native", "pure"])
def kind(request):
    if request.param == "native" and not NATIVE_IS_BUILT:
        pytest.skip("penstock._native is not built")
    return request.param


@pytest.fixture
def without_gc():
    """Pause the garbage collector: held values trigger it; in a job they die at once."""
    gc.disable()
    yield
    gc.enable()


def codec_of(kind, type_info):
    package = "penstock._native.codecs" if kind == "native" else "penstock.serialization.pure"
    return importlib.import_module(f"{package}.codec").Codec(schema_of(type_info))


@pytest.mark.usefixtures("without_gc")
@pytest.mark.parametrize("case", CASES)
def test_encode(benchmark, kind, case):
    """Encode values to bytes."""
    type_info, values = CASES[case]
    data = benchmark(codec_of(kind, type_info).encode_batch, values)
    benchmark.extra_info.update(records=RECORDS, bytes=len(data))


@pytest.mark.usefixtures("without_gc")
@pytest.mark.parametrize("case", CASES)
def test_decode(benchmark, kind, case):
    """Decode bytes to values."""
    type_info, values = CASES[case]
    codec = codec_of(kind, type_info)
    back = benchmark(codec.decode_batch, codec.encode_batch(values))
    benchmark.extra_info.update(records=RECORDS)
    assert len(back) == RECORDS


def test_row_made(benchmark):
    """Create rows of three fields by position; includes the cost of a loop."""

    def made():
        for i in range(RECORDS):
            Row(i, 1, "x")

    benchmark(made)
    benchmark.extra_info.update(records=RECORDS)


@pytest.mark.parametrize("way", ["position", "name"])
def test_row_read(benchmark, way):
    """Read one field of a row; includes the cost of a loop."""
    row = Row(user=1, amount=2, note="x")

    def by_position():
        for _ in range(RECORDS):
            _ = row[0]

    def by_name():
        for _ in range(RECORDS):
            _ = row.user

    benchmark(by_position if way == "position" else by_name)
    benchmark.extra_info.update(records=RECORDS)


@pytest.mark.parametrize("key", ["word", 12345, ("word", 1), 1.5], ids=repr)
def test_key_group(benchmark, kind, key):
    """Compute key, hash, key group and channel of one element after the other."""
    selector = load("make_selector", kind)(
        "KEY_GROUP", 4, key_selector=lambda t: t[0], max_parallelism=128
    )
    select, elements = selector.select, [(key, 1)] * RECORDS

    def run():
        for element in elements:
            select(element)

    benchmark(run)
    benchmark.extra_info.update(records=RECORDS)


@pytest.mark.parametrize("selector", ["FORWARD", "KEY_GROUP"])
def test_exchange(benchmark, kind, selector):
    """Move elements through a writer, a local channel and the reading loop, on one thread."""
    if kind == "native" and importlib.util.find_spec("penstock._core") is None:
        pytest.skip("penstock._core is not built")
    package = "penstock._native.operators" if kind == "native" else "penstock.taskexecutor.compiled"
    operators = importlib.import_module(f"{package}.function_operators")
    codec = codec_of(kind, CASES["word_count_typed"][0])
    environment = load("NetworkEnvironment", kind)(executor_id="bench", token=b"t" * 32)
    try:
        partition = environment.create_result_partition(b"p" * 60, 1, flush_timeout_ms=-1)
        gate = environment.create_input_gate([(b"p" * 60, 0, None)])
        gate.request_partitions()
        arguments = (
            {"key_selector": lambda t: t[0], "max_parallelism": 128}
            if selector == "KEY_GROUP"
            else {}
        )
        chosen = load("make_selector", kind)(selector, 1, **arguments)
        writer = load("RecordWriter", kind)(partition, chosen, codec)
        processor = load("StreamInputProcessor", kind)(
            gate, [codec], [operators.DiscardingSink()], None
        )

        def run():
            collect = writer.collect
            for start in range(0, RECORDS, 5000):
                for element in WORDS[start : start + 5000]:
                    collect(element, NO_TIMESTAMP)
                writer.flush()
                wanted = writer.records_out
                while processor.records_in < wanted:
                    processor.process_next(1000)

        benchmark(run)
        benchmark.extra_info.update(records=RECORDS)
        gate.close()
        partition.release()
    finally:
        environment.close()

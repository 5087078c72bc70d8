"""Codecs, key hashing, record writer and reading loop: nanoseconds per value, by runtime.

Each round handles ``PENSTOCK_BENCH_RECORDS`` values (1,000 if unset, so that the suite stays quick
in CI); the printed figure divided by that number is the price of one value.  The goals are those
for ("word", 1): 40 ns to encode and 60 ns to decode, typed and native.
"""

import gc
import importlib
import importlib.util
import os

import pytest
from penstock.common import Row
from penstock.common.typeinfo import Types
from penstock.network import load
from penstock.serialization.type_schema import schema_of

RECORDS = int(os.environ.get("PENSTOCK_BENCH_RECORDS", "1000"))
NO_TIMESTAMP = -(2**63)
NATIVE_IS_BUILT = importlib.util.find_spec("penstock._native.codec") is not None

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
}


@pytest.fixture(params=["native", "pure"])
def kind(request):
    if request.param == "native" and not NATIVE_IS_BUILT:
        pytest.skip("penstock._native is not built")
    return request.param


@pytest.fixture
def without_gc():
    """Values that are kept make the collector run; in a job they are gone at once."""
    gc.disable()
    yield
    gc.enable()


def codec_of(kind, type_info):
    package = "penstock._native" if kind == "native" else "penstock.serialization.pure"
    return importlib.import_module(f"{package}.codec").Codec(schema_of(type_info))


@pytest.mark.usefixtures("without_gc")
@pytest.mark.parametrize("case", CASES)
def test_encode(benchmark, kind, case):
    """Values to bytes."""
    type_info, values = CASES[case]
    data = benchmark(codec_of(kind, type_info).encode_batch, values)
    benchmark.extra_info.update(records=RECORDS, bytes=len(data))


@pytest.mark.usefixtures("without_gc")
@pytest.mark.parametrize("case", CASES)
def test_decode(benchmark, kind, case):
    """Bytes to values."""
    type_info, values = CASES[case]
    codec = codec_of(kind, type_info)
    back = benchmark(codec.decode_batch, codec.encode_batch(values))
    benchmark.extra_info.update(records=RECORDS)
    assert len(back) == RECORDS


@pytest.mark.parametrize("key", ["word", 12345, ("word", 1), 1.5], ids=repr)
def test_key_group(benchmark, kind, key):
    """Key selection, hash, key group and channel of one element after the other."""
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
    """Elements through a writer, a local channel and the reading loop, on one thread."""
    if kind == "native" and importlib.util.find_spec("penstock._core") is None:
        pytest.skip("penstock._core is not built")
    package = "penstock._native" if kind == "native" else "penstock.taskexecutor.compiled"
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

"""Sinks: printed lines, part files, sink functions, collected batches."""

import struct
from datetime import UTC, datetime

import pytest
from penstock.common.time import Instant
from penstock.common.typeinfo import Types
from penstock.common.types import Row, RowKind
from penstock.datastream.functions import SinkFunction
from penstock.errors import SerializationError, SinkError
from penstock.graph import operators
from penstock.serialization.codec import codec_for
from penstock.taskexecutor.sinks.collect import CollectSink
from penstock.taskexecutor.sinks.element_text import flink_text, python_text
from penstock.taskexecutor.task.blame import blamed_position
from penstock.testing import OneInputStreamOperatorTestHarness
from support.environments import in_process


@pytest.mark.parametrize(
    ("identifier", "parallelism", "prefix"),
    [("", 1, ""), ("", 2, "2> "), ("x", 1, "x> "), ("x", 2, "x:2> ")],
)
def test_print_prefixes_lines(capsys, identifier, parallelism, prefix):
    descriptor = operators.PrintSink(identifier=identifier)
    subtask = parallelism - 1
    with OneInputStreamOperatorTestHarness(
        descriptor, subtask=subtask, parallelism=parallelism
    ) as test:
        test.process_element(("a", 1))
        test.end_input()
    assert capsys.readouterr().out == f"{prefix}('a', 1)\n"


def test_print_to_err_writes_to_standard_error(capsys):
    with OneInputStreamOperatorTestHarness(operators.PrintSink(to_error=True)) as test:
        test.process_element("a")
        test.end_input()
    assert capsys.readouterr() == ("", "a\n")


def test_typed_values_are_printed_as_flink_does():
    row = Row.of_kind(RowKind.DELETE, "a", None)
    assert flink_text(("a", 1, True, None)) == "(a,1,true,null)"
    assert flink_text(row) == "-D[a, null]"
    assert flink_text([1, (2, "b")]) == "[1, (2,b)]"
    assert flink_text({"k": 1}) == "{k=1}"
    assert flink_text((b"a\xff", 1)) == "([97, -1],1)"
    floats = [0.0, 0.1, 3.0, 0.001, 9999999.5, 1e7, 1e20, -1.25e-4, float("inf"), float("nan")]
    assert [flink_text(number) for number in (*floats, 5e-324, -1e-323)] == [
        *("0.0", "0.1", "3.0", "0.001", "9999999.5", "1.0E7", "1.0E20", "-1.25E-4"),
        *("Infinity", "NaN", "4.9E-324", "-9.9E-324"),
    ]


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2020, 2, 29, 1, 2, 3, 456000), "2020-02-29 01:02:03.456"),
        (datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01 00:00:00.0"),
        (Instant(0, 0), "1970-01-01T00:00:00Z"),
        (Instant(-1, 2_000_000), "1969-12-31T23:59:59.002Z"),
        (Instant(100_000, 5), "1970-01-02T03:46:40.000000005Z"),
        (Instant(253_402_300_800, 1_000), "+10000-01-01T00:00:00.000001Z"),
        (Instant(-62_167_219_201, 0), "-0001-12-31T23:59:59Z"),
    ],
)
def test_moments_are_printed_as_java_does(moment, text):
    assert flink_text([moment]) == f"[{text}]"


def test_numbers_have_the_text_of_their_declared_type(capfd):
    """Flink's sinks write 1 of a DOUBLE as 1.0, and 0.1 of a FLOAT as a 32-bit number."""
    env = in_process()
    kind = Types.TUPLE([Types.DOUBLE(), Types.FLOAT(), Types.LIST(Types.FLOAT()), Types.BOOLEAN()])
    numbers = env.from_collection([1], Types.INT())
    numbers.map(lambda v: (v, 0.1, [1e-45, v], v), kind).print()
    numbers.rebalance().map(lambda v: 0.1, Types.FLOAT()).disable_chaining().print("far")
    env.execute()
    assert sorted(capfd.readouterr().out.splitlines()) == [
        "(1.0,0.1,[1.4E-45, 1.0],true)",
        "far> 0.1",
    ]


@pytest.mark.parametrize("kind", [Types.STRING(), Types.TUPLE([Types.INT()])])
def test_misfits_of_the_declared_type_are_not_shown(kind):
    env = in_process()
    env.from_collection([1], Types.INT()).map(lambda v: (str(v),), kind).print()
    with pytest.raises(SerializationError):
        env.execute()


@pytest.mark.parametrize("element", ["coroutine", "generator", "within"])
@pytest.mark.parametrize("text", [python_text, flink_text])
def test_unawaited_results_are_not_written(element, text):
    """A function that calls another one written with async def has no result to write."""

    async def coroutine():
        return 1

    async def generator():
        yield 1

    made = {"coroutine": coroutine, "generator": generator, "within": coroutine}[element]()
    with pytest.raises(TypeError, match=r"nobody awaits.*AsyncDataStream"):
        text([made] if element == "within" and text is flink_text else made)


def test_print_refuses_coroutines(capsys):
    async def coroutine():
        return 1

    with OneInputStreamOperatorTestHarness(operators.PrintSink()) as test:
        with pytest.raises(TypeError, match="nobody awaits"):
            test.process_element(coroutine())
        test.end_input()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("is_generator", [False, True])
def test_a_sink_that_drops_everything_refuses_coroutines(is_generator):
    """The coroutine that should have computed the record was not even started."""

    async def coroutine():
        return 1

    async def generator():
        yield 1

    with OneInputStreamOperatorTestHarness(operators.DiscardingSink()) as test:
        test.process_element(1)
        with pytest.raises(TypeError, match=r"discard.*nobody awaits.*AsyncDataStream"):
            test.process_element(generator() if is_generator else coroutine())


def test_sink_function_sees_time_and_timestamp():
    seen = []

    class Seeing(SinkFunction):
        def invoke(self, value, context):
            seen.append((value, context.timestamp(), context.current_watermark()))

    with OneInputStreamOperatorTestHarness(operators.FunctionSink(Seeing())) as test:
        test.process_watermark(5)
        test.process_element("a", 7)
        test.process_element("b")
    assert seen == [("a", 7, 5), ("b", None, 5)]


class Client:
    def __init__(self, *, broken=False):
        self.batches = []
        self.finished = False
        self.broken = broken

    def send(self, batch):
        if self.broken:
            raise OSError("closed")
        self.batches.append(batch)

    def finish(self):
        self.finished = True

    def resume(self, offset):
        self.batches.append(("resume", offset))

    def sync(self, offset):
        self.batches.append(("sync", offset))

    def commit(self, offset):
        self.batches.append(("commit", offset))

    def close(self):
        pass


def collect(client, values):
    descriptor = operators.CollectSink(collect_id="c", element_type=Types.INT())
    test = OneInputStreamOperatorTestHarness(descriptor)
    assert isinstance(test.operator, CollectSink)
    test.operator.context.environment.open_collect_channel = lambda collect_id: client
    with test:
        for value in values:
            test.process_element(value)
        test.end_input()


def test_collected_records_have_their_length_in_front():
    client = Client()
    collect(client, [1, 2])
    codec = codec_for(Types.INT())
    expected = b"".join(struct.pack(">i", len(codec.encode(v))) + codec.encode(v) for v in (1, 2))
    assert b"".join(client.batches) == expected
    assert client.finished


def test_closed_collector_takes_no_more():
    collect(Client(broken=True), range(10))


CHECKPOINTS = {"execution.checkpointing.interval": "1 h"}


def collecting(client, snapshot=None, **options):
    descriptor = operators.CollectSink(collect_id="c", element_type=Types.INT())
    test = OneInputStreamOperatorTestHarness(descriptor, configuration={**CHECKPOINTS, **options})
    test.operator.context.environment.open_collect_channel = lambda collect_id: client
    test.initialize_state(snapshot)
    test.open()
    return test


def test_checkpoints_say_what_of_the_collected_records_is_shown():
    client = Client()
    test = collecting(client)
    test.process_element(1)
    test.snapshot(1)
    snapshot = test.snapshot(2)
    test.notify_checkpoint_complete(2)
    first, batch, *later = client.batches
    assert first == ("resume", 0)
    assert isinstance(batch, bytes)
    assert later == [("sync", 1), ("sync", 1), ("commit", 1)]
    test.close()
    client = Client()
    test = collecting(client, snapshot)
    test.process_element(2)
    test.end_input()
    assert not client.finished
    test.snapshot(3)
    test.notify_checkpoint_complete(2)
    assert not client.finished
    test.notify_checkpoint_complete(3)
    assert client.finished
    assert [call for call in client.batches if isinstance(call, tuple)] == [
        ("resume", 1),
        ("sync", 2),
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"execution.checkpointing.mode": "AT_LEAST_ONCE"},
        {"execution.runtime-mode": "BATCH"},
    ],
)
def test_collected_records_that_may_come_twice_wait_for_no_checkpoint(options):
    client = Client()
    test = collecting(client, **options)
    test.process_element(1)
    test.snapshot(1)
    test.notify_checkpoint_complete(1)
    test.end_input()
    assert len(client.batches) == 1
    assert client.finished


def test_a_connection_that_breaks_in_a_job_with_checkpoints_fails_the_task():
    """The driver may or may not have the results: they are sent again."""
    test = collecting(Client(broken=True))
    test.process_element(1)
    with pytest.raises(SinkError, match="accepts no more results of CollectSink: closed") as caught:
        test.snapshot(1)
    assert blamed_position(caught.value, [test.operator]) == 0


def test_checkpoints_after_the_one_that_holds_the_end_ask_nobody():
    client = Client()
    test = collecting(client)
    test.process_element(1)
    test.end_input()
    test.snapshot(1)
    test.notify_checkpoint_complete(1)
    assert client.finished
    client.broken = True
    client.sync = client.commit = client.send
    test.snapshot(2)
    test.notify_checkpoint_complete(2)
    test.close()

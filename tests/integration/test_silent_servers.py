"""Jobs are cancelled whose sinks, sources and lookups wait for a server.

Their own timeouts are an hour: so a job that ends in time was really cancelled.
"""

import asyncio
import gc
import socket
import threading

import pytest
from penstock.common import Row, SimpleStringSchema, Time, Types, WatermarkStrategy
from penstock.datastream import AsyncDataStream, AsyncFunction
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.elasticsearch import (
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    FlushBackoffType,
)
from penstock.datastream.connectors.http import HttpSink, HttpSource
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from penstock.datastream.connectors.kafka import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.connectors.mqtt import MqttSink, MqttSource
from penstock.datastream.connectors.postgres_cdc import PostgresCdcSource
from penstock.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource
from penstock.datastream.connectors.redis import RedisLookup, RedisSink
from penstock.errors import CancelTaskError, JobCancelledError
from penstock.taskexecutor.task import stream_task, task
from penstock.taskexecutor.task.stream_task import StreamTask
from support.environments import in_process
from support.gates import GATES, Gate, Gated
from support.patience import PATIENCE_S
from support.reserved_ports import reserved_ports
from support.sink_scenarios import texts
from support.threads import assert_over

pytestmark = [
    # An interrupt may hit between two lines of a client library, whose sockets are then collected.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

LONG_MS = 3_600_000
ROW = Types.ROW_NAMED(["n"], [Types.LONG()])
TRIES = {"retry_delay_ms": LONG_MS, "timeout_ms": LONG_MS}


# ---- sinks and lookups, each of a stream and the port of a server -----------------------------


def posts(stream, port):
    return stream.sink_to(HttpSink(f"http://127.0.0.1:{port}/", **TRIES))


def redis_commands(stream, port):
    url = f"redis://127.0.0.1:{port}/0"
    return stream.sink_to(RedisSink(url, lambda n: ("SET", n, n), **TRIES))


def redis_lookups(stream, port):
    asks = RedisLookup(
        f"redis://127.0.0.1:{port}/0", lambda n: ("GET", n), lambda n, found: n, **TRIES
    )
    hour = Time.milliseconds(LONG_MS)
    return AsyncDataStream.unordered_wait(stream, asks, hour, 10, Types.LONG()).print()


def publishes(stream, port):
    url = f"mqtt://127.0.0.1:{port}"
    return texts(stream).sink_to(MqttSink(url, "t", connect_timeout_ms=LONG_MS))


def rabbit(port):
    builder = RMQConnectionConfig.Builder().set_uri(f"amqp://u:p@127.0.0.1:{port}")
    return builder.set_connection_timeout(LONG_MS).build()


def queues(stream, port):
    return texts(stream).add_sink(RMQSink(rabbit(port), "q", SimpleStringSchema()))


def inserts(stream, port):
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    builder.with_url(f"jdbc:postgresql://u:p@127.0.0.1:{port}/d?connect_timeout=3600")
    return stream.map(lambda n: (n,)).add_sink(
        JdbcSink.sink("INSERT INTO t VALUES (?)", ROW, builder.build())
    )


def kafka_sink(port):
    record = KafkaRecordSerializationSchema.builder().set_topic("t")
    record.set_value_serialization_schema(SimpleStringSchema())
    builder = KafkaSink.builder().set_bootstrap_servers(f"127.0.0.1:{port}")
    return builder.set_record_serializer(record.build())


def produces(stream, port):
    builder = kafka_sink(port).set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    builder.set_property("delivery.timeout.ms", str(LONG_MS))
    return texts(stream).sink_to(builder.build())


def produces_exactly(stream, port):
    builder = kafka_sink(port).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    builder.set_transactional_id_prefix("p").set_property("max.block.ms", str(LONG_MS))
    return texts(stream).sink_to(builder.build())


def bulk_requests(stream, port):
    builder = Elasticsearch7SinkBuilder().set_hosts(f"127.0.0.1:{port}")
    builder.set_emitter(ElasticsearchEmitter.static_index("ns")).set_socket_timeout(LONG_MS)
    builder.set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 5, LONG_MS)
    return stream.map(lambda n: Row(n=n), ROW).sink_to(builder.build())


#: Those that connect when they are opened, before the first element.
AT_ONCE = (inserts, produces_exactly)


def cancelled(job):
    job.cancel().result()
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()


WAITING = [
    (write, is_there)
    for write in (
        posts,
        redis_commands,
        redis_lookups,
        publishes,
        queues,
        inserts,
        produces,
        produces_exactly,
        bulk_requests,
    )
    for is_there in (False, True)
    # A database that is down at the start fails the job.
    if is_there or write is not inserts
]


@pytest.mark.parametrize(("write", "is_there"), WAITING)
def test_a_job_is_cancelled_whose_sink_waits_for_a_server(write, is_there):
    GATES["waiting"] = gate = Gate()
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts connections, and sends nothing
        port = server.getsockname()[1]
        if not is_there:
            (port,) = reserved_ports()
        env = in_process()
        threads = set(threading.enumerate())
        write(env.from_collection([1], Types.LONG()).map(Gated("waiting"), Types.LONG()), port)
        job = env.execute_async()
        gate.let(1)
        connection = socket.socket()
        if write not in AT_ONCE:
            gate.wait_for(1)
        elif is_there:
            connection, _ = server.accept()
        with connection:
            cancelled(job)
    assert_over(threads)
    gc.collect()


# ---- sources ----------------------------------------------------------------------------------


def asked(port):
    return HttpSource(f"http://127.0.0.1:{port}/", **TRIES)


def consumed(port):
    builder = KafkaSource.builder().set_bootstrap_servers(f"127.0.0.1:{port}").set_topics("t")
    builder.set_property("default.api.timeout.ms", str(LONG_MS))
    return builder.set_value_only_deserializer(SimpleStringSchema()).build()


def subscribed(port):
    return MqttSource(f"mqtt://127.0.0.1:{port}", ["t"], client_id="c", connect_timeout_ms=LONG_MS)


def dequeued(port):
    return RMQSource(rabbit(port), "q", True, SimpleStringSchema())


def replicated(port):
    url = f"postgresql://u:p@127.0.0.1:{port}/d?connect_timeout=3600"
    return PostgresCdcSource(url, "public.t", ROW, slot="s")


@pytest.mark.parametrize("make", [asked, consumed, subscribed, dequeued, replicated])
def test_a_job_is_cancelled_whose_source_waits_for_a_server(make):
    with socket.create_server(("127.0.0.1", 0)) as server:
        env = in_process()
        threads = set(threading.enumerate())
        source = make(server.getsockname()[1])
        if make is dequeued:
            stream = env.add_source(source)
        else:
            stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "silent")
        stream.print()
        job = env.execute_async()
        connection, _ = server.accept()
        with connection:
            cancelled(job)
    assert_over(threads)
    gc.collect()


# ---- functions of the user's ------------------------------------------------------------------

ENDING = {}


class Clings(AsyncFunction):
    """Its coroutine continues after its cancellation, until the function is closed."""

    async def async_invoke(self, value):
        ENDING["begun"].set()
        try:
            await asyncio.Event().wait()
        finally:
            ENDING["closed"].wait()

    def close(self):
        ENDING["closed"].set()


def test_an_asynchronous_function_is_closed_whose_coroutine_does_not_end():
    ENDING.update(begun=threading.Event(), closed=threading.Event())
    env = in_process()
    threads = set(threading.enumerate())
    stream = env.from_collection([1], Types.LONG())
    hour = Time.milliseconds(LONG_MS)
    AsyncDataStream.unordered_wait(stream, Clings(), hour, 10, Types.LONG()).print()
    job = env.execute_async()
    assert ENDING["begun"].wait(PATIENCE_S)
    cancelled(job)
    assert_over(threads)
    gc.collect()
    assert ENDING["closed"].is_set()


class Waits(AsyncFunction):
    """Its coroutine waits until it is cancelled."""

    async def async_invoke(self, value):
        ENDING["begun"].set()
        await asyncio.Event().wait()

    def close(self):
        ENDING["closed"].set()


def waiting_job():
    """Return a job whose operator waits for the result of a coroutine."""
    ENDING.update(begun=threading.Event(), closed=threading.Event())
    hour = Time.milliseconds(LONG_MS)
    env = in_process()
    stream = env.from_collection([1], Types.LONG())
    AsyncDataStream.unordered_wait(stream, Waits(), hour, 10, Types.LONG()).print()
    job = env.execute_async()
    assert ENDING["begun"].wait(PATIENCE_S)
    return job


def test_an_operator_that_waits_ends_without_an_interrupt(monkeypatch):
    """As soon as the job is cancelled."""
    monkeypatch.setattr(task, "INTERRUPT_AFTER_S", 2 * PATIENCE_S)
    monkeypatch.setattr(stream_task, "_IDLE_WAIT_MS", 2000 * PATIENCE_S)
    cancelled(waiting_job())
    assert ENDING["closed"].is_set()


def test_functions_are_closed_though_an_interrupt_arrives_between_the_steps(monkeypatch):
    close_checkpoints = StreamTask._close_checkpoints
    calls = []

    def interrupted(self):
        calls.append(self)
        if len(calls) == 1:
            raise CancelTaskError
        close_checkpoints(self)

    monkeypatch.setattr(StreamTask, "_close_checkpoints", interrupted)
    cancelled(waiting_job())
    assert len(calls) == 2
    assert ENDING["closed"].is_set()

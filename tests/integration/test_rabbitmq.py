"""RMQSource and RMQSink against a real broker, of Debian's package rabbitmq-server.

The tests are skipped without the package.  They share one broker, as its start takes seconds; each
has queues of its own.
"""

import contextlib
import os
import queue
import socket
import threading

import pytest
from penstock.common import Configuration, SimpleStringSchema, Types
from penstock.connectors.rabbitmq.connection import BrokerThread
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource
from penstock.datastream.formats.dead_letters import dead_letter_tag
from penstock.errors import SinkError, SourceError
from support.certificates import own_certificate
from support.relay import Relay, assert_gives_up

pytest.importorskip("pika")
from support.kill_once import KillOnce
from support.rabbitmq_server import Client, RabbitMQ
from support.sessions import eventually
from support.sink_scenarios import after_a_failure, once_at_another_parallelism, texts
from support.source_scenarios import once_after_a_failure
from support.source_scenarios import (
    once_at_another_parallelism as once_each_at_another_parallelism,
)

pytestmark = pytest.mark.server

TEXT = SimpleStringSchema()
OFTEN = {"execution.checkpointing.interval": "100 ms"}
NEVER = {"execution.checkpointing.interval": "1 h"}
ONCE = {**NEVER, "restart-strategy.type": "none"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return own_certificate(tmp_path_factory.mktemp("certificate") / "server.pem")


@pytest.fixture(scope="module")
def broker(tmp_path_factory, certificate):
    found = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), certificate)
    yield found
    found.close()


@pytest.fixture
def client(broker):
    found = Client(broker)
    yield found
    found.close()


@pytest.fixture(params=["native", "pure"])
def runtime(request, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", request.param)


def builder(broker, **options):
    uri = broker.uri(**options)
    return RMQConnectionConfig.Builder().set_uri(uri).set_network_recovery_interval(50)


def environment(target="in-process", parallelism=1, **options):
    configuration = Configuration.from_dict(options)
    if os.environ.get("PENSTOCK_RUNTIME") != "pure":  # the pure runtime needs processes
        configuration.set_string("execution.target", target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def numbered(count, start=0):
    return [str(number) for number in range(start, start + count)]


def taken(stream, count):
    """Return the first records."""
    found = []
    with stream.execute_and_collect() as elements:
        for element in elements:
            found.append(element)
            if len(found) == count:
                return found
    raise AssertionError(found)


def test_messages_travel_by_tls(broker, client, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    for name in ("tls-in", "tls-out"):
        client.declare(name)
    client.publish("tls-in", numbered(10))
    uri = broker.uri(port=broker.tls_port).replace("amqp:", "amqps:")
    config = RMQConnectionConfig.Builder().set_uri(uri).build()
    env = environment(**OFTEN)
    stream = env.add_source(RMQSource(config, "tls-in", False, TEXT))
    stream.add_sink(RMQSink(config, "tls-out", TEXT))
    job = env.execute_async()
    try:
        assert sorted(int(body) for body, _ in client.take("tls-out", 10)) == list(range(10))
    finally:
        job.cancel().result()
    for name in ("tls-in", "tls-out"):
        client.channel.queue_delete(name)


def test_a_certificate_that_nobody_vouches_for_is_refused(broker):
    uri = broker.uri(port=broker.tls_port).replace("amqp:", "amqps:")
    config = RMQConnectionConfig.Builder().set_uri(uri).set_connection_timeout(3000).build()
    env = environment()
    env.add_source(RMQSource(config, "untrusted", False, TEXT)).print()
    with pytest.raises(SourceError, match="CERTIFICATE_VERIFY_FAILED"):
        env.execute()


class Seen:
    """The values that the functions of a job in this process have seen."""

    def __init__(self):
        self.elements = []
        self._news = threading.Condition()

    def add(self, element):
        with self._news:
            self.elements.append(element)
            self._news.notify_all()

    def wait_for(self, element):
        with self._news:
            assert self._news.wait_for(lambda: element in self.elements, 120), self.elements


SEEN = {}


class See(MapFunction):
    def __init__(self, name):
        self.name = name
        SEEN[name] = Seen()

    def map(self, value):
        SEEN[self.name].add(value)
        return value


def test_messages_become_records(broker, client):
    client.declare("elements")
    client.publish("elements", numbered(200))
    env = environment(parallelism=2, **OFTEN)
    stream = env.add_source(RMQSource(builder(broker).build(), "elements", False, TEXT), "rabbit")
    found = taken(stream.map(int, Types.LONG()), 200)
    assert sorted(found) == list(range(200))


def test_without_checkpoints_nothing_comes_again(broker, client):
    client.declare("once")
    for number in range(2):
        client.publish("once", [str(number)])
        source = RMQSource(builder(broker).build(), "once", True, TEXT)
        assert taken(environment(parallelism=2).add_source(source), 1) == [str(number)]


def test_a_killed_worker_with_correlation_ids(broker, client, tmp_path, runtime):
    """Each message once, though it is published and read again."""
    client.declare("exactly")
    env = environment("local", parallelism=2, **OFTEN)
    source = RMQSource(builder(broker).build(), "exactly", True, TEXT)
    stream = env.add_source(source).map(KillOnce(tmp_path, "150"), Types.STRING())
    found = []
    client.publish("exactly", numbered(100), numbered(100))
    with stream.execute_and_collect() as elements:
        for element in elements:
            found.append(element)
            if len(found) == 100:
                client.publish("exactly", numbered(200, 100), numbered(200, 100))
                client.publish("exactly", numbered(50), numbered(50, 1000))
            if len(found) == 350:
                break
    client.channel.queue_delete("exactly")
    assert list(tmp_path.glob("killed-*"))
    assert sorted(found) == sorted(numbered(300) + numbered(50))


def numbers_of(broker, queue):
    def make(env):
        source = RMQSource(builder(broker).build(), queue, True, TEXT)
        return env.add_source(source).map(int, Types.LONG())

    return make


def test_each_message_once_at_another_parallelism(broker, client, tmp_path):
    client.declare("contract-savepoint")
    client.publish("contract-savepoint", numbered(3000), numbered(3000))
    make = numbers_of(broker, "contract-savepoint")
    # A job without checkpoints acknowledges messages before it emits them.
    once_each_at_another_parallelism(make, tmp_path, 3000, ends=False, **NEVER)


def test_each_message_once_after_a_failure(broker, client):
    client.declare("contract-failure")
    client.publish("contract-failure", numbered(3000), numbered(3000))
    once_after_a_failure(numbers_of(broker, "contract-failure"), 3000)


def test_a_killed_worker_without_correlation_ids(broker, client, tmp_path):
    """Nothing is lost between the source and the sink."""
    client.declare("least")
    client.declare("least-out")
    env = environment("local", **OFTEN)
    source = RMQSource(builder(broker).build(), "least", False, TEXT)
    stream = env.add_source(source).map(KillOnce(tmp_path, "60"), Types.STRING())
    stream.add_sink(RMQSink(builder(broker).build(), "least-out", TEXT))
    job = env.execute_async()
    client.publish("least", numbered(100))
    found = set()
    while len(found) < 100:
        found.update(body for body, _ in client.take("least-out", 1))
    job.cancel().result()
    assert list(tmp_path.glob("killed-*"))


def test_a_broker_sends_no_more_than_is_prefetched(broker, client):
    """Between two checkpoints, here the start of the job and its end."""
    client.declare("prefetched")
    client.publish("prefetched", numbered(10))
    config = builder(broker).set_prefetch_count(4).build()
    env = environment(**NEVER)
    env.add_source(RMQSource(config, "prefetched", False, TEXT)).map(
        See("prefetched"), Types.STRING()
    ).print()
    job = env.execute_async()
    SEEN["prefetched"].wait_for("3")
    assert client.depth("prefetched") == 6
    assert SEEN["prefetched"].elements == numbered(4)
    job.cancel().result()
    client.channel.queue_delete("prefetched")


@pytest.mark.parametrize("declares", [True, False])
def test_a_queue_that_is_gone_with_the_connection(broker, client, declares):
    client.declare("gone")
    relay = Relay(("127.0.0.1", broker.port))
    made = builder(broker, port=relay.address[1]).set_topology_recovery_enabled(declares)
    env = environment(**ONCE)
    stream = env.add_source(RMQSource(made.build(), "gone", False, TEXT))
    stream.map(See("gone"), Types.STRING()).print()
    job = env.execute_async()
    client.publish("gone", ["first"])
    SEEN["gone"].wait_for("first")
    relay.hold()
    relay.cut()
    # The broker notifies a present consumer of its queue's end, and the job then fails.
    eventually(lambda: client.consumers("gone") == 0, "the broker has not missed the connection")
    client.channel.queue_delete("gone")
    relay.go_on()
    try:
        if declares:
            eventually(lambda: client.is_there("gone"), "the queue is not declared")
            client.publish("gone", ["second"])
            SEEN["gone"].wait_for("second")
            job.cancel().result()
        else:
            with pytest.raises(SourceError, match="refuses queue 'gone': NOT_FOUND"):
                job.get_job_execution_result().result()
    finally:
        relay.close()


def test_a_connection_that_is_not_to_be_made_again(broker, client):
    client.declare("unrecovered")
    relay = Relay(("127.0.0.1", broker.port))
    config = builder(broker, port=relay.address[1]).set_automatic_recovery(False).build()
    env = environment(**ONCE)
    stream = env.add_source(RMQSource(config, "unrecovered", False, TEXT))
    stream.map(See("unrecovered"), Types.STRING()).print()
    job = env.execute_async()
    client.publish("unrecovered", ["x"])
    SEEN["unrecovered"].wait_for("x")
    relay.cut()
    with pytest.raises(SourceError, match=r"has ended the connection \(automatic_recovery is"):
        job.get_job_execution_result().result()
    relay.close()
    client.channel.queue_delete("unrecovered")


def test_settings_that_a_connection_negotiates(broker, client):
    """As the client library has negotiated it with the broker."""
    client.declare("asked")
    made = builder(broker).set_requested_heartbeat(7).set_requested_frame_max(5000)
    config = made.set_requested_channel_max(3).build()
    settled = []

    class Settles(BrokerThread):
        def on_connected(self, channel):
            found = channel.connection._impl.params
            settled.append((found.heartbeat, found.frame_max, found.channel_max))

        def work(self, channel):
            self.fail("has told enough")

    thread = Settles("RMQSource", config, "asked", SourceError)
    thread.start()
    eventually(lambda: thread.failure is not None, "there is no connection")
    thread.close()
    assert settled == [(7, 5000, 3)]
    client.channel.queue_delete("asked")


def test_a_sink_gives_a_broker_up_that_says_nothing(broker, client):
    client.declare("silent")
    relay = Relay(("127.0.0.1", broker.port))
    config = builder(broker, port=relay.address[1]).build()
    writer = RMQSink(config, "silent", TEXT, timeout_ms=3000)._as_sink().create_writer(None)
    assert_gives_up(writer, relay, r"RMQSink of queue 'silent': .*timeout_ms")
    client.channel.queue_delete("silent")


@pytest.mark.parametrize("uses_ids", [True, False])
def test_a_connection_that_is_lost_between_checkpoints(broker, client, uses_ids):
    """The broker sends emitted messages again; the source recognises their ids."""
    name = f"lost-{uses_ids}"
    client.declare(name)
    client.publish(name, numbered(100), numbered(100))
    relay = Relay(("127.0.0.1", broker.port))
    config = builder(broker, port=relay.address[1]).build()
    env = environment(**NEVER)
    stream = env.add_source(RMQSource(config, name, uses_ids, TEXT))
    stream.map(See(name), Types.STRING()).print()
    job = env.execute_async()
    seen = SEEN[name]
    seen.wait_for("99")
    relay.cut()
    client.publish(name, ["last"], ["last"])
    seen.wait_for("last")
    # Stands for a checkpoint: its messages are acknowledged, and so their ids are forgotten.
    job.cancel().result()
    relay.close()
    once = numbered(100)
    assert seen.elements == [*once, *([] if uses_ids else once), "last"]


def test_a_savepoint_knows_what_the_broker_may_send_again(broker, client, tmp_path):
    client.declare("savepoint")
    client.publish("savepoint", numbered(10), numbered(10))
    config = builder(broker).build()

    def started(name, **options):
        env = environment("in-process", **NEVER, **options)
        stream = env.add_source(RMQSource(config, "savepoint", True, TEXT)).uid("source")
        stream.map(See(name), Types.STRING()).uid("seen").print()
        return env.execute_async(), SEEN[name]

    job, seen = started("first")
    seen.wait_for("9")
    path = job.stop_with_savepoint(False, str(tmp_path)).result()
    assert client.depth("savepoint") == 0
    # As if the job had been killed before it acknowledged the savepoint's messages.
    client.publish("savepoint", numbered(12), numbered(12))
    job, seen = started("second", **{"execution.state-recovery.path": path})
    seen.wait_for("11")
    job.cancel().result()
    assert seen.elements == ["10", "11"]
    client.channel.queue_delete("savepoint")


@pytest.fixture
def own_broker(tmp_path):
    """Start a broker that a test may kill: a broker that does not start again fails one test."""
    with contextlib.closing(RabbitMQ(tmp_path)) as found:
        yield found


@pytest.mark.slow
def test_a_broker_that_is_killed_and_started_again(own_broker):
    first = Client(own_broker)
    first.declare("in")
    first.declare("out")
    env = environment(**OFTEN)
    config = builder(own_broker).build()
    stream = env.add_source(RMQSource(config, "in", True, TEXT))
    stream.add_sink(RMQSink(config, "out", TEXT))
    job = env.execute_async()
    first.publish("in", ["before"], ["1"])
    assert first.take("out", 1) == [("before", None)]
    first.close()
    own_broker.stop()
    own_broker.start()
    second = Client(own_broker)
    # A killed node may forget a queue that it had just declared.
    second.declare("in")
    second.declare("out")
    second.publish("in", ["after"], ["2"])
    # A sink may publish a message again if the broker has not confirmed it.
    while second.take("out", 1) != [("after", None)]:
        pass
    job.cancel().result()
    second.close()


def test_a_checkpoint_waits_until_the_broker_has_everything(broker, client, tmp_path):
    client.declare("confirmed")
    elements = queue.Queue()
    env = environment(**NEVER)
    stream = env.from_queue(elements, Types.STRING()).map(See("confirmed"), Types.STRING())
    stream.add_sink(RMQSink(builder(broker).build(), "confirmed", TEXT))
    job = env.execute_async()
    for number in numbered(1500):
        elements.put(number)
    SEEN["confirmed"].wait_for("1499")
    job.trigger_savepoint(str(tmp_path)).result()
    assert client.depth("confirmed") == 1500
    job.cancel().result()


def test_every_record_is_published_with_its_id(broker, client):
    env = environment()
    sink = RMQSink(builder(broker).build(), "declared", TEXT, correlation_id=lambda text: text[:3])
    env.from_collection(numbered(4500), Types.STRING()).add_sink(sink)
    env.execute()
    found = client.take("declared", 4500)
    assert found == [(text, text[:3]) for text in numbered(4500)]


def test_messages_of_which_no_record_can_be_made(broker, client):
    client.declare("letters")
    client.publish("letters", [b"\xff", "good"])
    tag = dead_letter_tag("bad")
    source = RMQSource(builder(broker).build(), "letters", False, TEXT, dead_letters=tag)
    stream = environment(**OFTEN).add_source(source)
    (letter,) = taken(stream.get_side_output(tag), 1)
    assert (letter["origin"], bytes(n % 256 for n in letter["data"])) == ("letters", b"\xff")
    client.channel.queue_delete("letters")
    client.declare("letters")
    client.publish("letters", [b"\xff"])
    source = RMQSource(builder(broker).build(), "letters", False, TEXT)
    with pytest.raises(UnicodeDecodeError) as raised:
        taken(environment().add_source(source), 1)
    assert "a message of queue 'letters'" in "".join(raised.value.__notes__)


def test_a_message_without_an_id_where_ids_are_needed(broker, client):
    client.declare("nameless")
    client.publish("nameless", ["x"])
    source = RMQSource(builder(broker).build(), "nameless", True, TEXT)
    env = environment(**OFTEN, **{"restart-strategy.type": "none"})
    with pytest.raises(SourceError, match="queue 'nameless' has no correlation id"):
        taken(env.add_source(source), 1)


def test_a_queue_that_is_not_there_is_declared(broker, client):
    """The queue is durable: other clients find it to be so."""
    name = "made"
    env = environment()
    env.add_source(RMQSource(builder(broker).build(), name, False, TEXT)).map(
        See(name), Types.STRING()
    ).print()
    job = env.execute_async()
    seen = SEEN[name]
    while "x" not in seen.elements:
        # Fails if the queue has other properties.
        client.declare(name)
        client.publish(name, ["x"])
        seen.wait_for("x")
    job.cancel().result()


def test_a_queue_that_is_deleted_fails_the_job(broker, client):
    name = "deleted"
    client.declare(name)
    client.publish(name, ["x"])
    env = environment(**{"restart-strategy.type": "none"})
    stream = env.add_source(RMQSource(builder(broker).build(), name, False, TEXT))
    with (
        pytest.raises(SourceError, match="ended the consumption of queue 'deleted'"),
        stream.execute_and_collect() as elements,
    ):
        for _ in elements:
            client.channel.queue_delete(name)


def test_a_sink_whose_queue_is_deleted_fails_the_job(broker, client):
    name = "deleted-out"
    elements = queue.Queue()
    env = environment(**{"restart-strategy.type": "none"})
    stream = env.from_queue(elements, Types.STRING())
    stream.add_sink(RMQSink(builder(broker).build(), name, TEXT))
    job = env.execute_async()
    client.declare(name)
    elements.put("x")
    client.take(name, 1)
    client.channel.queue_delete(name)
    elements.put("y")
    elements.put(None)
    with pytest.raises(
        SinkError,
        match=r"RMQSink of queue 'deleted-out': .* has no queue 'deleted-out' any more: NO_ROUTE",
    ):
        job.get_job_execution_result().result()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"password": "wrong"}, "rejects the credentials: .*ACCESS_REFUSED"),
        ({"user": "nobody"}, "rejects the credentials: .*access to vhost"),
        ({"host": "none"}, "rejects the credentials: .*vhost none not found"),
        ({"user": "reader"}, "refuses queue 'private': ACCESS_REFUSED"),
    ],
)
def test_users_and_rights(broker, options, message):
    config = builder(broker, **options).build()
    stops = {"restart-strategy.type": "none"}
    env = environment(**stops)
    env.from_collection(["x"]).add_sink(RMQSink(config, "private", TEXT))
    with pytest.raises(SinkError, match=message) as raised:
        env.execute()
    assert "wrong" not in str(raised.value)
    with pytest.raises(SourceError, match=message) as raised:
        taken(environment(**stops).add_source(RMQSource(config, "private", False, TEXT)), 1)
    assert "wrong" not in str(raised.value)


def test_a_user_who_may_read_alone(broker, client):
    client.declare("open")
    client.publish("open", ["x"])
    source = RMQSource(builder(broker, user="reader").build(), "open", False, TEXT)
    assert taken(environment().add_source(source), 1) == ["x"]


def test_no_broker():
    stops = {"restart-strategy.type": "none"}
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        uri = f"amqp://127.0.0.1:{nobody.getsockname()[1]}"
        made = RMQConnectionConfig.Builder().set_uri(uri).set_network_recovery_interval(50)
        once = made.set_automatic_recovery(False).build()
        for config, message in (
            (once, r"127.0.0.1:\d+ cannot be reached \(automatic_recovery is False\)"),
            (
                made.set_automatic_recovery(True).set_connection_timeout(200).build(),
                r"of queue 'a': 127.0.0.1:\d+ cannot be reached within 0.2 s",
            ),
        ):
            with pytest.raises(SourceError, match=message):
                taken(environment(**stops).add_source(RMQSource(config, "a", False, TEXT)), 1)
            env = environment(**stops)
            env.from_collection(["x"]).add_sink(RMQSink(config, "a", TEXT))
            with pytest.raises(SinkError, match=message):
                env.execute()


class Place:
    """A queue, for the scenarios that all sinks run."""

    def __init__(self, broker, client, queue):
        self.broker, self.client, self.queue = broker, client, queue

    def write(self, stream):
        return texts(stream).add_sink(RMQSink(builder(self.broker).build(), self.queue, TEXT))

    def read(self):
        count = self.client.depth(self.queue)
        return [int(body) for body, _ in self.client.take(self.queue, count)]


def test_the_sink_continues_at_another_parallelism(broker, client, tmp_path):
    once_at_another_parallelism(Place(broker, client, "contract"), tmp_path, ordered=True)


def test_the_sink_continues_after_a_failure(broker, client):
    after_a_failure(Place(broker, client, "failing contract"), exact=False, ordered=True)

"""MqttSource and MqttSink against a real broker, mosquitto of Debian's package.

The tests are skipped without the package.
"""

import gc
import os
import shutil
import socket
import subprocess
import threading
import time

import psutil
import pytest
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.mqtt import MqttSink, MqttSource
from penstock.datastream.formats.dead_letters import dead_letter_tag
from penstock.errors import InvalidProgramError, SinkError, SourceError
from support.certificates import own_certificate
from support.kill_once import KillOnce
from support.packages import required
from support.patience import PATIENCE_S
from support.processes import DIES_WITH_ITS_PARENT
from support.relay import Relay, assert_gives_up
from support.reserved_ports import reserved_ports
from support.sessions import eventually
from support.source_scenarios import once_after_a_failure

mqtt = pytest.importorskip("paho.mqtt.client")

pytestmark = pytest.mark.server

CONFIGURATION = """\
listener {port} 127.0.0.1
allow_anonymous true
password_file {folder}/passwords
acl_file {folder}/rights
persistence true
persistence_location {folder}/
log_dest none
max_queued_messages 0
"""

RIGHTS = """\
topic readwrite open/#
user ann
topic read private/#
topic readwrite open/#
"""


class Mosquitto:
    """A broker on a port that the kernel chose; it stores its sessions when it ends."""

    def __init__(self, folder, certificate=None):
        program = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
        self._program = required(program, "mosquitto")
        self._folder = folder
        self.port, tls_port = reserved_ports(2)
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self.tls_url = f"mqtts://127.0.0.1:{tls_port}"
        passwords = folder / "passwords"
        subprocess.run(["mosquitto_passwd", "-c", "-b", passwords, "ann", "p w"], check=True)
        (folder / "rights").write_text(RIGHTS)
        text = CONFIGURATION.format(port=self.port, folder=folder)
        if certificate is not None:
            text += (
                f"listener {tls_port} 127.0.0.1\ncertfile {certificate}\nkeyfile {certificate}\n"
            )
        if os.geteuid() == 0:
            text += "user root\n"
        (folder / "configuration").write_text(text)
        self.start()

    def start(self):
        self._process = subprocess.Popen(
            [*DIES_WITH_ITS_PARENT, self._program, "-c", self._folder / "configuration"],
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self._process.poll() is None, "mosquitto does not start"
                assert time.monotonic() < deadline
            else:
                return

    def stop(self):
        self._process.terminate()
        self._process.wait()


class Client:
    """A client of the test's own, connected and subscribed from the start."""

    def __init__(self, broker, name="", topic=None):
        self.received = []
        self._news = threading.Condition()
        self._client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=mqtt.MQTTv5
        )
        properties = mqtt.Properties(mqtt.PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600
        subscribed = threading.Event()
        self._client.on_message = self._on_message
        self._client.on_connect = lambda *_: topic and self._client.subscribe(topic, qos=1)
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect("127.0.0.1", broker.port, clean_start=not name, properties=properties)
        self._client.loop_start()
        if topic is not None:
            assert subscribed.wait(PATIENCE_S)

    def publish(self, topic, payloads, **options):
        for payload in payloads:
            self._client.publish(topic, payload, qos=1, **options).wait_for_publish(30)

    def take(self, count):
        with self._news:
            assert self._news.wait_for(lambda: len(self.received) >= count, 60)
            return list(self.received)

    def has(self, payload, timeout_s):
        """Return whether a message has arrived, or arrives in time."""
        with self._news:
            return self._news.wait_for(
                lambda: payload in [found for _, found, _ in self.received], timeout_s
            )

    def close(self):
        self._client.disconnect()
        self._client.loop_stop()
        self._client.reinitialise()  # closes the socket that wakes its thread

    def _on_message(self, client, userdata, message):
        with self._news:
            self.received.append((message.topic, message.payload.decode(), message.retain))
            self._news.notify_all()


@pytest.fixture
def broker(tmp_path):
    found = Mosquitto(tmp_path)
    yield found
    found.stop()


@pytest.fixture
def publisher(broker):
    found = Client(broker)
    yield found
    found.close()


@pytest.fixture(params=["native", "pure"])
def runtime(request, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", request.param)


def environment(target="in-process", **options):
    configuration = Configuration.from_dict(options)
    if os.environ.get("PENSTOCK_RUNTIME") != "pure":  # the pure runtime needs processes
        configuration.set_string("execution.target", target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    return env


def session(broker, name="job", topic="open/#"):
    """Create a session at the broker, which stores messages published from now on."""
    Client(broker, name, topic).close()


def stream_of(env, source):
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "mqtt")


def taken(stream, count):
    """Return the first records, without repetitions."""
    found = []
    with stream.execute_and_collect() as elements:
        for element in elements:
            if element not in found:
                found.append(element)
            if len(found) == count:
                return found
    raise AssertionError(found)


def test_messages_become_records(broker, publisher):
    session(broker)
    publisher.publish("open/a", [str(n) for n in range(200)])
    source = MqttSource(broker.url, ["open/#"], "job")
    numbers = stream_of(environment(), source).map(int, Types.LONG())
    assert taken(numbers, 200) == list(range(200))


def test_emitted_messages_are_not_repeated_without_checkpoints(broker, publisher):
    session(broker)
    source = MqttSource(broker.url, "open/#", "job")
    for number in range(2):
        publisher.publish("open/a", [str(number)])
        assert taken(stream_of(environment(), source), 1) == [str(number)]


def test_functions_see_topics(broker, publisher):
    session(broker)
    publisher.publish("open/a/b", ["x"])
    publisher.publish("open/skipped", ["y"])
    publisher.publish("open/c", ["zz"])

    def pair(message):
        return None if message.topic.endswith("skipped") else (message.topic, len(message.payload))

    kind = Types.TUPLE([Types.STRING(), Types.LONG()])
    source = MqttSource(broker.url, "open/#", "job", deserialize=pair, type_info=kind)
    assert taken(stream_of(environment(), source), 2) == [("open/a/b", 1), ("open/c", 2)]


def test_messages_of_which_no_record_can_be_made(broker, publisher):
    session(broker)
    publisher.publish("open/a", [b"\xff", "good"])
    tag = dead_letter_tag("bad")
    source = MqttSource(broker.url, "open/#", "job", dead_letters=tag)
    stream = stream_of(environment(**{"execution.checkpointing.interval": "100 ms"}), source)
    (letter,) = taken(stream.get_side_output(tag), 1)
    assert (letter["origin"], bytes(n % 256 for n in letter["data"])) == ("open/a", b"\xff")
    publisher.publish("open/a", [b"\xff"])
    with pytest.raises(UnicodeDecodeError) as raised:
        taken(stream_of(environment(), MqttSource(broker.url, "open/#", "job")), 9)
    assert "a message of 'open/a'" in "".join(raised.value.__notes__)


def test_a_killed_worker_loses_nothing(broker, publisher, tmp_path, runtime):
    session(broker)
    subscriber = Client(broker, topic="open/out")
    env = environment("local", **{"execution.checkpointing.interval": "100 ms"})
    source = MqttSource(broker.url, "open/in", "job")
    session(broker, "job", "open/in")
    stream = stream_of(env, source).map(KillOnce(tmp_path, "60"), Types.STRING())
    stream.sink_to(MqttSink(broker.url, "open/out"))
    client = env.execute_async()
    wanted = {str(number) for number in range(100)}
    try:
        for number in range(100):
            publisher.publish("open/in", [str(number)])
        count = 0
        while {payload for _, payload, _ in subscriber.take(count)} != wanted:
            count = len(subscriber.received) + 1
    finally:
        client.cancel().result()
        subscriber.close()
    assert list(tmp_path.glob("killed-*"))


def test_each_message_at_least_once_after_a_failure(broker, publisher):
    """As with all sources that may send unacknowledged messages again."""
    session(broker)
    publisher.publish("open/a", [str(number) for number in range(600)])

    def make(env):
        return stream_of(env, MqttSource(broker.url, "open/#", "job")).map(int, Types.LONG())

    once_after_a_failure(make, 600, exact=False)


def test_a_broker_that_goes_and_comes(broker):
    env = environment(**{"execution.checkpointing.interval": "100 ms"})
    source = MqttSource(broker.url, "open/in", "job")
    stream_of(env, source).sink_to(MqttSink(broker.url, "open/out"))
    client = env.execute_async()
    try:
        for text in ("before", "after"):
            seen = Client(broker, topic="open/out")
            # Sent repeatedly: mosquitto 2.0.11 may lose messages that arrive while the source is
            # away, if it starts with messages that were sent and not acknowledged.
            while not seen.has(text, 0.5):
                seen.publish("open/in", [text])
            seen.close()
            if text == "before":
                broker.stop()
                broker.start()
    finally:
        client.cancel().result()


@pytest.mark.parametrize(
    ("settings", "expected"), [({}, ["x", "y"]), ({"session_expiry_s": 0}, ["y"])]
)
def test_a_broker_keeps_messages_for_as_long_as_is_said(broker, publisher, settings, expected):
    """Messages that arrive while the job is away are stored if configured; retained ones always."""
    source = MqttSource(broker.url, "open/#", "kept", **settings)
    session(broker, "kept")
    publisher.publish("open/a", ["a"])
    assert taken(stream_of(environment(), source), 1) == ["a"]
    publisher.publish("open/x", ["x"])
    publisher.publish("open/y", ["y"], retain=True)
    assert sorted(taken(stream_of(environment(), source), len(expected))) == expected


def test_messages_travel_by_tls(tmp_path):
    certificate = own_certificate(tmp_path / "certificate.pem")
    broker = Mosquitto(tmp_path, certificate)
    try:
        session(broker)
        env = environment()
        sink = MqttSink(broker.tls_url, "open/a", ca_file=str(certificate))
        env.from_collection(["x"]).sink_to(sink)
        env.execute()
        source = MqttSource(broker.tls_url, "open/#", "job", ca_file=str(certificate))
        assert taken(stream_of(environment(), source), 1) == ["x"]
        env = environment()
        untrusted = MqttSink(broker.tls_url, "open/a", connect_timeout_ms=3000)
        env.from_collection(["x"]).sink_to(untrusted)
        with pytest.raises(SinkError, match=r"cannot be reached .*CERTIFICATE_VERIFY_FAILED"):
            env.execute()
        gc.collect()  # would warn of sockets that were not closed
    finally:
        broker.stop()


def test_a_sink_gives_a_broker_up_that_says_nothing(broker):
    relay = Relay(("127.0.0.1", broker.port))
    writer = MqttSink("mqtt://{}:{}".format(*relay.address), "open/a", timeout_ms=3000)
    writer = writer.create_writer(None)
    assert_gives_up(writer, relay, r"MqttSink of 'open/a': .*timeout_ms")


def test_a_writer_that_is_closed_leaves_no_socket(broker):
    def sockets():
        return {connection.fd for connection in psutil.Process().net_connections()}

    before = sockets()
    writer = MqttSink(broker.url, "open/a").create_writer(None)
    writer.write("x", None)
    writer.flush(False)
    own = sockets() - before
    writer.close()
    assert own
    assert not own & sockets()


def test_sinks_choose_topics_and_retain(broker):
    env = environment()
    stream = env.from_collection([f"t{n % 3} {n}" for n in range(2500)], Types.STRING())
    stream.sink_to(MqttSink(broker.url, lambda text: f"open/{text.split()[0]}", retain=True))
    subscriber = Client(broker, topic="open/live")
    env.execute()
    late = Client(broker, topic="open/#")
    assert sorted(late.take(3)) == [
        ("open/t0", "t0 2499", True),
        ("open/t1", "t1 2497", True),
        ("open/t2", "t2 2498", True),
    ]
    for client in (subscriber, late):
        client.close()


def test_every_record_is_published(broker):
    subscriber = Client(broker, topic="open/#")
    relay = Relay(("127.0.0.1", broker.port))
    # The broker admits the sink only after a while.
    relay.hold()
    env = environment()
    sink = MqttSink("mqtt://{}:{}".format(*relay.address), "open/all")
    env.from_collection([str(n) for n in range(2500)]).sink_to(sink)
    client = env.execute_async()
    eventually(lambda: relay.seen, "the sink does not connect")
    relay.go_on()
    client.get_job_execution_result().result()
    # In the order of sending.
    assert [payload for _, payload, _ in subscriber.take(2500)] == [str(n) for n in range(2500)]
    subscriber.close()
    relay.close()


def test_users_and_rights(broker):
    ann = broker.url.replace("//", "//ann:p%20w@")
    env = environment()
    env.from_collection(["x"]).sink_to(MqttSink(ann, "private/a"))
    with pytest.raises(SinkError, match="message to the topic 'private/a': Not authorized"):
        env.execute()
    env = environment()
    env.from_collection(["open/a", "private/b"]).sink_to(MqttSink(ann, lambda text: text))
    with pytest.raises(SinkError, match="message to the topic 'private/b': Not authorized"):
        env.execute()
    env = environment()
    env.from_collection(["x"]).sink_to(MqttSink(ann.replace("p%20w", "wrong"), "open/a"))
    with pytest.raises(SinkError, match="rejects the credentials: Not authorized") as raised:
        env.execute()
    assert "wrong" not in str(raised.value)
    source = MqttSource(ann.replace("p%20w", "wrong"), "open/a", "job")
    with pytest.raises(SourceError, match="rejects the credentials"):
        taken(stream_of(environment(), source), 1)


def test_no_broker():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"mqtt://127.0.0.1:{nobody.getsockname()[1]}"
        message = r"of 'a': 127.0.0.1:\d+ cannot be reached within 0.2 s"
        source = MqttSource(url, "a", "job", connect_timeout_ms=200)
        with pytest.raises(SourceError, match=message):
            taken(stream_of(environment(), source), 1)
        env = environment()
        env.from_collection(["x"]).sink_to(MqttSink(url, "a", connect_timeout_ms=200))
        with pytest.raises(SinkError, match=message):
            env.execute()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MqttSource("tcp://h", "a", "job"), "MqttSource takes a URL as mqtt://"),
        (lambda: MqttSource("mqtt://h", [], "job"), "topics are texts, at least one"),
        (lambda: MqttSource("mqtt://h", "a", ""), "needs a client_id"),
        (lambda: MqttSource("mqtt://h", "a", "j", schema=3), "a DeserializationSchema, got 3"),
        (lambda: MqttSource("mqtt://h", "a", "j", dead_letters=3), "takes an OutputTag"),
        (lambda: MqttSource("mqtt://h", "a", "j", ca_file="x"), "ca_file is for mqtts://"),
        (
            lambda: MqttSource("mqtt://h", "a", "j", type_info=Types.INT()),
            "type_info requires deserialize",
        ),
        (lambda: MqttSource("mqtt://h", "a", "j", session_expiry_s=-1), "session_expiry_s is"),
        (lambda: MqttSink("mqtt://h", "a/#"), r"without '\+', '#' and NUL"),
        (lambda: MqttSink("mqtt://h", 3), "a text or a function"),
        (lambda: MqttSink("mqtt://h", "a", timeout_ms=0), "timeout_ms is at least 1"),
        (lambda: MqttSink("mqtt://h", "a", connect_timeout_ms=0), "connect_timeout_ms is"),
    ],
)
def test_arguments_that_cannot_be_meant(make, message):
    with pytest.raises(InvalidProgramError, match=message):
        make()


def test_a_file_of_certificates_that_is_none_is_named(tmp_path):
    env = environment()
    sink = MqttSink("mqtts://127.0.0.1:1", "a", ca_file=f"{tmp_path}/none")
    env.from_collection(["x"]).sink_to(sink)
    with pytest.raises(InvalidProgramError, match=r"ca_file must be a PEM file .*/none'"):
        env.execute()

"""RedisSink and RedisLookup against a real Redis of Debian's package.

The tests are skipped without the package.
"""

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import ClassVar

import pytest
from penstock.common import Configuration, Row, RowKind, Time, Types
from penstock.datastream import AsyncDataStream, MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.redis import RedisLookup, RedisSink
from penstock.errors import InvalidProgramError, SinkError, SourceError
from support.kill_once import KillOnce
from support.packages import required
from support.patience import PATIENCE_S
from support.processes import DIES_WITH_ITS_PARENT

redis = pytest.importorskip("redis")

pytestmark = pytest.mark.server

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class RedisServer:
    """A server at a Unix socket, which stores its data when it ends."""

    def __init__(self):
        required(shutil.which("redis-server"), "redis-server")
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-redis-"))
        self.url = f"unix://{self._folder}/socket"
        self.start()

    def start(self):
        settings = {"port": "0", "unixsocket": "socket", "appendonly": "yes", "save": ""}
        arguments = [word for name, value in settings.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen(
            [*DIES_WITH_ITS_PARENT, "redis-server", *arguments],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        for line in self._process.stdout:
            if "ready to accept" in line.lower():
                return
        raise AssertionError("Redis does not start")

    def halt(self):
        self._process.terminate()
        self._process.communicate()

    def stop(self):
        self.halt()
        shutil.rmtree(self._folder)

    def ask(self, *command):
        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            return client.execute_command(*command)


@pytest.fixture
def server():
    found = RedisServer()
    yield found
    found.stop()


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


def write(url, elements, command, **settings):
    env = environment()
    env.from_collection(elements).sink_to(RedisSink(url, command, retry_delay_ms=50, **settings))
    env.execute()


def test_commands_in_batches(server, runtime):
    env = environment()
    stream = env.from_collection([(f"k{n}", n) for n in range(2500)], PAIR)
    stream.sink_to(RedisSink(server.url, lambda pair: ("SET", *pair), batch_size=1000))
    env.execute()
    assert server.ask("DBSIZE") == 2500
    assert server.ask("GET", "k2499") == "2499"


def test_a_worker_that_is_killed_loses_nothing(server, tmp_path):
    env = environment(
        "local",
        **{
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1",
            "restart-strategy.fixed-delay.delay": "1 ms",
        },
    )
    env.enable_checkpointing(20)
    pairs = [(f"k{n % 100}", n) for n in range(20_000)]
    stream = env.from_collection(pairs, PAIR).map(
        KillOnce(tmp_path, 15_000, part=lambda pair: pair[1]), PAIR
    )
    stream.sink_to(RedisSink(server.url, lambda pair: ("HSET", "last", *pair)))
    env.execute()
    assert list(tmp_path.glob("killed-*"))
    found = server.ask("HGETALL", "last")
    assert found == {f"k{n % 100}": str(n) for n in range(19_900, 20_000)}


class HaltsAt(MapFunction):
    """Stops the server before a record, in threads of this process."""

    servers: ClassVar = {}

    def __init__(self, url, at):
        self.url, self.at = url, at

    def map(self, pair):
        if pair[1] == self.at:
            self.servers[self.url].halt()
        return pair


class Waits(logging.Handler):
    """Keeps what the job reports, and has it wait for its server once it has done so twice."""

    def __init__(self):
        super().__init__()
        self.told = []
        self.waits, self.is_back = threading.Event(), threading.Event()

    def emit(self, record):
        self.told.append(record.getMessage())
        if len(self.told) == 2:
            self.waits.set()
            self.is_back.wait(PATIENCE_S)


def test_a_server_that_is_away_for_a_while(server):
    """The old connection is broken: the batch is sent again over a new one."""
    HaltsAt.servers[server.url] = server
    log = Waits()
    logger = logging.getLogger("penstock.connectors.redis.sink")
    logger.addHandler(log)
    try:
        env = environment()
        stream = env.from_collection([(f"k{n}", n) for n in range(6)], PAIR)
        stream.map(HaltsAt(server.url, 3), PAIR).sink_to(
            RedisSink(server.url, lambda pair: ("SET", *pair), batch_size=2, retry_delay_ms=20)
        )
        job = env.execute_async()
        assert log.waits.wait(PATIENCE_S)
        server.start()  # by this thread, with which it ends
        log.is_back.set()
        job.get_job_execution_result().result()
    finally:
        logger.removeHandler(log)
    assert "is unreachable for SET k2 and 1 more" in log.told[0]
    assert "trying again in 20 ms" in log.told[0]
    assert server.ask("DBSIZE") == 6
    server.halt()
    with pytest.raises(
        SinkError, match=r"Redis at .*socket is unreachable for SET a, tried 2 times"
    ):
        write(server.url, ["a"], lambda key: ("SET", key, 1), max_retries=1)
    server.start()


@pytest.mark.parametrize(
    ("command", "error", "expected"),
    [
        (lambda key: ("LPUSH", "text", key), SinkError, "refuses LPUSH text: WRONGTYPE"),
        (lambda key: ("NONSENSE", key), SinkError, "refuses NONSENSE a: unknown command"),
        (lambda key: f"SET {key}", InvalidProgramError, "a command must be a tuple of strings"),
        (
            lambda key: ("SET", key, None),
            InvalidProgramError,
            "a command must be a tuple of strings",
        ),
    ],
)
def test_rejected_commands_fail_the_job(server, command, error, expected):
    server.ask("SET", "text", "x")
    with pytest.raises(error, match=expected):
        write(server.url, ["a"], command)


@pytest.mark.parametrize("wait", [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait])
def test_lookups(server, wait):
    server.ask("MSET", "k1", "tea", "k2", "jam")
    env = environment()
    numbers = env.from_collection([1, 2, 3] * 50, Types.INT())
    lookup = RedisLookup(server.url, lambda n: ("GET", f"k{n}"), lambda n, item: f"{n} {item}")
    with wait(numbers, lookup, Time.seconds(30), 10, Types.STRING()).execute_and_collect() as found:
        results = list(found)
    assert sorted(results) == ["1 tea"] * 50 + ["2 jam"] * 50 + ["3 None"] * 50
    if wait is AsyncDataStream.ordered_wait:
        assert results[:3] == ["1 tea", "2 jam", "3 None"]


def both_at_once(server, commands, connections):
    """Return the results of two commands that are sent together."""
    asks = RedisLookup(
        server.url, lambda n: commands[n], lambda n, found: found, connections=connections
    )
    asks.open(None)
    try:

        async def ask():
            return await asyncio.gather(*map(asks.async_invoke, range(2)))

        return asyncio.run(ask())
    finally:
        asks.close()


def test_so_many_requests_are_under_way_at_a_time(server):
    """The first one waits for the second."""
    commands = [("BLPOP", "list", 0), ("RPUSH", "list", "x")]
    assert both_at_once(server, commands, connections=2) == [[("list", "x")], [1]]


def test_a_lookup_has_one_request_at_a_time_on_request(server):
    commands = [("BLPOP", "list", 1), ("RPUSH", "list", "x")]
    assert both_at_once(server, commands, connections=1) == [[None], [1]]


@pytest.mark.parametrize(("use", "error"), [("sink", SinkError), ("lookup", SourceError)])
def test_a_server_that_says_nothing_is_given_up(use, error):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "redis://{}:{}".format(*silent.getsockname())
        settings = {"timeout_ms": 50, "max_retries": 0}
        stream = environment().from_collection(["a"], Types.STRING())
        if use == "sink":
            stream.sink_to(RedisSink(url, lambda key: ("SET", key, 1), **settings))
            name = "SET a"
        else:
            asks = RedisLookup(url, lambda key: ("GET", key), lambda key, found: key, **settings)
            AsyncDataStream.ordered_wait(stream, asks, Time.hours(1), 1, Types.STRING()).print()
            name = "GET a"
        with pytest.raises(error, match=f"is unreachable for {name}, tried 1 times: Timeout"):
            stream.get_execution_environment().execute()


def test_a_lookup_that_is_refused_fails_the_job(server):
    server.ask("SET", "text", "x")
    numbers = environment().from_collection([1], Types.INT())
    lookup = RedisLookup(server.url, lambda n: ("LRANGE", "text", 0, n), lambda n, found: "x")
    stream = AsyncDataStream.ordered_wait(numbers, lookup, Time.seconds(30), 10, Types.STRING())
    with (
        pytest.raises(SourceError, match=r"RedisLookup: .* refuses LRANGE text"),
        stream.execute_and_collect() as found,
    ):
        list(found)


def lookup(url, elements, command):
    stream = environment().from_collection(elements, Types.STRING())
    asks = RedisLookup(url, command, lambda element, found: str(found))
    hour = Time.hours(1)
    found = AsyncDataStream.ordered_wait(stream, asks, hour, 10, Types.STRING())
    with found.execute_and_collect() as results:
        return list(results)


@pytest.mark.parametrize(("use", "error"), [(write, SinkError), (lookup, SourceError)])
def test_users_and_rights(server, use, error):
    server.ask("ACL", "SETUSER", "reader", "on", ">p w", "~open:*", "+@read", "+@connection")
    server.ask("CONFIG", "SET", "requirepass", "hidden")
    user = f"{server.url}?username=reader&password=p%20w"
    for url, command, message in (
        (server.url, ("GET", "a"), "rejects the credentials: .*; set them in the URL"),
        (f"{server.url}?password=wrong", ("GET", "a"), "rejects the credentials: invalid"),
        (user.replace("p%20w", "wrong"), ("GET", "a"), "rejects the credentials: invalid"),
        (user, ("SET", "open:a", 1), "refuses SET open:a: .*'set' command"),
        (user, ("GET", "a"), "refuses GET a: .*no permissions to access one of the keys"),
        (f"{user}&db=99", ("GET", "open:a"), "refuses the connection: DB index is out of range"),
    ):
        with pytest.raises(error, match=message) as raised:
            use(url, ["a"], lambda _, command=command: command)
        assert "wrong" not in str(raised.value)
    use(user, ["a"], lambda _: ("GET", "open:a"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"url": "http://user:hidden@host"}, "scheme 'http'"),
        ({"command": "SET"}, "takes a function as command"),
        ({"batch_size": 0}, "batch_size is at least 1"),
        ({"timeout_ms": 0}, "timeout_ms is at least 1"),
    ],
)
def test_wrong_arguments(arguments, expected):
    with pytest.raises(InvalidProgramError, match=expected) as failed:
        RedisSink(**{"url": "redis://localhost", "command": str, **arguments})
    assert "hidden" not in str(failed.value)
    with pytest.raises(InvalidProgramError, match="connections is at least 1"):
        RedisLookup("redis://localhost", str, str, connections=0)


def test_change_rows_become_hashes(server):
    """The last of several changes of a key in a batch counts, and None deletes a field."""
    cart = Types.ROW_NAMED(
        ["user", "items", "paid"], [Types.STRING(), Types.LONG(), Types.BOOLEAN()]
    )

    def change(kind, *values):
        row = Row.of_kind(kind, *values)
        row.set_field_names(["user", "items", "paid"])
        return row

    sink = RedisSink.upsert(server.url, cart, ["user"], prefix="cart:", batch_size=3)
    changes = [
        change(RowKind.INSERT, "ada", 1, False),
        change(RowKind.INSERT, "bob", 2, True),
        change(RowKind.INSERT, "eve", 3, True),
        change(RowKind.UPDATE_BEFORE, "ada", 1, False),
        change(RowKind.UPDATE_AFTER, "ada", 5, None),
        change(RowKind.DELETE, "bob", None, None),
        change(RowKind.UPDATE_BEFORE, "eve", 3, True),
        change(RowKind.UPDATE_AFTER, "eva", 3, True),
        change(RowKind.DELETE, "zoe", None, None),
        change(RowKind.INSERT, "zoe", 4, True),
    ]
    # A job that fails writes more than its last checkpoint has seen, also half of an update.
    for part in (changes[:7], changes[4:]):
        env = environment()
        env.set_parallelism(2)
        env.from_collection(part, cart).set_parallelism(1).sink_to(sink)
        env.execute()
    assert sorted(server.ask("KEYS", "*")) == ["cart:ada", "cart:eva", "cart:zoe"]
    assert server.ask("HGETALL", "cart:ada") == {"user": "ada", "items": "5"}
    assert server.ask("HGETALL", "cart:eva") == {"user": "eva", "items": "3", "paid": "true"}


def test_hashes_need_a_key_of_their_columns():
    cart = Types.ROW_NAMED(["user", "items"], [Types.STRING(), Types.LONG()])
    with pytest.raises(InvalidProgramError, match="no key column 'usr'"):
        RedisSink.upsert("redis://localhost", cart, ["usr"])
    with pytest.raises(InvalidProgramError, match="row type"):
        RedisSink.upsert("redis://localhost", Types.LONG(), ["usr"])

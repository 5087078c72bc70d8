"""HttpSink against a real server on loopback."""

import http.server
import json
import socket
import threading

import pytest
from penstock.common import Row, Types
from penstock.datastream import MapFunction
from penstock.datastream.connectors.http import HttpSink
from penstock.errors import FormatError, InvalidProgramError, SinkError
from support.environments import in_process

PAIR = Types.ROW_NAMED(["n", "text"], [Types.LONG(), Types.STRING()])


class Service(http.server.BaseHTTPRequestHandler):
    """Stores its requests; sends scripted answers first."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.connections.add(self.client_address)
        status = self.server.answers.pop(0) if self.server.answers else 204
        if status == 0:
            self.close_connection = True
            return
        if status < 300:
            self.server.bodies.append(body)
            self.server.seen.append((self.path, dict(self.headers)))
        text = b"" if status == 204 else b"says why"
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        server.answers, server.bodies, server.seen, server.connections = [], [], [], set()
        server.url = f"http://127.0.0.1:{server.server_port}/hook?key=1"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def post(url, elements, kind=None, **settings):
    env = in_process()
    env.from_collection(elements, kind).sink_to(HttpSink(url, retry_delay_ms=1, **settings))
    env.execute()


def test_batches_of_json_over_one_connection(service):
    rows = [Row(n=n, text=f"é {n}") for n in range(5)]
    post(service.url, rows, PAIR, batch_size=2, headers={"X-Key": "k"})
    batches = [json.loads(body) for body in service.bodies]
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert [element for batch in batches for element in batch] == [row.as_dict() for row in rows]
    path, headers = service.seen[0]
    assert (path, headers["X-Key"]) == ("/hook?key=1", "k")
    assert headers["Content-Type"] == "application/json"
    assert len(service.connections) == 1


def test_a_body_of_the_program_s_own(service):
    post(
        service.url,
        ["a", "b"],
        encode=lambda elements: ",".join(elements).encode(),
        headers={"Content-Type": "text/csv"},
    )
    assert service.bodies == [b"a,b"]
    assert service.seen[0][1]["Content-Type"] == "text/csv"


@pytest.mark.parametrize("name", ["Content-Type", "content-type"])
def test_a_header_replaces_the_sink_s_own_however_it_is_spelt(service, name):
    post(service.url, [1], headers={name: "application/x-ndjson"})
    sent = [text for key, text in service.seen[0][1].items() if key.lower() == "content-type"]
    assert sent == ["application/x-ndjson"]


def test_repetitions_follow_after_twice_as_long(service, caplog):
    service.answers = [503] * 3
    env = in_process()
    env.from_collection([1]).sink_to(HttpSink(service.url, retry_delay_ms=3))
    env.execute()
    told = [record.getMessage() for record in caplog.records if "trying again" in record.message]
    assert [text.rpartition("again ")[2] for text in told] == ["in 3 ms", "in 6 ms", "in 12 ms"]


def test_a_service_that_says_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = "http://{}:{}".format(*server.getsockname())
        with pytest.raises(SinkError, match="does not accept 1 records: TimeoutError"):
            post(url, [1], timeout_ms=50, max_retries=0)


@pytest.mark.parametrize("answers", [[503], [429, 500], [0], [0, 502, 0]])
def test_temporary_failures_are_retried(service, answers):
    service.answers = list(answers)
    post(service.url, [1, 2])
    assert [json.loads(body) for body in service.bodies] == [[1, 2]]


@pytest.mark.parametrize(
    ("answers", "settings", "expected"),
    [
        ([400], {}, "does not accept 2 records: 400 Bad Request: says why"),
        ([302], {}, "does not accept 2 records: 302 Found: says why"),
        ([503] * 3, {"max_retries": 2}, "503 Service Unavailable: says why"),
        ([0], {"max_retries": 0}, "does not accept 2 records: RemoteDisconnected"),
    ],
)
def test_rejected_requests_fail_the_job(service, answers, settings, expected):
    service.answers = list(answers)
    with pytest.raises(SinkError, match=expected):
        post(service.url, [1, 2], **settings)
    assert service.bodies == []


class FailsOnce(MapFunction):
    def __init__(self, marker):
        self.marker = marker

    def map(self, value):
        if value == 15 and not self.marker.exists():
            self.marker.touch()
            raise RuntimeError("once")
        return value


def test_every_record_at_least_once_after_a_failure(service, tmp_path):
    env = in_process(
        **{
            "execution_checkpointing_interval": "10 ms",
            "restart-strategy_type": "fixed-delay",
            "restart-strategy_fixed-delay_attempts": "1",
            "restart-strategy_fixed-delay_delay": "1 ms",
        }
    )
    numbers = env.from_collection(list(range(20)), Types.LONG())
    failing = numbers.map(FailsOnce(tmp_path / "failed"), Types.LONG())
    failing.sink_to(HttpSink(service.url, batch_size=3))
    env.execute()
    assert {n for body in service.bodies for n in json.loads(body)} == set(range(20))


def test_the_error_names_a_type_without_json(service):
    with pytest.raises(FormatError, match="bytes is not JSON serializable; map the records") as e:
        post(service.url, [b"x"])
    assert f"It was to be written to {service.url}." in e.value.__notes__


def test_user_and_password_are_sent_and_not_shown(service):
    url = service.url.replace("://", "://me:se%20cret@")
    post(url, [1])
    assert service.seen[0][1]["Authorization"] == "Basic bWU6c2UgY3JldA=="
    service.answers = [400]
    with pytest.raises(SinkError, match="does not accept 1 records") as failure:
        post(url, [1])
    assert "cret" not in str(failure.value)


def test_a_body_that_is_no_bytes_is_named(service):
    with pytest.raises(SinkError, match="must return bytes, got 'text', for http"):
        post(service.url, [1], encode=lambda elements: "text")


@pytest.mark.parametrize(
    ("arguments", "settings", "expected"),
    [
        (("ftp://x",), {}, "takes a URL of http or https, as http://host:8080/path, got 'ftp://x'"),
        (("http://",), {}, "takes a URL of http or https"),
        (("http://x",), {"batch_size": 0}, "batch_size is at least 1, got 0"),
        (("http://x",), {"max_retries": -1}, "max_retries is at least 0, got -1"),
    ],
)
def test_wrong_arguments_are_refused(arguments, settings, expected):
    with pytest.raises(InvalidProgramError, match=expected):
        HttpSink(*arguments, **settings)

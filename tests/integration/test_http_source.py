"""HttpSource against a real server on loopback."""

import http.server
import json
import socket
import threading
from urllib.parse import parse_qs, urlsplit

import pytest
from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream.connectors.http import HttpSource
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.errors import FormatError, InvalidProgramError, SourceError
from support.environments import in_process

PAIR = Types.ROW_NAMED(["id", "text"], [Types.LONG(), Types.STRING()])


class Service(http.server.BaseHTTPRequestHandler):
    """Serves items with ids from 1, three per answer; sends scripted answers first."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        status = server.answers.pop(0) if server.answers else 200
        if status == 0:
            self.close_connection = True
            return
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        server.seen.append(self.path)
        server.headers = self.headers
        after = int(query.get("after", ["0"])[0])
        there = [{"id": n, "text": f"t{n}"} for n in range(1, server.count + 1)]
        page = [element for element in there if element["id"] > after][:3]
        if parts.path == "/lines":
            body = "".join(json.dumps(element) + "\n" for element in page).encode()
        elif parts.path == "/object":
            following = page[-1]["id"] if len(page) == 3 else None
            body = json.dumps({"items": page, "next": following}).encode()
        elif parts.path == "/all":
            body = json.dumps(there).encode()
        elif parts.path == "/broken":
            body = b'[{"id": 1'
        else:
            body = json.dumps(page).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        server.daemon_threads = True
        server.answers, server.seen, server.count = [], [], 8
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def read(url, **settings):
    source = HttpSource(url, bounded=True, interval_ms=1, retry_delay_ms=1, **settings)
    stream = in_process(2).from_source(source, WatermarkStrategy.no_watermarks(), "http")
    with stream.execute_and_collect() as results:
        return list(results)


def ids(elements):
    return [element["id"] for element in elements]


BY_ID = {"cursor_parameter": "after", "cursor": "id"}
BY_NEXT = {"cursor_parameter": "after", "cursor": lambda answer: answer["next"], "records": "items"}


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("/", BY_ID),
        ("/?sort=id", BY_ID),
        ("/lines", BY_ID | {"lines": True}),
        ("/object", BY_NEXT),
        ("/all", {}),
    ],
)
def test_all_records_once(service, path, settings):
    assert ids(read(service.url + path, **settings)) == list(range(1, 9))


def test_the_cursor_is_a_parameter(service):
    read(service.url + "/?sort=id", **BY_ID)
    assert service.seen == [
        "/?sort=id",
        "/?sort=id&after=3",
        "/?sort=id&after=6",
        "/?sort=id&after=8",
    ]


def test_a_schema_makes_rows(service):
    schema = JsonRowDeserializationSchema.builder().type_info(PAIR).build()
    service.count = 1
    assert read(service.url, schema=schema, **BY_ID) == [Row(id=1, text="t1")]


def test_a_header_replaces_the_source_s_own_however_it_is_spelt(service):
    read(service.url + "/lines", lines=True, headers={"accept": "application/x-ndjson"}, **BY_ID)
    assert service.headers.get_all("Accept") == ["application/x-ndjson"]


def test_repetitions_follow_after_twice_as_long(service, caplog):
    service.answers = [503] * 3
    source = HttpSource(service.url + "/all", bounded=True, interval_ms=1, retry_delay_ms=3)
    stream = in_process().from_source(source, WatermarkStrategy.no_watermarks(), "http")
    with stream.execute_and_collect() as results:
        assert len(list(results)) == 8
    told = [record.getMessage() for record in caplog.records if "retrying" in record.message]
    assert [text.rpartition("retrying ")[2] for text in told] == [
        "in 3 ms",
        "in 6 ms",
        "in 12 ms",
    ]


def test_a_service_that_says_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = "http://{}:{}".format(*server.getsockname())
        with pytest.raises(SourceError, match="does not respond as expected: TimeoutError"):
            read(url, timeout_ms=50, max_retries=0)


@pytest.mark.parametrize("answers", [[503, 429], [0], [0, 500, 0]])
def test_temporary_failures_are_retried(service, answers):
    service.answers = answers
    assert ids(read(service.url, **BY_ID)) == list(range(1, 9))


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([404], "does not respond as expected: 404"),
        ([302], "does not respond as expected: 302"),  # the client follows no redirection
        ([503] * 4, "does not respond as expected: 503"),
    ],
)
def test_permanent_failures_fail_the_job(service, answers, said):
    service.answers = answers
    with pytest.raises(SourceError, match=said):
        read(service.url, **BY_ID)


@pytest.mark.parametrize(
    ("path", "settings"),
    [("/broken", {}), ("/object", {}), ("/", {"records": "items"}), ("/", BY_ID | {"cursor": "x"})],
)
def test_an_answer_that_is_not_what_it_should_be_is_shown(service, path, settings):
    with pytest.raises(FormatError, match=r"the response of http.* it begins with"):
        read(service.url + path, **settings)


@pytest.mark.parametrize(("path", "settings"), [("/", BY_ID), ("/object", BY_NEXT), ("/all", {})])
def test_later_records_are_found(service, path, settings):
    service.count = 1
    source = HttpSource(service.url + path, interval_ms=1, **settings)
    stream = in_process().from_source(source, WatermarkStrategy.no_watermarks(), "http")
    found = []
    with stream.execute_and_collect() as results:
        for element in results:
            found.append(element["id"])
            service.count += 1
            if len(found) == 10:
                break
    assert found == list(range(1, 11))


def test_a_service_that_forgets_is_an_error(service):
    source = HttpSource(service.url + "/all", interval_ms=1)
    stream = in_process().from_source(source, WatermarkStrategy.no_watermarks(), "http")
    with pytest.raises(SourceError, match="but 8 were read before"):
        for _ in stream.execute_and_collect():
            service.count = 2


def test_wrong_arguments_are_refused():
    for wrong, said in [
        ({"url": "ftp://x"}, "http or https"),
        ({"interval_ms": 0}, "at least 1"),
        ({"cursor": "id"}, "together"),
        ({"lines": True, "records": "x"}, "not both"),
        ({"schema": 1}, "DeserializationSchema"),
    ]:
        with pytest.raises(InvalidProgramError, match=said):
            HttpSource(**{"url": "http://x"} | wrong)


def test_user_and_password_are_sent_and_not_shown(service):
    service.answers = [404]
    url = service.url.replace("://", "://me:se%20cret@")
    with pytest.raises(SourceError, match="does not respond as expected") as failure:
        read(url + "/all", headers={"X-Key": "k"})
    assert "cret" not in str(failure.value)
    assert ids(read(url + "/all#part", headers={"X-Key": "k"})) == list(range(1, 9))
    assert set(service.seen) == {"/all"}
    assert service.headers["Authorization"] == "Basic bWU6c2UgY3JldA=="
    assert service.headers["X-Key"] == "k"


def test_the_error_of_an_undecodable_answer_names_its_url(service):
    wrong = Types.ROW_NAMED(["text"], [Types.LONG()])
    schema = JsonRowDeserializationSchema.builder().type_info(wrong).build()
    with pytest.raises(FormatError, match="the field 'text'") as failure:
        read(service.url + "/all", schema=schema)
    assert f"the response of {service.url}/all" in "".join(failure.value.__notes__)

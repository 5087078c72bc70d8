"""The REST interface in use: how it shows failures and ends, and what strangers cannot do."""

import json
import logging
import random
import re
import socket
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from integration.test_rest_contract import ANSWERS, differences
from penstock import rest
from penstock.common import Types
from penstock.common.options.check import check_options
from penstock.errors import ConfigurationError, JobCancelledError
from penstock.rest.routes import ENDPOINTS
from penstock.rest.run_files import running_clusters
from support.patience import PATIENCE_S
from support.rest_client import Client, FailsOnce, UntilMarked, environment, running_job

#: Threads that were there before the test.
_others: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def run_directory(tmp_path, monkeypatch):
    _others.clear()
    _others.update(threading.enumerate())
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    return tmp_path / "run"


def nothing_listens(client: Client) -> None:
    host, port = client.url.removeprefix("http://").split(":")
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)), timeout=5).close()
    assert not [one for one in threading.enumerate() if one.name == "rest" and one not in _others]


@pytest.mark.parametrize(("target", "runtime"), [("local", "pure"), ("in-process", "native")])
def test_cancelling_ends_the_job_and_the_interface(
    target, runtime, tmp_path, monkeypatch, run_directory
):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    job, client, job_id = running_job(tmp_path / "stop", **{"execution.target": target})
    assert client.get("/overview")["jobs-running"] == 1
    assert client.ask(f"/jobs/{job_id}?mode=cancel", "PATCH") == (202, {})
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()
    nothing_listens(client)
    assert running_clusters() == []
    assert not run_directory.exists()


def test_a_stopped_job_tells_where_its_savepoint_is(tmp_path):
    """The interface outlives the job until the client has received the result of its request."""
    options = {"execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")}
    job, client, job_id = running_job(tmp_path / "stop", **options)
    status, trigger = client.ask(f"/jobs/{job_id}/stop", "POST", {"drain": True})
    assert status == 202
    done = client.until(
        f"/jobs/{job_id}/savepoints/{trigger['request-id']}",
        lambda found: found["status"]["id"] == "COMPLETED",
    )
    job.get_job_execution_result().result()
    assert Path(done["operation"]["location"], "_metadata").exists()
    nothing_listens(client)


def test_a_savepoint_that_cannot_be_taken_is_a_failure_with_its_cause(tmp_path):
    job, client, job_id = running_job(tmp_path / "stop")
    status, found = client.ask(f"/jobs/{job_id}/savepoints", "POST", {})
    assert status == 400
    assert "execution.checkpointing.savepoint-dir" in found["errors"][0]
    (tmp_path / "file").touch()
    where = {"target-directory": str(tmp_path / "file" / "below")}
    _, trigger = client.ask(f"/jobs/{job_id}/savepoints", "POST", where)
    done = client.until(
        f"/jobs/{job_id}/savepoints/{trigger['request-id']}",
        lambda found: found["status"]["id"] == "COMPLETED",
    )
    assert "CheckpointError" in done["operation"]["failure-cause"]["class"]
    assert client.get(f"/jobs/{job_id}/status") == {"status": "RUNNING"}
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_a_repeated_failure_is_marked(caplog):
    env = environment(
        **{
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "1 ms",
            "restart-strategy.fixed-delay.attempts": "1000000",
        }
    )

    def poisoned(value):
        raise ArithmeticError(f"{object()} is not a number: {value}")

    env.from_collection([7], Types.LONG()).map(poisoned).name("Parse").print()
    job = env.execute_async("poisoned")
    client = Client.of_last_cluster()
    found = client.until(
        f"/jobs/{job.get_job_id()}/exceptions",
        lambda found: len(found["exceptionHistory"]["entries"]) >= 4,
    )
    job.cancel().result()
    newest, before = found["exceptionHistory"]["entries"][:2]
    counts = [
        re.fullmatch(
            r"failed (\d+) times at the same place with the same error",
            entry["failureLabels"]["repeated"],
        )[1]
        for entry in (newest, before)
    ]
    assert int(counts[0]) == int(counts[1]) + 1 >= 4
    told = [message for message in caplog.messages if "times at the same place" in message]
    assert told[0].startswith("job poisoned failed 3 times at the same place with the same error")
    assert "in Parse" in told[0]


def test_failures_are_shown_with_their_tracebacks(tmp_path):
    env = environment(**{"restart-strategy.type": "fixed-delay"})
    stream = env.add_source(UntilMarked(tmp_path / "stop"), type_info=Types.LONG())
    stream.map(FailsOnce(tmp_path / "failed"), Types.LONG()).name("Fails").print()
    job = env.execute_async("failing")
    client = Client.of_last_cluster()
    path = f"/jobs/{job.get_job_id()}"
    history = client.until(f"{path}/exceptions", lambda found: found["exceptionHistory"]["entries"])
    assert differences(ANSWERS["/jobs/{jobid}/exceptions"], history) == []
    entry = history["exceptionHistory"]["entries"][0]
    assert entry["exceptionName"] == "builtins.ArithmeticError"
    assert "raise ArithmeticError" in entry["stacktrace"]
    assert "Fails" in entry["taskName"]
    found = client.until(path, lambda job: all(v["status"] == "RUNNING" for v in job["vertices"]))
    vertex = found["vertices"][0]["id"]
    assert client.get(f"{path}/vertices/{vertex}/subtasks/0")["attempt"] == 1
    first = client.get(f"{path}/vertices/{vertex}/subtasks/0/attempts/0")
    assert first["status"] == "FAILED"
    assert first["end-time"] >= first["start-time"] > 0
    assert client.get(f"{path}/metrics?get=numRestarts") == [{"id": "numRestarts", "value": "1"}]
    assert client.get(f"{path}/exceptions?maxExceptions=0")["exceptionHistory"] == {
        "entries": [],
        "truncated": True,
    }
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_requests_without_the_token_learn_nothing(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "penstock.rest.server"):
        job, client, job_id = running_job(tmp_path / "stop")
    token = client.token
    assert f"{client.url}/?token={token}" in caplog.text
    for wrong in (None, "", token[:-1], token + "0", "é", "x" * 5000):
        client.token = wrong
        if wrong == "é":
            continue  # cannot be sent as a header at all
        for path in ("/overview", f"/jobs/{job_id}", "/nonsense"):
            assert client.ask(path)[0] == 401
        assert client.ask(f"/jobs/{job_id}", "PATCH")[0] == 401
        assert client.ask(f"/jobs/{job_id}/stop", "POST", {})[0] == 401
    client.token = None
    assert client.ask("/overview?token=nope")[0] == 401
    assert client.ask(f"/overview?token={token}")[0] == 200
    assert client.ask("/metrics", prefix="")[0] == 401
    assert client.ask("/openapi.json", prefix="")[0] == 401
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_an_open_interface_answers_to_its_own_names_only(tmp_path):
    """A web page whose name was made to resolve to this address is rejected."""
    job, client, job_id = running_job(tmp_path / "stop", **{"rest.authentication": "none"})
    assert client.token is None
    assert client.get("/overview")
    assert client.ask("/overview", headers={"Host": "evil.example:80"})[0] == 403
    assert client.ask("/overview", headers={"Host": "localhost:1"})[0] == 200
    assert client.ask("/overview", headers={"Host": "[::1]:1"})[0] == 200
    # Requests that a page may send without a preflight are rejected.
    plain = {"Content-Type": "text/plain"}
    assert client.ask(f"/jobs/{job_id}/stop", "POST", b'{"drain":false}', plain)[0] == 415
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://x.example"}
    assert client.ask(f"/jobs/{job_id}/stop", "POST", b'{"drain":false}', form)[0] == 415
    status, _ = client.ask("/overview", "OPTIONS", headers={"Origin": "http://evil.example"})
    assert status == 405
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_read_only_means_read_only(tmp_path):
    options = {
        "rest.read-only": "true",
        "execution.checkpointing.interval": "1 h",
        "pipeline.vertex-description-mode": "CASCADING",
        "pipeline.vertex-name-include-index-prefix": "true",
    }
    job, client, job_id = running_job(tmp_path / "stop", **options)
    assert client.get("/config")["features"]["web-cancel"] is False
    assert client.get("/config")["features"]["web-rescale"] is False
    # Defaults are shown with their values.
    found = client.get(f"/jobs/{job_id}/config")["execution-config"]
    assert found["restart-strategy"] == "exponential-delay"
    detail = client.get(f"/jobs/{job_id}")
    names = [vertex["name"] for vertex in detail["vertices"]]
    assert [name.partition("]")[0] for name in names] == ["[vertex-0", "[vertex-1", "[vertex-2"]
    assert not any("<br/>" in node["description"] for node in detail["plan"]["nodes"])
    for endpoint in ENDPOINTS:
        if endpoint.changes:
            path = endpoint.path.format(jobid=job_id)
            status, found = client.ask(path, endpoint.method, {} if endpoint.body else None)
            assert status == 403
            assert "rest.read-only" in found["errors"][0]
    assert client.get(f"/jobs/{job_id}/status") == {"status": "RUNNING"}
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def raw(client, data, *, wait=True):
    """Send bytes; return the answer until the server closes the connection."""
    host, port = client.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as sock:
        sock.sendall(data)
        received = b""
        while wait and (part := sock.recv(65536)):
            received += part
        return received


def test_hostile_requests_leave_the_job_alone(tmp_path, monkeypatch, caplog):
    """Oversized, malformed, unfinished and random requests; other clients are answered."""
    monkeypatch.setattr("penstock.rest.http_server.REQUEST_TIMEOUT_S", 5.0)
    options = {"rest.token": "0123456789abcdef0123", "rest.server.max-content-length": "2 kb"}
    job, client, job_id = running_job(tmp_path / "stop", **options)
    assert client.token == "0123456789abcdef0123"
    stop = f"/jobs/{job_id}/stop"
    authorized = f"Authorization: Bearer {client.token}\r\n"
    post = f"POST /v1{stop} HTTP/1.1\r\nHost: x\r\n{authorized}Content-Type: application/json\r\n"
    # A body that is too long, announced or not.
    assert client.ask(stop, "POST", b" " * 4096)[0] == 413
    chunked = f"{post}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n1000\r\n"
    assert b" 413 " in raw(client, chunked.encode() + b" " * 4096 + b"\r\n0\r\n\r\n")
    for length in ("-1", "x", "9" * 50):
        answer = raw(client, f"{post}Content-Length: {length}\r\n\r\n".encode())
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 413"))
    # A body that the client gives up, which is no defect of the server.
    raw(client, f"{post}Content-Length: 100\r\n\r\n{{".encode(), wait=False)
    # Headers without end, and data that is not HTTP.
    assert b" 400 " in raw(client, b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000)
    assert b" 400 " in raw(client, b"\x16\x03\x01\x02\x00" + bytes(500))
    # Paths that lead out of their folder.
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/jobs/..%2f"):
        for prefix in ("", "/v1"):
            status, found = client.ask(path, prefix=prefix)
            assert (status in (400, 404), list(found)) == (True, ["errors"])
    deep = b"[" * 1500
    assert client.ask(stop, "POST", deep)[0] == 400
    # A client that falls silent is disconnected, and holds up no other meanwhile.
    slow = socket.create_connection(
        client.url.removeprefix("http://").split(":"), timeout=PATIENCE_S
    )
    slow.sendall(b"GET /v1/overview HTTP/1.1\r\nHost: x\r\n")
    assert client.get("/overview")
    fuzz(client, job_id, random.Random(7))
    assert slow.recv(100) == b""
    slow.close()
    assert client.get(f"/jobs/{job_id}/status") == {"status": "RUNNING"}
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()
    assert [record.message for record in caplog.records if "failed" in record.message] == []


def fuzz(client, job_id, rng):
    """Send random paths, parameters and bodies: each gets an answer, none a server error."""
    parts = [job_id, "0" * 32, "x", "-1", "9" * 30, "%00", "é".encode().hex(), "a" * 300, "."]
    values = [None, True, 1, -1.5, "x", "a" * 100, [], {}, [[]], {"a": {}}, "\ud800", "\0"]
    for endpoint in ENDPOINTS:
        for _ in range(4):
            path = endpoint.path
            while "{" in path:
                start, end = path.index("{"), path.index("}")
                path = path[:start] + rng.choice(parts) + path[end + 1 :]
            names = [*endpoint.query, "get", "agg", "x"]
            query = "&".join(f"{rng.choice(names)}={rng.choice(parts)}" for _ in range(3))
            body = None
            if endpoint.changes:
                # Requests to cancel and stop are only sent for other jobs.
                path = path.replace(job_id, "0" * 32)
                fields = [*(field for field, _ in endpoint.body), "x"]
                body = json.dumps({rng.choice(fields): rng.choice(values) for _ in range(2)})
                body = body.encode()
            status, found = client.ask(f"{path}?{query}", endpoint.method, body)
            assert status < 500 or status == 501, (endpoint, path, query, body, found)


def test_ports_of_a_range_are_tried_in_turn(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        env = environment(**{"rest.bind-port": str(port)})
        env.from_collection([1]).print()
        with pytest.raises(ConfigurationError, match=r"rest\.bind-port: none of 1 ports"):
            env.execute()
        options = {"rest.bind-port": f"{port},0"}
        job, client, _ = running_job(tmp_path / "stop", **options)
        assert client.url != f"http://127.0.0.1:{port}"
        (tmp_path / "stop").touch()
        job.get_job_execution_result().result()


@pytest.mark.parametrize(
    "options",
    [
        {"rest.port": "x"},
        {"rest.port": "70000"},
        {"rest.bind-port": "20-10"},
        {"rest.authentication": "password"},
        {"rest.read-only": "maybe"},
    ],
)
def test_invalid_options_are_rejected(options):
    with pytest.raises(ConfigurationError, match=next(iter(options)).replace(".", r"\.")):
        check_options(options)


def test_a_token_that_can_be_guessed_is_refused():
    env = environment(**{"rest.token": "short"})
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"rest\.token must have at least 16"):
        env.execute()


def test_secrets_are_not_shown(tmp_path):
    options = {"rest.token": "0123456789abcdef0123", "s3.access-key": "me", "s3.secret-key": "hush"}
    job, client, job_id = running_job(tmp_path / "stop", **options)
    for path in ("/jobmanager/config", f"/jobs/{job_id}/jobmanager/config"):
        shown = {one["key"]: one["value"] for one in client.get(path)}
        assert shown["rest.token"] == shown["s3.secret-key"] == "******"
        assert shown["rest.bind-port"] == "0"
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_pictures_are_shared_by_those_who_ask(tmp_path, monkeypatch):
    """However many ask, the main thread is interrupted at most ten times a second."""
    from penstock.jobmaster.cluster_gateway import ClusterGateway

    taken = []
    original = ClusterGateway._take

    def counted(self):
        taken.append(time.monotonic())
        return original(self)

    monkeypatch.setattr(ClusterGateway, "_take", counted)
    job, client, _ = running_job(tmp_path / "stop")
    taken.clear()
    began_s = time.monotonic()
    for _ in range(200):
        client.get("/overview")
    assert len(taken) <= (time.monotonic() - began_s) / 0.1 + 2
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_the_page_needs_no_token_and_its_data_do(tmp_path):
    job, client, _ = running_job(tmp_path / "stop")
    client.token = None
    folder = Path(rest.__file__).with_name("page")
    names = sorted(path.name for path in folder.iterdir())
    assert {"index.html", "app.js", "page.css"} <= set(names)
    for name in names:
        path = "/" if name == "index.html" else f"/page/{name}"
        assert client.ask(path, prefix="") == (200, (folder / name).read_bytes())
    assert client.ask("/", "POST", {}, prefix="")[0] == 401
    assert client.ask("/page/app.js/../../metrics", prefix="")[0] == 401
    assert client.ask("/page/../server.py", prefix="")[0] == 401
    assert client.ask("/overview")[0] == 401
    with urllib.request.urlopen(client.url + "/", timeout=PATIENCE_S) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()

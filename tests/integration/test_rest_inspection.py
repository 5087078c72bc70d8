"""Processes, in-flight data and changes in the REST interface."""

import contextlib
import http.client
import json
import logging
import os
import re
import signal
import threading

import pytest
from penstock.common import Types
from penstock.datastream import MapFunction
from support.patience import PATIENCE_S
from support.rest_client import Client, UntilMarked, environment, running_job


@pytest.fixture(autouse=True)
def run_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))


def end(job, tmp_path):
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


FLAME = {
    "rest.flamegraph.enabled": "true",
    "rest.flamegraph.num-samples": "10",
    "rest.flamegraph.delay-between-samples": "5 ms",
}


@pytest.mark.parametrize(
    ("target", "runtime"), [("local", "native"), ("local", "pure"), ("in-process", "native")]
)
def test_tasks_are_looked_at_while_they_run(target, runtime, tmp_path, monkeypatch):
    """Threads, records on an edge, and flame graphs, on both targets and runtimes."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    options = {"execution.target": target, **FLAME}
    job, client, job_id = running_job(tmp_path / "stop", **options)
    path = f"/jobs/{job_id}"
    vertices = client.get(path)["vertices"]
    name = vertices[1]["name"]
    threads = [
        one["stringifiedThreadInfo"]
        for worker in client.get("/taskmanagers")["taskmanagers"]
        for one in client.get(f"/taskmanagers/{worker['id']}/thread-dump")["threadInfos"]
    ]
    assert any(f'"{name} (1/2)"' in text and "_run_to_terminal_state" in text for text in threads)

    at = f"{path}/vertices/{vertices[1]['id']}"
    found = client.get(f"{at}/records?count=3")
    assert [one["subtask"] for one in found["subtasks"]] == [0, 1]
    for one in found["subtasks"]:
        numbers = [int(record["text"]) for record in one["records"]]
        assert len(numbers) == 3
        assert numbers == sorted(numbers)
        assert all(record["timestamp"] is None for record in one["records"])
    # The operators have their input back: the job continues, and another client may inspect it.
    again = client.get(f"{at}/records?subtask=1&count=1")
    assert [len(one["records"]) for one in again["subtasks"]] == [1]
    source = f"{path}/vertices/{vertices[0]['id']}"
    assert client.ask(f"{source}/records")[0] == 400  # no edge leads to a source
    for wrong in ("edge=1", "edge=x", "count=101", "subtask=2", "count=-1"):
        assert client.ask(f"{at}/records?{wrong}")[0] == 400, wrong

    shown = client.until(f"{at}/flamegraph", lambda found: found["endTimestamp"] > 0)
    graph = shown["data"]
    assert graph["name"] == "root"
    assert graph["value"] >= 10
    assert "process_input" in json.dumps(graph)
    if runtime == "native":
        assert "note" not in shown
        assert "StreamInputProcessor.process_next (input_processor)" in json.dumps(graph)
    else:
        assert "PENSTOCK_RUNTIME=pure" in shown["note"]
        assert " (" not in json.dumps(graph)
    on, off = (
        client.get(f"{at}/flamegraph?type={kind}")["data"]["value"]
        for kind in ("on_cpu", "OFF_CPU")
    )
    assert on + off == graph["value"]
    assert client.ask(f"{at}/flamegraph?type=x")[0] == 400
    # A source whose function has its own thread is sampled in that thread, too.
    sampled = client.until(f"{source}/flamegraph", lambda found: found["endTimestamp"] > 0)
    assert "UntilMarked.run" in json.dumps(sampled)
    end(job, tmp_path)


def test_native_functions_are_left_out_where_that_is_asked_for(tmp_path):
    options = {**FLAME, "penstock.rest.flamegraph-native-functions": "false"}
    job, client, job_id = running_job(tmp_path / "stop", **options)
    vertex = client.get(f"/jobs/{job_id}")["vertices"][1]["id"]
    path = f"/jobs/{job_id}/vertices/{vertex}/flamegraph"
    shown = client.until(path, lambda found: found["endTimestamp"] > 0)
    assert "process_input" in json.dumps(shown)
    assert " (" not in json.dumps(shown)
    assert "note" not in shown
    end(job, tmp_path)


def test_records_are_redacted_and_refused_by_option(tmp_path):
    options = {"penstock.rest.record-samples": "TYPES"}
    job, client, job_id = running_job(tmp_path / "stop", **options)
    vertex = client.get(f"/jobs/{job_id}")["vertices"][1]["id"]
    path = f"/jobs/{job_id}/vertices/{vertex}"
    found = client.get(f"{path}/records?count=2&subtask=0")
    assert found["redacted"] is True
    assert [one["text"] for one in found["subtasks"][0]["records"]] == ["int", "int"]
    assert client.get(f"{path}/flamegraph") == {"endTimestamp": -2}  # off
    end(job, tmp_path)
    (tmp_path / "stop").unlink()
    job, client, job_id = running_job(tmp_path / "stop", **{"penstock.rest.record-samples": "OFF"})
    vertex = client.get(f"/jobs/{job_id}")["vertices"][1]["id"]
    status, found = client.ask(f"/jobs/{job_id}/vertices/{vertex}/records")
    assert (status, "penstock.rest.record-samples" in found["errors"][0]) == (403, True)
    end(job, tmp_path)


class Speaks(MapFunction):
    def __init__(self, path):
        self.path = path

    def map(self, value):
        if not self.path.exists():
            self.path.touch()
            logging.getLogger("shop").warning("out of %s", "apples")
        return value


def test_logs_of_workers_and_driver(tmp_path):
    env = environment()
    stream = env.add_source(UntilMarked(tmp_path / "stop"), type_info=Types.LONG()).rebalance()
    stream.map(Speaks(tmp_path / "spoken"), Types.LONG()).name("Speaks").print()
    job = env.execute_async("logging")
    client = Client.of_last_cluster()
    workers = client.until("/taskmanagers", lambda found: found["taskmanagers"])["taskmanagers"]
    path = f"/taskmanagers/{workers[0]['id']}"
    client.until(f"{path}/log", lambda text: b"out of apples" in text)
    text = client.get(f"{path}/log").decode()
    assert "WARNING" in text
    assert "Speaks" in text
    logs = client.get(f"{path}/logs")["logs"]
    assert logs == [{"name": "taskmanager.log", "size": len(text), "mtime": logs[0]["mtime"]}]
    assert client.get(f"{path}/logs/taskmanager.log").decode() == text
    assert client.get(f"{path}/log?since={len(text)}") == b""
    assert client.ask(f"{path}/log?since=x")[0] == 400
    logging.getLogger("program").warning("I am the driver")
    assert b"I am the driver" in client.get("/jobmanager/log")
    assert b"out of apples" not in client.get("/jobmanager/log")
    assert [one["name"] for one in client.get("/jobmanager/logs")["logs"]] == ["jobmanager.log"]
    for place in (path, "/jobmanager"):
        for name in ("..%2f..%2fetc%2fpasswd", "%2e%2e", "/etc/passwd", "../../etc/passwd",
                     "x", "%00", "....//etc/passwd"):  # fmt: skip
            status, found = client.ask(f"{place}/logs/{name}")
            assert (status, list(found)) == (404, ["errors"]), name
        status, found = client.ask(f"{place}/stdout")
        assert (status, "standard output" in found["errors"][0]) == (404, True)
    assert client.ask("/taskmanagers/nobody/log")[0] == 404
    end(job, tmp_path)
    assert not [h for h in logging.getLogger().handlers if type(h).__name__ == "DriverLog"]


class DiesWhenTold(MapFunction):
    def __init__(self, path):
        self.path = path

    def map(self, value):
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return value


def test_the_log_of_a_killed_worker_stays_readable(tmp_path):
    restarts = {
        "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "10 ms",
    }  # fmt: skip
    env = environment(**restarts)
    stream = env.add_source(UntilMarked(tmp_path / "stop"), type_info=Types.LONG())
    stream = stream.map(Speaks(tmp_path / "spoken"), Types.LONG())
    stream.map(DiesWhenTold(tmp_path / "die"), Types.LONG()).print()
    job = env.execute_async("dying")
    client = Client.of_last_cluster()
    killed = client.until("/taskmanagers", lambda found: found["taskmanagers"])["taskmanagers"][0]
    path = f"/taskmanagers/{killed['id']}"
    client.until(f"{path}/log", lambda text: b"out of apples" in text)
    (tmp_path / "die").touch()
    found = client.until("/taskmanagers", lambda found: found["lost"] and found["taskmanagers"])
    assert found["lost"] == [killed["id"]]
    assert killed["id"] not in {worker["id"] for worker in found["taskmanagers"]}
    assert re.search(rb"out of apples.* is lost: .*signal 9", client.get(f"{path}/log"), re.DOTALL)
    assert client.get(f"{path}/logs/taskmanager.log") == client.get(f"{path}/log")
    assert client.get(f"{path}/logs")["logs"][0]["size"] > 0
    assert client.ask(path)[0] == 404
    end(job, tmp_path)


def events(client, job_id):
    """Yield server-sent events as they arrive: (name, data)."""
    host, port = client.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    connection.request(
        "GET", f"/v1/events?job={job_id}", headers={"Authorization": f"Bearer {client.token}"}
    )
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    name = "message"
    try:
        while line := answer.readline().decode():
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                yield name, json.loads(line[6:])
                name = "message"
    finally:
        connection.close()


def test_updates_arrive_until_the_job_ends(tmp_path):
    options = {"web.refresh-interval": "100 ms"}
    job, client, job_id = running_job(tmp_path / "stop", **options)
    feed = events(client, job_id)
    pictures = []
    for name, picture in feed:
        assert name == "message"
        pictures.append(picture)
        if all(v["in-rate"] or v["out-rate"] for v in picture["job"]["vertices"]):
            break
    source, mapper, largest = pictures[-1]["job"]["vertices"]
    assert [v["status"] for v in (source, mapper, largest)] == ["RUNNING"] * 3
    assert mapper["tasks"] == {"RUNNING": 2}
    assert 0 <= mapper["busy"] <= 1
    assert mapper["level"] == "ok"
    assert mapper["skew"] < 100
    assert source["skew"] is None
    assert pictures[-1]["cluster"]["jobs-running"] == 1
    end(job, tmp_path)
    rest = list(feed)
    assert rest[-1] == ("end", {})
    assert rest[-2][1]["job"]["state"] == "FINISHED"
    assert client.token is not None


def test_the_second_update_follows_soon(tmp_path):
    job, client, job_id = running_job(tmp_path / "stop", **{"web.refresh-interval": "1 h"})
    feed = events(client, job_id)
    first, second = next(feed)[1], next(feed)[1]
    assert first["now"] < second["now"]
    feed.close()
    end(job, tmp_path)


def test_a_hundred_watchers_share_one_update(tmp_path, monkeypatch):
    """However many watch, the picture is built once for each turn."""
    from penstock.rest import live

    made = []
    original = live.picture

    def counted(call):
        made.append(call)
        return original(call)

    monkeypatch.setattr(live, "picture", counted)
    # So many turns take 50 s, in which each hears three times.
    job, client, job_id = running_job(tmp_path / "stop", **{"web.refresh-interval": "500 ms"})
    told = threading.Barrier(101)
    problems = []

    def watch():
        try:
            feed = events(client, job_id)
            assert next(feed)[1]["job"]["jid"] == job_id
            told.wait(PATIENCE_S)
            seen = [next(feed)[1]["now"] for _ in range(3)]
            assert seen == sorted(seen)
            feed.close()
        except BaseException as error:
            problems.append(error)
            told.abort()

    threads = [threading.Thread(target=watch) for _ in range(100)]
    for thread in threads:
        thread.start()
    told.wait(PATIENCE_S)
    assert client.get(f"/jobs/{job_id}/status") == {"status": "RUNNING"}
    before = len(made)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert problems == []
    assert len(made) - before < 100
    end(job, tmp_path)


def test_a_client_that_reads_nothing_holds_nobody_up(tmp_path):
    job, client, job_id = running_job(tmp_path / "stop", **{"web.refresh-interval": "100 ms"})
    stuck = events(client, job_id)
    next(stuck)  # and not a byte more
    other = events(client, job_id)
    for _ in range(5):
        next(other)
    assert client.ask("/events", headers={"Authorization": "Bearer nope"})[0] == 401
    end(job, tmp_path)
    stuck.close()

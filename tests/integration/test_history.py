"""Finished jobs are archived, and a history server shows them as their cluster did."""

import json
import shutil
import signal
import subprocess
import sys
import urllib.request

import pytest
from integration.test_rest_contract import ANSWERS, differences
from penstock.common import Types
from penstock.datastream import MapFunction
from penstock.errors import ConfigurationError
from penstock.rest.history import HistoryServer
from support.patience import PATIENCE_S
from support.rest_client import Client, environment
from support.thread_signals import signal_another_thread


class Counting(MapFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value):
        if value == 99:
            raise ArithmeticError("ninety-nine")
        return value


class Server(Client):
    """A client of a history server."""

    def __init__(self, link):
        self.url, _, self.token = link.partition("/?token=")


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives")
    jobs = {}
    for name, numbers, options in (
        ("good", range(40), {}),
        ("bad", range(90, 100), {"restart-strategy.type": "none"}),
        ("nowhere", range(3), {"jobmanager.archive.fs.dir": None}),
    ):
        settings = {
            "jobmanager.archive.fs.dir": str(folder / "jobs"),
            "parallelism.default": "2",
            "rest.bind-port": None,
            "execution.target": "in-process",
            **options,
        }
        env = environment(**{key: value for key, value in settings.items() if value is not None})
        stream = env.from_collection(list(numbers), Types.LONG()).rebalance()
        stream.map(Counting(), Types.LONG()).key_by(lambda n: n % 3).reduce(max).print()
        job = env.execute_async(name)
        jobs[name] = str(job.get_job_id())
        try:
            job.get_job_execution_result().result()
        except ArithmeticError:
            assert name == "bad"
    return folder / "jobs", jobs


@pytest.fixture(scope="module")
def shown(archives):
    folder, jobs = archives
    server = HistoryServer(
        {"historyserver.archive.fs.dir": str(folder), "historyserver.web.port": "0"}
    )
    server.start()
    yield Server(server.link), jobs
    server.close()


def test_each_ended_job_is_a_file_in_flinks_form(archives):
    folder, jobs = archives
    assert sorted(path.name for path in folder.iterdir()) == sorted([jobs["good"], jobs["bad"]])
    found = json.loads((folder / jobs["good"]).read_text())["archive"]
    assert all(set(entry) == {"path", "json"} for entry in found)
    overview = next(json.loads(one["json"]) for one in found if one["path"] == "/jobs/overview")
    assert [job["jid"] for job in overview["jobs"]] == [jobs["good"]]


def test_a_history_server_answers_as_the_cluster_did(shown):
    client, jobs = shown
    listed = {job["name"]: job for job in client.get("/jobs/overview")["jobs"]}
    assert {name: job["state"] for name, job in listed.items()} == {
        "good": "FINISHED",
        "bad": "FAILED",
    }
    assert client.get("/overview")["jobs-finished"] == 1
    path = f"/jobs/{jobs['good']}"
    job = client.get(path)
    assert differences(ANSWERS["/jobs/{jobid}"], job) == []
    vertices = {vertex["name"]: vertex for vertex in job["vertices"]}
    assert max(vertex["metrics"]["read-records"] for vertex in vertices.values()) == 40
    for vertex in vertices.values():
        at = f"{path}/vertices/{vertex['id']}"
        detail = client.get(at)
        assert [one["status"] for one in detail["subtasks"]] == ["FINISHED"] * vertex["parallelism"]
        assert client.get(f"{at}/subtasks/0/attempts/0")["status"] == "FINISHED"
    failure = client.get(f"/jobs/{jobs['bad']}/exceptions")["exceptionHistory"]["entries"][0]
    assert failure["exceptionName"] == "builtins.ArithmeticError"
    assert client.get("/config")["features"]["web-history"] is True


def test_unknown_paths_of_a_history_server(shown):
    client, jobs = shown
    assert client.ask(f"/jobs/{'0' * 32}")[0] == 404
    assert client.ask(f"/jobs/{jobs['nowhere']}")[0] == 404
    status, found = client.ask(f"/jobs/{jobs['good']}/nonsense")
    assert (status, list(found)) == (404, ["errors"])
    assert client.ask("/jobs/..%2f..%2fetc")[0] == 404
    assert client.ask(f"/jobs/{jobs['good']}?mode=cancel", "PATCH")[0] == 405
    assert Client.ask(Stranger(client.url), "/jobs/overview")[0] == 401


class Stranger(Client):
    def __init__(self, url):
        self.url, self.token = url, None


def test_archives_come_and_go_while_it_serves(archives, tmp_path):
    folder, jobs = archives
    server = HistoryServer(
        {
            "historyserver.archive.fs.dir": f"{tmp_path / 'not yet'}, {tmp_path}",
            "historyserver.archive.fs.refresh-interval": "1 ms",
            "historyserver.web.port": "0",
        }
    )
    server.start()
    try:
        client = Server(server.link)
        assert client.get("/jobs") == {"jobs": []}
        (tmp_path / ("f" * 32)).write_text("no archive")
        good = tmp_path / jobs["good"]
        good.write_bytes((folder / good.name).read_bytes())
        there = {"jobs": [{"id": good.name, "status": "FINISHED"}]}
        assert client.until("/jobs", lambda found: found["jobs"]) == there
        good.unlink()
        client.until("/jobs", lambda found: not found["jobs"])
    finally:
        server.close()


def test_the_oldest_archives_are_deleted_in_each_directory(archives, tmp_path):
    folder, jobs = archives
    folders = [tmp_path / "one", tmp_path / "two"]
    for one in folders:
        one.mkdir()
        (one / "notes.txt").write_text("nothing of a job")
        (one / ("f" * 32)).write_text("no archive")
    for name in ("good", "bad"):
        (folders[0] / jobs[name]).write_bytes((folder / jobs[name]).read_bytes())
    alone = (folder / jobs["good"]).read_text().replace(jobs["good"], "0" * 32)
    (folders[1] / ("0" * 32)).write_text(alone)
    server = HistoryServer(
        {
            "historyserver.archive.fs.dir": ",".join(map(str, folders)),
            "historyserver.archive.retained-jobs": "1",
            "historyserver.web.port": "0",
        }
    )
    server.start()
    try:
        shown = {job["id"] for job in Server(server.link).get("/jobs")["jobs"]}
    finally:
        server.close()
    # The failed job ended last.
    assert shown == {jobs["bad"], "0" * 32}
    left = [{path.name for path in one.iterdir()} for one in folders]
    assert left == [{jobs["bad"], "notes.txt", "f" * 32}, {"0" * 32, "notes.txt", "f" * 32}]


def test_a_history_server_does_not_delete_all(tmp_path):
    options = {
        "historyserver.archive.fs.dir": str(tmp_path),
        "historyserver.archive.retained-jobs": "0",
    }
    with pytest.raises(ConfigurationError, match="would delete every archive; -1 keeps all"):
        HistoryServer(options)


def test_the_command_serves_until_it_is_ended(archives):
    folder, jobs = archives
    command = ["-m", "penstock", "history-server", "--json", "-D", "historyserver.web.port=0"]
    where = f"historyserver.archive.fs.dir={folder}"
    with subprocess.Popen(
        [sys.executable, *command, "-D", where], stdout=subprocess.PIPE, text=True
    ) as process:
        client = Server(json.loads(process.stdout.readline())["url"])
        assert {job["id"] for job in client.get("/jobs")["jobs"]} == {jobs["good"], jobs["bad"]}
        with urllib.request.urlopen(client.url + "/") as page:
            assert b"page/app.js" in page.read()
        signal_another_thread(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_without_a_directory_it_does_not_start():
    with pytest.raises(ConfigurationError, match=r"historyserver\.archive\.fs\.dir"):
        HistoryServer({"historyserver.web.port": "0"})


def test_a_path_that_is_not_a_directory_is_rejected(tmp_path):
    (tmp_path / "file").touch()
    for where, words in (
        (f"{tmp_path}/file", "file is not a directory: name those"),
        ("unknown://somewhere", "no installed package supports 'unknown'"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            HistoryServer({"historyserver.archive.fs.dir": where, "historyserver.web.port": "0"})


def test_a_directory_that_is_not_there_is_named_until_it_is(archives, tmp_path, caplog):
    """An unreadable one, too; jobs that are known from it remain."""
    folder, jobs = archives
    place = tmp_path / "jobs"
    options = {
        "historyserver.archive.fs.dir": str(place),
        "historyserver.archive.fs.refresh-interval": "1 ms",
        "historyserver.web.port": "0",
    }
    server = HistoryServer(options)
    server.start()
    try:
        client = Server(server.link)
        for _ in range(3):
            assert client.get("/jobs") == {"jobs": []}
        assert [r.getMessage() for r in caplog.records if str(place) in r.getMessage()] == [
            f"the directory of archives {place} does not exist yet: it is checked at each refresh, "
            f"and a job with jobmanager.archive.fs.dir={place} creates it when it ends"
        ]
        shutil.copytree(folder, place)
        there = client.until("/jobs", lambda found: found["jobs"])
        assert {job["id"] for job in there["jobs"]} == {jobs["good"], jobs["bad"]}
        place.rename(tmp_path / "away")
        place.touch()
        words = f"the directory of archives {place} cannot be read: "
        client.until("/jobs", lambda _: words in caplog.text)
        assert client.get("/jobs") == there
        place.unlink()
        client.until("/jobs", lambda found: not found["jobs"])
    finally:
        server.close()


def test_an_archive_that_cannot_be_written_does_not_hold_up_the_job(tmp_path, caplog):
    (tmp_path / "file").touch()
    env = environment(
        **{
            "jobmanager.archive.fs.dir": str(tmp_path / "file" / "below"),
            "execution.target": "in-process",
        }
    )
    env.from_collection([1], Types.LONG()).print()
    env.execute("unarchived")
    assert "could not be archived" in caplog.text

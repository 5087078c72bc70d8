"""The commands for running jobs: Flink's verbs over the REST interface, and local clusters."""

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from penstock.command_line.main import main
from penstock.common import Types
from penstock.errors import JobCancelledError
from penstock.rest.run_files import RunFile, running_clusters
from support.commands import penstock
from support.rest_client import Client, FailsOnce, UntilMarked, environment, running_job


@pytest.fixture(autouse=True)
def run_directory(own_process, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("PENSTOCK_REST_TOKEN", raising=False)
    return tmp_path / "run"


@pytest.fixture
def watched(request, tmp_path):
    options = {
        "metrics.fetcher.update-interval": getattr(request, "param", "100 ms"),
        "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints"),
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.interval": "1 h",
    }
    job, client, job_id = running_job(tmp_path / "stop", **options)
    yield job, client, job_id
    (tmp_path / "stop").touch()
    with contextlib.suppress(JobCancelledError):
        job.get_job_execution_result().result()


def test_jobs_of_this_machine_are_found_by_another_process(watched):
    _, client, job_id = watched
    found = subprocess.run(
        [sys.executable, "-m", "penstock", "list"],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert f" : {job_id} : watched (RUNNING)" in found.stdout
    assert "No scheduled jobs." in found.stdout
    assert client.token not in found.stdout
    assert "Scheduled" not in penstock("list", "-r")
    assert "Terminated" in penstock("list", "-a")
    assert [job["jid"] for job in json.loads(penstock("list", "--json"))] == [job_id]
    assert json.loads(penstock("list", "-s", "--json")) == []


def test_a_cluster_is_named_by_its_address(watched, run_directory):
    _, client, job_id = watched
    address = client.url.removeprefix("http://")
    # The token is read from the cluster's file on this machine, or given.
    assert job_id in penstock("list", "-m", address)
    for named in ((), ("-m", address)):
        assert "rejects the token" in penstock("list", *named, "--token", "wrong", code=1)
    other = RunFile("http://127.0.0.1:9", "secret")
    other.write()
    assert "http://127.0.0.1:9 does not answer" in penstock("list", "--token", "secret", code=3)
    other.remove()
    for path in run_directory.iterdir():
        path.rename(path.with_suffix(".hidden"))
    assert "give --token" in penstock("list", "-m", address, code=1)
    assert job_id in penstock("list", "-m", client.url, "--token", client.token)
    os.environ["PENSTOCK_REST_TOKEN"] = client.token
    try:
        assert job_id in penstock("list", "-m", address.replace("127.0.0.1", "localhost"))
    finally:
        del os.environ["PENSTOCK_REST_TOKEN"]
    assert "no cluster of this user" in penstock("list", code=3)
    for path in run_directory.iterdir():
        path.rename(path.with_suffix(".json"))


def test_commands_show_a_running_job(watched):
    _, client, job_id = watched
    vertex = client.get(f"/jobs/{job_id}")["vertices"][1]["id"]
    client.until(
        f"/jobs/{job_id}/vertices/{vertex}/subtasks/metrics?get=numRecordsInPerSecond",
        lambda found: found and found[0]["sum"] > 0,
    )
    assert "Checkpoint completed. Checkpoint ID: 1" in penstock("checkpoint", "-full", job_id)
    shown = penstock("status", job_id[:12])
    assert f"watched ({job_id}): RUNNING" in shown
    assert "checkpoints: 1 completed, 0 failed" in shown
    rows = {line.split("  ")[0]: line for line in shown.splitlines()}
    assert rows["Add one"].split()[-4] == "2"
    detail = json.loads(penstock("status", "--json", job_id))
    assert detail["job"]["state"] == "RUNNING"
    table = penstock("metrics", job_id)
    assert table.splitlines()[0].split("  ")[0] == "vertex"
    assert "Add one" in table
    assert "numRecordsInPerSecond" in table.partition("Names of metrics")[2]
    by_vertex = {row["vertex"]: row for row in json.loads(penstock("metrics", "--json", job_id))}
    assert {"numRecordsIn", "mailboxLatencyMs_p99"} < {*by_vertex["Add one"]["names"]}
    named = json.loads(penstock("metrics", "--json", job_id, "numRecordsIn", "isBackPressured"))
    add_one = [one for one in named if one["vertex"] == "Add one"]
    assert {(one["subtask"], one["id"]) for one in add_one} == {
        (index, name) for index in (0, 1) for name in ("numRecordsIn", "isBackPressured")
    }


def test_metrics_are_named_by_patterns_and_by_ids_of_the_rest_interface(watched):
    _, client, job_id = watched
    vertex = client.get(f"/jobs/{job_id}")["vertices"][1]["id"]
    for index in (0, 1):
        where = f"/jobs/{job_id}/vertices/{vertex}/subtasks/{index}/metrics"
        for name in ("numRecordsIn", "numRecordsInPerSecond"):
            client.until(f"{where}?get={name}", len)

    def chosen(*names):
        return {
            (one["subtask"], one["id"])
            for one in json.loads(penstock("metrics", "--json", "watched", *names))
            if one["vertex"] == "Add one"
        }

    assert chosen("numRecordsI*d", "numRecordsIn") == {
        (0, "numRecordsIn"),
        (1, "numRecordsIn"),
        (0, "numRecordsInPerSecond"),
        (1, "numRecordsInPerSecond"),
    }
    assert chosen("1.numRecordsIn") == {(1, "numRecordsIn")}
    listed = json.loads(penstock("metrics", "--json", "--list", job_id))
    assert {"vertex": "Add one", "id": "numRecordsIn"} in listed
    assert {"vertex": None, "id": "numRestarts"} in listed
    of_job = json.loads(penstock("metrics", "--json", job_id, "numRestart*"))
    assert of_job == [{"vertex": None, "subtask": None, "id": "numRestarts", "value": "0"}]
    wrong = penstock("metrics", job_id, "numRecordsIn", "numRecordIn", code=1)
    assert "no metric 'numRecordIn'; did you mean 'numRecordsIn'?\n" in wrong
    assert "no metric 'zzz*'; --list shows all names" in penstock("metrics", job_id, "zzz*", code=1)


def test_an_empty_name_is_no_job(watched):
    """An unset variable of a shell must not stop the only job."""
    _, client, job_id = watched
    for command in ("metrics", "status", "stop"):
        assert "JOB is empty: expected an id" in penstock(command, "", code=2)
    assert client.get(f"/jobs/{job_id}")["state"] == "RUNNING"


@pytest.mark.parametrize("watched", ["1 h"], indirect=True)
def test_a_job_is_found_by_its_name_and_asked_for_its_counts_of_this_moment(watched):
    _, _, job_id = watched
    counts = set()
    while len(counts) < 3:  # workers do not send them unasked
        vertices = json.loads(penstock("status", "--json", "watched"))["job"]["vertices"]
        counts.add(vertices[0]["metrics"]["write-records"])
    assert f"watched ({job_id}): RUNNING" in penstock("status", "watched")
    wrong = penstock("status", "watchd", code=1)
    assert "none of that name; did you mean 'watched'?" in wrong
    assert f"Cancelled job {job_id}." in penstock("cancel", "watched")


def test_the_last_failure_is_shown_by_the_first_line_of_its_text(tmp_path):
    """A lost worker's message ends with its log, and that of user code may have any lines."""
    env = environment(
        **{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 ms"}
    )
    stream = env.add_source(UntilMarked(tmp_path / "stop"), "Numbers", Types.LONG())
    stream.map(FailsOnce(tmp_path / "failed", "the reason\nand more"), Types.LONG()).print()
    job = env.execute_async("fails")
    job_id = str(job.get_job_id())
    client = Client.of_last_cluster()
    client.until(f"/jobs/{job_id}/exceptions", lambda found: found["exceptionHistory"]["entries"])
    (told,) = [line for line in penstock("status", job_id).splitlines() if "last failure" in line]
    assert told.endswith(": ArithmeticError: the reason")
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_savepoints_and_the_end_of_a_job(watched, tmp_path):
    job, _, job_id = watched
    before = penstock("savepoint", job_id)
    assert before.startswith("Savepoint completed. Path: ")
    assert Path(before.split("Path: ")[1].strip(), "_metadata").exists()
    own = json.loads(penstock("savepoint", "--json", job_id, str(tmp_path / "own")))["savepoint"]
    assert Path(own).parent == tmp_path / "own"
    assert "is deleted" in penstock("savepoint", "--dispose", own, job_id)
    assert not Path(own).exists()
    triggered = penstock("savepoint", job_id, str(tmp_path / "own"), "-detached")
    trigger = triggered.removeprefix("Savepoint triggered. triggerId: ").strip()
    _, client, _ = watched
    taken = client.until(
        f"/jobs/{job_id}/savepoints/{trigger}",
        lambda found: found["status"]["id"] == "COMPLETED",
    )
    assert Path(taken["operation"]["location"], "_metadata").exists()
    stopped = penstock("stop", "-p", str(tmp_path / "last"), job_id)
    location = Path(stopped.removeprefix("Savepoint completed. Path: ").strip())
    assert location.parent == tmp_path / "last"
    job.get_job_execution_result().result()
    assert running_clusters() == []
    assert "SAVEPOINT" in penstock("savepoint", "inspect", str(location))


def test_cancelling(watched):
    job, _, job_id = watched
    assert "there is no job whose id begins with 'zz'" in penstock("cancel", "zz", code=1)
    assert penstock("cancel", job_id) == f"Cancelled job {job_id}.\n"
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()


def test_cancelling_with_a_savepoint(watched, tmp_path):
    """Without a directory the savepoint goes to the configured one."""
    job, _, job_id = watched
    told = penstock("cancel", "-s", job_id)
    assert told.startswith(f"Cancelled job {job_id}. Savepoint stored in {tmp_path / 'savepoints'}")
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()


def test_nobody_answers(run_directory):
    """The exit code is 3, and a file of an ended cluster does not help."""
    assert "start the job with -D rest.port=0" in penstock("list", code=3)
    stale = RunFile("http://127.0.0.1:9", "secret")
    stale.write()
    assert "http://127.0.0.1:9 does not answer" in penstock("list", code=3)
    stale.remove()


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "-m", "ftp://x"),
        ("list", "-m", "host:port"),
        ("cancel",),
        ("savepoint", "-type", "xml", "x"),
        ("savepoint", "-d", "/x"),
        ("savepoint", "--dispose", "/x", "job", "directory"),
        ("status",),
        ("nonsense",),
    ],
)
def test_wrong_command_lines(arguments):
    assert penstock(*arguments, code=2)


def test_options_are_listed():
    shown = penstock("config", "rest.port")
    assert "rest.bind-port" in shown
    assert "also: rest.port" in shown
    assert "of the cluster" in shown
    assert "no option" in penstock("config", "flux-compensator", code=1)
    assert "did you mean rest.bind-port?" in penstock("config", "rest.bind-prot", code=1)
    everything = json.loads(penstock("config", "--json"))
    assert {"parallelism.default", "metrics.reporters"} <= {one["key"] for one in everything}
    assert all(one["meaning"] and one["value"] for one in everything)


def test_options_are_listed_with_where_they_are_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "set:" not in penstock("config", "parallelism.default")
    (tmp_path / "penstock.yaml").write_text("parallelism.default: 3\nrest.token: hush-hush\n")
    (tmp_path / "pyproject.toml").write_text('[tool.penstock]\n"parallelism.default" = 4\n')
    monkeypatch.setenv("PENSTOCK_CONFIGURATION", '{"rest.port": 0}')
    (found,) = json.loads(penstock("config", "--json", "parallelism.default"))
    assert found["set"] == [
        {"where": "penstock.yaml", "value": "3"},
        {"where": "pyproject.toml", "value": "4"},
    ]
    assert "set: 0 in PENSTOCK_CONFIGURATION" in penstock("config", "rest.port")
    shown = penstock("config", "rest.token")
    assert "set: ****** in penstock.yaml" in shown
    assert "hush" not in shown
    (tmp_path / "penstock.yaml").write_text("{")
    assert "penstock.yaml" in penstock("config", code=1)


def test_the_machine_is_examined(monkeypatch):
    findings = {one["what"]: one for one in json.loads(penstock("doctor", "--json"))}
    assert findings["Python"]["level"] == findings["ports"]["level"] == "ok"
    assert {"native data plane", "Java", "pyspark", "uvicorn", "Unix sockets"} <= set(findings)
    assert findings["flame graphs"]["detail"] == "functions of Python and native ones"
    monkeypatch.setenv("PENSTOCK_REST_TOKEN", "hush-hush-hush-hush")
    assert "hush" not in penstock("doctor")
    monkeypatch.setitem(sys.modules, "penstock._core", None)
    failed = CliRunner().invoke(main, ["doctor"])
    assert failed.exit_code == 1
    assert "problem  native data plane" in failed.output


def test_another_distribution_of_the_name_is_found(monkeypatch, tmp_path):
    metadata = tmp_path / "penstock-0.3.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: penstock\nVersion: 0.3\n")
    monkeypatch.syspath_prepend(tmp_path)
    failed = CliRunner().invoke(main, ["doctor"])
    assert failed.exit_code == 1
    assert "the distribution penstock 0.3 is installed, which is another project's" in failed.output


PROGRAM = """
import sys
import tempfile
import urllib.request
from pathlib import Path
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from support.commands import penstock
from support.rest_client import UntilMarked

env = StreamExecutionEnvironment.get_execution_environment()
stream = env.add_source(UntilMarked(Path(sys.argv[1])), "Numbers", Types.LONG()).rebalance()
stream.map(lambda n: n, Types.LONG()).name("Same").filter(lambda n: n < 0).print()
env.execute("of a program")
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    return str(path)


def test_a_plan_is_shown_and_nothing_runs(program, tmp_path):
    text = penstock("info", program, str(tmp_path / "stop"))
    assert "Numbers" in text
    plan = json.loads(penstock("info", "--json", "-p", "3", program, str(tmp_path / "stop")))
    same = next(node for node in plan["nodes"] if node["contents"].endswith("Same"))
    assert same["parallelism"] == 3
    empty = tmp_path / "empty.py"
    empty.write_text("")
    assert "the program runs no job" in penstock("info", str(empty), code=1)


def test_a_detached_program_is_watched_and_ends(program, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = penstock("run", "-d", "--target", "local", "-D", "web.refresh-interval=200 ms",
                    program, str(tmp_path / "stop"))  # fmt: skip
    job_id = re.search("JobID ([0-9a-f]{32})", told)[1]
    page = urllib.request.urlopen(re.search("Dashboard: (http.*token=.+)", told)[1])
    assert "html" in page.headers["Content-Type"]
    page.close()
    watching = subprocess.Popen(
        [sys.executable, "-m", "penstock", "status", "--watch", "--json", job_id[:10]],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    shown = subprocess.Popen(
        [sys.executable, "-m", "penstock", "status", "--watch", job_id[:10]],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "150"},
    )  # fmt: skip
    while json.loads(watching.stdout.readline())["job"]["vertices"][1]["in-rate"] is None:
        pass
    busiest = json.loads(penstock("top", "--once", "--json"))
    assert {row["name"].split(" ")[0] for row in busiest} >= {"Same"}
    assert "vertex" in penstock("top", "--once")
    first = shown.stdout.readline()  # the command has found the job
    (tmp_path / "stop").touch()
    with watching, shown:
        text, table = watching.stdout.read(), first + shown.stdout.read()
    assert (watching.returncode, shown.returncode) == (0, 0)
    assert json.loads(text.splitlines()[-1])["job"]["state"] == "FINISHED"
    assert "of a program" in table
    assert "Same" in table
    pid = int(re.search("Process ([0-9]+)", told)[1])
    os.waitpid(pid, 0)


def test_watching_ends_with_a_message_when_the_driver_is_killed(program, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = penstock("run", "-d", "--target", "local", program, str(tmp_path / "stop"))
    job_id, pid = re.search("JobID ([0-9a-f]{32})", told)[1], re.search("Process ([0-9]+)", told)[1]
    watching = subprocess.Popen(
        [sys.executable, "-m", "penstock", "status", "--watch", "--json", job_id],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    watching.stdout.readline()
    os.kill(int(pid), signal.SIGKILL)
    os.waitpid(int(pid), 0)
    assert "ended without a message" in watching.communicate(timeout=240)[1]
    assert watching.returncode == 3


def test_a_detached_program_that_fails_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "program.py"
    path.write_text("raise ValueError('not today')")
    assert "ValueError: not today" in penstock("run", "-d", str(path), code=1)
    path.write_text("print('nothing to do')")
    assert "nothing to do" in penstock("run", "--detached", str(path))


def test_logs_are_printed(watched):
    _, client, _ = watched
    logging.getLogger("shop").warning("the driver speaks")
    assert "the driver speaks" in penstock("logs")
    every = json.loads(penstock("logs", "all", "--json"))
    assert every[0]["source"] == "driver"
    assert len(every) == 1 + len(client.get("/taskmanagers")["taskmanagers"])
    assert "driver: " in penstock("logs", "all")
    assert "no TaskExecutor 'nobody'" in penstock("logs", "nobody", code=1)
    assert penstock("logs", "-f", "--json", code=2)
    following = subprocess.Popen(
        [sys.executable, "-m", "penstock", "logs", "-f"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert following.stdout.readline()
        logging.getLogger("shop").warning("and speaks again")
        while "and speaks again" not in following.stdout.readline():
            pass
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=240)
    finally:
        following.kill()
        following.communicate()


def test_a_running_job_is_given_another_parallelism(watched):
    _, client, job_id = watched
    assert "1 to 128 subtasks" in penstock("rescale", "-p", "4000", job_id, code=1)
    assert f"Rescaled job {job_id} to 3." in penstock("rescale", "-p", "3", job_id)
    found = json.loads(penstock("rescale", "-p", "2", "--json", job_id))
    vertices = client.get(f"/jobs/{job_id}")["vertices"]
    assert [vertex["parallelism"] for vertex in vertices] == [1, 2, 2]
    present = {vertex["name"]: vertex["parallelism"] for vertex in vertices}
    assert found == {"job": job_id, "parallelism": 2, "vertices": present}


def test_an_adaptive_job_shows_the_slots_that_it_uses(tmp_path):
    """The job takes more slots after a while, if they exist."""
    options = {
        "jobmanager.scheduler": "adaptive",
        "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 h",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.interval": "1 h",
    }
    job, _, job_id = running_job(tmp_path / "stop", **options)
    try:
        assert penstock("rescale", "-p", "3", job_id) == (
            f"Job {job_id} may have parallelism 3 now; it continues with 2 until there are slots "
            "for more.\n"
        )
    finally:
        (tmp_path / "stop").touch()
        job.get_job_execution_result().result()


def test_json_of_commands_that_print_text(tmp_path):
    assert json.loads(penstock("completion", "--json", "bash"))["shell"] == "bash"
    assert "def build(env" in json.loads(penstock("demo", "--source", "--json"))["source"]
    assert "--json needs" in penstock("demo", "--json", code=2)
    path = tmp_path / "nothing.py"
    path.write_text("print('no job')")
    assert "--json needs -d" in penstock("run", "--json", str(path), code=2)
    found = json.loads(penstock("run", "-d", "--json", "--target", "local", str(path)))
    assert found["job"] is None
    assert Path(found["log"]).read_text() == "no job\n"
    Path(found["log"]).unlink()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_learn_the_commands(shell):
    assert "_PENSTOCK_COMPLETE" in penstock("completion", shell)


def test_the_demo_runs_until_it_is_interrupted(tmp_path):
    """Its dashboard works, its job takes checkpoints, and Ctrl-C ends all of it."""
    assert "def build(env" in penstock("demo", "--source")
    demo = subprocess.Popen(
        [sys.executable, "-m", "penstock", "demo", "--no-browser", "-D", "rest.port=0",
         "-D", "execution.checkpointing.interval=200 ms"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path, text=True,
    )  # fmt: skip
    try:
        assert "REST interface: http://127.0.0.1:" in demo.stdout.readline()
        client = Client.of_last_cluster()
        jobs = client.until("/jobs/overview", lambda found: found["jobs"])["jobs"]
        client.until(
            f"/jobs/{jobs[0]['jid']}/checkpoints", lambda found: found["counts"]["completed"]
        )
        demo.send_signal(signal.SIGINT)
        assert "The demo has ended." in demo.communicate(timeout=240)[0]
    finally:
        demo.kill()
        demo.wait()
    assert running_clusters() == []


def test_help_names_every_command():
    shown = penstock("--help")
    for command in ("cancel", "checkpoint", "config", "doctor", "list", "metrics", "run"):
        assert f"  {command} " in shown
        assert penstock(command, "--help")

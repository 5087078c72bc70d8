"""Jobs whose TaskExecutors are on several hosts, whose links are cut (internals M47, M49).

Method: hosts are network namespaces of this machine (`support.hosts`), so all traffic between them
uses TCP; their links are cut without notifying either end.  Jobs' output is compared with the
models of `recovery.endless_jobs`.
"""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from e2e.running import ROOT, run_program, start_program
from e2e.spark_jobs import LIGHT_JVMS
from recovery.chaos import Progress
from recovery.endless_jobs import JOBS
from support.hosts import Network, required_namespaces
from support.sessions import TOKEN, Role, eventually
from support.spark_cluster import AUTHENTICATES, ENCRYPTS, SparkCluster
from support.wire import Wire

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TESTS = str(ROOT / "tests")
PROGRAM = str(ROOT / "tests" / "recovery" / "endless_jobs.py")
TLS = {"security.ssl.internal.enabled": "true"}
#: A host that is cut off is lost after three seconds.
NOTICED_SOON = {"heartbeat.interval": "500 ms", "heartbeat.timeout": "3 s"}
WORKERS = ["one", "two", "three"]
#: Between two looks for the processes of all hosts, which start a process for each host.
SELDOM_S = 0.5


@pytest.fixture(scope="module")
def network():
    required_namespaces()
    made = Network("master", "driver", *WORKERS)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def spark(network, classes_of_spark, tmp_path_factory):
    """Yield a Spark cluster with a worker on each of three hosts."""
    cluster = SparkCluster(network, tmp_path_factory.mktemp("spark"))
    try:
        cluster.start(WORKERS)
        yield cluster
    finally:
        cluster.close()


def drivers(network):
    """Return the pids of programs that the cluster runs."""
    found = []
    for name in WORKERS:
        for pid in network[name].processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                command = psutil.Process(pid).cmdline()
                if PROGRAM in command[1:2]:
                    found.append(pid)
    return found


def serves(host):
    """Return whether a worker process is on a host: a separate process, or a forked one."""
    for pid in host.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            command = process.cmdline()
            if "--fork-server" in command:
                command = psutil.Process(process.ppid()).cmdline()  # parent() may return None
                if "--fork-server" in command:
                    return True
            elif "penstock.taskexecutor" in command:
                return True
    return False


class RunningJob:
    """A job of `endless_jobs`, whose program is on the host ``driver``."""

    def __init__(self, network, folder, kind, options, environment):
        self.network = network
        self.folder = folder / "job"
        self.progress = Progress(self.folder / "checkpoints")
        self.process = start_program(
            [
                *("-m", "recovery.endless_jobs", str(self.folder), kind),
                json.dumps({**NOTICED_SOON, **options}),
            ],
            inside=network["driver"].inside,
            **{**environment, "PYTHONPATH": TESTS},
        )

    def goes_on(self):
        """Wait until two more checkpoints are complete."""
        seen, new = self.progress.complete(), set()
        while len(new) < 2:
            assert self.process.poll() is None, self.process.communicate()
            new |= self.progress.complete() - seen
            time.sleep(0.05)

    def hosts(self):
        """Return the hosts that run workers."""
        return [name for name in WORKERS if serves(self.network[name])]

    def ends(self):
        """End the program, and check that it has written the results of its model."""
        (self.folder / "end").touch()
        out, err = self.process.communicate(timeout=240)
        assert self.process.returncode == 0, err
        assert out.endswith("numbers\n")
        return err

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            print(self.process.communicate())


@pytest.mark.parametrize(
    ("options", "is_readable"),
    [
        (AUTHENTICATES, True),
        ({**AUTHENTICATES, **TLS, "jobmanager.bind-host": "0.0.0.0"}, False),
        (ENCRYPTS, False),
    ],
    ids=["clear", "TLS", "as Spark encrypts"],
)
def test_words_between_hosts_on_spark(spark, network, tmp_path, options, is_readable):
    """They can be read at the switch, unless penstock's or Spark's option is on."""
    text = tmp_path / "text"
    text.mkdir()
    for index in range(2):
        (text / f"{index}.txt").write_text("zanzibar quagga\n" * 500)
    chosen = {**options, **LIGHT_JVMS}
    chosen = [word for option in chosen.items() for word in ("-D", "=".join(option))]
    example = str(ROOT / "examples" / "word_count.py")
    with Wire(network.switch, tmp_path / "packets") as wire:
        outcome = run_program(
            [
                *("-m", "penstock", "run", "--master", spark.url, "-p", "2", *chosen, example),
                *("--input", str(text), "--output", str(tmp_path / "counts")),
            ],
            inside=network["driver"].inside,
            **spark.environment("driver"),
        )
    assert outcome.code == 0, outcome.err
    parts = [path.read_text() for path in (tmp_path / "counts").rglob("part-*")]
    assert {"zanzibar 1000", "quagga 1000"} <= set("".join(parts).splitlines())
    assert wire.carried(b"zanzibar") == is_readable


@pytest.mark.parametrize("options", [{}, TLS], ids=["clear", "TLS"])
def test_a_job_in_a_session_of_several_hosts_outlives_cut_links(network, tmp_path, options):
    """`penstock jobmanager` and `penstock taskexecutor` as plain processes, each on its host.

    A taskexecutor that is cut off ends its workers by itself, and registers again with its link.
    """
    master = network["master"]
    secured = [word for option in options.items() for word in ("-D", "=".join(option))]
    heartbeats = [word for option in NOTICED_SOON.items() for word in ("-D", "=".join(option))]
    roles, job = [], None
    places = {"PENSTOCK_RUN_DIR": str(tmp_path / "run")}
    try:
        roles.append(
            Role(
                *("jobmanager", "--host", master.address, "--port", "6123", *secured, *heartbeats),
                inside=master.inside,
                **places,
            )
        )
        roles[0].says("jobmanager at")
        for name in WORKERS:
            address = f"{master.address}:6123"
            words = ("taskexecutor", "--jobmanager", address, "--slots", "1")
            roles.append(Role(*words, inside=network[name].inside, **places))
            roles[-1].says("is registered")
        with Wire(network.switch, tmp_path / "packets") as wire:
            target = {"execution.target": "session", "penstock.session": address}
            environment = {"PENSTOCK_SESSION_TOKEN": TOKEN, **places}
            job = RunningJob(network, tmp_path, "sessions", target, environment)
            job.goes_on()
        # The code contains the name of a function of the program.
        assert wire.carried(b"UntilTold") == (not options)
        (cut, *_) = job.hosts()
        network[cut].cut()
        eventually(lambda: cut not in job.hosts(), "the workers that are cut off end", SELDOM_S)
        job.goes_on()
        network[cut].mend()
        roles[1 + WORKERS.index(cut)].says("is registered", times=2)
        (other, *_) = (name for name in job.hosts() if name != cut)
        network[other].cut()
        job.goes_on()
        network[other].mend()
        job.ends()
    except BaseException:
        for role in roles:
            print("ROLE", role.log)
        raise
    finally:
        if job is not None:
            job.close()
        for role in reversed(roles):
            if role.process.poll() is None:
                role.signal(signal.SIGTERM)
        for name in WORKERS:
            network[name].mend()


def test_a_driver_that_the_cluster_runs_is_started_again_and_continues(spark, network, tmp_path):
    """`spark-submit` in cluster mode: Spark supervises the driver, and a file stores the job.

    It needs all three hosts: one for the driver, and one for each of two TaskExecutors.
    """
    spark.start(WORKERS)
    folder = tmp_path / "job"
    options = {
        **NOTICED_SOON,
        **AUTHENTICATES,  # a worker does not list its drivers
        **LIGHT_JVMS,
        "execution.target": "spark",
        "spark.master": spark.url,
        "high-availability.type": "filesystem",
        "high-availability.storageDir": str(tmp_path / "high-availability"),
        "high-availability.cluster-id": "supervised",
        "penstock.high-availability.lease": "2 s",
    }
    progress = Progress(folder / "checkpoints")
    spark.submit("driver", PROGRAM, TESTS, str(folder), "counts", json.dumps(options))
    progress.await_checkpoint()
    (first,) = drivers(network)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: drivers(network) not in ([first], []), "another driver runs", SELDOM_S)
    progress.await_checkpoint()
    (folder / "end").touch()
    eventually(lambda: not drivers(network), "the driver ends", SELDOM_S)
    JOBS["counts"].check(folder)


def test_a_session_on_spark_is_taken_over_with_its_job(spark, network, tmp_path):
    """Both jobmanagers let two of Spark's three workers run taskexecutors, one after the other.

    The leader is killed; Spark then ends its taskexecutors, and the next leader starts its own.
    """
    spark.start(WORKERS)
    places = {"PENSTOCK_SESSION_TOKEN": TOKEN, "PENSTOCK_RUN_DIR": str(tmp_path / "run")}
    found_by = {
        "high-availability.type": "filesystem",
        "high-availability.storageDir": str(tmp_path / "high-availability"),
        "high-availability.cluster-id": "on-spark",
        "penstock.high-availability.lease": "2 s",
    }
    options = {**found_by, **NOTICED_SOON, **AUTHENTICATES, **LIGHT_JVMS}
    options["spark.master"] = spark.url
    chosen = [word for option in options.items() for word in ("-D", "=".join(option))]
    started, job = [], None

    def start(host):
        outcome = run_program(
            [
                *("-m", "penstock", "cluster", "start", "--target", "spark", "--slots", "2"),
                *("--name", host, "--host", network[host].address, "--json", *chosen),
            ],
            inside=network[host].inside,
            **{**spark.environment(host), **places},
        )
        assert outcome.code == 0, outcome.err
        started.append(json.loads(outcome.out))
        return started[-1]

    def log(jobmanager):
        return Path(jobmanager["log"]).read_text()

    try:
        leader, standby = start("master"), start("driver")
        assert standby["jobmanager"] is None
        job = RunningJob(
            network, tmp_path, "counts", {**found_by, "execution.target": "session"}, places
        )
        job.goes_on()
        os.kill(leader["pid"], signal.SIGKILL)
        eventually(lambda: "is resumed" in log(standby), "the other one resumes the job")
        job.goes_on()
        assert job.hosts()
        job.ends()
        stop = ["-m", "penstock", "cluster", "stop", "driver"]
        outcome = run_program(stop, inside=network["driver"].inside, **places)
        assert outcome.code == 0, outcome.err
    except BaseException:
        for jobmanager in started:
            print("JOBMANAGER", log(jobmanager))
        raise
    finally:
        if job is not None:
            job.close()
        for jobmanager in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(jobmanager["pid"], signal.SIGKILL)
            Path(jobmanager["log"]).unlink()
    for host in ("master", "driver", *WORKERS):
        eventually(
            lambda host=host: not sessions_on(network[host]), f"{host} has none left", SELDOM_S
        )


def sessions_on(host):
    """Return the processes of sessions on a host, workers included."""
    found = []
    for pid in host.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("penstock" in word for word in psutil.Process(pid).cmdline()[1:4]):
                found.append(pid)
    return found


def test_a_job_on_spark_outlives_a_cut_link_and_a_lost_host(spark, network, tmp_path):
    """Its TaskExecutor that is cut off ends by itself, and another one takes its place.

    The host that returns serves again when another one is lost for good.
    """
    options = {"execution.target": "spark", "spark.master": spark.url}
    options |= {**AUTHENTICATES, **LIGHT_JVMS}
    job = RunningJob(network, tmp_path, "counts", options, spark.environment("driver"))
    try:
        job.goes_on()
        (cut, *_) = job.hosts()
        network[cut].cut()
        eventually(
            lambda: cut not in job.hosts(), "the TaskExecutor that is cut off ends", SELDOM_S
        )
        job.goes_on()
        network[cut].mend()
        (lost, *_) = (name for name in job.hosts() if name != cut)
        spark.lose(lost)
        job.goes_on()
        assert lost not in job.hosts()
        err = job.ends()
        assert err.count("subtasks restart in") >= 2
    finally:
        job.close()
        for name in WORKERS:
            network[name].mend()

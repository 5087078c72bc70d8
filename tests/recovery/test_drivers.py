"""Jobs whose driver is killed, or overtaken by another one (internals M48, M49: the JobMaster).

Method: drivers are separate processes; a job must write the same with a FileSink as the job of an
undisturbed driver.
"""

import json
import os
import signal
import threading
from pathlib import Path

import pytest
from e2e.running import run_program, start_program
from penstock.common import Configuration, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ConfigurationError, InvalidProgramError, JobExecutionError
from support.leader_places import KINDS, FilePlace, ZooKeeperPlace, serving_zookeeper

from recovery.sink_programs import expected_lines, fates

ELEMENTS = 4_000
FOR_EVER = {"penstock.high-availability.lease": "1 h"}
TESTS = str(Path(__file__).parent.parent)


def arguments(folder, options):
    program = "recovery.supervised"
    return ["-m", program, str(folder), str(ELEMENTS), json.dumps(options)]


def run(folder, options):
    return run_program(arguments(folder, options), PYTHONPATH=TESTS)


def finished_files(folder):
    """Return finished files, without files that a killed worker had started."""
    return sorted(path for path in (folder / "out").iterdir() if not path.name.startswith("."))


def written(folder):
    return sorted(
        line for path in finished_files(folder) for line in path.read_text().split("\n")[:-1]
    )


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    yield from serving_zookeeper(tmp_path_factory)


@pytest.fixture
def place(kind, tmp_path, request):
    folder = tmp_path / "high-availability"
    if kind == "filesystem":
        place = FilePlace(folder)
    else:
        place = ZooKeeperPlace(folder, request.getfixturevalue("zookeeper"), f"/{tmp_path.name}")
    yield place
    place.close()


@pytest.mark.parametrize(
    ("kind", "backend"),
    [("filesystem", "hashmap"), ("filesystem", "rocksdb"), ("zookeeper", "hashmap")],
)
def test_a_job_outlives_its_drivers(tmp_path, place, backend):
    """Each takes over at once, as the machine knows that the previous one has ended."""
    moments = ["on the way", "told before the sink"]
    fates(tmp_path / "fates", moments)
    options = {**place.with_lease(3_600_000), "state.backend.type": backend}
    codes = []
    while not codes or codes[-1] == -signal.SIGKILL:
        outcome = run(tmp_path, options)
        codes.append(outcome.code)
    assert codes == [-signal.SIGKILL] * len(moments) + [0], outcome.err
    assert written(tmp_path) == expected_lines(ELEMENTS)
    assert not list((tmp_path / "checkpoints").iterdir()), "a finished job keeps none"


def test_a_finished_job_is_not_run_twice(tmp_path):
    fates(tmp_path / "fates", [])
    assert run(tmp_path, FOR_EVER).code == 0
    files = finished_files(tmp_path)
    again = run(tmp_path, FOR_EVER)
    assert again.code == 0
    assert "was FINISHED in a former driver" in again.err
    assert finished_files(tmp_path) == files
    assert run(tmp_path, {**FOR_EVER, "high-availability.cluster-id": "another"}).code == 0
    assert len(written(tmp_path)) == 2 * ELEMENTS


@pytest.mark.stops_processes
@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_stands_by_takes_over(tmp_path, kind, place):
    """The leader is stopped; when it wakes up it has lost, and completes no checkpoint."""
    fates(tmp_path / "fates", ["held"])
    options = place.with_lease(3_000)
    leader = start_program(arguments(tmp_path, options), PYTHONPATH=TESTS)
    try:
        while not any("-checkpoint-" in name for name in place.names()):
            assert leader.poll() is None, leader.communicate()
            threading.Event().wait(0.005)
        os.kill(leader.pid, signal.SIGSTOP)
        (tmp_path / "fates" / "held").unlink()
        outcome = run(tmp_path, options)
        assert outcome.code == 0, outcome.err
        if kind == "filesystem":  # a session may end before the next driver looks
            assert "this driver stands by" in outcome.err
        assert written(tmp_path) == expected_lines(ELEMENTS)
        os.kill(leader.pid, signal.SIGCONT)
        _, err = leader.communicate()
    finally:
        leader.kill()
        leader.wait()
    assert leader.returncode == 1
    assert "LeadershipLostError" in err
    assert written(tmp_path) == expected_lines(ELEMENTS), "the former leader has committed"


def environment(folder, **options):
    configuration = Configuration()
    configuration.set_string("high-availability.type", "filesystem")
    configuration.set_string("high-availability.storageDir", str(folder))
    configuration.set_string("high-availability.cluster-id", folder.name)
    configuration.set_string("execution.target", "in-process")
    for key, value in options.items():
        configuration.set_string(key.replace("_", "."), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    return env


def test_a_job_that_failed_is_not_run_again(tmp_path):
    program = tmp_path / "failing.py"
    program.write_text(
        "import sys\n"
        "from penstock.common import Configuration, Types\n"
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "configuration = Configuration.from_dict({\n"
        "    'high-availability.type': 'filesystem',\n"
        "    'high-availability.storageDir': sys.argv[1],\n"
        "    'high-availability.cluster-id': 'unlucky',\n"
        "    'execution.target': 'in-process',\n"
        "})\n"
        "def fail(value):\n"
        "    print('called')\n"
        "    raise ValueError(f'no {value}')\n"
        "env = StreamExecutionEnvironment.get_execution_environment(configuration)\n"
        "env.from_collection([1], Types.LONG()).map(fail).print()\n"
        "env.execute('unlucky')\n"
    )
    first = run_program([str(program), str(tmp_path / "store")])
    assert first.code == 1
    assert "called" in first.out
    again = run_program([str(program), str(tmp_path / "store")])
    assert again.code == 1
    assert "called" not in again.out
    assert "job 'unlucky' has failed in a former driver" in again.err
    assert "no 1" in again.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"high-availability.storageDir": "s3://bucket/ha"}, "renaming a directory"),
        ({"high-availability.cluster-id": "../up"}, "'../up' is not a valid folder name"),
        ({"high-availability.type": "kubernetes"}, "set filesystem or zookeeper"),
        ({"execution.checkpointing.interval": "1 s"}, "needs execution.checkpointing.dir"),
        ({"penstock.high-availability.lease": "soon"}, "soon"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, options, text):
    with pytest.raises(ConfigurationError, match=text):
        env = environment(tmp_path / "store", **options)
        env.from_collection([1], Types.LONG()).print()
        env.execute()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("given", "wanted"), [("storageDir", "cluster-id"), ("cluster-id", "storageDir")]
)
def test_folder_and_name_are_needed(tmp_path, given, wanted):
    """Without a name the jobs of two programs could be confused."""
    configuration = Configuration.from_dict(
        {"high-availability.type": "filesystem", f"high-availability.{given}": str(tmp_path)}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1], Types.LONG()).print()
    with pytest.raises(ConfigurationError, match=rf"needs high-availability\.{wanted}"):
        env.execute()


def test_results_that_the_program_gets_are_refused(tmp_path):
    env = environment(tmp_path / "store")
    with pytest.raises(InvalidProgramError, match="writes them to a sink"):
        env.from_collection([1], Types.LONG()).execute_and_collect()


def test_jobs_of_one_program_are_distinguished(tmp_path):
    """By their order; two concurrent jobs share the leadership."""
    env = environment(tmp_path / "store")
    clients = []
    for name in ("one", "two"):
        env.from_collection([1], Types.LONG()).print()
        clients.append(env.execute_async(name))
    for client in clients:
        client.get_job_execution_result().result()
    assert len({str(client.get_job_id()) for client in clients}) == 2
    assert len(list((tmp_path / "store" / "store").glob("epoch-*/*-result"))) == 2


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "store").write_text("a file")
    env = environment(tmp_path / "store")
    env.from_collection([1], Types.LONG()).print()
    with pytest.raises((JobExecutionError, OSError), match=r"store.* cannot be used"):
        env.execute()

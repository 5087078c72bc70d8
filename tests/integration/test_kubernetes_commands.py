"""The commands of the pods in `deploy/kubernetes` form a session, which runs a job.

Method: they run as processes here, with the options of the ConfigMap in a folder of their own and
the volume as a folder; only addresses, ports and paths are those of this machine.
"""

import signal
from pathlib import Path

import pytest
import yaml
from e2e.running import ROOT
from support.sessions import Role

pytestmark = [pytest.mark.process, pytest.mark.slow]
PROGRAM = """
from penstock.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection(["to", "be"]).map(str.upper).print()
env.execute("words")
"""


def pods(tmp_path):
    """Return the arguments of each role with high availability, and the folder of the options."""
    text = (ROOT / "deploy" / "kubernetes" / "session-high-availability.yaml").read_text()
    objects = [one for one in yaml.safe_load_all(text) if one]
    (options,) = (one["data"]["config.yaml"] for one in objects if one["kind"] == "ConfigMap")
    folder, storage = tmp_path / "etc", tmp_path / "data"
    folder.mkdir()
    storage.mkdir()
    assert " /data/high-availability" in options
    (folder / "config.yaml").write_text(
        options.replace(" /data/", f" {storage}/").replace(" /tmp", f" {tmp_path}")
    )
    arguments = {}
    for one in objects:
        if one["kind"] == "Deployment":
            (container,) = one["spec"]["template"]["spec"]["containers"]
            arguments[container["name"]] = [here(word) for word in container["args"]]
    return arguments, folder


def here(word):
    """Return a word of a command for this machine."""
    name, equals, value = word.partition("=")
    value = {
        "$(POD_IP)": "127.0.0.1",
        "0.0.0.0": "127.0.0.1",
        "6123": "0",
        "8081": "0",
    }.get(value, value)
    return name + equals + value


def test_the_pods_of_a_session(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    arguments, folder = pods(tmp_path)
    program = Path(tmp_path / "words.py")
    program.write_text(PROGRAM)
    roles = []
    try:
        for name, logged in [("jobmanager", "jobmanager at"), ("taskexecutor", "is registered")]:
            roles.append(Role(*arguments[name], PENSTOCK_CONF_DIR=str(folder)))
            roles[-1].says(logged)
        run = Role("run", "--target=session", str(program), PENSTOCK_CONF_DIR=str(folder))
        assert run.end() == 0, run.log
        roles[0].says("words.*FINISHED|FINISHED.*words")
    finally:
        for role in reversed(roles):
            if role.process.poll() is None:
                role.signal(signal.SIGTERM)

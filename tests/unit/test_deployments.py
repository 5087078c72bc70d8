"""The manifests in `deploy`: their commands, options and references to each other.

The chart's own manifests are those that Helm rendered (``make chart``); where Helm is installed,
the last test renders and validates them anew.
"""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from penstock.command_line.main import main
from penstock.common.options.check import check_options
from penstock.common.options.registry import options_by_key

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "penstock"
RENDERED = ("session.yaml", "session-high-availability.yaml")


def load(name):
    """Return the objects of a file below deploy/kubernetes, by kind and name."""
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text())
    return {(one["kind"], one["metadata"]["name"]): one for one in documents if one}


@pytest.fixture(params=RENDERED)
def session(request):
    return load(request.param)


@pytest.fixture(scope="module")
def chart():
    spec = importlib.util.spec_from_file_location("chart", ROOT / "ci" / "chart.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def pod(objects, role):
    return objects["Deployment", f"penstock-{role}"]["spec"]["template"]


def container(objects, role):
    (only,) = pod(objects, role)["spec"]["containers"]
    return only


def parsed(arguments):
    """Return the parameters of a command line of penstock, which is parsed but not run."""
    words = [word.replace("$(POD_IP)", "10.0.0.7") for word in arguments]
    with click.Context(main) as context:
        command = main.get_command(context, words[0])
        assert command is not None, words[0]
        return command.make_context(words[0], words[1:], parent=context).params


def options(objects):
    return yaml.safe_load(objects["ConfigMap", "penstock"]["data"]["config.yaml"])


def test_manifests_are_those_of_the_chart(chart):
    assert set(chart.VALUES) == set(RENDERED)
    for name in RENDERED:
        first = (DEPLOY / "kubernetes" / name).read_text().partition("\n")[0]
        assert first == f"# Chart {chart.digest()}", f"{name} is out of date: run make chart"


def test_the_chart_has_the_version_of_the_distribution():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (described["version"], described["appVersion"]) == (version, version)


def test_values_that_templates_name_exist():
    """Also in the schema, which rejects a misspelt name."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    named = set(re.findall(r"\$?\.Values\.(\w+)(?:\.(\w+))?", templates))
    assert len(named) > 15
    for outer, inner in named - {("nameOverride", ""), ("fullnameOverride", "")}:
        assert outer in values, outer
        assert not inner or inner in values[outer], f"{outer}.{inner}"
    for outer, inner in values.items():
        assert outer in schema
        if isinstance(inner, dict) and inner:
            assert inner.keys() == schema[outer]["properties"].keys(), outer


def test_commands_are_those_of_penstock(session):
    jobmanager = parsed(container(session, "jobmanager")["args"])
    taskexecutor = parsed(container(session, "taskexecutor")["args"])
    assert jobmanager["host"] == "0.0.0.0"
    assert taskexecutor["host"] == "10.0.0.7"
    assert taskexecutor["slots"] == 2
    given = dict(word.split("=", 1) for word in jobmanager["options"])
    check_options({**options(session), **given, "jobmanager.bind-host": jobmanager["host"]})
    assert given["jobmanager.rpc.address"] == "10.0.0.7"
    ports = {one["name"]: one["containerPort"] for one in container(session, "jobmanager")["ports"]}
    assert ports == {"control": jobmanager["port"], "rest": int(given["rest.bind-port"])}


def test_options_are_those_of_clusters(session):
    known = options_by_key()
    assert {known[key].scope for key in options(session)} == {"cluster"}


def test_taskexecutors_find_the_jobmanager():
    """By its Service, or with high availability by the storage that they share."""
    plain, available = map(load, RENDERED)
    service = plain["Service", "penstock-jobmanager"]["spec"]
    control = service["ports"][0]
    address = f"penstock-jobmanager:{control['port']}"
    assert parsed(container(plain, "taskexecutor")["args"])["address"] == address
    selected = {
        role
        for role in ("jobmanager", "taskexecutor")
        if service["selector"].items() <= pod(plain, role)["metadata"]["labels"].items()
    }
    assert selected == {"jobmanager"}

    assert parsed(container(available, "taskexecutor")["args"])["address"] is None
    assert options(available)["high-availability.type"] == "filesystem"
    storage = Path(options(available)["high-availability.storageDir"])
    for role in ("jobmanager", "taskexecutor"):
        mounts = {Path(one["mountPath"]) for one in container(available, role)["volumeMounts"]}
        assert storage.parent in mounts


def test_a_jobmanager_is_replaced_only_when_it_has_ended(session):
    """A rolling update would wait for one that stands by until the former one ends."""
    strategy = session["Deployment", "penstock-jobmanager"]["spec"]["strategy"]
    assert strategy == {"type": "Recreate"}


def test_references_lead_somewhere(session):
    for role in ("jobmanager", "taskexecutor"):
        deployment = session["Deployment", f"penstock-{role}"]["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        assert deployment["selector"]["matchLabels"].items() <= labels.items()
        volumes = {one["name"]: one for one in deployment["template"]["spec"]["volumes"]}
        mounts = {one["name"] for one in container(session, role)["volumeMounts"]}
        assert mounts == volumes.keys()
        assert ("ConfigMap", volumes["configuration"]["configMap"]["name"]) in session
        if "storage" in volumes:
            claim = volumes["storage"]["persistentVolumeClaim"]["claimName"]
            assert ("PersistentVolumeClaim", claim) in session
    for key in [key for key in session if key[0] == "NetworkPolicy"]:
        policy = session[key]["spec"]
        inside, clients = policy["ingress"][0]["from"]
        assert inside["podSelector"] == policy["podSelector"]
        assert clients["podSelector"]["matchLabels"] == {"penstock-session": "penstock"}


def test_pods_have_no_more_rights_than_they_need(session):
    for role in ("jobmanager", "taskexecutor"):
        described = pod(session, role)["spec"]
        assert described["automountServiceAccountToken"] is False
        assert described["securityContext"]["runAsNonRoot"] is True
        rights = container(session, role)["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["allowPrivilegeEscalation"] is False
        # Everything that a process of this role writes.
        assert {"/tmp"} <= {one["mountPath"] for one in container(session, role)["volumeMounts"]}


def test_a_program_is_sent_to_the_session():
    job = load("program.yaml")["Job", "totals"]["spec"]["template"]
    (program,) = job["spec"]["containers"]
    given = parsed(program["args"])
    session = load("session.yaml")
    port = session["Service", "penstock-jobmanager"]["spec"]["ports"][0]["port"]
    assert given["cluster"] == f"penstock-jobmanager:{port}"
    assert job["metadata"]["labels"] == {"penstock-session": "penstock"}
    variables = {one["name"]: one for one in container(session, "jobmanager")["env"]}
    assert program["env"] == [variables["PENSTOCK_SESSION_TOKEN"]]


def test_the_application_of_sparks_operator():
    """Its fields were compared with the operator's definition; its options are penstock's."""
    spec = yaml.safe_load((DEPLOY / "spark-operator" / "totals.yaml").read_text())["spec"]
    variables = {one["name"]: one["value"] for one in spec["driver"]["env"]}
    assert variables["PENSTOCK_EXECUTION_TARGET"] == "spark"
    given = json.loads(variables["PENSTOCK_CONFIGURATION"])
    check_options(given)
    executor = spec["executor"]
    assert int(given["parallelism.default"]) == executor["instances"] * executor["cores"]
    # A driver that is started again resumes only with high availability.
    assert spec["restartPolicy"]["type"] == "OnFailure"
    assert given["high-availability.type"] == "filesystem"
    (volume,) = spec["volumes"]
    for role in (spec["driver"], executor):
        (mount,) = role["volumeMounts"]
        assert mount["name"] == volume["name"]
        for key in ("high-availability.storageDir", "execution.checkpointing.dir"):
            assert given[key].startswith(mount["mountPath"] + "/")


def test_helm_renders_the_same_and_kubernetes_knows_it():
    if not (ROOT / "build" / "chart").is_dir():
        pytest.skip("Helm and the schemas of Kubernetes are missing: sh ci/chart_tools.sh")
    command = [sys.executable, str(ROOT / "ci" / "chart.py"), "--check"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "11 objects are valid" in ran.stdout

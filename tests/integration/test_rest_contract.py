"""The REST interface answers as Flink's does: paths, fields and types (internals M68, M69).

`flink_rest_answers.json` lists Apache Flink 2.3.0's answers to the same requests about a job of a
source, a keyed process function and a sink with checkpoints: for each endpoint the fields with
their types.  Ids as keys are written ``:id``.  `flink_rest_paths.json` lists all paths that Apache
Flink 2.3.0 has, its own and those of jars.
"""

import json
import re
from pathlib import Path

import pytest
from penstock.errors import JobCancelledError
from penstock.rest.routes import ENDPOINTS
from support.rest_client import running_job

ANSWERS = json.loads(Path(__file__).with_name("flink_rest_answers.json").read_text())
PATHS = json.loads(Path(__file__).with_name("flink_rest_paths.json").read_text())
ID = re.compile(r"[0-9a-f]{32}")

#: Paths of Flink that penstock lacks, by their beginnings.
NOT_HERE = {
    "/applications/": "a program is no thing of its own here: its jobs are",
    "/datasets": "cached results belong to the program that made them",
    "/jars": "programs are run by penstock run",
    "/jobmanager/profiler": "flame graphs are there",
    "/taskmanagers/{taskmanagerid}/profiler": "flame graphs are there",
    "/jobs/{jobid}/clientHeartbeat": "a job ends with the process of its client",
    "/jobs/{jobid}/coordinators/": "coordinators answer their readers alone",
    "/jobs/{jobid}/jobmanager/log-url": "logs have one place",
    "/jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url": "logs have one place",
    "/jobs/{jobid}/rescales/": "rescalings have no history",
    "/jobs/{jobid}/yarn-": "for a proxy of YARN that passes on GET alone",
}
#: Paths that answer with a file.
TEXTS = ("/log", "/logs/{filename}")

#: Fields beyond Flink's.
BEYOND = {
    "/taskmanagers": {"$.lost", "$.taskmanagers[].cpuLoad", "$.taskmanagers[].memoryUsed"},
    "/jobs/{jobid}/vertices/{vertexid}/backpressure": {"$.subtasks[].attempt-number"},
}


def kind(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)) or value == "NaN":
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def flatten(value, at="$", found=None):
    found = {} if found is None else found
    found.setdefault(at, set()).add(kind(value))
    if isinstance(value, dict):
        for key, inner in value.items():
            flatten(inner, f"{at}.{':id' if ID.fullmatch(key) else key}", found)
    elif isinstance(value, list):
        for inner in value:
            flatten(inner, f"{at}[]", found)
    return found


def differences(expected, answer):
    """Return unexpected fields, missing fields, and fields of another type."""
    found = flatten(answer)
    wrong = []
    for path, kinds in expected.items():
        parent = path.rpartition("[]" if path.endswith("[]") else ".")[0]
        if path not in found:
            # Below an empty list or null nothing can be compared.
            if "object" in found.get(parent, ()) or parent == "$":
                wrong.append(f"missing {path}")
        elif not found[path] <= set(kinds.split("|")):
            wrong.append(f"{path} is {found[path]}, not {kinds}")
    unknown = [path for path in found if path not in expected]
    return wrong + [f"beyond {path}" for path in unknown if not _below_unknown(path, expected)]


def _below_unknown(path, expected):
    """Return whether Flink's answer was empty there: an empty list or object, or null."""
    while "." in path or "[]" in path:
        path = path[: max(path.rfind("."), path.rfind("[]"))]
        if path in expected:
            inside = [other for other in expected if other.startswith((path + ".", path + "[]"))]
            return not inside or "null" in expected[path]
    return False


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(folder / "run"))
    job, client, job_id = running_job(
        folder / "stop",
        **{
            # The last ten are known: the one requested below is among them to the end.
            "execution.checkpointing.interval": "1 h",
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        },
    )
    vertices = client.get(f"/jobs/{job_id}")["vertices"]
    for vertex in vertices:
        client.until(
            f"/jobs/{job_id}/vertices/{vertex['id']}/backpressure",
            lambda found: len(found["subtasks"]) > 0,
        )
    assert client.ask(f"/jobs/{job_id}/checkpoints", "POST", {})[0] == 202
    checkpoints = client.until(
        f"/jobs/{job_id}/checkpoints", lambda found: found["counts"]["completed"] > 0
    )
    workers = client.until(
        "/taskmanagers/metrics", lambda found: {"id": "Status.JVM.CPU.Load"} in found
    )
    assert workers
    yield {
        "client": client,
        "job": job,
        "parts": {
            "jobid": job_id,
            "vertexid": vertices[1]["id"],
            "subtaskindex": 0,
            "attempt": 0,
            "checkpointid": checkpoints["latest"]["completed"]["id"],
            "taskmanagerid": client.get("/taskmanagers")["taskmanagers"][0]["id"],
        },
    }
    (folder / "stop").touch()
    job.get_job_execution_result().result()
    monkeypatch.undo()


READ = [
    endpoint.path
    for endpoint in ENDPOINTS
    if endpoint.method == "GET"
    and "triggerid" not in endpoint.path
    and not endpoint.path.endswith(
        ("/stdout", "/state", "/state/scan")
    )  # one is rejected with an explanation, one elsewhere
]


@pytest.mark.parametrize("path", READ)
def test_fields_and_types_of_answers(path, watched):
    name = "jobmanager.log" if path.startswith("/jobmanager") else "taskmanager.log"
    answer = watched["client"].get(path.format(**{**watched["parts"], "filename": name}))
    if path.endswith(TEXTS):
        assert ANSWERS[path] == {"$": "text/plain"}
        assert isinstance(answer, bytes)
    elif path in ANSWERS:
        beyond = {f"beyond {field}" for field in BEYOND.get(path, ())}
        assert set(differences(ANSWERS[path], answer)) - beyond == set()


def test_every_path_of_flink_is_here_or_said_to_be_missing():
    own = {endpoint.path for endpoint in ENDPOINTS}
    missing = set(PATHS) - own
    for beginning in NOT_HERE:
        here = {path for path in missing if path.startswith(beginning)}
        assert here, beginning
        missing -= here
    assert missing == set()
    assert own - set(PATHS) == {
        "/jobs/{jobid}/state",
        "/jobs/{jobid}/state/scan",
        "/jobs/{jobid}/vertices/{vertexid}/records",
    }


def test_every_answer_was_recorded_of_flink():
    recorded = {
        tuple(path.removesuffix("?get").split(" ")) if " " in path else ("GET", path)
        for path in (path.removesuffix("?get") for path in ANSWERS)
    }
    own = {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    assert recorded <= own
    assert own - recorded == {
        ("GET", "/jobs/{jobid}/state"),
        ("GET", "/jobs/{jobid}/state/scan"),
        ("GET", "/jobs/{jobid}/vertices/{vertexid}/records"),
        # Files of standard output, which are empty texts in Flink and rejected here with a reason.
        ("GET", "/jobmanager/stdout"),
        ("GET", "/taskmanagers/{taskmanagerid}/stdout"),
        # Flink rejects them, since 1.9.
        ("PATCH", "/jobs/{jobid}/rescaling"),
        ("GET", "/jobs/{jobid}/rescaling/{triggerid}"),
    }


def test_requirements_of_resources_are_taken_as_they_are_given(watched):
    client, path = (
        watched["client"],
        "/jobs/{jobid}/resource-requirements".format(**watched["parts"]),
    )
    status, answer = client.ask(path, "PUT", client.get(path))
    assert (status, differences(ANSWERS["PUT /jobs/{jobid}/resource-requirements"], answer)) == (
        200,
        [],
    )


def test_a_rejection_has_flinks_form(watched):
    status, answer = watched["client"].ask("/jobs", "POST", {})
    assert (status, differences(ANSWERS["POST /jobs"], answer)) == (501, [])


def test_a_job_is_stopped_and_a_cluster_ended_as_flinks(tmp_path):
    job, client, job_id = running_job(
        tmp_path / "stop",
        **{"execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")},
    )
    status, trigger = client.ask(f"/jobs/{job_id}/stop", "POST", {"drain": False})
    assert (status, differences(ANSWERS["POST /jobs/{jobid}/stop"], trigger)) == (202, [])
    done = client.until(
        f"/jobs/{job_id}/savepoints/{trigger['request-id']}",
        lambda found: found["status"]["id"] == "COMPLETED",
    )
    assert differences(ANSWERS["/jobs/{jobid}/savepoints/{triggerid}"], done) == []
    job.get_job_execution_result().result()
    job, client, job_id = running_job(tmp_path / "another")
    status, answer = client.ask("/cluster", "DELETE")
    assert (status, differences(ANSWERS["DELETE /cluster"], answer)) == (200, [])
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()


def test_values_of_metrics(watched):
    client, parts = watched["client"], watched["parts"]
    vertex = "/jobs/{jobid}/vertices/{vertexid}".format(**parts)
    for path, name in (
        (f"{vertex}/metrics", "0.numRecordsIn,1.busyTimeMsPerSecond"),
        (f"{vertex}/subtasks/metrics", "numRecordsIn"),
        (f"/jobs/{parts['jobid']}/metrics", "numberOfCompletedCheckpoints,uptime"),
    ):
        template = path.replace(parts["jobid"], "{jobid}").replace(parts["vertexid"], "{vertexid}")
        answer = client.get(f"{path}?get={name}")
        assert differences(ANSWERS[f"{template}?get"], answer) == []
        assert [one["id"] for one in answer] == name.split(",")
    assert client.get(f"{vertex}/metrics?get=nope") == []
    chosen = client.get(f"{vertex}/subtasks/metrics?get=numRecordsIn&agg=min,max&subtasks=0-1")
    assert set(chosen[0]) == {"id", "min", "max"}
    assert client.get(f"{vertex}/subtasks/metrics?get=numRecordsIn&subtasks=7,9-12") == []


def test_figures_of_a_vertex_are_those_of_its_subtasks(watched):
    client, parts = watched["client"], watched["parts"]
    found = client.until(
        "/jobs/{jobid}".format(**parts),
        lambda job: all(v["metrics"]["read-records"] > 0 for v in job["vertices"][1:]),
    )
    source, mapper, _ = found["vertices"]
    assert source["metrics"]["read-records"] == 0
    assert source["metrics"]["write-records"] > 0
    assert source["metrics"]["write-records-complete"]
    assert mapper["parallelism"] == 2
    assert mapper["tasks"]["RUNNING"] == 2
    assert found["status-counts"]["RUNNING"] == 3
    assert [node["id"] for node in found["plan"]["nodes"]] == [
        vertex["id"] for vertex in reversed(found["vertices"])
    ]
    assert found["plan"]["nodes"][0]["inputs"][0]["ship_strategy"] == "HASH"
    detail = client.get("/jobs/{jobid}/vertices/{vertexid}".format(**parts))
    records = [one["metrics"]["read-records"] for one in detail["subtasks"]]
    spread = detail["aggregated"]["metrics"]["read-records"]
    assert (spread["min"], spread["max"], spread["sum"]) == (
        min(records),
        max(records),
        sum(records),
    )


def test_triggers_are_answered_with_an_id_and_later_with_the_outcome(watched):
    client, job = watched["client"], "/jobs/" + watched["parts"]["jobid"]
    status, trigger = client.ask(f"{job}/checkpoints", "POST", {"checkpointType": "FULL"})
    assert (status, differences(ANSWERS["POST /jobs/{jobid}/checkpoints"], trigger)) == (202, [])
    done = client.until(
        f"{job}/checkpoints/{trigger['request-id']}",
        lambda found: found["status"]["id"] == "COMPLETED",
    )
    assert differences(ANSWERS["/jobs/{jobid}/checkpoints/{triggerid}"], done) == []
    ids = [one["id"] for one in client.get(f"{job}/checkpoints")["history"]]
    assert done["operation"]["checkpointId"] in ids
    own = "0123456789abcdef" * 2
    for _ in range(2):  # requested twice, done once
        status, trigger = client.ask(f"{job}/savepoints", "POST", {"triggerId": own})
        assert (status, trigger) == (202, {"request-id": own})
    done = client.until(
        f"{job}/savepoints/{own}", lambda found: found["status"]["id"] == "COMPLETED"
    )
    assert differences(ANSWERS["/jobs/{jobid}/savepoints/{triggerid}"], done) == []
    assert Path(done["operation"]["location"], "_metadata").exists()
    assert len(list(Path(done["operation"]["location"]).parent.iterdir())) == 1
    latest = client.get(f"{job}/checkpoints")["latest"]["savepoint"]
    assert latest["external_path"] == done["operation"]["location"]


def test_savepoints_are_deleted_and_checkpoints_are_not(watched):
    client, job = watched["client"], "/jobs/" + watched["parts"]["jobid"]

    def outcome(path, body):
        status, trigger = client.ask(path, "POST", body)
        # Not accepted for later, as in Flink.
        assert status == (200 if path == "/savepoint-disposal" else 202)
        assert differences(ANSWERS["POST /savepoint-disposal"], trigger) == []
        at = path if path.startswith("/savepoint") else f"{job}/savepoints"
        return client.until(
            f"{at}/{trigger['request-id']}", lambda found: found["status"]["id"] == "COMPLETED"
        )["operation"]

    location = outcome(f"{job}/savepoints", {})["location"]
    assert outcome("/savepoint-disposal", {"savepoint-path": location}) == {}
    assert not Path(location).exists()
    again = outcome("/savepoint-disposal", {"savepoint-path": location})
    assert "CheckpointStorageError" in again["failure-cause"]["class"]
    latest = client.get(f"{job}/checkpoints")["latest"]["completed"]["external_path"]
    refused = outcome("/savepoint-disposal", {"savepoint-path": latest})["failure-cause"]
    assert latest in refused["stack-trace"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nonsense", 404),
        ("/jobs/xyz", 400),
        (f"/jobs/{'0' * 32}", 404),
        ("/jobs/{jobid}/vertices/zz", 400),
        (f"/jobs/{{jobid}}/vertices/{'0' * 32}", 404),
        ("/jobs/{jobid}/vertices/{vertexid}/subtasks/99", 404),
        ("/jobs/{jobid}/vertices/{vertexid}/subtasks/-1", 400),
        ("/jobs/{jobid}/vertices/{vertexid}/subtasks/0/attempts/7", 404),
        ("/jobs/{jobid}/checkpoints/details/99999", 404),
        ("/jobs/{jobid}/checkpoints/details/x", 400),
        (f"/jobs/{{jobid}}/savepoints/{'0' * 32}", 404),
        (f"/jobs/{{jobid}}/checkpoints/{'0' * 32}", 404),
        ("/jobs/{jobid}/vertices/{vertexid}/subtasks/metrics?get=x&agg=mode", 400),
        ("/jobs/{jobid}/vertices/{vertexid}/subtasks/metrics?subtasks=a", 400),
        ("/jobs/{jobid}/exceptions?maxExceptions=x", 400),
        ("/taskmanagers/nobody", 404),
    ],
)
def test_each_error_has_a_text(path, status, watched):
    """The statuses are Flink's."""
    found = watched["client"].ask(path.format(**watched["parts"]))
    assert found[0] == status
    assert list(found[1]) == ["errors"]
    assert all(isinstance(text, str) and text for text in found[1]["errors"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PATCH", "/jobs/{jobid}?mode=foo", None, 400),
        ("PATCH", f"/jobs/{'0' * 32}", None, 404),
        ("POST", "/jobs/{jobid}/savepoints", {"cancel-job": "x"}, 400),
        ("POST", "/jobs/{jobid}/savepoints", {"formatType": "XML"}, 400),
        ("POST", "/jobs/{jobid}/savepoints", {"triggerId": "short"}, 400),
        ("POST", "/jobs/{jobid}/savepoints", {"nonsense": 1}, 400),
        ("POST", "/jobs/{jobid}/stop", {"drain": 1}, 400),
        ("POST", "/jobs/{jobid}/stop", [], 400),
        ("POST", "/jobs/{jobid}/stop", b"{", 400),
        ("POST", "/jobs/{jobid}/checkpoints", {"checkpointType": "INCREMENTAL"}, 400),
        ("PUT", "/jobs/{jobid}/resource-requirements", {"x": {}}, 400),
        ("PATCH", "/jobs/{jobid}/rescaling?parallelism=0", None, 400),
        ("GET", f"/jobs/{{jobid}}/rescaling/{'0' * 32}", None, 404),
        ("POST", "/jobs", {}, 501),
        ("POST", "/savepoint-disposal", {}, 400),
        ("GET", f"/savepoint-disposal/{'0' * 32}", None, 404),
        ("POST", "/overview", {}, 405),
        ("DELETE", "/jobs/{jobid}", None, 405),
    ],
)
def test_invalid_requests_change_nothing(method, path, body, status, watched):
    found = watched["client"].ask(path.format(**watched["parts"]), method, body)
    assert (found[0], list(found[1])) == (status, ["errors"])
    job = "/jobs/{jobid}".format(**watched["parts"])
    assert watched["client"].get(f"{job}/status") == {"status": "RUNNING"}


def test_paths_without_a_version_and_the_document_of_the_interface(watched):
    client = watched["client"]
    assert client.ask("/jobs/overview", prefix="")[0] == 200
    status, document = client.ask("/openapi.json", prefix="")
    assert status == 200
    assert document["openapi"].startswith("3.")
    documented = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    assert documented == {(one.method, f"/v1{one.path}") for one in ENDPOINTS}
    stop = document["paths"]["/v1/jobs/{jobid}/stop"]["post"]
    assert "drain" in json.dumps(stop["requestBody"])
    assert client.ask("/metrics", prefix="")[1].startswith(b"# HELP flink_jobmanager_")

"""A running job continues with another parallelism, and its results do not change."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import CheckpointedFunction, ParallelSourceFunction
from penstock.datastream.state import ListStateDescriptor
from support.rest_client import Client

from recovery.programs import environment

LANES, KEYS, EACH = 6, 10, 1000
LARGER_NETWORKS = {
    "taskmanager.network.memory.buffers-per-channel": "400",
    "taskmanager.numberOfTaskSlots": "2",
}
"""Makes a slot of three subtasks need more network buffers than one of two has."""
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class Lanes(ParallelSourceFunction, CheckpointedFunction):
    """Numbers in lanes, which any number of subtasks share; it ends once a file exists."""

    def __init__(self, ends):
        self.ends = ends
        self.lanes = {}

    def __reduce__(self):
        return Lanes, (self.ends,)

    def initialize_state(self, context):
        descriptor = ListStateDescriptor("lanes", PAIR)
        self.state = context.get_operator_state_store().get_list_state(descriptor)
        self.restored = context.is_restored()
        self.lanes = dict(self.state.get())

    def snapshot_state(self, context):
        self.state.update(list(self.lanes.items()))

    def open(self, runtime_context):
        if not self.restored:
            subtasks = runtime_context.get_number_of_parallel_subtasks()
            first = runtime_context.get_index_of_this_subtask()
            self.lanes = dict.fromkeys(range(first, LANES, subtasks), 0)

    def cancel(self):
        pass

    def run(self, ctx):
        while ctx.is_running():
            with ctx.get_checkpoint_lock():
                for lane, position in self.lanes.items():
                    if position < EACH:
                        ctx.collect(lane * EACH + position)
                        self.lanes[lane] += 1
            if all(position == EACH for position in self.lanes.values()) and self.ends.exists():
                return
            time.sleep(0.001)


EXPECTED = sorted(f"{key} {n}" for key in range(KEYS) for n in range(1, LANES * EACH // KEYS + 1))


def counted(env, ends):
    return (
        env.add_source(Lanes(ends), "Lanes", Types.LONG())
        .map(lambda number: (number % KEYS, 1), PAIR)
        .key_by(lambda pair: pair[0], Types.LONG())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .name("Counts")
        .map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
    )


def watched(tmp_path, monkeypatch, options=None):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    return environment({"execution.target": "local", "rest.bind-port": "0", **(options or {})})


def parallelisms(client, job_id):
    return {v["name"]: v["parallelism"] for v in client.get(f"/jobs/{job_id}")["vertices"]}


def network_segments(found):
    """Return the sizes of the workers' pools, as the REST interface shows them."""
    workers = found["taskmanagers"]
    return {worker["memoryConfiguration"]["networkMemory"] >> 15 for worker in workers}


def rescale(client, job_id, parallelism):
    at = f"/jobs/{job_id}/rescaling"
    status, trigger = client.ask(f"{at}?parallelism={parallelism}", "PATCH")
    assert status == 202, trigger
    done = client.until(
        f"{at}/{trigger['request-id']}", lambda found: found["status"]["id"] == "COMPLETED"
    )
    assert done["operation"] == {}
    job = client.get(f"/jobs/{job_id}")
    assert job["state"] == "RUNNING"
    assert {v["status"] for v in job["vertices"]} <= {"RUNNING", "FINISHED"}


@pytest.mark.parametrize(
    ("runtime", "options", "segments"),
    [
        ("native", {}, 2048),
        (
            "native",
            {"execution.checkpointing.unaligned.enabled": "true", **LARGER_NETWORKS},
            # Two slots of three subtasks: a partition and a gate of three channels.
            2 * 2 * (3 * 400 + 8),
        ),
        ("pure", {"jobmanager.execution.failover-strategy": "full"}, 2048),
    ],
)
def test_files_are_exactly_those_of_a_job_that_kept_its_parallelism(
    tmp_path, monkeypatch, runtime, options, segments
):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    env = watched(tmp_path, monkeypatch, options)
    sink = (
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    counted(env, tmp_path / "ends").sink_to(sink)
    job = env.execute_async("rescaled")
    client, job_id = Client.of_last_cluster(), str(job.get_job_id())
    client.until(f"/jobs/{job_id}/checkpoints", lambda found: found["counts"]["completed"] > 0)
    for parallelism in (3, 1, 3):
        rescale(client, job_id, parallelism)
        assert set(parallelisms(client, job_id).values()) == {parallelism}
        detail = client.get(f"/jobs/{job_id}")["vertices"][0]["id"]
        subtasks = client.get(f"/jobs/{job_id}/vertices/{detail}")["subtasks"]
        assert [one["subtask"] for one in subtasks] == list(range(parallelism))
    assert client.get(f"/jobs/{job_id}/metrics?get=numRestarts")[0]["value"] == "0"
    client.until("/taskmanagers", lambda found: network_segments(found) == {segments})
    (tmp_path / "ends").touch()
    job.get_job_execution_result().result()
    parts = [path for path in (tmp_path / "out").iterdir() if path.name.startswith("part-")]
    assert sorted(line for path in parts for line in path.read_text().splitlines()) == EXPECTED


def test_results_are_collected_once_and_what_is_fixed_stays(tmp_path, monkeypatch):
    """A source with an enumerator, and requirements of each vertex, as Flink accepts them."""
    env = watched(tmp_path, monkeypatch)
    source = NumberSequenceSource(0, LANES * EACH - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers")
    gate = Path(tmp_path / "ends")

    def slowly(number):
        if not gate.exists():
            time.sleep(0.05)  # the job outlasts its two rescalings even on a busy machine
        return (number % KEYS, 1)

    stream = numbers.map(slowly, PAIR).key_by(lambda pair: pair[0], Types.LONG())
    counts = stream.reduce(lambda one, other: (one[0], one[1] + other[1])).name("Counts")
    alone = counts.map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).name("Alone")
    alone.set_parallelism(1)
    with ThreadPoolExecutor(1) as reader, alone.execute_and_collect("collected") as results:
        # A checkpoint waits for unread results.
        found = reader.submit(sorted, results)
        client = Client.of_last_cluster()
        job_id = str(results.get_job_client().get_job_id())
        client.until(f"/jobs/{job_id}/checkpoints", lambda found: found["counts"]["completed"] > 0)
        rescale(client, job_id, 3)
        names = parallelisms(client, job_id)
        fixed = next(name for name in names if "Alone" in name)
        assert {name: n for name, n in names.items() if name != fixed} == {
            name: 3 for name in names if name != fixed
        }
        assert names[fixed] == 1
        path = f"/jobs/{job_id}/resource-requirements"
        wanted = client.get(path)
        counting = next(
            v["id"] for v in client.get(f"/jobs/{job_id}")["vertices"] if v["name"] == "Counts"
        )
        wanted[counting]["parallelism"] = {"lowerBound": 1, "upperBound": 2}
        assert client.ask(path, "PUT", wanted) == (200, {})
        client.until(
            f"/jobs/{job_id}",
            lambda job: (
                all(v["status"] == "RUNNING" for v in job["vertices"])
                and {v["parallelism"] for v in job["vertices"]} == {1, 2, 3}
            ),
        )
        gate.touch()
        assert found.result() == EXPECTED


def test_an_impossible_rescaling_is_rejected_with_a_reason(tmp_path, monkeypatch):
    env = watched(tmp_path, monkeypatch)
    env.set_max_parallelism(4)
    env.disable_operator_chaining()
    counted(env, tmp_path / "ends").print()
    job = env.execute_async("refused")
    client, job_id = Client.of_last_cluster(), str(job.get_job_id())
    client.until(
        f"/jobs/{job_id}",
        lambda found: all(v["status"] == "RUNNING" for v in found["vertices"]),
    )

    def refusal(path, method="PATCH", body=None):
        status, found = client.ask(f"/jobs/{job_id}{path}", method, body)
        assert 400 <= status < 500, found
        return found["errors"][0]

    assert "1 to 4 subtasks" in refusal("/rescaling?parallelism=5")
    for wrong in ("", "0", "x", "-1", "9" * 30):
        assert "parallelism must be a number" in refusal(f"/rescaling?parallelism={wrong}")
    requirements = client.get(f"/jobs/{job_id}/resource-requirements")
    first = next(iter(requirements))
    bounds = {"parallelism": {"lowerBound": 1, "upperBound": 3}}
    put = "/resource-requirements"
    assert "has no bounds for vertex" in refusal(put, "PUT", {first: bounds})
    assert "must have equal parallelism" in refusal(put, "PUT", {**requirements, first: bounds})
    assert "no vertex" in refusal(put, "PUT", {**requirements, "0" * 32: bounds})
    upside_down = {"parallelism": {"lowerBound": 3, "upperBound": 1}}
    assert "lower <= upper" in refusal(put, "PUT", {**requirements, first: upside_down})
    assert "write the bounds of a vertex" in refusal(put, "PUT", {**requirements, first: 3})
    assert set(parallelisms(client, job_id).values()) == {2}
    (tmp_path / "ends").touch()
    job.get_job_execution_result().result()


def test_a_job_without_checkpoints_keeps_its_parallelism(tmp_path, monkeypatch):
    from support.rest_client import running_job

    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    job, client, job_id = running_job(tmp_path / "stop")
    status, found = client.ask(f"/jobs/{job_id}/rescaling?parallelism=3", "PATCH")
    assert status == 409
    assert "execution.checkpointing.interval" in found["errors"][0]
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()

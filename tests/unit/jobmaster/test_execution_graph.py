"""Attaching a JobGraph, aggregate states, deployments and regions (internals M41, M42, M44)."""

import pytest
from penstock.graph import partitioners as p
from penstock.graph.ids import ExecutionAttemptID, ResultPartitionID
from penstock.graph.job_graph import IntermediateDataSet
from penstock.jobmaster.scheduling.deployment import task_deployment
from penstock.jobmaster.scheduling.execution import IllegalExecutionStateError
from penstock.jobmaster.scheduling.execution_graph import (
    ExecutionGraph,
    IllegalJobStateError,
    JobError,
    aggregate_state,
)
from penstock.jobmaster.scheduling.regions import PipelinedRegions
from penstock.jobmaster.scheduling.states import JOB_TRANSITIONS, ExecutionState, JobStatus
from penstock.jobmaster.slots.slots import SlotOffer
from support.graphs import Program, vertex_named, word_count

S = ExecutionState


def test_attaching():
    job = word_count(parallelism=3).job_graph()
    graph = ExecutionGraph(job, 0)
    assert [len(v.subtasks) for v in graph.vertices.values()] == [1, 3, 3]
    assert len(graph.results) == 2
    assert [s.task_name for s in graph.subtasks()][:2] == [
        "Source: Text (1/1)",
        "Flat Map (1/3)",
    ]


def test_missing_predecessor_is_refused():
    job = word_count().job_graph()
    job.vertices = dict(reversed(job.vertices.items()))
    with pytest.raises(JobError, match="no vertex before it"):
        ExecutionGraph(job, 0)


def test_duplicate_dataset_is_refused():
    job = word_count().job_graph()
    text, words, _ = job.vertices.values()
    words.produced.append(IntermediateDataSet(text.produced[0].id, words.id))
    with pytest.raises(JobError, match="two data sets"):
        ExecutionGraph(job, 0)


def test_duplicate_vertex_is_refused():
    job = word_count().job_graph()
    first = next(iter(job.vertices.values()))
    job.vertices[b"another key......"] = first
    with pytest.raises(JobError, match="two vertices"):
        ExecutionGraph(job, 0)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([S.FAILED, S.CANCELING, S.RUNNING], S.FAILED),
        ([S.CANCELING, S.CANCELED], S.CANCELING),
        ([S.CANCELED, S.RUNNING], S.CANCELED),
        ([S.INITIALIZING, S.RUNNING], S.INITIALIZING),
        ([S.RUNNING, S.FINISHED, S.CREATED], S.RUNNING),
        ([S.FINISHED, S.FINISHED], S.FINISHED),
        ([S.FINISHED, S.CREATED], S.RUNNING),
        ([S.CREATED, S.SCHEDULED, S.DEPLOYING], S.CREATED),
    ],
)
def test_aggregate_state(states, expected):
    assert aggregate_state(states) is expected


def test_e4_no_way_out_of_a_globally_terminal_state():
    """E-4, in the table itself."""
    for status in JobStatus:
        if status.is_globally_terminal:
            assert not JOB_TRANSITIONS[status]


def test_e5_finished_needs_every_subtask():
    """E-5: the graph itself refuses to finish early."""
    graph = ExecutionGraph(word_count().job_graph(), 0)
    graph.move(JobStatus.CREATED, 1)
    graph.move(JobStatus.RUNNING, 2)
    with pytest.raises(IllegalJobStateError):
        graph.move(JobStatus.FINISHED, 3)
    with pytest.raises(IllegalJobStateError):
        graph.move(JobStatus.CANCELED, 3)
    assert graph.status_timestamps[JobStatus.RUNNING] == 2


def test_ids_round_trip():
    attempt = ExecutionAttemptID(b"g" * 16, b"v" * 16, 3, 7)
    data = attempt.to_bytes()
    assert len(data) == 40
    assert data[32:] == b"\0\0\0\x03\0\0\0\x07"
    assert ExecutionAttemptID.from_bytes(data) == attempt
    partition = ResultPartitionID(b"d" * 16, 2, attempt)
    assert len(partition.to_bytes()) == 60
    assert ResultPartitionID.from_bytes(partition.to_bytes()) == partition
    for parse in (ExecutionAttemptID.from_bytes, ResultPartitionID.from_bytes):
        with pytest.raises(ValueError):
            parse(b"short")


def deployed(job):
    graph = ExecutionGraph(job, 0)
    for number, subtask in enumerate(graph.subtasks()):
        subtask.current.assign_slot(
            SlotOffer(bytes([number]), f"worker-{number}", "10.0.0.1", 4000 + number)
        )
    return graph


def test_deployment_of_a_consumer_names_its_producers():
    settings = {"k": "v", "rest.token": "not for user code"}
    job = word_count(parallelism=2, configuration=settings).job_graph()
    graph = deployed(job)
    words = vertex_named(job, "Flat Map")
    count = graph.vertices[vertex_named(job, "Count -> Sink: Print").id].subtasks[1]
    deployment = task_deployment(graph, count)
    assert (deployment.subtask, deployment.parallelism, deployment.attempt_number) == (1, 2, 0)
    assert deployment.configuration == {"k": "v"}
    assert deployment.code_id == f"{job.job_id.hex()}/{count.job_vertex.id.hex()}"
    assert deployment.partitions == ()
    (gate,) = deployment.gates
    assert [(c.subpartition, c.executor_id, c.port) for c in gate.channels] == [
        (1, "worker-1", 4001),
        (1, "worker-2", 4002),
    ]
    ids = [ResultPartitionID.from_bytes(c.partition_id) for c in gate.channels]
    producers = graph.vertices[words.id].subtasks
    assert [(i.partition, i.producer) for i in ids] == [
        (n, producer.current.attempt_id) for n, producer in enumerate(producers)
    ]


def test_deployment_of_a_producer_counts_its_subpartitions():
    job = word_count(parallelism=3, buffer_timeout_ms=7).job_graph()
    graph = deployed(job)
    source = next(graph.subtasks())
    (partition,) = task_deployment(graph, source).partitions
    assert partition.num_subpartitions == 3
    assert (partition.partition_type, partition.flush_timeout_ms) == ("PIPELINED_BOUNDED", 7)


def test_written_values_are_read_back():
    """Every channel of every gate is a subpartition of a partition, and the reverse."""
    program = Program(parallelism=5)
    source = program.source("S", 3)
    rescaled = program.map(program.partition(source, p.RESCALE), "Rescaled", 7)
    program.reduce(rescaled, "Count", 2)
    graph = deployed(program.job_graph())
    written, read = set(), []
    for subtask in graph.subtasks():
        deployment = task_deployment(graph, subtask)
        for partition in deployment.partitions:
            written |= {(partition.partition_id, i) for i in range(partition.num_subpartitions)}
        for gate in deployment.gates:
            read += [(c.partition_id, c.subpartition) for c in gate.channels]
    assert len(read) == len(set(read))
    assert set(read) == written


def test_deployments_share_what_all_read():
    """A thousand producers and a thousand consumers have a million channels between them."""
    program = Program(parallelism=5)
    source = program.source("S", 3)
    spread = program.map(program.partition(source, p.REBALANCE), "Spread", 4)
    program.map(program.partition(spread, p.RESCALE), "Near", 2)
    graph = deployed(program.job_graph())
    shared = {}
    gates = {s.task_name: task_deployment(graph, s, shared).gates for s in graph.subtasks()}
    first, *others = [gates[f"Spread ({n}/4)"][0] for n in range(1, 5)]
    assert all(gate.producers is first.producers for gate in others)
    assert [gate.subpartitions for gate in (first, *others)] == [0, 1, 2, 3]
    assert [len(gates[f"Near ({n}/2)"][0].producers) for n in (1, 2)] == [2, 2]


def test_deployment_needs_slots():
    graph = ExecutionGraph(word_count().job_graph(), 0)
    source, words, *_ = graph.subtasks()
    with pytest.raises(IllegalExecutionStateError):
        task_deployment(graph, source)
    words.current.assign_slot(SlotOffer(b"a", "w", "h", 1))
    with pytest.raises(IllegalExecutionStateError, match="Source: Text"):
        task_deployment(graph, words)


class TestRegions:
    """E9: vertices connected by pipelined edges."""

    def regions(self, program, **settings):
        graph = ExecutionGraph(program.job_graph(**settings), 0)
        return [len(r.subtasks) for r in PipelinedRegions(graph).regions]

    def test_all_to_all_is_one_region(self):
        assert self.regions(word_count(parallelism=4)) == [9]

    def test_disjoint_pipelines_are_apart(self):
        program = Program(parallelism=2)
        for _ in range(2):
            program.reduce(program.source())
        assert self.regions(program) == [4, 4]

    def test_pointwise_edges_give_one_region_per_run(self):
        program = Program(parallelism=4)
        a = program.source("A", 4)
        program.map(program.partition(a, p.RESCALE), "B", 2)
        assert self.regions(program) == [3, 3]

    def test_an_embarrassingly_parallel_chain(self):
        program = Program(parallelism=3)
        program.map(program.source())
        assert self.regions(program) == [1, 1, 1]

    def test_blocking_edges_separate(self):
        assert self.regions(word_count(parallelism=2), batch=True, blocking_shuffles=True) == [
            1,
            1,
            1,
            1,
            1,
        ]

"""The network buffers of a slot: the sum for its tasks, whatever slots their partners have.

Method: the sum that the JobGraph gives is compared with the needs of deployed subtasks, each in a
TaskExecutor of its own.
"""

import pytest
from penstock.graph import partitioners as p
from penstock.graph.job_graph import BLOCKING
from penstock.jobmaster.cluster_settings import ClusterSettings
from penstock.jobmaster.scheduling.deployment import task_deployment
from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph
from penstock.jobmaster.scheduling.slot_network_buffers import slot_network_buffers
from penstock.jobmaster.slots.slots import SlotOffer
from penstock.rpc.network_buffer_needs import NetworkBufferNeeds, sum_of
from support.graphs import Program, word_count

NO_FLOATING = {"taskmanager.network.memory.floating-buffers-per-gate": "1"}


def computed(job, options=(), **parallelisms):
    """Return the needs of a slot; parallelisms are those of vertices, by name."""
    wanted = {id_: parallelisms.get(v.name, v.parallelism) for id_, v in job.vertices.items()}
    return slot_network_buffers(job, wanted, ClusterSettings.from_configuration(dict(options)))


def needs_of_slots(job, options=()):
    """Return the needs of each slot's tasks when all channels are remote."""
    graph = ExecutionGraph(job, 0)
    for number, subtask in enumerate(graph.subtasks()):
        subtask.current.assign_slot(SlotOffer(b"%d" % number, f"worker-{number}", "h", 1))
    slots = {}
    for subtask in graph.subtasks():
        slot = subtask.job_vertex.slot_sharing_group, subtask.subtask
        needs = NetworkBufferNeeds.of(task_deployment(graph, subtask), "elsewhere", dict(options))
        slots.setdefault(slot, []).append(needs)
    return [sum_of(needs) for needs in slots.values()]


def pointwise(sources, maps):
    program = Program(parallelism=1)
    source = program.source(parallelism=sources)
    program.map(program.partition(source, p.RESCALE), "Map", maps)
    return program.job_graph()


def test_each_user_gets_the_most_that_it_can_use():
    # Text (1) → Flat Map (3) → Count (3): partitions of 3 and 3, gates of 1 and 3.
    job = word_count(parallelism=3).job_graph()
    assert computed(job) == NetworkBufferNeeds(
        partitions=2 * (3 * 2 + 8), channels=2 * (1 + 3), gates=2 * 8
    )


@pytest.mark.parametrize("options", [{}, NO_FLOATING])
@pytest.mark.parametrize(
    "job",
    [
        word_count(parallelism=1).job_graph(),
        word_count(parallelism=7).job_graph(),
        pointwise(2, 7),
        pointwise(7, 2),
        pointwise(3, 3),
    ],
)
def test_no_slot_needs_more(job, options):
    most = computed(job, options)
    for needs in needs_of_slots(job, options):
        assert needs.partitions <= most.partitions
        assert needs.channels <= most.channels
        assert needs.gates <= most.gates


def test_exclusive_buffers_are_those_of_the_configuration():
    options = {"taskmanager.network.memory.buffers-per-channel": "5"}
    job = word_count(parallelism=3).job_graph()
    assert computed(job, options).channels == 5 * (1 + 3)


def test_a_writer_can_begin_a_second_buffer():
    options = NO_FLOATING | {"taskmanager.network.memory.buffers-per-channel": "0"}
    assert computed(word_count(parallelism=3).job_graph(), options) == NetworkBufferNeeds(8, 0, 2)


def test_stored_outputs_need_none():
    job = word_count(parallelism=3).job_graph()
    for vertex in job.vertices.values():
        for dataset in vertex.produced:
            dataset.type = BLOCKING
    assert computed(job) == NetworkBufferNeeds(0, 2 * (1 + 3), 16)


def test_the_largest_slot_sharing_group_decides():
    job = word_count(parallelism=3).job_graph()
    [*_, count] = job.vertices.values()
    count.slot_sharing_group = "apart"
    assert computed(job) == NetworkBufferNeeds(partitions=2 * (3 * 2 + 8), channels=2, gates=8)


def test_a_higher_parallelism_counts():
    job = word_count(parallelism=3).job_graph()
    wide = {"Flat Map": 5, "Count -> Sink: Print": 5}
    assert computed(job, **wide) == computed(word_count(parallelism=5).job_graph())

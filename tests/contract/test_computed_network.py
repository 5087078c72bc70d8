"""A worker's pool has the computed size, or the configured one, and tasks get their buffers of it.

Method: the partitions and gates of a wide job's tasks are created in the network of one worker.
"""

import pytest
from penstock.common.options.network import LEAST_COMPUTED_SEGMENTS
from penstock.errors import InsufficientBuffersError
from penstock.jobmaster.cluster_settings import ClusterSettings
from penstock.jobmaster.scheduling.deployment import task_deployment
from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph
from penstock.jobmaster.scheduling.slot_network_buffers import slot_network_buffers
from penstock.jobmaster.slots.slots import SlotOffer
from penstock.rpc.job_credentials import DataPlaneSecret
from penstock.rpc.network_buffer_needs import NetworkBufferNeeds, sum_of
from penstock.taskexecutor.worker.job_networks import JobNetworks
from penstock.taskexecutor.worker.launch import LaunchSpec
from support.graphs import word_count

JOB = b"1" * 16


class Worker:
    """A worker whose slots run all tasks of a job."""

    def __init__(self, plane, parallelism, **options):
        self.plane = plane
        self.graph = ExecutionGraph(word_count(parallelism=parallelism).job_graph(), 0)
        self.slots = parallelism
        config = {"taskmanager.memory.segment-size": "1 kb", **options}
        jobs = {JOB.hex(): DataPlaneSecret(tls_enabled=False).credentials(JOB)}
        launch = LaunchSpec(("127.0.0.1", 1), "00", "worker", self.slots, config=config, jobs=jobs)
        wanted = {id_: vertex.parallelism for id_, vertex in self.graph.vertices.items()}
        self.needs = slot_network_buffers(
            self.graph.job, wanted, ClusterSettings.from_configuration(config)
        )
        self.networks = JobNetworks(launch)
        self.network = self.networks.open(JOB, self.needs)
        plane.environments.append(self.network)

    def deploy(self):
        """Create the partitions and gates of all tasks; return the buffers that they need."""
        for number, subtask in enumerate(self.graph.subtasks()):
            subtask.current.assign_slot(SlotOffer(b"%d" % number, "worker", "127.0.0.1", 1))
        made, needs = [], []
        for subtask in self.graph.subtasks():
            task = task_deployment(self.graph, subtask)
            needs.append(NetworkBufferNeeds.of(task, "worker", {}))
            made.extend(
                self.network.create_result_partition(
                    one.partition_id, one.num_subpartitions, one.partition_type
                )
                for one in task.partitions
            )
            for gate in task.gates:
                channels = [(c.partition_id, c.subpartition, None) for c in gate.channels]
                made.append(self.network.create_input_gate(channels))
        return made, sum_of(needs)


def test_a_wide_job_gets_what_it_needs(plane, caplog):
    with caplog.at_level("INFO", "penstock.taskexecutor.worker.job_networks"):
        worker = Worker(plane, 46)
    assert worker.network.total_segments == 46 * worker.needs.total
    assert f"pool of {46 * worker.needs.total} network buffers (computed)" in caplog.text
    assert f"the tasks of each of 46 slots can use {worker.needs}" in caplog.text
    made, needs = worker.deploy()
    assert LEAST_COMPUTED_SEGMENTS < needs.total <= worker.network.total_segments
    del made


def test_a_small_job_gets_the_least(plane):
    worker = Worker(plane, 2)
    assert 2 * worker.needs.total < LEAST_COMPUTED_SEGMENTS
    assert worker.network.total_segments == LEAST_COMPUTED_SEGMENTS
    assert worker.networks.computed_segments(JOB) == LEAST_COMPUTED_SEGMENTS


def test_a_configured_size_is_kept(plane, caplog):
    with caplog.at_level("INFO", "penstock.taskexecutor.worker.job_networks"):
        worker = Worker(plane, 2, **{"taskmanager.memory.network.segments": "5"})
    assert worker.network.total_segments == 5
    assert "5 network buffers (taskmanager.memory.network.segments; computed: 2048)" in caplog.text
    with pytest.raises(InsufficientBuffersError, match=r"taskmanager\.memory\.network\.segments"):
        worker.deploy()


def test_a_network_is_replaced_by_a_larger_one(plane):
    """A job that is rescaled returns its slots and requests larger ones."""
    worker = Worker(plane, 2)
    former = worker.networks.take(JOB)
    former.close()
    larger = worker.networks.open(JOB, NetworkBufferNeeds(partitions=2_000, gates=48))
    plane.environments.append(larger)
    assert larger.total_segments == 2 * 2_048 == worker.networks.computed_segments(JOB)

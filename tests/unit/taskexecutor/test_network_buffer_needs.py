"""Network buffers of a task: the declared sum is what the data plane reserves.

Method: the pure data plane, whose pool counts, creates partitions and gates of a deployment.
"""

from types import SimpleNamespace

import pytest
from penstock.errors import InsufficientBuffersError
from penstock.network.pure.environment import NetworkEnvironment
from penstock.rpc.network_buffer_needs import NetworkBufferNeeds, sum_of
from penstock.rpc.task_deployment import (
    GateDescriptor,
    PartitionDescriptor,
    ProducerDescriptor,
    TaskDeploymentDescriptor,
)
from penstock.taskexecutor.worker.launch import LaunchSpec
from penstock.taskexecutor.worker.metric_sender import worker_metrics
from penstock.taskexecutor.worker.slot_resources import SlotResources


def partition_id(number):
    return bytes([number]) * 60


def deployment(subpartitions=(), gates=(), partition_type="PIPELINED_BOUNDED"):
    """Return a task with partitions of so many subpartitions, and gates of remote producers."""
    partitions = tuple(
        PartitionDescriptor(partition_id(100 + number), count, partition_type, 100)
        for number, count in enumerate(subpartitions)
    )
    inputs = tuple(
        GateDescriptor(
            0,
            tuple(
                ProducerDescriptor(partition_id(10 * number + at), executor, "127.0.0.1", 1)
                for at, executor in enumerate(executors)
            ),
            0,
        )
        for number, executors in enumerate(gates)
    )
    return TaskDeploymentDescriptor(
        bytes(16), bytes(16), bytes(16), "Map", 0, 1, 1, 0, b"slot", "code", {}, partitions, inputs
    )


@pytest.mark.parametrize(
    ("subpartitions", "gates"),
    [
        ((), ()),
        ((1,), ()),
        ((3, 2), ()),
        ((), (["here"],)),
        ((), (["there", "here", "elsewhere"],)),
        ((4,), (["there"], ["here", "here"], ["there", "there"])),
    ],
)
@pytest.mark.parametrize("partition_type", ["PIPELINED_BOUNDED", "BLOCKING"])
def test_the_data_plane_promises_the_sum(subpartitions, gates, partition_type):
    task = deployment(subpartitions, gates, partition_type)
    network = NetworkEnvironment(executor_id="here", token=b"token", num_segments=64)
    made = []
    try:
        made.extend(
            network.create_result_partition(
                one.partition_id, one.num_subpartitions, one.partition_type
            )
            for one in task.partitions
        )
        for gate in task.gates:
            channels = [
                (c.partition_id, c.subpartition, None if c.executor_id == "here" else (c.host, 1))
                for c in gate.channels
            ]
            made.append(network.create_input_gate(channels))
        needs = NetworkBufferNeeds.of(task, "here", {})
        assert network._pool.required_segments == needs.total
    finally:
        for one in made:
            getattr(one, "release", getattr(one, "close", None))()
        network.close()


def test_stored_outputs_need_managed_memory_instead():
    needs = NetworkBufferNeeds.of(deployment((3,), (), "BLOCKING"), "here", {})
    assert needs == NetworkBufferNeeds()


def test_users_are_named():
    needs = NetworkBufferNeeds.of(deployment((3,), (["there", "there"],)), "here", {})
    assert needs == NetworkBufferNeeds(partitions=4, channels=4, gates=1)
    assert str(needs) == (
        "9 network buffers: 4 of partitions, 4 of channels from other TaskExecutors, "
        "1 of input gates"
    )
    assert sum_of([needs, needs, NetworkBufferNeeds()]) == NetworkBufferNeeds(8, 8, 2)


def test_exclusive_buffers_are_those_of_the_configuration():
    options = {"taskmanager.network.memory.buffers-per-channel": "5"}
    needs = NetworkBufferNeeds.of(deployment((), (["there", "there"],)), "here", options)
    assert needs.channels == 10


@pytest.mark.parametrize("promised", [NetworkBufferNeeds(), NetworkBufferNeeds(3, 4, 2)])
def test_a_task_for_which_too_few_are_left_is_rejected_with_the_sums(promised):
    needs = NetworkBufferNeeds(partitions=4, channels=4, gates=1)
    size = 9 + promised.total
    needs.check("Map", promised, size, 2048)
    with pytest.raises(InsufficientBuffersError) as caught:
        needs.check("Map", promised, size - 1, 2048)
    for part in (
        "Map needs 9 network buffers: 4 of partitions, 4 of channels",
        f"other tasks have {promised}",
        f"has {size - 1} for the job",
        "network.segments' from the configuration, set it to at least 2048",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize(("total", "promised", "percent"), [(64, 48, 75), (64, 96, 150), (0, 3, 0)])
def test_the_rest_interface_shows_the_share_that_is_promised(total, promised, percent):
    networks = SimpleNamespace(total_segments=total, available_segments=total)
    resources = SlotResources(LaunchSpec(("127.0.0.1", 1), "", "executor", 1))
    gauges = worker_metrics(
        networks, 32768, lambda: NetworkBufferNeeds(promised - 3, 2, 1), resources
    )
    assert gauges["Status.Shuffle.Netty.RequestedMemoryUsage"]() == percent
    parts = [
        gauges[f"Status.Shuffle.Netty.RequestedMemorySegments.{user}"]()
        for user in ("Partitions", "Channels", "Gates")
    ]
    assert parts == [promised - 3, 2, 1]

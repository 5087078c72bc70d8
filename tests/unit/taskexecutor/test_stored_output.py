"""Managed memory of stored outputs: each task of a slot reserves its part of it."""

from types import SimpleNamespace

import pytest
from penstock.errors import InsufficientBuffersError
from penstock.rpc.task_deployment import PartitionDescriptor
from penstock.taskexecutor.task.stored_output import MOST_BYTES, create_partition, reserve
from penstock.taskexecutor.worker.launch import LaunchSpec
from penstock.taskexecutor.worker.memory_manager import MemoryManager, SlotMemory
from penstock.taskexecutor.worker.metric_sender import worker_metrics
from penstock.taskexecutor.worker.slot_resources import SlotResources

MIB = 1 << 20


def test_an_output_takes_a_part_of_the_free_memory():
    memory = MemoryManager(64 * MIB)
    assert reserve(memory, "a", 4) == 8 * MIB
    assert reserve(memory, "b", 4) == 7 * MIB
    memory.release_all("a")
    assert memory.available_bytes == 57 * MIB
    assert reserve(MemoryManager(1024 * MIB), "a", 4) == MOST_BYTES


def test_many_tasks_of_a_slot_have_outputs():
    """Sources of one slot run at the same time, and none knows of the others."""
    memory = SlotMemory.of(64 * MIB).outputs
    assert all(reserve(memory, task, 8) >= 9 << 10 for task in range(40))


def test_an_output_takes_what_it_needs_if_its_part_is_less():
    memory = MemoryManager(12 << 10)
    assert reserve(memory, "a", 4) == 5 << 10
    assert reserve(memory, "b", 4) == 5 << 10
    with pytest.raises(InsufficientBuffersError) as caught:
        reserve(memory, "c", 4)
    for part in ("4 subtasks", "5120 bytes", "2048 of the 12288", "memory.managed.size"):
        assert part in str(caught.value)
    assert memory.available_bytes == 2 << 10


def test_only_stored_outputs_reserve():
    made = []
    network = SimpleNamespace(create_result_partition=lambda *arguments: made.append(arguments))
    memory = MemoryManager(8 * MIB)
    create_partition(network, PartitionDescriptor(b"p", 2, "PIPELINED", 100), memory, "task")
    create_partition(network, PartitionDescriptor(b"q", 2, "BLOCKING", 100), memory, "task")
    assert made == [(b"p", 2, "PIPELINED", 100), (b"q", 2, "BLOCKING", 100, MIB)]
    assert memory.available_bytes == 7 * MIB


def test_the_worker_shows_the_memory_by_use():
    """Sorts leave outputs their part, and the metrics contain both."""
    config = {"taskmanager.memory.managed.size": "64 mb"}
    resources = SlotResources(LaunchSpec(("127.0.0.1", 1), "", "executor", 2, config=config))
    slot = resources.memory(b"slot")
    assert (slot.sorts.size_bytes, slot.outputs.size_bytes) == (24 * MIB, 8 * MIB)
    assert slot.sorts.reserve("sort", 24 * MIB)
    assert reserve(slot.outputs, "task", 2) == MIB
    gauges = worker_metrics(SimpleNamespace(), 32768, lambda: 0, resources)
    assert gauges["Status.Flink.Memory.Managed.Total"]() == 64 * MIB
    assert gauges["Status.Flink.Memory.Managed.Used"]() == 25 * MIB

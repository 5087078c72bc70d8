"""Managed memory of stored outputs: each task of a slot reserves its part of it."""

from types import SimpleNamespace

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
    assert all(reserve(memory, task, 500) >= 501 << 10 for task in range(100))


def test_an_output_gets_what_it_needs_if_less_is_free():
    """The least size is not counted then: others keep what they have."""
    memory = MemoryManager(12 << 10)
    assert [reserve(memory, task, 4) for task in "abc"] == [5 << 10] * 3
    assert memory.available_bytes == 2 << 10
    memory.release_all("c")
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

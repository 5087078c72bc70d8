"""The task's handling of elements that are not records."""

from types import SimpleNamespace

import pytest
from penstock.network.events import EndOfData, data_type_of, serialize_event
from penstock.network.pure.channel_selector import make_selector
from penstock.network.pure.environment import NetworkEnvironment
from penstock.network.pure.record_writer import RecordWriter
from penstock.serialization.codec import codec_for
from penstock.taskexecutor.compiled.operator_loop import Input
from penstock.taskexecutor.task import task_input as task_input_module
from penstock.taskexecutor.task.task_input import TaskInput

PATIENCE_MS = 60_000


class SeenInput(Input):
    """Stores what reaches the head operator."""

    def __init__(self):
        self.seen = []

    def process(self, value, timestamp):
        self.seen.append((value, timestamp))

    def process_watermark(self, timestamp):
        self.seen.append(timestamp)


@pytest.fixture
def network(monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    network = NetworkEnvironment(executor_id="worker", token=b"token", num_segments=64)
    yield network
    network.close()


def test_attributes_and_internal_watermarks(network):
    """B6: a channel's internal watermark is its watermark; attributes change nothing."""
    writers, channels = [], []
    for number in range(2):
        partition = network.create_result_partition(bytes([number]) * 60, 1)
        writers.append(RecordWriter(partition, make_selector("FORWARD", 1), codec_for(None)))
        channels.append((bytes([number]) * 60, 0, None))
    gate = network.create_input_gate(channels)
    seen = SeenInput()
    head = SimpleNamespace(end_input=lambda number: seen.seen.append("end"))
    task_input = TaskInput(
        SimpleNamespace(gates=[SimpleNamespace(type=None)]),
        SimpleNamespace(gates=[(0, gate)], network=network, configuration={}),
        SimpleNamespace(head=head, get_input=lambda number: seen),
    )
    task_input.request_partitions()
    for writer, timestamp in zip(writers, (7, 5), strict=True):
        writer.emit_record_attributes(is_backlog=True)
        writer.emit_internal_watermark(timestamp)
        writer.collect("value", timestamp)
        writer.broadcast_event(serialize_event(EndOfData()), int(data_type_of(EndOfData())))
        writer.partition.finish()
    while task_input.process_next(PATIENCE_MS):
        pass
    assert sorted(item for item in seen.seen if isinstance(item, tuple)) == [
        ("value", 5),
        ("value", 7),
    ]
    assert [item for item in seen.seen if not isinstance(item, tuple)] == [5, "end"]


@pytest.mark.parametrize("where", ["MEMORY", "DISK"])
def test_a_barrier_buffer_has_the_size_that_is_set(network, tmp_path, monkeypatch, where):
    made = []

    class Noted(task_input_module.BarrierBuffer):
        def __init__(self, gate, blocker, wall_ms, limit_bytes):
            made.append(limit_bytes)
            super().__init__(gate, blocker, wall_ms, limit_bytes)

    monkeypatch.setattr(task_input_module, "BarrierBuffer", Noted)
    network.create_result_partition(bytes(60), 1)
    options = {
        "penstock.checkpointing.barrier-buffer": where,
        "penstock.checkpointing.barrier-buffer.max-size": "1234",
    }
    environment = SimpleNamespace(
        gates=[(0, network.create_input_gate([(bytes(60), 0, None)]))],
        network=network,
        configuration=options,
        temp_directory=lambda: str(tmp_path),
    )
    TaskInput(
        SimpleNamespace(gates=[SimpleNamespace(type=None)]),
        environment,
        SimpleNamespace(head=None, get_input=lambda number: SeenInput()),
    )
    assert made == [1234]

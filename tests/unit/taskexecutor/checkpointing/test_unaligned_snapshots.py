"""F6, F7: the data that a task writes, reports and restores when barriers overtake data.

Method: a real data plane around a `SubtaskCheckpointCoordinator`, with operators without state.
"""

import queue
import threading
import time
from types import SimpleNamespace

import pytest
from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    FileHandle,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from penstock.checkpoint_storage.streams import DriverStateStream, StateOutputStream
from penstock.common import Types
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import CorruptCheckpointError
from penstock.network.data_type import DataType
from penstock.network.events import (
    Alignment,
    CancelCheckpointMarker,
    CheckpointBarrier,
    data_type_of,
    parse_event,
    serialize_event,
)
from penstock.network.pure.environment import NetworkEnvironment
from penstock.rpc.messages import AcknowledgeCheckpoint, DeclineCheckpoint
from penstock.taskexecutor.checkpointing.barrier_handler import AlignmentFigures
from penstock.taskexecutor.checkpointing.channel_state import (
    InFlight,
    InFlightRecovery,
    write_in_flight,
)
from penstock.taskexecutor.checkpointing.subtask_coordinator import (
    OutputEdge,
    SubtaskCheckpointCoordinator,
)
from penstock.taskexecutor.state.backends.keyed_state_backend import KeyGrouping
from penstock.taskexecutor.state.backends.operator_backend import OperatorStateBackend
from penstock.taskexecutor.state.snapshots.heap_snapshot import HeapKeyedSnapshot
from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot, RunningSnapshot
from support.patience import PATIENCE_S

HEAD, TAIL = b"h" * 16, b"t" * 16
UNALIGNED = {"alignment": Alignment.UNALIGNED}


def now_ms():
    return time.time_ns() // 1_000_000


class Task:
    """A task with one input of two channels, and two outputs, one of which cannot be overtaken."""

    def __init__(self, network):
        self.network = network
        self.partitions = [network.create_result_partition(bytes([n]) * 60, 1) for n in range(2)]
        self.producers = [network.create_result_partition(bytes([8 + n]) * 60, 1) for n in range(2)]
        self.gate = network.create_input_gate([(bytes([8 + n]) * 60, 0, None) for n in range(2)])
        self.gate.request_partitions()
        self.reports = queue.Queue()
        self.reporters = []
        self.operators = {}
        self.begun = [b"", b"begun"]
        self.open_stream = lambda barrier: DriverStateStream()
        self.coordinator = SubtaskCheckpointCoordinator(
            self,
            SimpleNamespace(
                configuration={},
                partitions=self.partitions,
                gates=[(0, self.gate)],
                task_name="task",
                job_id=b"j",
                attempt_id=b"a",
                local_state=None,
                files=FileSystems({}),
            ),
            lambda barrier, is_shared: self.open_stream(barrier),
            self._report,
            lambda action: action(),
            lambda delay_ms, action: None,
            head_id=HEAD,
            outputs=[OutputEdge(TAIL, True), OutputEdge(TAIL, False)],
            unconsumed=lambda channel: self.begun[channel],
            is_finished=False,
        )

    def _report(self, report):
        self.reporters.append(threading.current_thread())
        self.reports.put(report)

    # The operators.

    def prepare_snapshot_pre_barrier(self, checkpoint_id):
        pass

    def snapshot_state(self, checkpoint_id, timestamp_ms, base_of):
        return self.operators

    def broadcast_event(self, event):
        for partition in self.partitions:
            partition.broadcast_event(serialize_event(event), int(data_type_of(event)))

    def flush(self):
        pass

    def notify_checkpoint_aborted(self, checkpoint_id):
        pass

    # Actions of the tests.

    def write(self, data):
        for partition in self.partitions:
            partition._append_framed(0, data)

    def snapshot(self, number, **fields):
        barrier = CheckpointBarrier(number, fields.pop("timestamp_ms", now_ms()), **fields)
        self.coordinator.take_snapshot(barrier, AlignmentFigures())

    def report(self):
        return self.reports.get(timeout=PATIENCE_S)

    def written(self, index):
        """Return the next contents of an output: data as bytes, events as themselves."""
        gate = self.network.create_input_gate([(bytes([index]) * 60, 0, None)])
        gate.request_partitions()
        found = []
        while (item := gate.next_buffer(0)) is not None:
            _, data_type, data = item
            found.append(data if data_type == DataType.DATA_BUFFER else parse_event(data))
        return found

    def close(self):
        self.coordinator.close()


@pytest.fixture
def network():
    environment = NetworkEnvironment(
        token=b"t" * 32, executor_id="here", num_segments=128, segment_size=1024
    )
    yield environment
    environment.close()


@pytest.fixture
def task(network):
    task = Task(network)
    yield task
    task.close()


def in_flight(state, field):
    """Return the bytes of each channel of a report, by operator, index and channel."""
    found = {}
    for operator_id, operator in state.operators.items():
        for piece in getattr(operator, field):
            assert isinstance(piece.stream, ByteStreamHandle)
            data = piece.stream.data
            buffers = []
            for offset in piece.offsets:
                length = int.from_bytes(data[offset : offset + 4], "big")
                buffers.append(data[offset + 4 : offset + 4 + length])
            assert sum(map(len, buffers)) == piece.size
            assert len(data) == piece.size + 4 * len(buffers), "the bytes of no other channel"
            found[(operator_id, piece.index, piece.channel)] = b"".join(buffers)
    return found


def test_overtaken_data(task):
    """One edge allows overtaking, the other one gets a barrier that aligns."""
    task.write(b"data")
    task.producers[0]._append_framed(0, b"waiting")
    task.producers[0].flush_all()
    task.snapshot(1, **UNALIGNED)
    assert task.gate.next_buffer(PATIENCE_S * 1000)[2] == b"waiting"
    assert task.reports.empty(), "channels may bring more"
    task.coordinator.barriers_complete(1, AlignmentFigures(5, 6, 7))
    report = task.report()
    assert isinstance(report, AcknowledgeCheckpoint)
    assert in_flight(report.state, "result_subpartitions") == {(TAIL, 0, 0): b"data"}
    assert in_flight(report.state, "input_channels") == {
        (HEAD, 0, 0): b"waiting",
        (HEAD, 0, 1): b"begun",
    }
    metrics = report.metrics
    assert (metrics.alignment_ms, metrics.start_delay_ms, metrics.processed_bytes) == (5, 6, 7)
    assert metrics.is_unaligned
    assert metrics.persisted_bytes == len(b"datawaitingbegun")
    [barrier, data] = task.written(0)
    assert (barrier.alignment, data) == (Alignment.UNALIGNED, b"data")
    [data, barrier] = task.written(1)
    assert (data, barrier.alignment) == (b"data", Alignment.FORCED_ALIGNED)


def test_barriers_overtake_again_behind_an_edge_that_aligns(task):
    """The inputs were aligned, so the checkpoint has no in-flight data of them."""
    task.write(b"data")
    task.snapshot(1, alignment=Alignment.FORCED_ALIGNED)
    report = task.report()
    assert in_flight(report.state, "result_subpartitions") == {(TAIL, 0, 0): b"data"}
    assert not in_flight(report.state, "input_channels")
    assert task.written(0)[0].alignment is Alignment.UNALIGNED


def test_a_barrier_that_waits_too_long(task):
    """C2: it overtakes in the partition where it waits; the checkpoint waits for that."""
    task.write(b"data")
    task.snapshot(1, aligned_timeout_ms=30)
    report = task.report()
    assert in_flight(report.state, "result_subpartitions") == {(TAIL, 0, 0): b"data"}
    assert report.metrics.is_unaligned
    [barrier, data] = task.written(0)
    assert (barrier.alignment, data) == (Alignment.UNALIGNED, b"data")
    [_, barrier] = task.written(1)
    assert barrier.alignment is Alignment.FORCED_ALIGNED
    assert barrier.aligned_timeout_ms == 30


def test_a_barrier_that_leaves_in_time(task):
    """The checkpoint is aligned, and reported at once."""
    task.write(b"data")
    task.snapshot(1, aligned_timeout_ms=3_600_000)
    assert task.reports.empty()
    [data, barrier] = task.written(0)
    assert (data, barrier.alignment) == (b"data", Alignment.ALIGNED)
    report = task.report()
    assert report.state is None
    assert not report.metrics.is_unaligned


def test_time_that_is_over_already(task):
    task.write(b"data")
    task.snapshot(1, aligned_timeout_ms=30, timestamp_ms=now_ms() - 1000)
    assert task.report().metrics.is_unaligned


@pytest.mark.parametrize("how", ["abort", "notify"])
def test_given_up_while_its_barrier_waits(task, how):
    """No report without the in-flight data is sent; the next checkpoint is reported."""
    task.write(b"data")
    task.snapshot(1, aligned_timeout_ms=3_600_000)
    if how == "notify":
        task.coordinator.notify_aborted(1, -1)
    else:
        task.coordinator.abort_snapshot(1, Reason.DECLINED_SUBSUMED)
        assert isinstance(task.report(), DeclineCheckpoint)
    task.written(0)
    task.snapshot(2)
    report = task.report()
    assert (type(report), report.checkpoint_id) == (AcknowledgeCheckpoint, 2)


def test_given_up_while_channels_bring_more(task):
    """The stored data is dropped; the next checkpoint starts empty."""
    task.producers[0]._append_framed(0, b"first")
    task.producers[0].flush_all()
    task.snapshot(1, **UNALIGNED)
    task.gate.next_buffer(PATIENCE_S * 1000)
    task.coordinator.abort_snapshot(1, Reason.DECLINED_ON_CANCELLATION_BARRIER)
    assert task.report().reason == "DECLINED_ON_CANCELLATION_BARRIER"
    task.coordinator.barriers_complete(1, AlignmentFigures())
    task.begun = [b"", b""]
    task.snapshot(2, **UNALIGNED)
    task.coordinator.barriers_complete(2, AlignmentFigures())
    report = task.report()
    assert (report.checkpoint_id, report.state) == (2, None)


def test_an_aborted_checkpoint_stores_no_more_channel_data(task):
    """No more data is stored: without a barrier it would grow without limit."""
    task.snapshot(1, **UNALIGNED)
    task.coordinator.notify_aborted(1, -1)
    task.producers[0]._append_framed(0, b"later")
    task.producers[0].flush_all()
    assert task.gate.next_buffer(PATIENCE_S * 1000)[2] == b"later"
    assert task.gate.take_persisted(0) == ([], True)


def test_a_later_barrier_is_in_a_channel(task):
    """F-14: the older checkpoint is declined, and downstream tasks are notified."""
    event = CheckpointBarrier(5, 0, alignment=Alignment.UNALIGNED)
    task.producers[0].overtake(serialize_event(event), int(data_type_of(event, priority=True)))
    task.gate.next_buffer(PATIENCE_S * 1000)
    task.snapshot(4, **UNALIGNED)
    report = task.report()
    assert (type(report), report.reason) == (DeclineCheckpoint, "DECLINED_SUBSUMED")
    assert task.written(0) == [CancelCheckpointMarker(4)]
    task.snapshot(5, **UNALIGNED)
    task.coordinator.barriers_complete(5, AlignmentFigures())
    assert task.report().checkpoint_id == 5


def test_a_write_error_declines_the_checkpoint(task):
    """The checkpoint is declined, and the task continues."""

    def full(barrier):
        del barrier
        raise OSError("no space left")

    task.open_stream = full
    task.write(b"data")
    task.snapshot(1, **UNALIGNED)
    task.coordinator.barriers_complete(1, AlignmentFigures())
    report = task.report()
    assert (report.reason, "no space left" in report.detail) == ("IO_EXCEPTION", True)


def test_a_failed_write_of_an_aborted_checkpoint_is_not_logged(task, caplog):
    """The driver has deleted its folder, which is no failure of the storage."""
    begins, given_up, failed = (threading.Event() for _ in range(3))

    def gone(barrier):
        if barrier.checkpoint_id == 2:
            failed.set()  # One thread writes: the earlier write has ended.
            return DriverStateStream()
        begins.set()
        given_up.wait(PATIENCE_S)
        raise FileNotFoundError("no such folder")

    task.open_stream = gone
    task.write(b"data")
    task.snapshot(1, **UNALIGNED)
    task.coordinator.barriers_complete(1, AlignmentFigures())
    assert begins.wait(PATIENCE_S)
    task.coordinator.notify_aborted(1, -1)
    given_up.set()
    task.write(b"more")
    task.snapshot(2, **UNALIGNED)
    task.coordinator.barriers_complete(2, AlignmentFigures())
    assert failed.wait(PATIENCE_S)
    assert task.report().checkpoint_id == 2
    assert not caplog.messages


@pytest.mark.parametrize("place", ["driver", "file"])
def test_written_and_read_back(network, tmp_path, place):
    """Data of a checkpoint returns to the same gates, partitions and channels."""
    long = [bytes([n]) * 300 for n in range(100)]
    stored = InFlight(
        inputs=[[[b"a", b"", b"bc"], []], [[b"second gate"]]],
        outputs={1: [[], long]},
    )

    def open_stream():
        if place == "driver":
            return DriverStateStream()
        return StateOutputStream(FileSystems({}).of(str(tmp_path)), str(tmp_path), 16)

    fields = write_in_flight(stored, open_stream, HEAD, [HEAD, TAIL])
    state = TaskStateSnapshot({id_: OperatorSubtaskState(**f) for id_, f in fields.items()})
    handles = [h for o in state.operators.values() for h in o.input_channels]
    assert [(h.index, h.channel, h.of) for h in handles] == [(0, 0, 2), (1, 0, 1)]
    got = {}

    def place_of(kind, index):
        return SimpleNamespace(
            recover=lambda channel, buffers: got.setdefault((kind, index, channel), buffers)
        )

    recovery = InFlightRecovery(state, FileSystems({}))
    recovery.recover_inputs([place_of("in", n) for n in range(2)])
    recovery.recover_outputs([place_of("out", n) for n in range(2)])
    assert got == {
        ("in", 0, 0): [b"a", b"bc"],
        ("in", 1, 0): [b"second gate"],
        ("out", 1, 1): long,
    }
    if place == "file":
        [path] = tmp_path.iterdir()
        assert all(isinstance(h.stream, FileHandle) for h in handles)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CorruptCheckpointError):
            InFlightRecovery(state, FileSystems({})).recover_inputs(
                [place_of("in", n) for n in range(2)]
            )


def test_nothing_is_written_of_nothing():
    def no_stream():
        raise AssertionError("there is nothing to write")

    assert write_in_flight(InFlight([[[b""], []]], {0: [[]]}), no_stream, HEAD, [TAIL]) == {}


def state_of(size):
    """Return the snapshot of an operator with one value of so many bytes."""
    states = OperatorStateBackend()
    states.list_state(ListStateDescriptor("values", Types.PICKLED_BYTE_ARRAY())).add(b"x" * size)
    keyed = HeapKeyedSnapshot({}, {}, KeyGrouping(None, 128, range(128)))
    return RunningSnapshot(OperatorSnapshot(1), keyed, states.open_snapshot())


@pytest.mark.parametrize("size", [0, 100, 19_000, 30_000])
def test_little_state_is_reported_by_the_task_itself(task, size):
    """F7: small state needs no thread, which spares hundreds of tasks two handovers."""
    task.operators = {TAIL: state_of(size)} if size else {}
    task.snapshot(1)
    report = task.report()
    assert (task.reporters == [threading.current_thread()]) == (size <= 20_480)
    if not size:
        assert report.state is None
        return
    [states] = report.state.operators[TAIL].managed_operator
    assert len(states.stream.data) > size
    assert report.metrics.checkpointed_bytes == len(states.stream.data)

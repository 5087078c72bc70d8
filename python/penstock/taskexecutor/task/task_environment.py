"""Environment of a running subtask."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.common.options.state_recovery import FROM_LOCAL
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.network import InputGate, NetworkEnvironment, ResultPartition
    from penstock.rpc.collect_client import CollectClient
    from penstock.rpc.message import Message
    from penstock.rpc.messages import ToCoordinator
    from penstock.rpc.task_deployment import RestoredState
    from penstock.taskexecutor.checkpointing.local_state import TaskLocalStateStore
    from penstock.taskexecutor.worker.memory_manager import MemoryManager


def _no_coordinator(message: Message) -> None:
    msg = f"cannot send {type(message).__name__}: this task runs without a JobMaster"
    raise PenstockError(msg)


@dataclass(frozen=True)
class TaskEnvironment:
    """Created by `Task` for one attempt and passed to its invokable.

    Attributes:
        partitions: in the order of the vertex's produced data sets.
        gates: (input number, gate), one per job edge into the vertex.
        open_collect_channel: connects to the driver for the results of the named collect sink.
        report_accumulators: publishes the current accumulators of this attempt, encoded by
            `AccumulatorRegistry`, or numbers, strings, lists or dicts of them.
        metrics: the task's metrics by name; other threads read them.
        operator_metrics: the metrics of its operators, by operator id and name.
        memory: the managed memory of the task's slot.
        temp_directory: creates (once) and returns a directory that is removed when the task ends.
        send_to_coordinator: sends a message to an operator's coordinator.
        cached_files: paths of the job's cached files on this host, by name.
        report_checkpoint: sends a checkpoint message to the JobMaster; any thread.
        restored: the state that the task restores; None if it starts without state.
        report_failure: fails the task from a thread other than its own.
        local_state: the store of local checkpoint copies; None if disabled.
    """

    job_id: bytes
    task_name: str
    vertex_id: bytes
    attempt_id: bytes
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt_number: int
    executor_id: str
    configuration: dict[str, str]
    partitions: list[ResultPartition]
    gates: list[tuple[int, InputGate]]
    network: NetworkEnvironment
    open_collect_channel: Callable[[str], CollectClient]
    report_accumulators: Callable[[Mapping[str, Any]], None]
    report_failure: Callable[[BaseException], None]
    temp_directory: Callable[[], str]
    memory: MemoryManager
    metrics: dict[str, Any] = field(default_factory=dict)
    operator_metrics: dict[tuple[bytes, str], dict[str, Any]] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    send_to_coordinator: Callable[[ToCoordinator], None] = _no_coordinator
    report_checkpoint: Callable[[Message], None] = _no_coordinator
    restored: RestoredState | None = None
    local_state: TaskLocalStateStore | None = None

    @property
    def local_copies(self) -> TaskLocalStateStore | None:
        """Local copies from which the task may restore; None for none."""
        return self.local_state if FROM_LOCAL.read(self.configuration) else None

    @cached_property
    def files(self) -> FileSystems:
        """File systems of checkpoints and sinks."""
        return FileSystems(self.configuration)

"""Surroundings of a running subtask."""

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
    msg = f"nobody takes {type(message).__name__} here: this task runs without a JobMaster"
    raise PenstockError(msg)


@dataclass(frozen=True)
class TaskEnvironment:
    """Built by `Task` for one attempt and handed to its invokable.

    Attributes:
        partitions: in the order of the vertex's produced data sets.
        gates: (input number, gate), one per job edge into the vertex.
        open_collect_channel: dials the driver for the results of the named collect sink.
        report_accumulators: publishes the current accumulators of this attempt, encoded by
            `AccumulatorRegistry`, or numbers, strings, lists or dicts of them.
        metrics: those of the task, by name; read by other threads.
        operator_metrics: those of its operators, by the operator's id and name.
        memory: the managed memory of the task's slot.
        temp_directory: makes (once) and returns a directory that is removed when the task ends.
        send_to_coordinator: sends a message to the part of an operator beside the JobMaster.
        cached_files: where the job's cached files are on this host, by name.
        report_checkpoint: tells the JobMaster of the task's part in a checkpoint; any thread.
        restored: what the task starts from; None when it starts without state.
        report_failure: fails the task from a thread other than its own.
        local_state: where copies of its checkpoints are kept; None when there are to be none.
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
        """The copies that it may start from; None for none."""
        return self.local_state if FROM_LOCAL.read(self.configuration) else None

    @cached_property
    def files(self) -> FileSystems:
        """File systems of checkpoints and sinks."""
        return FileSystems(self.configuration)

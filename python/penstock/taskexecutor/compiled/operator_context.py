"""Surroundings of an operator, as it knows them; the task creates the object.

The contracts of operators are this module and ``operator_loop``: operators and both data planes
import them, and they import neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.common.execution_config import ExecutionConfig
    from penstock.datastream.functions.runtime_context import RuntimeContext
    from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor
    from penstock.expressions.evaluation import Evaluation
    from penstock.graph.job_graph import OperatorConfig
    from penstock.graph.operators import OperatorDescriptor
    from penstock.metrics.metricbase import MetricGroup
    from penstock.network.events import Event
    from penstock.rpc.collect_client import CollectClient
    from penstock.rpc.messages import ToCoordinator
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled.operator_loop import StreamOperator
    from penstock.taskexecutor.compiled.timers import InternalTimerService, Triggerable
    from penstock.taskexecutor.compiled.value_copies import ValueCopier
    from penstock.taskexecutor.state.backends.keyed_state_access import KeyedStateAccess
    from penstock.taskexecutor.state.backends.operator_backend import OperatorStateBackend
    from penstock.taskexecutor.task.mailbox import MailboxUser
    from penstock.taskexecutor.time.processing_time import OperatorProcessingTime
    from penstock.taskexecutor.worker.memory_manager import MemoryManager


class LeavingPartition(Protocol):
    """A partition of the task, as operators know it."""

    @property
    def num_subpartitions(self) -> int:
        """The number of receivers."""


class OperatorEnvironment(Protocol):
    """Fields of a `TaskEnvironment` that operators know."""

    @property
    def job_id(self) -> bytes:
        """The id of the job."""

    @property
    def attempt_id(self) -> bytes:
        """The id of the attempt."""

    @property
    def attempt_number(self) -> int:
        """The number of earlier attempts."""

    @property
    def executor_id(self) -> str:
        """The id of the worker."""

    @property
    def subtask(self) -> int:
        """The number of the subtask, from 0."""

    @property
    def parallelism(self) -> int:
        """The number of subtasks."""

    @property
    def max_parallelism(self) -> int:
        """The number of key groups."""

    @property
    def configuration(self) -> dict[str, str]:
        """The job's options."""

    @property
    def partitions(self) -> Sequence[LeavingPartition]:
        """The partitions that the task writes."""

    @property
    def files(self) -> FileSystems:
        """File systems of checkpoints and sinks."""

    @property
    def memory(self) -> MemoryManager:
        """The managed memory of the task's slot."""

    @property
    def temp_directory(self) -> Callable[[], str]:
        """Creates (once) and returns a directory that is removed when the task ends."""

    @property
    def open_collect_channel(self) -> Callable[[str], CollectClient]:
        """Connects to the driver for the results of the named collect sink."""

    @property
    def send_to_coordinator(self) -> Callable[[ToCoordinator], None]:
        """Sends a message to an operator's coordinator."""


class ValueIsolation(Protocol):
    """Policy for copying an operator's values."""

    @property
    def is_wanted(self) -> bool:
        """Return whether anything is copied at all."""

    def copier(self, what: str, *types: object) -> ValueCopier | None:
        """Return a copier for values of these declared types; None if no copy is needed.

        Args:
            what: The use of the values, for messages: ``operator … <what> a value of …``.
            types: TypeInformation or None for each part of a value.
        """

    def of_list(self, descriptor: ListStateDescriptor) -> ValueCopier | None:
        """Return a copier for the values of an operator's list state."""

    def of_map(self, descriptor: MapStateDescriptor) -> ValueCopier | None:
        """Return a copier for the values of a broadcast state."""

    def contents(self, state: object, descriptor: StateDescriptor) -> Any:
        """Return the state of window contents, sharing no mutable value."""


class OperatorContext(Protocol):
    """The surroundings of one operator of one subtask.

    Attributes:
        config: The operator as the graph describes it.
        execution_config: The job's execution settings.
        processing_time: The operator's clock and timers.
        is_batch: Whether the job runs in BATCH execution mode.
        input_clock: Clock in seconds that stops while an output has no buffer, for idleness.
        side_tags: Tags of the side outputs that have a consumer.
        broadcast_event: Sends an event to every receiver outside of the chain.
    """

    config: OperatorConfig
    execution_config: ExecutionConfig
    processing_time: OperatorProcessingTime
    is_batch: bool
    input_clock: Callable[[], float]
    side_tags: frozenset[str]
    broadcast_event: Callable[[Event], None]

    @property
    def environment(self) -> OperatorEnvironment:
        """The subtask."""

    @property
    def runtime_context(self) -> RuntimeContext:
        """The context that user functions see."""

    @property
    def name(self) -> str:
        """The operator's name."""

    @property
    def descriptor(self) -> OperatorDescriptor:
        """Description of the operator."""

    @property
    def timestamped_type(self) -> object | None:
        """Type of the records that get timestamps here: the input's, or a source's own."""

    @property
    def is_keyed(self) -> bool:
        """Return whether an input of the operator is keyed."""

    @property
    def evaluation(self) -> Evaluation:
        """Tracks the functions that are evaluated instead of called."""

    @property
    def isolation(self) -> ValueIsolation:
        """Policy for copying the operator's values."""

    @property
    def keyed_state(self) -> KeyedStateAccess:
        """The operator's keyed state and current key."""

    @property
    def operator_state(self) -> OperatorStateBackend:
        """The operator's non-keyed state."""

    @property
    def key_groups(self) -> range:
        """The key groups that this subtask owns."""

    def leave_key(self, function: object, method: str) -> None:
        """Unset the key for a method of a function; errors of its uses of keyed state name it.

        Args:
            function: The user's function.
            method: The name of the method.
        """

    def set_broadcast_variables(self, variables: dict[str, list[object]]) -> None:
        """Set the complete broadcast sets of the operator, by name."""

    def end_key(self) -> None:
        """End event time for the keys processed so far, in BATCH mode."""

    def key_selector(self, input_number: int = 0) -> Callable[[object], object] | None:
        """Return the key selector of an input as a function; None if it is not keyed."""

    def key_reader(self, input_number: int = 0) -> KeyReader | None:
        """Return the reader of an input's keys in their form in state; None if it is not keyed."""

    def count_conversions(self, convert: Callable[[object], object] | None) -> None:
        """Count the keys for which a conversion is called in the operator's metrics.

        Args:
            convert: Converts keys to their declared type; None if no type is declared.
        """

    def metric_group(self) -> MetricGroup:
        """Return the group in which the operator and its functions register metrics."""

    def register_path_metrics(self, operator: StreamOperator) -> None:
        """Register how many records took each fast path of the operator, or left it.

        Args:
            operator: The operator, once it has been opened.
        """

    def with_descriptor(self, descriptor: OperatorDescriptor) -> OperatorContext:
        """Return a context of the same operator for the part that ``descriptor`` describes."""

    def open_with_operator(self, helper: object) -> None:
        """Open a key selector or partitioner, to be closed with the operator."""

    def timer_service(self, target: Triggerable) -> InternalTimerService:
        """Return a new timer service that calls ``target``."""

    def post(self, action: Callable[[], object], user: MailboxUser) -> None:
        """Run ``action`` in the task's thread; any thread.

        Raises:
            MailboxClosedError: The task is ending.
            QueueFullError: This user has as many mails waiting as it may.
        """

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Run mails and timers of this operator and those behind it until ``condition`` holds.

        For operators that must wait for something that arrives as a mail.
        """

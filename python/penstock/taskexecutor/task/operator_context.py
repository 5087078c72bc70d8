"""Context of an operator: configuration, time, state, and its task."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from penstock import network
from penstock.common.options.user_code import OPERATOR_CHAINING
from penstock.errors import InvalidProgramError
from penstock.expressions.evaluation import Evaluation
from penstock.expressions.functions import bound_function
from penstock.graph.key_groups import key_group, key_group_range
from penstock.serialization.key_types import key_type_of
from penstock.serialization.type_serializer import TypeSerializer, TypeSerializerSnapshot
from penstock.taskexecutor.compiled import (
    InternalTimerService,
    StreamOperator,
    SumFieldOperator,
    Triggerable,
    close_function,
    open_function,
)
from penstock.taskexecutor.copies.isolation import Isolation
from penstock.taskexecutor.state.backends.backend_factory import create_keyed_state_backend
from penstock.taskexecutor.state.backends.keyed_state_backend import (
    BackendSurroundings,
    KeyedBase,
    KeyedSnapshot,
    KeyedStateBackend,
    KeyGrouping,
)
from penstock.taskexecutor.state.backends.operator_backend import (
    OperatorStateBackend,
    OperatorStates,
)
from penstock.taskexecutor.state.heap import NoKey
from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot, RunningSnapshot
from penstock.taskexecutor.task.accumulator_registry import AccumulatorRegistry
from penstock.taskexecutor.task.metric_group import OperatorMetricGroup
from penstock.taskexecutor.task.runtime_context import StreamingRuntimeContext
from penstock.taskexecutor.time.processing_time import OperatorProcessingTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.execution_config import ExecutionConfig
    from penstock.graph.job_graph import OperatorConfig
    from penstock.graph.operators import OperatorDescriptor
    from penstock.network.events import Event
    from penstock.serialization.key_types import KeyType
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.backends.keyed_state_access import KeyedStateAccess
    from penstock.taskexecutor.state.backends.keyed_state_backend import LogBase
    from penstock.taskexecutor.task.mailbox import Mailbox, MailboxUser
    from penstock.taskexecutor.task.task_environment import TaskEnvironment
    from penstock.taskexecutor.time.processing_time import ProcessingTimeService

#: Names under which the types of states are recorded: that of keys, and the keyed-state prefix.
_KEY: Final = "key"
_KEYED: Final = "keyed:"


def _no_receivers(event: Event) -> None:
    """Do nothing: an operator outside of a chain has no receivers of events."""


class TaskOperatorContext:
    """The surroundings of one operator of one subtask.

    Attributes:
        config: The operator as the graph describes it.
        environment: The subtask.
        execution_config: The job's execution settings.
        processing_time: The operator's clock and timers.
        is_batch: Whether the job runs in BATCH execution mode.
        input_clock: Clock in seconds that stops while an output has no buffer, for idleness.
        runtime_context: The context that user functions see.
    """

    def __init__(
        self,
        config: OperatorConfig,
        environment: TaskEnvironment,
        execution_config: ExecutionConfig,
        mailbox: Mailbox,
        processing_time: ProcessingTimeService,
        *,
        is_batch: bool = False,
        position: int = 0,
        run_until: Callable[[Callable[[], bool], int], None] | None = None,
        accumulators: AccumulatorRegistry | None = None,
        input_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the context of one operator.

        Args:
            config: The operator as the graph describes it.
            environment: The subtask.
            execution_config: The job's execution settings.
            mailbox: The task's mailbox.
            processing_time: The task's clock and timers.
            is_batch: Whether the job runs in BATCH execution mode.
            position: The operator's position in the chain.
            run_until: Runs mails and timers, of operators from a position on, until a condition
                holds.
            accumulators: The task's accumulators; None for the operator's own.
            input_clock: Clock in seconds that stops while an output has no buffer.
        """
        self.config = config
        self.environment = environment
        self.execution_config = execution_config
        self.processing_time = OperatorProcessingTime(processing_time, position)
        self.is_batch = is_batch
        self.input_clock = input_clock
        self.accumulators = AccumulatorRegistry() if accumulators is None else accumulators
        self.runtime_context = StreamingRuntimeContext(self)
        self._run_until = run_until
        self._position = position
        self._mailbox = mailbox
        self._task_processing_time = processing_time
        self.timer_services: list[InternalTimerService] = []
        self._key_conversions: list[network.KeyConversion] = []
        self._helpers: list[Any] = []
        self._no_key = NoKey(self.name)
        #: Tags of the side outputs that have a consumer.
        self.side_tags: frozenset[str] = frozenset()
        #: Sends an event to every receiver outside of the chain; set by the chain.
        self.broadcast_event: Callable[[Event], None] = _no_receivers

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.config.name

    @property
    def descriptor(self) -> OperatorDescriptor:
        """Description of the operator."""
        return self.config.descriptor

    @property
    def timestamped_type(self) -> object | None:
        """Type of the records that get timestamps here: the input's, or a source's own."""
        types = self.config.input_types
        return types[0] if types else self.config.output_type

    @property
    def is_keyed(self) -> bool:
        """Return whether an input of the operator is keyed."""
        return any(selector is not None for selector in self.config.key_selectors)

    @cached_property
    def evaluation(self) -> Evaluation:
        """Tracks the functions that are evaluated instead of called."""
        return Evaluation.of(self.environment.configuration)

    @cached_property
    def isolation(self) -> Isolation:
        """Policy for copying the operator's values."""
        is_chained = OPERATOR_CHAINING.read(self.environment.configuration)
        return Isolation(
            self.name, self.execution_config, self.evaluation, is_each_written=not is_chained
        )

    @cached_property
    def keyed_state(self) -> KeyedStateAccess:
        """The operator's keyed state and current key."""
        states = self._keyed_backend.states
        states.leave_key(self._no_key)
        return states

    @cached_property
    def _keyed_backend(self) -> KeyedStateBackend:
        """The backend of the operator's keyed state, for checkpoints."""
        environment = self.environment
        return create_keyed_state_backend(
            BackendSurroundings(
                environment.configuration,
                self.processing_time.now,
                self.evaluation,
                lambda: self._key_grouping,
                lambda: self._restored_keys,
                environment.temp_directory,
                environment.job_id,
                environment.subtask,
            )
        )

    def leave_key(self, function: object, method: str) -> None:
        """Unset the key for a method of a function; errors of its uses of keyed state name it.

        Args:
            function: The user's function.
            method: The name of the method.
        """
        self._no_key = NoKey(self.name, f"{type(function).__name__}.{method}()")
        if "keyed_state" in self.__dict__:
            self.keyed_state.leave_key(self._no_key)

    @cached_property
    def operator_state(self) -> OperatorStateBackend:
        """The operator's non-keyed state."""
        return OperatorStateBackend()

    def metric_group(self) -> OperatorMetricGroup:
        """Return the group in which the operator and its functions register metrics."""
        environment, config = self.environment, self.config
        metrics = environment.operator_metrics.setdefault((config.id, config.name), {})
        return OperatorMetricGroup(metrics, (config.name, str(environment.subtask)))

    def register_path_metrics(self, operator: StreamOperator) -> None:
        """Register how many records took each fast path of the operator, or left it.

        ``numRecordsEvaluated`` counts evaluations of functions that computed a result,
        ``numEvaluationsGivenUp`` those after which the function was called, ``numKeysConverted``
        keys of a declared type that took a call, ``numSumsInPlace`` sums updated where they are
        stored, ``numBatchesInColumns`` batches whose records were computed by columns,
        ``numBatchesGivenUp`` those whose records were processed one by one.

        Args:
            operator: The operator, once it has been opened.
        """
        group, expressions = self.metric_group(), self.evaluation.expressions
        programs = self.evaluation.column_programs
        if expressions or programs:
            group.gauge(
                "numRecordsEvaluated",
                lambda: sum(e.evaluated for e in expressions) + sum(p.rows for p in programs),
            )
            group.gauge("numEvaluationsGivenUp", lambda: sum(e.given_up for e in expressions))
        if programs:
            group.gauge("numBatchesInColumns", lambda: sum(p.batches for p in programs))
            group.gauge("numBatchesGivenUp", lambda: sum(p.given_up for p in programs))
        conversions = self._key_conversions
        if conversions:
            group.gauge("numKeysConverted", lambda: sum(c.conversions for c in conversions))
        if isinstance(operator, SumFieldOperator):
            group.gauge("numSumsInPlace", lambda: operator.sums_in_place)

    def count_conversions(self, convert: Callable[[object], object] | None) -> None:
        """Count the keys for which a conversion is called in the operator's metrics.

        Args:
            convert: Converts keys to their declared type; None if no type is declared.
        """
        if isinstance(convert, network.KeyConversion):
            self._key_conversions.append(convert)

    def key_selector(self, input_number: int = 0) -> Callable[[object], object] | None:
        """Return the key selector of an input as a function; None if it is not keyed."""
        selectors = self.config.key_selectors
        if input_number >= len(selectors) or selectors[input_number] is None:
            return None
        self.open_with_operator(selectors[input_number])
        return bound_function(selectors[input_number], "get_key")

    def key_reader(self, input_number: int = 0) -> KeyReader | None:
        """Return the reader of an input's keys in their form in state; None if it is not keyed."""
        selector = self.key_selector(input_number)
        if selector is None:
            return None
        key_type = self._key_type
        self.count_conversions(key_type.convert)
        selection = self.evaluation.key_selection(selector, self._input_type(input_number))
        return network.KeyReader(*selection, key_type.plain, key_type.convert)

    def _input_type(self, input_number: int) -> object | None:
        """Return the declared type of an input's records; None if it is unknown."""
        types = self.config.input_types
        return types[input_number] if input_number < len(types) else None

    @cached_property
    def _key_type(self) -> KeyType:
        return key_type_of(cast("Any", self.config.key_type))

    def identity_of(self, key: object) -> object:
        """Return the identity of a key in state.

        Raises:
            SerializationError: The key is not of the declared type, or cannot be serialised.
        """
        return self._restored_keys.identity(key)

    def has_key(self, identity: object) -> bool:
        """Return whether a key, given by its identity in state, belongs to this subtask."""
        grouping = self._key_grouping
        hashed = network.key_hash(grouping.kind)(network.key_of(identity))
        return key_group(hashed, grouping.max_parallelism) in grouping.key_groups

    @cached_property
    def _restored_keys(self) -> KeyReader:
        key_type = self._key_type
        return network.KeyReader(lambda key: key, -1, key_type.plain, key_type.convert)

    def with_descriptor(self, descriptor: OperatorDescriptor) -> TaskOperatorContext:
        """Return a context of the same operator for the part that ``descriptor`` describes."""
        return TaskOperatorContext(
            replace(self.config, descriptor=descriptor),
            self.environment,
            self.execution_config,
            self._mailbox,
            self._task_processing_time,
            is_batch=self.is_batch,
            position=self._position,
            run_until=self._run_until,
            accumulators=self.accumulators,
            input_clock=self.input_clock,
        )

    @cached_property
    def key_groups(self) -> range:
        """The key groups that this subtask owns."""
        environment = self.environment
        first, last = key_group_range(
            environment.max_parallelism, environment.parallelism, environment.subtask
        )
        return range(first, last + 1)

    @cached_property
    def _key_grouping(self) -> KeyGrouping:
        return KeyGrouping(self._key_type.kind, self.environment.max_parallelism, self.key_groups)

    @property
    def has_state(self) -> bool:
        """Return whether a snapshot of the backends could contain anything."""
        # Do not create a backend that has not been used.
        has_keyed = "keyed_state" in self.__dict__ and not self._keyed_backend.is_unused
        return has_keyed or not self.operator_state.is_unused

    def snapshot(
        self,
        checkpoint_id: int,
        raw_keyed: dict[int, bytes],
        raw_operator: tuple[bytes, ...],
        base: KeyedBase | LogBase | None = None,
    ) -> RunningSnapshot:
        """Return the current timers, operator state and keyed state, with the raw state."""
        types = self.operator_state.types.texts()
        keyed = None
        if "keyed_state" in self.__dict__:
            self.keyed_state.write_back()
            types |= self.keyed_state.types.texts()
            keyed = self._keyed_backend.open_snapshot(self._key_grouping, checkpoint_id, base)
        if self.is_keyed:
            types[_KEY] = self._key_snapshot.write()
        operator = OperatorSnapshot(
            checkpoint_id=checkpoint_id,
            raw_keyed=raw_keyed,
            raw_operator=raw_operator,
            types=types,
        )
        return RunningSnapshot(operator, keyed, self.operator_state.open_snapshot())

    def open_whole(self, snapshot_id: int) -> KeyedSnapshot | None:
        """Return the current keyed states and timers, beside checkpoints; None without any."""
        if "keyed_state" not in self.__dict__ or self._keyed_backend.is_unused:
            return None
        self.keyed_state.write_back()
        return self._keyed_backend.open_snapshot(self._key_grouping, snapshot_id)

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Restore the backends and the timer services, for this subtask's key groups.

        Raises:
            ValueError: The operator has fewer timer services than the snapshot.
        """
        self._check_key_type(snapshot)
        services = 1 + max((int(name.split("/")[0]) for name in snapshot.timers), default=-1)
        if services > len(self.timer_services):
            raise ValueError(
                f"the snapshot has the timers of {services} services, {self.name!r} "
                f"has {len(self.timer_services)}"
            )
        for types in (self.keyed_state.types, self.operator_state.types):
            types.restore(
                {
                    name: type_
                    for name, type_ in snapshot.types.items()
                    if name != _KEY and name.startswith(_KEYED) == (types is self.keyed_state.types)
                }
            )
        self._keyed_backend.restore(
            snapshot.keyed,
            snapshot.timers,
            self.key_groups,
            self._restored_keys,
            snapshot.files,
            snapshot.log,
        )
        self.operator_state.restore(
            OperatorStates(snapshot.lists, snapshot.union_lists, snapshot.broadcast)
        )
        for service in self.timer_services:
            service.take_over()

    @cached_property
    def _key_snapshot(self) -> TypeSerializerSnapshot:
        serializer: TypeSerializer[Any] = TypeSerializer(cast("Any", self.config.key_type))
        return serializer.snapshot_configuration()

    def _check_key_type(self, snapshot: OperatorSnapshot) -> None:
        written = snapshot.types.get(_KEY)
        if written is None or not (snapshot.keyed or snapshot.timers or snapshot.files):
            return
        former = TypeSerializerSnapshot.read(written)
        if former != self._key_snapshot:
            raise InvalidProgramError(
                f"the keys of {self.name!r} were of type {former}, and are of type "
                f"{self._key_snapshot} now: the type of keys cannot change"
            )

    def open_with_operator(self, helper: object) -> None:
        """Open a key selector or partitioner, to be closed with the operator."""
        if helper not in self._helpers:
            open_function(helper, self)
            self._helpers.append(helper)

    def close(self) -> None:
        """Close what ``open_with_operator`` opened, and dispose of the keyed state."""
        if "keyed_state" in self.__dict__:
            self._keyed_backend.dispose()
        while self._helpers:
            close_function(self._helpers.pop(), self)

    def timer_service(self, target: Triggerable) -> InternalTimerService:
        """Return a new timer service that calls ``target``."""
        number, keyed_state = len(self.timer_services), self.keyed_state
        service = InternalTimerService(
            keyed_state,
            self.processing_time,
            target,
            lambda domain: keyed_state.timer_table(f"{number}/{domain}"),
        )
        self.timer_services.append(service)
        return service

    def set_broadcast_variables(self, variables: dict[str, list[object]]) -> None:
        """Set the complete broadcast sets of the operator, by name."""
        self.runtime_context.set_broadcast_variables(variables)

    def end_key(self) -> None:
        """End event time for the keys processed so far, in BATCH mode."""
        for service in self.timer_services:
            service.end_key()

    def post(self, action: Callable[[], object], user: MailboxUser) -> None:
        """Run ``action`` in the task's thread; any thread.

        Raises:
            MailboxClosedError: The task is ending.
            QueueFullError: This user has as many mails waiting as it may.
        """
        self._mailbox.execute(action, user, self._position)

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Run mails and timers of this operator and those behind it until ``condition`` holds.

        For operators that must wait for something that arrives as a mail.
        """
        if self._run_until is None:
            msg = "this task cannot wait inside an operator"
            raise RuntimeError(msg)
        self._run_until(condition, self._position)

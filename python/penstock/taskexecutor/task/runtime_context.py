"""Context of a user function: its subtask and its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock.common.accumulators import (
    Accumulator,
    DoubleCounter,
    Histogram,
    IntCounter,
    LongCounter,
)
from penstock.common.calls.names import nearest_hint
from penstock.common.distributed_cache import DistributedCache
from penstock.datastream.functions.runtime_context import RuntimeContext
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.taskexecutor.copies.isolation import lending
from penstock.taskexecutor.state.function_state import FunctionOperatorStateStore
from penstock.taskexecutor.state.opened_states import OpenedStates

if TYPE_CHECKING:
    from penstock.datastream.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        FoldingStateDescriptor,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        OperatorStateStore,
        ReducingState,
        ReducingStateDescriptor,
        StateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )
    from penstock.taskexecutor.compiled import ValueCopier
    from penstock.taskexecutor.task.metric_group import OperatorMetricGroup
    from penstock.taskexecutor.task.operator_context import TaskOperatorContext

A = TypeVar("A")


class StreamingRuntimeContext(RuntimeContext):
    """The runtime context of one operator of one subtask."""

    def __init__(self, operator: TaskOperatorContext) -> None:
        """Create the context of ``operator``."""
        self._operator = operator
        self._metrics: OperatorMetricGroup | None = None
        self._job_parameters: dict[str, str] | None = None
        self._broadcast_variables: dict[str, list[Any]] = {}
        self._states = OpenedStates(self._open_state)

    def get_task_name(self) -> str:
        """Return the name of the task, as plans show it."""
        return self._operator.environment.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the operator."""
        return self._operator.environment.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups of the operator."""
        return self._operator.environment.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the number of this subtask, from 0."""
        return self._operator.environment.subtask

    def get_attempt_number(self) -> int:
        """Return the number of earlier starts of the subtask, from 0."""
        return self._operator.environment.attempt_number

    def get_task_name_with_subtasks(self) -> str:
        """Return the name with subtask number (from 1), parallelism and attempt."""
        environment = self._operator.environment
        return (
            f"{environment.task_name} ({environment.subtask + 1}/{environment.parallelism})"
            f"#{environment.attempt_number}"
        )

    def get_job_parameters(self) -> dict[str, str]:
        """Return all global job parameters."""
        if self._job_parameters is None:
            self._job_parameters = self._operator.execution_config.get_global_job_parameters()
        return dict(self._job_parameters)

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter, or the default."""
        return self.get_job_parameters().get(key, default_value)

    def set_broadcast_variables(self, variables: dict[str, list[object]]) -> None:
        """Set the complete broadcast sets of the operator, by name."""
        self._broadcast_variables = variables

    def has_broadcast_variable(self, name: str) -> bool:
        """Return whether the operator has a broadcast set of this name."""
        return name in self._broadcast_variables

    def get_broadcast_variable(self, name: str) -> list[object]:
        """Return the records of a broadcast set."""
        if name not in self._broadcast_variables:
            raise InvalidProgramError(
                f"operator {self._operator.name!r} has no broadcast set {name!r}"
                f"{nearest_hint(name, self._broadcast_variables)}: add it by with_broadcast_set()"
            )
        return self._broadcast_variables[name]

    def get_distributed_cache(self) -> DistributedCache:
        """Return the files that the program registered with `register_cached_file`."""
        return DistributedCache(self._operator.environment.cached_files)

    def get_metrics_group(self) -> OperatorMetricGroup:
        """Return the group in which the function registers its metrics."""
        if self._metrics is None:
            operator = self._operator
            self._metrics = operator.metric_group()
        return self._metrics

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of non-keyed state."""
        return FunctionOperatorStateStore(self._operator)

    def add_accumulator(self, name: str, accumulator: Accumulator[object, object]) -> None:
        """Register an accumulator of the job."""
        self._operator.accumulators.add(name, accumulator)

    def get_accumulator(self, name: str) -> Accumulator[object, object] | None:
        """Return the task's accumulator of that name, or None."""
        return self._operator.accumulators.get(name)

    def get_int_counter(self, name: str) -> IntCounter:
        """Return the task's counter of that name."""
        return self._counter(name, IntCounter)

    def get_long_counter(self, name: str) -> LongCounter:
        """Return the task's counter of that name."""
        return self._counter(name, LongCounter)

    def get_double_counter(self, name: str) -> DoubleCounter:
        """Return the task's counter of that name."""
        return self._counter(name, DoubleCounter)

    def get_histogram(self, name: str) -> Histogram:
        """Return the task's histogram of that name."""
        return self._counter(name, Histogram)

    def _counter(self, name: str, kind: type[A]) -> A:
        return self._operator.accumulators.get_or_add(name, kind)  # type: ignore[no-any-return]

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[object]:
        """Return one value of the current key."""
        state: ValueState[object] = self._states.view("value", state_descriptor)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[object]:
        """Return a list of the current key."""
        state: ListState[object] = self._states.view("list", state_descriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[object, object]:
        """Return a map of the current key."""
        state: MapState[object, object] = self._states.view("map", state_descriptor)
        return state

    def get_reducing_state(
        self, state_descriptor: ReducingStateDescriptor
    ) -> ReducingState[object]:
        """Return one value of the current key into which others are folded."""
        state: ReducingState[object] = self._states.view("reducing", state_descriptor)
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[object, object]:
        """Return an accumulator of the current key with a view of its result."""
        state: AggregatingState[object, object] = self._states.view("aggregating", state_descriptor)
        return state

    def get_folding_state(self, state_descriptor: FoldingStateDescriptor) -> Any:
        """Return an accumulator of the current key into which values are folded."""
        return self._states.view("aggregating", state_descriptor)

    def value_copier(self, what: str) -> ValueCopier | None:
        """Return the copier of values that the operator emits or stores; None under object reuse.

        Args:
            what: How the operator uses the values, for messages.
        """
        return self._operator.isolation.copier(what)

    def _open_state(self, kind: str, descriptor: StateDescriptor) -> Any:
        if not self._operator.is_keyed:
            msg = (
                f"operator {self._operator.name!r} asks for keyed state, which is only accessible "
                "by functions executed on a KeyedStream: call key_by() before it"
            )
            raise InvalidProgramError(msg)
        if isinstance(self._operator.descriptor, operators.AsyncWait):
            function = type(self._operator.descriptor.function).__name__
            msg = (
                f"{function} of the operator {self._operator.name!r} asks for the keyed state "
                f"{descriptor.get_name()!r}, which an AsyncFunction cannot have: its calls for "
                "several keys run at the same time; use the state in a KeyedProcessFunction before "
                "or behind it, and pass it what it needs with the record"
            )
            raise InvalidProgramError(msg)
        state = getattr(self._operator.keyed_state, f"{kind}_state")(descriptor)
        return lending(state, descriptor)

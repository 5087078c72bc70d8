"""RuntimeContext: the subtask of a function, its state, metrics and files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.common.accumulators import (
        Accumulator,
        DoubleCounter,
        Histogram,
        IntCounter,
        LongCounter,
    )
    from penstock.common.distributed_cache import DistributedCache
    from penstock.datastream.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        FoldingState,
        FoldingStateDescriptor,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        OperatorStateStore,
        ReducingState,
        ReducingStateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )


class KeyedStateStore(ABC):
    """Access to the state of the current key."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return a state of one value."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a state of a list."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return a state of a map."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return a state of one value, into which others are folded."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """Return a state of an accumulator, which returns its result."""

    @abstractmethod
    def get_folding_state(self, state_descriptor: FoldingStateDescriptor) -> FoldingState[Any, Any]:
        """Return a state of an accumulator, into which values are folded (beyond PyFlink)."""


class RuntimeContext(KeyedStateStore):
    """Context of a function: the subtask that runs it, and its state."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the name of the task, as plans show it."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups of the operator."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the number of this subtask, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return the number of earlier starts of the subtask, from 0."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Return the name with subtask number (from 1), parallelism and attempt."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter, or the default."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of state that belongs to no key (beyond PyFlink)."""

    @abstractmethod
    def has_broadcast_variable(self, name: str) -> bool:
        """Return whether the operator has a broadcast set of this name (beyond PyFlink)."""

    @abstractmethod
    def get_broadcast_variable(self, name: str) -> list[Any]:
        """Return the records of a set of `DataStream.with_broadcast_set` (beyond PyFlink).

        Raises:
            InvalidProgramError: The operator has no set of this name.
        """

    @abstractmethod
    def get_distributed_cache(self) -> DistributedCache:
        """Return the files registered with `register_cached_file` (beyond PyFlink)."""

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Register an accumulator of the job (beyond PyFlink).

        Raises:
            InvalidProgramError: The task has an accumulator of that name.
        """

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator[Any, Any] | None:
        """Return the task's accumulator of that name, or None (beyond PyFlink)."""

    @abstractmethod
    def get_int_counter(self, name: str) -> IntCounter:
        """Return the task's counter of that name, new if there is none (beyond PyFlink)."""

    @abstractmethod
    def get_long_counter(self, name: str) -> LongCounter:
        """Return the task's counter of that name, new if there is none (beyond PyFlink)."""

    @abstractmethod
    def get_double_counter(self, name: str) -> DoubleCounter:
        """Return the task's counter of that name, new if there is none (beyond PyFlink)."""

    @abstractmethod
    def get_histogram(self, name: str) -> Histogram:
        """Return the task's histogram of that name, new if there is none (beyond PyFlink)."""

    @abstractmethod
    def get_metrics_group(self) -> Any:
        """Return the group in which the function registers its metrics."""

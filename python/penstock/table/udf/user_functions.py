"""Base classes of Python functions: scalar, table and aggregate functions, and their context."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.metrics.metricbase import MetricGroup
    from penstock.table.types import DataType

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "ImperativeAggregateFunction",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "UserDefinedFunction",
]

T = TypeVar("T")
ACC = TypeVar("ACC")


class FunctionContext:
    """Runtime context of a function in one subtask.

    Args:
        metric_group: The group in which the function registers metrics.
        job_parameters: The job's own parameters, from ``pipeline.global-job-parameters``.
        task_name: The name of the task.
        parallelism: The number of subtasks.
        max_parallelism: The number of key groups.
        subtask_index: The index of this subtask, from 0.
        attempt_number: The number of earlier starts of the subtask.
    """

    def __init__(
        self,
        metric_group: MetricGroup,
        job_parameters: Mapping[str, str],
        task_name: str = "",
        parallelism: int = 1,
        max_parallelism: int = 128,
        subtask_index: int = 0,
        attempt_number: int = 0,
    ) -> None:
        self._metric_group = metric_group
        self._job_parameters = job_parameters
        self._task_name = task_name
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._subtask_index = subtask_index
        self._attempt_number = attempt_number

    def get_metric_group(self) -> MetricGroup:
        """Return the group in which the function registers metrics."""
        return self._metric_group

    def get_job_parameter(self, key: str, default_value: str | None) -> str | None:
        """Return a parameter of the job, or the default value."""
        return self._job_parameters.get(key, default_value)

    def get_task_name(self) -> str:
        """Return the name of the task."""
        return self._task_name

    def get_task_name_with_subtasks(self) -> str:
        """Return the name of the task with the number of the subtask."""
        number = f"{self._subtask_index + 1}/{self._parallelism}"
        return f"{self._task_name} ({number})#{self._attempt_number}"

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the number of subtasks."""
        return self._parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""
        return self._max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask, from 0."""
        return self._subtask_index

    def get_attempt_number(self) -> int:
        """Return the number of earlier starts of the subtask."""
        return self._attempt_number


class UserDefinedFunction(ABC):  # noqa: B024 - each kind has methods of its own
    """A function in Python."""

    def open(self, function_context: FunctionContext) -> None:  # noqa: B027 - most need nothing
        """Prepare the function; called once before the first call."""

    def close(self) -> None:  # noqa: B027 - most need nothing
        """Release resources; called once after the last call."""

    def is_deterministic(self) -> bool:
        """Return whether equal arguments always have equal results."""
        return True


class ScalarFunction(UserDefinedFunction):
    """A function that returns a value for each row."""

    @abstractmethod
    def eval(self, *args: Any) -> Any:
        """Return the value of a row."""


class AsyncScalarFunction(UserDefinedFunction):
    """A scalar function that may wait: several rows wait concurrently."""

    @abstractmethod
    async def eval(self, *args: Any) -> Any:
        """Return the value of a row."""


class TableFunction(UserDefinedFunction):
    """A function that returns rows for each row."""

    @abstractmethod
    def eval(self, *args: Any) -> Any:
        """Return the rows for a row: yield them, or return an iterable."""


class ImperativeAggregateFunction(UserDefinedFunction, Generic[T, ACC]):
    """A function over the rows of a group."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Return the accumulator of a group without rows."""

    @abstractmethod
    def accumulate(self, accumulator: ACC, *args: Any) -> None:
        """Add a row to the accumulator."""

    def retract(self, accumulator: ACC, *args: Any) -> None:
        """Remove a row from the accumulator; required if the input is updated.

        Raises:
            NotImplementedError: Unless overridden.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.retract: the input of the aggregate is updated, so its rows "
            "must be removed again"
        )

    def merge(self, accumulator: ACC, accumulators: Iterable[ACC]) -> None:
        """Merge other accumulators; required by session windows.

        Raises:
            NotImplementedError: Unless overridden.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.merge: session windows merge their accumulators"
        )

    def get_result_type(self) -> DataType | str:
        """Return the type of results.

        Raises:
            NotImplementedError: Unless overridden; alternatively, pass the type to ``udaf``.
        """
        raise NotImplementedError(f"{type(self).__name__}.get_result_type")

    def get_accumulator_type(self) -> DataType | str:
        """Return the type of accumulators.

        Raises:
            NotImplementedError: Unless overridden; alternatively, pass the type to ``udaf``.
        """
        raise NotImplementedError(f"{type(self).__name__}.get_accumulator_type")


class AggregateFunction(ImperativeAggregateFunction[T, ACC]):
    """A function that returns one value for the rows of a group."""

    @abstractmethod
    def get_value(self, accumulator: ACC) -> T:
        """Return the result."""


class TableAggregateFunction(ImperativeAggregateFunction[T, ACC]):
    """A function that returns rows for the rows of a group."""

    @abstractmethod
    def emit_value(self, accumulator: ACC) -> Iterable[T]:
        """Yield the rows of the result."""

"""The functions of stateless and reducing operators."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.common.types import Row
from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.datastream.functions.runtime_context import RuntimeContext


class MapFunction(Function):
    """A function that converts each record to one result."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return the record to emit."""


class FlatMapFunction(Function):
    """A function that converts each record to any number of results."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any]:
        """Return the records to emit; usually a generator."""


class FilterFunction(Function):
    """A function that selects records."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether to keep the record."""


class ReduceFunction(Function):
    """A function that folds two records of one type into one."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the folded record; `value1` is the earlier one."""


class FoldFunction(Function):
    """A function that folds records into an accumulator of another type (beyond PyFlink)."""

    @abstractmethod
    def fold(self, accumulator: Any, value: Any) -> Any:
        """Return the accumulator after folding in one more record."""


class AggregateFunction(Function):
    """A function that aggregates records in an accumulator."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Return a new accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator after adding one more record."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return the result of an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return the merged accumulator of two, for windows that merge."""


class CoMapFunction(Function):
    """A function that maps the records of two streams; a result of None is not emitted."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Return the record to emit for a record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Return the record to emit for a record of the second stream."""


class CoFlatMapFunction(Function):
    """A function that converts the records of two streams to any number of results."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any]:
        """Return the records to emit for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any]:
        """Return the records to emit for a record of the second stream."""


class KeySelector(Function):
    """A function that returns the key of a record."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key; equal records must have equal keys in every process."""


class NullByteKeySelector(KeySelector):
    """A selector with the same key for every record, for windows over all records."""

    def get_key(self, value: Any) -> int:  # noqa: ARG002
        """Return 0."""
        return 0


class NamedRowKeySelector(KeySelector):
    """A selector whose Row keys have the field names of the declared key type."""

    def __init__(self, selector: Any, field_names: list[str]) -> None:
        """Wrap a KeySelector or a callable.

        Args:
            selector: The wrapped key selector.
            field_names: The names of the key's fields, in order.
        """
        self._selector = selector
        self._get_key = getattr(selector, "get_key", selector)
        self._field_names = field_names

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the wrapped selector."""
        if isinstance(self._selector, Function):
            self._selector.open(runtime_context)

    def close(self) -> None:
        """Close the wrapped selector."""
        if isinstance(self._selector, Function):
            self._selector.close()

    def get_key(self, value: Any) -> Any:
        """Return the key; copy a row without field names and set the type's names."""
        key = self._get_key(value)
        if not isinstance(key, Row) or key._field_names() is not None:
            return key
        named = Row.of_kind(key.get_row_kind(), *key)
        named.set_field_names(self._field_names)
        return named


class Partitioner(Function):
    """A function that selects the subtask of a record."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int | Sequence[int]:
        """Return the number of the subtask, from 0 to `num_partitions` - 1.

        Beyond PyFlink, a list or tuple of such numbers sends the record to each of these subtasks,
        and an empty one to none.
        """

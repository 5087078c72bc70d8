"""The functions of `PartitionWindowedStream`, and the operator that calls them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from penstock.common.values.records import record_field
from penstock.datastream.functions import KeySelector, MapPartitionFunction, WindowFunction
from penstock.datastream.functions.function import WrappedFunction, check_function
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.functions import bound_function
from penstock.graph import operators
from penstock.graph.transformations import PARALLELISM_DEFAULT, OneInputTransformation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.data_stream.settings import StreamSettings


class Order(Enum):
    """Sort order of a partition."""

    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"


class _Field(KeySelector):
    def __init__(self, field: int | str) -> None:
        self._field = field

    def get_key(self, value: Any) -> Any:
        """Return the field."""
        field = self._field
        return record_field(value, field) if isinstance(field, str) else value[field]


class _Sort(WrappedFunction, MapPartitionFunction):
    def __init__(self, selector: Any, *, descending: bool) -> None:
        super().__init__(selector)
        self._key = bound_function(selector, "get_key")
        self._descending = descending

    def map_partition(self, values: Iterable[Any]) -> Iterable[Any]:
        """Return the sorted records."""
        return sorted(values, key=self._key, reverse=self._descending)


class OfWindow(WrappedFunction, WindowFunction[Any, Any, Any, Any]):
    """The function that calls a function of a partition with the records of a key."""

    def __init__(self, function: Any) -> None:
        """Store the function."""
        super().__init__(function)
        self._called = bound_function(function, "map_partition")

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:  # noqa: ARG002
        """Return the results for the records of a key."""
        return self._called(inputs) or ()


def _checked_field(field: int | str, kind: TypeInformation) -> int | str:
    if isinstance(kind, RowTypeInfo) and isinstance(field, str):
        if field not in kind.get_field_names():
            raise InvalidProgramError(f"sort_partition: {kind} has no field {field!r}")
    elif isinstance(kind, RowTypeInfo | TupleTypeInfo) and field not in range(
        len(kind.get_field_types())
    ):
        raise InvalidProgramError(f"sort_partition: {kind} has no field {field!r}")
    return field


def sort_function(field: Any, kind: TypeInformation, order: Order) -> MapPartitionFunction:
    """Return the function that sorts a partition; see `PartitionWindowedStream.sort_partition`.

    Raises:
        WrongArgumentError: The order is not an Order.
        InvalidProgramError: The type has no such field.
    """
    given: Any = order
    if not isinstance(given, Order):
        raise WrongArgumentError(f"sort_partition takes an Order, got {order!r}")
    if isinstance(field, int | str):
        selector: Any = _Field(_checked_field(field, kind))
    else:
        check_function(field, KeySelector, "sort_partition", or_callable=True)
        selector = field
    return _Sort(selector, descending=order is Order.DESCENDING)


def partition_operator(
    stream: StreamSettings,
    kind: operators.PartitionFunctionKind,
    function: Any,
    output_type: Any,
    kept_type: TypeInformation,
    name: str,
) -> OneInputTransformation:
    """Return the operator that calls a function with each subtask's records."""
    before = stream.transformation
    transformation = OneInputTransformation(
        before,
        name,
        operators.FullWindowPartition(
            shipped(function, kind), function_kind=kind, kept_type=kept_type
        ),
        output_type,
        # The parallelism of the records: its subtasks are the partitions.
        stream._environment.get_parallelism()
        if before.parallelism == PARALLELISM_DEFAULT
        else before.parallelism,
    )
    transformation.has_own_parallelism = True
    return transformation

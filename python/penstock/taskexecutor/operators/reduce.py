"""Running folds of keyed streams: reduce, sum, min, max, min_by, max_by."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.common.exception_deadline import repr_in_time
from penstock.common.types import Row
from penstock.common.values.records import is_record, record_field, with_field
from penstock.errors import InvalidProgramError
from penstock.expressions.functions import bound_function
from penstock.taskexecutor.compiled import (
    FinalReduceOperator,
    KeyedReduceOperator,
    StreamOperator,
    SumFieldOperator,
)
from penstock.taskexecutor.state.keyed_function import keyed_fold

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.state.table import CopyOnWriteStateMap

Fold = Callable[[Any, Any], Any]


def create_reduce(context: OperatorContext, descriptor: operators.Reduce) -> StreamOperator:
    """Create the operator of ``reduce``, which folds with the user's function."""
    function = descriptor.function
    reduce = bound_function(function, "reduce")
    element_type = next(iter(context.config.input_types), None)
    fold = context.evaluation.without_call(reduce, 2, (element_type, element_type))
    if fold is reduce:
        fold = keyed_fold(context, function, fold)
    return _create(context, function, fold)


def create_aggregate_field(
    context: OperatorContext, descriptor: operators.AggregateField
) -> StreamOperator:
    """Create the operator that folds one field, or whole records if there is no position."""
    operation, position = descriptor.operation, descriptor.position
    fold = field_fold(operation, position)
    running_sum = operation == "sum" and not context.is_batch
    if running_sum and isinstance(position, int) and position >= 0:
        return SumFieldOperator(position, fold, *_keys_and_folds(context))
    return _create(context, None, fold)


def _create(context: OperatorContext, user_function: object, fold: Fold) -> StreamOperator:
    operator = FinalReduceOperator if context.is_batch else KeyedReduceOperator
    return operator(user_function, fold, *_keys_and_folds(context))


def _keys_and_folds(context: OperatorContext) -> tuple[KeyReader, CopyOnWriteStateMap]:
    keys = context.key_reader()
    if keys is None:
        msg = f"{context.name!r} folds the records of a key, but its input is not keyed"
        raise InvalidProgramError(msg)
    folded = next(iter(context.config.input_types), None)
    table = context.keyed_state.typed_table("_reduce_state", "value", folded)
    return keys, table.map(None)


def field_fold(operation: str, position: int | str | None) -> Fold:
    """Return the fold of a built-in aggregation.

    Args:
        operation: ``sum``, ``min``, ``max``, ``min_by`` or ``max_by``.
        position: Index or name of the field; None folds whole records.  A record that is not a
            tuple, list or row has only the field 0, the record itself.
    """
    if operation in ("min_by", "max_by"):
        return _pick_fold(operation == "min_by", position)
    combine = {"sum": _add, "min": _smaller, "max": _larger}[operation]

    def fold(first: Any, second: Any) -> object:
        if position is None or _is_whole(first, position):
            return combine(first, second)
        one, other = _field(first, position), _field(second, position)
        return _replaced(first, position, combine(one, other))

    return fold


def _pick_fold(smallest: bool, position: int | str | None) -> Fold:
    def fold(first: Any, second: Any) -> object:
        if position is None or not (
            isinstance(first, (tuple, list, Row)) or _has_named(first, position)
        ):
            one, other = first, second
        else:
            one, other = _field(first, position), _field(second, position)
        better = other < one if smallest else other > one
        return second if better else first

    return fold


def _is_whole(element: object, position: int | str) -> bool:
    """Return whether a fold applies to whole records.

    Raises:
        InvalidProgramError: A field was requested, but the record has none.
    """
    if isinstance(element, (tuple, list, Row)) or _has_named(element, position):
        return False
    if position != 0:
        msg = (
            f"{repr_in_time(element)} has no fields, so its field {position!r} cannot be "
            "aggregated: use position 0, which stands for the whole record"
        )
        raise InvalidProgramError(msg)
    return True


def _has_named(element: object, position: int | str) -> bool:
    """Return whether a field is the named one of a dictionary or of a class with fields."""
    return isinstance(position, str) and (isinstance(element, dict) or is_record(element))


def _field(container: Any, position: int | str) -> Any:
    if isinstance(position, str) and not isinstance(container, Row):
        return record_field(container, position)
    return container[position]


def _add(first: Any, second: Any) -> object:
    return first + second


def _smaller(first: Any, second: Any) -> object:
    return second if second < first else first


def _larger(first: Any, second: Any) -> object:
    return second if second > first else first


def _replaced(container: Any, position: int | str, value: object) -> object:
    """Return a copy of a tuple, list, row or record with one field replaced."""
    if isinstance(position, str) and not isinstance(container, Row):
        return with_field(container, position, value)
    if isinstance(container, tuple):
        assert isinstance(position, int)
        fields = list(container)
        fields[position] = value
        return tuple(fields)
    changed = copy.copy(container)
    if isinstance(container, Row):
        changed._values = list(container._values)
    changed[position] = value
    return changed

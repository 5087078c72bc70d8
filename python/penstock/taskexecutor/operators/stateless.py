"""Operators without state: map, flat_map, filter and what is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.expressions.functions import bound_function
from penstock.taskexecutor.compiled import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    StreamOperator,
)
from penstock.taskexecutor.state.keyed_function import keyed

if TYPE_CHECKING:
    from penstock.taskexecutor.task.operator_context import OperatorContext


def create_map(context: OperatorContext) -> StreamOperator:
    """One element for each."""
    function = context.descriptor.function
    return MapOperator(function, keyed(context, function, bound_function(function, "map")))


def create_flat_map(context: OperatorContext) -> StreamOperator:
    """Any number of elements for each."""
    function = context.descriptor.function
    called = keyed(context, function, bound_function(function, "flat_map"))
    return FlatMapOperator(function, context.evaluation.without_call(called, 1))


def create_filter(context: OperatorContext) -> StreamOperator:
    """The elements for which a function is true."""
    function = context.descriptor.function
    return FilterOperator(function, keyed(context, function, bound_function(function, "filter")))


def create_project(context: OperatorContext) -> StreamOperator:
    """A tuple of some fields of each tuple or row."""
    indexes = tuple(context.descriptor.arguments["indexes"])

    def project(value: Any) -> tuple[Any, ...]:
        return tuple([value[index] for index in indexes])

    return MapOperator(None, project)


def create_key_extract(context: OperatorContext) -> StreamOperator:
    """A pair of key and element for each element."""
    selector = bound_function(context.descriptor.function, "get_key")

    def with_key(value: Any) -> tuple[Any, Any]:
        return selector(value), value

    return MapOperator(context.descriptor.function, with_key)


def create_split(context: OperatorContext) -> StreamOperator:
    """The elements themselves; the output selectors are those of the operator's outputs."""
    del context
    return FilterOperator(None, _always)


def _always(value: Any) -> bool:
    del value
    return True

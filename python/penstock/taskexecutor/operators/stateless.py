"""Operators without state: map, flat_map, filter and project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.expressions import as_tuple, field
from penstock.expressions.computed import computed
from penstock.expressions.functions import bound_function
from penstock.taskexecutor.compiled import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    StreamOperator,
)
from penstock.taskexecutor.state.keyed_function import keyed

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_map(context: OperatorContext, descriptor: operators.Map) -> StreamOperator:
    """Create the operator of ``map``: one result for each record."""
    function = descriptor.function
    return MapOperator(function, keyed(context, function, bound_function(function, "map")))


def create_flat_map(context: OperatorContext, descriptor: operators.FlatMap) -> StreamOperator:
    """Create the operator of ``flat_map``: any number of results for each record."""
    function = descriptor.function
    called = keyed(context, function, bound_function(function, "flat_map"))
    return FlatMapOperator(
        function, context.evaluation.without_call(called, 1, context.config.input_types)
    )


def create_filter(context: OperatorContext, descriptor: operators.Filter) -> StreamOperator:
    """Create the operator of ``filter``: keep the records for which a function is true."""
    function = descriptor.function
    return FilterOperator(function, keyed(context, function, bound_function(function, "filter")))


def create_project(context: OperatorContext, descriptor: operators.Project) -> StreamOperator:
    """Create the operator of ``project``: a tuple of some fields of each tuple or row."""
    del context
    # As an expression, it is evaluated without a call.
    projected = as_tuple(*(field(index) for index in descriptor.indexes))
    return MapOperator(None, computed(projected, "project", [None]).function)

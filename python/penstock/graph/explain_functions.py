"""Explains for each function of an operator whether it is evaluated or called, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.aggregates.named import NamedAggregates
from penstock.expressions.computed import computed_by
from penstock.expressions.evaluation import Called, Stage
from penstock.expressions.functions import bound_function
from penstock.graph import operators
from penstock.serialization.key_selection import part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.expressions.bytecode import Types
    from penstock.expressions.evaluation import Evaluation
    from penstock.graph.operators import OperatorDescriptor
    from penstock.graph.stream_graph import StreamNode

#: By kind of operator, the method of its function and the number of arguments.
_METHODS: Final[Mapping[type[OperatorDescriptor], tuple[str, int]]] = {
    operators.Map: ("map", 1),
    operators.DataGeneratorSource: ("map", 1),
    operators.FlatMap: ("flat_map", 1),
    operators.Filter: ("filter", 1),
    operators.Reduce: ("reduce", 2),
}

#: Kinds of operators whose functions are never evaluated, and why.
_CALLED: Final[Mapping[type[OperatorDescriptor], str]] = {
    operators.FunctionSink: "as sinks are",
    operators.SinkWriter: "as sinks are",
    operators.SinkCommitter: "as committers are",
    operators.FunctionSource: "as sources are",
    operators.Transform: "as operators are",
    operators.MapBatches: "once for each batch",
}


def function_facts(node: StreamNode, evaluation: Evaluation) -> list[str]:
    """Return one line for each function of an operator.

    Args:
        node: The operator.
        evaluation: The evaluation that the job configures.
    """
    lines = [f"{what}: {fact}" for what, fact in _own_functions(node, evaluation)]
    for number, selector in enumerate(node.key_selectors):
        if selector is not None:
            of_input = f" of input {number}" if len(node.key_selectors) > 1 else ""
            fact = _selector_fact(selector, evaluation, node.input_types[number])
            lines.append(f"key selector{of_input}: {fact}")
    for edge in node.in_edges:
        spec = edge.partitioner
        if spec.kind != "CUSTOM":
            continue
        if spec.key_selector is not None:
            select = bound_function(spec.key_selector, "get_key")
            lines.append(f"key selector: {_fact(select, 1, evaluation, node.input_types[:1])}")
        partition = bound_function(spec.function, "partition")
        lines.append(f"partitioner: {_fact(partition, 2, evaluation)}")
    return lines


def _own_functions(node: StreamNode, evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    descriptor = node.descriptor
    function = descriptor.user_function
    keyed = any(s is not None for s in node.key_selectors)
    if type(descriptor) in _METHODS:
        method, arguments = _METHODS[type(descriptor)]
        called = bound_function(function, method)
        if keyed and method != "reduce" and hasattr(function, "open"):
            yield method, "called, because it may use the state of a key"
        else:
            types = node.input_types[:1] * arguments
            yield method, _fact(called, arguments, evaluation, types)
    elif isinstance(function, NamedAggregates):
        if function.arguments is not None:
            given = function.arguments.function
            yield "arguments", _fact(given, 1, evaluation, node.input_types[:1])
    elif isinstance(descriptor, operators.Window):
        yield from _window_functions(descriptor, evaluation, node.input_types[:1])
    elif isinstance(descriptor, operators.KeyedRank):
        if descriptor.order is not None:
            yield "order", _fact(descriptor.order, 1, evaluation, node.input_types[:1])
        yield "process_element", "called for records that are not in columns"
    elif isinstance(descriptor, operators.RegularJoin):
        yield "join", "called for records that are not in columns"
    elif isinstance(descriptor, operators.Process | operators.KeyedProcess) and keyed:
        yield from _process_functions(function, evaluation, node.input_types[:1])
    elif function is not None and not isinstance(descriptor, operators.SplitSource):
        reason = _CALLED.get(
            type(descriptor), "because it also receives other arguments than records"
        )
        yield type(function).__name__, f"called, {reason}"
    strategy = None
    if isinstance(descriptor, operators.Watermarks):
        strategy = descriptor.strategy
    elif isinstance(descriptor, operators.SourceDescriptor):
        strategy = descriptor.watermark_strategy
    if strategy is not None and strategy.timestamp_assigner is not None:
        assigned = strategy.timestamp_assigner.extract_timestamp
        types = node.input_types[:1] or (node.output_type,)
        yield "timestamp assigner", _fact(assigned, 2, evaluation, types)


def _process_functions(
    function: Any, evaluation: Evaluation, types: Types
) -> Iterator[tuple[str, str]]:
    for method in ("process_element", "on_timer"):
        called = getattr(function, method, None)
        if called is None:
            continue
        decided = evaluation.decide_procedure(called, types if method == "process_element" else ())
        yield method, f"called, it {decided.reason}" if isinstance(decided, Called) else "evaluated"


def _window_functions(
    descriptor: operators.Window, evaluation: Evaluation, types: Types
) -> Iterator[tuple[str, str]]:
    function, kind = descriptor.function, descriptor.function_kind
    if kind == "reduce" or kind == "aggregate":
        if descriptor.evictor is not None:
            yield kind, "called when a window fires, because an evictor reads its records"
        elif kind == "reduce":
            yield kind, _fact(bound_function(function, "reduce"), 2, evaluation, types * 2)
        else:
            yield "add", _fact(function.add, 2, evaluation, types)
    window_function = descriptor.window_function
    if kind not in ("reduce", "aggregate"):
        window_function = function
    if window_function is not None:
        yield type(window_function).__name__, "called, as it is given windows"


def _selector_fact(selector: Any, evaluation: Evaluation, element_type: Any) -> str:
    called = bound_function(selector, "get_key")
    _, position = evaluation.key_selection(called, element_type)
    if position >= 0:
        expression = computed_by(called)
        fact = f"field {position}, taken without a call"
        return fact if expression is None else f"{fact}: {expression}"
    part = part_of(called)
    if part is not None:
        return f"{part}, taken without a call"
    return _fact(called, 1, evaluation, (element_type,))


def _fact(
    called: Callable[..., Any], arguments: int, evaluation: Evaluation, types: Types = ()
) -> str:
    decided = evaluation.decide([Stage(called, types=types)], arguments)
    fact = f"called, it {decided.reason}" if isinstance(decided, Called) else "evaluated"
    expression = computed_by(called)
    return fact if expression is None else f"{fact}: {expression}"

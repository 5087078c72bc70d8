"""Says of each function of an operator whether it is evaluated or called, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.expressions.computed import computed_by
from penstock.expressions.evaluation import Called
from penstock.expressions.functions import bound_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.expressions.evaluation import Evaluation
    from penstock.graph.operators import OperatorDescriptor
    from penstock.graph.stream_graph import StreamNode

#: By kind of operator: the method of its function, and its number of arguments.
_METHODS: Final = {
    "map": ("map", 1),
    "flat_map": ("flat_map", 1),
    "filter": ("filter", 1),
    "reduce": ("reduce", 2),
}

#: Kinds of operators whose functions are given more than elements.
_CALLED: Final = {
    "key_extract": "the key is paired with its element",
    "sink_function": "sinks are",
    "sink_writer": "sinks are",
    "sink_committer": "committers are",
    "source_function": "sources are",
}


def function_facts(node: StreamNode, evaluation: Evaluation) -> list[str]:
    """One line for each function of an operator.

    Args:
        node: The operator.
        evaluation: What the job's settings say.
    """
    lines = [f"{what}: {fact}" for what, fact in _own_functions(node, evaluation)]
    for number, selector in enumerate(node.key_selectors):
        if selector is not None:
            of_input = f" of input {number}" if len(node.key_selectors) > 1 else ""
            lines.append(f"key selector{of_input}: {_selector_fact(selector, evaluation)}")
    for edge in node.in_edges:
        spec = edge.partitioner
        if spec.kind != "CUSTOM":
            continue
        if spec.key_selector is not None:
            select = bound_function(spec.key_selector, "get_key")
            lines.append(f"key selector: {_fact(select, 1, evaluation)}")
        partition = bound_function(spec.function, "partition")
        lines.append(f"partitioner: {_fact(partition, 2, evaluation)}")
    return lines


def _own_functions(node: StreamNode, evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    descriptor = node.descriptor
    if descriptor.kind in _METHODS:
        method, arguments = _METHODS[descriptor.kind]
        called = bound_function(descriptor.function, method)
        keyed = descriptor.kind != "reduce" and any(s is not None for s in node.key_selectors)
        if keyed and hasattr(descriptor.function, "open"):
            yield method, "called, because it may use the state of a key"
        else:
            yield method, _fact(called, arguments, evaluation)
    elif descriptor.kind == "window":
        yield from _window_functions(descriptor, evaluation)
    elif descriptor.function is not None and descriptor.kind != "watermarks":
        reason = _CALLED.get(descriptor.kind)
        if reason is not None:
            yield type(descriptor.function).__name__, f"called, as {reason}"
        elif descriptor.kind.endswith(("process", "map", "join", "wait")):
            yield type(descriptor.function).__name__, "called, as it is given more than elements"
    for argument in ("strategy", "watermark_strategy"):
        assigner = getattr(descriptor.arguments.get(argument), "timestamp_assigner", None)
        if assigner is not None:
            yield "timestamp assigner", _fact(assigner.extract_timestamp, 2, evaluation)


def _window_functions(
    descriptor: OperatorDescriptor, evaluation: Evaluation
) -> Iterator[tuple[str, str]]:
    function: Any = descriptor.function
    kind = descriptor.arguments["function_kind"]
    if kind == "reduce" or kind == "aggregate":
        if descriptor.arguments.get("evictor") is not None:
            yield kind, "called when a window fires, because an evictor looks at its elements"
        elif kind == "reduce":
            yield kind, _fact(bound_function(function, "reduce"), 2, evaluation)
        else:
            yield "add", _fact(function.add, 2, evaluation)
    window_function = descriptor.arguments.get("window_function")
    if kind not in ("reduce", "aggregate"):
        window_function = function
    if window_function is not None:
        yield type(window_function).__name__, "called, as it is given windows"


def _selector_fact(selector: Any, evaluation: Evaluation) -> str:
    called = bound_function(selector, "get_key")
    _, position = evaluation.key_selection(called)
    if position >= 0:
        expression = computed_by(called)
        fact = f"field {position}, taken without a call"
        return fact if expression is None else f"{fact}: {expression}"
    return _fact(called, 1, evaluation)


def _fact(called: Callable[..., Any], arguments: int, evaluation: Evaluation) -> str:
    decided = evaluation.decide([(called, False)], arguments)
    fact = f"called, it {decided.reason}" if isinstance(decided, Called) else "evaluated"
    expression = computed_by(called)
    return fact if expression is None else f"{fact}: {expression}"

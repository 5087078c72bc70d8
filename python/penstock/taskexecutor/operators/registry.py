"""From the kind of an operator descriptor to the operator that a task runs.

Modules are imported when a chain first needs them, so that a worker starts without the operators
that its job does not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.taskexecutor.operators.sorted_input import SORTED_KINDS, SortedInputOperator
from penstock.taskexecutor.worker.import_lock import IMPORT_LOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.compiled import StreamOperator
    from penstock.taskexecutor.task.operator_context import OperatorContext

_PACKAGE: Final = "penstock.taskexecutor."

#: Kind to module (below this package's parent) and the factory in it, which takes the context.
_FACTORIES: Final = {
    "map": ("operators.stateless", "create_map"),
    "flat_map": ("operators.stateless", "create_flat_map"),
    "filter": ("operators.stateless", "create_filter"),
    "project": ("operators.stateless", "create_project"),
    "key_extract": ("operators.stateless", "create_key_extract"),
    "split": ("operators.stateless", "create_split"),
    "reduce": ("operators.reduce", "create_reduce"),
    "aggregate_field": ("operators.reduce", "create_aggregate_field"),
    "process": ("operators.process", "create_process"),
    "keyed_process": ("operators.process", "create_keyed_process"),
    "watermarks": ("operators.watermarks", "create_watermarks"),
    "co_map": ("operators.two_input", "create_co_map"),
    "co_flat_map": ("operators.two_input", "create_co_flat_map"),
    "co_process": ("operators.two_input", "create_co_process"),
    "keyed_co_process": ("operators.two_input", "create_keyed_co_process"),
    "multiple_input_process": ("operators.two_input", "create_multiple_input_process"),
    "keyed_multiple_input_process": ("operators.two_input", "create_multiple_input_process"),
    "broadcast_process": ("operators.broadcast", "create_broadcast_process"),
    "keyed_broadcast_process": ("operators.broadcast", "create_keyed_broadcast_process"),
    "interval_join": ("operators.interval_join", "create_interval_join"),
    "async_wait": ("operators.async_wait", "create_async_wait"),
    "window": ("windowing.window_operator", "create_window"),
    "collection_source": ("sources.collection", "create_collection_source"),
    "number_sequence_source": ("sources.number_sequence", "create_number_sequence_source"),
    "socket_text_source": ("sources.socket_text", "create_socket_text_source"),
    "file_source": ("sources.file", "create_file_source"),
    "source_function": ("sources.source_function", "create_source_function"),
    "hybrid_source": ("sources.hybrid", "create_hybrid_source"),
    "iteration_head": ("iterations.head", "create_iteration_head"),
    "iteration_tail": ("iterations.tail", "create_iteration_tail"),
    "split_source": ("sources.split_source", "create_split_source"),
    "sink_function": ("sinks.function", "create_sink_function"),
    "sink_writer": ("sinks.writer", "create_sink_writer"),
    "print_sink": ("sinks.print", "create_print_sink"),
    "sink_committer": ("sinks.committer", "create_committer"),
    "file_sink": ("sinks.file", "create_file_sink"),
    "file_committer": ("sinks.file_committer", "create_file_committer"),
    "collect_sink": ("sinks.collect", "create_collect_sink"),
    "discarding_sink": ("sinks.function", "create_discarding_sink"),
}


def create_operator(context: OperatorContext) -> StreamOperator:
    """Builds the operator that ``context`` describes.

    Raises:
        PenstockError: This worker knows no such kind.
    """
    kind = context.descriptor.kind
    if kind not in _FACTORIES:
        msg = f"operator {context.name!r} is of the unknown kind {kind!r}"
        raise PenstockError(msg)
    module, name = _FACTORIES[kind]
    with IMPORT_LOCK:
        loaded = import_module(_PACKAGE + module)
    factory: Callable[[OperatorContext], StreamOperator] = getattr(loaded, name)
    operator = factory(context)
    if context.is_batch and context.is_keyed and kind in SORTED_KINDS:
        return SortedInputOperator(context, operator, max(1, len(context.config.key_selectors)))
    return operator

"""Maps the class of an operator descriptor to the operator that a task runs.

Modules are imported when a chain first needs them, so that a worker does not load operators that
its job does not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import PenstockError
from penstock.graph import operators
from penstock.graph.sorted_inputs import sorts_by_key
from penstock.serialization.imports import IMPORT_LOCK
from penstock.taskexecutor.operators.broadcast_first import BroadcastFirstOperator
from penstock.taskexecutor.operators.sorted_input import SortedInputOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.graph.operators import OperatorDescriptor
    from penstock.taskexecutor.compiled import StreamOperator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_PACKAGE: Final = "penstock.taskexecutor."

#: By descriptor class, the module (absolute for connectors, else below this package's parent) and
#: the factory in it, which takes the context and the descriptor.
FACTORIES: Final[Mapping[type[OperatorDescriptor], tuple[str, str]]] = {
    operators.Map: ("operators.stateless", "create_map"),
    operators.MapBatches: ("operators.map_batches", "create_map_batches"),
    operators.FlatMap: ("operators.stateless", "create_flat_map"),
    operators.Filter: ("operators.stateless", "create_filter"),
    operators.Project: ("operators.stateless", "create_project"),
    operators.ColumnBatches: ("operators.column_batches", "create_column_batches"),
    operators.FullWindowPartition: ("operators.partition_window", "create_full_window_partition"),
    operators.Reduce: ("operators.reduce", "create_reduce"),
    operators.Aggregate: ("operators.aggregate", "create_aggregate"),
    operators.AggregateField: ("operators.reduce", "create_aggregate_field"),
    operators.Process: ("operators.process", "create_process"),
    operators.KeyedProcess: ("operators.process", "create_keyed_process"),
    operators.KeyedRank: ("operators.rank", "create_keyed_rank"),
    operators.Watermarks: ("operators.watermarks", "create_watermarks"),
    operators.CoMap: ("operators.two_input", "create_co_map"),
    operators.CoFlatMap: ("operators.two_input", "create_co_flat_map"),
    operators.CoProcess: ("operators.two_input", "create_co_process"),
    operators.KeyedCoProcess: ("operators.two_input", "create_keyed_co_process"),
    operators.RegularJoin: ("operators.regular_join", "create_regular_join"),
    operators.MultipleInputProcess: ("operators.two_input", "create_multiple_input_process"),
    operators.KeyedMultipleInputProcess: ("operators.two_input", "create_multiple_input_process"),
    operators.BroadcastProcess: ("operators.broadcast", "create_broadcast_process"),
    operators.KeyedBroadcastProcess: ("operators.broadcast", "create_keyed_broadcast_process"),
    operators.WithBroadcastSets: ("operators.broadcast_sets", "create_with_broadcast_sets"),
    operators.Transform: ("operators.transform", "create_transform"),
    operators.IntervalJoin: ("operators.interval_join", "create_interval_join"),
    operators.MatchPattern: ("operators.pattern", "create_pattern"),
    operators.Relational: ("operators.relational.creation", "create_relational"),
    operators.AsyncWait: ("operators.async_wait", "create_async_wait"),
    operators.Window: ("windowing.window_operator", "create_window"),
    operators.CollectionSource: ("sources.collection", "create_collection_source"),
    operators.NumberSequenceSource: ("sources.number_sequence", "create_number_sequence_source"),
    operators.ColumnSource: ("sources.columns", "create_column_source"),
    operators.DataGeneratorSource: (
        "penstock.connectors.datagen.reader",
        "create_data_generator_source",
    ),
    operators.SocketTextSource: ("sources.socket_text", "create_socket_text_source"),
    operators.FileSource: ("penstock.connectors.files.reader", "create_file_source"),
    operators.FunctionSource: ("sources.source_function", "create_source_function"),
    operators.HybridSource: ("penstock.connectors.hybrid.reader", "create_hybrid_source"),
    operators.IterationHead: ("iterations.head", "create_iteration_head"),
    operators.IterationTail: ("iterations.tail", "create_iteration_tail"),
    operators.SplitSource: ("sources.split_source", "create_split_source"),
    operators.FunctionSink: ("sinks.function", "create_sink_function"),
    operators.SinkWriter: ("sinks.writer", "create_sink_writer"),
    operators.PrintSink: ("sinks.print", "create_print_sink"),
    operators.SinkCommitter: ("sinks.committer", "create_committer"),
    operators.FileSink: ("penstock.connectors.files.writers", "create_file_sink"),
    operators.FileCommitter: ("penstock.connectors.files.committer", "create_file_committer"),
    operators.FileCompactor: ("penstock.connectors.files.compactor", "create_file_compactor"),
    operators.CollectSink: ("sinks.collect", "create_collect_sink"),
    operators.DiscardingSink: ("sinks.function", "create_discarding_sink"),
}


def create_operator(context: OperatorContext) -> StreamOperator:
    """Create the operator that ``context`` describes.

    Raises:
        PenstockError: This worker does not know the kind of operator.
    """
    descriptor = context.descriptor
    kind = type(descriptor)
    if kind not in FACTORIES:
        msg = f"operator {context.name!r} is of the unknown kind {kind.__name__}"
        raise PenstockError(msg)
    operator = factory_of(kind)(context, descriptor)
    if context.is_batch and sorts_by_key(descriptor, context.config.key_selectors):
        return SortedInputOperator(context, operator, max(1, len(context.config.key_selectors)))
    if context.is_batch and kind is operators.BroadcastProcess:
        return BroadcastFirstOperator(context, operator)
    return operator


def factory_of(
    kind: type[OperatorDescriptor],
) -> Callable[[OperatorContext, object], StreamOperator]:
    """Return the factory of a registered kind of operator."""
    module, name = FACTORIES[kind]
    with IMPORT_LOCK:
        loaded = import_module(module if module.startswith("penstock.") else _PACKAGE + module)
    factory: Callable[[OperatorContext, Any], StreamOperator] = getattr(loaded, name)
    return factory

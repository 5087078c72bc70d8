"""Explains for each operator whether it processes batches of columns or single records, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.aggregates.combination import why_not_combined
from penstock.aggregates.windows import why_not_in_columns
from penstock.columns.batch_schema import inexact_field
from penstock.columns.evaluation import unsupported_operation
from penstock.columns.exchange import has_batches
from penstock.columns.join_columns import join_columns
from penstock.columns.keyed_columns import unhashable_field
from penstock.common.options import state
from penstock.common.watermark_generator import BoundedOutOfOrdernessWatermarks
from penstock.expressions.evaluation import Called, Stage
from penstock.expressions.functions import bound_function
from penstock.graph import operators
from penstock.graph.chaining import why_not_chainable
from penstock.graph.sorted_inputs import sorts_by_key

if TYPE_CHECKING:
    from penstock.expressions.evaluation import Evaluation
    from penstock.graph.stream_graph import StreamEdge, StreamGraph, StreamNode


#: Kinds of operators that accept any batch.
_TAKING: Final = (operators.DiscardingSink, operators.MapBatches, operators.Project)

#: Kinds of operators that merge combined records.
_AGGREGATING: Final = (operators.Aggregate, operators.Window)


class _Way(NamedTuple):
    """The form in which an operator emits records.

    Attributes:
        in_columns: Whether it emits batches of columns.
        fact: The line of the explanation; None if no batch ever reaches the operator.
    """

    in_columns: bool
    fact: str | None


class ColumnFacts:
    """The lines of a plan about batches of columns."""

    def __init__(self, graph: StreamGraph, evaluation: Evaluation) -> None:
        """Create the lines on demand.

        Args:
            graph: The program.
            evaluation: The evaluation that the job configures.
        """
        self._graph = graph
        self._evaluation = evaluation
        self._ways: dict[int, _Way] = {}

    def of(self, node: StreamNode) -> list[str]:
        """Return the lines of an operator; none if no batch of columns reaches it."""
        if not self._evaluation.has_columns:
            return []
        fact = self._way(node).fact
        lines = [f"records{self._suffix(node, edge)}: {fact}" for edge, fact in self._edges(node)]
        if fact is not None:
            lines.append(f"records: {fact}")
        if self._way(node).in_columns and isinstance(node.descriptor, operators.Aggregate):
            lines.append(f"accumulators: {self._accumulators(node.descriptor)}")
        return lines

    def _accumulators(self, descriptor: operators.Aggregate) -> str:
        """Return where the accumulators of keys are."""
        if self._is_in_database():
            return "in keyed state, as that is in a database"
        name = descriptor.function.changed_in_place()
        if name is not None:
            return f"in keyed state, as {name} changes its accumulator in place"
        return "columns, written to keyed state before snapshots"

    def _is_in_database(self) -> bool:
        return state.BACKEND.read(self._graph.settings.configuration) == "rocksdb"

    def _suffix(self, node: StreamNode, edge: StreamEdge) -> str:
        return f" from [{edge.source_id}]" if len(node.in_edges) > 1 else " received"

    def _edges(self, node: StreamNode) -> list[tuple[StreamEdge, str]]:
        """Return the exchanges behind operators that emit batches, and their record form."""
        found = []
        for edge in node.in_edges:
            is_exchange = why_not_chainable(edge, self._graph) is not None
            if is_exchange and self._way(self._graph.nodes[edge.source_id]).in_columns:
                reason = self._why_no_batches(edge)
                what = "batches of columns" if reason is None else f"one by one, {reason}"
                if reason is None and isinstance(node.descriptor, _AGGREGATING):
                    reason = why_not_combined(node.descriptor) or self._why_not(node)
                    what += ", combined by key" if reason is None else f", not combined, {reason}"
                found.append((edge, what))
        return found

    def _why_no_batches(self, edge: StreamEdge) -> str | None:
        """Return why the records of an exchange are written one by one; None if they are not."""
        source = self._graph.nodes[edge.source_id]
        declared: Any = source.output_type
        if not has_batches(declared):
            return "as their declared type has no exact columns"
        spec = edge.partitioner
        if spec.kind in ("FORWARD", "GLOBAL", "BROADCAST"):
            return None
        if spec.kind != "KEY_GROUP":
            return f"as {spec.ship_strategy} chooses a channel for each"
        return self._why_called(bound_function(spec.key_selector, "get_key"), 1, (declared,))

    def _way(self, node: StreamNode) -> _Way:
        if node.id not in self._ways:
            self._ways[node.id] = _Way(False, None)  # of a loop
            self._ways[node.id] = self._decided(node)
        return self._ways[node.id]

    def _decided(self, node: StreamNode) -> _Way:
        descriptor = node.descriptor
        if isinstance(descriptor, (operators.FileSource, operators.ColumnSource)):
            return self._source(node)
        if not any(self._has_batches(edge) for edge in node.in_edges):
            return _Way(False, None)
        reason = self._why_not(node)
        if reason is None:
            return _Way(True, "batches of columns")
        return _Way(False, f"one by one, {reason}")

    def _has_batches(self, edge: StreamEdge) -> bool:
        """Return whether batches arrive over an edge."""
        if not self._way(self._graph.nodes[edge.source_id]).in_columns:
            return False
        is_exchange = why_not_chainable(edge, self._graph) is not None
        return not is_exchange or self._why_no_batches(edge) is None

    def _source(self, node: StreamNode) -> _Way:
        descriptor: Any = node.descriptor
        if isinstance(descriptor, operators.ColumnSource):
            name = inexact_field(descriptor.row_type)
            if name is not None:
                return _Way(False, f"one by one, as the field {name!r} has no exact column")
        elif descriptor.format is None:
            return _Way(False, None)
        elif descriptor.format.in_columns() is descriptor.format:
            return _Way(False, descriptor.format.explanation())
        reason = self._why_not_stamped(descriptor.watermark_strategy, (node.output_type,))
        if reason is None:
            reason = self._why_not_taken(node)
        if reason is not None:
            return _Way(False, f"one by one, {reason}")
        return _Way(True, "batches of columns")

    def _why_not_taken(self, source: StreamNode) -> str | None:
        """Return why the one operator behind a source receives no batches; None if it does."""
        edges = source.out_edges
        if len(edges) != 1:
            return "as several operators read them" if edges else None
        edge = edges[0]
        if why_not_chainable(edge, self._graph) is not None:
            return self._why_no_batches(edge)
        return self._why_not(self._graph.nodes[edge.target_id])

    def _why_not(self, node: StreamNode) -> str | None:
        """Return why an operator processes a batch's records one by one; None if it does not."""
        descriptor: Any = node.descriptor
        if self._graph.settings.batch and sorts_by_key(descriptor, node.key_selectors):
            return "as BATCH mode sorts them by key"
        if isinstance(descriptor, operators.Map):
            return self._why_called(bound_function(descriptor.function, "map"), 1, node.input_types)
        if isinstance(descriptor, operators.Filter):
            function = bound_function(descriptor.function, "filter")
            return self._why_called(function, 1, node.input_types)
        if isinstance(descriptor, operators.Aggregate):
            function = descriptor.function.arguments
            return self._why_not_grouped(node, descriptor.key_fields, function)
        if isinstance(descriptor, operators.KeyedRank):
            fields = descriptor.key_fields
            reason = descriptor.why_rows
            return reason or self._why_not_grouped(node, fields, descriptor.order)
        if isinstance(descriptor, operators.Window):
            reason = why_not_in_columns(descriptor, is_batch=False)
            fields = getattr(descriptor.window_function, "key_fields", None)
            if reason is not None:
                return reason
            return self._why_not_grouped(node, fields, descriptor.function.arguments)
        if isinstance(descriptor, operators.RegularJoin):
            if self._is_in_database():
                return "as its state is in a database"
            key_type: Any = node.key_type
            found = join_columns(
                descriptor, node.key_selectors, key_type, node.input_types, self._evaluation
            )
            return found if isinstance(found, str) else None
        if isinstance(descriptor, operators.Watermarks):
            return self._why_not_stamped(descriptor.strategy, node.input_types)
        if isinstance(descriptor, _TAKING):
            return None
        if isinstance(descriptor, operators.FileSink) and getattr(
            descriptor.bulk_writer_factory, "takes_batches", False
        ):
            return None
        return "as its kind of operator takes them"

    def _why_not_grouped(self, node: StreamNode, fields: Any, function: Any) -> str | None:
        """Return why the records of a batch are not grouped by key; None if they are.

        Args:
            node: The operator.
            fields: The fields of the key.
            function: Computes the operator's arguments of a record; None without arguments.
        """
        name = unhashable_field(fields)
        if name is not None:
            return f"as no kernel groups by the field {name!r} of the key"
        selector = bound_function(node.key_selectors[0], "get_key")
        reason = self._why_called(selector, 1, node.input_types)
        if reason is None and function is not None:
            reason = self._why_called(function, 1, node.input_types)
        return reason

    def _why_not_stamped(self, strategy: Any, types: Any) -> str | None:
        # A source without event time has no watermark operator.
        if strategy is None or not (
            strategy.timestamp_assigner is not None
            or strategy.idle_timeout_ms is not None
            or strategy.alignment is not None
            or strategy.emits_periodically
        ):
            return None
        generator = type(strategy.create_watermark_generator())
        if generator is not BoundedOutOfOrdernessWatermarks:
            return f"as {generator.__name__} looks at each"
        if strategy.timestamp_assigner is None:
            return None
        return self._why_called(strategy.timestamp_assigner.extract_timestamp, 2, types[:1])

    def _why_called(self, function: Any, arguments: int, types: Any) -> str | None:
        """Return why a function is not computed over columns; None if it is."""
        decided = self._evaluation.decide([Stage(function, types=tuple(types))], arguments)
        if isinstance(decided, Called):
            return f"as a function is called: it {decided.reason}"
        operation = unsupported_operation(decided)
        return None if operation is None else f"as no kernel of Arrow computes {operation!r}"

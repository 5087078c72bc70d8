"""Transformations → StreamGraph.

The registered transformations are visited in order; translating one first translates its inputs.
Each is translated once, by identity, and yields the ids of the nodes of its output: one for an
operator, a virtual one for a property of edges, several for a union or an iteration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.graph import transformations as t
from penstock.graph.iteration_groups import Iteration, iteration_groups
from penstock.graph.key_groups import UPPER_BOUND_MAX_PARALLELISM
from penstock.graph.partitioners import ExchangeMode
from penstock.graph.stream_graph import IllegalGraphStateError, StreamGraph, StreamNode
from penstock.graph.unaligned_checkpoints import refuse_where_unsafe, settle_edges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.graph.settings import GraphSettings

_Feedback = t.FeedbackTransformation | t.CoFeedbackTransformation


class StreamGraphGenerator:
    """Builds the StreamGraph of one program.

    Args:
        transformations: The registered ones, in the order in which the program created them.
        settings: Job-wide settings.
    """

    def __init__(
        self, transformations: Sequence[t.Transformation], settings: GraphSettings
    ) -> None:
        self._roots = tuple(transformations)
        self._settings = settings
        self._graph = StreamGraph(settings)
        self._translated: dict[t.Transformation, tuple[int, ...]] = {}
        # Ids of nodes without a transformation must differ from those of transformations.
        self._synthetic_id = 0
        self._num_iterations = 0
        self._iterations: list[Iteration] = []
        self._translators: tuple[tuple[type[t.Transformation], Callable[..., None]], ...] = (
            (t.SourceTransformation, self._source),
            (t.OneInputTransformation, self._one_input),
            (t.TwoInputTransformation, self._two_input),
            (t.MultipleInputTransformation, self._multiple_input),
            (t.UnionTransformation, self._union),
            (t.PartitionTransformation, self._partition),
            (t.SideOutputTransformation, self._side_output),
            (t.SplitTransformation, self._split),
            (t.SelectTransformation, self._select),
            (t.FeedbackTransformation, self._feedback),
            (t.CoFeedbackTransformation, self._co_feedback),
        )

    def generate(self) -> StreamGraph:
        """Build and return the graph.

        Raises:
            InvalidProgramError: The program is empty or cannot become a graph.
        """
        if not self._roots:
            raise InvalidProgramError("No operators defined in streaming topology. Cannot execute.")
        for transformation in self._roots:
            self._transform(transformation)
        self._group_iterations()
        if self._settings.batch and self._settings.blocking_shuffles:
            self._separate_stages()
        settle_edges(self._graph)
        if self._settings.checks_unaligned:
            refuse_where_unsafe(self._graph)
        return self._graph

    def _transform(self, transformation: t.Transformation) -> tuple[int, ...]:
        # A long pipeline must not hit the interpreter's recursion limit, so inputs are translated
        # from an explicit stack; only the feedback edges of iterations recurse.
        stack: list[t.Transformation] = [transformation]
        while stack:
            current = stack[-1]
            if current in self._translated:
                stack.pop()
                continue
            missing = [i for i in current.inputs if i not in self._translated]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            self._translate(current)
        return self._translated[transformation]

    def _translate(self, transformation: t.Transformation) -> None:
        for kind, translate in self._translators:
            if isinstance(transformation, kind):
                try:
                    translate(transformation)
                except InvalidProgramError as error:
                    # Not the line that executes the program, but the one that created the operator.
                    error.location = transformation.location
                    raise
                return
        raise IllegalGraphStateError(f"unknown transformation: {transformation!r}")

    def _ids(self, transformation: t.Transformation) -> tuple[int, ...]:
        return self._translated[transformation]

    # Operators ------------------------------------------------------------------------------

    def _source(self, source: t.SourceTransformation) -> None:
        self._add_operator(source, _prefixed("Source: ", source.name), ())
        self._translated[source] = (source.id,)

    def _one_input(self, one: t.OneInputTransformation) -> None:
        if one.broadcast_sets and not self._settings.batch:
            raise InvalidProgramError(
                f"operator {one.name!r} has broadcast sets, which are complete in BATCH execution "
                "mode only: use RuntimeExecutionMode.BATCH, or broadcast state"
            )
        selectors = (one.key_selector, *(None for _ in one.broadcast_sets))
        self._add_operator(one, _operator_name(one), one.inputs, selectors, one.key_type)
        for number, source in enumerate(one.inputs):
            self._connect(one, number, source)
        self._translated[one] = (one.id,)

    def _two_input(self, two: t.TwoInputTransformation) -> None:
        self._add_operator(
            two, two.name, two.inputs, (two.key_selector1, two.key_selector2), two.key_type
        )
        self._connect(two, 0, two.input1)
        self._connect(two, 1, two.input2)
        self._translated[two] = (two.id,)

    def _multiple_input(self, multiple: t.MultipleInputTransformation) -> None:
        if not multiple.inputs:
            raise InvalidProgramError(f"operator {multiple.name!r} has no input")
        selectors: tuple[object | None, ...] = (None,) * len(multiple.inputs)
        key_type = None
        if isinstance(multiple, t.KeyedMultipleInputTransformation):
            selectors = tuple(multiple.key_selectors)
            key_type = multiple.key_type
        self._add_operator(multiple, multiple.name, multiple.inputs, selectors, key_type)
        for number, source in enumerate(multiple.inputs):
            self._connect(multiple, number, source)
        self._translated[multiple] = (multiple.id,)

    def _add_operator(
        self,
        transformation: t.PhysicalTransformation,
        name: str,
        inputs: Sequence[t.Transformation],
        key_selectors: tuple[object | None, ...] = (),
        key_type: object | None = None,
    ) -> None:
        parallelism = transformation.parallelism
        if parallelism == t.PARALLELISM_DEFAULT:
            parallelism = self._settings.parallelism
        max_parallelism = transformation.max_parallelism
        if max_parallelism <= 0:
            max_parallelism = self._settings.max_parallelism
        if max_parallelism > 0 and parallelism > max_parallelism:
            raise InvalidProgramError(
                f"the parallelism {parallelism} of {name!r} is higher than its max parallelism "
                f"{max_parallelism}: lower the one or raise the other"
            )
        if parallelism > UPPER_BOUND_MAX_PARALLELISM:
            raise InvalidProgramError(
                f"the parallelism {parallelism} of {name!r} is higher than the maximum of "
                f"{UPPER_BOUND_MAX_PARALLELISM}: lower it"
            )
        timeout = transformation.buffer_timeout_ms
        if timeout == t.BUFFER_TIMEOUT_DEFAULT:
            timeout = self._settings.buffer_timeout_ms
        input_ids = [i for source in inputs for i in self._ids(source)]
        self._graph.add_node(
            StreamNode(
                id=transformation.id,
                name=name,
                descriptor=transformation.operator,
                parallelism=parallelism,
                has_own_parallelism=transformation.has_own_parallelism,
                max_parallelism=max_parallelism,
                input_types=tuple(source.output_type for source in inputs),
                output_type=transformation.output_type,
                annotated_type=transformation.annotated_type,
                annotation_problem=transformation.annotation_problem,
                key_selectors=key_selectors if any(s is not None for s in key_selectors) else (),
                key_type=key_type,
                slot_sharing_group=self._slot_sharing_group(
                    transformation.slot_sharing_group, input_ids
                ),
                co_location_group=transformation.co_location_key,
                buffer_timeout_ms=timeout,
                chaining_strategy=transformation.chaining_strategy,
                uid=transformation.uid,
                uid_hash=transformation.uid_hash,
                resources=transformation.resources,
                description=transformation.description or name,
                location=transformation.location,
                is_source=isinstance(transformation, t.SourceTransformation),
                is_legacy_source=isinstance(transformation, t.LegacySourceTransformation),
                is_sink=isinstance(
                    transformation, t.SinkTransformation | t.SinkWriterTransformation
                ),
                bounded=getattr(transformation, "bounded", True),
            )
        )

    def _slot_sharing_group(self, own: str | None, input_ids: Sequence[int]) -> str:
        if own is not None:
            return own
        groups = {self._graph.slot_sharing_group_of(i) for i in input_ids}
        return groups.pop() if len(groups) == 1 else t.DEFAULT_SLOT_SHARING_GROUP

    def _connect(
        self, target: t.PhysicalTransformation, input_number: int, source: t.Transformation
    ) -> None:
        for upstream_id in self._ids(source):
            edge = self._graph.add_edge(upstream_id, target.id, input_number)
            if isinstance(target, t.CommitterTransformation | t.CompactorTransformation):
                # At a checkpoint everything that it covers has arrived, and is committed together.
                edge.supports_unaligned_checkpoints = False
            if edge.exchange_mode is ExchangeMode.UNDEFINED:
                blocking = (
                    self._settings.batch
                    and self._settings.blocking_shuffles
                    and not edge.partitioner.is_forward
                )
                edge.exchange_mode = ExchangeMode.BATCH if blocking else ExchangeMode.PIPELINED

    def _separate_stages(self) -> None:
        """Store the data of every edge at which two ways from one operator may join.

        A stage could otherwise wait for data that it produces itself, or that a stage produces
        which waits for it.
        """
        behind_forks: set[int] = set()
        for node in self._graph.nodes.values():
            sources = [self._graph.nodes[edge.source_id] for edge in node.in_edges]
            if any(len(s.out_edges) > 1 or s.id in behind_forks for s in sources):
                behind_forks.add(node.id)
                if len(sources) > 1:
                    for edge in node.in_edges:
                        edge.exchange_mode = ExchangeMode.BATCH

    # Properties of edges --------------------------------------------------------------------

    def _union(self, union: t.UnionTransformation) -> None:
        self._translated[union] = tuple(i for source in union.inputs for i in self._ids(source))

    def _partition(self, partition: t.PartitionTransformation) -> None:
        self._translated[partition] = self._virtual(
            partition.input,
            lambda original, virtual: self._graph.add_virtual_partition(
                original, virtual, partition.partitioner, partition.exchange_mode
            ),
        )

    def _side_output(self, side: t.SideOutputTransformation) -> None:
        self._translated[side] = self._virtual(
            side.input,
            lambda original, virtual: self._graph.add_virtual_side_output(
                original, virtual, side.tag, side.output_type
            ),
        )

    def _split(self, split: t.SplitTransformation) -> None:
        for node_id in self._ids(split.input):
            self._graph.add_output_selector(node_id, split.output_selector)
        self._translated[split] = self._ids(split.input)

    def _select(self, select: t.SelectTransformation) -> None:
        self._translated[select] = self._virtual(
            select.input,
            lambda original, virtual: self._graph.add_virtual_select(
                original, virtual, select.selected_names
            ),
        )

    def _virtual(
        self, source: t.Transformation, add: Callable[[int, int], None]
    ) -> tuple[int, ...]:
        result = []
        for original_id in self._ids(source):
            virtual_id = self._new_id()
            add(original_id, virtual_id)
            result.append(virtual_id)
        return tuple(result)

    def _new_id(self) -> int:
        self._synthetic_id -= 1
        return self._synthetic_id

    # Iterations -----------------------------------------------------------------------------

    def _feedback(self, feedback: t.FeedbackTransformation) -> None:
        if not feedback.feedback_edges:
            raise InvalidProgramError(
                f"iteration {feedback.name!r} has no feedback edge: close it with close_with(...)"
            )
        self._iteration(feedback, self._ids(feedback.input))

    def _co_feedback(self, feedback: t.CoFeedbackTransformation) -> None:
        if not feedback.feedback_edges:
            raise InvalidProgramError(
                "a co-iteration has no feedback edge: close it with close_with(...)"
            )
        self._iteration(feedback, ())

    def _iteration(self, feedback: _Feedback, input_ids: tuple[int, ...]) -> None:
        if self._settings.batch:
            raise InvalidProgramError(
                "iterations do not run in BATCH execution mode, in which exchanges wait for the "
                "end of their input: use RuntimeExecutionMode.STREAMING"
            )
        number = self._num_iterations
        self._num_iterations += 1
        head = self._add_iteration_node(feedback, number, is_head=True)
        # The output is known before the feedback is translated, because the feedback leads to it.
        self._translated[feedback] = (*input_ids, head)
        feedback_ids: list[int] = []
        for edge in feedback.feedback_edges:
            feedback_ids.extend(self._transform(edge))
        tail = self._add_iteration_node(feedback, number, is_head=False)
        for upstream_id in feedback_ids:
            self._graph.add_edge(upstream_id, tail, 0).exchange_mode = ExchangeMode.PIPELINED
        group = self._slot_sharing_group(None, feedback_ids)
        for node_id in (head, tail):
            self._graph.nodes[node_id].slot_sharing_group = group
        self._iterations.append(Iteration(head, tail))

    def _group_iterations(self) -> None:
        """Set the groups of heads and tails that become quiescent together."""
        for number, members in enumerate(iteration_groups(self._graph, self._iterations)):
            group = f"iterations-{number}"
            for node_id in (id_ for member in members for id_ in self._iterations[member]):
                node = self._graph.nodes[node_id]
                descriptor = node.descriptor
                if isinstance(descriptor, operators.IterationHead):
                    node.descriptor = replace(descriptor, group=group, group_size=len(members))
                elif isinstance(descriptor, operators.IterationTail):
                    node.descriptor = replace(descriptor, group=group)

    def _add_iteration_node(self, feedback: _Feedback, number: int, *, is_head: bool) -> int:
        parallelism = feedback.parallelism
        if parallelism == t.PARALLELISM_DEFAULT:
            parallelism = self._settings.parallelism
        # Head and tail exchange records in memory, so their subtasks share a slot.
        iteration = f"iteration-{number}"
        name = f"{'IterationSource' if is_head else 'IterationSink'}-{number}"
        node = self._graph.add_node(
            StreamNode(
                id=self._new_id(),
                name=name,
                descriptor=(
                    operators.IterationHead(iteration=iteration, wait_time_ms=feedback.wait_time_ms)
                    if is_head
                    else operators.IterationTail(iteration=iteration)
                ),
                parallelism=parallelism,
                max_parallelism=self._settings.max_parallelism,
                input_types=() if is_head else (feedback.output_type,),
                output_type=feedback.output_type if is_head else None,
                slot_sharing_group=t.DEFAULT_SLOT_SHARING_GROUP,
                co_location_group=iteration,
                buffer_timeout_ms=self._settings.buffer_timeout_ms,
                chaining_strategy=t.ChainingStrategy.NEVER,
                description=name,
                is_source=is_head,
                is_sink=not is_head,
            )
        )
        return node.id


def _prefixed(prefix: str, name: str) -> str:
    return name if name.startswith(prefix) else prefix + name


def _operator_name(transformation: t.OneInputTransformation) -> str:
    if isinstance(transformation, t.LegacySinkTransformation):
        return _prefixed("Sink: ", transformation.name)
    if isinstance(transformation, t.GlobalCommitterTransformation):
        return f"{transformation.name}: Global Committer"
    if isinstance(transformation, t.CommitterTransformation):
        return f"{transformation.name}: Committer"
    if isinstance(transformation, t.CompactorTransformation):
        return f"{transformation.name}: Compactor"
    if isinstance(transformation, t.SinkTransformation | t.SinkWriterTransformation):
        return f"{transformation.name}: Writer"
    return transformation.name

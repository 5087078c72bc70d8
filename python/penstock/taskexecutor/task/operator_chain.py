"""The operators of one task, created from the graph's description and connected to each other."""

from __future__ import annotations

import random
import traceback
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from penstock import network
from penstock.columns.exchange import BatchExchange, KeyOfBatches, has_batches
from penstock.datastream.output_tag import OutputTag
from penstock.expressions.functions import bound_function
from penstock.network.events import Event, data_type_of, serialize_event
from penstock.serialization.codec import codec_for
from penstock.serialization.key_types import UNDECLARED, key_type_of, sent_key_type
from penstock.taskexecutor.compiled import (
    MAX_TIMESTAMP,
    BroadcastOutput,
    DiscardingOutput,
    Input,
    Output,
    SideOutputs,
    StreamOperator,
)
from penstock.taskexecutor.iterations.supersteps import superstep_event
from penstock.taskexecutor.operators.registry import create_operator
from penstock.taskexecutor.state.backends.keyed_state_backend import no_base
from penstock.taskexecutor.state.state_handler import StreamOperatorStateHandler
from penstock.taskexecutor.task.blame import blamed_position
from penstock.taskexecutor.task.fusion import Fusion
from penstock.taskexecutor.task.split_output import SplitOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.common.typeinfo import TypeInformation
    from penstock.graph.job_graph import ChainConfig, GateConfig, NetworkOutput, OperatorConfig
    from penstock.rpc.messages import FromCoordinator
    from penstock.taskexecutor.state.backends.keyed_state_backend import (
        KeyedBase,
        KeyedSnapshot,
        LogBase,
    )
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot, RunningSnapshot
    from penstock.taskexecutor.task.latency import LatencyTracking
    from penstock.taskexecutor.task.operator_context import TaskOperatorContext
    from penstock.taskexecutor.task.task_environment import TaskEnvironment

_NOTHING_RESTORED: Final[Mapping[bytes, OperatorSnapshot]] = MappingProxyType({})


class OperatorChain:
    """The operators of a chain in topological order; ``[0]`` is the head.

    Attributes:
        operators: The operators.
        contexts: Their contexts, at the same indices.
        latency: Records latency markers; None if the job asks for none.
        writers: The record writers of all outputs that leave the chain.
    """

    def __init__(
        self,
        chain: ChainConfig,
        environment: TaskEnvironment,
        create_context: Callable[[OperatorConfig, int], TaskOperatorContext],
    ) -> None:
        """Create the operators tail first, so that each finds its targets ready.

        Args:
            chain: The chain as the graph describes it.
            environment: The subtask.
            create_context: Creates the context of an operator at a position in the chain.
        """
        self._environment = environment
        self.latency: LatencyTracking | None = None
        self.writers: list[Any] = []
        #: By operator position and output tag; the writers of one entry get the same records.
        self._writers_of: dict[tuple[int, str | None], list[Any]] = {}
        self._initialized: list[StreamOperator] = []
        self.contexts = [
            create_context(config, position) for position, config in enumerate(chain.operators)
        ]
        fusion = Fusion(self.contexts[0].evaluation)
        entries: list[StreamOperator | None] = [None] * len(chain.operators)
        operators: list[StreamOperator | None] = [None] * len(chain.operators)
        for index in range(len(chain.operators) - 1, -1, -1):
            context = self.contexts[index]
            operator = create_operator(context)
            operator.setup(context, self._create_output(index, operator, entries))
            context.broadcast_event = self.broadcast_event
            operators[index] = operator
            entries[index] = fusion.entry(operator, context.config.input_types)
        self.operators: list[StreamOperator] = [op for op in operators if op is not None]
        self._states = [
            StreamOperatorStateHandler(operator, context)
            for operator, context in zip(self.operators, self.contexts, strict=True)
        ]
        self._entry = entries[0]

    @property
    def head(self) -> StreamOperator:
        """The operator that receives the task's input, or the source."""
        return self.operators[0]

    @property
    def writing_positions(self) -> list[int]:
        """Return the positions of the operators whose output leaves the chain."""
        return sorted({position for position, _ in self._writers_of})

    def records_out(self, position: int | None) -> int:
        """Return the records that left the chain; one for several receivers counts once.

        Args:
            position: The operator's position; None for all operators.
        """
        return sum(
            max(writer.records_out for writer in writers)
            for (of, _), writers in self._writers_of.items()
            if position is None or of == position
        )

    def records_computed(self, position: int) -> int:
        """Return an operator's records that left the chain without a Python object.

        Args:
            position: The operator's position.
        """
        return sum(
            max(writer.records_computed for writer in writers)
            for (of, _), writers in self._writers_of.items()
            if of == position
        )

    def output_watermark(self, position: int) -> int:
        """Return the watermark of the output that left the chain at a position."""
        return max(
            int(writer.last_watermark)
            for (of, _), writers in self._writers_of.items()
            if of == position
            for writer in writers
        )

    @property
    def fired_timers(self) -> int:
        """Return the number of timers that all operators have fired."""
        return sum(
            int(service.num_fired)
            for context in self.contexts
            for service in context.timer_services
        )

    def now(self) -> int:
        """Return the task's current time in ms."""
        return self.contexts[0].processing_time.now()

    def get_input(self, input_number: int) -> Input:
        """Return the receiver of the task's input ``input_number``, counted from 0."""
        assert self._entry is not None, "a chain has a head"
        return self._entry.get_input(input_number)

    def open(self, restored: Mapping[bytes, OperatorSnapshot] = _NOTHING_RESTORED) -> None:
        """Initialize the operators' state and open them, tail to head.

        Args:
            restored: The restored snapshots, by operator id.
        """
        for index in range(len(self.operators) - 1, -1, -1):
            operator, context = self.operators[index], self.contexts[index]
            self._initialized.append(operator)
            self._states[index].initialize_state(restored.get(context.config.id))
            operator.open()
            context.register_path_metrics(operator)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Let the operators emit records that precede the barrier, head to tail."""
        for state in self._states:
            state.prepare_snapshot_pre_barrier(checkpoint_id)

    def snapshot_state(
        self,
        checkpoint_id: int,
        timestamp_ms: int,
        base_of: Callable[[bytes], KeyedBase | LogBase | None] = no_base,
    ) -> dict[bytes, RunningSnapshot]:
        """Return the snapshot of every operator with state, by operator id, tail to head.

        The barrier has already been sent.

        Args:
            checkpoint_id: The checkpoint.
            timestamp_ms: The time at which it was triggered.
            base_of: Returns an operator's keyed state in an earlier checkpoint, by operator id.
        """
        taken = {}
        for context, state in zip(reversed(self.contexts), reversed(self._states), strict=True):
            operator_id = context.config.id
            snapshot = state.snapshot_state(checkpoint_id, timestamp_ms, base_of(operator_id))
            if snapshot is not None:
                taken[operator_id] = snapshot
        return taken

    def open_wholes(self, snapshot_id: int) -> dict[bytes, KeyedSnapshot]:
        """Return the keyed state of every operator that has some, by id, beside checkpoints."""
        wholes = {context.config.id: context.open_whole(snapshot_id) for context in self.contexts}
        return {id_: snapshot for id_, snapshot in wholes.items() if snapshot is not None}

    @cached_property
    def hears_of_completion(self) -> bool:
        """Return whether an operator acts on complete checkpoints."""
        return any(state.hears_of_completion for state in self._states)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the operators of a complete checkpoint, tail to head."""
        for state in reversed(self._states):
            state.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the operators of an aborted checkpoint, tail to head."""
        for state in reversed(self._states):
            state.notify_checkpoint_aborted(checkpoint_id)

    def finish(self) -> None:
        """End the chained inputs and flush the operators, head to tail.

        The inputs of the head end when the task's inputs do, not here.
        """
        for index, operator in enumerate(self.operators):
            if index > 0:
                operator.end_input(0)
            operator.finish()

    def broadcast_event(self, event: Event) -> None:
        """Send an event to every receiver of every output that leaves the chain."""
        data, data_type = serialize_event(event), int(data_type_of(event))
        for writer in self.writers:
            writer.broadcast_event(data, data_type)

    def emit_last_watermark(self) -> None:
        """Send the final watermark, after which no record follows, to all receivers."""
        for writer in self.writers:
            writer.emit_watermark(MAX_TIMESTAMP)

    def handle_operator_event(self, message: FromCoordinator) -> None:
        """Pass a coordinator's message to the operator that it names."""
        for operator, context in zip(self.operators, self.contexts, strict=True):
            if context.config.id == message.operator_id:
                cast("Any", operator).handle_operator_event(message)

    def end_superstep(self, group: str, quiet_steps: int) -> None:
        """End a superstep of some iterations whose records have all arrived."""
        for hook in [getattr(operator, "end_superstep", None) for operator in self.operators]:
            if hook is not None:
                hook(group, quiet_steps)
        self.broadcast_event(superstep_event(group, quiet_steps))
        self.flush()

    def flush(self) -> None:
        """Make all written data visible to the receivers."""
        for writer in self.writers:
            writer.flush()

    def close(self) -> BaseException | None:
        """Close all operators, tail to head; return the first error, if any."""
        first: BaseException | None = None
        while self._initialized:
            failure = _failure_of_closing(self._initialized.pop(0))
            first = first or failure
        for context in reversed(self.contexts):
            try:
                context.close()
            except BaseException as error:
                first = first or error
        return first

    def failed_operator(self, error: BaseException) -> OperatorConfig | None:
        """Return the operator that raised ``error``, or None."""
        position = blamed_position(error, self.operators)
        return None if position is None else self.contexts[position].config

    def failed_selector(self, error: BaseException) -> str | None:
        """Return the selector that raised ``error``, if it chooses the receivers of records."""
        codes = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
        for config in (context.config for context in self.contexts):
            for spec in (leaving.partitioner for leaving in config.network_outputs):
                for what, function, method in (
                    ("key selector", spec.key_selector, "get_key"),
                    ("partitioner", spec.function, "partition"),
                ):
                    if function is not None:
                        code = getattr(bound_function(function, method), "__code__", None)
                        if code in codes:
                            return what
        return None

    def _create_output(
        self,
        index: int,
        operator: StreamOperator,
        entries: Sequence[StreamOperator | None],
    ) -> Output:
        context = self.contexts[index]
        config = context.config
        mains: list[tuple[Output, tuple[str, ...]]] = []
        sides: dict[str, list[Output]] = {}
        for chained in config.chained_outputs:
            target = entries[chained.target]
            assert target is not None, "chains are in topological order"
            output = context.isolation.chained(
                config,
                operator,
                chained,
                self.contexts[chained.target].config,
                target.get_input(chained.input_number),
            )
            self._add(output, chained.tag, chained.selected_names, mains, sides)
        exchanges: list[BatchExchange] = []
        for leaving in config.network_outputs:
            writer = self._create_writer(leaving, context, exchanges)
            self._writers_of.setdefault((index, leaving.tag), []).append(writer)
            self._add(writer, leaving.tag, leaving.selected_names, mains, sides)
        if exchanges:
            context.metric_group().gauge("numBatchesOut", lambda: sum(e.batches for e in exchanges))
        combiners = [exchange.combiner for exchange in exchanges if exchange.combiner is not None]
        if combiners:
            context.metric_group().gauge(
                "numRecordsCombined", lambda: sum(c.rows for c in combiners)
            )
        context.side_tags = frozenset(sides)
        if any(names for _, names in mains):
            selectors = [bound_function(s, "select") for s in config.output_selectors]
            main: Output = SplitOutput(mains, selectors)
        else:
            main = _join([output for output, _ in mains])
        if not sides:
            return main
        return SideOutputs(main, BroadcastOutput([main], sides, random.randrange), OutputTag)

    @staticmethod
    def _add(
        output: Output,
        tag: str | None,
        names: tuple[str, ...],
        mains: list[tuple[Output, tuple[str, ...]]],
        sides: dict[str, list[Output]],
    ) -> None:
        if tag is None:
            mains.append((output, names))
        else:
            sides.setdefault(tag, []).append(output)

    def combined_type(self, gate: GateConfig) -> TypeInformation | None:
        """Return the type of a gate's combined records; None if the head cannot merge any."""
        if gate.combination is None or not self.contexts[0].evaluation.has_columns:
            return None
        return gate.combination.declared

    def _create_writer(
        self, leaving: NetworkOutput, context: TaskOperatorContext, exchanges: list[BatchExchange]
    ) -> Output:
        partition = self._environment.partitions[leaving.partition]
        spec, declared = leaving.partitioner, cast("Any", leaving.type)
        key_selector = function = None
        key_type, elements = UNDECLARED, None
        if spec.key_selector is not None:
            context.open_with_operator(spec.key_selector)
            select = bound_function(spec.key_selector, "get_key")
            if spec.kind != "KEY_GROUP":
                key_selector = context.evaluation.without_call(select, 1, (declared,))
            else:
                key_selector, position = context.evaluation.key_selection(select, declared)
                key_type, elements = sent_key_type(
                    cast("Any", spec.key_type), declared, None if position < 0 else position
                )
                context.count_conversions(key_type.convert)
        if spec.function is not None:
            context.open_with_operator(spec.function)
            choose = bound_function(spec.function, "partition")
            function = context.evaluation.without_call(choose, 2)
        selector = network.make_selector(
            spec.kind,
            partition.num_subpartitions,
            key_selector=key_selector,
            key_type=key_type,
            elements=elements,
            max_parallelism=spec.max_parallelism,
            function=function,
            subtask_index=self._environment.subtask,
        )
        writer = network.RecordWriter(partition, selector, cast("Any", codec_for(declared)))
        if context.evaluation.has_columns and has_batches(declared):
            exchange = self._batch_exchange(leaving, context, writer)
            if exchange is not None:
                cast("Any", writer).batches = exchange
                exchanges.append(exchange)
        self.writers.append(writer)
        return writer

    @staticmethod
    def _batch_exchange(
        leaving: NetworkOutput, context: TaskOperatorContext, writer: Any
    ) -> BatchExchange | None:
        """Return the writer of whole batches; None if the channel depends on each record."""
        spec, declared = leaving.partitioner, cast("Any", leaving.type)
        if spec.kind in ("FORWARD", "GLOBAL", "BROADCAST"):
            return BatchExchange(declared, None, is_broadcast=spec.kind == "BROADCAST")
        if spec.kind != "KEY_GROUP":
            return None
        select = bound_function(spec.key_selector, "get_key")
        evaluation = context.evaluation
        program = evaluation.over_columns(evaluation.program(select, 1, (declared,)))
        if program is None:
            return None
        key_type: Any = spec.key_type
        kind = None if key_type is None else key_type_of(key_type).kind
        shape = (kind, spec.max_parallelism, writer.num_channels)
        keys = KeyOfBatches(program, key_type, *shape)
        combination = leaving.combination
        if combination is None or (context.is_batch and combination.pane is not None):
            return BatchExchange(declared, keys)
        from penstock.columns.combining import Combiner
        from penstock.columns.keyed_columns import keyed_columns

        columns = keyed_columns(
            evaluation,
            select,
            key_type,
            combination.aggregates.arguments,
            combination.key_fields,
            (declared,),
        )
        combiner = None if columns is None else Combiner(combination, columns, *shape)
        return BatchExchange(declared, keys, combiner=combiner)


def _join(outputs: list[Output]) -> Output:
    if not outputs:
        return DiscardingOutput()
    if len(outputs) == 1:
        return outputs[0]
    return BroadcastOutput(outputs, {}, random.randrange)


def _failure_of_closing(operator: StreamOperator) -> BaseException | None:
    """Close an operator; return the error it raised, if any."""
    try:
        operator.close()
    except BaseException as error:
        return error
    return None

"""Records that were in flight when the job had another parallelism (internals M57, M63)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, cast

from penstock import network
from penstock.columns.exchange import ReceivedBatches
from penstock.columns.partition import Partition
from penstock.errors import CorruptCheckpointError, InvalidProgramError
from penstock.expressions.functions import bound_function
from penstock.graph.operators import Relational
from penstock.network.stream_element import (
    MIN_TIMESTAMP,
    RECORD,
    RECORD_BATCH,
    RECORD_WITH_TIMESTAMP,
)
from penstock.serialization.codec import codec_for
from penstock.serialization.key_types import key_type_of, sent_key_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.aggregates.combination import Combination
    from penstock.checkpoint_storage.handles import RescaledChannel
    from penstock.columns.column_batch import ColumnBatch
    from penstock.graph.job_graph import ChainConfig
    from penstock.taskexecutor.task.operator_chain import OperatorChain
    from penstock.taskexecutor.task.task_environment import TaskEnvironment

_TIMESTAMP: Final = struct.Struct(">q")


class RescaledInput:
    """Passes data in flight to a vertex's former subtasks to the task's operators."""

    def __init__(
        self, config: ChainConfig, chain: OperatorChain, environment: TaskEnvironment
    ) -> None:
        """Create the input of one subtask.

        Args:
            config: Provides the record type of each gate and the key selectors.
            chain: The opened operators.
            environment: The subtask.
        """
        self._config = config
        self._chain = chain
        self._environment = environment
        self._has_batches = isinstance(config.operators[0].descriptor, Relational)

    def process(self, channel: RescaledChannel, data: bytes) -> None:
        """Process the records of a former channel that belong to this subtask.

        Other elements are skipped: the restarted producers will send their watermarks again, and a
        later watermark only lets more records be on time.

        Raises:
            CorruptCheckpointError: The bytes are not whole records.
            InvalidProgramError: Records were sent by a key that the operator does not have.
        """
        gate = self._config.gates[channel.gate]
        codec: Any = codec_for(cast("Any", gate.type))
        combined = self._chain.combined_type(gate)
        received = ReceivedBatches(cast("Any", gate.type), combined)
        target = self._chain.get_input(gate.input_number)
        is_own = self._ownership(gate.input_number, gate.type) if channel.is_keyed else None
        deserializer: Any = network.RecordDeserializer([self._environment.temp_directory()])
        for payload in deserializer.records_of(data):
            tag = payload[0]
            if tag == RECORD_BATCH:
                batch = received.decode(payload[1:])
                if combined is not None and batch.declared == combined:
                    own = self._own_rows(cast("Combination", gate.combination), batch)
                    if own is not None:
                        target.process_batch(own)
                    continue
                for value, timestamp in batch.records():
                    if is_own is None or is_own(value):
                        target.process(value, timestamp)
                continue
            if tag == RECORD:
                value, timestamp = codec.decode(payload[1:]), MIN_TIMESTAMP
            elif tag == RECORD_WITH_TIMESTAMP:
                value, timestamp = codec.decode(payload[9:]), _TIMESTAMP.unpack_from(payload, 1)[0]
            else:
                continue
            if is_own is not None and self._has_batches:
                head: Any = self._chain.head
                value = head.rows_of_keys(gate.input_number, value, is_own)
                if value is not None:
                    target.process(value, timestamp)
            elif is_own is None or is_own(value):
                target.process(value, timestamp)
        if deserializer.has_pending_bytes:
            raise CorruptCheckpointError(
                f"{self._environment.task_name}: the in-flight data of a channel of gate "
                f"{channel.gate} ends inside a record"
            )

    def _own_rows(self, combination: Combination, batch: ColumnBatch) -> ColumnBatch | None:
        """Return the combined rows whose keys belong to this subtask; None if there are none."""
        from penstock.columns.combining import key_of

        key_type: Any = self._config.operators[0].key_type
        kind = None if key_type is None else key_type_of(key_type).kind
        environment = self._environment
        partition = Partition(
            key_of(combination, kind), environment.max_parallelism, environment.parallelism
        )
        return dict(partition.split(batch)).get(environment.subtask)

    def _ownership(self, input_number: int, elements: object) -> Callable[[object], bool]:
        """Return a function that tells whether a record's key belongs to this subtask."""
        head = self._config.operators[0]
        selectors = head.key_selectors
        selector = selectors[input_number] if input_number < len(selectors) else None
        if selector is None:
            raise InvalidProgramError(
                f"records were in flight to {head.name!r} by a key that it does not have: restore "
                "it with the parallelism that it had, or from a savepoint or an aligned checkpoint"
            )
        evaluation = self._chain.contexts[0].evaluation
        select, position = evaluation.key_selection(bound_function(selector, "get_key"), elements)
        key_type, codec = sent_key_type(
            cast("Any", head.key_type),
            cast("Any", elements),
            None if position < 0 else position,
        )
        environment = self._environment
        channels = network.make_selector(
            "KEY_GROUP",
            environment.parallelism,
            key_selector=select,
            key_type=key_type,
            elements=codec,
            max_parallelism=environment.max_parallelism,
        )
        return lambda value: channels.select(value) == environment.subtask

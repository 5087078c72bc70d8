"""Assigns the in-flight data of a checkpoint to a job's subtasks (internals M57, M63).

If an exchange keeps its parallelism, the data returns to its channel.  If the parallelism changed,
each former channel (the consumer's data, then the producer's) is read as whole records: by one
consumer or, if records have keys, by all consumers, each of which selects its own.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from penstock.checkpoint_storage.handles import RescaledChannel
from penstock.errors import InvalidProgramError
from penstock.graph.wiring import DistributionPattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.checkpoint_storage.checkpoint_metadata import OperatorState
    from penstock.checkpoint_storage.handles import ChannelStateHandle
    from penstock.graph.job_graph import JobEdge, JobGraph, JobVertex, OperatorIdentity

_KEYED: Final = "HASH"

#: Exchanges that may send any record to any consumer, or all of them to the first one.
_FREE: Final = frozenset({"REBALANCE", "SHUFFLE", "GLOBAL"})

#: Exchanges in which only the program knows the consumer of a record.
_CUSTOM: Final = "CUSTOM"


def can_be_spread(job: JobGraph) -> bool:
    """Return whether in-flight data of every exchange of a job can be redistributed.

    In exchanges that are not checked here barriers do not overtake data.
    """
    edges = (edge for vertex in job.vertices.values() for edge in vertex.inputs)
    return all(edge.ship_strategy != _CUSTOM for edge in edges)


class InFlightAssignment:
    """Assignment of a checkpoint's in-flight data to subtasks.

    Attributes:
        rescaled: Former channels by (vertex, subtask), where the parallelism has changed.
    """

    def __init__(
        self, job: JobGraph, state_of: Callable[[OperatorIdentity], OperatorState | None]
    ) -> None:
        """Assign the data of every exchange of a job.

        Args:
            job: The job to start.
            state_of: Returns the checkpoint's state of an operator.

        Raises:
            InvalidProgramError: In-flight data has no place in the job; the text says where.
        """
        self._state_of = state_of
        self._kept_inputs: set[tuple[bytes, int]] = set()
        self._kept_outputs: set[tuple[bytes, int]] = set()
        self.rescaled: dict[tuple[bytes, int], list[RescaledChannel]] = defaultdict(list)
        producers = {
            produced.id: (vertex, index)
            for vertex in job.vertices.values()
            for index, produced in enumerate(vertex.produced)
        }
        for vertex in job.vertices.values():
            for gate, edge in enumerate(vertex.inputs):
                self._assign(*producers[edge.dataset_id], vertex, gate, edge)
        for vertex in job.vertices.values():
            self._check_places(vertex)

    def stays(self, vertex: JobVertex, handle: ChannelStateHandle, *, is_input: bool) -> bool:
        """Return whether a handle returns to the gate or partition that it was taken from."""
        kept = self._kept_inputs if is_input else self._kept_outputs
        return (vertex.id, handle.index) in kept

    def _assign(
        self, producer: JobVertex, partition: int, consumer: JobVertex, gate: int, edge: JobEdge
    ) -> None:
        inputs = self._inputs(consumer, gate)
        outputs = self._outputs(producer, partition)
        handles = [*inputs.values(), *outputs.values()]
        if not handles:
            return
        # A pointwise channel's neighbours are not all subtasks.
        tells = edge.distribution is not DistributionPattern.POINTWISE
        num_producers = self._parallelism(producer, {h.of for h in inputs.values() if tells})
        num_consumers = self._parallelism(consumer, {h.of for h in outputs.values() if tells})
        if (producer.parallelism, consumer.parallelism) == (num_producers, num_consumers):
            self._kept_inputs.add((consumer.id, gate))
            self._kept_outputs.add((producer.id, partition))
            return
        if edge.ship_strategy != _KEYED and edge.ship_strategy not in _FREE:
            raise InvalidProgramError(
                f"{producer.name!r} and {consumer.name!r} had data in flight between them in the "
                f"checkpoint, {num_producers} subtasks and {num_consumers}, and the exchange "
                f"({edge.ship_strategy}) does not say where it belongs in another number of "
                "subtasks: restore both with the parallelism that they had, or from a savepoint or "
                "an aligned checkpoint"
            )
        for channel in sorted({*inputs, *outputs}):
            pieces = tuple(of[channel] for of in (inputs, outputs) if channel in of)
            _, former = channel
            is_keyed = edge.ship_strategy == _KEYED
            found = RescaledChannel(gate, pieces, is_keyed)
            # Former key groups are ignored: their number may have changed.
            for subtask in range(consumer.parallelism):
                if is_keyed or subtask == former % consumer.parallelism:
                    self.rescaled[(consumer.id, subtask)].append(found)

    def _inputs(self, vertex: JobVertex, gate: int) -> dict[tuple[int, int], ChannelStateHandle]:
        """Return the consumers' in-flight data of an exchange, by producer and consumer."""
        state = self._state_of(vertex.operators[0]) if vertex.operators else None
        return {
            (handle.channel, subtask): handle
            for subtask, of in ({} if state is None else state.subtasks).items()
            for handle in of.input_channels
            if handle.index == gate
        }

    def _outputs(
        self, vertex: JobVertex, partition: int
    ) -> dict[tuple[int, int], ChannelStateHandle]:
        """Return the producers' in-flight data of an exchange, by producer and consumer."""
        return {
            (subtask, handle.channel): handle
            for identity in vertex.operators
            if (state := self._state_of(identity)) is not None
            for subtask, of in state.subtasks.items()
            for handle in of.result_subpartitions
            if handle.index == partition
        }

    def _parallelism(self, vertex: JobVertex, told: set[int]) -> int:
        """Return a vertex's former parallelism, from its neighbour's state or its own."""
        if told:
            return max(told)
        states = (self._state_of(identity) for identity in vertex.operators)
        return next((s.parallelism for s in states if s is not None), vertex.parallelism)

    def _check_places(self, vertex: JobVertex) -> None:
        """Reject data of a gate or partition that the vertex does not have."""
        for identity in vertex.operators:
            state = self._state_of(identity)
            for of in () if state is None else state.subtasks.values():
                for handles, places, what in (
                    (of.input_channels, vertex.inputs, "inputs"),
                    (of.result_subpartitions, vertex.produced, "outputs"),
                ):
                    if any(handle.index >= len(places) for handle in handles):
                        raise InvalidProgramError(
                            f"{identity.name!r} had data in flight in the checkpoint, at one of "
                            f"its {what}, of which {vertex.name!r} has {len(places)}: restore the "
                            "job that took it, or from a savepoint or an aligned checkpoint"
                        )

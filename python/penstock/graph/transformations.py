"""The logical program: one Transformation per DataStream, linked by object identity.

A Transformation describes what the user asked for and nothing about its execution.  Some become an
operator (`PhysicalTransformation`), the others only describe how records travel between operators
and end up as properties of edges.  The StreamGraphGenerator turns them into a StreamGraph.
"""

from __future__ import annotations

import itertools
from enum import Enum
from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidProgramError
from penstock.graph.key_groups import UPPER_BOUND_MAX_PARALLELISM
from penstock.graph.partitioners import ExchangeMode, PartitionerSpec
from penstock.user_location import user_location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.graph.operators import OperatorDescriptor

#: Parallelism that follows the job's default.
PARALLELISM_DEFAULT: Final = -1
#: Buffer timeout that follows the job's default.
BUFFER_TIMEOUT_DEFAULT: Final = -2
DEFAULT_SLOT_SHARING_GROUP: Final = "default"

_ids = itertools.count(1)


def reserve_id() -> int:
    """Return an id above those of all transformations so far and below those of later ones."""
    return next(_ids)


class ChainingStrategy(Enum):
    """Rule by which an operator may be chained to its neighbour."""

    ALWAYS = "ALWAYS"
    NEVER = "NEVER"
    HEAD = "HEAD"
    HEAD_WITH_SOURCES = "HEAD_WITH_SOURCES"


class Transformation:
    """Base of all transformations.

    Attributes:
        id: Unique in this process and increasing in the order of creation.
        location: The line of the user's program that created it, or None.
        name: The name in plans, metrics and threads.
        output_type: TypeInformation of the records, or None when it is not declared.
        annotated_type: For records without a declared type, the TypeInformation that annotations
            and classes of the program imply, or None.  Nothing is encoded by it.
        annotation_problem: The reason why an annotation implies no type, or None.
        parallelism: Number of subtasks, or `PARALLELISM_DEFAULT`.
        has_own_parallelism: Whether the program chose it, or no other is possible, so that the
            job's default does not apply.
        max_parallelism: Number of key groups, or -1 to follow the job or be derived.
        uid: The user's name of the operator's state, or None.
        uid_hash: 32 hex digits under which the state may also be found, or None.
        buffer_timeout_ms: Flush interval: 0 after each record, -1 only full buffers,
            `BUFFER_TIMEOUT_DEFAULT` for the job's default.
        slot_sharing_group: Name of the group, or None to inherit it from the inputs.
        co_location_key: Operators with the same key share slots subtask by subtask.
        resources: Resources of this operator alone, by name.
        description: A longer text for plans; the name when empty.
    """

    def __init__(
        self,
        name: str,
        output_type: object | None,
        parallelism: int = PARALLELISM_DEFAULT,
    ) -> None:
        self.id: Final[int] = next(_ids)
        self.location: Final = user_location()
        self.name = name
        self.output_type = output_type
        self.annotated_type: object | None = None
        self.annotation_problem: str | None = None
        self.parallelism = PARALLELISM_DEFAULT
        self.max_parallelism = -1
        self.uid: str | None = None
        self.uid_hash: str | None = None
        self.buffer_timeout_ms = BUFFER_TIMEOUT_DEFAULT
        self.slot_sharing_group: str | None = None
        self.co_location_key: str | None = None
        self.resources: Mapping[str, float] = {}
        self.description = ""
        self.set_parallelism(parallelism)
        self.has_own_parallelism = False

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        """The transformations that this one reads, in the order of input numbers."""
        return ()

    def set_parallelism(self, parallelism: int) -> None:
        """Set the number of subtasks.

        Raises:
            InvalidProgramError: It is neither positive nor `PARALLELISM_DEFAULT`.
        """
        if parallelism < 1 and parallelism != PARALLELISM_DEFAULT:
            raise InvalidProgramError(
                f"the parallelism of {self.name!r} must be at least 1, or -1 for the job's "
                f"default; got {parallelism}"
            )
        self.parallelism = parallelism
        self.has_own_parallelism = True

    def set_max_parallelism(self, max_parallelism: int) -> None:
        """Set the number of key groups, 1 to 32768.

        Raises:
            InvalidProgramError: It is out of that range.
        """
        if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
            raise InvalidProgramError(
                f"the max parallelism of {self.name!r} must be between 1 and "
                f"{UPPER_BOUND_MAX_PARALLELISM}; got {max_parallelism}"
            )
        self.max_parallelism = max_parallelism

    def set_uid_hash(self, uid_hash: str) -> None:
        """Set the additional id under which the operator's state may be found.

        Raises:
            InvalidProgramError: It is not 32 lower-case hex digits.
        """
        if len(uid_hash) != 32 or any(c not in "0123456789abcdef" for c in uid_hash):
            raise InvalidProgramError(
                f"a uid hash is 32 lower-case hex digits; {self.name!r} got {uid_hash!r}"
            )
        self.uid_hash = uid_hash

    def set_buffer_timeout(self, timeout_ms: int) -> None:
        """Set the flush interval: 0 after each record, -1 only full buffers, or ms.

        Raises:
            InvalidProgramError: It is below -1.
        """
        if timeout_ms < -1:
            raise InvalidProgramError(
                f"the buffer timeout of {self.name!r} must be -1, 0 or a number of "
                f"milliseconds; got {timeout_ms}"
            )
        self.buffer_timeout_ms = timeout_ms

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(id={self.id}, name={self.name!r}, "
            f"parallelism={self.parallelism})"
        )


class PhysicalTransformation(Transformation):
    """A transformation that becomes an operator.

    Attributes:
        operator: Description of the operator's work.
        chaining_strategy: Whether it may run in its neighbours' thread.
    """

    def __init__(
        self,
        name: str,
        operator: OperatorDescriptor,
        output_type: object | None,
        parallelism: int = PARALLELISM_DEFAULT,
        *,
        chaining_strategy: ChainingStrategy = ChainingStrategy.ALWAYS,
    ) -> None:
        super().__init__(name, output_type, parallelism)
        self.operator = operator
        self.chaining_strategy = chaining_strategy


class SourceTransformation(PhysicalTransformation):
    """A source that the runtime polls (FLIP-27)."""

    def __init__(
        self,
        name: str,
        operator: OperatorDescriptor,
        output_type: object | None,
        parallelism: int = PARALLELISM_DEFAULT,
        *,
        bounded: bool = True,
        chaining_strategy: ChainingStrategy = ChainingStrategy.HEAD,
    ) -> None:
        super().__init__(
            name, operator, output_type, parallelism, chaining_strategy=chaining_strategy
        )
        self.bounded = bounded


class LegacySourceTransformation(SourceTransformation):
    """A source whose function owns its loop (SourceFunction)."""


class OneInputTransformation(PhysicalTransformation):
    """An operator with one input, keyed when it has a key selector.

    Attributes:
        broadcast_sets: The streams, by name, that its function reads completely before the input.
    """

    def __init__(
        self,
        input: Transformation,
        name: str,
        operator: OperatorDescriptor,
        output_type: object | None,
        parallelism: int = PARALLELISM_DEFAULT,
        *,
        key_selector: object | None = None,
        key_type: object | None = None,
        chaining_strategy: ChainingStrategy = ChainingStrategy.ALWAYS,
    ) -> None:
        super().__init__(
            name, operator, output_type, parallelism, chaining_strategy=chaining_strategy
        )
        self.input = input
        self.key_selector = key_selector
        self.key_type = key_type
        self.broadcast_sets: dict[str, Transformation] = {}

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        """The input, and the broadcast streams beside it."""
        return (self.input, *self.broadcast_sets.values())


class ReduceTransformation(OneInputTransformation):
    """A rolling reduce over a keyed stream."""


class TimestampsAndWatermarksTransformation(OneInputTransformation):
    """Assignment of timestamps and generation of watermarks."""


class SinkTransformation(OneInputTransformation):
    """An operator without output: the writer of a sink that does not commit."""


class SinkWriterTransformation(OneInputTransformation):
    """The writer of a sink that commits; it emits committables."""


class CompactorTransformation(OneInputTransformation):
    """Compaction of committables in front of the committer."""


class CommitterTransformation(SinkTransformation):
    """The committer of a sink, which reads the committables of the writers."""


class LegacySinkTransformation(SinkTransformation):
    """A sink function called once per record."""


class GlobalCommitterTransformation(CommitterTransformation):
    """The single subtask that commits for all writers of a sink."""


class TwoInputTransformation(PhysicalTransformation):
    """An operator with two inputs; input numbers are 0 and 1."""

    def __init__(
        self,
        input1: Transformation,
        input2: Transformation,
        name: str,
        operator: OperatorDescriptor,
        output_type: object | None,
        parallelism: int = PARALLELISM_DEFAULT,
        *,
        key_selector1: object | None = None,
        key_selector2: object | None = None,
        key_type: object | None = None,
        chaining_strategy: ChainingStrategy = ChainingStrategy.ALWAYS,
    ) -> None:
        super().__init__(
            name, operator, output_type, parallelism, chaining_strategy=chaining_strategy
        )
        self.input1 = input1
        self.input2 = input2
        self.key_selector1 = key_selector1
        self.key_selector2 = key_selector2
        self.key_type = key_type

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        """First and second input."""
        return (self.input1, self.input2)


class BroadcastStateTransformation(TwoInputTransformation):
    """A plain stream beside a broadcast one; the second input is the broadcast side."""


class KeyedBroadcastStateTransformation(TwoInputTransformation):
    """A keyed stream beside a broadcast one; the second input is the broadcast side."""


class MultipleInputTransformation(PhysicalTransformation):
    """An operator with any number of inputs, numbered from 0 in the order they were added."""

    def __init__(
        self,
        name: str,
        operator: OperatorDescriptor,
        output_type: object | None,
        parallelism: int = PARALLELISM_DEFAULT,
        *,
        chaining_strategy: ChainingStrategy = ChainingStrategy.ALWAYS,
    ) -> None:
        super().__init__(
            name, operator, output_type, parallelism, chaining_strategy=chaining_strategy
        )
        self._inputs: list[Transformation] = []

    def add_input(self, input: Transformation) -> None:
        """Append an input; its number is its position, from 0."""
        self._inputs.append(input)

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        """All inputs in the order they were added."""
        return tuple(self._inputs)


class KeyedMultipleInputTransformation(MultipleInputTransformation):
    """A multiple-input operator whose inputs share a key type."""

    def __init__(
        self,
        name: str,
        operator: OperatorDescriptor,
        output_type: object | None,
        parallelism: int = PARALLELISM_DEFAULT,
        *,
        key_type: object | None = None,
        chaining_strategy: ChainingStrategy = ChainingStrategy.ALWAYS,
    ) -> None:
        super().__init__(
            name, operator, output_type, parallelism, chaining_strategy=chaining_strategy
        )
        self.key_type = key_type
        self.key_selectors: list[object | None] = []

    def add_input(self, input: Transformation, key_selector: object | None = None) -> None:
        """Append an input with the selector of its keys."""
        super().add_input(input)
        self.key_selectors.append(key_selector)


class UnionTransformation(Transformation):
    """All records of several inputs of one type; no operator of its own."""

    def __init__(self, inputs: Sequence[Transformation]) -> None:
        if not inputs:
            raise InvalidProgramError("a union needs at least one input")
        super().__init__("Union", inputs[0].output_type, inputs[0].parallelism)
        self.has_own_parallelism = inputs[0].has_own_parallelism
        if all(other.annotated_type == inputs[0].annotated_type for other in inputs):
            self.annotated_type = inputs[0].annotated_type
        self._inputs = tuple(inputs)

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        """The united inputs."""
        return self._inputs


class _EdgeTransformation(Transformation):
    """A property of the edges that leave `input`; no operator of its own."""

    def __init__(self, input: Transformation, name: str, output_type: object | None) -> None:
        super().__init__(name, output_type, input.parallelism)
        self.has_own_parallelism = input.has_own_parallelism
        self.input = input
        self.annotated_type = input.annotated_type

    @property
    def inputs(self) -> tuple[Transformation, ...]:
        """The one input."""
        return (self.input,)


class PartitionTransformation(_EdgeTransformation):
    """Distributes the records of its input by a partitioner."""

    def __init__(
        self,
        input: Transformation,
        partitioner: PartitionerSpec,
        exchange_mode: ExchangeMode = ExchangeMode.UNDEFINED,
    ) -> None:
        super().__init__(input, "Partition", input.output_type)
        self.partitioner = partitioner
        self.exchange_mode = exchange_mode


class SideOutputTransformation(_EdgeTransformation):
    """The records that an operator emitted to one output tag."""

    def __init__(self, input: Transformation, tag: str, output_type: object | None) -> None:
        super().__init__(input, "SideOutput", output_type)
        self.annotated_type = None
        self.tag = tag


class SplitTransformation(_EdgeTransformation):
    """Marks each record with the names that a selector returns (older form)."""

    def __init__(self, input: Transformation, output_selector: object) -> None:
        super().__init__(input, "Split", input.output_type)
        self.output_selector = output_selector


class SelectTransformation(_EdgeTransformation):
    """The records that a split marked with one of the given names."""

    def __init__(self, input: Transformation, selected_names: Sequence[str]) -> None:
        super().__init__(input, "Select", input.output_type)
        self.selected_names = tuple(selected_names)


class _FeedbackEdges:
    """The feedback edges of an iteration's input.

    Attributes:
        feedback_edges: Transformations whose records return to it.
    """

    parallelism: int
    feedback_edges: list[Transformation]

    def add_feedback_edge(self, transformation: Transformation) -> None:
        """Add a feedback edge to the loop.

        Raises:
            InvalidProgramError: Its parallelism differs from the iteration's.
        """
        if transformation.parallelism != self.parallelism:
            raise InvalidProgramError(
                "the feedback of an iteration must have its parallelism: "
                f"{transformation.name!r} has {transformation.parallelism}, the iteration "
                f"{self.parallelism}"
            )
        self.feedback_edges.append(transformation)


class FeedbackTransformation(_FeedbackEdges, _EdgeTransformation):
    """The head of an iteration: records of `input` and of the feedback edges.

    Attributes:
        feedback_edges: Transformations whose records return to the head.
        wait_time_ms: Time without feedback after which the iteration ends; with 0 it ends only when
            its input has ended and the loop is empty.
    """

    def __init__(self, input: Transformation, wait_time_ms: int = 0) -> None:
        super().__init__(input, "Feedback", input.output_type)
        self.wait_time_ms = wait_time_ms
        self.feedback_edges: list[Transformation] = []


class CoFeedbackTransformation(_FeedbackEdges, Transformation):
    """The second input of a co-iteration: only the records of feedback edges.

    Attributes:
        feedback_edges: Transformations whose records return.
        wait_time_ms: Time without feedback after which the iteration ends; with 0 it ends only when
            its input has ended and the loop is empty.
    """

    def __init__(
        self, parallelism: int, feedback_type: object | None, wait_time_ms: int = 0
    ) -> None:
        super().__init__("CoFeedback", feedback_type, parallelism)
        self.wait_time_ms = wait_time_ms
        self.feedback_edges: list[Transformation] = []

"""Settings of the operator behind a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.calls.names import checked_name
from penstock.common.typeinfo import TypeInformation, Types, with_field_names
from penstock.datastream.annotations import NOTHING, Annotation
from penstock.errors import InvalidProgramError
from penstock.expressions.computed import computed
from penstock.graph.transformations import (
    ChainingStrategy,
    PartitionTransformation,
    PhysicalTransformation,
    Transformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from typing import Self

    from penstock.common.execution_config import ExecutionConfig
    from penstock.datastream.environment_execution import EnvironmentExecution
    from penstock.datastream.slot_sharing_group import SlotSharingGroup


@checks_arguments
class StreamSettings(MissingMethods):
    """Name, state id, parallelism, chaining and slots of the operator behind a stream."""

    def __init__(
        self,
        environment: EnvironmentExecution,
        transformation: Transformation,
        *,
        non_parallel: bool = False,
    ) -> None:
        """Wrap a transformation; environments and streams create streams."""
        self._environment = environment
        self._transformation = transformation
        self._non_parallel = non_parallel

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transformation.name!r} of {self.get_type()}>"

    @property
    def transformation(self) -> Transformation:
        """Return the transformation that produces the stream."""
        return self._transformation

    def get_execution_config(self) -> ExecutionConfig:
        """Return the execution settings of the program."""
        return self._environment.get_config()

    def get_type(self) -> TypeInformation:
        """Return the type of the records."""
        return declared_type(self._transformation)

    def _record_type(self) -> TypeInformation:
        """Return the declared type of the records, or the type from annotations."""
        return record_type(self._transformation)

    def get_name(self) -> str:
        """Return the name of the operator.

        Raises:
            InvalidProgramError: The stream is a union or a partitioning and has no operator.
        """
        transformation = self._transformation
        if isinstance(transformation, UnionTransformation) or (
            isinstance(transformation, PartitionTransformation)
            and transformation.partitioner.kind != "CUSTOM"
        ):
            self._operator("get_name")
        return transformation.name

    def name(self, name: str) -> Self:
        """Name the operator, for plans, logs and metrics.

        Raises:
            InvalidProgramError: The name is not a string, or cannot be sent.
        """
        self._operator("name").name = checked_name("an operator", name)
        return self

    def uid(self, uid: str) -> Self:
        """Set the id of the operator's state, so that the state survives changes of the program.

        Raises:
            InvalidProgramError: The name cannot be stored.
        """
        self._operator("uid").uid = checked_name("an operator's state", uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set an alternative id of the operator's state: 32 hex digits."""
        self._operator("set_uid_hash").set_uid_hash(uid_hash)
        return self

    def set_description(self, description: str) -> Self:
        """Set a description of the operator, for plans.

        Raises:
            InvalidProgramError: The description cannot be sent.
        """
        self._transformation.description = checked_name("a description", description)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks.

        Raises:
            InvalidProgramError: The argument is not positive, or the operator cannot be parallel.
        """
        if isinstance(self._transformation, PartitionTransformation) and (
            self._transformation.partitioner.kind == "CUSTOM"
        ):
            # In PyFlink a custom partitioner is an operator of its own.  penstock has no such
            # operator, so its parallelism does not matter and is only checked.
            self._transformation.set_parallelism(parallelism)
            return self
        transformation = self._operator("set_parallelism")
        if self._non_parallel and parallelism != 1:
            raise InvalidProgramError(
                f"{transformation.name!r} is not parallel: its parallelism must be 1, "
                f"got {parallelism}"
            )
        transformation.set_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups, the upper bound of the operator's parallelism.

        Raises:
            InvalidProgramError: The number is not from 1 to 32768, or the operator cannot be
                parallel.
        """
        transformation = self._operator("set_max_parallelism")
        if self._non_parallel and max_parallelism != 1:
            raise InvalidProgramError(
                f"{transformation.name!r} is not parallel: its maximum parallelism must be 1, "
                f"got {max_parallelism}"
            )
        transformation.set_max_parallelism(max_parallelism)
        return self

    def force_non_parallel(self) -> Self:
        """Fix the parallelism at 1."""
        transformation = self._operator("force_non_parallel")
        transformation.set_parallelism(1)
        transformation.set_max_parallelism(1)
        self._non_parallel = True
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Set the buffer timeout in ms: 0 flushes after each record, -1 only full buffers."""
        self._operator("set_buffer_timeout").set_buffer_timeout(timeout_millis)
        return self

    def start_new_chain(self) -> Self:
        """Start a new chain of operators with this one."""
        self._operator("start_new_chain").chaining_strategy = ChainingStrategy.HEAD
        return self

    def disable_chaining(self) -> Self:
        """Run the operator in its own task."""
        self._operator("disable_chaining").chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> Self:
        """Put the operator's subtasks into the slots of a group."""
        self._environment.assign_slot_sharing_group(
            self._operator("slot_sharing_group"), slot_sharing_group
        )
        return self

    def set_co_location_group_key(self, key: str) -> Self:
        """Place subtask *i* into one slot with subtask *i* of each operator with this key.

        This lets operators share memory, files or a device.  They need the same parallelism and
        slot sharing group (beyond PyFlink).

        Raises:
            InvalidProgramError: The key is not a string, or cannot be sent.
        """
        self._operator("set_co_location_group_key").co_location_key = checked_name(
            "a co-location group", key
        )
        return self

    # For the builders -------------------------------------------------------------------------

    def _stream(self) -> Any:
        """Return this stream, a `DataStream`, which the modules below do not know."""
        return self

    def _plain(self) -> StreamSettings:
        """Return the stream before its `key_by`."""
        return self

    def _function(self, func: Any, where: str, *, wanted: str = "any") -> Any:
        """Return the function of an operator; an expression is compiled for the record type."""
        return computed(func, where, [self._plain()._record_type()], wanted=wanted)

    def _keys(self) -> tuple[Any, TypeInformation | None]:
        """Return key selector and key type of a keyed stream."""
        return None, None

    def _kept_annotation(self) -> Any:
        """Return the annotated type of the records, for operators that keep it."""
        return self._transformation.annotated_type

    def _register(
        self, transformation: PhysicalTransformation, annotation: Annotation = NOTHING
    ) -> None:
        """Add an operator to the program."""
        annotation.describe(transformation)
        self._environment.add_operator(transformation)

    def _operator(self, what: str) -> PhysicalTransformation:
        if not isinstance(self._transformation, PhysicalTransformation):
            raise InvalidProgramError(
                f"{what}() belongs to an operator, but {self._transformation.name!r} only says "
                "how records travel: call it after the next transformation"
            )
        return self._transformation


def declared_type(transformation: Transformation) -> TypeInformation:
    """Return the declared type of a transformation's records, by default any value."""
    declared = cast("TypeInformation | None", transformation.output_type)
    return Types.PICKLED_BYTE_ARRAY() if declared is None else with_field_names(declared)


def record_type(transformation: Transformation) -> TypeInformation:
    """Return the declared type of a transformation's records, else that of annotations."""
    if transformation.output_type is None and transformation.annotated_type is not None:
        return cast("TypeInformation", transformation.annotated_type)
    return declared_type(transformation)

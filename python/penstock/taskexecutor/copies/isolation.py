"""The places where values are copied, so that later changes are not seen elsewhere.

The rule is Flink's without object reuse: later changes elsewhere do not affect the values that an
operator emits or keeps for itself.  Keyed state of functions stores their own objects, as in Flink:
changes in place are in the state.  Values are not copied if no function could notice: values of
immutable types, values that leave the chain (written at once), values just read by a source, values
that evaluated functions created from their own input, and rows of which a function only reads
fields.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.common.typeinfo import BasicTypeInfo
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor
from penstock.expressions.functions import bound_function
from penstock.graph import operators
from penstock.serialization.type_schema import schema_of
from penstock.taskexecutor.compiled import (
    ChainingOutput,
    CopyingChainingOutput,
    FilterOperator,
    Input,
    MapOperator,
    ValueCopier,
)
from penstock.taskexecutor.copies.copy_plans import UNCHANGING_CLASSES
from penstock.taskexecutor.copies.typed_outputs import (
    has_form,
    is_written,
    shows_values,
    typed_output,
)
from penstock.taskexecutor.state.isolated_states import isolated

if TYPE_CHECKING:
    from penstock.common.execution_config import ExecutionConfig
    from penstock.datastream.state import StateDescriptor
    from penstock.expressions.bytecode import Types
    from penstock.expressions.evaluation import Evaluation
    from penstock.graph.job_graph import ChainedOutput, OperatorConfig
    from penstock.taskexecutor.compiled import Output, StreamOperator

#: Kinds of operators that only read a record during the call.
_READERS: Final = (operators.DiscardingSink, operators.PrintSink, operators.CollectSink)

#: Kinds of operators whose outputs have no other owner if their input has none.
_MAKERS: Final = (
    operators.CollectionSource,
    operators.ColumnSource,
    operators.NumberSequenceSource,
    operators.SocketTextSource,
    operators.FileSource,
    operators.IterationHead,
    operators.Project,
)


def never_changes(type_info: Any) -> bool:
    """Return whether values of a declared type are immutable."""
    if isinstance(type_info, TupleTypeInfo):
        return all(map(never_changes, type_info.get_field_types()))
    if isinstance(type_info, BasicTypeInfo):
        return True
    return type_info is not None and schema_of(type_info).kind == "CONVERTED"


def lending(state: Any, descriptor: StateDescriptor) -> Any:
    """Return a state for functions, which may change its values in place."""
    declared = descriptor.type_info
    if isinstance(descriptor, ListStateDescriptor):
        declared = descriptor.element_type
    elif isinstance(descriptor, MapStateDescriptor):
        declared = descriptor.value_type
    state.lends = not never_changes(declared)
    return state


class Isolation:
    """Decides where one operator must copy."""

    def __init__(
        self,
        operator_name: str,
        execution_config: ExecutionConfig,
        evaluation: Evaluation,
        *,
        is_each_written: bool = False,
    ) -> None:
        """Create the policy; nothing is copied if the job reuses objects.

        Args:
            operator_name: The operator's name, for messages.
            execution_config: The job's settings.
            evaluation: Knows the functions that are evaluated.
            is_each_written: Whether each operator of a chain receives values in their declared
                form.
        """
        self._is_each_written = is_each_written
        self._name = operator_name
        self._evaluation = evaluation
        self.is_wanted = not execution_config.is_object_reuse_enabled()

    def copier(self, what: str, *types: object) -> ValueCopier | None:
        """Return a copier for values of these declared types; None if no copy is needed.

        Args:
            what: The use of the values, for messages: ``operator … <what> a value of …``.
            types: TypeInformation or None for each part of a value.
        """
        if not self.is_wanted or (types and all(map(never_changes, types))):
            return None
        return ValueCopier(f"operator {self._name!r} {what}")

    def of_list(self, descriptor: ListStateDescriptor) -> ValueCopier | None:
        """Return a copier for the values of an operator's list state."""
        return self._of_state(descriptor, descriptor.element_type)

    def of_map(self, descriptor: MapStateDescriptor) -> ValueCopier | None:
        """Return a copier for the values of a broadcast state."""
        return self._of_state(descriptor, descriptor.key_type, descriptor.value_type)

    def _of_state(self, descriptor: StateDescriptor, *types: object) -> ValueCopier | None:
        return self.copier(f"keeps in state {descriptor.get_name()!r}", *types)

    def contents(self, state: object, descriptor: StateDescriptor) -> Any:
        """Return the state of window contents, sharing no mutable value."""
        if not self.is_wanted:
            return state
        return isolated(state, descriptor, partial(self._of_state, descriptor))

    def chained(
        self,
        config: OperatorConfig,
        operator: StreamOperator,
        edge: ChainedOutput,
        consumer: OperatorConfig,
        target: Input,
    ) -> Output:
        """Return the output of an operator to another one of its chain.

        Args:
            config: The operator.
            operator: The running operator.
            edge: The output in the graph's description.
            consumer: The other operator.
            target: Receives the records.
        """
        declared = config.output_type
        if edge.tag is not None:
            types = consumer.input_types
            declared = types[edge.input_number] if edge.input_number < len(types) else None
        is_read = isinstance(consumer.descriptor, _READERS)
        is_form_seen = not is_read or isinstance(consumer.descriptor, operators.PrintSink)
        is_form_due = self._is_each_written or is_written(config, edge, consumer)
        is_form_due = (is_form_due and is_form_seen) or shows_values(declared, consumer)
        if is_form_due and has_form(declared, consumer):
            return typed_output(target, declared)
        is_read = is_read or self._only_reads_fields(consumer, declared)
        # Relational operators exchange immutable batches of columns.
        is_read = is_read or any(
            isinstance(each.descriptor, operators.Relational) for each in (config, consumer)
        )
        if not is_read and not self._gives_away(config, operator, edge):
            copier = self.copier("hands on", declared)
            if copier is not None:
                return CopyingChainingOutput(target, copier)
        return ChainingOutput(target)

    def _only_reads_fields(self, consumer: OperatorConfig, declared: object) -> bool:
        """Return whether a consumer computes from immutable fields and keeps no record."""
        if not isinstance(declared, RowTypeInfo) or not isinstance(
            consumer.descriptor, operators.Map
        ):
            return False
        if not all(map(never_changes, declared.get_field_types())):
            return False
        function = bound_function(consumer.descriptor.function, "map")
        program = self._evaluation.program(function, 1, (declared,))
        return program is not None and program.keeps_only_fields

    def _gives_away(
        self, config: OperatorConfig, operator: StreamOperator, edge: ChainedOutput
    ) -> bool:
        """Return whether the receiver is the last owner of values without other holders."""
        mains = [chained for chained in config.chained_outputs if chained.tag is None]
        written = [leaving for leaving in config.network_outputs if leaving.tag is None]
        if edge.tag is not None or written or mains[-1] is not edge:
            return False
        if isinstance(config.descriptor, _MAKERS):
            return True
        if type(operator) not in (MapOperator, FilterOperator):
            return False
        function: Any = operator.function  # type: ignore[attr-defined]
        return only_computes(function, self._evaluation, config.input_types)


def only_computes(function: object, evaluation: Evaluation, types: Types = ()) -> bool:
    """Return whether a function's results consist of its arguments and of constants only."""
    program = evaluation.program(function, 1, types)
    if program is None:
        return False
    for _, _, defaults in program.origins:
        if not all(type(value) in UNCHANGING_CLASSES for value in defaults or ()):
            return False
    for operation, _, left, right, _ in program.instructions:
        if operation == "cell":
            found = getattr(program.constants[left], "cell_contents", None)
        elif operation == "global":
            found = program.constants[right].get(program.constants[left])
        else:
            continue
        # A name that is set later, or holds a mutable value, may be anything.
        if found is None or type(found) not in UNCHANGING_CLASSES:
            return False
    return True

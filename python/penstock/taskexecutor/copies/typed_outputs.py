"""Outputs that pass values in their declared form, as they would arrive in another task.

PyFlink runs functions of a chain in one interpreter, which passes values unchanged only where one
function follows another.  Behind a side output, behind an operator with several consumers and
around non-Python operators, values are serialised and deserialised, and everywhere if
``python.operator-chaining.enabled`` is false.  Sinks that format values are such operators: ``1``
of a ``DOUBLE`` is ``1.0`` there.  Writers of other sinks, as of JDBC, get rows with the names of
their type, which decide the column of a value.  ``print()`` of a ROW is a Python function instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeGuard

from penstock.columns.exchange import has_batches
from penstock.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, TupleTypeInfo, Types
from penstock.graph import operators
from penstock.serialization.codec import codec_for
from penstock.taskexecutor.compiled import TypedChainingOutput

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation
    from penstock.graph.job_graph import ChainedOutput, OperatorConfig
    from penstock.taskexecutor.compiled import ChainingOutput, Input

#: Kinds of operators that PyFlink leaves to Java.
_NOT_PYTHON: Final = (operators.Watermarks, operators.Project)

#: By type, the class whose values are unchanged by a round trip.
_EXACT: Final = (
    (Types.STRING(), str),
    (Types.BOOLEAN(), bool),
    (Types.BYTE(), int),
    (Types.SHORT(), int),
    (Types.INT(), int),
    (Types.LONG(), int),
    (Types.DOUBLE(), float),
)


#: Types for which any valid value is unchanged by a round trip, whatever its class.
_UNCHANGED: Final = (Types.STRING(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG())


def typed_output(target: Input, declared: TypeInformation) -> ChainingOutput:
    """Return an output that passes records to an input in their declared form."""
    codec = codec_for(declared)
    exact: Any = next((cls for kind, cls in _EXACT if kind == declared), None)
    if exact is None and has_batches(declared):
        exact = declared
    return TypedChainingOutput(target, codec.encode, codec.decode, exact)


def is_written(config: OperatorConfig, edge: ChainedOutput, consumer: OperatorConfig) -> bool:
    """Return whether PyFlink serialises the values between two operators of a chain."""
    if edge.tag is not None:
        return True
    tags = [chained.tag for chained in config.chained_outputs]
    tags += [leaving.tag for leaving in config.network_outputs]
    return (
        isinstance(config.descriptor, _NOT_PYTHON)
        or isinstance(consumer.descriptor, _NOT_PYTHON)
        or tags.count(None) > 1
    )


def shows_values(declared: object, consumer: OperatorConfig) -> bool:
    """Return whether a non-Python operator formats values of a type, or reads names of fields."""
    if isinstance(consumer.descriptor, operators.PrintSink):
        return not isinstance(declared, RowTypeInfo)
    if isinstance(consumer.descriptor, operators.SinkWriter):
        return isinstance(declared, RowTypeInfo)
    return isinstance(consumer.descriptor, operators.FileSink)


def has_form(declared: object, consumer: OperatorConfig) -> TypeGuard[TypeInformation]:
    """Return whether values have a declared form that may differ from the values themselves.

    Tuples of texts and integers are unchanged by a round trip, which would cost as much as an
    exchange.  An invalid tuple fails where it leaves the chain, or is shown.
    """
    if declared is None or isinstance(declared, PickledBytesTypeInfo):
        return False
    plain = isinstance(declared, TupleTypeInfo) and _comes_back(declared)
    return not plain or shows_values(declared, consumer)


def _comes_back(declared: TypeInformation) -> bool:
    """Return whether a valid value of the type is unchanged by a round trip."""
    if isinstance(declared, TupleTypeInfo):
        return all(map(_comes_back, declared.get_field_types()))
    return any(declared == kind for kind in _UNCHANGED)

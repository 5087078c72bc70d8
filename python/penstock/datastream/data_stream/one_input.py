"""Operators with one input behind a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import TupleTypeInfo, TypeInformation, Types
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.computed import with_computed_timestamps
from penstock.graph import operators
from penstock.graph.transformations import (
    OneInputTransformation,
    TimestampsAndWatermarksTransformation,
)

if TYPE_CHECKING:
    from penstock.datastream.data_stream.settings import StreamSettings


def one_input(
    stream: StreamSettings, operator: operators.OperatorDescriptor, name: str, output_type: Any
) -> OneInputTransformation:
    """Return an operator behind a stream, with the keys of the stream."""
    key_selector, key_type = stream._keys()
    return OneInputTransformation(
        stream.transformation,
        name,
        operator,
        output_type,
        stream._environment.get_parallelism(),
        key_selector=key_selector,
        key_type=key_type,
    )


def projection(
    row: TypeInformation, field_indexes: tuple[Any, ...]
) -> tuple[operators.Project, TypeInformation]:
    """Return the operator that keeps some fields of tuples, and the type of its results.

    Raises:
        InvalidProgramError: The records are not tuples, or a field does not exist.
    """
    if not isinstance(row, TupleTypeInfo):
        raise InvalidProgramError(f"only a stream of TUPLE can be projected, this is {row}")
    fields = row.get_field_types()
    if not field_indexes:
        raise InvalidProgramError("project() needs at least one field index")
    for index in field_indexes:
        if type(index) is not int or not 0 <= index < len(fields):
            raise WrongArgumentError(f"project(): {row} has no field {index!r}")
    return operators.Project(field_indexes), Types.TUPLE([fields[index] for index in field_indexes])


def timestamps(
    stream: StreamSettings, watermark_strategy: WatermarkStrategy
) -> TimestampsAndWatermarksTransformation:
    """Return the operator that assigns timestamps and generates watermarks.

    Raises:
        WrongArgumentError: The argument is not a WatermarkStrategy.
        InvalidProgramError: The strategy aligns watermarks, which only sources can do.
    """
    given: Any = watermark_strategy
    if not isinstance(given, WatermarkStrategy):
        raise WrongArgumentError(
            f"assign_timestamps_and_watermarks takes a WatermarkStrategy, got {given!r}"
        )
    if watermark_strategy.alignment is not None:
        raise InvalidProgramError(
            "watermark alignment makes sources wait: pass a strategy with it to from_source, "
            "not to assign_timestamps_and_watermarks"
        )
    strategy = with_computed_timestamps(
        shipped(watermark_strategy, "assign_timestamps_and_watermarks"),
        stream._plain()._record_type(),
    )
    before = stream.transformation
    transformation = TimestampsAndWatermarksTransformation(
        before,
        "Timestamps/Watermarks",
        operators.Watermarks(strategy),
        before.output_type,
        stream._environment.get_parallelism(),
    )
    if strategy.timestamp_assigner is None and stream._plain() is stream:
        # As in Flink: a subtask then sees all records of its source, in their order.  PyFlink
        # extracts timestamps, and keys, in operators with the parallelism of the environment.
        transformation.parallelism = before.parallelism
        transformation.has_own_parallelism = before.has_own_parallelism
    return transformation

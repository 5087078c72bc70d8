"""Broadcast sets: streams that an operator reads completely before its own input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.names import checked_name
from penstock.datastream.data_stream.settings import StreamSettings
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.graph import operators
from penstock.graph.partitioners import PartitionerSpec
from penstock.graph.transformations import OneInputTransformation, PartitionTransformation

if TYPE_CHECKING:
    from penstock.graph.transformations import Transformation


def add_broadcast_set(stream: StreamSettings, other: StreamSettings, name: str) -> None:
    """Add a broadcast set to the operator of a stream; see `DataStream.with_broadcast_set`."""
    given: Any = other
    if not isinstance(given, StreamSettings):
        raise WrongArgumentError(f"with_broadcast_set takes a DataStream, got {given!r}")
    transformation: Transformation = stream.transformation
    if (
        not isinstance(transformation, OneInputTransformation)
        or transformation.operator.user_function is None
    ):
        raise InvalidProgramError(
            f"with_broadcast_set() needs an operator with one input and a function, which "
            f"{transformation.name!r} is not: call it right after map, flat_map, filter or process"
        )
    checked_name("a broadcast set", name)
    sets = transformation.broadcast_sets
    if name in sets:
        raise InvalidProgramError(
            f"{transformation.name!r} has a broadcast set {name!r} already: choose another name"
        )
    source = given._plain().transformation
    if _reads(source, transformation):
        raise InvalidProgramError(
            f"the broadcast set {name!r} of {transformation.name!r} depends on its results, for "
            "which it would wait forever: choose a stream before this operator"
        )
    inner = transformation.operator
    if isinstance(inner, operators.WithBroadcastSets):
        inner = inner.inner
    broadcast = PartitionerSpec("BROADCAST")
    sets[name] = PartitionTransformation(source, broadcast)
    transformation.operator = operators.WithBroadcastSets(inner, tuple(sets))


def _reads(reader: Transformation, other: Transformation) -> bool:
    """Return whether a transformation is another one or gets records of it."""
    waiting, seen = [reader], {reader.id}
    while waiting:
        current = waiting.pop()
        if current is other:
            return True
        new = [each for each in current.inputs if each.id not in seen]
        seen.update(each.id for each in new)
        waiting += new
    return False

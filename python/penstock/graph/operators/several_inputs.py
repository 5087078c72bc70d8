"""Operators with two or more inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.graph.operators.descriptor import FunctionDescriptor, OperatorDescriptor


class CoMap(FunctionDescriptor):
    """Runs a CoMapFunction."""


class CoFlatMap(FunctionDescriptor):
    """Runs a CoFlatMapFunction."""


class CoProcess(FunctionDescriptor):
    """Runs a CoProcessFunction."""


class KeyedCoProcess(FunctionDescriptor):
    """Runs a KeyedCoProcessFunction."""


@dataclass(frozen=True, kw_only=True)
class RegularJoin(FunctionDescriptor):
    """Runs a KeyedCoProcessFunction that joins all records of a key, or joins by columns.

    Attributes:
        key_fields: By side, the `KeyFields` of its keys; None if their type is unknown.
        why_by_rows: Why records are joined one by one, worded to follow a comma; None if columns
            may join them.
    """

    key_fields: tuple[Any, Any]
    why_by_rows: str | None


class BroadcastProcess(FunctionDescriptor):
    """Runs a BroadcastProcessFunction; the second input is the broadcast one."""


class KeyedBroadcastProcess(FunctionDescriptor):
    """Runs a KeyedBroadcastProcessFunction; the second input is the broadcast one."""


@dataclass(frozen=True, kw_only=True)
class IntervalJoin(FunctionDescriptor):
    """Joins records of one key that are near in time, for a ProcessJoinFunction.

    Attributes:
        lower_bound_ms: The least timestamp of the right record relative to the left one's.
        upper_bound_ms: The greatest one; both are inclusive.
        left_late_tag: The id of the side output of late left records, or None.
        right_late_tag: The same for right records.
    """

    lower_bound_ms: int
    upper_bound_ms: int
    left_late_tag: str | None = None
    right_late_tag: str | None = None


@dataclass(frozen=True, kw_only=True)
class MultipleInputProcess(FunctionDescriptor):
    """Runs a MultipleInputProcessFunction.

    Attributes:
        num_inputs: The number of streams.
    """

    num_inputs: int


@dataclass(frozen=True)
class WithBroadcastSets(OperatorDescriptor):
    """An operator with one input whose function first reads other streams completely.

    Attributes:
        inner: The operator.
        names: The names of the other streams, which are the inputs from 1 on.
    """

    inner: OperatorDescriptor
    names: tuple[str, ...]

    @property
    def user_function(self) -> Any:
        """The user's function of the operator."""
        return self.inner.user_function


class Transform(FunctionDescriptor):
    """Runs an operator of the user's own, with one or two inputs, keyed or not."""


class KeyedMultipleInputProcess(MultipleInputProcess):
    """Runs a KeyedMultipleInputProcessFunction on keyed streams."""

"""The state of the groups of an aggregation: packed numbers, of which columns read many at once."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.columns.group_kernels import NoKernelError
from penstock.table import types
from penstock.table.functions import type_rules
from penstock.table.functions.accumulators import Count, Extreme, Sum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.columns.array_types import Integers
    from penstock.table.plan.expressions import AggregateCall
    from penstock.taskexecutor.operators.relational.aggregates.aggregate_calls import AggregateCalls

COUNT: Final = "COUNT"
SUM: Final = "SUM"
EXTREME: Final = "EXTREME"

#: By kind, the number of integers of an accumulator: a sum has a count, an extreme whether it is
#: not NULL.
WIDTHS: Final = {COUNT: 1, SUM: 2, EXTREME: 2}

_INTEGER: Final = np.dtype("<i8")


class PackedGroups:
    """Converts groups between state and columns.

    In state a group is plain or packed.  A plain one is a tuple: the number of rows, and the list
    of `AggregateCalls.create`.  A packed one has the bytes of the integers of all accumulators
    that consist of such, those of the number of rows first; other accumulators and dictionaries
    of distinct values follow in a tuple.  If it only has integers and all are equal, as those of
    ``COUNT(*)`` are, it is that integer, which state stores without an object.

    Attributes:
        kinds: By call, the kind of its accumulator if it is packed, otherwise None.
        columns: By call, its first integer if it is packed, otherwise its place among the others.
        width: The number of integers.
    """

    def __init__(self, calls: AggregateCalls) -> None:
        """Choose the layout for the accumulators of an operator."""
        self._calls = calls
        self.kinds = [
            _kind(call, accumulator)
            for call, accumulator in zip(calls.calls, calls.accumulators, strict=True)
        ]
        self.columns: list[int] = []
        self.width = 1
        others = 0
        for kind in self.kinds:
            if kind is None:
                self.columns.append(others)
                others += 1
            else:
                self.columns.append(self.width)
                self.width += WIDTHS[kind]
        self._integers = struct.Struct(f"<{self.width}q")
        self._empty = self._integers.pack(*[0] * self.width)
        #: Functions that create the parts of a packed group behind its integers.
        self._others = [
            accumulator.create
            for accumulator, kind in zip(calls.accumulators, self.kinds, strict=True)
            if kind is None
        ]
        self._others += [dict] * (len(calls.create()) - len(self.kinds))

    def plain(self, group: Any) -> tuple[Any, ...] | None:
        """Return a group of state in its plain form; None for None."""
        if group is None:
            return None
        others: list[Any] = []
        if type(group) is int:
            numbers: tuple[int, ...] = (group,) * self.width
        elif type(group) is bytes or type(group[0]) is bytes:
            data, *others = (group,) if type(group) is bytes else group
            numbers = self._integers.unpack(data)
        else:
            return self._calls.of_state(group)
        found: list[Any] = [numbers[0]]
        for kind, at in zip(self.kinds, self.columns, strict=True):
            found.append(others[at] if kind is None else _accumulator(kind, numbers, at))
        return *found, *others[self.kinds.count(None) :]

    def read(self, groups: Sequence[Any]) -> tuple[Integers, list[list[Any]]]:
        """Return the integers and the other parts of groups of state.

        Args:
            groups: The groups; None for a new one.

        Returns:
            A numpy array with a row for each integer; a list for each other part.

        Raises:
            NoKernelError: A number needs more than 64 bits.
        """
        parts: list[list[Any]] = []
        if self._others:
            packed = [
                self._new() if group is None
                else group if type(group[0]) is bytes
                else self._packed(group)
                for group in groups
            ]  # fmt: skip
            data, *columns = zip(*packed, strict=True)
            parts = [list(column) for column in columns]
        else:
            kinds = {*map(type, groups)}
            if kinds <= {int, type(None)}:
                numbers = np.array([group or 0 for group in groups], np.int64)
                return np.repeat(numbers[np.newaxis], self.width, axis=0), parts
            empty = self._empty
            data = tuple(
                [
                    group if type(group) is bytes else empty if group is None
                    else self._packed(group)[0]
                    for group in groups
                ]
            )  # fmt: skip
        found = np.frombuffer(b"".join(data), _INTEGER).reshape(len(groups), self.width)
        return np.array(found.T, np.int64, order="C"), parts

    def written(self, integers: Integers, parts: Sequence[Sequence[Any]]) -> list[Any]:
        """Return groups for state; see `read`."""
        are_equal = np.zeros(integers.shape[1], bool)
        if not parts:
            are_equal = (integers == integers[0]).all(axis=0)
            if are_equal.all():
                found: list[Any] = integers[0].tolist()
                return found
        data = np.ascontiguousarray(integers.T, _INTEGER).tobytes()
        size = self._integers.size
        packed: list[Any] = [data[start : start + size] for start in range(0, len(data), size)]
        for at in np.flatnonzero(are_equal).tolist():
            packed[at] = int(integers[0, at])
        return list(zip(packed, *parts, strict=True)) if parts else packed

    def accumulators(self, integers: Integers, place: int) -> list[Any]:
        """Return the accumulators of a packed call, by group."""
        at, kind = self.columns[place], self.kinds[place]
        found: list[Any] = integers[at].tolist()
        if kind == SUM:
            return list(zip(found, integers[at + 1].tolist(), strict=True))
        if kind == EXTREME:
            known = integers[at + 1].tolist()
            return [value if has else None for value, has in zip(found, known, strict=True)]
        return found

    def _new(self) -> tuple[object, ...]:
        """Return a packed group without rows."""
        return self._empty, *[make() for make in self._others]

    def _packed(self, group: Any) -> tuple[Any, ...]:
        if type(group) is int:
            return (self._integers.pack(*(group,) * self.width),)
        rows, *values = self._calls.of_state(group) or ()
        numbers: list[int] = [rows]
        others: list[Any] = []
        for kind, value in zip(self.kinds, values, strict=False):
            if kind is None:
                others.append(value)
            elif kind == COUNT:
                numbers.append(value)
            elif kind == SUM:
                numbers += value
            else:
                numbers += (0, 0) if value is None else (value, 1)
        try:
            data = self._integers.pack(*numbers)
        except struct.error:
            raise NoKernelError from None
        return data, *others, *values[len(self.kinds) :]


def _accumulator(kind: str, numbers: Sequence[int], at: int) -> object:
    if kind == COUNT:
        return numbers[at]
    if kind == SUM:
        return numbers[at], numbers[at + 1]
    return numbers[at] if numbers[at + 1] else None


def _kind(call: AggregateCall, accumulator: object) -> str | None:
    """Return the kind of the accumulator of a call, None if it is more than integers."""
    if isinstance(accumulator, Count):
        return COUNT
    if len(call.arguments) != 1 or not isinstance(call.arguments[0].type, types.IntegralType):
        return None
    if isinstance(accumulator, Sum) and type(call.type) in type_rules.BOUNDS:
        return SUM
    return EXTREME if isinstance(accumulator, Extreme) else None

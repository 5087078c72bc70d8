# cython: annotation_typing=False, boundscheck=True
# The C types come from field_sum.pxd; the annotations below are for readers and mypy.
"""The running sum of a field.

One source with two uses; see ``operator_loop``.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any

# Relative: when compiled, these are the classes that the .pxd cimports.
from .function_operators import KeyedReduceOperator  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.table import CopyOnWriteStateMap


class SumFieldOperator(KeyedReduceOperator):
    """The running sum of one field; the other fields are those of the first record.

    State stores the last result of each key.  For a pair of the key and a number it stores the
    number only, which takes a third of the memory; a value that is not a tuple is stored in a list
    of its own, to distinguish it from such a number, and folded by ``function``.

    Attributes:
        sums_in_place: Number of results added up in the state so far.
    """

    def __init__(
        self,
        position: int,
        function: Callable[[object, object], object],
        keys: KeyReader,
        folds: CopyOnWriteStateMap,
    ) -> None:
        """Create the operator for a field's position; the other arguments are those of the base."""
        KeyedReduceOperator.__init__(self, None, function, keys, folds)
        self.position = position
        self.takes_pairs = position == 1 and keys.position == 0
        self.sums_in_place = 0

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        done = False
        try:
            if self.takes_pairs and type(value) is tuple:
                pair: tuple[Any, ...] = value
                if len(pair) == 2:
                    key = pair[0]
                    if type(key) is not self.keys.plain and type(key) is not self.keys.other:
                        key = self.keys.identity(key)
                    total = self.folds.increase(key, pair[1])
                    if total is not None:
                        self.sums_in_place += 1
                        # A new tuple for each record: the receiver of the last one may keep it.
                        self.output.collect((key, total), timestamp)
                        done = True
                        return
            value = self.folded(self.keys.read(value), value)
            self.output.collect(value, timestamp)
            done = True
        finally:
            if not done:
                self.note_failure()

    def folded(self, key: object, value: object) -> object:
        """Return the new result of a key, and store it."""
        position = self.folds.find(key)
        if position < 0:
            self.folds.put(key, self.kept_of(key, value))
            return value
        kept = self.folds.at(position)
        if type(value) is not tuple or type(kept) is list:
            value = self.function(self.fold_of(key, kept), value)
        else:
            fields: tuple[Any, ...] = value
            fold: tuple[Any, ...] = self.fold_of(key, kept)
            total = added(fold[self.position], fields[self.position])
            value = (*fold[: self.position], total, *fold[self.position + 1 :])
        self.folds.put_at(position, key, self.kept_of(key, value))
        return value

    def kept_of(self, key: object, value: object) -> Any:
        """Return the stored form of a key whose last result is ``value``."""
        if type(value) is not tuple:
            return [value]
        fields: tuple[Any, ...] = value
        if self.takes_pairs and len(fields) == 2 and fields[0] is key:
            number = fields[1]
            if type(number) is int or type(number) is float:
                return number
        return value

    def fold_of(self, key: object, kept: Any) -> Any:
        """Return the last result of a key."""
        if type(kept) is tuple:
            return kept
        if type(kept) is list:
            return kept[0]
        return key, kept


def added(one: Any, other: Any) -> Any:
    """Return the sum as Python computes it: compiled by Cython, ``0 + -0.0`` is -0.0."""
    if type(one) is int and type(other) is int:
        return one + other
    return add(one, other)

# cython: annotation_typing=False, boundscheck=True
# The C types come from field_sum.pxd; the annotations below are for readers and mypy.
"""The running sum of a field.

One source, two uses, as ``operator_loop``, which says how.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Any

# Relative: compiled, these are the classes that the .pxd cimports.
from .function_operators import KeyedReduceOperator  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.network.pure.keys import KeyReader


class SumFieldOperator(KeyedReduceOperator):
    """The running sum of one field; the other fields are the first element's.

    Tuples are handled here; ``function`` folds everything else.
    """

    def __init__(
        self,
        position: int,
        function: Callable[[Any, Any], Any],
        keys: KeyReader,
        table: dict[Any, Any],
    ) -> None:
        """Keeps the field's position; the other arguments are those of the base."""
        KeyedReduceOperator.__init__(self, None, function, keys, table)
        self.position = position

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        try:
            if type(value) is not tuple:
                KeyedReduceOperator.process(self, value, timestamp)
                return
            fields: tuple[Any, ...] = value
            key = self.keys.read(value)
            kept = self.table.get(key)
            if type(kept) is tuple:
                fold: tuple[Any, ...] = kept
                position = self.position
                total, field = fold[position], fields[position]
                # Not "+" for all: compiled by Cython, 0 + -0.0 is -0.0.
                if type(total) is int and type(field) is int:
                    total = total + field
                else:
                    total = add(total, field)
                # A tuple of its own for each element: who got the last one may keep it.
                if position == 1 and len(fold) == 2:
                    value = (fold[0], total)
                else:
                    value = (*fold[:position], total, *fold[position + 1 :])
            elif kept is not None:
                value = self.function(kept, value)
            self.table[key] = value
            self.output.collect(value, timestamp)
        except BaseException as error:
            self.failed_with = error
            raise

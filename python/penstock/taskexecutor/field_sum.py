"""The running sum of a field; ``penstock._native.field_sum`` is the native twin."""

from collections.abc import Callable
from typing import Any

from penstock.taskexecutor.function_operators import KeyedReduceOperator


class SumFieldOperator(KeyedReduceOperator):
    """The running sum of one field; the other fields are the first element's.

    Tuples are handled here; ``function`` folds everything else.
    """

    def __init__(
        self,
        position: int,
        function: Callable[[Any, Any], Any],
        key_selector: Callable[[Any], Any],
        key_position: int,
        table: dict[Any, Any],
    ) -> None:
        """Keeps the field's position; the other arguments are those of the base."""
        KeyedReduceOperator.__init__(self, None, function, key_selector, key_position, table)
        self.position = position

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        position = self.position
        try:
            if type(value) is not tuple:
                KeyedReduceOperator.process(self, value, timestamp)
                return
            fields: tuple[Any, ...] = value
            position_of_key = self.key_position
            key = fields[position_of_key] if position_of_key >= 0 else self.key_selector(value)
            fold: tuple[Any, ...] | None = self.table.get(key)
            if fold is not None:
                total = fold[position] + fields[position]
                if position == 1 and len(fold) == 2:
                    fields = (fold[0], total)
                else:
                    fields = (*fold[:position], total, *fold[position + 1 :])
            self.table[key] = fields
            self.output.collect(fields, timestamp)
        except BaseException as error:
            self.failed_with = error
            raise

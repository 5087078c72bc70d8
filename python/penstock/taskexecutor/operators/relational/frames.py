"""Results of OVER for the rows of a partition in their order."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from penstock.table.functions.accumulator_choice import accumulator
from penstock.taskexecutor.operators.relational.ordering import sort_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.table.plan.expressions import AggregateCall, Frame, OrderItem

_Row = tuple[Any, ...]
_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE")


class Frames:
    """Computes the calls of an OVER for whole partitions."""

    def __init__(
        self, order: Sequence[OrderItem], frame: Frame, calls: Sequence[AggregateCall]
    ) -> None:
        """Create the computation of an OVER.

        Args:
            order: The order; its expressions are columns.
            frame: The rows that an aggregate covers.
            calls: The functions, over columns.
        """
        self._frame = frame
        self._calls = calls
        self._key = sort_key(order)
        self._order = order
        self._accumulators = [
            None
            if call.function in (*_RANKS, "LAG", "LEAD")
            else accumulator(call, may_retract=False, is_over=True)
            for call in calls
        ]

    def results(self, rows: list[_Row], start: int = 0) -> list[_Row]:
        """Return the results of rows that are in order, from a position on."""
        if not rows:
            return []
        keys = [self._key(row) for row in rows]
        columns = [
            self._column(call, made, rows, keys, start)
            for call, made in zip(self._calls, self._accumulators, strict=True)
        ]
        return list(zip(*columns, strict=True)) if columns else [()] * (len(rows) - start)

    def _column(
        self, call: AggregateCall, made: Any, rows: list[_Row], keys: list[Any], start: int
    ) -> list[object]:
        if call.function in ("LAG", "LEAD"):
            return self._shifted(call, rows, start)
        if call.function in _RANKS:
            return _ranks(call, keys, rows)[start:]
        arguments = [_arguments(call, made, row) for row in rows]
        if self._frame.preceding is None and self._frame.following in (0, None):
            return self._running(made, arguments, keys, start)
        results = []
        for position in range(start, len(rows)):
            first, last = self._bounds(rows, keys, position)
            value = made.create()
            for given in arguments[first:last]:
                if given is not None:
                    value = made.add(value, *given)
            results.append(made.result(value))
        return results

    def _running(
        self, made: Any, arguments: list[tuple[object, ...] | None], keys: list[Any], start: int
    ) -> list[object]:
        value = made.create()
        results: list[Any] = []
        number = len(arguments)
        position = 0
        while position < number:
            end = position + 1
            if self._frame.following is None:
                end = number
            elif not self._frame.is_rows:
                while end < number and keys[end] == keys[position]:
                    end += 1
            for given in arguments[position:end]:
                if given is not None:
                    value = made.add(value, *given)
            results.extend([made.result(value)] * (end - position))
            position = end
        return results[start:]

    def _bounds(self, rows: list[_Row], keys: list[Any], position: int) -> tuple[int, int]:
        """Return the range of rows, end excluded, that the frame of a row covers."""
        before, behind = self._frame.preceding, self._frame.following
        number = len(rows)
        if self._frame.is_rows:
            first = 0 if before is None else max(position - before, 0)
            last = number if behind is None else min(position + behind + 1, number)
            return first, max(last, first)
        return (
            self._range_start(rows, keys, position, before),
            self._range_end(rows, keys, position, behind),
        )

    def _range_start(self, rows: list[_Row], keys: list[Any], position: int, by: object) -> int:
        if by is None:
            return 0
        first = position
        while first > 0 and (
            keys[first - 1] == keys[position] or self._distance(rows, first - 1, position, by)
        ):
            first -= 1
        return first

    def _range_end(self, rows: list[_Row], keys: list[Any], position: int, by: object) -> int:
        if by is None:
            return len(rows)
        last = position + 1
        while last < len(rows) and (
            keys[last] == keys[position] or self._distance(rows, last, position, by)
        ):
            last += 1
        return last

    def _distance(self, rows: list[_Row], one: int, other: int, by: Any) -> bool:
        """Return whether two rows are no further apart than ``by``."""
        if by == 0 and not isinstance(by, datetime.timedelta):
            return False
        index = self._order[0].expression.index  # type: ignore[attr-defined]
        first, second = rows[one][index], rows[other][index]
        if first is None or second is None:
            return first is second
        if isinstance(first, datetime.datetime) and not isinstance(by, datetime.timedelta):
            by = datetime.timedelta(milliseconds=by)
        return bool(abs(second - first) <= by)

    @staticmethod
    def _shifted(call: AggregateCall, rows: list[_Row], start: int) -> list[object]:
        indexes = [a.index for a in call.arguments]  # type: ignore[attr-defined]
        results = []
        for position in range(start, len(rows)):
            row = rows[position]
            by = row[indexes[1]] if len(indexes) > 1 else 1
            place = position - by if call.function == "LAG" else position + by
            if 0 <= place < len(rows):
                results.append(rows[place][indexes[0]])
            else:
                results.append(row[indexes[2]] if len(indexes) > 2 else None)
        return results


def _arguments(call: AggregateCall, made: Any, row: _Row) -> tuple[object, ...] | None:
    if call.condition is not None and not row[call.condition.index]:  # type: ignore[attr-defined]
        return None
    given = tuple(row[a.index] for a in call.arguments)  # type: ignore[attr-defined]
    return None if made.skips_null and None in given else given


def _ranks(call: AggregateCall, keys: list[Any], rows: list[_Row]) -> list[object]:
    number = len(keys)
    if call.function == "ROW_NUMBER":
        return list(range(1, number + 1))
    if call.function == "CUME_DIST":
        # Equal rows each have their own position, as in Flink.
        return [(i + 1) / number for i in range(number)]
    if call.function == "NTILE":
        buckets = rows[0][call.arguments[0].index]  # type: ignore[attr-defined]
        size, rest = divmod(number, buckets)
        ends = [size + (1 if i < rest else 0) for i in range(buckets)]
        return [i + 1 for i, count in enumerate(ends) for _ in range(count)]
    results: list[Any] = []
    position = dense = 0
    while position < number:
        end = position + 1
        while end < number and keys[end] == keys[position]:
            end += 1
        dense += 1
        value: Any = {
            "RANK": position + 1,
            "DENSE_RANK": dense,
            "PERCENT_RANK": position / (number - 1) if number > 1 else 0.0,
        }[call.function]
        results.extend([value] * (end - position))
        position = end
    return results

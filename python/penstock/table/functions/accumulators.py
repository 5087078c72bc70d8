"""Accumulators of aggregate functions: updates by rows, and results.

An accumulator is a Python value that keyed state can store.  ``add`` and ``retract`` return the
accumulator, which is a new object if it is immutable.
"""

from __future__ import annotations

import bisect
import datetime
import decimal
import itertools
import json
import math
from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.exceptions import TableException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.row_equality import equal_to
from penstock.table.types.arrow_types import fitting_decimal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.table.types import DataType

CONTEXT: Final = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)
"""Digits enough for sums and squares of DECIMAL."""


class Accumulator:
    """Functions on the accumulators of one call; the arguments are those of a row."""

    #: Whether rows with a NULL first argument are skipped.
    skips_null = True

    def create(self) -> Any:
        """Return the accumulator without rows."""
        raise NotImplementedError

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Return the accumulator with a row."""
        raise NotImplementedError

    def retract(self, accumulator: Any, *values: Any) -> Any:
        """Return the accumulator without a row that was added."""
        raise NotImplementedError

    def merge(self, accumulator: Any, other: Any) -> Any:
        """Return the accumulator of the rows of both."""
        raise NotImplementedError

    def result(self, accumulator: Any) -> Any:
        """Return the value of the aggregate."""
        raise NotImplementedError


class Count(Accumulator):
    """The number of rows."""

    def create(self) -> int:
        """Return 0."""
        return 0

    def add(self, accumulator: int, *values: Any) -> int:
        """Count a row."""
        del values
        return accumulator + 1

    def retract(self, accumulator: int, *values: Any) -> int:
        """Retract a row."""
        del values
        return accumulator - 1

    def merge(self, accumulator: int, other: int) -> int:
        """Return the sum."""
        return accumulator + other

    def result(self, accumulator: int) -> int:
        """Return the number."""
        return accumulator


class Sum(Accumulator):
    """The sum; integers wrap around, a DECIMAL that does not fit is NULL."""

    def __init__(self, data_type: DataType, *, is_zero_without_rows: bool = False) -> None:
        """Create the accumulator for a result type."""
        self._bound = rules.BOUNDS.get(type(data_type))  # type: ignore[arg-type]
        self._is_decimal = isinstance(data_type, types.DecimalType)
        self._zero = is_zero_without_rows

    def create(self) -> tuple[Any, int]:
        """Return an empty sum."""
        return 0, 0

    def add(self, accumulator: tuple[Any, int], *values: Any) -> tuple[Any, int]:
        """Add a value."""
        return self._sum(accumulator[0], values[0]), accumulator[1] + 1

    def retract(self, accumulator: tuple[Any, int], *values: Any) -> tuple[Any, int]:
        """Subtract a value."""
        value = values[0]
        # The minus of Python would round a DECIMAL to the 28 digits of the default context.
        negative = CONTEXT.minus(value) if self._is_decimal else -value
        return self._sum(accumulator[0], negative), accumulator[1] - 1

    def merge(self, accumulator: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        """Return the sum of both."""
        return self._sum(accumulator[0], other[0]), accumulator[1] + other[1]

    def _sum(self, one: Any, other: Any) -> Any:
        if self._bound is not None:
            return (one + other + self._bound) % (2 * self._bound) - self._bound
        if self._is_decimal:
            return CONTEXT.add(decimal.Decimal(one), decimal.Decimal(other))
        return one + other

    def result(self, accumulator: tuple[Any, int]) -> Any:
        """Return the sum; None without rows."""
        return accumulator[0] if accumulator[1] or self._zero else None


class Average(Sum):
    """The mean; for integers truncated to an integer."""

    def __init__(self, data_type: Any) -> None:
        """Create the accumulator for a result type."""
        super().__init__(data_type)
        self._bound = None
        self._is_integer = rules.is_integer(data_type)
        self._type = data_type

    def result(self, accumulator: tuple[Any, int]) -> Any:
        """Return the mean; None without rows."""
        total, count = accumulator
        if not count:
            return None
        if self._is_integer:
            return abs(total) // count * (1 if total >= 0 else -1)
        if self._is_decimal:
            # Arrow silently converts some numbers with more digits to others.
            return fitting_decimal(CONTEXT.divide(decimal.Decimal(total), count), self._type)
        return total / count


class SingleValue(Accumulator):
    """The value of a subquery, which must have at most one row."""

    skips_null = False

    def create(self) -> list[Any]:
        """Return an empty list."""
        return []

    def add(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Append the value."""
        return [*accumulator, values[0]]

    def retract(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Remove a value."""
        kept = list(accumulator)
        if values[0] in kept:
            kept.remove(values[0])
        return kept

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        """Return the values of both."""
        return accumulator + other

    def result(self, accumulator: list[Any]) -> Any:
        """Return the value; None without rows.

        Raises:
            TableException: There are several values.
        """
        if len(accumulator) > 1:
            raise TableException("SingleValueAggFunction received more than one element.")
        return accumulator[0] if accumulator else None


class Extreme(Accumulator):
    """The smallest or greatest value of rows that are never retracted."""

    def __init__(self, is_max: bool) -> None:
        """Create the accumulator of a minimum or maximum."""
        self._is_max = is_max

    def create(self) -> Any:
        """Return None."""
        return None

    def add(self, accumulator: Any, *values: Any) -> Any:
        """Compare with a value."""
        value = values[0]
        if accumulator is None:
            return value
        is_better = value > accumulator if self._is_max else value < accumulator
        return value if is_better else accumulator

    def merge(self, accumulator: Any, other: Any) -> Any:
        """Return the smaller or greater of both."""
        if accumulator is None or other is None:
            return other if accumulator is None else accumulator
        is_better = other > accumulator if self._is_max else other < accumulator
        return other if is_better else accumulator

    def result(self, accumulator: Any) -> Any:
        """Return the value."""
        return accumulator


class _Counted(Accumulator):
    """Stores each value with the number of its rows."""

    def create(self) -> dict[Any, int]:
        """Return an empty dictionary."""
        return {}

    def add(self, accumulator: dict[Any, int], *values: Any) -> dict[Any, int]:
        """Count a value."""
        return self._changed(accumulator, hashable(values[0]), 1)

    def retract(self, accumulator: dict[Any, int], *values: Any) -> dict[Any, int]:
        """Retract a value."""
        return self._changed(accumulator, hashable(values[0]), -1)

    def merge(self, accumulator: dict[Any, int], other: dict[Any, int]) -> dict[Any, int]:
        """Count the values of both."""
        for value, count in other.items():
            accumulator = self._changed(accumulator, value, count)
        return accumulator

    @staticmethod
    def _changed(accumulator: dict[Any, int], value: Any, by: int) -> dict[Any, int]:
        value = as_kept(accumulator, value)
        count = accumulator.get(value, 0) + by
        changed = dict(accumulator) if len(accumulator) < 8 else accumulator
        if count:
            changed[value] = count
        else:
            changed.pop(value, None)
        return changed


class RetractableExtreme(_Counted):
    """The smallest or greatest value of rows that may be retracted."""

    def __init__(self, is_max: bool) -> None:
        """Create the accumulator of a minimum or maximum."""
        self._is_max = is_max

    def result(self, accumulator: dict[Any, int]) -> Any:
        """Return the value; None without rows."""
        present = [value for value, count in accumulator.items() if count > 0]
        if not present:
            return None
        return max(present) if self._is_max else min(present)


class Collected(_Counted):
    """COLLECT: a multiset."""

    def result(self, accumulator: dict[Any, int]) -> Any:
        """Return the values with their counts."""
        return dict(accumulator)


class Percentile(Accumulator):
    """PERCENTILE: interpolated between the two nearest values, at one share or several.

    The optional third argument is the frequency of a value; a row with less than 1 is ignored.
    """

    def create(self) -> list[Any]:
        """Return the accumulator without values and share."""
        return [None, {}]

    def add(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Count a value."""
        return self._changed(accumulator, 1, *values)

    def retract(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Retract a value."""
        return self._changed(accumulator, -1, *values)

    @staticmethod
    def _changed(
        accumulator: list[Any], sign: int, value: Any, share: Any, times: int = 1
    ) -> list[Any]:
        found, counts = accumulator
        if times > 0:
            count = counts.get(value, 0) + sign * times
            if count:
                counts[value] = count
            else:
                counts.pop(value, None)
        return [share if found is None else found, counts]

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        """Count the values of both."""
        share, counts = accumulator
        for value, count in other[1].items():
            counts[value] = counts.get(value, 0) + count
        return [other[0] if share is None else share, counts]

    def result(self, accumulator: list[Any]) -> Any:
        """Return the value at the share, or the list of those at several; None without rows.

        Raises:
            TableException: A share is not between 0 and 1.
        """
        share, counts = accumulator
        if not counts:
            return None
        values = sorted(counts)
        ends = list(itertools.accumulate(counts[value] for value in values))
        if isinstance(share, list | tuple):
            return [self._at(values, ends, float(one)) for one in share]
        return self._at(values, ends, float(share))

    @staticmethod
    def _at(values: list[Any], ends: list[int], share: float) -> float:
        if not 0 <= share <= 1:
            raise TableException(f"PERCENTILE takes a share between 0 and 1, got {share}")
        position = (ends[-1] - 1) * share
        low = math.floor(position)
        below, above = (
            float(values[bisect.bisect_right(ends, place)]) for place in (low, math.ceil(position))
        )
        if below == above:
            return below
        return (low + 1 - position) * below + (position - low) * above


class FirstOrLast(Accumulator):
    """FIRST_VALUE and LAST_VALUE in the order of arrival, without NULLs."""

    def __init__(self, is_last: bool) -> None:
        """Create the accumulator of the first or last value."""
        self._is_last = is_last

    def create(self) -> list[Any]:
        """Return an empty list."""
        return []

    def add(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Store the value if it is the first or last."""
        if accumulator and not self._is_last:
            return accumulator
        return [values[0]]

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        """Return the first or last of both."""
        if self._is_last:
            return other or accumulator
        return accumulator or other

    def result(self, accumulator: list[Any]) -> Any:
        """Return the value; None without rows."""
        return accumulator[0] if accumulator else None


class ListAccumulator(Accumulator):
    """Base of accumulators that store all values in the order of arrival."""

    def create(self) -> list[Any]:
        """Return an empty list."""
        return []

    def add(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Append a value."""
        accumulator.append(values[0])
        return accumulator

    def retract(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Remove the first equal value."""
        value = as_kept(accumulator, values[0])
        if value in accumulator:
            accumulator.remove(value)
        return accumulator

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        """Return the values of both."""
        return accumulator + other

    def result(self, accumulator: list[Any]) -> Any:
        """Return the values; None without any."""
        return list(accumulator) or None


class RetractableFirstOrLast(ListAccumulator):
    """FIRST_VALUE and LAST_VALUE of rows that may be retracted."""

    def __init__(self, is_last: bool) -> None:
        """Create the accumulator of the first or last value."""
        self._is_last = is_last

    def result(self, accumulator: list[Any]) -> Any:
        """Return the value; None without rows."""
        if not accumulator:
            return None
        return accumulator[-1 if self._is_last else 0]


class ArrayAggregate(ListAccumulator):
    """ARRAY_AGG, which includes NULLs."""

    skips_null = False


class ListAggregate(ListAccumulator):
    """LISTAGG."""

    def __init__(self, separator: str) -> None:
        """Create the accumulator with a separator."""
        self._separator = separator

    def result(self, accumulator: list[Any]) -> Any:
        """Return the joined texts; None without any."""
        return self._separator.join(accumulator) if accumulator else None


class JsonArrayAggregate(ListAccumulator):
    """JSON_ARRAYAGG."""

    def __init__(self, *, keeps_null: bool) -> None:
        """Create the accumulator, with or without NULLs."""
        self.skips_null = not keeps_null

    def result(self, accumulator: list[Any]) -> Any:
        """Return the array in JSON."""
        return json.dumps(
            [_json_value(v) for v in accumulator],
            separators=(",", ":"),
            ensure_ascii=False,
            sort_keys=True,
        )


class JsonObjectAggregate(ListAccumulator):
    """JSON_OBJECTAGG."""

    skips_null = False

    def __init__(self, *, keeps_null: bool) -> None:
        """Create the accumulator, with or without NULLs."""
        self._keeps_null = keeps_null

    def add(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Append a key and its value."""
        accumulator.append((values[0], values[1]))
        return accumulator

    def retract(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Remove a key and its value."""
        pair = (values[0], values[1])
        if pair in accumulator:
            accumulator.remove(pair)
        return accumulator

    def result(self, accumulator: list[Any]) -> Any:
        """Return the object in JSON."""
        pairs = {k: _json_value(v) for k, v in accumulator if self._keeps_null or v is not None}
        return json.dumps(pairs, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


class Distinct(Accumulator):
    """Passes each distinct value to another accumulator once."""

    def __init__(self, inner: Accumulator) -> None:
        """Wrap an accumulator."""
        self._inner = inner
        self.skips_null = inner.skips_null

    def create(self) -> list[Any]:
        """Return the accumulator without values."""
        return [{}, self._inner.create()]

    def add(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Add a value if it is new."""
        counts, inner = accumulator
        key = self.key(counts, values)
        count = counts.get(key, 0)
        counts[key] = count + 1
        return [counts, self._inner.add(inner, *values) if count == 0 else inner]

    def retract(self, accumulator: list[Any], *values: Any) -> list[Any]:
        """Retract a value if this was its last row."""
        counts, inner = accumulator
        key = self.key(counts, values)
        count = counts.get(key, 0) - 1
        if count > 0:
            counts[key] = count
            return [counts, inner]
        counts.pop(key, None)
        return [counts, self._inner.retract(inner, *values)]

    @staticmethod
    def key(counts: dict[Any, int], values: tuple[Any, ...]) -> Any:
        """Return the key of values; NaN equals NaN, as in Java."""
        key = hashable(values)
        for value in values:
            if value != value:
                is_same = equal_to(key)
                return next((kept for kept in counts if is_same(kept)), key)
        return key

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        """Add the values of the other that are new here."""
        for key, count in other[0].items():
            for _ in range(count):
                accumulator = self.add(accumulator, *key)
        return accumulator

    def result(self, accumulator: list[Any]) -> Any:
        """Return the inner result."""
        return self._inner.result(accumulator[1])


def as_kept(values: Iterable[Any], value: Any) -> Any:
    """Return a value, or the NaN among the values for NaN: they are equal, as in Java."""
    return value if value == value else next((kept for kept in values if kept != kept), value)


def hashable(value: Any) -> Any:
    """Return a hashable form of a value: lists and dictionaries become tuples."""
    if isinstance(value, list | tuple):
        return tuple(hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple((hashable(k), hashable(v)) for k, v in value.items())
    return value


def _json_value(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat(" ") if isinstance(value, datetime.datetime) else value.isoformat()
    return value

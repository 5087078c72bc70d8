"""Computations over the groups of a batch by kernels that are as exact as Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.formats.numpy_values import numpy_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.aggregates.folds import Fold
    from penstock.columns.groups import Groups

#: The largest integer of 64 bits.
MOST: Final = 2**63 - 1


class NoKernelError(Exception):
    """No kernel computes the values exactly."""


def integers(column: Any) -> Any:
    """Return integers as a numpy array with 64 bits."""
    import pyarrow as pa
    import pyarrow.types as at

    if not at.is_signed_integer(column.type):
        raise NoKernelError
    return numpy_values(column.cast(pa.int64()))


def floats(column: Any) -> Any:
    """Return floats as a numpy array with 64 bits."""
    import pyarrow as pa
    import pyarrow.types as at

    if not (at.is_float64(column.type) or at.is_float32(column.type)):
        raise NoKernelError
    return numpy_values(column.cast(pa.float64()))


def is_integer(column: Any) -> bool:
    """Return whether a column has signed integers."""
    import pyarrow.types as at

    return bool(at.is_signed_integer(column.type))


def ordered(column: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return numbers that order as a column's values do, and the function that maps them back.

    The function converts a numpy array to an Arrow array.

    Raises:
        NoKernelError: The numbers do not distinguish all values that differ in Python, or the
            values are of another kind.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as at

    if at.is_signed_integer(column.type):
        return integers(column), pa.array
    if at.is_floating(column.type):
        numbers = floats(column)
        # NaN is neither smaller nor larger, and 0.0 is no larger than -0.0.
        if np.isnan(numbers).any() or (np.signbit(numbers) & (numbers == 0.0)).any():
            raise NoKernelError
        return numbers, pa.array
    if at.is_string(column.type):
        encoded = column.dictionary_encode()
        places = numpy_values(pc.sort_indices(encoded.dictionary))
        ranks = np.empty(len(places), np.int64)
        ranks[places] = np.arange(len(places))
        texts = encoded.dictionary.take(pa.array(places))
        return ranks[numpy_values(encoded.indices)], lambda found: texts.take(pa.array(found))
    raise NoKernelError


def integer_sums(groups: Groups, values: Any) -> Any:
    """Return the sum of each group.

    Raises:
        NoKernelError: A sum may need more than 64 bits.
    """
    import numpy as np

    if len(values) and max(abs(int(values.min())), int(values.max())) * len(values) > MOST:
        raise NoKernelError
    found = np.zeros(groups.count, np.int64)
    np.add.at(found, groups.codes, values)
    return found


def best(groups: Groups, values: Any, *, is_least: bool) -> Any:
    """Return the smallest or largest number of each group; any number for an empty group."""
    import numpy as np

    found = values[groups.firsts]
    (np.minimum if is_least else np.maximum).at(found, groups.codes, values)
    return found


def best_rows(fold: Fold, groups: Groups, by: Any) -> Any:
    """Return the first record of each group that has its smallest or largest number, for Arrow.

    An empty group gets another group's record.

    Args:
        fold: A `MinBy` or `MaxBy`.
        groups: The groups of the records, at least one.
        by: The column of the numbers.

    Raises:
        NoKernelError: See `ordered`.
    """
    import numpy as np
    import pyarrow as pa

    from penstock.aggregates.folds import MaxBy

    numbers, _ = ordered(by)
    most = best(groups, numbers, is_least=not isinstance(fold, MaxBy))
    places = np.flatnonzero(numbers == most[groups.codes])[::-1]
    firsts = groups.firsts.copy()
    firsts[groups.codes[places]] = places
    return pa.array(np.maximum(firsts, 0))

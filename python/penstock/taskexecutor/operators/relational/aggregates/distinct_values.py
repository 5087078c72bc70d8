"""The distinct values of the groups of an aggregation whose rows are never retracted.

As in Flink, calls with the same arguments share one dictionary of each group.  By value, it has the
bits of the calls that have aggregated the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.columns.groups import Groups, numbered
from penstock.columns.record_batches import values_of
from penstock.table.functions.accumulator_choice import counts_distinct
from penstock.table.functions.accumulators import Distinct, as_kept, hashable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.columns.array_types import Booleans
    from penstock.table.plan.expressions import AggregateCall

#: Calls that share a dictionary; the bits of one value fit into 64.
_MOST_CALLS: Final = 62


class Noted(NamedTuple):
    """The place where a call notes the values that it has aggregated.

    Attributes:
        place: The position of the dictionary, behind the accumulators of all calls.
        bit: The bit of the call.
    """

    place: int
    bit: int

    def is_new(self, seen: dict[object, int], arguments: tuple[object, ...]) -> bool:
        """Note the arguments of a row; return whether the call had not aggregated equal ones.

        Args:
            seen: The dictionary of the row's group.
            arguments: The arguments.
        """
        if len(arguments) == 1:
            key = as_kept(seen, hashable(arguments[0]))
        else:
            key = Distinct.key(seen, arguments)
        bits = seen.get(key, 0)
        if bits & self.bit:
            return False
        seen[key] = bits | self.bit
        return True


def noted(calls: Sequence[AggregateCall]) -> list[Noted | None]:
    """Return, by call, the place where it notes values; None if it aggregates each row."""
    found: list[Noted | None] = []
    shared: dict[Any, list[int]] = {}
    dictionaries = 0
    for position, call in enumerate(calls):
        if not counts_distinct(call):
            found.append(None)
            continue
        # User functions get values in a form of their own.
        owner: Any = position
        if isinstance(call.function, str):
            owner = tuple(argument.index for argument in call.arguments)  # type: ignore[attr-defined]
        place, used = shared.get(owner) or (0, _MOST_CALLS)
        if used == _MOST_CALLS:
            place, used = len(calls) + dictionaries, 0
            dictionaries += 1
        shared[owner] = [place, used + 1]
        found.append(Noted(place, 1 << used))
    return found


def in_present_form(
    places: Sequence[Noted | None], group: tuple[Any, ...], dictionaries: int
) -> tuple[Any, ...]:
    """Return a group of state in which each call has a dictionary of its own, as up to 1.0.

    Args:
        places: The result of `noted`.
        group: The number of rows and the accumulators.
        dictionaries: The number of shared dictionaries.
    """
    rows, *values = group
    values += [{} for _ in range(dictionaries)]
    for position, place in enumerate(places):
        if place is not None:
            counts, values[position] = values[position]
            for key in counts:
                place.is_new(values[place.place], key)
    return rows, *values


def first_rows(
    groups: Groups,
    column: pa.Array,
    calls: Sequence[tuple[int, Booleans | None]],
    seen: Sequence[dict[object, int]],
) -> list[Any]:
    """Note the values of a batch; return, by call, the rows whose values are new to it.

    Args:
        groups: The groups of all rows.
        column: The argument, integers or texts.
        calls: By call with this argument, its bit, and which rows it aggregates, as a numpy array
            of booleans; None for all.
        seen: By group, its dictionary.

    Returns:
        Numpy arrays of booleans.
    """
    pairs = numbered([column], groups)
    wanted = np.zeros(len(groups), np.int64)
    for bit, mask in calls:
        wanted |= bit if mask is None else mask * bit
    bits = np.bitwise_or.reduceat(wanted[pairs.order], pairs.starts)
    owners = groups.codes[pairs.firsts]
    # Neighbours of one group share the memory of its dictionary.
    order = np.argsort(owners, kind="stable")
    values = values_of(column.take(pa.array(pairs.firsts[order])))
    lacking = []
    for code, value, bit in zip(owners[order].tolist(), values, bits[order].tolist(), strict=True):
        kept = seen[code]
        known = kept.get(value, 0)
        more = bit & ~known
        if more:
            kept[value] = known | more
        lacking.append(more)
    missing = np.empty(pairs.count, np.int64)
    missing[order] = lacking
    wanted &= missing[pairs.codes]
    new = np.flatnonzero(wanted != 0)
    wanted, of_new = wanted[new], pairs.codes[new]
    found = []
    firsts = np.empty(pairs.count, np.int64)
    for bit, _ in calls:
        chosen = wanted & bit != 0
        rows, of_rows = new[chosen], of_new[chosen]
        # Of several assignments to one place, the last one counts.
        firsts[of_rows[::-1]] = rows[::-1]
        is_first = np.zeros(len(groups), bool)
        is_first[firsts[of_rows]] = True
        found.append(is_first)
    return found

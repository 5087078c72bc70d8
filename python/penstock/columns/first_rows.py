"""The first rows of groups by rank, and the rows of a batch that replace them."""

from __future__ import annotations

from bisect import insort
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock.columns.group_kernels import MOST, NoKernelError
from penstock.columns.groups import Groups
from penstock.columns.order_ranks import sorted_places

if TYPE_CHECKING:
    from penstock.columns.array_types import Booleans, Integers


class Replaced(NamedTuple):
    """Rows that replace others, as numpy arrays.

    Attributes:
        rows: The positions of the rows in the batch, ascending.
        before: For each, the position of the row that it replaces, or -1; rows in state stand
            behind those of the batch.
    """

    rows: Any
    before: Any

    def latest(self, groups: Groups) -> tuple[Integers, Integers]:
        """Return the groups that change, and the position of the last new row of each."""
        found = np.full(groups.count, -1, np.int64)
        found[groups.codes[self.rows]] = self.rows
        changed = np.flatnonzero(found >= 0)
        return changed, found[changed]


class Inserted(NamedTuple):
    """The first rows of groups after the rows of a batch, as numpy arrays.

    Attributes:
        replaced: The rows that stayed for a time.
        groups: The groups that changed, and maybe others.
        sizes: For each, the number of its first rows.
        rows: The positions of these rows, group by group in order.
    """

    replaced: Replaced
    groups: Any
    sizes: Any
    rows: Any


def codes_with_known(groups: Groups, sizes: Integers) -> Integers:
    """Return the group of each row of a batch, and behind them of each known row.

    Args:
        groups: The rows of the batch by group.
        sizes: By group, the number of its known rows.
    """
    known = np.repeat(np.arange(len(sizes)), sizes)
    found: Integers = np.concatenate((groups.codes, known))
    return found


def inserted(
    groups: Groups, sizes: Integers, codes: Integers, ranks: Integers, most: int
) -> Inserted:
    """Insert the rows of a batch into the first ones of their groups.

    Positions of known rows stand behind those of the batch, group by group in order.

    Args:
        groups: The rows of the batch by group.
        sizes: By group, the number of its first rows before the batch.
        codes: By row of the batch, and behind them by known row, its group; `codes_with_known`.
        ranks: The ranks of the same rows; of equal ones, the earlier row comes first.
        most: The number of first rows that a group has at most.

    Raises:
        NoKernelError: The ranks spread too far.
    """
    count = len(groups)
    if most == 1:
        known = codes[count:]
        replaced = replaced_by_rank(
            groups, ranks[:count], known, ranks[count:], replaces_equal=False
        )
        changed, rows = replaced.latest(groups)
        return Inserted(replaced, changed, np.ones(len(changed), np.int64), rows)
    # Of equal rows, known ones come first, then those of the batch in their order.
    turned = np.concatenate((np.arange(count, len(codes)), np.arange(count)))
    order = turned[sorted_places(codes[turned], ranks[turned])]
    # All rows of a group stay for ever if they are few.
    totals = np.bincount(codes)
    is_few = totals <= most
    stays = is_few[codes]
    rows, before, changed, firsts = _of_many(sizes, codes, order, stays, most)
    few = np.flatnonzero(stays[:count])
    rows = np.concatenate((few, rows))
    by_row = np.argsort(rows)
    before = np.concatenate((np.full(len(few), -1), before))
    return Inserted(
        Replaced(rows[by_row], before[by_row]),
        np.concatenate((np.flatnonzero(is_few), changed)),
        np.concatenate((totals[is_few], np.array(list(map(len, firsts)), np.int64))),
        np.concatenate(
            (order[stays[order]], order[np.array(list(chain.from_iterable(firsts)), np.int64)])
        ),
    )


def _of_many(
    sizes: Integers, codes: Integers, order: Integers, stays: Booleans, most: int
) -> tuple[Integers, Integers, Integers, list[list[int]]]:
    """Insert the rows of a batch into groups that have more rows than stay.

    Args:
        sizes: By group, the number of its first rows before the batch.
        codes: The group of each row of the batch, and behind them of each known row.
        order: The positions of these rows by group and rank.
        stays: Whether a row is of another group.
        most: The number of first rows that a group has at most.

    Returns:
        The rows that stayed for a time, and for each the one that it displaced, or -1; the groups
        that changed, and for each its first rows as places in the order.
    """
    count = len(codes) - int(sizes.sum())
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    # A row below a full top stays below it.
    limits = np.full(len(sizes), len(order))
    is_full = sizes == most
    limits[is_full] = places[count + np.cumsum(sizes)[is_full] - 1]
    rows = np.flatnonzero(~stays[:count] & (places[:count] < limits[codes[:count]]))
    groups = np.unique(codes[rows])
    firsts: dict[int, list[int]] = {group: [] for group in groups.tolist()}
    known = count + np.flatnonzero(np.isin(codes[count:], groups))
    for group, place in zip(codes[known].tolist(), places[known].tolist(), strict=True):
        firsts[group].append(place)
    entered, displaced = _entered(codes[rows].tolist(), places[rows].tolist(), firsts, most)
    # A place of -1 stands for none.
    at = np.append(order, -1)
    return (
        at[np.array(entered, np.int64)],
        at[np.array(displaced, np.int64)],
        groups,
        list(firsts.values()),
    )


def _entered(
    codes: list[int], places: list[int], tops: dict[int, list[int]], most: int
) -> tuple[list[int], list[int]]:
    """Insert places into the first ones of their groups; return those that stayed for a time.

    Args:
        codes: The group of each place.
        places: The places; the least is the best.
        tops: By group, its first places in order.
        most: The number of places that stay in a group.

    Returns:
        The places that entered, and for each the one that it displaced, or -1.
    """
    entered, displaced = [], []
    for code, place in zip(codes, places, strict=True):
        top = tops[code]
        if len(top) < most:
            displaced.append(-1)
        elif place < top[-1]:
            displaced.append(top.pop())
        else:
            continue
        insort(top, place)
        entered.append(place)
    return entered, displaced


def replaced_by_rank(
    groups: Groups, ranks: Integers, known: Integers, old_ranks: Integers, *, replaces_equal: bool
) -> Replaced:
    """Return the rows whose rank is below that of all earlier rows of their group.

    Args:
        groups: The rows of the batch by group.
        ranks: By row, its rank, as a numpy array of integers; the least is the best.
        known: The groups that have a row in state, ascending, as a numpy array.
        old_ranks: For each, the rank of that row.
        replaces_equal: Whether a row replaces one of equal rank.

    Raises:
        NoKernelError: The ranks spread too far.
    """
    bounds = [int(ranks.min()), int(ranks.max())]
    if len(known):
        bounds += [int(old_ranks.min()), int(old_ranks.max())]
    least, worst = min(bounds), max(bounds) + 1
    width = worst - least + 1
    count = groups.count
    if width * count >= MOST >> 1 or max(abs(least), abs(worst)) >= MOST >> 1:
        raise NoKernelError
    # In front of the rows of each group stands the row in state, or one that is worse than all.
    old = np.full(count, worst, np.int64)
    old[known] = old_ranks
    places = np.full(count, -1, np.int64)
    places[known] = len(groups) + np.arange(len(known))
    places = np.concatenate((places, np.arange(len(groups))))
    codes = np.concatenate((np.arange(count), groups.codes))
    order = Groups(codes, count).order
    # All values of a group are below those of earlier groups: the minimum restarts.
    values = (np.concatenate((old, ranks)) - least - codes * width)[order]
    best = np.minimum.accumulate(values)[:-1]
    is_better = values[1:] <= best if replaces_equal else values[1:] < best
    found = order[np.concatenate(([True], is_better))]
    is_of_batch = found[1:] >= count
    after, before = places[found[1:][is_of_batch]], places[found[:-1][is_of_batch]]
    by_row = np.argsort(after)
    return Replaced(after[by_row], before[by_row])

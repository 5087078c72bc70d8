"""Operators whose input BATCH mode sorts by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.graph import operators

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Kinds of keyed operators whose input is sorted by key; a reduction keeps one value for each key
#: instead.
_SORTED: Final = (
    operators.Map,
    operators.FlatMap,
    operators.Filter,
    operators.CoMap,
    operators.CoFlatMap,
    operators.KeyedProcess,
    operators.KeyedRank,
    operators.Process,
    operators.Window,
    operators.CoProcess,
    operators.KeyedCoProcess,
    operators.RegularJoin,
    operators.KeyedMultipleInputProcess,
    operators.KeyedBroadcastProcess,
    operators.IntervalJoin,
    operators.MatchPattern,
    operators.Transform,
)


def sorts_by_key(descriptor: object, key_selectors: Iterable[object | None]) -> bool:
    """Return whether BATCH mode sorts the input of an operator by key.

    Args:
        descriptor: The operator.
        key_selectors: The selectors of its inputs; None for an input without a key.
    """
    is_keyed = any(selector is not None for selector in key_selectors)
    return is_keyed and type(descriptor) in _SORTED

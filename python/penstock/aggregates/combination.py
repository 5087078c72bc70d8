"""The local combine in front of an exchange: records of one key become one partial aggregate.

The sender groups each batch by key, and by pane for windows, and sends the accumulators of the
groups as columns.  The receiver merges them into its state.  Only aggregates whose partial results
merge into exactly the result of single records are combined: sums of floats, for example, depend on
the order of additions.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.aggregates.folds import MERGED_COUNT, MERGED_MEAN, Fold, MergedCount, MergedMean
from penstock.aggregates.named import Call, KeyFields, NamedAggregates
from penstock.aggregates.windows import why_not_in_columns
from penstock.common.typeinfo import Types
from penstock.expressions.checking import kind_of
from penstock.graph import operators

if TYPE_CHECKING:
    from penstock.common.composite_types import RowTypeInfo
    from penstock.common.typeinfo import TypeInformation

#: Kinds of values by which kernels find the least and the largest record.
_ORDERED: Final = ("integer", "float", "string")

#: Kinds of values that have an exact column.
_EXACT: Final = (*_ORDERED, "boolean")


class Combination:
    """Combination of a sender's records into partial aggregates.

    A combined record has the fields of the key, then the accumulators, and for windows the number
    of records that it represents.  Its timestamp is that of its last record.

    Attributes:
        aggregates: The aggregates of the receiver.
        key_fields: The fields of the key.
        pane: The size and the offset in ms of the panes of windows; None without windows.
    """

    def __init__(
        self,
        aggregates: NamedAggregates,
        key_fields: KeyFields,
        pane: tuple[int, int] | None = None,
    ) -> None:
        """Create a combination of aggregates that can all be combined."""
        self.aggregates = aggregates
        self.key_fields = key_fields
        self.pane = pane

    @cached_property
    def merging(self) -> tuple[list[Call], list[Fold]]:
        """The aggregates that merge combined records, with positions behind the key's fields."""
        calls: list[Call] = []
        folds: list[Fold] = []
        place = 0
        for call, fold in zip(self.aggregates.calls, self.aggregates.folds, strict=True):
            count = len(_accumulator_types(call))
            name: str = call.function
            if name == "count":
                name, fold = MERGED_COUNT, MergedCount()
            elif name == "mean":
                name, fold = MERGED_MEAN, MergedMean()
            calls.append(Call(name, tuple(range(place, place + count))))
            folds.append(fold)
            place += count
        return calls, folds

    @cached_property
    def declared(self) -> RowTypeInfo:
        """The type of combined records."""
        types = list(self.key_fields.types)
        for call in self.aggregates.calls:
            types += _accumulator_types(call)
        if self.pane is not None:
            types.append(Types.LONG())
        return Types.ROW_NAMED([f"c{at}" for at in range(len(types))], types)


def combination_of(descriptor: Any) -> Combination | None:
    """Return the combination in front of an operator; None if it needs every record.

    Args:
        descriptor: A descriptor of `penstock.graph.operators`.
    """
    if why_not_combined(descriptor) is not None:
        return None
    if isinstance(descriptor, operators.Aggregate):
        return Combination(descriptor.function, descriptor.key_fields)
    assigner = descriptor.assigner
    size = math.gcd(assigner._size, _slide(assigner))
    pane = size, assigner._offset % size
    return Combination(descriptor.function, descriptor.window_function.key_fields, pane)


def why_not_combined(descriptor: Any) -> str | None:
    """Return why the sender does not combine the records of an operator; None if it may."""
    is_sliding = False
    if isinstance(descriptor, operators.Aggregate):
        if descriptor.is_running:
            return "as each emits a row"
    elif isinstance(descriptor, operators.Window):
        reason = why_not_in_columns(descriptor, is_batch=False)
        if reason is not None:
            return reason
        if descriptor.late_tag is not None:
            return "as late ones go to a side output"
        is_sliding = _slide(descriptor.assigner) != descriptor.assigner._size
        if not descriptor.window_function.key_fields.names:
            return "as windows have no key"
    else:
        return "as no aggregates merge them"
    reasons = (_why_not_merged(call, is_sliding) for call in descriptor.function.calls)
    return next(filter(None, reasons), None)


def _slide(assigner: Any) -> int:
    found: int = getattr(assigner, "_slide", assigner._size)
    return found


def _why_not_merged(call: Call, is_sliding: bool) -> str | None:
    """Return why the accumulators of an aggregate are not sent; None if they are."""
    name, kinds = call.function, [kind_of(kind) for kind in call.types]
    if name == "count":
        return None
    if name in ("sum", "mean"):
        is_exact = kinds == ["integer"]
        return None if is_exact else f"as the {name} of floats depends on their order"
    if name not in ("min", "max", "first", "last", "min_by", "max_by"):
        return f"as no column holds the accumulator of {name}"
    if name not in ("min", "max") and is_sliding:
        return f"as {name} depends on the order of records in several panes"
    if any(kind not in _EXACT for kind in kinds):
        return f"as no column holds the accumulator of {name}"
    if name not in ("first", "last") and kinds[-1] not in _ORDERED:
        return f"as no kernel orders the values of {name}"
    return None


def _accumulator_types(call: Call) -> tuple[TypeInformation, ...]:
    """Return the types of the columns of an accumulator, in the order of the merging arguments."""
    if call.function == "mean":
        return Types.LONG(), Types.LONG()
    if call.function in ("count", "sum"):
        return (Types.LONG(),)
    return call.types

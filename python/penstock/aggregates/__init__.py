"""Named aggregates of keyed and windowed streams.

    import penstock.aggregates as agg

    bids.key_by(field("auction")).aggregate({"bids": agg.count(), "total": agg.sum("price")})

The results are rows of the key and one field for each name.
"""

# `declarations` has the functions that programs call, `folds` the accumulators, `named` the
# aggregates of one operator over records.  Their form over columns is in
# `penstock.columns.grouped_folds`.

from typing import TYPE_CHECKING

from penstock.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from penstock.aggregates.declarations import (
        Aggregate,
        collect,
        count,
        count_distinct,
        first,
        last,
        max,  # noqa: A004
        max_by,
        mean,
        min,  # noqa: A004
        min_by,
        sum,  # noqa: A004
        user_defined,
    )

__all__ = [
    "Aggregate",
    "collect",
    "count",
    "count_distinct",
    "first",
    "last",
    "max",
    "max_by",
    "mean",
    "min",
    "min_by",
    "sum",
    "user_defined",
]

__getattr__, __dir__ = lazy_exports(__name__, dict.fromkeys(__all__, "declarations"))

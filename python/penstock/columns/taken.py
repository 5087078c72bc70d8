"""The values that an aggregate consumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from penstock.aggregates.folds import Fold
    from penstock.columns.groups import Groups


class Taken(NamedTuple):
    """The values of a batch that an aggregate consumes.

    Attributes:
        fold: The aggregate over Python values.
        groups: The groups of the records that count.
        whole: The groups of all records.
        columns: The arguments of the records that count, as Arrow arrays without nulls.
    """

    fold: Fold
    groups: Groups
    whole: Groups
    columns: tuple[Any, ...]

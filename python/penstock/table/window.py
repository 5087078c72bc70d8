"""Tumble, Slide, Session and Over: the windows of the Table API."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from penstock.table.exceptions import ValidationException
from penstock.table.expression.expression import Expression, tree_of
from penstock.table.expression.text_expressions import expression_tree
from penstock.table.plan.expressions import UnresolvedCall, UnresolvedColumn

__all__ = ["GroupWindow", "Over", "OverWindow", "Session", "Slide", "Tumble"]

GroupWindowKind: TypeAlias = Literal["TUMBLE", "HOP", "SESSION"]


@dataclass(frozen=True)
class GroupWindow:
    """A group window, which `Tumble`, `Slide` and `Session` build step by step.

    Attributes:
        kind: The assignment of rows to windows.
        size: The tree of the size or of the gap: an interval or a number of rows.
        slide: The tree of the slide; None for other windows.
        time: The tree of the time attribute; None until ``on`` is called.
        name: The name for grouping; None until ``alias`` is called.
    """

    kind: GroupWindowKind
    size: Any
    slide: Any = None
    time: Any = None
    name: str | None = None

    def every(self, slide: Expression[Any]) -> GroupWindow:
        """Set the slide of sliding windows.

        Raises:
            ValidationException: The window is not a sliding window.
        """
        if self.kind != "HOP":
            raise ValidationException("Only Slide has a distance between its windows")
        return replace(self, slide=expression_tree(slide))

    def on(self, time_field: Expression[Any] | str) -> GroupWindow:
        """Set the time attribute that determines the windows of rows."""
        return replace(self, time=_column(time_field))

    def alias(self, alias: str | Expression[Any]) -> GroupWindow:
        """Set the name for grouping.

        Raises:
            ValidationException: The time attribute or the slide is missing.
        """
        if self.time is None:
            raise ValidationException("The window needs its time attribute: call on(...) before")
        if self.kind == "HOP" and self.slide is None:
            raise ValidationException("Slide needs its distance: call every(...) before")
        return replace(self, name=str(_column(alias)))


class Tumble:
    """Consecutive windows of the same size."""

    @classmethod
    def over(cls, size: Expression[Any]) -> GroupWindow:
        """Set the size: an interval, or a number of rows by ``row_interval``."""
        return GroupWindow("TUMBLE", expression_tree(size))


class Slide:
    """Overlapping windows of the same size."""

    @classmethod
    def over(cls, size: Expression[Any]) -> GroupWindow:
        """Set the size: an interval, or a number of rows by ``row_interval``."""
        return GroupWindow("HOP", expression_tree(size))


class Session:
    """Windows that end after a gap without rows."""

    @classmethod
    def with_gap(cls, gap: Expression[Any]) -> GroupWindow:
        """Set the length of the gap without rows that ends a window."""
        return GroupWindow("SESSION", expression_tree(gap))


@dataclass(frozen=True)
class OverWindow:
    """The rows around each row; `Over` builds it step by step.

    Attributes:
        partition: The trees of the partitioning expressions.
        order: The tree of the time attribute or column that orders rows; None until it is set.
        lower: The tree of the bound before the current row; None for the default.
        upper: The tree of the bound after the current row; None for the default.
        name: The name to which ``over`` refers; None until ``alias`` is called.
    """

    partition: tuple[Any, ...] = ()
    order: Any = None
    lower: Any = None
    upper: Any = None
    name: str | None = None

    def order_by(self, order_by: Expression[Any]) -> OverWindow:
        """Set the time attribute or the column that orders the rows."""
        return replace(self, order=_column(order_by))

    def preceding(self, preceding: Expression[Any]) -> OverWindow:
        """Set the bound before the current row: a number of rows, an interval or UNBOUNDED."""
        return replace(self, lower=expression_tree(preceding))

    def following(self, following: Expression[Any]) -> OverWindow:
        """Set the bound after the current row."""
        return replace(self, upper=expression_tree(following))

    def alias(self, alias: str | Expression[Any]) -> OverWindow:
        """Set the name to which ``over`` refers.

        Raises:
            ValidationException: The order is missing, or the bounds have different kinds.
        """
        if self.order is None:
            raise ValidationException("The window needs an order: call order_by(...) before")
        if self.lower is not None and self.upper is not None:
            kinds = _is_of_rows(self.lower), _is_of_rows(self.upper)
            if kinds[0] != kinds[1]:
                raise ValidationException(
                    "Both bounds of a window must be numbers of rows, or both lengths of time"
                )
        return replace(self, name=str(_column(alias)))

    @property
    def is_of_rows(self) -> bool:
        """True if bounds are numbers of rows instead of times."""
        return self.lower is not None and _is_of_rows(self.lower)


class Over:
    """The rows around each row."""

    @classmethod
    def order_by(cls, order_by: Expression[Any]) -> OverWindow:
        """Set the time attribute or the column that orders the rows."""
        return OverWindow(order=_column(order_by))

    @classmethod
    def partition_by(cls, *partition_by: Expression[Any]) -> OverWindow:
        """Set the partitioning expressions."""
        return OverWindow(partition=tuple(map(_column, partition_by)))


_ROW_BOUNDS = ("UNBOUNDED_ROW", "CURRENT_ROW", "ROW_INTERVAL")


def _is_of_rows(bound: Any) -> bool:
    return isinstance(bound, UnresolvedCall) and bound.function in _ROW_BOUNDS


def _column(value: Expression[Any] | str) -> Any:
    return UnresolvedColumn(value) if isinstance(value, str) else tree_of(value)

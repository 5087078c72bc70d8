"""Nodes that compute each row by itself, and their builders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.table.plan.expressions import Column, shifted
from penstock.table.plan.nodes.node import OneInput
from penstock.table.plan.schema import Field, Schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.nodes.node import Node


@dataclass(frozen=True)
class Project(OneInput):
    """Expressions computed for each row.

    Attributes:
        expressions: The expression of each column.
    """

    expressions: tuple[Expression, ...]

    def describe(self) -> str:
        """Return the node's line."""
        pairs = zip(self.expressions, self.schema.names, strict=True)
        shown = [str(e) if str(e) == name else f"{e} AS {name}" for e, name in pairs]
        return f"Calc(select=[{', '.join(shown)}])"


@dataclass(frozen=True)
class Filter(OneInput):
    """The rows for which a condition is true.

    Attributes:
        condition: The condition.
    """

    condition: Expression

    def describe(self) -> str:
        """Return the node's line."""
        return f"Calc(where=[{self.condition}])"


@dataclass(frozen=True)
class AssignWatermarks(OneInput):
    """Watermarks from an expression of each row; as in Flink, rows without a time are dropped.

    Attributes:
        index: The position of the event-time column.
        watermark: The expression of a row's watermark.
        idle_timeout_ms: The time without rows after which the table holds back no other one; 0
            for never, None for that of the settings.
    """

    index: int
    watermark: Expression
    idle_timeout_ms: int | None = None

    def describe(self) -> str:
        """Return the node's line."""
        rowtime = self.schema.fields[self.index].name
        return f"WatermarkAssigner(rowtime=[{rowtime}], watermark=[{self.watermark}])"


@dataclass(frozen=True)
class Correlate(OneInput):
    """Each row with each row that a table function returns for it.

    Attributes:
        function: ``UNNEST``, or the wrapper that ``udtf`` created.
        arguments: The arguments, over the row.
        is_outer: Whether a row without results is emitted, with NULLs.
        condition: The condition on the joined rows, for an outer join; None for all.
        with_ordinality: Whether UNNEST numbers its rows from 1, in the last column.
    """

    function: Any
    arguments: tuple[Expression, ...]
    is_outer: bool = False
    condition: Expression | None = None
    with_ordinality: bool = False

    def describe(self) -> str:
        """Return the node's line."""
        name = getattr(self.function, "_name", self.function)
        kind = "LeftOuterJoin" if self.is_outer else "InnerJoin"
        arguments = ", ".join(map(str, self.arguments))
        condition = "" if self.condition is None else f", condition=[{self.condition}]"
        return f"Correlate(invocation=[{name}({arguments})], joinType=[{kind}]{condition})"


@dataclass(frozen=True)
class Expand(OneInput):
    """Each row once for each grouping set, with NULL for the columns outside of it.

    The last column is the number of the grouping set, which distinguishes equal rows.

    Attributes:
        sets: The positions of the columns of each grouping set.
        keys: The positions of all grouping columns.
    """

    sets: tuple[tuple[int, ...], ...]
    keys: tuple[int, ...]

    def describe(self) -> str:
        """Return the node's line."""
        names = self.input.schema.names
        sets = ", ".join("{" + ", ".join(names[i] for i in s) + "}" for s in self.sets)
        return f"Expand(projects=[{sets}])"


@dataclass(frozen=True)
class ToChangelog(OneInput):
    """Each change as an insertion, with a code for its kind in the first column.

    Attributes:
        codes: The code of each row kind by its number; None to drop these changes.
    """

    codes: tuple[str | None, ...]

    def describe(self) -> str:
        """Return the node's line."""
        return f"ProcessTableFunction(invocation=[TO_CHANGELOG], codes=[{_shown(self.codes)}])"


@dataclass(frozen=True)
class FromChangelog(OneInput):
    """The changes that a column of codes describes.

    Attributes:
        place: The position of the codes.
        codes: The codes, each with the number of its row kind.
    """

    place: int
    codes: tuple[tuple[str, int], ...]

    def describe(self) -> str:
        """Return the node's line."""
        shown = _shown([f"{code}={kind}" for code, kind in self.codes])
        return f"ProcessTableFunction(invocation=[FROM_CHANGELOG], codes=[{shown}])"


def _shown(codes: Iterable[str | None]) -> str:
    return ", ".join(str(code) for code in codes)


def project(
    input: Node, expressions: tuple[Expression, ...] | list[Expression], names: list[str]
) -> Node:
    """Return the projection, or the input itself if it has the same columns."""
    expressions = tuple(expressions)
    if _is_identity(expressions, len(input.schema)) and names == input.schema.names:
        return input
    fields = tuple(Field(n, e.type) for e, n in zip(expressions, names, strict=True))
    return Project(Schema(fields, _kept_key(input, expressions)), input, expressions)


def filtered(input: Node, condition: Expression | None) -> Node:
    """Return the filter, or the input itself without a condition."""
    return input if condition is None else Filter(input.schema, input, condition)


def columns(node: Node, *, offset: int = 0) -> list[Expression]:
    """Return the columns of a node as expressions, with positions increased by ``offset``."""
    found: list[Expression] = [
        Column(field.type, position, field.name) for position, field in enumerate(node.schema)
    ]
    return [shifted(column, offset) for column in found] if offset else found


def _is_identity(expressions: tuple[Expression, ...], width: int) -> bool:
    return len(expressions) == width and all(
        isinstance(e, Column) and e.index == i for i, e in enumerate(expressions)
    )


def _kept_key(input: Node, expressions: tuple[Expression, ...]) -> tuple[int, ...] | None:
    key = input.schema.primary_key
    if key is None:
        return None
    places = {
        e.index: i for i, e in reversed(list(enumerate(expressions))) if isinstance(e, Column)
    }
    return tuple(places[i] for i in key) if all(i in places for i in key) else None

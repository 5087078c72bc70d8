"""Scalar expressions: resolved ones of plans, and unresolved ones of the Table API.

Resolved expressions refer to columns by their position in the input and have a logical type.
Unresolved ones refer to columns and functions by name; ``penstock.table.plan.binder`` resolves
them. All are immutable, and ``str`` returns their form in ``explain``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.types import DataType


@dataclass(frozen=True)
class Expression:
    """A resolved expression.

    Attributes:
        type: The logical type of its values.
    """

    type: DataType

    @property
    def children(self) -> tuple[Expression, ...]:
        """The direct subexpressions, in order."""
        return ()

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        """Return the expression with other subexpressions, one for each of ``children``."""
        assert not children
        return self


@dataclass(frozen=True)
class Column(Expression):
    """A column of the input.

    Attributes:
        index: The position of the column.
        name: The name of the column, for messages.
    """

    index: int
    name: str = ""

    def __str__(self) -> str:
        return self.name or f"${self.index}"


@dataclass(frozen=True)
class OuterColumn(Expression):
    """A column of an enclosing query, in a subquery that has not been joined yet.

    Attributes:
        index: The position of the column in that query.
        name: The name of the column, for messages.
        depth: The distance of the query: 1 for the directly enclosing one.
    """

    index: int
    name: str = ""
    depth: int = 1

    def __str__(self) -> str:
        return f"outer.{self.name}"


@dataclass(frozen=True)
class Literal(Expression):
    """A constant.

    Attributes:
        value: The Python value: int, float, Decimal, str, bytes, bool, date, time, datetime,
            timedelta for intervals of days, int for intervals of months; None for NULL.
    """

    value: Any

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        return f"'{self.value}'" if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True)
class Call(Expression):
    """A call of a built-in function or operator.

    Attributes:
        function: The name in the table of functions.
        arguments: The arguments.
        options: Parameters that are not values, such as the unit of EXTRACT.
    """

    function: str
    arguments: tuple[Expression, ...]
    options: tuple[Any, ...] = ()

    @property
    def children(self) -> tuple[Expression, ...]:
        """The arguments, in order."""
        return self.arguments

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        """Return the call with other arguments."""
        return replace(self, arguments=children)

    def __str__(self) -> str:
        arguments = [str(a) for a in self.arguments]
        if not self.function[0].isalpha() and len(arguments) == 2:
            return f"({arguments[0]} {self.function} {arguments[1]})"
        return f"{self.function}({', '.join([*arguments, *map(str, self.options)])})"


@dataclass(frozen=True)
class Cast(Expression):
    """A conversion to another type.

    Attributes:
        argument: The value.
        is_try: Whether a value that cannot be converted becomes NULL instead of an error.
        is_implicit: Whether the binder added it to convert arguments to a common type.
    """

    argument: Expression
    is_try: bool = False
    is_implicit: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        """The value."""
        return (self.argument,)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        """Return the conversion of another value."""
        return replace(self, argument=children[0])

    def __str__(self) -> str:
        return f"{'TRY_' if self.is_try else ''}CAST({self.argument} AS {self.type})"


@dataclass(frozen=True)
class Case(Expression):
    """The result of the first condition that is true.

    Attributes:
        conditions: The conditions.
        results: The result for each condition, and the default as the last one.
    """

    conditions: tuple[Expression, ...]
    results: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        """The conditions and then the results."""
        return self.conditions + self.results

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        """Return the choice among other expressions."""
        number = len(self.conditions)
        return replace(self, conditions=children[:number], results=children[number:])

    def __str__(self) -> str:
        pairs = zip(self.conditions, self.results, strict=False)
        whens = " ".join(f"WHEN {c} THEN {r}" for c, r in pairs)
        return f"CASE {whens} ELSE {self.results[-1]} END"


@dataclass(frozen=True)
class PythonCall(Expression):
    """A call of a user's scalar function.

    Attributes:
        function: The wrapper that ``udf`` created.
        arguments: The arguments.
        name: The name in the query, for messages.
    """

    function: Any
    arguments: tuple[Expression, ...]
    name: str = ""

    @property
    def children(self) -> tuple[Expression, ...]:
        """The arguments, in order."""
        return self.arguments

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        """Return the call with other arguments."""
        return replace(self, arguments=children)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class AggregateCall(Expression):
    """A call of an aggregate function over the rows of a group.

    Attributes:
        function: The name in the table of aggregate functions, or the wrapper that ``udaf``
            created.
        arguments: The arguments; empty for ``COUNT(*)``.
        is_distinct: Whether equal arguments count once.
        condition: The condition of FILTER; None for all rows.
        name: The name in the query, for messages.
        options: Parameters that are not values, such as the separator of LISTAGG.
    """

    function: Any
    arguments: tuple[Expression, ...]
    is_distinct: bool = False
    condition: Expression | None = None
    name: str = ""
    options: tuple[Any, ...] = ()

    @property
    def children(self) -> tuple[Expression, ...]:
        """The arguments, and the condition if there is one."""
        return self.arguments + (() if self.condition is None else (self.condition,))

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        """Return the call with other arguments."""
        number = len(self.arguments)
        condition = children[number] if len(children) > number else None
        return replace(self, arguments=children[:number], condition=condition)

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.arguments)) or "*"
        name = self.name or str(self.function)
        text = f"{name}({'DISTINCT ' if self.is_distinct else ''}{arguments})"
        return text if self.condition is None else f"{text} FILTER {self.condition}"


@dataclass(frozen=True)
class OrderItem:
    """One column of an order.

    Attributes:
        expression: The sort key.
        descending: Whether the order is descending.
        nulls_first: Whether NULLs precede other values.
    """

    expression: Expression
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        default = self.nulls_first == (not self.descending)
        nulls = "" if default else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"{self.expression} {'DESC' if self.descending else 'ASC'}{nulls}"


@dataclass(frozen=True)
class Frame:
    """The rows around the current one that an OVER aggregate covers.

    Attributes:
        is_rows: Whether bounds are numbers of rows; otherwise they are distances of the order
            column.
        preceding: The distance of the first row, before the current one; None for no bound.
        following: The distance of the last row, after the current one; None for no bound.
    """

    is_rows: bool = False
    preceding: Any = None
    following: Any = 0

    @property
    def has_current_row(self) -> bool:
        """True if the current row is among them."""
        return all(
            bound is None or bound >= 0 * bound for bound in (self.preceding, self.following)
        )

    def __str__(self) -> str:
        start = "UNBOUNDED" if self.preceding is None else self.preceding
        end = "UNBOUNDED" if self.following is None else self.following
        kind = "ROWS" if self.is_rows else "RANGE"
        return f"{kind} BETWEEN {start} PRECEDING AND {end} FOLLOWING"


@dataclass(frozen=True)
class OverCall(Expression):
    """A function over the rows around each row.

    Attributes:
        call: The aggregate or ranking function.
        partition: The partitioning expressions.
        order: The order of the rows.
        frame: The rows that it covers.
    """

    call: AggregateCall
    partition: tuple[Expression, ...] = ()
    order: tuple[OrderItem, ...] = ()
    frame: Frame = field(default_factory=Frame)

    @property
    def children(self) -> tuple[Expression, ...]:
        """The arguments of the function, the partition and the order."""
        return (self.call, *self.partition, *(item.expression for item in self.order))

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        """Return the call with other arguments, partition and order."""
        number = len(self.partition)
        call = children[0]
        assert isinstance(call, AggregateCall)
        order = zip(self.order, children[number + 1 :], strict=True)
        return replace(
            self,
            call=call,
            partition=children[1 : number + 1],
            order=tuple(replace(item, expression=child) for item, child in order),
        )

    def __str__(self) -> str:
        parts = []
        if self.partition:
            parts.append(f"PARTITION BY {', '.join(map(str, self.partition))}")
        if self.order:
            parts.append(f"ORDER BY {', '.join(map(str, self.order))}")
        parts.append(str(self.frame))
        return f"{self.call} OVER ({' '.join(parts)})"


@dataclass(frozen=True)
class Subquery(Expression):
    """A subquery as a value or a condition, before its conversion to a join.

    Attributes:
        kind: ``SCALAR``, ``EXISTS`` or ``IN``.
        plan: The node of the subquery; columns of the outer query are `OuterColumn`.
        arguments: The values on the left of IN.
        is_negated: Whether it is NOT EXISTS or NOT IN.
    """

    kind: str
    plan: Any
    arguments: tuple[Expression, ...] = ()
    is_negated: bool = False

    @property
    def children(self) -> tuple[Expression, ...]:
        """The values on the left of IN."""
        return self.arguments

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        """Return the subquery with other values on the left of IN."""
        return replace(self, arguments=children)

    def __str__(self) -> str:
        return f"{'NOT ' if self.is_negated else ''}{self.kind}(…)"


# Unresolved expressions ---------------------------------------------------------------------------


class Unresolved:
    """An expression with unresolved names; the Table API's ``col()`` creates one.

    Literals with a value of a declared type are `Literal` here too.
    """


@dataclass(frozen=True)
class UnresolvedColumn(Unresolved):
    """A column by its name; ``*`` represents all.

    Attributes:
        name: The name.
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class UnresolvedLiteral(Unresolved):
    """A Python value.

    Attributes:
        value: The value.
        type: Its logical type; None to infer it from the value.
    """

    value: Any
    type: DataType | None = None

    def __str__(self) -> str:
        return f"'{self.value}'" if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True)
class UnresolvedCall(Unresolved):
    """A call by name of a built-in function, operator or aggregate, or of a user function.

    Names are SQL's: ``+``, ``=``, ``<>``, ``AND``, ``NOT``, ``IS NULL``, ``LIKE``,
    ``UPPER``, ``SUM``, …

    Attributes:
        function: The name, or the wrapper of a user function.
        arguments: Unresolved or resolved expressions.
        is_distinct: Whether an aggregate is over distinct values.
        options: Parameters that are not values, such as the unit of EXTRACT.
    """

    function: Any
    arguments: tuple[Any, ...] = ()
    is_distinct: bool = False
    options: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class UnresolvedCast(Unresolved):
    """A conversion.

    Attributes:
        argument: The value.
        type: The logical type to convert to.
        is_try: Whether a value that cannot be converted becomes NULL.
    """

    argument: Any
    type: DataType
    is_try: bool = False

    def __str__(self) -> str:
        return f"CAST({self.argument} AS {self.type})"


@dataclass(frozen=True)
class UnresolvedOver(Unresolved):
    """An aggregate over the rows around each row.

    Attributes:
        call: The aggregate.
        partition: The partitioning expressions.
        order: Pairs of an expression and whether its order is descending.
        frame: The rows that it covers.
    """

    call: Any
    partition: tuple[Any, ...] = ()
    order: tuple[tuple[Any, bool], ...] = ()
    frame: Frame = field(default_factory=Frame)

    def __str__(self) -> str:
        return f"{self.call} OVER (…)"


@dataclass(frozen=True)
class UnresolvedAlias(Unresolved):
    """A name of the result; several names for the columns of a table function.

    Attributes:
        argument: The expression.
        names: The names.
    """

    argument: Any
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.argument} AS {', '.join(self.names)}"


# Walks --------------------------------------------------------------------------------------------


def transform(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the expression with ``change`` applied to every part, arguments before calls."""
    children = expression.children
    if children:
        changed = tuple(transform(child, change) for child in children)
        if any(new is not old for new, old in zip(changed, children, strict=True)):
            expression = expression.with_children(changed)
    return change(expression)


def walk(expression: Expression) -> list[Expression]:
    """Return the expression and all its subexpressions."""
    found = [expression]
    for child in expression.children:
        found.extend(walk(child))
    return found


def columns_of(expression: Expression) -> set[int]:
    """Return the positions of the columns that an expression reads."""
    return {part.index for part in walk(expression) if isinstance(part, Column)}


def moved(expression: Expression, positions: dict[int, int]) -> Expression:
    """Return the expression with its columns at other positions.

    Raises:
        KeyError: A column has no new position.
    """
    return transform(
        expression,
        lambda part: (
            replace(part, index=positions[part.index]) if isinstance(part, Column) else part
        ),
    )


def substituted(expression: Expression, values: tuple[Expression, ...]) -> Expression:
    """Return the expression with its columns replaced by the expressions at their positions."""
    return transform(
        expression, lambda part: values[part.index] if isinstance(part, Column) else part
    )


def shifted(expression: Expression, by: int) -> Expression:
    """Return the expression with all column positions increased by ``by``."""
    return transform(
        expression,
        lambda part: replace(part, index=part.index + by) if isinstance(part, Column) else part,
    )


def conjuncts(expression: Expression | None) -> list[Expression]:
    """Return the conditions that AND combines."""
    if expression is None:
        return []
    if isinstance(expression, Call) and expression.function == "AND":
        return [part for argument in expression.arguments for part in conjuncts(argument)]
    return [expression]

"""Expressions as data, before their types are known.

A node describes a computation; ``checking`` resolves its types, ``source`` creates a function from
it and ``compilation`` a program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation


@dataclass(frozen=True)
class Node:
    """A part of an expression."""


@dataclass(frozen=True)
class Argument(Node):
    """An argument of the function, counted from 0."""

    index: int

    def __str__(self) -> str:
        return "element" if self.index == 0 else f"argument({self.index})"


@dataclass(frozen=True)
class Field(Node):
    """A field of a tuple, row, list or dictionary.

    Attributes:
        container: The value that has the field.
        key: Its name or position, or the key of a dictionary.
        declared: The type that the program declares.
        position: For a row of known type, the position of the field in the type.
        record_class: For a record of known type, its class, whose attributes are the fields.
    """

    container: Node
    key: int | str
    declared: TypeInformation | None = None
    position: int | None = None
    record_class: type | None = None

    def __str__(self) -> str:
        declared = "" if self.declared is None else f", {self.declared}"
        taken = f"field({self.key!r}{declared})"
        return taken if self.container == Argument(0) else f"{self.container}.{taken}"


@dataclass(frozen=True)
class Literal(Node):
    """A constant, immutable value."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Binary(Node):
    """An operator of arithmetic or a comparison."""

    operator: str
    left: Node
    right: Node

    def __str__(self) -> str:
        return f"({self.left} {self.operator} {self.right})"


@dataclass(frozen=True)
class Negative(Node):
    """The negative of a number."""

    operand: Node

    def __str__(self) -> str:
        return f"-{self.operand}"


@dataclass(frozen=True)
class Logical(Node):
    """Conjunction (``and``) or disjunction (``or``); the second operand is evaluated if needed."""

    operator: str
    left: Node
    right: Node

    def __str__(self) -> str:
        return f"({self.left} {'&' if self.operator == 'and' else '|'} {self.right})"


@dataclass(frozen=True)
class Not(Node):
    """The negation of a condition."""

    operand: Node

    def __str__(self) -> str:
        return f"~{self.operand}"


@dataclass(frozen=True)
class IsNull(Node):
    """Test of a value for None."""

    operand: Node
    negated: bool

    def __str__(self) -> str:
        return f"{self.operand}.is_{'not_' if self.negated else ''}null()"


@dataclass(frozen=True)
class IsIn(Node):
    """Test of a value for membership in a list."""

    operand: Node
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.operand}.is_in({list(self.values)!r})"


@dataclass(frozen=True)
class When(Node):
    """The value of the first condition that holds, else another one."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node

    def __str__(self) -> str:
        parts = "".join(f"when({condition}).then({value})." for condition, value in self.branches)
        return f"{parts}otherwise({self.otherwise})"


@dataclass(frozen=True)
class Coalesce(Node):
    """The first value that is not None; None if all are."""

    items: tuple[Node, ...]

    def __str__(self) -> str:
        return f"coalesce({', '.join(map(str, self.items))})"


@dataclass(frozen=True)
class Gather(Node):
    """A tuple or list of values."""

    kind: str
    items: tuple[Node, ...]

    def __str__(self) -> str:
        return f"as_{self.kind}({', '.join(map(str, self.items))})"


@dataclass(frozen=True)
class MakeRow(Node):
    """A row of named values."""

    names: tuple[str, ...]
    items: tuple[Node, ...]

    def __str__(self) -> str:
        pairs = zip(self.names, self.items, strict=True)
        return f"as_row({', '.join(f'{name}={item}' for name, item in pairs)})"


@dataclass(frozen=True)
class Call(Node):
    """The result of a function.

    Attributes:
        function: The name of one of ``pure_functions.FUNCTIONS``.
        operands: The arguments.
    """

    function: str
    operands: tuple[Node, ...]

    def __str__(self) -> str:
        space, _, name = self.function.rpartition(".")
        first, *others = map(str, self.operands)
        if space:
            return f"{first}.{space}.{name}({', '.join(others)})"
        return f"{name}({', '.join([first, *others])})"

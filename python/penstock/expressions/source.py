"""Conversion of expressions to Python functions: their meaning, and the fallback of evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.types import Row
from penstock.expressions import nodes as n
from penstock.expressions.pure_functions import FUNCTIONS

if TYPE_CHECKING:
    from types import FunctionType

#: Literals whose source denotes the same value.
_PLAIN: Final = (int, str, bool, bytes, type(None))


def function_of(node: n.Node, arguments: int, location: tuple[str, int] | None) -> FunctionType:
    """Return a function that computes an expression.

    Args:
        node: The expression.
        arguments: The number of arguments of the function.
        location: File and line of the user's program at which tracebacks show the function; None
            for no place.
    """
    writer = _Writer()
    body = writer.written(node)
    file, line = location or (f"<{node}>", 1)
    parameters = ", ".join(f"x{i}" for i in range(arguments))
    above = "\n" * (line - 1)
    source = f"{above}def expression({parameters}): return {body}"
    exec(compile(source, file, "exec"), writer.scope)
    function: FunctionType = writer.scope["expression"]
    return function


class _Writer:
    """Writes the source of an expression.

    Attributes:
        scope: The names that the source refers to.
    """

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {
            "item": _item,
            "row_field": _row_field,
            "make_row": _make_row,
        }
        self._count = 0

    def written(self, node: n.Node) -> str:
        match node:
            case n.Argument():
                return f"x{node.index}"
            case n.Field() if node.position is not None:
                return f"row_field({self.written(node.container)}, {node.key!r}, {node.position})"
            case n.Field() if node.record_class is not None:
                return f"{self.written(node.container)}.{node.key}"
            case n.Field():
                return f"item({self.written(node.container)}, {node.key!r})"
            case n.Literal():
                plain = type(node.value) in _PLAIN
                return f"({node.value!r})" if plain else self._kept(node.value)
            case n.Binary():
                return f"({self.written(node.left)} {node.operator} {self.written(node.right)})"
            case n.Negative():
                return f"(-{self.written(node.operand)})"
            case n.Logical():
                both = f"{self.written(node.left)} {node.operator} {self.written(node.right)}"
                return f"(True if {both} else False)"
            case n.Not():
                return f"(not {self.written(node.operand)})"
            case n.IsNull():
                return f"({self._operand(node.operand)} is {'not ' if node.negated else ''}None)"
            case n.IsIn():
                return f"({self.written(node.operand)} in {self._kept(node.values)})"
            case n.When():
                branches = "".join(
                    f"{self.written(value)} if {self.written(condition)} else "
                    for condition, value in node.branches
                )
                return f"({branches}{self.written(node.otherwise)})"
            case n.Coalesce():
                return self._coalesced(node)
            case n.Gather():
                items = "".join(f"{self.written(item)}, " for item in node.items)
                return f"({items})" if node.kind == "tuple" else f"[{items}]"
            case n.MakeRow():
                items = "".join(f"{self.written(item)}, " for item in node.items)
                return f"make_row({self._kept(node.names)}, ({items}))"
            case n.Call():
                operands = ", ".join(map(self.written, node.operands))
                return f"{self._kept(FUNCTIONS[node.function].call)}({operands})"
        raise TypeError(f"{type(node).__name__} cannot be part of an expression")

    def _coalesced(self, node: n.Coalesce) -> str:
        *before, last = node.items
        parts = []
        for item in before:
            name = self._name("t")
            parts.append(f"{name} if ({name} := {self.written(item)}) is not None else ")
        return f"({''.join(parts)}{self.written(last)})"

    def _operand(self, node: n.Node) -> str:
        """Return the source of a part that must not be a literal, of which Python would warn."""
        return self._kept(node.value) if isinstance(node, n.Literal) else self.written(node)

    def _kept(self, value: Any) -> str:
        name = self._name("c")
        self.scope[name] = value
        return name

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"


def _item(value: Any, key: int | str) -> Any:
    """Return a field of a value without a declared type.

    Raises:
        TypeError: The value has no fields, or none with that name.
    """
    try:
        return value[key]
    except TypeError:
        if isinstance(key, str) and hasattr(value, key):
            return getattr(value, key)
        raise TypeError(f"field({key!r}): {value!r:.200} has no such field") from None


def _row_field(row: Any, name: str, position: int) -> Any:
    """Return a field of a declared row, which may lack names or be a plain tuple."""
    if isinstance(row, (tuple, list)):
        return row[position]
    if isinstance(row, Row) and "_fields" not in row.__dict__:
        return row[position]
    return row[name]


def _make_row(names: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    return Row(**dict(zip(names, values, strict=True)))

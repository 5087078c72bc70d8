"""Compilation of expressions to programs."""

from __future__ import annotations

from datetime import timezone
from enum import Enum
from typing import TYPE_CHECKING

from penstock.expressions import nodes as n
from penstock.expressions.program import LIMIT, NotComputedError
from penstock.expressions.pure_functions import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.expressions.program import ProgramBuilder


def compile_into(builder: ProgramBuilder, node: n.Node, arguments: Sequence[int]) -> int:
    """Add an expression to a program.

    Args:
        builder: The program so far.
        node: The checked expression.
        arguments: The registers of the arguments.

    Returns:
        The register of its value.

    Raises:
        NotComputedError: No program can express it.
    """
    return _Compiler(builder, arguments).compiled(node)


def _refuse_own_operators(*operands: n.Node) -> None:
    """Refuse constants whose operators may run Python code, which the machine does not run.

    Raises:
        NotComputedError: An operand is a member of an enum, or a time in a zone with rules.
    """
    for operand in operands:
        value = operand.value if isinstance(operand, n.Literal) else None
        zone = getattr(value, "tzinfo", None)
        if isinstance(value, Enum) or (zone is not None and type(zone) is not timezone):
            raise NotComputedError(f"compares with {value!r}, whose operators are Python code")


class _Compiler:
    def __init__(self, builder: ProgramBuilder, arguments: Sequence[int]) -> None:
        self._builder = builder
        self._arguments = arguments

    def compiled(self, node: n.Node) -> int:
        builder = self._builder
        match node:
            case n.Argument():
                return self._arguments[node.index]
            case n.Literal():
                return builder.constant(node.value)
            case n.Field():
                return self._field(node)
            case n.Binary():
                _refuse_own_operators(node.left, node.right)
                left, right = self.compiled(node.left), self.compiled(node.right)
                return builder.add(node.operator, left, right)
            case n.Negative():
                return builder.add("negate", self.compiled(node.operand))
            case n.Not():
                return builder.add("not", self.compiled(node.operand))
            case n.IsNull():
                operation = "is not" if node.negated else "is"
                return builder.add(operation, self.compiled(node.operand), builder.constant(None))
            case n.IsIn():
                _refuse_own_operators(*map(n.Literal, node.values))
                values = builder.constant(node.values)
                return builder.add("in", self.compiled(node.operand), values)
            case n.Logical():
                return self._logical(node)
            case n.When():
                return self._when(node)
            case n.Coalesce():
                return self._coalesced(node)
            case n.Gather():
                return builder.gather(node.kind, [self.compiled(item) for item in node.items])
            case n.Call():
                function = FUNCTIONS[node.function]
                called = builder.constant((function.call, function.classes))
                operands = [self.compiled(operand) for operand in node.operands]
                return builder.gather("call", operands, left=called)
        raise NotComputedError("makes a Row")

    def _field(self, node: n.Field) -> int:
        builder, container = self._builder, self.compiled(node.container)
        if node.record_class is not None:
            return builder.attribute(container, str(node.key), node.record_class)
        if node.position is not None:
            if node.position >= LIMIT:
                raise NotComputedError(f"takes field {node.position} of a row")
            name = builder.constant(node.key)
            return builder.add("row field", container, name, node.position)
        return builder.subscript(container, builder.constant(node.key))

    def _logical(self, node: n.Logical) -> int:
        builder, result, end = self._builder, self._builder.register(), self._builder.label()
        short = builder.label()
        # The value that decides alone: false for "and", true for "or".
        decides = node.operator == "or"
        jump = f"jump if {'true' if decides else 'false'}"
        builder.emit(jump, left=self.compiled(node.left), number=short)
        builder.emit(jump, left=self.compiled(node.right), number=short)
        builder.emit("move", target=result, left=builder.constant(not decides))
        builder.emit("jump", number=end)
        builder.place(short)
        builder.emit("move", target=result, left=builder.constant(decides))
        builder.place(end)
        return result

    def _when(self, node: n.When) -> int:
        builder, result, end = self._builder, self._builder.register(), self._builder.label()
        for condition, value in node.branches:
            following = builder.label()
            builder.emit("jump if false", left=self.compiled(condition), number=following)
            builder.emit("move", target=result, left=self.compiled(value))
            builder.emit("jump", number=end)
            builder.place(following)
        builder.emit("move", target=result, left=self.compiled(node.otherwise))
        builder.place(end)
        return result

    def _coalesced(self, node: n.Coalesce) -> int:
        builder, result, end = self._builder, self._builder.register(), self._builder.label()
        for item in node.items:
            builder.emit("move", target=result, left=self.compiled(item))
            builder.emit("jump if not none", left=result, number=end)
        builder.place(end)
        return result

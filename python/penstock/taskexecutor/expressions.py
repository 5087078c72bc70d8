"""Recognises functions that are one arithmetic expression of their parameter.

Such an expression can stand in the code of a composed function, which saves the call.  That is
exact for integers only: operators of builtin values have no side effects, so that an expression
that fails can be left to the function itself, which then fails with the user's line in its
traceback.  Whatever is not recognised is called as ever.
"""

from __future__ import annotations

import dis
import math
import sys
from types import FunctionType
from typing import Any, Final

#: What the operators below can raise for builtin values.
EXPRESSION_ERRORS: Final = (ArithmeticError, TypeError, ValueError, MemoryError)

_BINARY: Final = {
    "BINARY_OP": frozenset({"+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "**"}),
    "COMPARE_OP": frozenset({"<", "<=", "==", "!=", ">", ">="}),
}
_UNARY: Final = {"UNARY_NEGATIVE": "-", "UNARY_INVERT": "~", "UNARY_NOT": "not "}
_LONGEST = 32

#: *args, **kwargs, generator, coroutine, asynchronous generator.
_REFUSED_FLAGS = 0x04 | 0x08 | 0x20 | 0x80 | 0x200


def expression_of(function: Any) -> str | None:
    """The function's body as an expression of ``x``, or None if it is anything else."""
    if not isinstance(function, FunctionType) or function.__closure__ or function.__kwdefaults__:
        return None
    code = function.__code__
    if (
        code.co_argcount != 1
        or code.co_nlocals != 1
        or code.co_kwonlyargcount
        or code.co_names
        or code.co_flags & _REFUSED_FLAGS
        # A debugger or a coverage tool wants to see the call.
        or sys.gettrace() is not None
        or sys.getprofile() is not None
    ):
        return None
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("RESUME", "CACHE")]
    return None if len(instructions) > _LONGEST else _decompiled(instructions)


def _decompiled(instructions: list[dis.Instruction]) -> str | None:
    stack: list[str] = []
    for instruction in instructions:
        name = instruction.opname
        if name == "RETURN_VALUE":
            return stack.pop() if instruction is instructions[-1] and len(stack) == 1 else None
        if name == "LOAD_FAST":
            stack.append("x")
        elif name == "LOAD_CONST" and _is_literal(instruction.argval):
            stack.append(f"({instruction.argval!r})")
        elif instruction.argrepr in _BINARY.get(name, ()):
            right, left = stack.pop(), stack.pop()
            stack.append(f"({left} {instruction.argrepr} {right})")
        elif name in _UNARY:
            stack.append(f"({_UNARY[name]}{stack.pop()})")
        elif name == "BUILD_TUPLE" and 0 < (instruction.arg or 0) <= len(stack):
            fields = stack[-(instruction.arg or 0) :]
            del stack[-(instruction.arg or 0) :]
            stack.append(f"({', '.join(fields)},)")
        else:
            return None
    return None


def _is_literal(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (int, bool, str, bytes)

"""Instruction tables of each tested version of CPython.

A version is listed once the tests of the front end have passed on it.  On any other, nothing is
evaluated: byte code changes with every version, and is not a stable interface.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import dis
    from collections.abc import Mapping

#: By the argument of ``BINARY_OP``; from 13 on the same, in place: immutable values are changed by
#: assignment.
BINARY_OPERATORS: Final = (
    "+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^",
)  # fmt: skip

#: By the argument of ``COMPARE_OP``, shifted.
COMPARISON_OPERATORS: Final = ("<", "<=", "==", "!=", ">", ">=")


@dataclass(frozen=True)
class ByteCode:
    """Description of one version's byte code.

    Attributes:
        steps: By name of an instruction, its step, as ``bytecode`` knows it, and the step's kind.
        comparison_shift: Number of bits by which the operator of ``COMPARE_OP`` is shifted.
        procedure_steps: The further steps that only ``procedures`` knows.
    """

    steps: Mapping[str, tuple[str, str]]
    comparison_shift: int
    procedure_steps: Mapping[str, tuple[str, str]]


def _steps(what: str, names: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(names.split(), (what, ""))


#: Steps common to all versions below.
_COMMON: Final = {
    **_steps("ignore", "RESUME NOP CACHE COPY_FREE_VARS EXTENDED_ARG"),
    "LOAD_FAST": ("load local", ""),
    "STORE_FAST": ("store local", ""),
    "LOAD_CONST": ("load constant", ""),
    "LOAD_DEREF": ("load cell", ""),
    "LOAD_GLOBAL": ("load global", ""),
    "POP_TOP": ("pop", ""),
    "COPY": ("copy", ""),
    "SWAP": ("swap", ""),
    "UNPACK_SEQUENCE": ("unpack", ""),
    "UNARY_NEGATIVE": ("unary", "negate"),
    "UNARY_INVERT": ("unary", "invert"),
    "UNARY_NOT": ("unary", "not"),
    "BUILD_TUPLE": ("gather", "tuple"),
    "BUILD_LIST": ("gather", "list"),
    "BINARY_OP": ("binary", ""),
    "BINARY_SUBSCR": ("subscript", ""),
    "COMPARE_OP": ("compare", ""),
    "IS_OP": ("negatable", "is"),
    "CONTAINS_OP": ("negatable", "in"),
    "JUMP_FORWARD": ("jump", ""),
    "RETURN_VALUE": ("return", ""),
}

_311: Final = {
    **_COMMON,
    "LOAD_ATTR": ("attribute", ""),
    "POP_JUMP_FORWARD_IF_TRUE": ("jump if", "true"),
    "POP_JUMP_FORWARD_IF_FALSE": ("jump if", "false"),
    "POP_JUMP_FORWARD_IF_NONE": ("jump if", "none"),
    "POP_JUMP_FORWARD_IF_NOT_NONE": ("jump if", "not none"),
    "JUMP_IF_TRUE_OR_POP": ("jump or pop", "true"),
    "JUMP_IF_FALSE_OR_POP": ("jump or pop", "false"),
}

_312: Final = {
    **_COMMON,
    "LOAD_FAST_CHECK": ("load local", ""),
    "LOAD_ATTR": ("attribute", ""),
    "RETURN_CONST": ("return constant", ""),
    "POP_JUMP_IF_TRUE": ("jump if", "true"),
    "POP_JUMP_IF_FALSE": ("jump if", "false"),
    "POP_JUMP_IF_NONE": ("jump if", "none"),
    "POP_JUMP_IF_NOT_NONE": ("jump if", "not none"),
}

_313: Final = {
    **_312,
    "TO_BOOL": ("truth", ""),
    "LOAD_FAST_LOAD_FAST": ("load two locals", ""),
    "STORE_FAST_LOAD_FAST": ("store and load local", ""),
    "STORE_FAST_STORE_FAST": ("store two locals", ""),
}

_PROCEDURES: Final = {
    "RETURN_GENERATOR": ("generator", ""),
    "YIELD_VALUE": ("yield", ""),
    "CALL": ("call", ""),
}

_PROCEDURES_311: Final = {
    **_PROCEDURES,
    "LOAD_METHOD": ("load method", ""),
    "PRECALL": ("ignore", ""),
}

_PROCEDURES_312: Final = _PROCEDURES

TABLES: Final[Mapping[tuple[int, int], ByteCode]] = {
    (3, 11): ByteCode(_311, 0, _PROCEDURES_311),
    (3, 12): ByteCode(_312, 4, _PROCEDURES_312),
    (3, 13): ByteCode(_313, 5, _PROCEDURES_312),
}

#: By the prefix of other instructions, the reason why they prevent evaluation.
_REASONS: Final = (
    ("LOAD_ATTR", "takes an attribute"),
    ("LOAD_METHOD", "calls a method"),
    ("LOAD_SUPER", "calls a method"),
    ("PUSH_NULL", "calls a function"),
    ("PRECALL", "calls a function"),
    ("CALL", "calls a function"),
    ("KW_NAMES", "calls a function"),
    ("GET_ITER", "loops"),
    ("FOR_ITER", "loops"),
    ("JUMP_BACKWARD", "loops"),
    ("POP_JUMP_BACKWARD", "loops"),
    ("LOAD_FAST_AND_CLEAR", "loops"),
    ("FORMAT_", "formats a string"),
    ("CONVERT_VALUE", "formats a string"),
    ("BUILD_STRING", "formats a string"),
    ("BUILD_SLICE", "takes a slice"),
    ("BINARY_SLICE", "takes a slice"),
    ("BUILD_", "builds a container that is neither tuple nor list"),
    ("LIST_", "builds a list of other than single values"),
    ("MAKE_FUNCTION", "makes a function"),
    ("STORE_", "changes what is outside of it"),
    ("DELETE_", "deletes a name or an item"),
    ("RAISE_", "raises"),
    ("LOAD_ASSERTION_ERROR", "asserts"),
    ("IMPORT_", "imports"),
)


def table() -> ByteCode | None:
    """Return the description of this interpreter's byte code; None if it is unknown."""
    if sys.implementation.name != "cpython":
        return None
    return TABLES.get(sys.version_info[:2])


def interpreter() -> str:
    """Return the interpreter's name and version, for messages."""
    major, minor = sys.version_info[:2]
    name = "CPython" if sys.implementation.name == "cpython" else sys.implementation.name
    return f"{name} {major}.{minor}"


def is_method(instruction: dis.Instruction) -> bool:
    """Return whether an instruction loads a method that is called next."""
    if instruction.opname == "LOAD_METHOD":
        return True
    # From 3.12 on the lowest bit of the argument says so.
    is_flagged = sys.version_info >= (3, 12) and bool((instruction.arg or 0) & 1)
    return instruction.opname == "LOAD_ATTR" and is_flagged


def why_refused(instruction: dis.Instruction) -> str:
    """Return the reason why a function does more than computing."""
    name = instruction.opname
    reason = next((text for begin, text in _REASONS if name.startswith(begin)), f"uses {name}")
    positions = instruction.positions
    line = None if positions is None else positions.lineno
    return reason if line is None else f"{reason} in line {line}"

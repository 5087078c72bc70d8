"""Programs run in plain Python: the meaning of every operation, without optimisation."""

import operator

from penstock.common.types import Row

BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    ">": operator.gt, ">=": operator.ge, "is": operator.is_, "is not": operator.is_not,
    "in": lambda one, other: one in other, "not in": lambda one, other: one not in other,
    "subscript": operator.getitem,
}  # fmt: skip
UNARY = {"negate": operator.neg, "invert": operator.invert, "not": operator.not_}
GATHERING = {"tuple": tuple, "list": list}
JUMPS = {
    "jump": lambda value: True,
    "jump if true": bool,
    "jump if false": operator.not_,
    "jump if none": lambda value: value is None,
    "jump if not none": lambda value: value is not None,
}

#: The result of a program for a value that one of its filters drops.
DROPPED = object()


class GivenUpError(Exception):
    """The program gives up; the function would be called instead."""


def run(program, *arguments):
    """Return the result of a program, `DROPPED`, or the error of one of its operators."""
    if len(arguments) != program.parameters:
        raise GivenUpError
    registers = dict(program.constants) | dict(enumerate(arguments))
    place = 0
    while True:
        operation, target, left, right, number = program.instructions[place]
        place += 1
        if operation == "return":
            return registers[left]
        if operation in JUMPS:
            if JUMPS[operation](registers.get(left)):
                place = number
        elif operation == "drop if false":
            if not registers[left]:
                return DROPPED
        elif operation == "unpack":
            if type(registers[left]) not in (tuple, Row) or len(registers[left]) != number:
                raise GivenUpError
        else:
            registers[target] = _value(program, registers, operation, left, right, number)


def _value(program, registers, operation, left, right, number):
    if operation in BINARY:
        return BINARY[operation](registers[left], registers[right])
    if operation in UNARY:
        return UNARY[operation](registers[left])
    if operation in GATHERING:
        operands = program.lists[right : right + number]
        return GATHERING[operation](registers[operand] for operand in operands)
    if operation == "call":
        function, _ = registers[left]
        return function(*(registers[operand] for operand in program.lists[right : right + number]))
    if operation == "row field":
        row = registers[left]
        return row[registers[right] if hasattr(row, "_fields") else number]
    if operation == "named field":
        row = registers[left]
        if type(row) is not Row or not hasattr(row, "_fields"):
            raise GivenUpError
        return row[registers[right]]
    if operation == "move":
        return registers[left]
    if operation == "field":
        return registers[left][number]
    if operation == "cell":
        try:
            return registers[left].cell_contents
        except ValueError:
            raise GivenUpError from None
    assert operation == "global", operation
    try:
        return registers[right][registers[left]]
    except KeyError:
        raise GivenUpError from None

"""Programs: computations of functions for a register machine.

A front end creates a program from byte code (``bytecode``) or from written expressions, and an
evaluator runs it; the native one is ``native/…/evaluator.h``.  ``docs/formats/program.md``
describes the form and every operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, Final

#: Most registers, instructions and list operands that the machine has room for; its
#: ``PS_MAX_REGISTERS``.
LIMIT: Final = 96

#: Most operands of a call; the machine's ``PS_MAX_OPERANDS``.
MAX_OPERANDS: Final = 8

#: Binary operators, by their names in Python.
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "**"})
COMPARISONS: Final = frozenset({"<", "<=", "==", "!=", ">", ">="})
_BINARY: Final = ARITHMETIC | COMPARISONS | {"is", "is not", "in", "not in", "subscript"}
_UNARY: Final = frozenset({"move", "cell", "field", "negate", "invert", "not"})
_GATHERING: Final = frozenset({"tuple", "list", "call"})
_JUMPS: Final = frozenset(
    {"jump", "jump if true", "jump if false", "jump if none", "jump if not none"}
)

#: Operations that read fields of a tuple or a row.
_FIELD_READERS: Final = frozenset({"field", "row field", "named field", "unpack"})

#: All operations.
OPERATIONS: Final = (
    _BINARY
    | _UNARY
    | _GATHERING
    | _JUMPS
    | {"global", "row field", "named field", "unpack", "drop if false", "return"}
)

#: Operation; target, left and right register, the right one being a place in ``lists`` for tuples,
#: lists and calls; number.
Instruction = tuple[str, int, int, int, int]

#: A function with the code, and the defaults if used, that a program was created from.
Origin = tuple[FunctionType, CodeType, tuple[Any, ...] | None]


@dataclass(frozen=True)
class Program:
    """Computation of a function.

    Attributes:
        parameters: The number of arguments, which are the first registers.
        instructions: The instructions in order; jumps lead forward.
        lists: The registers of the items of tuples and lists, and of the arguments of calls.
        constants: By register: literals and defaults; names, cells and dicts of the function's
            surroundings.
        origins: The functions that it was created from: it is invalid once one of them has other
            code or other defaults.
    """

    parameters: int
    instructions: tuple[Instruction, ...]
    lists: tuple[int, ...]
    constants: dict[int, Any]
    origins: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        """Check the program, so that an evaluator can run it unchecked.

        Raises:
            ValueError: An instruction is unknown, leads back or out of the program, or reads an
                unset register.
        """
        if max(self.parameters, len(self.instructions), len(self.lists)) > LIMIT:
            raise ValueError(f"a program has room for {LIMIT} instructions and operands")
        if len(self.origins) > LIMIT:
            raise ValueError(f"a program is made of {LIMIT} functions at most")
        if any(not 0 <= register < LIMIT for register in (*self.lists, *self.constants)):
            raise ValueError(f"a constant or an operand is in no register of 0 to {LIMIT - 1}")
        if not self.instructions or self.instructions[-1][0] != "return":
            raise ValueError("a program ends with a return")
        _check_flow(self)

    @property
    def takes_only_fields(self) -> bool:
        """True if the first argument is only read by ``field``."""
        return self._reads_first_by(frozenset({"field"}))

    @property
    def keeps_only_fields(self) -> bool:
        """True if results contain at most fields of the first argument, never the argument."""
        return self._reads_first_by(_FIELD_READERS)

    def _reads_first_by(self, operations: frozenset[str]) -> bool:
        return all(
            instruction[0] in operations or 0 not in _used(self, place)
            for place, instruction in enumerate(self.instructions)
        )


def _check_flow(program: Program) -> None:
    #: By instruction: the registers that are set on every path to it, as bits.
    set_before: dict[int, int] = {0: sum(1 << register for register in _first_registers(program))}
    for place, instruction in enumerate(program.instructions):
        known = set_before.get(place)
        if known is None:
            continue  # unreachable
        operation, target, _, _, number = instruction
        for register in _used(program, place):
            if not 0 <= register < LIMIT or not known >> register & 1:
                raise ValueError(f"instruction {place}, {operation!r}, uses an empty register")
        if operation in _JUMPS:
            if not place < number < len(program.instructions):
                raise ValueError(f"instruction {place} jumps to {number}")
            set_before[number] = set_before.get(number, known) & known
        elif operation not in ("return", "drop if false", "unpack"):
            if not 0 <= target < LIMIT:
                raise ValueError(f"instruction {place} has no target {target}")
            known |= 1 << target
        if operation not in ("jump", "return"):
            set_before[place + 1] = set_before.get(place + 1, known) & known


def _first_registers(program: Program) -> set[int]:
    return {*range(program.parameters), *program.constants}


def _used(program: Program, place: int) -> tuple[int, ...]:
    """Return the registers that an instruction reads."""
    operation, _, left, right, number = program.instructions[place]
    if operation not in OPERATIONS:
        raise ValueError(f"instruction {place} is not an operation: {operation!r}")
    if operation in _GATHERING:
        if number < 0 or not 0 <= right <= right + number <= len(program.lists):
            raise ValueError(f"instruction {place} uses operands that do not exist")
        if operation == "call":
            _check_call(program, place)
        return program.lists[right : right + number]
    if operation in ("field", "row field", "unpack") and not 0 <= number < LIMIT:
        raise ValueError(f"instruction {place} takes field {number}")
    if operation in ("cell", "global", "row field", "named field"):
        is_field = operation.endswith("field")
        looked_up = (right,) if is_field else (left,) if operation == "cell" else (left, right)
        if any(register not in program.constants for register in looked_up):
            raise ValueError(f"instruction {place} looks up a value that is not a constant")
        return (left,) if is_field else looked_up
    if operation == "jump":
        return ()
    return (left, right) if operation in _BINARY else (left,)


def _check_call(program: Program, place: int) -> None:
    _, _, left, _, number = program.instructions[place]
    match program.constants.get(left):
        case (function, tuple() as classes) if callable(function):
            if not all(isinstance(found, type) for found in classes):
                raise ValueError(
                    f"instruction {place} has operand classes that are not classes: {classes}"
                )
        case other:
            raise ValueError(f"instruction {place} calls a value that is not a function: {other!r}")
    if not 1 <= number <= MAX_OPERANDS:
        raise ValueError(
            f"instruction {place} calls with {number} operands, not 1 to {MAX_OPERANDS}"
        )


class NotComputedError(Exception):
    """A function does more than compute, or cannot be called; the text says why."""


class ProgramBuilder:
    """A program under construction.  Jumps lead to labels until it is complete."""

    def __init__(self) -> None:
        """Start without instructions."""
        self._registers = 0
        self._instructions: list[Instruction] = []
        self._labels: list[int] = []
        self._lists: list[int] = []
        self._constants: dict[int, Any] = {}
        self._origins: list[Origin] = []
        self._types: dict[int, Any] = {}

    def rely_on(self, function: FunctionType, *, defaults: bool) -> None:
        """Note that the program depends on a function's code, and possibly its defaults."""
        kept = function.__defaults__ if defaults else None
        self._origins.append((function, function.__code__, kept))

    def register(self) -> int:
        """Return a new register."""
        self._registers += 1
        return self._registers - 1

    def constant(self, value: Any) -> int:
        """Return the register of a constant."""
        register = self.register()
        self._constants[register] = value
        return register

    def constant_in(self, register: int) -> Any:
        """Return the initial value of a register, None if there is none."""
        return self._constants.get(register)

    def declare(self, register: int, type_info: Any) -> None:
        """Note the declared type of a register; None if it is unknown."""
        self._types[register] = type_info

    def type_of(self, register: int) -> Any:
        """Return the declared type of a register; None if it is unknown."""
        return self._types.get(register)

    def label(self) -> int:
        """Return a label, to be placed later."""
        self._labels.append(-1)
        return len(self._labels) - 1

    def place(self, label: int) -> None:
        """Place a label before the next instruction."""
        self._labels[label] = len(self._instructions)

    def emit(
        self, operation: str, *, target: int = 0, left: int = 0, right: int = 0, number: int = 0
    ) -> None:
        """Add an instruction; the number of a jump is a label."""
        self._instructions.append((operation, target, left, right, number))

    def add(self, operation: str, left: int = 0, right: int = 0, number: int = 0) -> int:
        """Add an instruction with a new target, and return the target."""
        target = self.register()
        self.emit(operation, target=target, left=left, right=right, number=number)
        return target

    def gather(self, operation: str, registers: list[int], left: int = 0) -> int:
        """Add an instruction that builds one value from several; return its target."""
        begin = len(self._lists)
        self._lists += registers
        return self.add(operation, left, begin, len(registers))

    def subscript(self, container: int, index: int) -> int:
        """Add the subscript of one register by another; return its target."""
        position = self.constant_in(index)
        if type(position) is int and 0 <= position < LIMIT:
            return self.add("field", container, number=position)
        return self.add("subscript", container, index)

    def attribute(self, container: int, name: str, record_class: type) -> int:
        """Add the attribute of a register of exactly that class; return its target."""
        getter = self.constant((attrgetter(name), (record_class,)))
        return self.gather("call", [container], left=getter)

    def program(self, parameters: int) -> Program | None:
        """Return the program; None if it is too long."""
        if max(self._registers, len(self._instructions), len(self._lists)) > LIMIT:
            return None
        instructions = [
            (name, target, left, right, self._labels[number] if name in _JUMPS else number)
            for name, target, left, right, number in self._instructions
        ]
        lists, origins = tuple(self._lists), tuple(self._origins)
        return Program(parameters, tuple(instructions), lists, self._constants, origins)

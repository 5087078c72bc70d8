"""Recognises functions that only compute, so that they need not be called.

Many functions of a streaming program take a field, do arithmetic, compare, build a tuple.  Their
byte code becomes a ``Program``, which the native runtime evaluates without the interpreter
(``evaluator.h``): the operators of builtin values have no side effects, so that an evaluation
that meets anything else is given up and the function itself is called, which then also fails
with the user's line in its traceback.  Whatever is not recognised is called as ever.
"""

from __future__ import annotations

import dis
import sys
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from penstock.network import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The operators of two values, as ``BINARY_OP`` shows them; ``x += y`` is ``x = x + y`` for values
#: that cannot change.
_BINARY: Final = frozenset({"+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "**"})
_COMPARISONS: Final = frozenset({"<", "<=", "==", "!=", ">", ">="})
_NEGATABLE: Final = {"IS_OP": ("is", "is not"), "CONTAINS_OP": ("in", "not in")}
_UNARY: Final = {"UNARY_NEGATIVE": "negate", "UNARY_INVERT": "invert", "UNARY_NOT": "not"}
_GATHERING: Final = {"BUILD_TUPLE": "tuple", "BUILD_LIST": "list"}
#: Conditional jumps: the operation, and whether the value stays on the stack if it jumps.
_JUMPS: Final = {
    f"{prefix}{condition}{suffix}": (f"jump if {condition.lower().replace('_', ' ')}", keeps)
    for prefix, suffix, conditions, keeps in (
        ("POP_JUMP_FORWARD_IF_", "", ("TRUE", "FALSE", "NONE", "NOT_NONE"), False),
        ("POP_JUMP_IF_", "", ("TRUE", "FALSE", "NONE", "NOT_NONE"), False),
        ("JUMP_IF_", "_OR_POP", ("TRUE", "FALSE"), True),
    )
    for condition in conditions
}
_IGNORED: Final = frozenset({"RESUME", "CACHE", "NOP", "COPY_FREE_VARS", "TO_BOOL"})

#: The most registers, instructions and operands of lists that the machine has room for; its
#: ``PS_MAX_REGISTERS``.
LIMIT: Final = 96

#: *args, **kwargs, generator, coroutine, asynchronous generator.
_REFUSED_FLAGS: Final = 0x04 | 0x08 | 0x20 | 0x80 | 0x200


_Instruction = tuple[str, int, int, int, int]
_Origin = tuple[FunctionType, CodeType, tuple[Any, ...] | None]


@dataclass(frozen=True)
class Program:
    """What a function computes, for a machine with registers.

    Attributes:
        parameters: How many arguments it is given: the first registers.
        instructions: Operation; target, left and right register, the right one being a place in
            ``lists`` for tuples and lists; number.  ``evaluator.h`` describes them.
        lists: The registers that make up tuples and lists.
        constants: By register: literals and defaults; names, cells and dicts of the function's
            surroundings.
        origins: Each function with the code, and the defaults if they are used, that the program
            was made of: it is worth nothing once the function has others.
    """

    parameters: int
    instructions: tuple[_Instruction, ...]
    lists: tuple[int, ...]
    constants: dict[int, Any]
    origins: tuple[_Origin, ...]


def without_call(function: Callable[..., Any], arguments: int) -> Callable[..., Any]:
    """What does the same as ``function`` by the fastest way.

    Args:
        function: Any callable.
        arguments: With how many positional arguments it is called; others are possible, but slow.
    """
    program = program_of(function, arguments)
    if program is None:
        return function
    from penstock._native.expression import Expression

    return Expression(function, program).callable()


def program_of(function: Any, arguments: int) -> Program | None:
    """What a function or bound method computes of so many positional arguments.

    Returns:
        None if it does more, cannot be called so, or nobody can evaluate it.
    """
    return program_of_stages([(function, False)], arguments)


def program_of_stages(stages: Sequence[tuple[Any, bool]], arguments: int = 1) -> Program | None:
    """What functions compute one after the other.

    Args:
        stages: Each function, and whether it is a filter: it then passes on what it is given, or
            drops it.
        arguments: How many the first is given; those behind it are given one.
    """
    if runtime() != "native":
        return None
    body = _Body()
    try:
        values = [body.register() for _ in range(arguments)]
        for function, is_filter in stages:
            result = _Translation(body, _plain(function), values).result()
            if is_filter:
                body.emit("drop if false", left=result)
            else:
                values = [result]
        body.emit("return", left=values[0])
    except _NotAnExpressionError:
        return None
    return body.program(arguments)


@dataclass(frozen=True)
class _PlainFunction:
    """A function of positional arguments, of which the first may be bound."""

    function: FunctionType
    bound: int

    def defaults(self, arguments: int) -> tuple[Any, ...]:
        """The values of the parameters for which so many arguments are too few."""
        defaults = self.function.__defaults__ or ()
        missing = self.function.__code__.co_argcount - self.bound - arguments
        if not 0 <= missing <= len(defaults):
            raise _NotAnExpressionError
        return defaults[len(defaults) - missing :]


def _plain(function: Any) -> _PlainFunction:
    bound = isinstance(function, MethodType)
    plain = function.__func__ if bound else function
    if not isinstance(plain, FunctionType) or plain.__kwdefaults__:
        raise _NotAnExpressionError
    code = plain.__code__
    if (
        code.co_kwonlyargcount
        or code.co_cellvars
        or code.co_exceptiontable
        or code.co_argcount < bound
        or code.co_flags & _REFUSED_FLAGS
        or type(plain.__globals__) is not dict
        or _is_watched()
    ):
        raise _NotAnExpressionError
    return _PlainFunction(plain, int(bound))


def _is_watched() -> bool:
    """Whether calls or operators are to be noticed: by a debugger, by a warning about bytes."""
    if sys.flags.bytes_warning or sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)  # of Python 3.12 and later
    return monitoring is not None and any(monitoring.get_tool(i) is not None for i in range(6))


class _NotAnExpressionError(Exception):
    """The function does more than compute."""


class _Body:
    """A program that grows.  Jumps lead to labels until it is done."""

    def __init__(self) -> None:
        self._registers = 0
        self._instructions: list[_Instruction] = []
        self._labels: list[int] = []
        self._lists: list[int] = []
        self._constants: dict[int, Any] = {}
        self._origins: list[_Origin] = []

    def rely_on(self, function: FunctionType, *, defaults: bool) -> None:
        """Notes that the program holds for the code of a function, and for its defaults."""
        kept = function.__defaults__ if defaults else None
        self._origins.append((function, function.__code__, kept))

    def register(self) -> int:
        """A new register."""
        self._registers += 1
        return self._registers - 1

    def constant(self, value: Any) -> int:
        """The register of a constant."""
        register = self.register()
        self._constants[register] = value
        return register

    def constant_in(self, register: int) -> Any:
        """What a register holds from the beginning, None if nothing."""
        return self._constants.get(register)

    def label(self) -> int:
        """A label, to be placed later."""
        self._labels.append(-1)
        return len(self._labels) - 1

    def place(self, label: int) -> None:
        """Makes a label that of the next instruction."""
        self._labels[label] = len(self._instructions)

    def emit(
        self, operation: str, *, target: int = 0, left: int = 0, right: int = 0, number: int = 0
    ) -> None:
        """Adds an instruction; the number of a jump is a label."""
        self._instructions.append((operation, target, left, right, number))

    def add(self, operation: str, left: int = 0, right: int = 0, number: int = 0) -> int:
        """Adds an instruction with a target of its own, which is returned."""
        target = self.register()
        self.emit(operation, target=target, left=left, right=right, number=number)
        return target

    def gather(self, operation: str, registers: list[int]) -> int:
        """Adds an instruction that makes one value of many; returns its target."""
        begin = len(self._lists)
        self._lists += registers
        return self.add(operation, right=begin, number=len(registers))

    def program(self, parameters: int) -> Program | None:
        """The program, unless it is too long."""
        if max(self._registers, len(self._instructions), len(self._lists)) > LIMIT:
            return None
        instructions = [
            (name, target, left, right, self._labels[number] if name[:4] == "jump" else number)
            for name, target, left, right, number in self._instructions
        ]
        lists, origins = tuple(self._lists), tuple(self._origins)
        return Program(parameters, tuple(instructions), lists, self._constants, origins)


@dataclass
class _State:
    """Where values are at one point of the code.

    Attributes:
        stack: The registers of the values on Python's stack.
        locals: The register of each local variable, None before it is set.
        label: The point, if jumps lead to it.
    """

    stack: list[int]
    locals: list[int | None]
    label: int = -1


class _Translation:
    """Adds a function to a program: follows Python's stack with the names of registers."""

    def __init__(self, body: _Body, plain: _PlainFunction, arguments: list[int]) -> None:
        """Prepares for byte code; what is bound to a method's first parameter must go unused."""
        defaults = plain.defaults(len(arguments))
        arguments = arguments + [body.constant(value) for value in defaults]
        body.rely_on(plain.function, defaults=bool(defaults))
        self._body = body
        self._function = plain.function
        self._code = plain.function.__code__
        unset = self._code.co_nlocals - self._code.co_argcount
        # None behind a return or an unconditional jump.
        self._state: _State | None = _State(
            [], [*[None] * plain.bound, *arguments, *[None] * unset]
        )
        # By the offset that jumps lead to: where values are on arrival.
        self._arrivals: dict[int, _State] = {}

    def result(self) -> int:
        """Adds the function's code; returns the register of its result."""
        body = self._body
        end, result = body.label(), body.register()
        has_returned = False
        instructions = list(dis.get_instructions(self._code))
        for found in instructions:
            if found.offset in self._arrivals:
                if self._state is not None:
                    self._arrive(self._state, found.offset)
                self._state = self._arrivals.pop(found.offset)
                body.place(self._state.label)
            if self._state is None or found.opname in _IGNORED:
                continue
            if found.opname not in ("RETURN_VALUE", "RETURN_CONST"):
                self._translate(found, self._state)
                continue
            is_value = found.opname == "RETURN_VALUE"
            value = self._state.stack.pop() if is_value else body.constant(found.argval)
            self._state = None
            if found is instructions[-1] and not self._arrivals and not has_returned:
                return value
            has_returned = True
            body.emit("move", target=result, left=value)
            body.emit("jump", number=end)
        if self._arrivals:
            raise _NotAnExpressionError
        body.place(end)
        return result

    def _translate(self, found: dis.Instruction, state: _State) -> None:
        body, stack = self._body, state.stack
        name, argument = found.opname, found.arg or 0
        if name in ("LOAD_FAST", "LOAD_FAST_CHECK"):
            register = state.locals[argument]
            if register is None:
                raise _NotAnExpressionError
            stack.append(register)
        elif name == "STORE_FAST":
            state.locals[argument] = stack.pop()
        elif name == "LOAD_CONST":
            stack.append(body.constant(found.argval))
        elif name == "LOAD_DEREF":
            stack.append(body.add("cell", body.constant(self._cell(found.argval))))
        elif name == "LOAD_GLOBAL" and not found.argrepr.startswith("NULL"):
            variables = body.constant(self._function.__globals__)
            stack.append(body.add("global", body.constant(found.argval), variables))
        elif name == "POP_TOP":
            stack.pop()
        elif name == "COPY":
            stack.append(stack[-argument])
        elif name == "SWAP":
            stack[-1], stack[-argument] = stack[-argument], stack[-1]
        elif name == "UNPACK_SEQUENCE" and argument < LIMIT:
            fields = stack.pop()
            body.emit("unpack", left=fields, number=argument)
            stack += [body.add("field", fields, number=i) for i in reversed(range(argument))]
        elif name in _UNARY:
            stack.append(body.add(_UNARY[name], stack.pop()))
        elif name in _GATHERING:
            begin = len(stack) - argument
            gathered = body.gather(_GATHERING[name], stack[begin:])
            stack[begin:] = [gathered]
        elif name == "JUMP_FORWARD":
            body.emit("jump", number=self._arrive(state, found.argval))
            self._state = None
        elif name in _JUMPS:
            operation, keeps = _JUMPS[name]
            value = stack[-1] if keeps else stack.pop()
            body.emit(operation, left=value, number=self._arrive(state, found.argval))
            if keeps:
                stack.pop()
        else:
            operation = self._binary_operation(found)
            right, left = stack.pop(), stack.pop()
            index = body.constant_in(right)
            if operation == "subscript" and type(index) is int and 0 <= index < LIMIT:
                stack.append(body.add("field", left, number=index))
            else:
                stack.append(body.add(operation, left, right))

    def _binary_operation(self, found: dis.Instruction) -> str:
        name, operator = found.opname, found.argrepr
        if name == "BINARY_SUBSCR":
            return "subscript"
        if name == "BINARY_OP" and operator.removesuffix("=") in _BINARY:
            return operator.removesuffix("=")
        if name == "COMPARE_OP" and operator in _COMPARISONS:
            return operator
        if name in _NEGATABLE:
            return _NEGATABLE[name][found.arg or 0]
        raise _NotAnExpressionError

    def _cell(self, name: str) -> Any:
        free = self._code.co_freevars
        if name not in free or self._function.__closure__ is None:
            raise _NotAnExpressionError
        return self._function.__closure__[free.index(name)]

    def _arrive(self, state: _State, offset: int) -> int:
        """Moves values to where they are to be at ``offset``, alike for all who come there.

        Returns:
            The label of the offset.
        """
        body = self._body
        known = self._arrivals.get(offset)
        if known is None:
            places = [None if local is None else body.register() for local in state.locals]
            known = _State([body.register() for _ in state.stack], places, body.label())
            self._arrivals[offset] = known
        for source, target in zip(state.stack, known.stack, strict=True):
            body.emit("move", target=target, left=source)
        for i, local in enumerate(state.locals):
            place = known.locals[i]
            if local is None:
                known.locals[i] = None
            elif place is not None:
                body.emit("move", target=place, left=local)
        return known.label

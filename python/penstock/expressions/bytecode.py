"""The byte-code front end: compiles functions that only compute to programs.

Many functions of a streaming program read a field, do arithmetic, compare, build a tuple.  Their
byte code becomes a program: the operators of builtin values have no side effects, so if an
evaluation meets any other value, it is abandoned and the function itself is called, which then also
fails with the user's line in its traceback.  Functions that are not recognised are called as usual.
"""

from __future__ import annotations

import dis
import logging
import sys
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from penstock.common.typeinfo import RecordTypeInfo, RowTypeInfo, TupleTypeInfo
from penstock.common.types import Row
from penstock.expressions.bytecode_tables import (
    BINARY_OPERATORS,
    COMPARISON_OPERATORS,
    interpreter,
    is_method,
    table,
    why_refused,
)
from penstock.expressions.program import ARITHMETIC, LIMIT, NotComputedError, ProgramBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.expressions.bytecode_tables import ByteCode

    #: The declared types of arguments, from the first one on; None for an unknown one.
    Types = tuple[object | None, ...]

logger = logging.getLogger(__name__)

#: Steps that only refer to the value of a local variable.
_OF_LOCALS: Final = frozenset(
    {
        "load local", "store local",
        "load two locals", "store two locals", "store and load local",
    }
)  # fmt: skip

#: The attributes of a row that are not its fields, whatever its field names.
_OWN_ATTRIBUTES: Final = frozenset(dir(Row))

#: Flags of code.
GENERATOR: Final = 0x20
_VARARGS: Final = 0x04 | 0x08
_GENERATORS: Final = GENERATOR | 0x80 | 0x200


def translate(builder: ProgramBuilder, function: Any, arguments: Sequence[int]) -> int:
    """Add the computation of a function to a program.

    Args:
        builder: The program so far.
        function: A function or bound method.
        arguments: The registers of its positional arguments.

    Returns:
        The register of its result.

    Raises:
        NotComputedError: The function does not only compute.
    """
    return Translation(builder, known_table(), plain_function(function), list(arguments)).result()


def known_table() -> ByteCode:
    """Return the description of this interpreter's byte code.

    Raises:
        NotComputedError: The byte code is unknown.
    """
    byte_code = table()
    if byte_code is None:
        _log_unknown_version()
        raise NotComputedError(f"is made of the byte code of {interpreter()}, which is not known")
    return byte_code


@cache
def _log_unknown_version() -> None:
    logger.warning(
        "Functions are called for each record and not evaluated: the byte code of %s is not known",
        interpreter(),
    )


@dataclass(frozen=True)
class PlainFunction:
    """A function of positional arguments; the first may be bound."""

    function: FunctionType
    bound: int

    def defaults(self, arguments: int) -> tuple[Any, ...]:
        """Return the defaults of the parameters beyond the first ``arguments`` positional ones."""
        defaults = self.function.__defaults__ or ()
        missing = self.function.__code__.co_argcount - self.bound - arguments
        if not 0 <= missing <= len(defaults):
            raise NotComputedError(f"cannot be called with {arguments} positional arguments")
        return defaults[len(defaults) - missing :]


def plain_function(function: Any, *, may_yield: bool = False) -> PlainFunction:
    """Return the parts of a function or bound method that can be inspected.

    Args:
        function: The callable.
        may_yield: Whether it may be a generator.

    Raises:
        NotComputedError: It cannot be inspected.
    """
    bound = isinstance(function, MethodType)
    found = function.__func__ if bound else function
    if not isinstance(found, FunctionType):
        raise NotComputedError(f"is not a Python function but a {type(found).__name__}")
    code = found.__code__
    refused = _GENERATORS & ~GENERATOR if may_yield else _GENERATORS
    for is_so, reason in (
        (code.co_flags & refused, "is a generator or a coroutine"),
        (code.co_flags & _VARARGS, "takes any number of arguments"),
        (code.co_kwonlyargcount, "has parameters that only keywords set"),
        (code.co_cellvars, "has variables that other functions use"),
        (_handles_exceptions(code), "handles exceptions"),
        (code.co_argcount < bound, "takes no arguments"),
        (type(found.__globals__) is not dict, "has globals that are not a plain dict"),
        (_is_watched(), "is watched by a debugger or a profiler"),
    ):
        if is_so:
            raise NotComputedError(reason)
    return PlainFunction(found, int(bound))


def _handles_exceptions(code: CodeType) -> bool:
    if not code.co_exceptiontable:
        return False
    # From 3.12 on every generator has a handler that converts StopIteration.
    is_own = any(found.opname == "PUSH_EXC_INFO" for found in dis.get_instructions(code))
    return is_own or not code.co_flags & GENERATOR


def _is_watched() -> bool:
    """Return whether a debugger, a coverage tool or a profiler observes calls."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)  # of Python 3.12 and later
    return monitoring is not None and any(monitoring.get_tool(i) is not None for i in range(6))


@dataclass
class State:
    """Locations of values at one point of the code.

    Attributes:
        stack: The registers of the values on Python's stack.
        locals: The register of each local variable; None before it is set.
        label: The point, if jumps lead to it.
        actions: The effects of a procedure on the way to the point: kinds and registers.

    A negative number is not a register but stands for an argument of a procedure; it never moves.
    """

    stack: list[int]
    locals: list[int | None]
    label: int = -1
    actions: tuple[tuple[str, int], ...] = ()


class Translation:
    """Adds a function to a program, tracking Python's stack in names of registers."""

    def __init__(
        self,
        body: ProgramBuilder,
        byte_code: ByteCode,
        plain: PlainFunction,
        arguments: list[int],
    ) -> None:
        """Create a translation; the value bound to a method's first parameter must be unused."""
        defaults = plain.defaults(len(arguments))
        arguments = arguments + [body.constant(value) for value in defaults]
        body.rely_on(plain.function, defaults=bool(defaults))
        self._body = body
        self._byte_code = byte_code
        self._steps = byte_code.steps
        self._has_returned = False
        self._function = plain.function
        self._code = plain.function.__code__
        self._bound = plain.bound
        self._instructions = list(dis.get_instructions(self._code))
        unset = self._code.co_nlocals - self._code.co_argcount
        # None after a return or an unconditional jump.
        self._state: State | None = State([], [*[None] * plain.bound, *arguments, *[None] * unset])
        # By the offset of a jump's target, the locations of values on arrival.
        self._arrivals: dict[int, State] = {}

    def result(self) -> int:
        """Add the function's code; return the register of its result."""
        self._end, self._result = self._body.label(), self._body.register()
        self._only_value: int | None = None
        self._walk()
        if self._only_value is not None:
            return self._only_value
        self._body.place(self._end)
        return self._result

    def _walk(self) -> None:
        """Add the function's code."""
        body = self._body
        for found in self._instructions:
            if found.offset in self._arrivals:
                if self._state is not None:
                    self._arrive(self._state, found.offset)
                self._state = self._arrivals.pop(found.offset)
                body.place(self._state.label)
            what, kind = self._steps.get(found.opname, ("", ""))
            if self._state is None or what == "ignore":
                continue
            if what not in ("return", "return constant"):
                self._translate(found, what, kind, self._state)
                continue
            state, self._state = self._state, None
            is_value = what == "return"
            value = state.stack.pop() if is_value else body.constant(found.argval)
            self._leave(state, value, is_last=found is self._instructions[-1])
        if self._arrivals:
            raise NotComputedError("loops")

    def _leave(self, state: State, value: int, *, is_last: bool) -> None:  # noqa: ARG002
        """Add a return."""
        if is_last and not self._arrivals and not self._has_returned:
            self._only_value = value
            return
        self._has_returned = True
        self._body.emit("move", target=self._result, left=value)
        self._body.emit("jump", number=self._end)

    def _translate(self, found: dis.Instruction, what: str, kind: str, state: State) -> None:
        body, stack = self._body, state.stack
        argument = found.arg or 0
        if what in _OF_LOCALS:
            self._move_locals(what, argument, state)
        elif what == "load constant":
            stack.append(body.constant(found.argval))
        elif what == "load cell":
            stack.append(body.add("cell", body.constant(self._cell(found.argval))))
        elif what == "load global":
            # The lowest bit asks for the NULL that precedes a call.
            if argument & 1:
                raise NotComputedError(f"calls {found.argval!r}")
            variables = body.constant(self._function.__globals__)
            stack.append(body.add("global", body.constant(found.argval), variables))
        elif what == "pop":
            stack.pop()
        elif what == "copy":
            stack.append(stack[-argument])
        elif what == "swap":
            stack[-1], stack[-argument] = stack[-argument], stack[-1]
        elif what == "unpack" and argument < LIMIT:
            fields = stack.pop()
            body.emit("unpack", left=fields, number=argument)
            stack += [self._field(fields, i) for i in reversed(range(argument))]
        elif what == "attribute":
            stack.append(self._attribute(stack.pop(), found))
        elif what == "unary":
            stack.append(body.add(kind, stack.pop()))
        elif what == "truth":
            # A following jump or "not" tests the truth itself.
            if self._is_followed_by_value(found):
                stack.append(body.add("not", body.add("not", stack.pop())))
        elif what == "gather":
            begin = len(stack) - argument
            stack[begin:] = [body.gather(kind, stack[begin:])]
        elif what == "jump":
            body.emit("jump", number=self._arrive(state, found.argval))
            self._state = None
        elif what in ("jump if", "jump or pop"):
            value = stack.pop() if what == "jump if" else stack[-1]
            body.emit(f"jump if {kind}", left=value, number=self._arrive(state, found.argval))
            if what == "jump or pop":
                stack.pop()
        else:
            operation = self._operation(found, what, kind)
            right, left = stack.pop(), stack.pop()
            is_subscript = operation == "subscript"
            stack.append(
                self._item(left, right) if is_subscript else body.add(operation, left, right)
            )

    def _attribute(self, row: int, found: dis.Instruction) -> int:
        """Return the register of an attribute, which must be a field of a declared row."""
        name = found.argval
        declared = self._body.type_of(row)
        if isinstance(declared, RecordTypeInfo) and name in declared.get_field_names():
            return self._record_attribute(row, found, declared)
        place = _place_in(declared, name)
        is_own = name.startswith("_") or name in _OWN_ATTRIBUTES
        if place is None or is_own or is_method(found):
            raise NotComputedError(why_refused(found))
        return self._named_field(row, self._body.constant(name), place)

    def _record_attribute(
        self, record: int, found: dis.Instruction, declared: RecordTypeInfo
    ) -> int:
        if is_method(found) or declared.is_dictionary:
            raise NotComputedError(why_refused(found))
        attribute = self._body.attribute(record, found.argval, declared.record_class)
        position = declared.get_field_index(found.argval)
        self._body.declare(attribute, declared.get_field_types()[position])
        return attribute

    def _item(self, container: int, index: int) -> int:
        """Return the register of a subscript."""
        key, body = self._body.constant_in(index), self._body
        if type(key) is int and 0 <= key < LIMIT:
            return self._field(container, key)
        place = _place_in(body.type_of(container), key)
        if place is not None:
            return self._named_field(container, index, place)
        return body.subscript(container, index)

    def _field(self, container: int, position: int) -> int:
        body = self._body
        field = body.add("field", container, number=position)
        body.declare(field, _type_at(body.type_of(container), position))
        return field

    def _named_field(self, row: int, name: int, place: int) -> int:
        body = self._body
        field = body.add("named field", row, name)
        body.declare(field, _type_at(body.type_of(row), place))
        return field

    def _is_followed_by_value(self, found: dis.Instruction) -> bool:
        after = [i for i in self._instructions if i.offset > found.offset and i.opname != "CACHE"]
        what, kind = self._steps.get(after[0].opname, ("", ""))
        return what != "jump if" and (what, kind) != ("unary", "not")

    def _move_locals(self, what: str, argument: int, state: State) -> None:
        # The upper and the lower half of the byte each name one.
        first, second = argument >> 4, argument & 15
        if what == "load local":
            self._load(argument, state)
        elif what == "store local":
            state.locals[argument] = state.stack.pop()
        elif what == "load two locals":
            self._load(first, state)
            self._load(second, state)
        else:
            state.locals[first] = state.stack.pop()
            if what == "store two locals":
                state.locals[second] = state.stack.pop()
            else:
                self._load(second, state)

    def _load(self, local: int, state: State) -> None:
        if local >= len(state.locals):
            # A cell: from 3.13 on a nested function gets one like this.
            raise NotComputedError("makes a function")
        register = state.locals[local]
        if register is None:
            name = self._code.co_varnames[local]
            if local < self._bound:
                raise NotComputedError(f"uses {name!r}, which the method is bound to")
            raise NotComputedError(f"uses {name!r}, which may not have been set")
        state.stack.append(register)

    def _operation(self, found: dis.Instruction, what: str, kind: str) -> str:
        argument = found.arg or 0
        if what == "subscript":
            return "subscript"
        if what == "compare":
            return COMPARISON_OPERATORS[argument >> self._byte_code.comparison_shift]
        if what == "negatable":
            negated = "is not" if kind == "is" else "not in"
            return negated if argument else kind
        if what == "binary":
            operator = BINARY_OPERATORS[argument % len(BINARY_OPERATORS)]
            if operator in ARITHMETIC:
                return operator
        raise NotComputedError(why_refused(found))

    def _cell(self, name: str) -> Any:
        free = self._code.co_freevars
        if name not in free or self._function.__closure__ is None:
            raise NotComputedError(
                f"uses {name!r}, which is not a variable of the enclosing function"
            )
        return self._function.__closure__[free.index(name)]

    def _arrive(self, state: State, offset: int) -> int:
        """Move values to their locations at ``offset``, which all jumps there share.

        Returns:
            The label of the offset.
        """
        body = self._body
        known = self._arrivals.get(offset)
        is_first = known is None
        if known is None:
            stack = [body.register() if place >= 0 else place for place in state.stack]
            places = [
                local if local is None or local < 0 else body.register() for local in state.locals
            ]
            known = State(stack, places, body.label(), state.actions)
            self._arrivals[offset] = known
        if known.actions != state.actions:
            raise NotComputedError("continues after an effect that only one branch has")
        for source, target in zip(state.stack, known.stack, strict=True):
            if target >= 0:
                self._move(source, target, is_first=is_first)
            elif target != source:
                raise NotComputedError("uses its context in one branch only")
        for i, local in enumerate(state.locals):
            place = known.locals[i]
            if local is None or place is None or (min(local, place) < 0 and local != place):
                known.locals[i] = None
            elif place >= 0:
                self._move(local, place, is_first=is_first)
        return known.label

    def _move(self, source: int, target: int, *, is_first: bool) -> None:
        """Add a move; the target has a type if all values moved there have the same."""
        body = self._body
        body.emit("move", target=target, left=source)
        declared = body.type_of(source)
        body.declare(target, declared if is_first or declared is body.type_of(target) else None)


def _place_in(type_info: object, name: Any) -> int | None:
    """Return the position of a field in a row type; None if the type is another or lacks it."""
    if type(name) is not str or not isinstance(type_info, RowTypeInfo):
        return None
    names = type_info.get_field_names()
    return names.index(name) if name in names else None


def _type_at(type_info: object, position: int) -> object | None:
    """Return the type of a field of a row or tuple type; None if it is unknown."""
    if not isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        return None
    types = type_info.get_field_types()
    return types[position] if position < len(types) else None

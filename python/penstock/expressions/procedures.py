"""Recognises process functions that only compute, set timers and finally emit one record.

Their byte code becomes a program that computes all values they need; their effects follow it, so
that an evaluation can still be abandoned without a trace.  For the same reason nothing may be
computed after a record is emitted: its receiver may change the values read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.expressions.bytecode import (
    GENERATOR,
    Translation,
    known_table,
    plain_function,
)
from penstock.expressions.bytecode_tables import is_method, why_refused
from penstock.expressions.program import LIMIT, NotComputedError, Program, ProgramBuilder

if TYPE_CHECKING:
    import dis

    from penstock.expressions.bytecode import State, Types

#: The arguments of a program: the first registers.
VALUE: Final = 0
KEY: Final = 1
TIMESTAMP: Final = 2
WATERMARK: Final = 3
PARAMETERS: Final = 4

#: Effects of a function: emitting, or calling its timer service.
EMIT: Final = "emit"
ACTIONS: Final = (
    EMIT,
    "register_event_time_timer",
    "register_processing_time_timer",
    "delete_event_time_timer",
    "delete_processing_time_timer",
)

#: Placeholders on the stack for the context, its timer service, and the methods of both.
_CONTEXT: Final = -1
_TIMERS: Final = -2
_FIRST_METHOD: Final = -3
_GETTERS: Final = {
    (_CONTEXT, "timer_service"): _TIMERS,
    (_CONTEXT, "timestamp"): TIMESTAMP,
    (_CONTEXT, "get_current_key"): KEY,
    (_TIMERS, "current_watermark"): WATERMARK,
}

#: Steps after an emission that do not compute.
_LAST_STEPS: Final = frozenset({"pop", "load constant", "jump"})


@dataclass(frozen=True)
class Procedure:
    """Computation and effects of a process function.

    Attributes:
        program: Returns a tuple of the actions' arguments, from ``VALUE``, ``KEY``, ``TIMESTAMP``
            and ``WATERMARK``.
        actions: By place in the program's lists, the index in ``ACTIONS``; -1 for none.
        uses_key: Whether the key is read.
    """

    program: Program
    actions: tuple[int, ...]
    uses_key: bool


def give_turn() -> None:
    """Let the interpreter handle signals and other threads run, as it does at each call.

    Native code that only released the GIL and took it again would keep it: a thread that waits
    demands the GIL after 5 ms without a release, and each release begins these anew.
    """


def procedure_of(function: Any, types: Types = ()) -> Procedure:
    """Return the procedure of ``function(value, context)``, which may be a generator.

    Raises:
        NotComputedError: It does more than compute, set timers and finally emit one record.
    """
    found = plain_function(function, may_yield=True)
    builder = _ProcedureBuilder()
    for _ in range(PARAMETERS):
        builder.register()
    for type_info in types:
        builder.declare(VALUE, type_info)
    translation = _ProcedureTranslation(builder, known_table(), found, [VALUE, _CONTEXT])
    translation.result()
    program = builder.program(PARAMETERS)
    if program is None:
        raise NotComputedError(f"takes more than {LIMIT} steps")
    actions = [-1] * len(program.lists)
    for place, names in translation.done.items():
        actions[place : place + len(names)] = [ACTIONS.index(name) for name in names]
    return Procedure(program, tuple(actions), translation.uses_key)


class _ProcedureBuilder(ProgramBuilder):
    """Rejects computations with placeholders that are not values."""

    def emit(
        self, operation: str, *, target: int = 0, left: int = 0, right: int = 0, number: int = 0
    ) -> None:
        if min(left, right) < 0:
            raise NotComputedError("computes with its context")
        super().emit(operation, target=target, left=left, right=right, number=number)

    def gather(self, operation: str, registers: list[int], left: int = 0) -> int:
        if min(registers, default=0) < 0:
            raise NotComputedError("computes with its context")
        return super().gather(operation, registers, left)

    def is_none(self, register: int) -> bool:
        """Return whether a register holds None from the beginning."""
        return self.constant_in(register) is None and register in self._constants

    def last_place(self) -> int:
        """Return the place of the next gathered list."""
        return len(self._lists)


class _ProcedureTranslation(Translation):
    """Adds a process function to a program.

    Attributes:
        done: By place in the program's lists, the actions on the values there.
        uses_key: Whether the function reads the key.
    """

    def __init__(self, body: _ProcedureBuilder, *arguments: Any) -> None:
        super().__init__(body, *arguments)
        self._builder = body
        self._steps = {**self._byte_code.steps, **self._byte_code.procedure_steps}
        self._is_generator = bool(self._code.co_flags & GENERATOR)
        self._methods: list[tuple[int, str]] = []
        self.done: dict[int, list[str]] = {}
        self.uses_key = False

    def _leave(self, state: State, value: int, *, is_last: bool) -> None:  # noqa: ARG002
        """Add a return, whose result is the arguments of this path's actions."""
        if not self._is_generator and not self._builder.is_none(value):
            raise NotComputedError("returns records")
        self.done[self._builder.last_place()] = [action for action, _ in state.actions]
        made = self._body.gather("tuple", [register for _, register in state.actions])
        self._body.emit("return", left=made)

    def _translate(self, found: dis.Instruction, what: str, kind: str, state: State) -> None:
        if state.actions and state.actions[-1][0] == EMIT and what not in _LAST_STEPS:
            raise NotComputedError("continues after it has emitted a record")
        if what == "generator":
            state.stack.append(self._body.constant(None))
        elif what == "yield":
            self._act(state, EMIT, state.stack.pop())
        elif what == "load method" or (what == "attribute" and is_method(found)):
            self._load_method(found, state)
        elif what == "call":
            self._call(found, state)
        else:
            super()._translate(found, what, kind, state)

    def _act(self, state: State, action: str, register: int) -> None:
        """Note an action, whose own result is None."""
        if register < 0:
            raise NotComputedError("computes with its context")
        state.actions = (*state.actions, (action, register))
        state.stack.append(self._body.constant(None))

    def _load_method(self, found: dis.Instruction, state: State) -> None:
        owner = state.stack.pop()
        known = (owner, found.argval) in _GETTERS or (
            owner == _TIMERS and found.argval in ACTIONS[1:]
        )
        if not known:
            raise NotComputedError(why_refused(found))
        self._methods.append((owner, found.argval))
        state.stack += [_FIRST_METHOD - len(self._methods) + 1, owner]

    def _call(self, found: dis.Instruction, state: State) -> None:
        count = found.arg or 0
        begin = len(state.stack) - count - 2
        called = state.stack[begin] if begin >= 0 else 0
        if called > _FIRST_METHOD:
            raise NotComputedError(why_refused(found))
        arguments = state.stack[begin + 2 :]
        del state.stack[begin:]
        owner, name = self._methods[_FIRST_METHOD - called]
        gives = _GETTERS.get((owner, name))
        if count != (gives is None):
            raise NotComputedError(f"calls {name} with {count} arguments")
        if gives is None:
            self._act(state, name, arguments[0])
            return
        self.uses_key = self.uses_key or gives == KEY
        state.stack.append(gives)

"""NativeStacks: what threads are at, functions of Python and native ones in one stack.

A thread that is looked at gets a signal, whose handler copies where it is (``rust/profile``).
Nobody holds the GIL for it, so that native code which holds the GIL is seen as often as it runs.
"""

from __future__ import annotations

import functools
import gc
import re
import sys
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Final

from penstock import network

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Sequence
    from types import FrameType

    Look = tuple[bool, bool, list[int], list[tuple[int, int, bool]]]

MAX_FRAMES: Final = 256
"""Frames of Python that a look tells of at most; the outermost of more are cut."""
_EVALUATES: Final = "_PyEval_EvalFrameDefault"
_LEADS_ON: Final = re.compile("call|eval|gen_send|gen_iternext|async_gen|slot_tp_", re.I)


class UnavailableError(Exception):
    """Native stacks cannot be had here; says why."""


class NativeStacks:
    """Looks at threads of this process; made when somebody asks, and then let go."""

    def __init__(self) -> None:
        """Prepares.

        Raises:
            UnavailableError: They cannot be had here.
        """
        if network.runtime() != "native":
            raise UnavailableError("PENSTOCK_RUNTIME=pure shows the functions of Python alone")
        from penstock._core import StackSampler
        from penstock._native import interpreter_frames

        layout = interpreter_frames.layout()
        if layout is None:
            version = ".".join(map(str, sys.version_info[:2]))
            raise UnavailableError(f"the stacks of native code are not known for Python {version}")
        try:
            self._sampler = StackSampler(layout)
        except OSError as error:
            raise UnavailableError(
                f"there is no native code among these functions: {error}"
            ) from error
        self._state_of = interpreter_frames.thread_state
        self._codes = _Codes(interpreter_frames.CODE_INSTRUCTIONS)
        self._name = functools.cache(self._sampler.name)

    def look(
        self, threads: Sequence[threading.Thread], delay_ms: int, depth: int
    ) -> list[tuple[tuple[str, ...], bool]]:
        """Looks at threads, one after the other.

        Args:
            threads: Those to look at.
            delay_ms: How long to wait before, without the GIL.
            depth: How many functions of a stack are told of, the innermost ones.

        Returns:
            The stack of each that answered, outermost first, and whether it ran or could have.
        """
        self._codes.add_frames()
        places = [
            (thread.native_id, self._state_of(thread.ident))
            for thread in threads
            if thread.native_id is not None and thread.ident is not None
        ]
        found = []
        for look in self._sampler.look(places, delay_ms):
            stack = self._stack(look) if look is not None else None
            if stack:
                found.append((stack[-depth:], look is not None and look[0]))
        return found

    def _stack(self, look: Look) -> tuple[str, ...] | None:
        _, is_complete, addresses, frames = look
        named = [(self._codes.name(code, at), is_entry) for code, at, is_entry in frames]
        if frames and not any(name for name, _ in named):
            return None  # seen while the interpreter was about to change its frames
        python = [(name or "function made meanwhile", is_entry) for name, is_entry in named]
        native = [self._name(address) for address in addresses]
        return merged(native, python, from_outermost=is_complete and len(frames) < MAX_FRAMES)


class _Codes:
    """The code of Python's functions by its address.

    What is known here is kept alive, so that an address stands for nothing else later.
    """

    def __init__(self, instructions: int) -> None:
        """Learns the functions that there are.

        Args:
            instructions: From the beginning of a code object to its instructions, in bytes.
        """
        self._instructions = instructions
        self._known: dict[int, tuple[CodeType, str]] = {}
        self._line = functools.cache(_line)
        for one in gc.get_objects():
            if type(one) is FunctionType:
                self._add(one.__code__, str(one.__module__ or one.__code__.co_filename))

    def add_frames(self) -> None:
        """Learns what runs now, as code that is in no function: of modules and classes."""
        for innermost in list(sys._current_frames().values()):
            at: FrameType | None = innermost
            while at is not None:
                self._add(at.f_code, str(at.f_globals.get("__name__", at.f_code.co_filename)))
                at = at.f_back

    def name(self, address: int, instruction: int) -> str | None:
        """A function and its line, or None for an address that stands for none."""
        known = self._known.get(address)
        if known is None:
            return None
        code, module = known
        line = self._line(code, instruction - address - self._instructions)
        return f"{module}.{code.co_qualname}:{line}"

    def _add(self, code: CodeType, module: str) -> None:
        if id(code) in self._known:
            return
        self._known[id(code)] = code, module
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._add(constant, module)


def _line(code: CodeType, offset: int) -> int:
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno


def merged(
    native: Sequence[tuple[str, str]], python: Iterable[tuple[str, bool]], *, from_outermost: bool
) -> tuple[str, ...]:
    """Puts functions of Python where the native stack evaluates them.

    Native code calls the interpreter with one function of Python, and those which that calls are
    evaluated by the same native function.  What of the interpreter only leads from one function to
    the next is left out, and so is what is around the outermost function of Python: the start of
    the thread.

    Args:
        native: Function and library, innermost first.
        python: Functions, and whether native code called them, innermost first.
        from_outermost: Whether both begin at the outermost; else they are known to meet inside.

    Returns:
        Names, outermost first.
    """
    groups: list[list[str]] = [[]]
    for name, is_entry in python:
        groups[-1].append(name)
        if is_entry:
            groups.append([])
    groups = [group[::-1] for group in groups if group]
    symbols = [_symbol(name) for name, _ in native]
    evaluations = [at for at, symbol in enumerate(symbols) if symbol == _EVALUATES]
    # The innermost evaluation may have begun, or ended, without its function being there.
    surplus = len(evaluations) - len(groups) if from_outermost else 0
    placed = dict(zip(evaluations[max(surplus, 0) :], groups[max(-surplus, 0) :], strict=False))
    outer = groups[max(-surplus, 0) + len(placed) :] if evaluations else groups
    stack = [name for group in reversed(outer) for name in group]
    interpreter = native[evaluations[0]][1] if evaluations else None
    leading = 0
    for at in reversed(range(len(native))):
        if symbols[at] == _EVALUATES:
            del stack[len(stack) - leading :]
            stack += placed.get(at, ())
            leading = 0
            continue
        # Around the outermost evaluation, everything leads there.
        leads = bool(evaluations) and (
            at > evaluations[-1]
            or (
                native[at][1] == interpreter
                and (not symbols[at] or _LEADS_ON.search(symbols[at]) is not None)
            )
        )
        if not leads:
            del stack[len(stack) - leading :]
        stack.append(_shown(symbols[at], native[at][1]))
        leading = leading + 1 if leads else 0
    return tuple(stack)


def _symbol(name: str) -> str:
    # Compilers split functions: `name.cold`, `name.constprop.0`.
    return name if "::" in name else name.partition(".")[0]


def _shown(symbol: str, library: str) -> str:
    # Without the version of an extension module, and what is said of a file that was replaced.
    library = re.sub(r"\.cpython-.*| \(deleted\)$", "", library)
    return f"{_cython_name(symbol) or symbol} ({library})".lstrip()


def _cython_name(symbol: str) -> str | None:
    """``__pyx_f_8penstock_7_native_4text_read`` is ``penstock._native.text.read``."""
    begin = re.match(r"__pyx_(?:f|pf|pw|fuse_\d+pf|fuse_\d+pw)_(?=\d)", symbol)
    if begin is None:
        return None
    parts, rest = [], symbol[begin.end() :]
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        if rest[end : end + 1] != "_":
            break
        parts.append(rest[length.end() : end])
        rest = rest[end + 1 :]
    return ".".join([*parts, re.sub(r"^\d+", "", rest)]) if parts else None

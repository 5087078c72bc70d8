"""NativeStacks: samples threads, with Python functions and native ones in one stack.

A sampled thread gets a signal, whose handler copies its position (``rust/profile``).  That needs no
GIL, so native code that holds the GIL is sampled as often as it runs.
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
"""Most Python frames in a sample; the outermost of more are cut."""
_EVALUATES: Final = "_PyEval_EvalFrameDefault"
_LEADS_ON: Final = re.compile("call|eval|gen_send|gen_iternext|async_gen|slot_tp_", re.I)


class UnavailableError(Exception):
    """Native stacks are not available here; the message says why."""


class NativeStacks:
    """Samples threads of this process; created for a request and then dropped."""

    def __init__(self) -> None:
        """Create a sampler.

        Raises:
            UnavailableError: Native stacks are not available here.
        """
        if network.runtime() != "native":
            raise UnavailableError("PENSTOCK_RUNTIME=pure shows the functions of Python alone")
        from penstock._core import StackSampler
        from penstock._native.profile import interpreter_frames

        layout = interpreter_frames.layout()
        if layout is None:
            version = ".".join(map(str, sys.version_info[:2]))
            raise UnavailableError(f"native stacks are not supported for Python {version}")
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
        """Sample threads, one after the other.

        Args:
            threads: Threads to sample.
            delay_ms: Time to wait before each sample, without the GIL.
            depth: Most functions of a stack to return, the innermost ones.

        Returns:
            The stack of each thread that answered, outermost first, and whether it was runnable.
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
            return None  # sampled while the interpreter was about to change its frames
        python = [(name or "function made meanwhile", is_entry) for name, is_entry in named]
        native = [self._name(address) for address in addresses]
        return merged(native, python, from_outermost=is_complete and len(frames) < MAX_FRAMES)


class _Codes:
    """Code objects of Python functions by address.

    Known code objects are kept alive, so that no address is reused.
    """

    def __init__(self, instructions: int) -> None:
        """Collect the existing functions.

        Args:
            instructions: Offset of the instructions in a code object, in bytes.
        """
        self._instructions = instructions
        self._known: dict[int, tuple[CodeType, str]] = {}
        self._line = functools.cache(_line)
        for one in gc.get_objects():
            if type(one) is FunctionType:
                self._add(one.__code__, str(one.__module__ or one.__code__.co_filename))

    def add_frames(self) -> None:
        """Add running code that belongs to no function: of modules and classes."""
        for innermost in list(sys._current_frames().values()):
            at: FrameType | None = innermost
            while at is not None:
                self._add(at.f_code, str(at.f_globals.get("__name__", at.f_code.co_filename)))
                at = at.f_back

    def name(self, address: int, instruction: int) -> str | None:
        """Return a function and its line, or None for an unknown address."""
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
    """Insert Python functions where the native stack evaluates them.

    Native code calls the interpreter with one Python function, and the same native function
    evaluates those that it calls.  Interpreter functions that only lead from one function to the
    next are dropped, and so is everything around the outermost Python function: the start of the
    thread.

    Args:
        native: Function and library, innermost first.
        python: Functions, and whether native code called them, innermost first.
        from_outermost: Whether both start at the outermost frame; otherwise they meet inside.

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
    # The innermost evaluation may have started or ended while its function is not on the stack.
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
        # Around the outermost evaluation, every function leads to it.
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
    # Drop the version of an extension module, and the mark of a replaced file.
    library = re.sub(r"\.cpython-.*| \(deleted\)$", "", library)
    return f"{_cython_name(symbol) or symbol} ({library})".lstrip()


def _cython_name(symbol: str) -> str | None:
    """Return the name behind a Cython symbol."""
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

"""Speaker: the operator and the subtask on whose behalf a thread runs user code.

Records cost nothing.  Only when something is logged, the stack identifies the working operator of
the chain: the innermost frame whose code belongs to its function.
"""

from __future__ import annotations

import inspect
import logging
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, FrameType

    from penstock.graph.job_graph import OperatorConfig

_SEVERAL: Final = object()
"""Marks code that several operators run."""

_threads = threading.local()

_naming = threading.Lock()
_namers = 0
_unnamed: Callable[..., logging.LogRecord] = logging.LogRecord


class Speaker:
    """One subtask.

    Attributes:
        task_name: The chain's name in messages.
        subtask: The subtask's number, from 0.
        parallelism: Number of subtasks.
    """

    def __init__(self, task_name: str, subtask: int, parallelism: int) -> None:
        """Create a subtask whose operators are not known yet."""
        self.task_name = task_name
        self.subtask = subtask
        self.parallelism = parallelism
        self._operators: tuple[OperatorConfig, ...] = ()
        self._names: dict[CodeType, Any] | None = None

    def has_operators(self, operators: Iterable[OperatorConfig]) -> None:
        """Set the operators of the chain."""
        self._operators = tuple(operators)
        self._names = None

    def operator(self, frame: FrameType | None) -> str:
        """Return the operator that a stack belongs to, or the task's name if it is unknown."""
        return self.operator_at_work(frame) or self.task_name

    def operator_at_work(self, frame: FrameType | None) -> str:
        """Return the operator whose user code a stack runs; empty if none does, or several."""
        if self._names is None:
            self._names = self._names_of_codes()
        while frame is not None:
            name = self._names.get(frame.f_code)
            if name is not None:
                return "" if name is _SEVERAL else str(name)
            frame = frame.f_back
        return ""

    def _names_of_codes(self) -> dict[CodeType, object]:
        names: dict[CodeType, Any] = {}
        for config in self._operators:
            for code in _codes_of(config):
                known = names.setdefault(code, config.name)
                if known != config.name:
                    names[code] = _SEVERAL
        return names


def speaks_for(speaker: Speaker | None) -> None:
    """Set the subtask for which the current thread runs user code."""
    _threads.speaker = speaker


def current_speaker() -> Speaker | None:
    """Return the subtask for which the current thread runs user code, or None."""
    found: Speaker | None = getattr(_threads, "speaker", None)
    return found


def prefix(operator: str, subtask: int, parallelism: int) -> str:
    """Return the prefix of a message."""
    return f"{operator} ({subtask + 1}/{parallelism}): "


def name_records() -> None:
    """Let this process's log records name the operator and the subtask, if there is one.

    This serves workers that are threads of the program, whose own logging receives the records.
    Each call needs its `unname_records`.
    """
    global _unnamed, _namers
    with _naming:
        _namers += 1
        if _namers == 1:
            _unnamed = logging.getLogRecordFactory()
            logging.setLogRecordFactory(_named_record)


def unname_records() -> None:
    """Undo the last `name_records`; a factory that the program has set since stays."""
    global _namers
    with _naming:
        _namers -= 1
        if _namers == 0 and logging.getLogRecordFactory() is _named_record:
            logging.setLogRecordFactory(_unnamed)


def _named_record(*args: object, **kwargs: object) -> logging.LogRecord:
    record = _unnamed(*args, **kwargs)
    speaker = current_speaker()
    if speaker is not None:
        record.operator = operator = speaker.operator(sys._getframe(1))
        record.subtask = speaker.subtask
        before = prefix(operator, speaker.subtask, speaker.parallelism)
        record.msg = before.replace("%", "%%" if record.args else "%") + str(record.msg)
    return record


def _codes_of(config: OperatorConfig) -> Iterator[CodeType]:
    """Yield the code of all user functions that an operator calls."""
    waiting: list[Any] = [*vars(config.descriptor).values()]
    waiting += [*config.key_selectors, *config.output_selectors]
    for leaving in config.network_outputs:
        waiting += [leaving.partitioner.key_selector, leaving.partitioner.function]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        code = getattr(one, "__code__", None)
        if code is not None:
            yield code
            continue
        kinds = type(one).__mro__
        for kind in kinds:
            if kind is not object and not str(kind.__module__).startswith("penstock."):
                yield from (f.__code__ for f in vars(kind).copy().values() if inspect.isfunction(f))
        if str(kinds[0].__module__).startswith("penstock."):
            waiting += getattr(one, "__dict__", {}).values()

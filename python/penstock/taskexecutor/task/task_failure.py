"""How the exception of a task becomes data for the driver."""

from __future__ import annotations

import pickle
import traceback
from typing import TYPE_CHECKING

from penstock.rpc.messages import TaskFailure
from penstock.serialization.code_pickle import dumps
from penstock.taskexecutor.worker.standard_input import NO_DEBUGGER
from penstock.user_location import OWN_FILES

if TYPE_CHECKING:
    from types import TracebackType

MAX_MESSAGE_CHARACTERS = 16 * 1024
MAX_TRACEBACK_CHARACTERS = 64 * 1024
MAX_PICKLED_BYTES = 1024 * 1024

OPERATOR_ATTRIBUTE = "__penstock_operator__"
"""Set on an exception of user code: the name of the operator that was running it."""

LOCATION_ATTRIBUTE = "__penstock_location__"
"""Set beside it: the line of the user's program that made the operator, or None."""

MAX_OUTER_FRAMES = 5
MAX_INNER_FRAMES = 15
"""Of one stack; a value that nests, or a function that calls itself, has hundreds."""

MAX_CHAINED_EXCEPTIONS = 10


def describe_failure(error: BaseException, task_name: str, subtask: int) -> TaskFailure:
    """Describes an exception by class, text, traceback and, where it can be, its pickle."""
    operator = getattr(error, OPERATOR_ATTRIBUTE, None) or task_name
    if type(error).__module__ == "bdb":  # a debugger that met the end of standard input
        error.add_note(NO_DEBUGGER)
    return TaskFailure(
        module=type(error).__module__,
        qualname=type(error).__qualname__,
        message=_message(error),
        traceback=user_traceback(error)[-MAX_TRACEBACK_CHARACTERS:],
        operator=str(operator),
        subtask=subtask,
        location=getattr(error, LOCATION_ATTRIBUTE, None),
        pickled=_pickle(error),
    )


def user_traceback(error: BaseException) -> str:
    """Formats a traceback with the frames of user code only, the first and the last of many.

    All frames are kept when the error never left penstock itself: then they are what is needed.
    """
    described = traceback.TracebackException.from_exception(error)
    _cut_chain(described)
    pending: list[traceback.TracebackException | None] = [described]
    while pending:
        one = pending.pop()
        if one is None:
            continue
        own = [frame for frame in one.stack if not frame.filename.startswith(OWN_FILES)]
        one.stack = _shortened(own or list(one.stack))
        pending += [one.__cause__, one.__context__]
    return "".join(described.format())


def _cut_chain(described: traceback.TracebackException) -> None:
    """Leaves out the middle of a long chain of causes: the first exceptions and the last one."""
    chain = [described]
    while (above := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(above)
    if len(chain) > MAX_CHAINED_EXCEPTIONS:
        last_kept = chain[MAX_CHAINED_EXCEPTIONS - 2]
        last_kept.__cause__, last_kept.__context__ = chain[-1], None


def _shortened(frames: list[traceback.FrameSummary]) -> traceback.StackSummary:
    left_out = len(frames) - MAX_OUTER_FRAMES - MAX_INNER_FRAMES
    if left_out > 0:
        gap = traceback.FrameSummary(
            f"<{left_out} frames are left out here>", 0, "...", lookup_line=False, line=""
        )
        frames = [*frames[:MAX_OUTER_FRAMES], gap, *frames[-MAX_INNER_FRAMES:]]
    return traceback.StackSummary.from_list(frames)


def _message(error: BaseException) -> str:
    try:
        return str(error)[:MAX_MESSAGE_CHARACTERS]
    except Exception as nested:
        return f"<the exception's text cannot be had: {type(nested).__name__}>"


def _pickle(error: BaseException) -> bytes | None:
    """Pickles the exception without its traceback; None if it cannot be pickled and read back.

    Reading back here keeps a class whose ``__init__`` does not fit its ``args`` from failing on
    the driver, where it would hide the real failure.
    """
    kept: TracebackType | None = error.__traceback__
    try:
        data = dumps(error)
        if len(data) > MAX_PICKLED_BYTES or not isinstance(pickle.loads(data), BaseException):
            return None
    except Exception:
        return None
    finally:
        error.__traceback__ = kept
    return data

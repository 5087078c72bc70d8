"""Conversion of a task's exception to data for the driver."""

from __future__ import annotations

import pickle
import traceback

from penstock.common.exception_deadline import ask_in_time, own_name_of
from penstock.common.exception_text import (
    MAX_NAME_CHARACTERS,
    NO_TEXT,
    annotate,
    attached,
    encodable,
    name_of,
    text_of,
)
from penstock.rpc.messages import TaskFailure
from penstock.serialization.code_pickle import bounded_dumps
from penstock.taskexecutor.worker.standard_input import NO_DEBUGGER
from penstock.user_location import OWN_FILES

MAX_TRACEBACK_CHARACTERS = 64 * 1024
"""Limit of a reported traceback: that of a recursion has thousands of lines."""
MAX_PICKLED_BYTES = 1024 * 1024
"""Limit of a pickled exception; a larger one is reported as text alone."""

OPERATOR_ATTRIBUTE = "__penstock_operator__"
"""Attribute of an exception of user code: the name of the operator that was running it."""

LOCATION_ATTRIBUTE = "__penstock_location__"
"""Attribute beside it: the line of the user's program that created the operator, or None."""

MAX_OUTER_FRAMES = 5
MAX_INNER_FRAMES = 15
"""Of one stack; a deeply nested value or a recursive function has hundreds."""

MAX_CHAINED_EXCEPTIONS = 10


def describe_failure(error: BaseException, task_name: str, subtask: int) -> TaskFailure:
    """Describe an exception by class, text, traceback and, if possible, its pickle.

    It raises nothing, and returns within its deadline, whatever the exception's class does.
    """
    texts: list[str] = []
    descriptions: list[TaskFailure] = []

    def ask() -> None:
        texts.append(text_of(error))  # by itself: the text may come, and that of a cause not
        descriptions.append(_describe(error, texts[0], task_name, subtask))

    ask_in_time(ask)
    if descriptions:
        return descriptions[0]
    return _silent_failure(error, texts[0] if texts else NO_TEXT, task_name, subtask)


def _silent_failure(
    error: BaseException, message: str, task_name: str, subtask: int
) -> TaskFailure:
    """Describe an exception without calling any method of its class."""
    module, qualname = own_name_of(error)
    stack = traceback.extract_tb(BaseException.__dict__["__traceback__"].__get__(error))
    return TaskFailure(
        module=module,
        qualname=qualname,
        message=message,
        traceback=encodable("".join(stack.format()), MAX_TRACEBACK_CHARACTERS),
        operator=encodable(attached(error, OPERATOR_ATTRIBUTE) or task_name, MAX_NAME_CHARACTERS),
        subtask=subtask,
        location=None,
        pickled=None,
    )


def _describe(error: BaseException, message: str, task_name: str, subtask: int) -> TaskFailure:
    module, qualname = name_of(error)
    if module == "bdb":  # a debugger that met the end of standard input
        annotate(error, NO_DEBUGGER)
    location = attached(error, LOCATION_ATTRIBUTE)
    return TaskFailure(
        module=module,
        qualname=qualname,
        message=message,
        traceback=user_traceback(error),
        operator=encodable(attached(error, OPERATOR_ATTRIBUTE) or task_name, MAX_NAME_CHARACTERS),
        subtask=subtask,
        location=None if location is None else encodable(location),
        pickled=_pickle(error),
    )


def user_traceback(error: BaseException) -> str:
    """Format a traceback with the frames of user code only, the first and the last of many.

    All frames are kept if the error never left penstock: then they are the ones needed.
    """
    try:
        text = _formatted(error)
    except BaseException as nested:  # from user classes, or from groups nested too deeply
        text = f"<the traceback cannot be formatted: {name_of(nested)[1]}>"
    return encodable(text[-MAX_TRACEBACK_CHARACTERS:], MAX_TRACEBACK_CHARACTERS)


def _formatted(error: BaseException) -> str:
    chain = traceback.TracebackException.from_exception(error)
    _cut_chain(chain)
    pending: list[traceback.TracebackException | None] = [chain]
    while pending:
        one = pending.pop()
        if one is None:
            continue
        own = [frame for frame in one.stack if not frame.filename.startswith(OWN_FILES)]
        one.stack = _shortened(own or list(one.stack))
        pending += [one.__cause__, one.__context__]
    return "".join(chain.format())


def _cut_chain(first: traceback.TracebackException) -> None:
    """Cut the middle of a long chain of causes: keep the first exceptions and the last one."""
    chain = [first]
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


def _pickle(error: BaseException) -> bytes | None:
    """Pickle the exception without its traceback; None if it cannot be pickled and read back.

    The check here prevents a class whose ``__init__`` does not fit its ``args`` from failing on the
    driver, where it would hide the real failure.
    """
    try:
        data = bounded_dumps(error, MAX_PICKLED_BYTES)
        return data if isinstance(pickle.loads(data), BaseException) else None
    except BaseException:  # its class defines how to rebuild it, which may even call sys.exit()
        return None

"""Finds the operator of a chain that raised an exception, or that waits.

Its traceback tells, once it has reached the task: the frames of operators written in Python refer
to the operator.  Frames of compiled code do not; there, the operators that the exception passed
have recorded it (`StreamOperator.note_failure`).  Operators only call downstream, so the last one
in the chain that the exception passed has raised it.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from penstock.taskexecutor.compiled import Input, StreamOperator
from penstock.taskexecutor.state.state_handler import StreamOperatorStateHandler
from penstock.taskexecutor.task.operator_context import TaskOperatorContext
from penstock.user_location import OWN_FILES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType


def blamed_position(error: BaseException, operators: Sequence[StreamOperator]) -> int | None:
    """Return the position of the operator that raised an exception.

    Args:
        error: The exception, with its traceback.
        operators: The chain's operators, in topological order.

    Returns:
        The position, or None if the exception passed no operator.
    """
    # Not by operator identity: some operators consist of others that share their context.
    positions = {id(operator.context): position for position, operator in enumerate(operators)}
    passed = [position for position, each in enumerate(operators) if each.failed_with is error]
    for frame, _ in traceback.walk_tb(error.__traceback__):
        operator = _operator_at(frame)
        if operator is not None and id(operator.context) in positions:
            passed.append(positions[id(operator.context)])
    return max(passed, default=None)


def waiting_operator(frame: FrameType | None) -> str:
    """Return the name of the operator that waits for mails within a stack; "" if none does.

    An asynchronous operator waits so while its queue is full: none of its user code is in the
    stack.
    """
    while frame is not None and frame.f_code is not TaskOperatorContext.run_until.__code__:
        frame = frame.f_back
    context = None if frame is None else frame.f_locals.get("self")
    return context.name if isinstance(context, TaskOperatorContext) else ""


def _operator_at(frame: FrameType) -> StreamOperator | None:
    """Return the operator for which a frame works; None if it works for none or is unknown."""
    code = frame.f_code
    # The argument of `process_all` is often an iterator that the previous operator computes.
    if not code.co_filename.startswith(OWN_FILES) or code.co_name == "process_all":
        return None
    names = frame.f_locals
    found = names.get("operator")
    actor = names.get("self")
    if isinstance(actor, StreamOperator):
        found = actor
    elif isinstance(actor, (Input, StreamOperatorStateHandler)):
        found = getattr(actor, "operator", None)
    return found if isinstance(found, StreamOperator) else None

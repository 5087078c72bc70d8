"""Whom to blame: which operator of a chain an exception came from.

Its traceback tells, once it has reached the task: the frames of operators written in Python hold
the operator.  Those of compiled code hold nothing; there the operators that the exception passed
have left word (`StreamOperator.note_failure`).  Operators call each other downstream only, so that
of all those it passed, the last in the chain is the one that it came from.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from penstock.taskexecutor.compiled import Input, StreamOperator
from penstock.taskexecutor.state.state_handler import StreamOperatorStateHandler
from penstock.user_location import OWN_FILES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType


def blamed_position(error: BaseException, operators: Sequence[StreamOperator]) -> int | None:
    """The position of the operator that an exception came from.

    Args:
        error: The exception, with its traceback.
        operators: Those of the chain, in topological order.

    Returns:
        The position, or None if the exception passed no operator.
    """
    # Not by the operators themselves: some consist of others, which have the same context.
    positions = {id(operator.context): position for position, operator in enumerate(operators)}
    passed = [position for position, each in enumerate(operators) if each.failed_with is error]
    for frame, _ in traceback.walk_tb(error.__traceback__):
        operator = _operator_at(frame)
        if operator is not None and id(operator.context) in positions:
            passed.append(positions[id(operator.context)])
    return max(passed, default=None)


def _operator_at(frame: FrameType) -> StreamOperator | None:
    """The operator for which a frame works; None if it works for none, or does not tell."""
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

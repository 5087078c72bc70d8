"""Checks of iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.graph.transformations import Transformation


def check_descends(transformation: Transformation, head: Transformation) -> None:
    """Check that the feedback is derived from the iteration that it closes.

    Raises:
        InvalidProgramError: It is not.
    """
    waiting, seen = [transformation], set()
    while waiting:
        current = waiting.pop()
        if current is head:
            return
        if current.id not in seen:
            seen.add(current.id)
            waiting.extend(current.inputs)
    raise InvalidProgramError(
        f"close_with takes a stream derived from the iteration, which {transformation.name!r} is "
        "not"
    )

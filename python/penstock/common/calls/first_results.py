"""Logs a warning if a function returns a record where an iterable of records is expected."""

from __future__ import annotations

import logging
from typing import Any, Final

from penstock.common.exception_deadline import repr_in_time
from penstock.common.types import Row

logger = logging.getLogger(__name__)

#: The parts of iterables that are rarely meant as several records.
_PARTS: Final = {str: "character", bytes: "byte", dict: "key", Row: "field"}

#: The operators that have logged the warning in this process, each with its job.
_warned: Final[set[tuple[Any, str]]] = set()


def warn_of_parts(context: Any, result: object) -> None:
    """Log a warning if a result's parts become records; once for each operator of a job.

    The results are those of PyFlink in any case.

    Args:
        context: The operator's context, with its name and its job.
        result: The first result of a function whose results are iterables of records.
    """
    part = _PARTS.get(type(result))
    if part is None and isinstance(result, tuple) and hasattr(result, "_fields"):
        part = "field"
    if part is None:
        return
    operator = (context.environment.job_id, context.name)
    if operator in _warned:
        return
    _warned.add(operator)
    logger.warning(
        "%s: the function returned %s, and each %s of it becomes a record; to emit it as one "
        "record, write yield instead of return, or return a list with it",
        context.name,
        repr_in_time(result),
        part,
    )

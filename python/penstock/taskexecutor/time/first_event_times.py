"""Logs a question about first event times that look like seconds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from penstock.common.values.instants import datetime_of

if TYPE_CHECKING:
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

logger = logging.getLogger(__name__)

#: Times in January 1970, in ms: where seconds since 1970 lie if taken for ms.
_JANUARY_1970_MS: Final = range(31 * 86_400_000)

#: The operators that have logged the question in this process, each with its job.
_asked: Final[set[tuple[Any, str]]] = set()


def ask_about_seconds(context: OperatorContext, first_ms: int) -> None:
    """Log a question if event time begins in January 1970; once for each operator of a job.

    Args:
        context: The operator's context.
        first_ms: One of the first event times.
    """
    asks = (context.environment.job_id, context.name)
    if first_ms not in _JANUARY_1970_MS or asks in _asked:
        return
    _asked.add(asks)
    logger.warning(
        "%s: the first event times are in January 1970 (%s); are they seconds? Event times are "
        "milliseconds since the epoch: multiply seconds by 1000, or return a datetime",
        context.name,
        datetime_of(first_ms * 1000).isoformat(" ", "seconds"),
    )

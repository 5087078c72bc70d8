"""A failure as data that the state machines pass on without inspecting it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.common.exception_text import name_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Failure:
    """One failure.

    Attributes:
        exception_name: Qualified name of the exception's class.
        message: The exception's text.
        stack_trace: Formatted traceback, the user's frames included; empty when there is none.
        recoverable: False when a restart cannot help (bad program, corrupt state).
        task_name: "Map (2/4)", or None for a failure of no particular task.
        executor_id: TaskExecutor on which it happened, if any.
        missing_partitions: 60-byte ids of partitions that a consumer found lost.
        labels: Free labels for the exception history.
        payload: Returned to the caller with the job's result, for example the exception as
            received; never inspected.
    """

    exception_name: str
    message: str
    stack_trace: str = ""
    recoverable: bool = True
    task_name: str | None = None
    executor_id: str | None = None
    missing_partitions: frozenset[bytes] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    payload: object | None = None

    @staticmethod
    def of(error: BaseException, **details: object) -> Failure:
        """Return the failure of an exception of this process."""
        return Failure(
            exception_name=".".join(name_of(error)),
            message=text_of(error),
            payload=error,
            **details,  # type: ignore[arg-type]
        )

    def __str__(self) -> str:
        return f"{self.exception_name}: {self.message}"

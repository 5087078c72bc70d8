"""Common part of all operator descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.common.watermark_strategy import WatermarkStrategy


@dataclass(frozen=True)
class OperatorDescriptor:
    """One operator as data; subclasses are the kinds.

    A kind that adds no field is no dataclass of its own: each costs a worker's start a millisecond.
    """

    @property
    def user_function(self) -> Any:
        """The user's function or Function object; None for an operator without one."""
        return None

    @property
    def is_coordinated(self) -> bool:
        """Return whether a part of the operator runs once per job, beside the JobMaster."""
        return False

    @property
    def is_yielding(self) -> bool:
        """Return whether the operator yields to the mailbox while it waits for its own results.

        Such an operator must not share a thread with a source that never returns to the mailbox.
        """
        return False


@dataclass(frozen=True)
class FunctionDescriptor(OperatorDescriptor):
    """An operator that calls a function of the user's.

    Attributes:
        function: The function or Function object.
    """

    function: Any

    @property
    def user_function(self) -> Any:
        """The function."""
        return self.function


@dataclass(frozen=True, kw_only=True)
class SourceDescriptor(OperatorDescriptor):
    """A source, possibly followed by the generation of watermarks.

    Attributes:
        watermark_strategy: The strategy of timestamps and watermarks; None for a source that
            emits its own.
    """

    watermark_strategy: WatermarkStrategy | None = None

    @property
    def is_coordinated(self) -> bool:
        """Return whether it is aligned with other sources."""
        return self.watermark_strategy is not None and self.watermark_strategy.alignment is not None

    @property
    def enumerating(self) -> Any:
        """Return the factory of the enumerator; None for a source without one."""
        return None

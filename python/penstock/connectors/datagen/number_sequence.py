"""NumberSequenceSource: a range of integers."""

from __future__ import annotations

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.typeinfo import TypeInformation, Types
from penstock.connectors.base import Source
from penstock.errors import InvalidProgramError
from penstock.graph import operators

__all__ = ["NumberSequenceSource"]


@checks_arguments
class NumberSequenceSource(Source[int]):
    """The numbers from `start` to `end`, both included, divided among the subtasks."""

    def __init__(self, start: int, end: int) -> None:
        """Create a source.

        Raises:
            InvalidProgramError: The end is less than the start.
        """
        super().__init__(None)
        if end < start:
            raise InvalidProgramError(f"the sequence ends ({end}) before it starts ({start})")
        self._start = start
        self._end = end

    def source_operator(self) -> operators.NumberSequenceSource:
        """Return the descriptor of the operator."""
        return operators.NumberSequenceSource(start=self._start, end=self._end)

    def get_produced_type(self) -> TypeInformation:
        """Return LONG."""
        return Types.LONG()

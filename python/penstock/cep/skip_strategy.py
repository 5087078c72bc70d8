"""Skip strategies: the partial matches that a complete match discards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from penstock.cep.errors import MalformedPatternError

SkipKind = Literal["no_skip", "to_next", "past_last_event", "to_first", "to_last"]


@dataclass(frozen=True)
class SkipStrategy:
    """Discards partial and complete matches once a match is complete.

    Attributes:
        kind: The strategy.
        name: The part that ``to_first`` and ``to_last`` skip to.
        throws: Whether the job fails if a match has no record of that part, or begins with the
            record that the strategy skips to.
    """

    kind: SkipKind = "no_skip"
    name: str | None = None
    throws: bool = False

    @staticmethod
    def no_skip() -> SkipStrategy:
        """Emit every match."""
        return SkipStrategy()

    @staticmethod
    def skip_to_next() -> SkipStrategy:
        """Discard the matches that begin with the same record."""
        return SkipStrategy("to_next")

    @staticmethod
    def skip_past_last_event() -> SkipStrategy:
        """Discard the matches that began before the match ended."""
        return SkipStrategy("past_last_event")

    @staticmethod
    def skip_to_first(name: str) -> SkipStrategy:
        """Discard the matches that began before the first record of a part."""
        return SkipStrategy("to_first", name)

    @staticmethod
    def skip_to_last(name: str) -> SkipStrategy:
        """Discard the matches that began before the last record of a part."""
        return SkipStrategy("to_last", name)

    def throw_exception_on_miss(self) -> SkipStrategy:
        """Return the strategy that fails the job if a match has nothing to skip to.

        Raises:
            MalformedPatternError: The strategy does not skip to a named part.
        """
        if self.name is None:
            raise MalformedPatternError(
                f"throw_exception_on_miss: the strategy {self.kind!r} skips to no named part; "
                "use skip_to_first() or skip_to_last()"
            )
        return replace(self, throws=True)


#: Flink's name.
AfterMatchSkipStrategy = SkipStrategy

"""HybridSource: one source after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.common.missing_methods import NoJavaMembers
from penstock.connectors.base import Source
from penstock.connectors.hybrid.splits import PartsEnumerating
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError
from penstock.graph import operators

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

__all__ = ["HybridSource", "HybridSourceBuilder"]


class HybridSource(Source):
    """Reads finite sources to their end, and then a last one.

    Each subtask goes on by itself to the next source, but for one with an enumerator, as
    `KafkaSource`: if the last source has no end, such a one begins when all subtasks have read
    what comes before it, and decides then where to begin.
    """

    def __init__(self, sources: tuple[Source, ...]) -> None:
        """Create a source; use `builder`."""
        super().__init__(None)
        self._sources = sources

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """Starts with the source that is read first."""
        return HybridSourceBuilder(first_source)

    def source_operator(self) -> operators.HybridSource:
        """Reads one source after the other."""
        parts, enumerating = [], {}
        for number, source in enumerate(self._sources):
            part = source.source_operator()
            if isinstance(part, operators.SplitSource):
                part = replace(part, function=shipped(part.function, "HybridSource"))
                enumerating[number] = part.function
            parts.append(part)
        return operators.HybridSource(
            sources=tuple(parts),
            parts_enumerating=PartsEnumerating(enumerating, is_bounded=self.is_bounded())
            if enumerating
            else None,
        )

    def is_bounded(self) -> bool:
        """Return whether the last source comes to an end."""
        return self._sources[-1].is_bounded()

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the first source."""
        return self._sources[0].get_produced_type()


class HybridSourceBuilder(NoJavaMembers):
    """Collects sources."""

    def __init__(self, first_source: Source) -> None:
        """Starts with the source that is read first."""
        self._sources: list[Source] = []
        self.add_source(first_source)

    def add_source(self, source: Source) -> HybridSourceBuilder:
        """Adds the source that is read next.

        Raises:
            InvalidProgramError: It is none, its type differs, or the one before has no end.
        """
        given: Any = source
        if not isinstance(given, Source):
            raise InvalidProgramError(f"a HybridSource consists of Sources, got {given!r}")
        if self._sources and not self._sources[-1].is_bounded():
            raise InvalidProgramError("only the last source of a HybridSource may have no end")
        if self._sources and self._sources[0].get_produced_type() != source.get_produced_type():
            raise InvalidProgramError("the sources of a HybridSource must have one type")
        self._sources.append(source)
        return self

    def build(self) -> HybridSource:
        """Return the source."""
        return HybridSource(tuple(self._sources))

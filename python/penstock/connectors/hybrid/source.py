"""HybridSource: one source after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.connectors.base import Source
from penstock.connectors.hybrid.splits import PartsEnumerating
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError
from penstock.graph import operators

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

__all__ = ["HybridSource", "HybridSourceBuilder"]


class HybridSource(Source):
    """Reads bounded sources to the end, and then a last one.

    Each subtask switches to the next source by itself, except to a source with an enumerator, such
    as `KafkaSource`: if the last source is unbounded, such a source starts when all subtasks have
    read the previous ones, and chooses its start position then.
    """

    def __init__(self, sources: tuple[Source, ...]) -> None:
        """Create a source; use `builder`."""
        super().__init__(None)
        self._sources = sources

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """Return a builder with the source that is read first."""
        return HybridSourceBuilder(first_source)

    def source_operator(self) -> operators.HybridSource:
        """Return the descriptor of the operator."""
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
        """Return whether the last source is bounded."""
        return self._sources[-1].is_bounded()

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the first source."""
        return self._sources[0].get_produced_type()


class HybridSourceBuilder(NoJavaMembers):
    """Builder of a HybridSource."""

    def __init__(self, first_source: Source) -> None:
        """Create a builder with the source that is read first."""
        self._sources: list[Source] = []
        self.add_source(first_source)

    def add_source(self, source: Source) -> HybridSourceBuilder:
        """Add the source that is read next.

        Raises:
            InvalidProgramError: The argument is not a source, its type differs, or the previous
                source is unbounded.
        """
        given: Any = source
        if not isinstance(given, Source):
            raise InvalidProgramError(f"a HybridSource consists of Sources, got {given!r}")
        if self._sources and not self._sources[-1].is_bounded():
            raise InvalidProgramError("only the last source of a HybridSource may be unbounded")
        if self._sources and self._sources[0].get_produced_type() != source.get_produced_type():
            raise InvalidProgramError(
                "the sources of a HybridSource must have the same type: got "
                f"{self._sources[0].get_produced_type()} and {source.get_produced_type()}"
            )
        self._sources.append(source)
        return self

    def build(self) -> HybridSource:
        """Return the source."""
        return HybridSource(tuple(self._sources))

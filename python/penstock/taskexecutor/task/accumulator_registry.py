"""The accumulators of one task, which all of its operators share by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.accumulators import Accumulator
from penstock.errors import InvalidProgramError
from penstock.rpc.messages import ACCUMULATOR_EXTENSION
from penstock.serialization.type_serializer import TypeSerializer

if TYPE_CHECKING:
    from collections.abc import Callable


class AccumulatorRegistry:
    """Accumulators by name, and how they travel."""

    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        """Starts empty.

        Args:
            on_first: Called when the first accumulator is registered.
        """
        self._accumulators: dict[str, Accumulator[Any, Any]] = {}
        self._on_first = on_first

    def add(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Registers an accumulator.

        Raises:
            InvalidProgramError: The name is taken, or it is no accumulator.
        """
        given: Any = accumulator
        if not isinstance(given, Accumulator):
            raise InvalidProgramError(f"add_accumulator takes an Accumulator, got {given!r}")
        if name in self._accumulators:
            raise InvalidProgramError(
                f"the accumulator {name!r} exists already: give every function's its own name, or "
                "ask for it with get_accumulator"
            )
        if not self._accumulators:
            self._on_first()
        self._accumulators[name] = accumulator

    def get(self, name: str) -> Accumulator[Any, Any] | None:
        """The accumulator of that name, or None."""
        return self._accumulators.get(name)

    def get_or_add(self, name: str, kind: type[Any]) -> Any:
        """The accumulator of that name and class, new if there is none.

        Raises:
            InvalidProgramError: The name is that of an accumulator of another class.
        """
        found = self._accumulators.get(name)
        if found is None:
            found = kind()
            self.add(name, found)
        if not isinstance(found, kind):
            raise InvalidProgramError(
                f"the accumulator {name!r} is a {type(found).__name__}, not a {kind.__name__}"
            )
        return found

    def encoded(self) -> dict[str, msgspec.msgpack.Ext]:
        """The accumulators as they travel to the JobMaster; empty when there are none."""
        serialize = TypeSerializer[Any]().serialize
        return {
            name: msgspec.msgpack.Ext(ACCUMULATOR_EXTENSION, serialize(accumulator))
            for name, accumulator in self._accumulators.items()
        }

"""The accumulators of one task, shared by name between its operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.common.accumulators import Accumulator
from penstock.common.calls.names import checked_name
from penstock.errors import InvalidProgramError
from penstock.rpc.frames import MAX_FRAME_BYTES
from penstock.rpc.messages import ACCUMULATOR_EXTENSION
from penstock.serialization.type_serializer import TypeSerializer

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ACCUMULATOR_BYTES: Final = MAX_FRAME_BYTES // 2


class AccumulatorRegistry:
    """Accumulators by name, and their encoding."""

    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        """Create an empty registry.

        Args:
            on_first: Called when the first accumulator is registered.
        """
        self._accumulators: dict[str, Accumulator[Any, Any]] = {}
        self._on_first = on_first

    def add(self, name: str, accumulator: Accumulator[object, object]) -> None:
        """Register an accumulator.

        Raises:
            InvalidProgramError: The name is taken or cannot be sent, or the object is not
                an accumulator.
        """
        given: Any = accumulator
        if not isinstance(given, Accumulator):
            raise InvalidProgramError(f"add_accumulator takes an Accumulator, got {given!r}")
        checked_name("an accumulator", name)
        if name in self._accumulators:
            raise InvalidProgramError(
                f"the accumulator {name!r} exists already: give the accumulator of each function "
                "its own name, or get the existing one with get_accumulator"
            )
        if not self._accumulators:
            self._on_first()
        self._accumulators[name] = accumulator

    def get(self, name: str) -> Accumulator[object, object] | None:
        """Return the accumulator of that name, or None."""
        return self._accumulators.get(name)

    def get_or_add(self, name: str, kind: type[Any]) -> Any:
        """Return the accumulator of that name and class, a new one if there is none.

        Raises:
            InvalidProgramError: The name belongs to an accumulator of another class.
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
        """Return the accumulators as sent to the JobMaster; empty if there are none.

        Raises:
            InvalidProgramError: The accumulators are too large to be reported.
        """
        serialize = TypeSerializer[Any]().serialize
        values = {name: serialize(one) for name, one in self._accumulators.items()}
        size = sum(len(name) + len(value) for name, value in values.items())
        if size > MAX_ACCUMULATOR_BYTES:
            largest = max(values, key=lambda name: len(values[name]))
            raise InvalidProgramError(
                f"the accumulators of this task have {size} bytes, of which {largest!r:.80} has "
                f"{len(values[largest])}; a task reports at most {MAX_ACCUMULATOR_BYTES} bytes of "
                "them: emit large results to a sink, or keep them in state"
            )
        return {
            name: msgspec.msgpack.Ext(ACCUMULATOR_EXTENSION, value)
            for name, value in values.items()
        }

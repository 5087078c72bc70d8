"""Stored values of the current key, under the names of the internal states of PyFlink's workers.

PyFlink's ``get_internal_state()`` returns the bag of values that its workers exchange with Flink.
Public programs read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class InternalValues:
    """The values of a list state."""

    def __init__(
        self,
        get: Callable[[], Iterable[object]],
        add: Callable[[object], None],
        clear: Callable[[], None],
    ) -> None:
        """Create a view of a state.

        Args:
            get: Returns the values.
            add: Appends one value.
            clear: Removes all values.
        """
        self._get = get
        self.add = add
        self.clear = clear

    def read(self) -> Iterator[object]:
        """Return an iterator over the values."""
        return iter(self._get())


class InternalValue:
    """The only value of a state: its value, fold or accumulator."""

    def __init__(
        self, get: Callable[[], object], put: Callable[[object], None], clear: Callable[[], None]
    ) -> None:
        """Create a view of a state.

        Args:
            get: Returns the value, or None.
            put: Sets the value of an empty state.
            clear: Removes the value.
        """
        self._get = get
        self._put = put
        self.clear = clear

    def read(self) -> Iterator[object]:
        """Return an iterator over the value, if there is one."""
        value = self._get()
        return iter(() if value is None else (value,))

    def add(self, value: object) -> None:
        """Set the value.

        Raises:
            InvalidProgramError: The state has a value.
        """
        if self._get() is not None:
            raise InvalidProgramError(
                "add() of an internal state that has a value: call its clear() before, or "
                "update() or add() of the state itself"
            )
        self._put(value)

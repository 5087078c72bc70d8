"""The states that the functions of an operator have opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import BasicTypeInfo, TypeInformation

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.datastream.state import StateDescriptor


class OpenedStates:
    """Opens states by their descriptors, each once.

    Functions may ask for their states with each record, even by a new descriptor.  If it equals the
    last one of that name, they get the same view.
    """

    def __init__(self, open_state: Callable[[str, Any], Any]) -> None:
        """Start without opened states.

        Args:
            open_state: Creates a view, given a kind and a descriptor.
        """
        self._open_state = open_state
        #: By kind and name, the attributes of the last descriptor and its view.
        self._views: dict[tuple[str, str], tuple[dict[str, Any], Any]] = {}

    def view(self, kind: str, descriptor: StateDescriptor) -> Any:
        """Return a view of a state of that kind."""
        name = kind, descriptor.get_name()
        said = vars(descriptor)
        found = self._views.get(name)
        if found is not None and _is_same(found[0], said):
            return found[1]
        view = self._open_state(kind, descriptor)
        self._views[name] = dict(said), view
        return view


def _is_same(one: dict[str, object], other: dict[str, object]) -> bool:
    """Return whether two descriptors have equal types and the same functions."""
    return len(one) == len(other) and all(
        value is other.get(name) or _is_equal(value, other.get(name)) for name, value in one.items()
    )


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, BasicTypeInfo):
        return one == other  # type: ignore[no-any-return]
    if isinstance(one, TypeInformation):
        # Row types are equal whatever their field names.
        return one == other and repr(one) == repr(other)
    return isinstance(one, str) and one == other

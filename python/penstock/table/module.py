"""Module and ModuleEntry: named sets of built-in functions."""

from __future__ import annotations

__all__ = ["Module", "ModuleEntry"]


class Module:
    """A set of built-in functions; penstock has only the module ``core``."""


class ModuleEntry:
    """A loaded module, and whether it is in use.

    Args:
        name: The name of the module.
        used: Whether its functions can be called.
    """

    def __init__(self, name: str, used: bool) -> None:
        self._name = name
        self._used = used

    def name(self) -> str:
        """Return the name of the module."""
        return self._name

    def used(self) -> bool:
        """Return whether the module's functions can be called."""
        return self._used

    def __repr__(self) -> str:
        return f"ModuleEntry(name='{self._name}', used={self._used})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleEntry) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self._name, self._used))

    def __lt__(self, other: ModuleEntry) -> bool:
        return self._name < other._name

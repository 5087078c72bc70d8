"""The declared types of an operator's states: those of a snapshot, and those of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.serialization.state_types import migration, type_text
from penstock.taskexecutor.state.time_to_live import Aged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.serialization.state_types import Migration
    from penstock.taskexecutor.state.table import StateTable


class DeclaredTypes:
    """Types by the names of states; restored values are brought to the type that is declared."""

    def __init__(self) -> None:
        """Knows no states."""
        self._declared: dict[str, tuple[Any, str, bool]] = {}
        self._restored: dict[str, str] = {}

    def restore(self, types: Mapping[str, str]) -> None:
        """States with these types are about to be restored."""
        self._restored.update(types)

    def pending(self) -> Iterator[tuple[str, str, Migration, bool]]:
        """Of the restored states that had been opened before: kind, name, migration, and ttl.

        Raises:
            InvalidProgramError: As `declare`.
        """
        for key in self._restored.keys() & self._declared.keys():
            kind, _, name = key.partition(":")
            type_info, _, ttl = self._declared[key]
            migrate = self.declare(kind, name, type_info, ttl=ttl)
            if migrate is not None:
                yield kind, name, migrate, ttl

    def declare(self, kind: str, name: str, type_info: Any, *, ttl: bool = False) -> Migration:
        """A state is opened.

        Args:
            kind: Where it is kept: ``keyed``, ``split``, ``union`` or ``broadcast``.
            name: Its name.
            type_info: Its declared type.
            ttl: Whether it has a time to live.

        Returns:
            What brings restored values to the type; None when nothing is to be done.

        Raises:
            InvalidProgramError: Values of the restored type are none of this one.
        """
        key = f"{kind}:{name}"
        known = self._declared.get(key)
        if known is not None and known[0] is type_info and key not in self._restored:
            return None
        text = type_text(type_info, ttl=ttl)
        written = self._restored.get(key)
        found = None if written is None else migration(written, text, f"state {name!r}")
        self._restored.pop(key, None)
        self._declared[key] = (type_info, text, ttl)
        return found

    def texts(self) -> dict[str, str]:
        """What a snapshot keeps, also of states that were restored and never opened."""
        return {**self._restored, **{key: text for key, (_, text, _) in self._declared.items()}}


def migrate_table(table: StateTable, migrate: Migration, *, ttl: bool) -> None:
    """Brings all values of a keyed state to its type."""
    for namespace, identity, stored in list(table):
        table.map(namespace).put(identity, _migrated(stored, migrate, ttl=ttl))


def _migrated(stored: Any, migrate: Any, *, ttl: bool) -> Any:
    if not ttl:
        return migrate(stored)
    if isinstance(stored, Aged):
        return Aged(migrate(stored.value), stored.time_ms)
    if isinstance(stored, dict):
        values = migrate({key: aged.value for key, aged in stored.items()})
        return {key: Aged(values[key], aged.time_ms) for key, aged in stored.items()}
    values = migrate([aged.value for aged in stored])
    return [Aged(value, aged.time_ms) for value, aged in zip(values, stored, strict=True)]

"""The declared types of an operator's states, in a snapshot and in the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import InvalidProgramError
from penstock.serialization.type_serializer import TypeSerializer, TypeSerializerSnapshot
from penstock.taskexecutor.state.time_to_live import Aged
from penstock.taskexecutor.time.processing_time import wall_clock_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.taskexecutor.state.table import StateTable


class Migration(NamedTuple):
    """Conversion of a state's restored values to the declared type.

    Attributes:
        values: Converts to the declared type; None when the type is the same.
        was_aged: Whether the state had a time to live.
        is_aged: Whether it has one now.
        now_ms: The time assigned to values that had no time to live.
    """

    values: Callable[[Any], Any] | None
    was_aged: bool
    is_aged: bool
    now_ms: int


class DeclaredTypes:
    """Types by state name; restored values are converted to the declared type."""

    def __init__(self, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        """Start without states; ``clock_ms`` is the clock for times to live."""
        self._clock_ms = clock_ms
        self._declared: dict[str, tuple[Any, str, bool]] = {}
        self._restored: dict[str, str] = {}

    def restore(self, types: Mapping[str, str]) -> None:
        """Register the types of states that are about to be restored."""
        self._restored.update(types)

    def pending(self) -> Iterator[tuple[str, str, Migration]]:
        """Yield kind, name and migration of each restored state that was already open.

        Raises:
            InvalidProgramError: See `declare`.
        """
        for key in self._restored.keys() & self._declared.keys():
            kind, _, name = key.partition(":")
            type_info, _, ttl = self._declared[key]
            migrate = self.declare(kind, name, type_info, ttl=ttl)
            if migrate is not None:
                yield kind, name, migrate

    def declare(
        self, kind: str, name: str, type_info: Any, *, ttl: bool = False
    ) -> Migration | None:
        """Declare the type of a state that is being opened.

        Args:
            kind: The kind of state: ``keyed``, ``split``, ``union`` or ``broadcast``.
            name: Its name.
            type_info: Its declared type.
            ttl: Whether it has a time to live.

        Returns:
            The migration of restored values to the type; None if none is needed.

        Raises:
            InvalidProgramError: The restored type does not convert to this one, or the state is
                open with another type.
        """
        key = f"{kind}:{name}"
        known = self._declared.get(key)
        if known is not None and key not in self._restored:
            if known[0] is type_info:
                return None
            # Row types are equal whatever their field names; their texts show the names.
            if str(known[0]) != str(type_info):
                msg = (
                    f"state {name!r} is of {_named(known[0])} in this operator; one of "
                    f"{_named(type_info)} needs another name"
                )
                raise InvalidProgramError(msg)
        serializer: TypeSerializer[Any] = TypeSerializer(type_info, ttl=ttl)
        declared = serializer.snapshot_configuration()
        written = self._restored.get(key)
        found = None
        if written is not None:
            former = TypeSerializerSnapshot.read(written)
            values = declared.migration_from(former, f"state {name!r}")
            was_aged = former.has_time_to_live()
            if values is not None or was_aged != ttl:
                found = Migration(values, was_aged, ttl, self._clock_ms())
        self._restored.pop(key, None)
        self._declared[key] = (type_info, declared.write(), ttl)
        return found

    def texts(self) -> dict[str, str]:
        """Return the types for a snapshot, also of states that were restored and never opened."""
        return {**self._restored, **{key: text for key, (_, text, _) in self._declared.items()}}


def _named(type_info: object) -> str:
    return "no declared type" if type_info is None else f"type {type_info}"


def migrate_table(table: StateTable, migration: Migration) -> None:
    """Convert all values of a keyed state to the declared type."""
    for namespace, identity, stored in table:
        table.map(namespace).put(identity, _migrated(table.kind, stored, migration))


def _migrated(kind: str, stored: Any, migration: Migration) -> object:
    values, was_aged, is_aged, now_ms = migration
    # A list and a map have a time for each element.
    if kind == "list":
        times = [aged.time_ms if was_aged else now_ms for aged in stored]
        plain = [aged.value for aged in stored] if was_aged else stored
        plain = plain if values is None else values(plain)
        return [*map(Aged, plain, times)] if is_aged else plain
    if kind == "map":
        times_of = {key: aged.time_ms if was_aged else now_ms for key, aged in stored.items()}
        plain = {key: aged.value for key, aged in stored.items()} if was_aged else stored
        plain = plain if values is None else values(plain)
        return {key: Aged(plain[key], times_of[key]) for key in plain} if is_aged else plain
    plain = stored.value if was_aged else stored
    plain = plain if values is None else values(plain)
    return Aged(plain, stored.time_ms if was_aged else now_ms) if is_aged else plain

"""State of relational operators by the text of a key, whose entries may expire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.state_ttl_config import StateTtlConfig
from penstock.taskexecutor.state.time_to_live import Aged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.state.time_to_live import IncrementalCleanup, TimeToLive


class KeyedRows(Protocol):
    """Values by the text of a key."""

    def get(self, key: str) -> Any:
        """Return the value of a key, or None."""

    def put(self, key: str, value: object) -> None:
        """Set the value of a key."""

    def remove(self, key: str) -> object:
        """Remove a key."""

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return all keys with their values."""

    def values(self) -> Iterator[Any]:
        """Return all values."""

    def __len__(self) -> int: ...


class ExpiringRows:
    """Values that expire a time after they were last written.

    As in Flink, expired values are never returned.  Each access checks a few other entries and
    removes expired ones.

    Attributes:
        lifetime: The time to live.
    """

    def __init__(
        self, contents: Any, lifetime: TimeToLive, cleanup: IncrementalCleanup | None
    ) -> None:
        """Wrap the entries of a table whose values are `Aged`."""
        self._contents = contents
        self.lifetime = lifetime
        self._cleanup = cleanup

    def get(self, key: str) -> Any:
        """Return the value of a key, or None if there is none or it has expired."""
        if self._cleanup is not None:
            self._cleanup.run()
        aged = self._contents.get(key)
        if aged is None:
            return None
        if self.lifetime.expired(aged.time_ms):
            self._contents.remove(key)
            return None
        return aged.value

    def put(self, key: str, value: object) -> None:
        """Set the value of a key and restart its time to live."""
        self._contents.put(key, Aged(value, self.lifetime.now()))

    def remove(self, key: str) -> None:
        """Remove a key."""
        self._contents.remove(key)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return the keys and values that have not expired."""
        for key, aged in self._contents.items():
            if not self.lifetime.expired(aged.time_ms):
                yield key, aged.value

    def values(self) -> Iterator[Any]:
        """Return the values that have not expired."""
        return (value for _, value in self.items())

    def __len__(self) -> int:
        return len(self._contents)


def keyed_rows(context: OperatorContext, name: str, ttl_ms: int) -> KeyedRows:
    """Return the entries of a named state.

    State of a snapshot that was taken with another time to live, or without one, is converted.

    Args:
        context: The operator's context.
        name: The name of the state.
        ttl_ms: The time after which an entry that was not written expires; 0 for never.
    """
    descriptor = ValueStateDescriptor(name, Types.PICKLED_BYTE_ARRAY())
    if ttl_ms > 0:
        descriptor.enable_time_to_live(
            StateTtlConfig.new_builder(Time.milliseconds(ttl_ms)).build()
        )
    table, lifetime, cleanup = context.keyed_state.expiring_table(descriptor)
    contents: Any = table.map(None)
    if lifetime is None:
        rows: KeyedRows = contents
        return rows
    return ExpiringRows(contents, lifetime, cleanup)

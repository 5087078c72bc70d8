"""Keyed states whose entries expire: of a list each element, of a map each pair by itself.

Every value is kept with the time at which it was last written (or read, if so configured).
Expired ones are invisible and removed when they are met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.state.heap import (
    HeapState,
    KeyContext,
    ListOperations,
    MapOperations,
    map_key,
)
from penstock.taskexecutor.state.time_to_live import Aged, TimeToLive

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.state.table import StateTable


class TtlState(HeapState):
    """Base of the states with a time to live."""

    def __init__(
        self,
        context: KeyContext,
        table: StateTable,
        ttl: TimeToLive,
        check: Callable[[Any], None] | None = None,
    ) -> None:
        """Opens a view whose entries live as long as ``ttl`` says."""
        super().__init__(context, table, check)
        self._ttl = ttl

    def _aged(self, value: Any) -> Aged:
        if self._check is not None:
            self._check(value)
        return Aged(value, self._ttl.now())

    def _visible(self, aged: Aged) -> bool:
        """Whether an entry may be read; touches it if reads prolong its life."""
        if self._ttl.expired(aged.time_ms):
            return self._ttl.return_expired
        if self._ttl.on_read:
            aged.time_ms = self._ttl.now()
        return True

    def _get_value(self) -> Any:
        aged = self._keys.get(self._context.current_key)
        if aged is None:
            return None
        expired = self._ttl.expired(aged.time_ms)
        visible = self._visible(aged)
        if expired:
            self.clear()
        return aged.value if visible else None


class TtlValueState(TtlState):
    """One value that expires."""

    def value(self) -> Any:
        """The value, None when there is none or it has expired."""
        return self._get_value()

    def update(self, value: Any) -> None:
        """Replaces the value; None removes it."""
        if value is None:
            self.clear()
        else:
            self._keys.put(self._context.current_key, self._aged(value))


class TtlListState(ListOperations, TtlState):
    """A list whose elements expire one by one."""

    def get(self) -> list[Any]:
        """The elements that have not expired."""
        entries = self._keys.get(self._context.current_key)
        if entries is None:
            return []
        expired = self._ttl.expired
        kept = [entry for entry in entries if not expired(entry.time_ms)]
        values = [entry.value for entry in entries if self._visible(entry)]
        if kept:
            self._keys.put(self._context.current_key, kept)
        else:
            self.clear()
        return values

    def add(self, value: Any) -> None:
        """Appends one element."""
        entries = self._keys.get(self._context.current_key)
        if entries is None:
            self._keys.put(self._context.current_key, [self._aged(value)])
        else:
            entries.append(self._aged(value))


class TtlMapState(MapOperations, TtlState):
    """A dictionary whose pairs expire one by one."""

    def _map(self) -> dict[Any, Any]:
        content = self._keys.get(self._context.current_key)
        if content is None:
            return {}
        visible = {key: aged.value for key, aged in content.items() if self._visible(aged)}
        expired = [key for key, aged in content.items() if self._ttl.expired(aged.time_ms)]
        for key in expired:
            del content[key]
        if not content:
            self.clear()
        return visible

    def get(self, key: Any) -> Any:
        """The value of a key, None when there is none or it has expired."""
        content = self._keys.get(self._context.current_key)
        aged = None if content is None else content.get(map_key(key))
        return aged.value if aged is not None and self._visible(aged) else None

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        if self._check_key is not None:
            self._check_key(key)
        content = self._keys.get(self._context.current_key)
        if content is None:
            self._keys.put(self._context.current_key, {map_key(key): self._aged(value)})
        else:
            content[map_key(key)] = self._aged(value)

    def contains(self, key: Any) -> bool:
        """Whether there is such a key that has not expired."""
        content = self._keys.get(self._context.current_key)
        aged = None if content is None else content.get(map_key(key))
        return aged is not None and self._visible(aged)


class TtlReducingState(TtlState):
    """One value into which others are folded, and that expires."""

    def __init__(
        self,
        context: KeyContext,
        table: StateTable,
        ttl: TimeToLive,
        reduce: Callable[[Any, Any], Any],
        check: Callable[[Any], None] | None = None,
    ) -> None:
        """Opens a view; ``reduce(fold, value)`` gives the next fold."""
        super().__init__(context, table, ttl, check)
        self._reduce = reduce

    def get(self) -> Any:
        """The fold, None when nothing was added or it has expired."""
        return self._get_value()

    def add(self, value: Any) -> None:
        """Folds one value in."""
        fold = self._get_value()
        if fold is not None:
            value = self._reduce(fold, value)
        self._keys.put(self._context.current_key, self._aged(value))


class TtlAggregatingState(TtlState):
    """An accumulator that expires, seen through its result."""

    def __init__(
        self, context: KeyContext, table: StateTable, ttl: TimeToLive, function: Any
    ) -> None:
        """Opens a view; ``function`` is an AggregateFunction."""
        super().__init__(context, table, ttl)
        self._function = function

    def get(self) -> Any:
        """The result of the accumulator, None when nothing was added or it has expired."""
        accumulator = self._get_value()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Adds one value."""
        accumulator = self._get_value()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        added = self._function.add(value, accumulator)
        self._keys.put(self._context.current_key, self._aged(added))

"""Keyed states whose entries expire; list elements and map pairs expire one by one.

Every value is stored with the time at which it was last written (or read, if so configured).
Expired values are removed when an access finds them, which returns them once more if so
configured; those of a list are removed when no others are left.  Each access also removes others
(``IncrementalCleanup``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.compiled import never_changes
from penstock.taskexecutor.state.heap import (
    HeapState,
    KeyContext,
    ListOperations,
    MapOperations,
    map_key,
)
from penstock.taskexecutor.state.internal_state import InternalValue
from penstock.taskexecutor.state.time_to_live import Aged, TimeToLive

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.state.table import StateTable
    from penstock.taskexecutor.state.type_check import ValueCheck


class TtlState(HeapState):
    """Base of the states with a time to live."""

    def __init__(
        self,
        context: KeyContext,
        table: StateTable,
        ttl: TimeToLive,
        check: ValueCheck | None = None,
    ) -> None:
        """Create a view whose entries live as long as ``ttl`` says."""
        super().__init__(context, table, check)
        self._ttl = ttl
        self._cleanup: Callable[[], None] | None = None

    def run_at_access(self, cleanup: Callable[[], None]) -> None:
        """Call ``cleanup`` before each access."""
        self._cleanup = cleanup

    def clear(self) -> None:
        """Remove the entry of the current key."""
        self._accessed()
        self._drop()

    def _accessed(self) -> None:
        if self._cleanup is not None:
            self._cleanup()

    def _drop(self) -> None:
        self._keys.remove(self._key())

    def _aged(self, value: object) -> Aged:
        if self._check is not None:
            self._check.check(value)
        return Aged(value, self._ttl.now())

    def _touch(self, aged: Aged) -> None:
        """Prolong the life of an unexpired entry after a read, if so configured."""
        if self._ttl.on_read:
            aged.time_ms = self._ttl.now()

    def _get_value(self) -> object:
        self._accessed()
        aged = self._keys.get(self._key())
        if aged is None:
            return None
        if self._ttl.expired(aged.time_ms):
            self._drop()
            return aged.value if self._ttl.return_expired else None
        self._touch(aged)
        return aged.value

    def _lend(self, element: object, value: object) -> None:
        """Note a value of the current key that was stored or returned; see `LentValues`."""
        if self.lends:
            self._context.lent.lend(self, self._keys, self._key(), element, value)

    def _lend_part(self, value: object) -> None:
        """Note a value that the entry of the current key may now contain."""
        if self.lends:
            self._context.lent.lend_part(self, self._keys, self._key(), value)


class TtlValueState(TtlState):
    """One value that expires."""

    def value(self) -> object:
        """Return the value, or None if there is none or it has expired."""
        value = self._get_value()
        self._lend(None, value)
        return value

    def update(self, value: object) -> None:
        """Replace the value; None removes it."""
        self._accessed()
        if value is None:
            self._drop()
        else:
            self._keys.put(self._key(), self._aged(value))
            self._lend(None, value)

    def get_internal_state(self) -> InternalValue:
        """Return the stored value under the names of PyFlink's workers."""
        return InternalValue(self.value, self.update, self.clear)


class TtlListState(ListOperations, TtlState):
    """A list whose elements expire one by one.

    As in Flink, readable expired elements remain until all have expired, or until a read prolongs
    the life of the others.
    """

    def get(self) -> list[object]:
        """Return the readable elements."""
        self._accessed()
        key = self._key()
        entries = self._keys.get(key)
        if entries is None:
            return []
        ttl = self._ttl
        kept = [entry for entry in entries if not ttl.expired(entry.time_ms)]
        visible = entries if ttl.return_expired else kept
        for entry in kept:
            self._touch(entry)
        if not kept:
            self._drop()
        elif len(kept) < len(entries) and (ttl.on_read or not ttl.return_expired):
            self._keys.put(key, kept)
        self._lend(None, self._keys.get(key))
        return [entry.value for entry in visible]

    def add(self, value: object) -> None:
        """Append one element."""
        self.add_all((value,))

    def add_all(self, values: Iterable[object]) -> None:
        """Append several elements."""
        self._accessed()
        added = [self._aged(value) for value in values]
        key = self._key()
        entries = self._keys.get(key)
        if entries is not None:
            entries.extend(added)
        elif added:
            self._keys.put(key, added)
        for aged in added:
            self._lend_part(aged.value)

    def update(self, values: Iterable[object]) -> None:
        """Replace all elements."""
        self._accessed()
        entries = [self._aged(value) for value in values]
        if entries:
            self._keys.put(self._key(), entries)
            self._lend(None, entries)
        else:
            self._drop()


class TtlMapState(MapOperations, TtlState):
    """A dictionary whose pairs expire one by one."""

    def _map(self) -> dict[object, object]:
        self._accessed()
        content = self._keys.get(self._key())
        if content is None:
            return {}
        visible, expired = {}, []
        for key, aged in content.items():
            is_expired = self._ttl.expired(aged.time_ms)
            if is_expired:
                expired.append(key)
            else:
                self._touch(aged)
            if not is_expired or self._ttl.return_expired:
                visible[key] = aged.value
        for key in expired:
            self._remove(content, key)
        return visible

    def get(self, key: object) -> object:
        """Return the value of a key, or None if there is none or it has expired."""
        aged = self._find(key)
        if aged is None:
            return None
        self._lend(map_key(key), aged.value)
        return aged.value

    def contains(self, key: object) -> bool:
        """Return whether the key exists and has not expired."""
        return self._find(key) is not None

    def put(self, key: object, value: object) -> None:
        """Set the value of a key."""
        self._accessed()
        self._put(key, value)

    def put_all(self, content: Mapping[object, object] | Iterable[tuple[object, object]]) -> None:
        """Set several pairs, given as a dictionary or as pairs of key and value."""
        self._accessed()
        for key, value in content.items() if isinstance(content, Mapping) else content:
            self._put(key, value)

    def is_empty(self) -> bool:
        """Return whether no readable entry exists, without removing or prolonging any."""
        self._accessed()
        content = self._keys.get(self._key()) or {}
        return not any(self._ttl.visible(aged.time_ms) for aged in content.values())

    def remove(self, key: object) -> None:
        """Remove a key, if present."""
        self._accessed()
        super().remove(key)

    def _find(self, key: object) -> Aged | None:
        """Return a readable pair, or None; an expired one is removed."""
        self._accessed()
        content = self._keys.get(self._key())
        aged: Aged | None = None if content is None else content.get(map_key(key))
        if aged is None:
            return None
        if self._ttl.expired(aged.time_ms):
            self._remove(content, map_key(key))
            return aged if self._ttl.return_expired else None
        self._touch(aged)
        return aged

    def _put(self, key: object, value: object) -> None:
        if self._check_key is not None:
            self._check_key.check(key)
        aged = self._aged(value)
        current = self._key()
        content = self._keys.get(current)
        key = map_key(key)
        if content is None:
            self._keys.put(current, {key: aged})
        else:
            content[key] = aged
        self.changes += 1
        self._lend(key, value)

    def _remove(self, content: dict[object, object], key: object) -> None:
        content.pop(key, None)
        if not content:
            self._drop()


class TtlReducingState(TtlState):
    """A value that others are folded into, and that expires."""

    def __init__(
        self,
        context: KeyContext,
        table: StateTable,
        ttl: TimeToLive,
        reduce: Callable[[object, object], object],
        check: ValueCheck | None = None,
    ) -> None:
        """Create a view; ``reduce(fold, value)`` returns the next fold."""
        super().__init__(context, table, ttl, check)
        self._reduce = reduce

    def get(self) -> object:
        """Return the fold, or None if nothing was added or it has expired."""
        fold = self._get_value()
        self._lend(None, fold)
        return fold

    def add(self, value: object) -> None:
        """Fold one value in."""
        self._lend_part(value)
        fold = self._get_value()
        if fold is not None:
            value = self._reduce(fold, value)
        self._keys.put(self._key(), self._aged(value))

    def get_internal_state(self) -> InternalValue:
        """Return the stored fold under the names of PyFlink's workers."""
        return InternalValue(self.get, self.add, self.clear)


class TtlAggregatingState(TtlState):
    """An accumulator that expires, read through its result."""

    def __init__(
        self, context: KeyContext, table: StateTable, ttl: TimeToLive, function: Any
    ) -> None:
        """Create a view; ``function`` is an AggregateFunction."""
        super().__init__(context, table, ttl)
        self._function = function

    def get(self) -> object:
        """Return the result of the accumulator, or None if nothing was added or it has expired."""
        accumulator = self._get_value()
        if accumulator is None:
            return None
        result = self._function.get_result(accumulator)
        if not never_changes(result):
            # The result may be the accumulator, or share a part of it.
            self._lend(None, accumulator)
        return result

    def add(self, value: object) -> None:
        """Add one value."""
        self._lend_part(value)
        accumulator = self._get_value()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        added = self._function.add(value, accumulator)
        self._keys.put(self._key(), self._aged(added))

    def get_internal_state(self) -> InternalValue:
        """Return the stored accumulator under the names of PyFlink's workers."""
        return InternalValue(self._accumulator, self._put_accumulator, self.clear)

    def _accumulator(self) -> object:
        accumulator = self._get_value()
        self._lend(None, accumulator)
        return accumulator

    def _put_accumulator(self, accumulator: object) -> None:
        self._keys.put(self._key(), self._aged(accumulator))
        self._lend(None, accumulator)

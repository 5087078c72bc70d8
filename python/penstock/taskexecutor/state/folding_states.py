# cython: annotation_typing=False, boundscheck=True, binding=False
"""Keyed states in memory that fold values; one source, two uses, as ``heap_states``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.compiled.value_copies import never_changes
from penstock.taskexecutor.state.internal_state import InternalValue

# Relative: compiled, this is the class that the .pxd cimports.
from .heap_states import HeapState  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.taskexecutor.state.heap_states import KeyContext
    from penstock.taskexecutor.state.table import StateTable
    from penstock.taskexecutor.state.type_check import ValueCheck


class HeapReducingState(HeapState):
    """A value that others are folded into."""

    def __init__(
        self,
        context: KeyContext,
        table: StateTable,
        reduce: Callable[[object, object], object],
        check: ValueCheck | None = None,
    ) -> None:
        """Create a view; ``reduce(fold, value)`` returns the next fold."""
        HeapState.__init__(self, context, table, check)
        self._reduce = reduce

    def get(self) -> object:
        """Return the fold, or None if nothing was added."""
        key = self._key()
        fold = self._keys.get(key)
        if self.lends:
            self._context.lent.lend(self, self._keys, key, None, fold)
        return fold

    def add(self, value: object) -> None:
        """Fold in one value."""
        key = self._key()
        if self.lends:
            # The fold may be the value, or contain a part of it.
            self._context.lent.lend_part(self, self._keys, key, value)
        position = self._keys.find(key)
        fold = self._keys.at(position) if position >= 0 else None
        if fold is not None:
            value = self._reduce(fold, value)
        if self._check is not None:
            self._check.check(value)
        self._keys.put_at(position, key, value)

    def get_internal_state(self) -> InternalValue:
        """Return the stored fold under the names of PyFlink's workers."""
        return InternalValue(self.get, self.add, self.clear)

    def merge_namespaces(self, target: object, sources: Iterable[object]) -> None:
        """Fold the current key's values of other namespaces into that of ``target``."""
        key = self._key()
        merged = self._table.map(target)
        for source in sources:
            value = self._table.map(source).remove(key)
            if value is not None:
                fold = merged.get(key)
                merged.put(key, value if fold is None else self._reduce(fold, value))
                if self.lends:
                    self._context.lent.lend(self, merged, key, None, merged.get(key))


class HeapAggregatingState(HeapState):
    """An accumulator of added values, read through its result."""

    def __init__(
        self,
        context: KeyContext,
        table: StateTable,
        function: Any,
        add: Callable[[object, object], object],
    ) -> None:
        """Create a view of an AggregateFunction's state; ``add`` replaces its method."""
        HeapState.__init__(self, context, table)
        self._function = function
        self._add = add
        self._get_result = function.get_result

    def get(self) -> object:
        """Return the result of the accumulator, or None if nothing was added."""
        key = self._key()
        accumulator = self._keys.get(key)
        if accumulator is None:
            return None
        result: Any = self._get_result(accumulator)
        if self.lends and not never_changes(result):
            # The result may be the accumulator, or share a part of it.
            self._context.lent.lend(self, self._keys, key, None, accumulator)
        return result

    def add(self, value: object) -> None:
        """Add one value."""
        key = self._key()
        if self.lends:
            # The accumulator may be the value, or contain a part of it.
            self._context.lent.lend_part(self, self._keys, key, value)
        position = self._keys.find(key)
        accumulator = self._keys.at(position) if position >= 0 else None
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._keys.put_at(position, key, self._add(value, accumulator))

    def get_internal_state(self) -> InternalValue:
        """Return the stored accumulator under the names of PyFlink's workers."""
        return InternalValue(self._accumulator, self._put_accumulator, self.clear)

    def _accumulator(self) -> object:
        key = self._key()
        accumulator = self._keys.get(key)
        if self.lends:
            self._context.lent.lend(self, self._keys, key, None, accumulator)
        return accumulator

    def _put_accumulator(self, accumulator: object) -> None:
        key = self._key()
        self._keys.put(key, accumulator)
        if self.lends:
            self._context.lent.lend(self, self._keys, key, None, accumulator)

    def merge_namespaces(self, target: object, sources: Iterable[object]) -> None:
        """Merge the current key's accumulators of other namespaces into that of ``target``."""
        key = self._key()
        merged = self._table.map(target)
        for source in sources:
            accumulator = self._table.map(source).remove(key)
            if accumulator is not None:
                fold = merged.get(key)
                merged.put(
                    key, accumulator if fold is None else self._function.merge(fold, accumulator)
                )
                if self.lends:
                    self._context.lent.lend(self, merged, key, None, merged.get(key))

# cython: annotation_typing=False, boundscheck=True, binding=False
# Without binding, the interpreter calls methods by the fast path for builtin methods.
"""Keyed states in memory: views of a state table for the current key and namespace.

States hold and return the objects themselves: a change in place changes the state.  States that
functions use note such values (`LentValues`); ``isolated_states`` copies those of windows.

One source, two uses: it runs as plain Python, and it is compiled by Cython with the C declarations
of ``native/penstock/_native/state/heap_states.pxd``.  Import it through
``penstock.taskexecutor.state.heap``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidProgramError
from penstock.runtime import load
from penstock.taskexecutor.state.internal_state import InternalValue, InternalValues

# Relative: compiled, these are the classes that the .pxd cimports.
from .lent_values import LentValues  # noqa: TID252
from .map_iterators import ITEMS, KEYS, VALUES, MapIterator  # noqa: TID252

if TYPE_CHECKING:
    from penstock.serialization.pure.keys import key_of
    from penstock.taskexecutor.state.table import CopyOnWriteStateMap, StateTable
    from penstock.taskexecutor.state.type_check import ValueCheck
else:
    key_of = load("key_of")


class NoKey:
    """Stand-in for the current key where there is none; differs from the key None.

    Attributes:
        operator: The name of the operator.
        place: The function that runs without a key, such as ``Counter.open()``.
        remedy: What the function can do instead.
    """

    def __init__(
        self,
        operator: str = "",
        place: str = "a function",
        remedy: str = (
            "use keyed state in the methods that are called for a key, as process_element and "
            "on_timer, and start there with a default where a state is empty"
        ),
    ) -> None:
        """Create a stand-in; its fields appear in error messages."""
        self.operator = operator
        self.place = place
        self.remedy = remedy

    def error(self, what: str) -> InvalidProgramError:
        """Return the error of a use of ``what`` without a key."""
        return InvalidProgramError(
            f"{self.place} of the operator {self.operator!r} uses {what}, but there is no current "
            f"key: {self.remedy}"
        )

    def __hash__(self) -> int:
        # A dict must not store anything under it.
        raise self.error("a timer")


class KeyContext:
    """Holder of an operator's current key.

    Attributes:
        current_key: The identity of the key, from a ``KeyReader``; ``no_key`` where there is none.
        no_key: Stands for the key where there is none.
        lent: Values of states that functions may change in place.
        on_key: Called after a record or timer selects its key; None for nothing.
    """

    def __init__(self) -> None:
        """Start without a key."""
        self.lent = LentValues()
        self.no_key = NoKey()
        self.current_key: Any = self.no_key
        self.on_key: Callable[[], None] | None = None

    def select_key(self, key: object) -> None:
        """Select the key of the next record or timer."""
        self.current_key = key
        if self.on_key is not None:
            self.on_key()

    def leave_key(self, no_key: NoKey) -> None:
        """Unset the current key before calling a function without a key."""
        self.current_key = self.no_key = no_key

    def iterated(
        self,
        state: Any,
        contents: Any,
        key: object,
        pairs: Iterator[tuple[object, object]],
        shown: int,
    ) -> MapIterator:
        """Return an iterator over the pairs of a map state; arguments as of `MapIterator`."""
        lent = self.lent if state.lends else None
        return MapIterator(state, contents, key, pairs, shown, lent)

    @property
    def key(self) -> Any:
        """The current key as functions see it."""
        return self.visible_key()

    def visible_key(self) -> Any:
        """Return the current key as functions see it; compiled code calls it without a look-up.

        Raises:
            InvalidProgramError: There is none.
        """
        key: Any = self.current_key
        kind = type(key)
        if kind is int or kind is str:
            return key
        if key is self.no_key:
            raise key.error("the current key")
        return key_of(key)


class HeapState:
    """The entry of the current key in the current namespace, which is initially None.

    Attributes:
        lends: Whether functions use the state and its values are mutable.
        changes: Number of changes of maps, which iterators compare.
    """

    def __init__(
        self, context: KeyContext, table: StateTable, check: ValueCheck | None = None
    ) -> None:
        """Create a view.

        Args:
            context: Has the current key.
            table: The entries.
            check: Raises on a value that the declared type cannot hold; None checks nothing.
        """
        self._context = context
        self._table = table
        self._check = check
        self._check_key: ValueCheck | None = None
        self._keys = table.map(None)
        self.lends = False
        self.changes = 0

    @property
    def name(self) -> str:
        """The name of the state's descriptor."""
        return self._table.name

    def _key(self) -> object:
        """Return the current key.

        Raises:
            InvalidProgramError: There is none.
        """
        key: Any = self._context.current_key
        if key is self._context.no_key:
            raise self._without_key()
        return key

    def _without_key(self) -> InvalidProgramError:
        """Return the error of an access without a key; hot paths inline the check of `_key`."""
        return self._context.no_key.error(f"the state {self._table.name!r}")

    def set_current_namespace(self, namespace: object) -> None:
        """Switch to a namespace.

        Must be called again after ``StateTable.drop_if_empty`` and before the next access.
        """
        self._keys = self._table.map(namespace)

    def clear(self) -> None:
        """Remove the entry of the current key."""
        self._keys.remove(self._key())

    # Lent values: see `LentValues`.

    def touch(self, contents: CopyOnWriteStateMap, key: object, element: object) -> None:
        """Mark an entry as changed."""
        del element
        contents.touch(key)

    def hold(self, contents: CopyOnWriteStateMap, key: object) -> None:
        """Keep an entry in memory while it counts as changed."""

    def keep_copy(
        self,
        contents: CopyOnWriteStateMap,
        key: object,
        element: object,
        copied: Callable[[object], object],
    ) -> None:
        """Replace the value of an entry by a copy."""
        del element
        value = contents.get(key)
        if value is not None:
            contents.put(key, copied(value))


class HeapValueState(HeapState):
    """One value."""

    def value(self) -> object:
        """Return the value, or None."""
        key: Any = self._context.current_key
        if key is self._context.no_key:
            raise self._without_key()
        value = self._keys.get(key)
        if self.lends:
            self._context.lent.lend(self, self._keys, key, None, value)
        return value

    def update(self, value: object) -> None:
        """Replace the value; None removes it.

        Raises:
            SerializationError: The declared type cannot hold the value.
        """
        if value is None:
            self.clear()
            return
        if self._check is not None:
            self._check.check(value)
        key: Any = self._context.current_key
        if key is self._context.no_key:
            raise self._without_key()
        self._keys.put(key, value)
        if self.lends:
            self._context.lent.lend(self, self._keys, key, None, value)

    def get_internal_state(self) -> InternalValue:
        """Return the stored value under the names of PyFlink's workers."""
        return InternalValue(self.value, self.update, self.clear)


_NAN = float("nan")


def map_key(key: Any) -> Any:
    """Return the key under which a map stores ``key``: the same, but all NaNs are one.

    A NaN equals only itself as an object, and sending or restoring it creates another object.
    """
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind is float:
        return key if key == key else _NAN
    if kind is tuple:
        items: tuple[Any, ...] = key
        for item in items:
            if map_key(item) is not item:
                return tuple([map_key(item) for item in items])
    elif kind.__hash__ is None:
        raise InvalidProgramError(
            f"a key of a map state is of type {kind.__module__}.{kind.__qualname__}, which is "
            "unhashable: use a hashable key instead, such as a tuple of its fields"
        )
    return key


class ListOperations(HeapState):
    """Methods of a list state that do not depend on expiry."""

    def get(self) -> list[object]:
        """Return the values; empty if there are none."""
        raise NotImplementedError(type(self).__name__ + ".get")

    def add(self, value: object) -> None:
        """Append one value."""
        raise NotImplementedError(type(self).__name__ + ".add")

    def add_all(self, values: Iterable[object]) -> None:
        """Append several values."""
        for value in values:
            self.add(value)

    def update(self, values: Iterable[object]) -> None:
        """Replace all values."""
        values = list(values)
        self.clear()
        self.add_all(values)

    def get_internal_state(self) -> InternalValues:
        """Return the stored values under the names of PyFlink's workers."""
        return InternalValues(self.get, self.add, self.clear)

    def __iter__(self) -> Iterator[object]:
        return iter(self.get())


_LIST_ITERATOR: type = type(iter([]))


class MapOperations(HeapState):
    """Methods of a map state that do not depend on expiry.

    ``keys``, ``values`` and ``items`` iterate over the result of ``_map``.
    """

    def _map(self) -> dict[object, object]:
        """Return the readable pairs."""
        raise NotImplementedError(type(self).__name__ + "._map")

    def get(self, key: object) -> object:
        """Return the value of a key, or None."""
        raise NotImplementedError(type(self).__name__ + ".get")

    def put(self, key: object, value: object) -> None:
        """Set the value of a key."""
        raise NotImplementedError(type(self).__name__ + ".put")

    def contains(self, key: object) -> bool:
        """Return whether the key exists."""
        raise NotImplementedError(type(self).__name__ + ".contains")

    def get_internal_state(self) -> MapOperations:
        """Return the state itself, which has the methods of the map in PyFlink's workers."""
        return self

    def check_keys(self, check: ValueCheck | None) -> None:
        """Set the check of keys against the declared type; None checks nothing."""
        self._check_key = check

    def put_all(self, content: Mapping[object, object] | Iterable[tuple[object, object]]) -> None:
        """Set several pairs, given as a dictionary or as pairs of key and value."""
        for key, value in content.items() if isinstance(content, Mapping) else content:
            self.put(key, value)

    def remove(self, key: object) -> None:
        """Remove a key, if present."""
        self._take_out(self._keys, self._key(), map_key(key))

    def clear(self) -> None:
        """Remove the entry of the current key."""
        self.changes += 1
        HeapState.clear(self)

    def items(self) -> Iterator[tuple[object, object]]:
        """Return an iterator over the pairs of key and value; it has ``remove``."""
        return self._iterated(ITEMS)

    def keys(self) -> Iterator[object]:
        """Return an iterator over the keys, as ``items``."""
        return self._iterated(KEYS)

    def values(self) -> Iterator[object]:
        """Return an iterator over the values, as ``items``."""
        return self._iterated(VALUES)

    def _iterated(self, shown: int) -> MapIterator:
        pairs = iter(self._map().items())
        return self._context.iterated(self, self._keys, self._key(), pairs, shown)

    def _take_out(self, contents: CopyOnWriteStateMap, current: object, key: object) -> None:
        """Remove a pair from a key's map."""
        self.changes += 1
        content = contents.get(current)
        if content is not None:
            content.pop(key, None)
            if not content:
                contents.remove(current)

    def remove_pair(
        self, contents: CopyOnWriteStateMap, current: object, key: object, pairs: Iterator[object]
    ) -> Iterator[Any]:
        """Remove the last pair of a `MapIterator`; return an iterator over the remaining ones.

        The iterator of a dictionary fails once the dictionary has changed.
        """
        if type(pairs) is not _LIST_ITERATOR:
            pairs = iter(list(pairs))
        self._take_out(contents, current, key)
        return pairs

    def keep_copy(
        self,
        contents: CopyOnWriteStateMap,
        key: object,
        element: object,
        copied: Callable[[object], object],
    ) -> None:
        """Replace a value of a key's map by a copy."""
        content = contents.get(key)
        if content is not None and element in content:
            content[element] = copied(content[element])

    def is_empty(self) -> bool:
        """Return whether the map has no key."""
        return not self._map()

    def __getitem__(self, key: object) -> Any:
        return self.get(key)

    def __setitem__(self, key: object, value: object) -> None:
        self.put(key, value)

    def __delitem__(self, key: object) -> None:
        self.remove(key)

    def __contains__(self, key: object) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[object]:
        return iter(self.keys())


class HeapListState(ListOperations):
    """A list of values."""

    def get(self) -> list[object]:
        """Return the values; empty if there are none."""
        key = self._key()
        values = self._keys.get(key)
        if values is None:
            return []
        if self.lends:
            self._context.lent.lend(self, self._keys, key, None, values)
        return list(values)

    def add(self, value: object) -> None:
        """Append one value."""
        if self._check is not None:
            self._check.check(value)
        key: Any = self._context.current_key
        if key is self._context.no_key:
            raise self._without_key()
        values = self._keys.get(key)
        if values is None:
            self._keys.put(key, [value])
        else:
            values.append(value)
        if self.lends:
            self._context.lent.lend_part(self, self._keys, key, value)

    def merge_namespaces(self, target: object, sources: Iterable[object]) -> None:
        """Append the current key's values of other namespaces to those of ``target``."""
        key = self._key()
        merged = self._table.map(target)
        for source in sources:
            values = self._table.map(source).remove(key)
            if values:
                kept = merged.get(key)
                if kept is None:
                    merged.put(key, values)
                else:
                    kept.extend(values)
                if self.lends:
                    self._context.lent.lend(self, merged, key, None, merged.get(key))


class HeapMapState(MapOperations):
    """A dictionary; keys compare as in Python, but NaN equals NaN."""

    def _map(self) -> dict[object, object]:
        return self._keys.get(self._key()) or {}

    def get(self, key: object) -> object:
        """Return the value of a key, or None."""
        current: Any = self._context.current_key
        if current is self._context.no_key:
            raise self._without_key()
        content = self._keys.get(current)
        if content is None:
            return None
        key = map_key(key)
        value = content.get(key)
        if self.lends:
            self._context.lent.lend(self, self._keys, current, key, value)
        return value

    def put(self, key: object, value: object) -> None:
        """Set the value of a key."""
        if self._check_key is not None:
            self._check_key.check(key)
        if self._check is not None and value is not None:
            self._check.check(value)
        current: Any = self._context.current_key
        if current is self._context.no_key:
            raise self._without_key()
        content = self._keys.get(current)
        key = map_key(key)
        if content is None:
            self._keys.put(current, {key: value})
        else:
            content[key] = value
        self.changes += 1
        if self.lends:
            self._context.lent.lend(self, self._keys, current, key, value)

    def contains(self, key: object) -> bool:
        """Return whether the key exists."""
        content = self._keys.get(self._key())
        return content is not None and map_key(key) in content

# cython: annotation_typing=False, boundscheck=True, binding=False
# Without binding the interpreter calls methods by the short way that it has for those of builtins.
"""Keyed states in memory: views of a state table for the current key and namespace.

Values are kept and given as they are; ``isolated_states`` copies them for user functions.

One source, two uses: it runs as plain Python, and it is compiled by Cython with the C declarations
of ``native/penstock/_native/heap_states.pxd``.  Import it through
``penstock.taskexecutor.state.heap``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidProgramError
from penstock.network import key_of

if TYPE_CHECKING:
    from penstock.taskexecutor.state.table import StateTable
    from penstock.taskexecutor.state.type_check import ValueCheck


class NoKey:
    """Stands for the current key where there is none, which differs from the key None.

    Attributes:
        operator: The name of the operator.
        place: The function that runs without a key, as ``Counter.open()``.
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
        """Names who has no key."""
        self.operator = operator
        self.place = place
        self.remedy = remedy

    def error(self, what: str) -> InvalidProgramError:
        """Return the error for ``what`` was used without a key."""
        return InvalidProgramError(
            f"{self.place} of the operator {self.operator!r} uses {what}, but there is no current "
            f"key: {self.remedy}"
        )

    def __hash__(self) -> int:
        # Nothing can be kept under it.
        raise self.error("a timer")


class KeyContext:
    """Where the current key of an operator is kept.

    Attributes:
        current_key: Its identity, as a ``KeyReader`` gives it; ``no_key`` where there is none.
        no_key: Stands for the key where there is none.
        on_key: Called when an element or a timer has selected its key; None for nothing.
    """

    def __init__(self) -> None:
        """Starts without a key."""
        self.no_key = NoKey()
        self.current_key: Any = self.no_key
        self.on_key: Callable[[], None] | None = None

    def select_key(self, key: Any) -> None:
        """An element or a timer of that key comes next."""
        self.current_key = key
        if self.on_key is not None:
            self.on_key()

    def leave_key(self, no_key: NoKey) -> None:
        """A function runs that is called for no key."""
        self.current_key = self.no_key = no_key

    @property
    def key(self) -> Any:
        """The current key as functions see it."""
        return self.visible_key()

    def visible_key(self) -> Any:
        """The current key as functions see it; compiled, called without a look-up.

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
    """The entry of the current key in the current namespace; the namespace starts as None."""

    def __init__(
        self, context: KeyContext, table: StateTable, check: ValueCheck | None = None
    ) -> None:
        """Opens a view.

        Args:
            context: Gives the current key.
            table: The entries.
            check: Raises on a value that the declared type cannot hold; None checks nothing.
        """
        self._context = context
        self._table = table
        self._check = check
        self._check_key: ValueCheck | None = None
        self._keys = table.map(None)

    def _key(self) -> Any:
        """Return the current key.

        Raises:
            InvalidProgramError: There is none.
        """
        key: Any = self._context.current_key
        if key is self._context.no_key:
            raise key.error(f"the state {self._table.name!r}")
        return key

    def set_current_namespace(self, namespace: Any) -> None:
        """Switches to a namespace.

        Must be called again before the next access once ``StateTable.drop_if_empty`` ran.
        """
        self._keys = self._table.map(namespace)

    def clear(self) -> None:
        """Removes the entry of the current key."""
        self._keys.remove(self._key())


class HeapValueState(HeapState):
    """One value."""

    def value(self) -> Any:
        """The value, None when there is none."""
        return self._keys.get(self._key())

    def update(self, value: Any) -> None:
        """Replaces the value; None removes it.

        Raises:
            SerializationError: The declared type cannot hold the value.
        """
        if value is None:
            self.clear()
            return
        if self._check is not None:
            self._check.check(value)
        self._keys.put(self._key(), value)


_NAN = float("nan")


def map_key(key: Any) -> Any:
    """A key of a map as the map holds it: that of a dictionary, but every NaN is the same.

    A NaN only equals itself as an object, and it becomes another one when it is sent or restored.
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
            "unhashable: use what tells keys apart instead, such as a tuple of its fields"
        )
    return key


class ListOperations(HeapState):
    """What a list state can do by its other methods, whether its values expire or not."""

    def get(self) -> list[Any]:
        """The values; empty when there are none."""
        raise NotImplementedError(type(self).__name__ + ".get")

    def add(self, value: Any) -> None:
        """Appends one value."""
        raise NotImplementedError(type(self).__name__ + ".add")

    def add_all(self, values: Iterable[Any]) -> None:
        """Appends several values."""
        for value in values:
            self.add(value)

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all values."""
        values = list(values)
        self.clear()
        self.add_all(values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())


class MapOperations(HeapState):
    """What a map state can do by its other methods, whether its pairs expire or not.

    ``keys``, ``values`` and ``items`` are views of what ``_map`` gives.
    """

    def _map(self) -> dict[Any, Any]:
        """The pairs that may be read."""
        raise NotImplementedError(type(self).__name__ + "._map")

    def get(self, key: Any) -> Any:
        """The value of a key, None when there is none."""
        raise NotImplementedError(type(self).__name__ + ".get")

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        raise NotImplementedError(type(self).__name__ + ".put")

    def contains(self, key: Any) -> bool:
        """Whether there is such a key."""
        raise NotImplementedError(type(self).__name__ + ".contains")

    def check_keys(self, check: ValueCheck | None) -> None:
        """Lets ``check`` raise on keys that the declared type cannot hold; None checks nothing."""
        self._check_key = check

    def put_all(self, content: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Sets several: a dictionary, or pairs of key and value."""
        for key, value in content.items() if isinstance(content, Mapping) else content:
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Removes a key; nothing happens when there is none."""
        content = self._keys.get(self._key())
        if content is not None:
            content.pop(map_key(key), None)
            if not content:
                self.clear()

    def items(self) -> Iterable[tuple[Any, Any]]:
        """The pairs of key and value."""
        return self._map().items()

    def keys(self) -> Iterable[Any]:
        """The keys."""
        return self._map().keys()

    def values(self) -> Iterable[Any]:
        """The values."""
        return self._map().values()

    def is_empty(self) -> bool:
        """Whether there is no key."""
        return not self._map()

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())


class HeapListState(ListOperations):
    """A list of values."""

    def get(self) -> list[Any]:
        """The values; empty when there are none."""
        return list(self._keys.get(self._key()) or ())

    def add(self, value: Any) -> None:
        """Appends one value."""
        if self._check is not None:
            self._check.check(value)
        key = self._key()
        values = self._keys.get(key)
        if values is None:
            self._keys.put(key, [value])
        else:
            values.append(value)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Appends the current key's values of other namespaces to those of ``target``."""
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


class HeapMapState(MapOperations):
    """A dictionary, whose keys are equal as Python says; NaN is one of them.

    ``keys``, ``values`` and ``items`` are views: changing the map while one is iterated over
    raises RuntimeError.
    """

    def _map(self) -> dict[Any, Any]:
        return self._keys.get(self._key()) or {}

    def get(self, key: Any) -> Any:
        """The value of a key, None when there is none."""
        content = self._keys.get(self._key())
        return None if content is None else content.get(map_key(key))

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        if self._check_key is not None:
            self._check_key.check(key)
        if self._check is not None and value is not None:
            self._check.check(value)
        current = self._key()
        content = self._keys.get(current)
        if content is None:
            self._keys.put(current, {map_key(key): value})
        else:
            content[map_key(key)] = value

    def contains(self, key: Any) -> bool:
        """Whether there is such a key."""
        content = self._keys.get(self._key())
        return content is not None and map_key(key) in content


class HeapReducingState(HeapState):
    """One value into which others are folded."""

    def __init__(
        self,
        context: KeyContext,
        table: StateTable,
        reduce: Callable[[Any, Any], Any],
        check: ValueCheck | None = None,
    ) -> None:
        """Opens a view; ``reduce(fold, value)`` gives the next fold."""
        super().__init__(context, table, check)
        self._reduce = reduce

    def get(self) -> Any:
        """The fold, None when nothing was added."""
        return self._keys.get(self._key())

    def add(self, value: Any) -> None:
        """Folds one value in."""
        key = self._key()
        position = self._keys.find(key)
        fold = self._keys.at(position) if position >= 0 else None
        if fold is not None:
            value = self._reduce(fold, value)
        if self._check is not None:
            self._check.check(value)
        self._keys.put_at(position, key, value)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Folds the current key's values of other namespaces into that of ``target``."""
        key = self._key()
        merged = self._table.map(target)
        for source in sources:
            value = self._table.map(source).remove(key)
            if value is not None:
                fold = merged.get(key)
                merged.put(key, value if fold is None else self._reduce(fold, value))


class HeapAggregatingState(HeapState):
    """An accumulator into which values are added, seen through its result."""

    def __init__(
        self, context: KeyContext, table: StateTable, function: Any, add: Callable[[Any, Any], Any]
    ) -> None:
        """Opens a view; ``function`` is an AggregateFunction, ``add`` does what its method does."""
        super().__init__(context, table)
        self._function = function
        self._add = add
        self._get_result = function.get_result

    def get(self) -> Any:
        """The result of the accumulator, None when nothing was added."""
        accumulator = self._keys.get(self._key())
        return None if accumulator is None else self._get_result(accumulator)

    def add(self, value: Any) -> None:
        """Adds one value."""
        key = self._key()
        position = self._keys.find(key)
        accumulator = self._keys.at(position) if position >= 0 else None
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._keys.put_at(position, key, self._add(value, accumulator))

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merges the current key's accumulators of other namespaces into that of ``target``."""
        key = self._key()
        merged = self._table.map(target)
        for source in sources:
            accumulator = self._table.map(source).remove(key)
            if accumulator is not None:
                fold = merged.get(key)
                merged.put(
                    key, accumulator if fold is None else self._function.merge(fold, accumulator)
                )

# cython: annotation_typing=False, boundscheck=True, binding=False
# Without binding, the interpreter calls methods by its fast path for those of builtins.
"""Map and list states in which each element is a row: views for the current key and namespace.

One source with two uses, like ``heap_states``; import it through
``taskexecutor.rocksdb.runtime_element_states``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.rocksdb.element_rows import pair_suffix
from penstock.taskexecutor.state.heap import ITEMS, KEYS, VALUES
from penstock.taskexecutor.state.internal_state import InternalValues
from penstock.taskexecutor.state.table import CONSTANT
from penstock.taskexecutor.state.time_to_live import Aged

if TYPE_CHECKING:
    from penstock.errors import InvalidProgramError
    from penstock.taskexecutor.rocksdb.element_parts import ListPart, MapPart
    from penstock.taskexecutor.rocksdb.element_tables import Contents, ElementTable
    from penstock.taskexecutor.rocksdb.list_table import ListTable
    from penstock.taskexecutor.rocksdb.map_table import MapTable
    from penstock.taskexecutor.state.heap import KeyContext, MapIterator
    from penstock.taskexecutor.state.time_to_live import TimeToLive
    from penstock.taskexecutor.state.type_check import ValueCheck

#: Most keys of a map state whose serialised form is cached, and its most bytes.
_MOST_SUFFIXES = 4096
_LONGEST_SUFFIX = 64


class ElementState:
    """The entry of the current key in the current namespace; the namespace starts as None.

    Attributes:
        lends: Whether functions use the state and its values are mutable.
    """

    def __init__(
        self, context: KeyContext, table: ElementTable[Any], check: ValueCheck | None = None
    ) -> None:
        """Create a view.

        Args:
            context: Provides the current key.
            table: The entries.
            check: Raises on a value that the declared type cannot hold; None for no check.
        """
        self._context = context
        self._entries = table
        self._check = check
        self._contents = table.map(None)
        self.lends = False

    @property
    def name(self) -> str:
        """The name of its descriptor."""
        return self._entries.name

    def _key(self) -> object:
        """Return the current key.

        Raises:
            InvalidProgramError: There is no current key.
        """
        key: Any = self._context.current_key
        if key is self._context.no_key:
            raise self._without_key()
        return key

    def _without_key(self) -> InvalidProgramError:
        """Return the error of an access without a key; hot paths inline `_key`."""
        return self._context.no_key.error(f"the state {self._entries.name!r}")

    def set_current_namespace(self, namespace: object) -> None:
        """Switch to a namespace; needed again after ``drop_if_empty`` of its table."""
        self._contents = self._entries.map(namespace)

    def clear(self) -> None:
        """Remove the entry of the current key."""
        self._entries.clear(self._contents, self._key())

    # Callbacks for lent values: see `LentValues`.

    def touch(self, contents: Contents[Any], key: object, element: object) -> None:
        """Mark an element, or a whole entry, as changed."""
        self._entries.touch(contents, key, element)

    def hold(self, contents: Contents[Any], key: object) -> None:
        """Keep an entry's values in memory."""
        self._entries.hold(contents, key)

    def keep_copy(
        self,
        contents: Contents[Any],
        key: object,
        element: object,
        copied: Callable[[object], object],
    ) -> None:
        """Replace an element, or a whole entry, by a copy."""
        self._entries.keep_copy(contents, key, element, copied)


class ElementMapState(ElementState):
    """A map; keys are equal if their serialised forms are, and numbers as in Python."""

    _entries: MapTable

    def __init__(
        self, context: KeyContext, table: MapTable, check: ValueCheck | None = None
    ) -> None:
        """Create a view; arguments as of ``ElementState``, with values checked."""
        ElementState.__init__(self, context, table, check)
        self._check_key: ValueCheck | None = None
        self.changes = 0
        #: Recently used numbers and texts, and the ends of their rows' keys.
        self._suffixes: dict[Any, bytes] = {}

    def get_internal_state(self) -> ElementMapState:
        """Return the state itself, which has the methods of the map in PyFlink's workers."""
        return self

    def check_keys(self, check: ValueCheck | None) -> None:
        """Let ``check`` raise on keys that the declared type cannot hold; None for no check."""
        self._check_key = check

    def get(self, key: object) -> object:
        """Return the value of a key, or None."""
        pair = self._pair(key)
        return None if pair is None else pair[1]

    def put(self, key: object, value: object) -> None:
        """Set the value of a key."""
        if self._check_key is not None:
            self._check_key.check(key)
        if self._check is not None and value is not None:
            self._check.check(value)
        suffix = self._suffix(key)
        parts = self._contents.parts
        current: Any = self._context.current_key
        if current is self._context.no_key:
            raise self._without_key()
        part = parts.get(current)
        if part is not None and suffix in part.changed:
            pairs = part.pairs
            pairs[suffix] = (key, value)
            part.is_used = True
            self._entries.version += 1
        else:
            self._entries.put(self._contents, current, suffix, (key, value))
        self.changes += 1
        if self.lends:
            self._context.lent.lend(self, self._contents, current, key, value)

    def put_all(self, content: Mapping[object, object] | Iterable[tuple[object, object]]) -> None:
        """Set several values: a dictionary, or pairs of key and value."""
        for key, value in content.items() if isinstance(content, Mapping) else content:
            self.put(key, value)

    def contains(self, key: object) -> bool:
        """Return whether the map has the key."""
        return self._pair(key) is not None

    def remove(self, key: object) -> None:
        """Remove a key, if it exists."""
        self.changes += 1
        self._entries.remove(self._contents, self._key(), self._suffix(key))

    def clear(self) -> None:
        """Remove the entry of the current key."""
        self.changes += 1
        ElementState.clear(self)

    def items(self) -> Iterator[tuple[object, object]]:
        """Iterate over the pairs of key and value; the iterator has ``remove``."""
        return self._iterated(ITEMS)

    def keys(self) -> Iterator[object]:
        """Iterate over the keys, as ``items``."""
        return self._iterated(KEYS)

    def values(self) -> Iterator[object]:
        """Iterate over the values, as ``items``."""
        return self._iterated(VALUES)

    def _iterated(self, shown: int) -> MapIterator:
        return self._context.iterated(self, self._contents, self._key(), self._pairs(), shown)

    def touch(self, contents: Contents[Any], key: object, element: object) -> None:
        """Mark a pair as changed."""
        self._entries.touch(contents, key, self._suffix(element))

    def keep_copy(
        self,
        contents: Contents[Any],
        key: object,
        element: object,
        copied: Callable[[object], object],
    ) -> None:
        """Replace the value of a pair by a copy."""
        self._entries.keep_copy(contents, key, self._suffix(element), copied)

    def remove_pair(
        self, contents: Contents[MapPart], current: object, key: object, pairs: Iterator[object]
    ) -> Iterator[object]:
        """Remove the last pair of a `MapIterator`; return the pairs behind it."""
        self.changes += 1
        self._entries.remove(contents, current, self._suffix(key))
        return pairs

    def is_empty(self) -> bool:
        """Return whether the map has no key."""
        return next(self._pairs(), None) is None

    def _suffix(self, key: object) -> bytes:
        """Return the key suffix of a pair's row."""
        kind = type(key)
        if kind is not int and kind is not str:
            # It may be equal to a key that is serialised differently.
            return pair_suffix(key)
        suffixes = self._suffixes
        suffix = suffixes.get(key)
        if suffix is None:
            suffix = pair_suffix(key)
            if len(suffix) <= _LONGEST_SUFFIX:
                if len(suffixes) >= _MOST_SUFFIXES:
                    suffixes.clear()
                suffixes[key] = suffix
        return suffix

    def _pair(self, key: object) -> tuple[Any, Any] | None:
        """Return a pair, or None."""
        suffix = self._suffix(key)
        parts = self._contents.parts
        current: Any = self._context.current_key
        if current is self._context.no_key:
            raise self._without_key()
        part = parts.get(current)
        if part is not None:
            pairs = part.pairs
            pair: tuple[Any, Any] | None = pairs.get(suffix)
            if pair is not None and type(pair[1]) in CONSTANT:
                part.is_used = True
                return pair
        found: tuple[Any, Any] | None = self._entries.lookup(self._contents, current, suffix)
        if found is not None and self.lends:
            self._context.lent.lend(self, self._contents, current, key, found[1])
        return found

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        return ((key, value) for _, key, value in self._stored())

    def _stored(self) -> Iterator[tuple[bytes, Any, Any]]:
        return self._entries.pairs(self._contents, self._key(), lent=self.lends)

    def __getitem__(self, key: object) -> object:
        return self.get(key)

    def __setitem__(self, key: object, value: object) -> None:
        self.put(key, value)

    def __delitem__(self, key: object) -> None:
        self.remove(key)

    def __contains__(self, key: object) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[object]:
        return iter(self.keys())


class ElementListState(ElementState):
    """A list of values; appending does not read it."""

    _entries: ListTable

    def get(self) -> list[object]:
        """Return the values; an empty list if there are none."""
        key = self._key()
        values = self._entries.values(self._contents, key)
        if self.lends:
            self._lend_all(self._contents, key)
        return values

    def add(self, value: object) -> None:
        """Append one value."""
        if self._check is not None:
            self._check.check(value)
        key = self._key()
        self._entries.append(self._contents, key, (value,))
        if self.lends:
            self._context.lent.lend_part(self, self._contents, key, value)

    def add_all(self, values: Iterable[object]) -> None:
        """Append several values."""
        for value in values:
            self.add(value)

    def update(self, values: Iterable[object]) -> None:
        """Replace all values."""
        values = list(values)
        self.clear()
        self.add_all(values)

    def merge_namespaces(self, target: object, sources: Iterable[object]) -> None:
        """Append the current key's values of other namespaces to those of ``target``."""
        table, key = self._entries, self._key()
        for source in sources:
            values = table.values(table.map(source), key)
            table.clear(table.map(source), key)
            if values:
                table.append(table.map(target), key, values)
                for value in values if self.lends else ():
                    self._context.lent.lend_part(self, table.map(target), key, value)

    def get_internal_state(self) -> InternalValues:
        """Return the stored values under the names of PyFlink's workers."""
        return InternalValues(self.get, self.add, self.clear)

    def _lend_all(self, contents: Contents[ListPart], key: object) -> None:
        part = contents.parts.get(key)
        if part is not None:
            self._context.lent.lend(self, contents, key, None, part.values)

    def __iter__(self) -> Iterator[object]:
        return iter(self.get())


class ExpiringElements(ElementState):
    """Base of the states with a time to live."""

    def __init__(
        self,
        context: KeyContext,
        table: ElementTable[Any],
        ttl: TimeToLive,
        check: ValueCheck | None = None,
    ) -> None:
        """Create a view whose elements live as long as ``ttl`` specifies."""
        super().__init__(context, table, check)
        self._ttl = ttl
        self._cleanup: Callable[[], None] | None = None

    def run_at_access(self, cleanup: Callable[[], None]) -> None:
        """Call ``cleanup`` before each access."""
        self._cleanup = cleanup

    def clear(self) -> None:
        """Remove the entry of the current key."""
        self._accessed()
        super().clear()

    def _accessed(self) -> None:
        if self._cleanup is not None:
            self._cleanup()

    def _lend(self, element: object, value: object) -> None:
        """Lend a value of the current key that is stored or returned; see `LentValues`."""
        if self.lends:
            self._context.lent.lend(self, self._contents, self._key(), element, value)

    def _lend_part(self, value: object) -> None:
        """Lend a value that the entry of the current key may now own."""
        if self.lends:
            self._context.lent.lend_part(self, self._contents, self._key(), value)

    def _aged(self, value: object) -> Aged:
        if self._check is not None:
            self._check.check(value)
        return Aged(value, self._ttl.now())


class ExpiringMapState(ExpiringElements, ElementMapState):
    """A map whose pairs expire one by one."""

    def get(self, key: object) -> object:
        """Return the value of a key, or None if there is none or it has expired."""
        aged = self._find(key)
        if aged is None:
            return None
        self._lend(key, aged.value)
        return aged.value

    def put(self, key: object, value: object) -> None:
        """Set the value of a key."""
        self._accessed()
        self._put(key, value)

    def put_all(self, content: Mapping[object, object] | Iterable[tuple[object, object]]) -> None:
        """Set several values: a dictionary, or pairs of key and value."""
        self._accessed()
        for key, value in content.items() if isinstance(content, Mapping) else content:
            self._put(key, value)

    def contains(self, key: object) -> bool:
        """Return whether the map has the key and it has not expired."""
        return self._find(key) is not None

    def is_empty(self) -> bool:
        """Return whether no readable entry exists, without removing or prolonging any."""
        self._accessed()
        return not any(self._ttl.visible(aged.time_ms) for *_, aged in self._stored())

    def remove(self, key: object) -> None:
        """Remove a key, if it exists."""
        self._accessed()
        super().remove(key)

    def _put(self, key: object, value: object) -> None:
        if self._check_key is not None:
            self._check_key.check(key)
        pair = key, self._aged(value)
        suffix = self._suffix(key)
        self._entries.put(self._contents, self._key(), suffix, pair)
        self.changes += 1
        self._lend(key, value)

    def _find(self, key: object) -> Aged | None:
        """Return a pair's value if it is visible; remove it if it has expired."""
        self._accessed()
        suffix = self._suffix(key)
        pair = self._entries.lookup(self._contents, self._key(), suffix)
        return None if pair is None else self._visible(suffix, *pair)

    def _visible(self, suffix: bytes, key: object, aged: Aged) -> Aged | None:
        contents, current = self._contents, self._key()
        if self._ttl.expired(aged.time_ms):
            self._entries.remove(contents, current, suffix)
            return aged if self._ttl.return_expired else None
        if self._ttl.on_read:
            self._entries.put(contents, current, suffix, (key, Aged(aged.value, self._ttl.now())))
        return aged

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        self._accessed()
        for suffix, key, aged in self._stored():
            visible = self._visible(suffix, key, aged)
            if visible is not None:
                yield key, visible.value


class ExpiringListState(ExpiringElements, ElementListState):
    """A list whose elements expire one by one; see `TtlListState` for their visibility."""

    def get(self) -> list[object]:
        """Return the elements that have not expired."""
        self._accessed()
        contents, key = self._contents, self._key()
        entries = self._entries.values(contents, key)
        ttl = self._ttl
        kept = [entry for entry in entries if not ttl.expired(entry.time_ms)]
        visible = entries if ttl.return_expired else kept
        if ttl.on_read:
            kept = [Aged(entry.value, ttl.now()) for entry in kept]
        is_less = len(kept) < len(entries)
        if (is_less and not (kept and ttl.return_expired)) or (ttl.on_read and entries):
            contents.put(key, kept)
        if self.lends:
            self._lend_all(contents, key)
        return [entry.value for entry in visible]

    def add(self, value: object) -> None:
        """Append one element."""
        self.add_all((value,))

    def add_all(self, values: Iterable[object]) -> None:
        """Append several elements."""
        added = [self._aged(value) for value in values]
        self._accessed()
        if added:
            self._entries.append(self._contents, self._key(), added)
        for aged in added:
            self._lend_part(aged.value)

    def update(self, values: Iterable[object]) -> None:
        """Replace all elements."""
        entries = [self._aged(value) for value in values]
        self._accessed()
        self._contents.put(self._key(), entries)
        for aged in entries:
            self._lend_part(aged.value)

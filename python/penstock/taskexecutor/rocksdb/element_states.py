# cython: annotation_typing=False, boundscheck=True, binding=False
# Without binding the interpreter calls methods by the short way that it has for those of builtins.
"""Map and list states of which each element is a row: views for the current key and namespace.

One source, two uses, as ``heap_states``; import it through ``taskexecutor.rocksdb.states``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.rocksdb.element_rows import pair_suffix
from penstock.taskexecutor.state.table import CONSTANT
from penstock.taskexecutor.state.time_to_live import Aged

if TYPE_CHECKING:
    from penstock.taskexecutor.rocksdb.element_tables import ElementTable
    from penstock.taskexecutor.rocksdb.list_table import ListTable
    from penstock.taskexecutor.rocksdb.map_table import MapTable
    from penstock.taskexecutor.state.heap import KeyContext
    from penstock.taskexecutor.state.time_to_live import TimeToLive
    from penstock.taskexecutor.state.type_check import ValueCheck

#: Keys of a map state of which is remembered how they are written, and of how many bytes each.
_MOST_SUFFIXES = 4096
_LONGEST_SUFFIX = 64


class ElementState:
    """The entry of the current key in the current namespace; the namespace starts as None."""

    def __init__(
        self, context: KeyContext, table: ElementTable[Any], check: ValueCheck | None = None
    ) -> None:
        """Opens a view.

        Args:
            context: Gives the current key.
            table: The entries.
            check: Raises on a value that the declared type cannot hold; None checks nothing.
        """
        self._context = context
        self._entries = table
        self._check = check
        self._contents = table.map(None)

    @property
    def name(self) -> str:
        """The name of its descriptor."""
        return self._entries.name

    def _key(self) -> Any:
        """Return the current key.

        Raises:
            InvalidProgramError: There is none.
        """
        key: Any = self._context.current_key
        if key is self._context.no_key:
            raise key.error(f"the state {self._entries.name!r}")
        return key

    def set_current_namespace(self, namespace: Any) -> None:
        """Switches to a namespace; again once ``drop_if_empty`` of its table ran."""
        self._contents = self._entries.map(namespace)

    def clear(self) -> None:
        """Removes the entry of the current key."""
        self._entries.clear(self._contents, self._key())


class PairsView(Collection[Any]):
    """What is in a map, read as it is looked at, in the order of its rows.

    The map may be changed meanwhile: a pair that is removed is not given any more.
    """

    def __init__(
        self,
        pairs: Callable[[], Iterator[tuple[Any, Any]]],
        count: Callable[[], int],
        shown: Callable[[Any, Any], Any],
    ) -> None:
        """Shows ``shown(key, value)`` of each pair; ``count`` counts them and changes nothing."""
        self._pairs = pairs
        self._count = count
        self._shown = shown

    def __iter__(self) -> Iterator[Any]:
        shown = self._shown
        return (shown(key, value) for key, value in self._pairs())

    def __contains__(self, element: object) -> bool:
        return any(found == element for found in self)

    def __len__(self) -> int:
        # Lists are made with it, so it must not be what removes expired pairs.
        return self._count()


class ElementMapState(ElementState):
    """A map; its keys are equal as their serialised forms are, and numbers as Python says."""

    _entries: MapTable

    def __init__(
        self, context: KeyContext, table: MapTable, check: ValueCheck | None = None
    ) -> None:
        """Opens a view; arguments as of ``ElementState``, with values checked."""
        ElementState.__init__(self, context, table, check)
        self._check_key: ValueCheck | None = None
        #: Numbers and texts that were asked for, and the ends of their rows.
        self._suffixes: dict[Any, bytes] = {}

    def check_keys(self, check: ValueCheck | None) -> None:
        """Lets ``check`` raise on keys that the declared type cannot hold; None checks nothing."""
        self._check_key = check

    def get(self, key: Any) -> Any:
        """The value of a key, None when there is none."""
        pair = self._pair(key)
        return None if pair is None else pair[1]

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        if self._check_key is not None:
            self._check_key.check(key)
        if self._check is not None and value is not None:
            self._check.check(value)
        suffix = self._suffix(key)
        parts = self._contents.parts
        current = self._key()
        part = parts.get(current)
        if part is not None and suffix in part.changed:
            pairs = part.pairs
            pairs[suffix] = (key, value)
            part.is_used = True
            self._entries.version += 1
        else:
            self._entries.put(self._contents, current, suffix, (key, value))

    def put_all(self, content: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Sets several: a dictionary, or pairs of key and value."""
        for key, value in content.items() if isinstance(content, Mapping) else content:
            self.put(key, value)

    def contains(self, key: Any) -> bool:
        """Whether there is such a key."""
        return self._pair(key) is not None

    def remove(self, key: Any) -> None:
        """Removes a key; nothing happens when there is none."""
        self._entries.remove(self._contents, self._key(), self._suffix(key))

    def items(self) -> Collection[tuple[Any, Any]]:
        """The pairs of key and value."""
        return PairsView(self._pairs, self._count, lambda key, value: (key, value))

    def keys(self) -> Collection[Any]:
        """The keys."""
        return PairsView(self._pairs, self._count, lambda key, _: key)

    def values(self) -> Collection[Any]:
        """The values."""
        return PairsView(self._pairs, self._count, lambda _, value: value)

    def is_empty(self) -> bool:
        """Whether there is no key."""
        return next(self._pairs(), None) is None

    def _suffix(self, key: Any) -> bytes:
        """What the key of a pair's row ends with."""
        kind = type(key)
        if kind is not int and kind is not str:
            # It may be equal to one that is written otherwise.
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

    def _pair(self, key: Any) -> tuple[Any, Any] | None:
        """A pair, None when there is none."""
        suffix = self._suffix(key)
        parts = self._contents.parts
        current = self._key()
        part = parts.get(current)
        if part is not None:
            pairs = part.pairs
            pair: tuple[Any, Any] | None = pairs.get(suffix)
            if pair is not None and type(pair[1]) in CONSTANT:
                part.is_used = True
                return pair
        return self._entries.lookup(self._contents, current, suffix)

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        return ((key, value) for _, key, value in self._stored())

    def _count(self) -> int:
        return sum(1 for _ in self._stored())

    def _stored(self) -> Iterator[tuple[bytes, Any, Any]]:
        return self._entries.pairs(self._contents, self._key())

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


class ElementListState(ElementState):
    """A list of values, to which is appended without reading it."""

    _entries: ListTable

    def get(self) -> list[Any]:
        """The values; empty when there are none."""
        return self._entries.values(self._contents, self._key())

    def add(self, value: Any) -> None:
        """Appends one value."""
        if self._check is not None:
            self._check.check(value)
        self._entries.append(self._contents, self._key(), (value,))

    def add_all(self, values: Iterable[Any]) -> None:
        """Appends several values."""
        for value in values:
            self.add(value)

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all values."""
        values = list(values)
        self.clear()
        self.add_all(values)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Appends the current key's values of other namespaces to those of ``target``."""
        table, key = self._entries, self._key()
        for source in sources:
            values = table.values(table.map(source), key)
            table.clear(table.map(source), key)
            if values:
                table.append(table.map(target), key, values)

    def __iter__(self) -> Iterator[Any]:
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
        """Opens a view whose elements live as long as ``ttl`` says."""
        super().__init__(context, table, check)
        self._ttl = ttl
        self._cleanup: Callable[[], None] | None = None

    def run_at_access(self, cleanup: Callable[[], None]) -> None:
        """Has something called before each access."""
        self._cleanup = cleanup

    def clear(self) -> None:
        """Removes the entry of the current key."""
        self._accessed()
        super().clear()

    def _accessed(self) -> None:
        if self._cleanup is not None:
            self._cleanup()

    def _aged(self, value: Any) -> Aged:
        if self._check is not None:
            self._check.check(value)
        return Aged(value, self._ttl.now())


class ExpiringMapState(ExpiringElements, ElementMapState):
    """A map whose pairs expire one by one."""

    def get(self, key: Any) -> Any:
        """The value of a key, None when there is none or it has expired."""
        aged = self._find(key)
        return None if aged is None else aged.value

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        self._accessed()
        self._put(key, value)

    def put_all(self, content: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Sets several: a dictionary, or pairs of key and value."""
        self._accessed()
        for key, value in content.items() if isinstance(content, Mapping) else content:
            self._put(key, value)

    def contains(self, key: Any) -> bool:
        """Whether there is such a key that has not expired."""
        return self._find(key) is not None

    def is_empty(self) -> bool:
        """Whether there is no key that may be read; asking neither removes nor prolongs any."""
        self._accessed()
        return not any(self._ttl.visible(aged.time_ms) for *_, aged in self._stored())

    def remove(self, key: Any) -> None:
        """Removes a key; nothing happens when there is none."""
        self._accessed()
        super().remove(key)

    def _put(self, key: Any, value: Any) -> None:
        if self._check_key is not None:
            self._check_key.check(key)
        pair = key, self._aged(value)
        self._entries.put(self._contents, self._key(), self._suffix(key), pair)

    def _find(self, key: Any) -> Aged | None:
        """A pair's value that may be read; one that has expired is removed."""
        self._accessed()
        suffix = self._suffix(key)
        pair = self._entries.lookup(self._contents, self._key(), suffix)
        return None if pair is None else self._visible(suffix, *pair)

    def _visible(self, suffix: bytes, key: Any, aged: Aged) -> Aged | None:
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

    def _count(self) -> int:
        return sum(self._ttl.visible(aged.time_ms) for *_, aged in self._stored())


class ExpiringListState(ExpiringElements, ElementListState):
    """A list whose elements expire one by one; see `TtlListState` for what is seen of them."""

    def get(self) -> list[Any]:
        """The elements that have not expired."""
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
        return [entry.value for entry in visible]

    def add(self, value: Any) -> None:
        """Appends one element."""
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        """Appends several elements."""
        added = [self._aged(value) for value in values]
        self._accessed()
        if added:
            self._entries.append(self._contents, self._key(), added)

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all elements."""
        entries = [self._aged(value) for value in values]
        self._accessed()
        self._contents.put(self._key(), entries)

# cython: annotation_typing=False
# The C types come from keys.pxd; the annotations below are for readers and mypy.
"""Dictionary keys whose equality is that of their serialised form.

If ``==`` agrees with the equality of bytes, as for strings, integers, bytes and tuples of those, a
key is its own identity.  A :class:`CanonicalKey` holds any other key.

This source has two uses: it runs as plain Python, and Cython compiles it as
``penstock._native.keys.keys`` with the C declarations of ``native/penstock/_native/keys/keys.pxd``.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from penstock.serialization.key_form import form_of
from penstock.serialization.key_selection import part_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: The depth of nested tuples up to which items are compared; deeper keys are compared by bytes.
MAX_PLAIN_DEPTH: int = 8


class CanonicalKey:
    """A key that is compared by its form, not by its own ``==``.

    Attributes:
        form: The value that decides equality: bytes, or for a tuple the identities of its items.
        key: The key as functions see it.
    """

    def __init__(self, form: Any, key: Any) -> None:
        """Store a key and its form."""
        self.form = form
        self.key = key
        self.form_hash = hash(form)

    def __eq__(self, other: object) -> bool:
        if type(other) is not CanonicalKey:
            return False
        that: CanonicalKey = other
        return self.form_hash == that.form_hash and bool(self.form == that.form)

    def __hash__(self) -> int:
        return self.form_hash

    def __repr__(self) -> str:
        return f"CanonicalKey({self.key!r})"


_TRUE = CanonicalKey(form_of(True), True)
_FALSE = CanonicalKey(form_of(False), False)


def is_plain(key: Any, depth: int) -> bool:
    """Return whether ``==`` and the hash of a key agree with its bytes for all types."""
    kind = type(key)
    if kind is str or kind is int or kind is bytes or key is None:
        return True
    if kind is tuple:
        if depth >= MAX_PLAIN_DEPTH:
            return False
        items: tuple[Any, ...] = key
        # A loop, since a generator would be created for each key.
        for item in items:  # noqa: SIM110
            if not is_plain(item, depth + 1):
                return False
        return True
    # A float that is a whole number equals an int, and NaN not even itself.
    return kind is float and key == key and not key.is_integer()


def identity_of(key: Any) -> Any:
    """Return the identity of a key of any type in dictionaries.

    Raises:
        SerializationError: The key cannot be serialised.
    """
    if is_plain(key, 0):
        return key
    if key is True:
        return _TRUE
    if key is False:
        return _FALSE
    if type(key) is tuple and is_flat(key):
        form: Any = tuple([identity_of(item) for item in key])
    else:
        form = form_of(key)
    try:
        hash(key)
    except TypeError:
        # Other code that holds it may change it in place.
        key = copy.deepcopy(key)
    return CanonicalKey(form, key)


def is_flat(items: Any) -> bool:
    """Return whether a tuple holds no other containers."""
    for item in items:
        kind = type(item)
        if not (kind is str or kind is int or kind is float or kind is bool or item is None):
            return False
    return True


def key_of(identity: Any) -> Any:
    """Return the key of an identity."""
    if type(identity) is CanonicalKey:
        canonical: CanonicalKey = identity
        return canonical.key
    return identity


class ExactType:
    """Recognises values that do not change when they are sent as a declared type."""

    def __init__(self, kind: type | None, bits: int, fields: tuple[ExactType, ...]) -> None:
        """Describe a type.

        Args:
            kind: The class of the type's values; None if no value is recognised.
            bits: The size of the type's integers; 0 without a bound.
            fields: The types of a tuple's items.
        """
        self.kind = kind
        self.bits = bits
        self._limit = 0 if bits in (0, 64) else 1 << bits - 1
        self.fields = fields

    def has(self, value: Any) -> bool:
        """Return whether a value is certainly of the type."""
        if type(value) is not self.kind:
            return False
        if self.kind is tuple:
            items: Any = value
            return self._has_items(items)
        if self.bits:
            try:
                number: Any = value
            except OverflowError:  # when compiled, the number has 64 bits
                return False
            if self._limit:
                return bool(-self._limit <= number < self._limit)
            return bool(-0x8000000000000000 <= number <= 0x7FFFFFFFFFFFFFFF)
        return True

    def _has_items(self, items: tuple[Any, ...]) -> bool:
        """Return whether a tuple's items are None or certainly of the types of the fields."""
        if len(items) != len(self.fields):
            return False
        # A loop, since a generator would be created for each key.
        for i in range(len(items)):
            field: ExactType = self.fields[i]
            item = items[i]
            if item is not None and not field.has(item):
                return False
        return True


class KeyConversion:
    """Converts keys to a declared type.

    Attributes:
        conversions: The number of keys so far that ``convert`` was called for.
    """

    def __init__(self, exact: ExactType, convert: Callable[[Any], Any]) -> None:
        """Create the conversion.

        Args:
            exact: Recognises keys that stay unchanged; None always does.
            convert: Converts any other key, or raises a SerializationError.
        """
        self._exact = exact
        self._convert = convert
        self.conversions = 0

    def __call__(self, key: Any) -> Any:
        """Return the key as one of the declared type."""
        return self._converted(key)

    def _converted(self, key: Any) -> Any:
        """Return the key as one of the declared type, without the cost of a Python call."""
        if key is None or self._exact.has(key):
            return key
        self.conversions += 1
        return self._convert(key)


def converted(convert: Callable[[Any], Any], key: Any) -> Any:
    """Return the converted key."""
    if type(convert) is KeyConversion:
        conversion: KeyConversion = convert
        return conversion._converted(key)
    return convert(key)


class KeyReader:
    """Computes the identities of the keys of records."""

    def __init__(
        self,
        selector: Callable[[Any], Any],
        position: int,
        plain: type | None,
        convert: Callable[[Any], Any] | None,
    ) -> None:
        """Create a reader.

        Args:
            selector: Returns the key of a record.
            position: The field that ``selector`` returns if it does nothing else, else -1.
            plain: The class whose instances are always their own identity.
            convert: Converts a key to the declared type; None without one.
        """
        self.selector = selector
        part = part_of(selector)
        self.attribute = part.name if part is not None and part.is_attribute else None
        #: The subscript of the record.
        self.item: Any = part.name if part is not None and not part.is_attribute else None
        if position >= 0:
            self.item = position
        self.position = position
        self.plain = plain
        #: The second most frequent class of keys without a declared type.
        self.other = int if convert is None else plain
        self.convert = convert

    def read(self, value: Any) -> Any:
        """Return the identity of the key of a record.

        Raises:
            SerializationError: The key cannot be serialised or is not of the declared type.
        """
        if type(value) is tuple:
            fields: tuple[Any, ...] = value
            if 0 <= self.position < len(fields):
                key = fields[self.position]
                if type(key) is self.plain or type(key) is self.other:
                    return key
                return self.identity(key)
        key = self._taken(value)
        return key if type(key) is self.plain or type(key) is self.other else self.identity(key)

    def _taken(self, value: Any) -> Any:
        """Return the key of a record as the selector returns it."""
        try:
            if self.attribute is not None:
                return getattr(value, self.attribute)
            if self.item is not None:
                return value[self.item]
        except Exception:
            # Fail again, now with the user's own line in the traceback.
            return self.selector(value)
        return self.selector(value)

    def identity(self, key: Any) -> Any:
        """Return the identity of a key.

        Raises:
            SerializationError: The key cannot be serialised or is not of the declared type.
        """
        if self.convert is not None:
            key = converted(self.convert, key)
            if type(key) is self.plain:
                return key
        return identity_of(key)

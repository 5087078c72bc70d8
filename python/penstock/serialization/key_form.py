"""The canonical bytes of keys, which decide equality: a variant of the self-describing codec.

In Python, 1, 1.0 and True are equal, a NaN equals nothing, and not every value can be hashed.  Keys
are therefore compared by their serialised form, without irrelevant differences: every NaN is the
same, and a set has no order.  Objects that would be pickled are decomposed, because the pickles of
equal objects differ if the objects share references differently.
"""

import copyreg
import enum
import functools
import pickle
from dataclasses import is_dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from penstock.common.exception_deadline import repr_in_time, text_in_time
from penstock.errors import CancelTaskError, SerializationError
from penstock.serialization.codec import Codec, codec_of
from penstock.serialization.extended_values import (
    DATACLASS,
    DECIMAL,
    NUMPY_SCALAR,
    PICKLE,
    reduce_value,
)
from penstock.serialization.instance_fields import known_layout
from penstock.serialization.pure.dynamic_codec import (
    DICT,
    FROZENSET,
    LIST,
    SET,
    TUPLE,
    encode_dynamic,
)
from penstock.serialization.pure.value_bytes import MAX_DEPTH, write_varint
from penstock.serialization.standard_collections import TAGS
from penstock.serialization.type_schema import ANY
from penstock.serialization.value_layouts import on_change

_NAN: Final = float("nan")
_SCALARS: Final = frozenset({type(None), bool, int, str, bytes, bytearray})
_CHEAP: Final = _SCALARS | {float}

#: The forms of members of enums, by the members' addresses.
_members: Final[dict[int, tuple[enum.Enum, bytes]]] = {}
_MAX_MEMBERS: Final = 4096

#: The forms of keys that are slow to compute, by the bytes of the keys in streams.
_forms: Final[dict[bytes, bytes]] = {}
_MAX_FORMS: Final = 4096
_MAX_KEPT_BYTES: Final = 512


def _forget(cls: type) -> None:  # noqa: ARG001 (any may lie within a key)
    _forms.clear()


on_change.append(_forget)


@functools.cache
def _codec() -> Codec:
    """Return the codec of the active runtime; both write the same bytes."""
    return codec_of(ANY)


def form_of(key: Any) -> bytes:
    """Return the canonical bytes of a key.

    Raises:
        SerializationError: The key cannot be serialised, or nests too deep.
    """
    if not isinstance(key, enum.Enum):
        return _form_of(key) if type(key) in _CHEAP else _known_form_of(key)
    known = _members.get(id(key))
    if known is not None:
        return known[1]
    form = _form_of(key)
    # The class of a pickled member may still be registered.
    if form[0] != PICKLE and len(_members) < _MAX_MEMBERS:
        # Keep the member alive, so that its address is not reused.
        _members[id(key)] = key, form
    return form


def _known_form_of(key: Any) -> bytes:
    """Return the form of a key from the cache: its bytes in a stream are faster to compute."""
    try:
        data = _codec().encode(key)
    except SerializationError:
        return _form_of(key)  # it reports the error
    form = _forms.get(data)
    if form is None:
        form = _form_of(key)
        if len(data) + len(form) <= _MAX_KEPT_BYTES:
            if len(_forms) >= _MAX_FORMS:
                _forms.clear()
            _forms[data] = form
    return form


def _form_of(key: Any) -> bytes:
    out = bytearray()
    try:
        _write(out, key, 0)
    except SerializationError as error:
        msg = (
            "keys must be values that can be serialised, because their bytes decide which of them "
            f"are equal; {repr_in_time(key, 80)} of type {type(key).__name__} is not such a value: "
            f"{error}"
        )
        raise SerializationError(msg) from error
    return bytes(out)


def _write(out: bytearray, value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise SerializationError(f"it nests deeper than {MAX_DEPTH}")
    kind = type(value)
    if kind in _SCALARS:
        encode_dynamic(out, value)
    elif kind is float:
        encode_dynamic(out, value if value == value else _NAN)
    elif kind is tuple or kind is list:
        out.append(TUPLE if kind is tuple else LIST)
        write_varint(out, len(value))
        for item in value:
            _write(out, item, depth + 1)
    elif kind is dict:
        out.append(DICT)
        write_varint(out, len(value))
        for name, item in value.items():
            _write(out, name, depth + 1)
            _write(out, item, depth + 1)
    elif kind is set or kind is frozenset:
        out.append(SET if kind is set else FROZENSET)
        write_varint(out, len(value))
        for form in sorted(_nested(item, depth + 1) for item in value):
            out += form
    elif isinstance(value, type | FunctionType | BuiltinFunctionType):
        # A part of a decomposed object.  Written by name, since a pickle by value has different
        # bytes in each process.
        out.append(PICKLE)
        encode_dynamic(out, (value.__module__, value.__qualname__))
    else:
        tag = PICKLE
        parts: Any = None
        layout = known_layout(kind)
        # Plain instances and collections were pickled in earlier versions; their keys must equal
        # the keys written then.
        if kind not in TAGS and (layout is None or not layout.is_plain):
            tag, parts = reduce_value(value)
            if tag == DATACLASS and not is_dataclass(value):
                tag = PICKLE
        out.append(tag)
        if tag == PICKLE:
            parts = _taken_apart(value)
        elif tag == NUMPY_SCALAR and value != value:
            parts = parts[0]
        elif tag == DECIMAL and value.is_nan():
            parts = "NaN"
        _write(out, parts, depth + 1)


def _nested(value: Any, depth: int) -> bytes:
    out = bytearray()
    _write(out, value, depth)
    return bytes(out)


def _taken_apart(value: Any) -> Any:
    """Return the parts that pickle would write for an object; the pickle if it has no parts.

    Raises:
        SerializationError: It cannot be pickled.
    """
    reducer = copyreg.dispatch_table.get(type(value))
    try:
        reduced = reducer(value) if reducer else value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    except CancelTaskError:
        raise  # it interrupts the thread wherever that is
    except Exception as error:
        raise SerializationError(f"cannot be pickled: {text_in_time(error)}") from error
    if not isinstance(reduced, tuple) or not 2 <= len(reduced) <= 5:
        return reduce_value(value)[1]
    function, arguments, *rest = reduced
    state, items, pairs = (*rest, None, None, None)[:3]
    return (
        function,
        arguments,
        state,
        None if items is None else list(items),
        None if pairs is None else list(pairs),
    )

"""The bytes that decide which keys are equal: those of the self-describing codec, made canonical.

Python's ``==`` takes 1, 1.0 and True for one key and no NaN for another's equal, and not every
value can be hashed.  Keys are therefore compared as they are serialised, with what does not tell
them apart taken out: every NaN is the same, a set has no order, and what has no form but a pickle
is taken apart, because two pickles of equal objects differ by what the objects share.
"""

import copyreg
import enum
import functools
import pickle
from dataclasses import is_dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from penstock.errors import SerializationError
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

#: The forms of keys that are not made quickly, by what is written of the keys to streams.
_forms: Final[dict[bytes, bytes]] = {}
_MAX_FORMS: Final = 4096
_MAX_KEPT_BYTES: Final = 512


def _forget(cls: type) -> None:  # noqa: ARG001 (any may lie within a key)
    _forms.clear()


on_change.append(_forget)


@functools.cache
def _codec() -> Codec:
    """Of either runtime, as they write the same."""
    return codec_of(ANY)


def form_of(key: Any) -> bytes:
    """The canonical bytes of a key.

    Raises:
        SerializationError: It cannot be serialised, or nests too deep.
    """
    if not isinstance(key, enum.Enum):
        return _form_of(key) if type(key) in _CHEAP else _known_form_of(key)
    known = _members.get(id(key))
    if known is not None:
        return known[1]
    form = _form_of(key)
    # A class whose members are pickled may become known yet.
    if form[0] != PICKLE and len(_members) < _MAX_MEMBERS:
        # With the member, whose address may not become another's.
        _members[id(key)] = key, form
    return form


def _known_form_of(key: Any) -> bytes:
    """The form of a key that may have come before: its bytes in a stream are had sooner."""
    try:
        data = _codec().encode(key)
    except SerializationError:
        return _form_of(key)  # which says what is wrong
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
            "keys must be values that can be serialised, because their bytes say which of them "
            f"are equal; {_shown(key)} of type {type(key).__name__} is none: {error}"
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
        # Part of an object that was taken apart.  By its name, since what is pickled by value
        # is not the same bytes in every process.
        out.append(PICKLE)
        encode_dynamic(out, (value.__module__, value.__qualname__))
    else:
        tag = PICKLE
        parts: Any = None
        layout = known_layout(kind)
        # Instances of plain classes and collections were pickled once; their keys must meet those
        # of then.
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
    """Return the parts that pickle would write of an object; the pickle if it has none."""
    reducer = copyreg.dispatch_table.get(type(value))
    reduced = reducer(value) if reducer else value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
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


def _shown(value: Any) -> str:
    try:
        return repr(value)[:80]
    except Exception:
        return "a key"

"""Decomposition and reconstruction of values of undeclared type beyond the builtin types.

The self-describing codec of both runtimes writes builtin types itself, and instances with exactly
the fields of their class by its layout (``value_layouts``).  Any other value becomes an *extended
value*: a tag and one builtin value, its parts, which the codec writes like any other value.  Both
runtimes call :func:`reduce_value` and :func:`rebuild_value`, so they agree by construction.  Values
without a form of their own are pickled, as the last resort.
"""

import dataclasses
import datetime
import decimal
import enum
import io
import pickle
import zoneinfo
from collections.abc import Callable
from types import FunctionType, GeneratorType
from typing import Any, ClassVar

from penstock.common.exception_deadline import described_in_time, text_in_time
from penstock.common.time import Instant
from penstock.common.types import Row, RowKind
from penstock.errors import (
    CancelTaskError,
    CorruptStreamError,
    PenstockError,
    SerializationError,
)
from penstock.serialization.class_reference import is_own, reference_of, resolve
from penstock.serialization.code_pickle import OWN_REDUCERS, CodePickler
from penstock.serialization.former_layouts import (
    former_instance,
    instance_of,
    takes_former_fields,
)
from penstock.serialization.imports import unpickled
from penstock.serialization.instance_fields import fields_of, known_layout, stand_alone
from penstock.serialization.loaded_numpy import loaded_numpy
from penstock.serialization.models import state_of
from penstock.serialization.named_objects import reduced as reduced_object
from penstock.serialization.standard_collections import REBUILDERS as COLLECTIONS
from penstock.serialization.standard_collections import TAGS, content_of, parts_of
from penstock.serialization.value_layouts import (
    MODEL,
    has_fields,
    is_made_of_attributes,
    layout_of,
    on_change,
    slots_of,
    takes_attributes_as_they_are,
)
from penstock.serialization.value_layouts import NAMED_TUPLE as NAMED_TUPLE_LAYOUT

DATETIME = 0x10
DATE = 0x11
TIME = 0x12
TIMEDELTA = 0x13
TIMEZONE = 0x14
ZONE_INFO = 0x15
DECIMAL = 0x16
ROW = 0x17
INSTANT = 0x18
NAMED_TUPLE = 0x19
DATACLASS = 0x1A
ENUM = 0x1B
NUMPY_SCALAR = 0x1C
NUMPY_ARRAY = 0x1D
COMPLEX = 0x1E
PICKLE = 0x1F

_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1)
_NUMPY_KINDS = "biufcSUmM?"

Reducer = Callable[[Any], tuple[int, Any]]


def reduce_value(value: Any) -> tuple[int, Any]:
    """Return the tag of an extended value and its parts, which are a value themselves.

    Raises:
        SerializationError: The value cannot even be pickled.
    """
    cls = type(value)
    reducer = _REDUCERS.get(cls)
    if reducer is None:
        reducer = _reducer_for(cls)
        # More of the job's own classes may be registered later.
        if reducer is not _pickle or reference_of(cls) is not None or is_always_pickled(cls):
            _REDUCERS[cls] = reducer
    return reducer(value)


def rebuild_value(tag: int, parts: Any) -> Any:
    """Return the value that :func:`reduce_value` decomposed.

    Raises:
        CorruptStreamError: The tag or the parts are invalid.
        SerializationError: The class of the value cannot be found or rejects its state.
    """
    rebuild = _REBUILDERS.get(tag)
    if rebuild is None:
        raise CorruptStreamError(f"unknown value tag 0x{tag:02x}")
    try:
        return rebuild(parts)
    except PenstockError:
        raise
    except Exception as error:
        if tag in (PICKLE, DATACLASS, NAMED_TUPLE, ENUM):
            raise SerializationError(
                f"a value could not be restored: {described_in_time(error)}"
            ) from error
        raise CorruptStreamError(
            f"bad parts of value tag 0x{tag:02x}: {described_in_time(error)}"
        ) from error


def is_pickled(value: Any) -> bool:
    """Return whether a value of undeclared type travels as a pickle, which is slow and large."""
    cls = type(value)
    if cls in _BUILTIN:
        return False
    layout = known_layout(cls)
    if layout is not None and fields_of(value, layout) is not None:
        return False
    return reduce_value(value)[0] == PICKLE


def is_always_pickled(cls: type) -> bool:
    """Return whether instances of a class are pickled even if the class is registered."""
    if cls in TAGS or issubclass(cls, enum.Enum):
        return False
    return not (has_fields(cls) or is_made_of_attributes(cls))


def _reducer_for(cls: type) -> Reducer:
    if issubclass(cls, enum.Enum):
        return _enum if reference_of(cls) is not None else _pickle
    layout = layout_of(cls)
    if layout is not None and not layout.is_plain:
        return _named_tuple if layout.kind == NAMED_TUPLE_LAYOUT else _dataclass
    numpy = loaded_numpy()
    if numpy is not None:
        if cls is numpy.ndarray:
            return _numpy_array
        if issubclass(cls, numpy.generic) and cls.__module__ == "numpy":
            return _numpy_scalar
    if layout is not None and layout.kind == MODEL:
        return _model
    return _instance_reducer(cls) if _has_attributes_alone(cls) else _pickle


def _has_attributes_alone(cls: type) -> bool:
    """Return whether instances keep attributes in a dict or in slots, not in both."""
    return (
        not dataclasses.is_dataclass(cls)
        and reference_of(cls) is not None
        and is_made_of_attributes(cls)
        and takes_attributes_as_they_are(cls)
        and not (cls.__dictoffset__ and slots_of(cls))
    )


def _datetime(value: datetime.datetime) -> tuple[int, Any]:
    micros = (value.replace(tzinfo=None, fold=0) - _EPOCH) // _MICROSECOND
    if value.tzinfo is None:
        return DATETIME, (micros, value.fold)
    return DATETIME, (micros, value.fold, value.tzinfo)


def _datetime_from(parts: Any) -> datetime.datetime:
    micros, fold, *zone = parts
    moment = _EPOCH + datetime.timedelta(microseconds=micros)
    return moment.replace(fold=fold, tzinfo=zone[0] if zone else None)


def _date(value: datetime.date) -> tuple[int, Any]:
    return DATE, value.toordinal()


def _time(value: datetime.time) -> tuple[int, Any]:
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    micros = seconds * 1_000_000 + value.microsecond
    if value.tzinfo is None:
        return TIME, (micros, value.fold)
    return TIME, (micros, value.fold, value.tzinfo)


def _time_from(parts: Any) -> datetime.time:
    micros, fold, *zone = parts
    seconds, micros = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return datetime.time(hour, minute, second, micros, zone[0] if zone else None, fold=fold)


def _timedelta(value: datetime.timedelta) -> tuple[int, Any]:
    return TIMEDELTA, value // _MICROSECOND


def _timedelta_from(micros: Any) -> datetime.timedelta:
    return datetime.timedelta(microseconds=micros)


def _timezone(value: datetime.timezone) -> tuple[int, Any]:
    offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]
    return TIMEZONE, (offset // _MICROSECOND, *name)


def _timezone_from(parts: Any) -> datetime.timezone:
    micros, *name = parts
    offset = datetime.timedelta(microseconds=micros)
    return datetime.timezone(offset, *name) if micros or name else datetime.UTC


def _zone_info(value: zoneinfo.ZoneInfo) -> tuple[int, Any]:
    key: str | None = value.key  # the stubs lack ZoneInfo.from_file
    return (ZONE_INFO, key) if key is not None else _pickle(value)


def _decimal(value: decimal.Decimal) -> tuple[int, Any]:
    return DECIMAL, str(value)


def _decimal_from(text: Any) -> decimal.Decimal:
    if not isinstance(text, str):
        raise TypeError(f"a decimal of {type(text).__name__}")
    return decimal.Decimal(text)


def _row(value: Row) -> tuple[int, Any]:
    fields = value._field_names()
    names = None if fields is None else tuple(fields)
    return ROW, (value.get_row_kind().value, names, tuple(value))


def _row_from(parts: Any) -> Row:
    kind, names, values = parts
    row = Row(*values)
    if names is not None:
        row.set_field_names(list(names))
    row.set_row_kind(RowKind(kind))
    return row


def _instant(value: Instant) -> tuple[int, Any]:
    return INSTANT, (value.seconds, value.nanos)


def _named_tuple(value: Any) -> tuple[int, Any]:
    cls: type = type(value)
    return NAMED_TUPLE, (reference_of(cls), tuple(value))


def _named_tuple_from(parts: Any) -> Any:
    reference, values = parts
    cls: Any = resolve(reference)
    return cls._make(values)


def _dataclass(value: Any) -> tuple[int, Any]:
    cls: Any = type(value)
    attributes = getattr(value, "__dict__", None)
    if attributes is None:
        # Slots that are not set are missing.
        names = (field.name for field in dataclasses.fields(cls) if hasattr(value, field.name))
        attributes = {name: getattr(value, name) for name in names}
    return DATACLASS, (reference_of(cls), attributes)


def _dataclass_from(parts: Any) -> Any:
    reference, state, *rest = parts
    cls = resolve(reference)
    return (former_instance if takes_former_fields() else instance_of)(cls, state, *rest)


def _model(value: Any) -> tuple[int, Any]:
    """Return the parts of a model whose attributes differ from those of its class."""
    attributes, rest = state_of(value)
    _, private, extra, _ = rest
    if not stand_alone([*attributes.values(), private, extra]):
        return _pickle(value)
    return DATACLASS, (reference_of(type(value)), attributes, *rest)


def _instance_reducer(cls: Any) -> Reducer:
    """Return the reducer of a class made of attributes, which may refer back to an instance."""
    names = tuple(slots_of(cls))

    def reduce(value: Any) -> tuple[int, Any]:
        if names:
            attributes = {name: getattr(value, name) for name in names if hasattr(value, name)}
        else:
            attributes = getattr(value, "__dict__", {})
        if not stand_alone(attributes.values()):
            return _pickle(value)
        return DATACLASS, (reference_of(cls), attributes)

    return reduce


def _enum(value: enum.Enum) -> tuple[int, Any]:
    # The combined members of a Flag have no name that leads back to them.
    if type(value).__members__.get(value.name) is not value:
        return _pickle(value)
    return ENUM, (reference_of(type(value)), value.name)


def _enum_from(parts: Any) -> Any:
    reference, name = parts
    cls: Any = resolve(reference)
    try:
        return cls[name]
    except KeyError:
        raise SerializationError(
            f"a value is the member {name!r} of {reference}, which has no such member here (it has "
            f"{', '.join(cls.__members__) or 'none'}): keep the names of members that were stored; "
            "an alias, OLD = NEW, may stand for one that was renamed"
        ) from None


def _numpy_scalar(value: Any) -> tuple[int, Any]:
    if value.dtype.kind not in _NUMPY_KINDS:
        return _pickle(value)
    return NUMPY_SCALAR, (value.dtype.str, value.tobytes())


def _numpy_scalar_from(parts: Any) -> Any:
    import numpy as np

    dtype, data = parts
    return np.ndarray((), dtype, data)[()]


def _numpy_array(value: Any) -> tuple[int, Any]:
    if value.dtype.kind not in _NUMPY_KINDS:
        return _pickle(value)
    return NUMPY_ARRAY, (value.dtype.str, value.shape, value.tobytes())


def _numpy_array_from(parts: Any) -> Any:
    import numpy as np

    dtype, shape, data = parts
    # A bytearray as the buffer keeps the array writable, like the original.
    return np.ndarray(shape, dtype, bytearray(data))


def _complex(value: complex) -> tuple[int, Any]:
    return COMPLEX, (value.real, value.imag)


def _collection(value: Any) -> tuple[int, Any]:
    content = content_of(value)
    if content is None or not stand_alone([content]):
        return _pickle(value)
    return TAGS[type(value)], parts_of(value, content)


class _Pickler(CodePickler):
    """Writes the job's own classes by name, since every process knows them."""

    # A dict, in which pickle looks without running Python; `reduced_object` looks at what others
    # have registered.
    dispatch_table: ClassVar[Any] = OWN_REDUCERS

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type):
            if not is_own(obj):
                return NotImplemented
            reference = reference_of(obj)
            if reference is not None:
                return resolve, (reference,)
        elif not isinstance(obj, FunctionType):
            return reduced_object(obj, self.dispatch_table)
        return super().reducer_override(obj)


def _pickle(value: Any) -> tuple[int, Any]:
    out = io.BytesIO()
    try:
        _Pickler(out, pickle.HIGHEST_PROTOCOL).dump(value)
    except CancelTaskError:
        raise  # it interrupts the thread wherever that is
    except Exception as error:
        hint = (
            "; a function that has a yield belongs in flat_map, since map emits what it returns"
            if isinstance(value, GeneratorType)
            else ""
        )
        raise SerializationError(f"cannot be pickled: {text_in_time(error)}{hint}") from error
    return PICKLE, out.getvalue()


_BUILTIN = frozenset(
    {type(None), bool, int, float, str, bytes, bytearray, tuple, list, dict, set, frozenset}
)

_REDUCERS: dict[type, Reducer] = {
    datetime.datetime: _datetime,
    datetime.date: _date,
    datetime.time: _time,
    datetime.timedelta: _timedelta,
    datetime.timezone: _timezone,
    zoneinfo.ZoneInfo: _zone_info,
    decimal.Decimal: _decimal,
    Row: _row,
    Instant: _instant,
    complex: _complex,
    **dict.fromkeys(TAGS, _collection),
}

_REBUILDERS: dict[int, Callable[[Any], Any]] = {
    DATETIME: _datetime_from,
    DATE: datetime.date.fromordinal,
    TIME: _time_from,
    TIMEDELTA: _timedelta_from,
    TIMEZONE: _timezone_from,
    ZONE_INFO: zoneinfo.ZoneInfo,
    DECIMAL: _decimal_from,
    ROW: _row_from,
    INSTANT: lambda parts: Instant(*parts),
    NAMED_TUPLE: _named_tuple_from,
    DATACLASS: _dataclass_from,
    ENUM: _enum_from,
    NUMPY_SCALAR: _numpy_scalar_from,
    NUMPY_ARRAY: _numpy_array_from,
    COMPLEX: lambda parts: complex(*parts),
    PICKLE: unpickled,
    **COLLECTIONS,
}


def _forget(cls: type) -> None:
    _REDUCERS.pop(cls, None)


on_change.append(_forget)

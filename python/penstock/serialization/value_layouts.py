"""The layouts of classes whose instances all have the same fields.

An instance of such a class travels as its *signature*, ``module:qualified name(field,field)``, and
the values of its fields; both runtimes compile the signature once for each class.  Within a job,
classes that the driver has seen travel by a number derived from their signature.
"""

import copyreg
import dataclasses
import enum
import hashlib
import sys
from collections.abc import Callable, Iterable
from types import MemberDescriptorType
from typing import Any, Final, NamedTuple

from penstock.common.exception_deadline import described_in_time
from penstock.errors import CorruptStreamError, SerializationError
from penstock.serialization.class_reference import (
    forget_imported,
    is_own,
    reference_of,
    register,
    resolve,
)
from penstock.serialization.former_layouts import (
    FORMER,
    maker_of,
    reads_unknown_classes_as_rows,
    row_maker,
    takes_former_fields,
)
from penstock.serialization.models import REST, field_names_of, is_model
from penstock.serialization.plain_instances import attributes_of

NAMED_TUPLE: Final = 0
DICT: Final = 1
SLOTS: Final = 2
BUILTIN: Final = 13
MODEL: Final = 15


class Layout(NamedTuple):
    """The decomposition of a class's instances into fields.

    Attributes:
        cls: The class; for ``FORMER`` the function that creates instances from its fields.
        kind: The place of the fields: the items of a ``NAMED_TUPLE``, the ``DICT`` of attributes,
            or ``SLOTS``.  An instance of a ``BUILTIN`` subclass travels as its builtin value.  A
            pydantic ``MODEL`` has a dict and further state.
        names: The fields; for ``BUILTIN`` the builtin class, with a star before it.  The fields of
            a ``MODEL`` are followed by ``*model``, which stands for its rest.
        signature: Identifies class and fields in other processes.
        number: Identifies both within the job; None if the job does not know them.
        is_own: Whether the class cannot be imported.
        is_plain: Whether instances may have other attributes, and those with attributes that do
            not stand alone are pickled (``instance_fields``).
    """

    cls: Any
    kind: int
    names: tuple[str, ...]
    signature: str
    number: int | None
    is_own: bool
    is_plain: bool = False


#: The layouts that all processes of the job know, by number; and their numbers by class.
_numbered: Final[dict[int, Layout]] = {}
_numbers: Final[dict[type, int]] = {}

#: The requested layouts, by signature.
_signed: Final[dict[str, Layout]] = {}

#: Called with a class when its layouts have changed.
on_change: Final[list[Callable[[type], None]]] = []


def layout_of(cls: type) -> Layout | None:
    """Return the layout of a class; None if its instances need another form."""
    fields = _fields(cls)
    if fields is None:
        return None
    reference = reference_of(cls)
    if reference is None:
        return None
    kind, names, is_plain = fields
    signature = f"{reference}({','.join(names)})"
    return Layout(cls, kind, names, signature, _numbers.get(cls), is_own(cls), is_plain)


def has_fields(cls: type) -> bool:
    """Return whether a class has a layout, or will have one once the job knows it."""
    return _fields(cls) is not None


def layout_numbered(number: int) -> Layout:
    """Return the layout with a number.

    Raises:
        SerializationError: The number is not registered in this process.
    """
    found = _numbered.get(number)
    if found is None:
        known = sorted(layout.signature for layout in _numbered.values())
        raise SerializationError(
            f"a value of a class, number {number:#010x}, that is not one of this program's, or "
            f"whose fields were others when it was written; known are {', '.join(known) or 'none'}"
        )
    return found


def layout_signed(signature: str) -> Layout:
    """Return the layout with a signature.

    Raises:
        SerializationError: The class does not exist in this process, or its fields have changed.
    """
    found = _signed.get(signature)
    if found is not None:
        return found
    reference, opening, names = signature.partition("(")
    if not opening or names[-1:] != ")":
        raise SerializationError(f"no class and its fields: {signature!r}")
    written = names[:-1].split(",")
    try:
        cls = resolve(reference)
    except SerializationError:
        if not reads_unknown_classes_as_rows():
            raise
        return Layout(row_maker(written), FORMER, tuple(written), signature, None, False)
    layout = layout_of(cls)
    if layout is None or layout.signature != signature:
        return _former_layout(reference, signature, written, layout)
    _signed[signature] = layout
    return layout


def _former_layout(
    reference: str, signature: str, written: list[str], layout: Layout | None
) -> Layout:
    """Return the layout of a class that had other fields, if this thread restores state."""
    why = ""
    is_builtin = (written[0][:1] == "*" and written != [REST]) or (
        layout is not None and layout.kind == BUILTIN
    )
    if layout is not None and not is_builtin and takes_former_fields():
        try:
            make = maker_of(layout.cls, written, layout.names)
        except SerializationError as error:
            why = f": {error}"
        else:
            return Layout(make, FORMER, tuple(written), signature, None, False)
    here = "is constructed differently" if layout is None else f"has ({', '.join(layout.names)})"
    raise SerializationError(
        f"a value of class {reference!r} was written with the fields ({', '.join(written)}), but "
        f"the class {here} here{why}"
    )


def number_classes(classes: Iterable[tuple[str | None, type]]) -> None:
    """Register the classes that all processes of the job know.

    Args:
        classes: The classes, each with its reference if it is the job's own.
    """
    forget_imported()
    for reference, cls in classes:
        if reference is not None:
            register(cls, reference)
        _signed.clear()
        layout = layout_of(cls)
        if layout is None:
            continue
        digest = hashlib.blake2b(layout.signature.encode(), digest_size=4).digest()
        number = int.from_bytes(digest, "big")
        known = _numbered.get(number)
        # Two signatures share a number: in every process the later class travels by its name.
        if known is None or known.signature == layout.signature:
            _numbered[number] = layout._replace(number=number)
            _numbers[cls] = number
        for told in on_change:
            told(cls)


def _fields(cls: Any) -> tuple[int, tuple[str, ...], bool] | None:
    if isinstance(getattr(cls, "_fields", None), tuple) and issubclass(cls, tuple):
        plain = hasattr(cls, "_make") and has_only_items(cls) and not _has_own_pickling(cls)
        return (NAMED_TUPLE, _interned(cls._fields), False) if plain else None
    base = builtin_base_of(cls)
    if base is not None:
        return BUILTIN, (f"*{base.__name__}",), True
    if is_model(cls):
        names = field_names_of(cls)
        made = _is_made_of_state(cls) and takes_attributes_as_they_are(cls)
        return (MODEL, (*names, REST), True) if made and not _has_described(cls, names) else None
    if not is_made_of_attributes(cls):
        return None
    is_plain = not dataclasses.is_dataclass(cls)
    if is_plain:
        if not takes_attributes_as_they_are(cls):
            return None
        names = _interned(attributes_of(cls))
        if not names:
            return None
    else:
        names = _interned(field.name for field in dataclasses.fields(cls))
    slots = set(slots_of(cls))
    if not slots and cls.__dictoffset__ != 0:
        return None if _has_described(cls, names) else (DICT, names, is_plain)
    found = slots == set(names) and cls.__dictoffset__ == 0
    return (SLOTS, names, is_plain) if found else None


def _has_described(cls: type, names: Iterable[str]) -> bool:
    """Return whether the class intercepts the setting of attributes."""
    return any(hasattr(getattr(cls, name, None), "__set__") for name in names)


#: By builtin class: the methods that pickling and unpickling of a subclass call.
_WAYS_OF_BUILTINS: Final[dict[type, tuple[str, ...]]] = {
    str: ("__getnewargs__",),
    int: ("__getnewargs__",),
    float: ("__getnewargs__",),
    bytes: ("__getnewargs__",),
    tuple: ("__getnewargs__",),
    list: ("__iter__", "append", "extend"),
    dict: ("items", "__setitem__"),
    set: ("__iter__", "__init__", "__new__"),
    frozenset: ("__iter__", "__init__", "__new__"),
}


_FILLED_LATER: Final[dict[type, Callable[[Any, Any], None]]] = {
    list: list.extend,
    dict: dict.update,
    set: set.update,
}


def builtin_base_of(cls: Any) -> type | None:
    """Return the builtin class of a subclass, if pickling stores only the builtin value."""
    base = next((base for base in cls.__mro__ if base in _WAYS_OF_BUILTINS), None)
    if base is None or base is cls or issubclass(cls, enum.Enum) or slots_of(cls):
        return None
    ways = ("__getattribute__", "__reduce__", "__reduce_ex__", "__getstate__")
    as_base = (
        all(_is_same(cls, base, name) for name in (*ways, *_WAYS_OF_BUILTINS[base]))
        and not hasattr(cls, "__getnewargs_ex__")
        and not hasattr(cls, "__setstate__")
        and (hasattr(base, "__getnewargs__") or not hasattr(cls, "__getnewargs__"))
    )
    is_python = all(b in (base, object) or b.__flags__ & _HEAP_TYPE for b in cls.__mro__)
    return base if as_base and is_python and cls not in copyreg.dispatch_table else None


def made_of_builtin(layout: Layout, value: Any) -> Any:
    """Return a subclass instance with a builtin value, created as by unpickling.

    Raises:
        CorruptStreamError: The value is of another class.
        SerializationError: The class rejects the value.
    """
    cls = layout.cls
    if f"*{type(value).__name__}" != layout.names[0]:
        raise CorruptStreamError(f"a {type(value).__name__} as the value of {layout.signature}")
    fill = _FILLED_LATER.get(type(value))
    try:
        if fill is None:
            return cls.__new__(cls, value)
        made = cls.__new__(cls)
        fill(made, value)
    except Exception as error:
        raise SerializationError(
            f"a value of {layout.signature} could not be restored: {described_in_time(error)}"
        ) from error
    return made


def takes_attributes_as_they_are(cls: type) -> bool:
    """Return whether pickling a plain class reads and sets slots without calling its methods."""
    if not _inherits_from_object(cls, "__getattribute__"):
        return False
    return (
        cls.__dictoffset__ != 0
        or _inherits_from_object(cls, "__setattr__")
        or hasattr(cls, "__attrs_attrs__")
    )


def _interned(names: Iterable[str]) -> tuple[str, ...]:
    """Return interned names, which code and dicts compare by identity.

    Names in a class that was pickled by value are not interned, so each comparison reads all
    letters.
    """
    return tuple(sys.intern(str(name)) for name in names)


def slots_of(cls: type) -> list[str]:
    """Return the names of the slots of a class's instances.

    This may differ from ``__slots__``: a class that was pickled by value loses its slots.
    """
    return [
        name
        for base in cls.__mro__
        for name, found in vars(base).copy().items()  # pickling in another thread adds its result
        if isinstance(found, MemberDescriptorType)
    ]


def has_only_items(cls: type) -> bool:
    """Return whether instances of a subclass of tuple have no attributes.

    A class that was pickled by value loses its slots, but ``__slots__`` still names them.
    """
    if cls.__dictoffset__ == 0:
        return True
    bases = cls.__mro__[: cls.__mro__.index(tuple)]
    return all(vars(base).get("__slots__") == () for base in bases)


def is_made_of_attributes(cls: type) -> bool:
    """Return whether pickling only reads attributes, and unpickling only sets them."""
    return not _has_own_pickling(cls) and _is_made_of_state(cls)


def _is_made_of_state(cls: type) -> bool:
    """Return whether the state that pickling reads describes instances completely."""
    if not all(_inherits_from_object(cls, n) for n in ("__new__", "__reduce__", "__reduce_ex__")):
        return False
    if any(hasattr(cls, name) for name in ("__getnewargs__", "__getnewargs_ex__")):
        return False
    # No state is hidden from Python: all bases are Python classes.
    return cls not in copyreg.dispatch_table and all(
        base is object or base.__flags__ & _HEAP_TYPE for base in cls.__mro__
    )


_HEAP_TYPE: Final = 1 << 9

_WAYS_OF_DATACLASSES: Final = {
    name: getattr(dataclasses, f"_dataclass_{name.strip('_')}", None)
    for name in ("__getstate__", "__setstate__")
}


def _has_own_pickling(cls: type) -> bool:
    if not all(_inherits_from_object(cls, name) for name in ("__reduce__", "__reduce_ex__")):
        return True
    return not all(
        _inherits_from_object(cls, name)
        or getattr(cls, name) is of_dataclasses
        or _is_of_attrs(cls, getattr(cls, name))
        for name, of_dataclasses in _WAYS_OF_DATACLASSES.items()
    )


def _is_of_attrs(cls: Any, method: Any) -> bool:
    """Return whether attrs generated the method, which only reads or sets fields."""
    if getattr(method, "__globals__", {}).get("__name__") != "attr._make":
        return False
    fields = {field.name for field in getattr(cls, "__attrs_attrs__", ())}
    slots = {name for base in cls.__mro__ for name in vars(base).get("__slots__", ())}
    # A hash that is cached in a slot is valid in one process only.
    return slots <= fields | {"__weakref__"}


def _inherits_from_object(cls: type, name: str) -> bool:
    return _is_same(cls, object, name)


def _is_same(cls: type, base: type, name: str) -> bool:
    return getattr(cls, name, None) is getattr(base, name, None)

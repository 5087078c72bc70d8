"""The fields and the further state of pydantic models.

An instance consists of the values of its fields, which are in its dict, and a *rest*: the set of
assigned fields, private attributes and extra attributes.  Both are read and restored as pickling
does, so nothing is validated a second time.  penstock itself does not need pydantic.  The native
twin is ``penstock._native.codecs.models``.
"""

import copy
import sys
from collections.abc import Mapping, Sequence
from types import MemberDescriptorType
from typing import Any, Final

from penstock.errors import CorruptStreamError, SerializationError

#: Follows the fields in the signature of a model: the rest follows the field values.
REST: Final = "*model"

_FIELDS_SET: Final = "__pydantic_fields_set__"
_PRIVATE: Final = "__pydantic_private__"
_EXTRA: Final = "__pydantic_extra__"
_OF_PYDANTIC: Final = frozenset({"pydantic.main", "pydantic.root_model"})


def model_base() -> Any:
    """Return ``BaseModel`` if the program uses it, from version 2 of pydantic on."""
    base: Any = getattr(sys.modules.get("pydantic.main"), "BaseModel", None)
    return base if _FIELDS_SET in getattr(base, "__slots__", ()) else None


def is_model(cls: Any) -> bool:
    """Return whether a class is a model with pydantic's own pickling."""
    base = model_base()
    return (
        base is not None
        and base in cls.__mro__
        and cls is not base
        and all(is_of_pydantic(cls, name) for name in ("__getstate__", "__setstate__"))
    )


def is_of_pydantic(cls: Any, name: str) -> bool:
    """Return whether a model's method is pydantic's own."""
    return getattr(getattr(cls, name), "__globals__", {}).get("__name__") in _OF_PYDANTIC


def field_names_of(cls: Any) -> tuple[str, ...]:
    """Return the fields of a model, in their order."""
    return tuple(sys.intern(str(name)) for name in cls.model_fields)


def has_attachments(cls: Any) -> bool:
    """Return whether instances may have private and extra attributes, unlike a RootModel's."""
    found = next(vars(base)[_PRIVATE] for base in cls.__mro__ if _PRIVATE in vars(base))
    return isinstance(found, MemberDescriptorType)


def slots_of_model(cls: Any) -> tuple[str, ...]:
    """Return the slots of instances besides the dict."""
    return (_FIELDS_SET, _EXTRA, _PRIVATE) if has_attachments(cls) else (_FIELDS_SET,)


def attachments_of(value: Any) -> tuple[Any, Any]:
    """Return the private and the extra attributes of an instance, each a dict or None.

    Raises:
        AttributeError: The instance was not created by the model's constructor.
    """
    return getattr(value, _PRIVATE), getattr(value, _EXTRA)


def rest_of(value: Any, names: Sequence[str]) -> Any:
    """Return the state of an instance besides its fields; None if it needs another form.

    The set of assigned fields is an integer: one bit for each field, then for each extra attribute.
    If the model may have private and extra attributes, the rest is a tuple of the integer and them.
    """
    private, extra = attachments_of(value)
    if not (_is_dict_or_none(private) and _is_dict_or_none(extra)):
        return None
    fields_set = getattr(value, _FIELDS_SET)
    if type(fields_set) is not set:
        return None
    mask = count = 0
    for i, name in enumerate((*names, *(extra or ()))):
        if name in fields_set:
            mask |= 1 << i
            count += 1
    if count != len(fields_set):
        return None
    return mask if private is None and extra is None else (mask, private, extra)


def set_rest(value: Any, names: Sequence[str], rest: Any) -> None:
    """Restore the state that :func:`rest_of` returned.

    Raises:
        CorruptStreamError: The rest is malformed.
    """
    fields_set, private, extra = _parted(rest, names)
    _set_slots(value, fields_set, private, extra)


def _parted(rest: Any, names: Sequence[str]) -> tuple[set[str], Any, Any]:
    mask, private, extra = rest if type(rest) is tuple and len(rest) == 3 else (rest, None, None)
    if type(mask) is int and _is_dict_or_none(private) and _is_dict_or_none(extra):
        known = (*names, *(extra or ()))
        if 0 <= mask < 1 << len(known):
            return {name for i, name in enumerate(known) if mask >> i & 1}, private, extra
    raise CorruptStreamError(f"the values of a model's fields are followed by {rest!r}")


def _set_slots(value: Any, fields_set: set[str], private: Any, extra: Any) -> None:
    # As in unpickling: a model's __setattr__ would reject or validate.
    object.__setattr__(value, _FIELDS_SET, fields_set)
    if has_attachments(type(value)):
        object.__setattr__(value, _PRIVATE, private)
        object.__setattr__(value, _EXTRA, extra)
    elif private is not None or extra is not None:
        raise CorruptStreamError(f"attributes beside the root of {type(value).__name__}")


def state_of(value: Any) -> tuple[dict[str, Any], tuple[set[str], Any, Any, tuple[str, ...]]]:
    """Return an instance's dict, and the rest for :func:`model_of`.

    Raises:
        AttributeError: The instance was not created by the model's constructor.
    """
    state = value.__getstate__()
    rest = state[_FIELDS_SET], state.get(_PRIVATE), state.get(_EXTRA)
    return state["__dict__"], (*rest, field_names_of(type(value)))


def model_of(
    cls: Any,
    attributes: dict[str, Any],
    fields_set: set[str],
    private: Any,
    extra: Any,
    names: tuple[str, ...],  # noqa: ARG001 (whoever restores state asks for it)
) -> Any:
    """Return an instance with the state that :func:`state_of` returned."""
    return _made(cls, attributes, fields_set, private, extra)


def _made(cls: Any, attributes: dict[str, Any], *rest: Any) -> Any:
    value = object.__new__(cls)
    object.__setattr__(value, "__dict__", attributes)
    _set_slots(value, *rest)
    return value


def former_model(cls: Any, written: dict[str, Any], rest: Any) -> Any:
    """Return an instance with the values of its former fields, matched by name.

    Args:
        cls: The model.
        written: The values of the fields that it had.
        rest: The rest that was written after them; None if the class was not a model then.

    Raises:
        SerializationError: It has gained a field without a default; names it.
    """
    names = tuple(written)
    every = (1 << len(names)) - 1
    fields_set, private, extra = _parted(every if rest is None else rest, names)
    return former_model_of(cls, written, fields_set, private, extra, names)


def former_model_of(
    cls: Any,
    attributes: dict[str, Any],
    fields_set: set[str],
    private: Any,
    extra: Any,
    names: tuple[str, ...],
) -> Any:
    """Return an instance with a state of :func:`state_of`, whose class may have other fields now.

    Removed fields are dropped.  Added fields take their defaults and count as not set, unless they
    were extra attributes before.

    Raises:
        SerializationError: It has gained a field without a default; names it.
    """
    extra = extra or {}
    found: dict[str, Any] = {}
    for name, field in cls.model_fields.items():
        if name in attributes:
            found[name] = attributes[name]
        elif name in extra:
            found[name] = extra[name]
        elif name not in names:  # else it was deleted
            if _is_required(field):
                raise SerializationError(
                    f"a value of {cls.__module__}:{cls.__qualname__} was written with the fields "
                    f"({', '.join(names)}): {name!r} would need a default to be added to it"
                )
            found[name] = _default_of(field, found)
    # Cached properties are in the dict, too.
    kept = {n: v for n, v in attributes.items() if n not in names and hasattr(cls, n)}
    if has_attachments(cls):
        private = _private_of(cls, private or {}, found)
        allowed = cls.model_config.get("extra") == "allow"
        extra = {n: v for n, v in extra.items() if n not in found} if allowed else None
    else:
        private = extra = None
    set_here = fields_set & {*cls.model_fields, *(extra or ())}
    return _made(cls, found | kept, set_here, private, extra)


def _private_of(cls: Any, written: Mapping[str, Any], fields: Mapping[str, Any]) -> Any:
    """Return the current private attributes, as written or with their defaults."""
    found: dict[str, Any] = {}
    for name, attribute in cls.__private_attributes__.items():
        if name in written:
            found[name] = written[name]
        elif not _is_required(attribute):
            found[name] = _default_of(attribute, {**fields, **found})
    return found if cls.__private_attributes__ else None


def _is_required(field: Any) -> bool:
    undefined = type(field.default).__name__ == "PydanticUndefinedType"
    return field.default_factory is None and (undefined or field.default is ...)


def _default_of(field: Any, found: Mapping[str, Any]) -> Any:
    """Return the default of a field or a private attribute; each instance gets its own copy."""
    factory = field.default_factory
    if factory is None:
        return copy.deepcopy(field.default)
    takes_fields = getattr(field, "default_factory_takes_validated_data", False)
    return factory(dict(found)) if takes_fields else factory()


def _is_dict_or_none(value: Any) -> bool:
    return value is None or type(value) is dict

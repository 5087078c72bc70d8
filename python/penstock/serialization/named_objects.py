"""Objects that pickle by a global name in a module that workers cannot import.

An object whose ``__reduce__`` returns a string is pickled as the name of a global.  A name in the
program's own file is unknown to a worker, whose main module differs.  Objects that are known to
consist of picklable parts are decomposed here; any other object is rejected when it is pickled.

A function with a cache arrives with an empty cache.  An instance of a Python class, such as a
sentinel, is created once in each process, so that all values and functions refer to the same
object.
"""

from __future__ import annotations

import copyreg
import functools
import pickle
import typing
from types import FunctionType
from typing import Any, Final

import cloudpickle
from cloudpickle.cloudpickle import _lookup_module_and_qualname

_CACHED: Final[type] = type(functools.lru_cache(len))
_DISPATCHING: Final = functools.singledispatch(lambda value: value).__code__  # type: ignore[attr-defined]

#: The objects of the program in this process, by module and name.
_objects: Final[dict[str, Any]] = {}
#: The objects that `_object` has created and `_complete` has not completed.
_incomplete: Final[set[str]] = set()


def reduced(value: Any, reducers: typing.Mapping[type, Any]) -> Any:
    """Return the reduction of a value that is neither a class nor a function.

    Args:
        value: The value to pickle.
        reducers: How values of some types are reduced.

    Returns:
        As ``reducer_override`` of a pickler.

    Raises:
        PicklingError: The value pickles by the name of a global that workers lack.
    """
    kind = type(value)
    if _is_plain(kind):  # type: ignore[arg-type]
        return NotImplemented
    if kind is functools.cached_property:
        return _cached_property, (value.func, value.attrname)
    reduce = reducers.get(kind) or copyreg.dispatch_table.get(kind)
    parts = value.__reduce_ex__(pickle.HIGHEST_PROTOCOL) if reduce is None else reduce(value)
    if not isinstance(parts, str) or _is_found(value, parts):
        return parts
    if kind is _CACHED:
        return _cached_parts(value)
    if kind is typing.NewType:
        return typing.NewType, (value.__name__, value.__supertype__), dict(vars(value))
    if _is_of_python(kind):
        return _object_parts(value, parts)
    raise pickle.PicklingError(
        f"{value!r:.200} is pickled by its name {parts!r}, under which no worker finds it: define "
        "it in a module beside the program, or make it in open()"
    )


@functools.lru_cache(maxsize=4096)
def _is_plain(kind: type) -> bool:
    """Return whether pickle reduces instances of a class in the default way."""
    return (
        getattr(kind, "__reduce__", None) is object.__reduce__
        and getattr(kind, "__reduce_ex__", None) is object.__reduce_ex__
        and kind not in copyreg.dispatch_table
        and kind is not functools.cached_property
    )


def _is_of_python(kind: type) -> bool:
    """Return whether instances of a class consist of attributes only."""
    if not any(isinstance(own, FunctionType) for own in (kind.__reduce__, kind.__reduce_ex__)):
        return False
    try:
        object.__new__(kind)
    except TypeError:  # it is a list or a dict as well, for example
        return False
    return True


def reduced_dispatcher(function: FunctionType) -> Any:
    """Return the reduction of a ``functools.singledispatch`` function, None for others."""
    if function.__code__ is not _DISPATCHING or _is_found(function, function.__qualname__):
        return None
    registry = dict(function.registry)  # type: ignore[attr-defined]
    default = registry.pop(object)
    return functools.singledispatch, (default,), registry, None, None, _register_all


def _is_found(value: Any, name: str) -> bool:
    """Return whether workers find a value by its name."""
    found = _lookup_module_and_qualname(value, name=name)
    if found is None:
        return False
    package = found[0].__name__.partition(".")[0]
    return package not in cloudpickle.list_registry_pickle_by_value()


def _cached_parts(value: Any) -> Any:
    others = {
        name: one
        for name, one in vars(value).items()
        if name not in ("__wrapped__", "cache_parameters")
    }
    return _cached, (value.__wrapped__, *value.cache_parameters().values()), others


def _cached(function: Any, maxsize: int | None, typed: bool) -> Any:
    return functools.lru_cache(maxsize, typed)(function)


def _cached_property(function: Any, name: str | None) -> Any:
    made = functools.cached_property(function)
    made.attrname = name
    return made


def _register_all(dispatcher: Any, registry: dict[type, Any]) -> None:
    for kind, function in registry.items():
        dispatcher.register(kind, function)


def _object_parts(value: Any, name: str) -> Any:
    reference = f"{getattr(value, '__module__', '__main__')}:{name}"
    _objects[reference] = value
    state = reference, value.__getstate__()
    return _object, (reference, type(value)), state, None, None, _complete


def _object(reference: str, cls: type) -> Any:
    """Return the program's object of that name; create it if it does not exist."""
    found = _objects.get(reference)
    if type(found) is not cls:
        found = _objects[reference] = object.__new__(cls)
        _incomplete.add(reference)
    return found


def _complete(value: Any, parts: tuple[str, Any]) -> None:
    """Set the state of an object that was just created."""
    reference, state = parts
    if reference not in _incomplete:
        return
    _incomplete.discard(reference)
    if hasattr(value, "__setstate__"):
        value.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for name, one in {**(attributes or {}), **(slots or {})}.items():
        object.__setattr__(value, name, one)

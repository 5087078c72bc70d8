"""Classes of user values, named on the wire by module and qualified name.

A class that the receiving process can import travels as that name.  A class that it cannot import
(defined in ``__main__``, in a module that is pickled by value or inside a function) is the *job's
own*: the driver registers it when it ships the job's code, and workers register it when they load
that code.  Then it has a name like any other class.  A class that is created in a worker has no
name, and its instances are pickled together with it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock, local
from typing import Any, Final

import cloudpickle

from penstock.errors import SerializationError
from penstock.serialization.imports import import_for_value

#: The job's own classes by their references, and the references by the classes.
_own_classes: Final[dict[str, type]] = {}
_own_references: Final[dict[type, str]] = {}
_registering: Final = Lock()


class _Noted(local):
    """The classes that the current thread writes, if it collects them."""

    classes: dict[type, None] | None = None


_noted: Final = _Noted()

#: Set once any thread collects classes; until then codecs need not check.
on_noting: Final[list[Callable[[bool], None]]] = []
_noting_threads: int = 0


def reference_of(cls: type) -> str | None:
    """Return ``module:qualified name`` of a class; None if the receiver cannot find it by that."""
    reference = _importable_reference(cls)
    if reference is not None:
        return reference
    if _noted.classes is not None:
        register(cls)
        _noted.classes[cls] = None
    return _own_references.get(cls)


def is_own(cls: type) -> bool:
    """Return whether a class is the job's own, so that its name cannot be imported."""
    return _importable_reference(cls) is None


def module_of(cls: type) -> str:
    """Return the name of a class's module; the main one for a class that names none."""
    named: object = cls.__module__
    return named if isinstance(named, str) else "__main__"


@lru_cache(maxsize=4096)
def _importable_reference(cls: type) -> str | None:
    module_name, qualified_name = module_of(cls), cls.__qualname__
    if module_name == "__main__" or "<" in qualified_name:
        return None
    if module_name.partition(".")[0] in cloudpickle.list_registry_pickle_by_value():
        return None
    return f"{module_name}:{qualified_name}" if _is_found(cls) else None


def _is_found(cls: type) -> bool:
    """Return whether the name of a class leads to it in this process."""
    found: Any = sys.modules.get(module_of(cls))
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls


def register(cls: type, reference: str | None = None) -> str:
    """Register a class that cannot be imported under a reference in this process.

    Several classes may share a name, for example classes that a function creates: the later ones
    get a numeric suffix.  A class that is defined again, as in a notebook, replaces the former one.

    Args:
        cls: The class.
        reference: The driver's reference; None in the driver itself.

    Returns:
        The reference.
    """
    with _registering:
        known = _own_references.get(cls)
        if known is not None and reference in (None, known):
            return known
        if reference is None:
            reference = name = f"{module_of(cls)}:{cls.__qualname__}"
            number = 1
            while reference in _own_classes and not _is_found(cls):
                number += 1
                reference = f"{name}#{number}"
        _own_classes[reference] = cls
        _own_references[cls] = reference
        return reference


def other_names_of(cls: type) -> list[str]:
    """Return the other references that lead to a class, in its module and in the main one.

    With them, older values find a class that was renamed or moved out of the main module, if the
    program still binds it to its former name.
    """
    return [
        f"{module}:{name}"
        for module in {module_of(cls), "__main__"}
        for name, found in list(getattr(sys.modules.get(module), "__dict__", {}).items())
        if found is cls and (module, name) != (module_of(cls), cls.__qualname__)
    ]


def register_other_name(cls: type, reference: str) -> None:
    """Register another reference to a class, unless the reference belongs to a class already."""
    with _registering:
        _own_classes.setdefault(reference, cls)


@contextmanager
def noting_classes() -> Iterator[dict[type, None]]:
    """Collect the job's own classes that this thread writes within the block."""
    before, _noted.classes = _noted.classes, {}
    _count_noting(1)
    try:
        yield _noted.classes
    finally:
        _count_noting(-1)
        _noted.classes = before


def _count_noting(change: int) -> None:
    global _noting_threads
    with _registering:
        _noting_threads += change
        for told in on_noting:
            told(_noting_threads > 0)


def resolve(reference: str) -> type:
    """Return the class that a reference names.

    Raises:
        SerializationError: The class is neither registered in this process nor importable.
    """
    own = _own_classes.get(reference)
    return _imported(reference) if own is None else own


def forget_imported() -> None:
    """Clear the cache of imported classes, since modules may have changed."""
    _imported.cache_clear()
    _importable_reference.cache_clear()


@lru_cache(maxsize=4096)
def _imported(reference: str) -> type:
    module_name, _, qualified_name = reference.partition(":")
    try:
        if module_name == "__main__":
            raise ImportError(
                "it is of another program; a class that was renamed is found by its former name if "
                "the program gives it that as well, Former = Renamed"
            )
        found: Any = import_for_value(module_name)
        for part in qualified_name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = (
            "; its folder must be in sys.path" if isinstance(error, ModuleNotFoundError) else ""
        )
        raise SerializationError(
            f"no class {reference!r} of a value here: {error}{remedy}"
        ) from error
    if not isinstance(found, type):
        raise SerializationError(f"{reference!r} of a value is not a class here")
    return found

"""Classes of user values named on the wire by module and qualified name.

A class that the receiving process can import under the same name travels as that name.  One that
it cannot (defined in ``__main__`` or inside a function) has no reference, and its instances are
pickled together with their class.
"""

import importlib
import sys
from functools import lru_cache
from typing import Any

import cloudpickle

from penstock.errors import SerializationError


@lru_cache(maxsize=4096)
def reference_of(cls: type) -> str | None:
    """``module:qualified name`` of a class, or None when it cannot be imported by that name."""
    module_name, qualified_name = cls.__module__, cls.__qualname__
    if module_name == "__main__" or "<" in qualified_name:
        return None
    if module_name.partition(".")[0] in cloudpickle.list_registry_pickle_by_value():
        return None
    found: Any = sys.modules.get(module_name)
    for part in qualified_name.split("."):
        found = getattr(found, part, None)
    return f"{module_name}:{qualified_name}" if found is cls else None


@lru_cache(maxsize=4096)
def resolve(reference: str) -> type:
    """The class that a reference names.

    Raises:
        SerializationError: this process cannot import it.
    """
    module_name, _, qualified_name = reference.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in qualified_name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise SerializationError(f"no class {reference!r} of a value here: {error}") from error
    if not isinstance(found, type):
        raise SerializationError(f"{reference!r} of a value is not a class here")
    return found

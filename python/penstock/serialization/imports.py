"""Imports for the code and the values of tasks, serialised within a process.

The threads of several tasks start at the same time and import the same packages.  Python locks each
module separately, so packages with circular imports can make two threads wait for each other.
Python then aborts one of the imports with a deadlock error, or exposes a half-initialised module.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
import threading
from typing import TYPE_CHECKING, Any, Final

from penstock.serialization.moved_modules import present_name

if TYPE_CHECKING:
    from types import ModuleType

#: Held while a task unpickles job code, imports an operator, or imports for a value.
IMPORT_LOCK: Final = threading.RLock()

#: Modules that `import_for_value` has imported, with their packages.
_imported: Final[set[str]] = set()


def import_for_value(name: str) -> ModuleType:
    """Import a module that a value needs, after its package.

    Args:
        name: Its current name, or its name before it was moved.

    Raises:
        ImportError: There is no such module.
    """
    name = present_name(name)
    with IMPORT_LOCK:
        # If another thread is importing the package, this waits until the import is complete.  A
        # package that cannot be imported fails below as well, unless the module does without it.
        with contextlib.suppress(ImportError):
            importlib.import_module(name.partition(".")[0])
        module = importlib.import_module(name)
        _imported.add(name)
    return module


#: Looked up once: this is called for every class of every pickled value.
_find_class: Final = pickle.Unpickler.find_class


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module not in _imported:
            module = present_name(module)
            import_for_value(module)
        return _find_class(self, module, name)


def unpickled(data: bytes) -> Any:
    """Return the unpickled value; its modules are imported as by `import_for_value`."""
    return _Unpickler(io.BytesIO(data)).load()

"""numpy, if the program uses it; penstock itself does not need it."""

import sys
from typing import Any


def loaded_numpy() -> Any:
    """Return the module; None if it was not imported, or its import is in progress.

    Another thread may be importing it.  A program that holds a numpy value has imported it.
    """
    numpy: Any = sys.modules.get("numpy")
    return numpy if hasattr(numpy, "generic") and hasattr(numpy, "ndarray") else None


def is_numpy_bool(value: Any) -> bool:
    """Return whether a value is a `numpy.bool_`, which numpy does not treat as a number."""
    numpy = loaded_numpy()
    return numpy is not None and isinstance(value, numpy.bool_)

"""numpy, if the program uses it; penstock itself does not need it."""

import sys
from typing import Any


def loaded_numpy() -> Any:
    """The module; None if nobody has imported it, or it is only being imported.

    Another thread may be importing it.  Whoever holds a value of numpy has imported it.
    """
    numpy: Any = sys.modules.get("numpy")
    return numpy if hasattr(numpy, "generic") and hasattr(numpy, "ndarray") else None


def is_numpy_bool(value: Any) -> bool:
    """Return whether a value is a `numpy.bool_`, which is not a number for numpy."""
    numpy = loaded_numpy()
    return numpy is not None and isinstance(value, numpy.bool_)

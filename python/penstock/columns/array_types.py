"""Types of NumPy's arrays in annotations, by the kind of their values."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Numbers of groups, positions, counts, times: integers of any width.
Integers: TypeAlias = NDArray[np.integer[Any]]

#: Masks.
Booleans: TypeAlias = NDArray[np.bool_]

#: Values of any type: numbers, or Python objects.
Values: TypeAlias = NDArray[Any]

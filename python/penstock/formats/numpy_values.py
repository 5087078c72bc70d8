"""Arrays of Arrow as arrays of NumPy, without pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def numpy_values(array: Any) -> NDArray[Any]:
    """Return numbers, booleans, or times as integers, without NULLs, as an array of NumPy.

    It shares the memory, except for booleans.  Arrow's ``to_numpy`` imports pandas, which takes
    hundreds of milliseconds.
    """
    # Formats are imported without the extra `columns`, too.
    import numpy as np
    from pyarrow import types

    kind, size, offset = array.type, len(array), array.offset
    data = array.buffers()[1]
    if data is None or size == 0:
        return np.empty(0, np.bool_ if types.is_boolean(kind) else _letter(kind))
    if types.is_boolean(kind):
        bits = np.frombuffer(data, np.uint8)
        return np.unpackbits(bits, count=offset + size, bitorder="little")[offset:].view(np.bool_)
    letter = _letter(kind)
    return np.frombuffer(data, letter, size, offset * kind.bit_width // 8)


def _letter(kind: Any) -> str:
    from pyarrow import types

    is_unsigned, is_float = types.is_unsigned_integer(kind), types.is_floating(kind)
    return f"{'u' if is_unsigned else 'f' if is_float else 'i'}{kind.bit_width // 8}"

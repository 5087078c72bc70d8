"""Objects that own memory, files or threads, of which a copy would own the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from typing import SupportsIndex


class Uncopied:
    """An object that can be neither copied nor pickled, like those of the native runtime."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        """Reject `copy.copy` and `pickle.dumps`.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

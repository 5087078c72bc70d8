"""VersionedForm: what of the engine's own outlives the release that wrote it, with a version.

A value of a user's type brings its `TypeSerializerSnapshot`.  What the engine itself puts around
such values (a committable with its checkpoint, say) has a form that may change with a release: it
is kept as a tuple that begins with the version of that form, so that one that is not known is
refused instead of taken for another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class VersionedForm:
    """The form of one kind of values.

    Attributes:
        what: Names them in errors, as "a committable".
        fields: The names of their fields, in order.
        version: The version of the form, from 1.
    """

    what: str
    fields: tuple[str, ...]
    version: int = 1

    def write(self, *values: Any) -> tuple[Any, ...]:
        """Return the stored form: the version, and the values of the fields."""
        assert len(values) == len(self.fields), "a value for each field"
        return (self.version, *values)

    def read(self, kept: Any) -> Sequence[Any]:
        """The values of the fields of what `write` gave.

        Raises:
            SerializationError: It is of another version, or of none.
        """
        if isinstance(kept, (tuple, list)) and len(kept) > 0 and type(kept[0]) is int:
            version, *values = kept
            if version == self.version and len(values) == len(self.fields):
                return values
            if version > self.version:
                raise SerializationError(
                    f"{self.what} was written in version {version} of its form; this version of "
                    f"penstock reads version {self.version}: go on with the release that wrote it, "
                    "or start without that state"
                )
        raise SerializationError(
            f"{self.what} is not in version {self.version} of its form ({', '.join(self.fields)}), "
            "which this version of penstock reads: go on with the release that wrote it, or start "
            "without that state"
        )

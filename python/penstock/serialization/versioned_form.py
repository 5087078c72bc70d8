"""VersionedForm: the versioned form of engine data that outlives the release that wrote it.

A value of a user's type has a `TypeSerializerSnapshot`.  The engine's own data around such values,
for example a committable with its checkpoint, may change its form with a release.  It is stored as
a tuple that begins with the version of the form, so an unknown version is rejected instead of
misread.
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
        what: The name in errors, such as "a committable".
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
        """Return the values of the fields of a form that `write` wrote.

        Raises:
            SerializationError: The version is unknown or missing.
        """
        if isinstance(kept, (tuple, list)) and len(kept) > 0 and type(kept[0]) is int:
            version, *values = kept
            if version == self.version and len(values) == len(self.fields):
                return values
            if version > self.version:
                raise SerializationError(
                    f"{self.what} was written in version {version} of its form; this version of "
                    f"penstock reads version {self.version}: continue with the release that wrote "
                    "it, or start without that state"
                )
        raise SerializationError(
            f"{self.what} is not in version {self.version} of its form ({', '.join(self.fields)}), "
            "which this version of penstock reads: continue with the release that wrote it, or "
            "start without that state"
        )

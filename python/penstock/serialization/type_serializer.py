"""TypeSerializer: the stored form of a declared type's values, and of the type itself.

Values that outlive a process describe themselves (`docs/formats/codec.md`), so they can be read
without the program.  The declared type is stored beside them, as the snapshot of the serializer.
It decides whether the values fit the type that a later program declares, as they are or after a
migration.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from penstock.errors import InvalidProgramError
from penstock.serialization.codec import Codec, codec_for
from penstock.serialization.state_types import (
    IncompatibleTypesError,
    StateType,
    migration,
    read_type,
    recorded_type,
    written_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")


@dataclass(frozen=True)
class TypeSerializerSchemaCompatibility:
    """The compatibility of values that were written under another snapshot.

    Attributes:
        migrate: Converts a value to the new type; None if that is unnecessary or impossible.
        detail: The reason why a migration is impossible; None if the types fit.
    """

    migrate: Callable[[Any], Any] | None = None
    detail: str | None = None

    def is_compatible_as_is(self) -> bool:
        """Return whether the values are values of the new type."""
        return self.migrate is None and self.detail is None

    def is_compatible_after_migration(self) -> bool:
        """Return whether `migrate` converts the values to the new type."""
        return self.migrate is not None

    def is_incompatible(self) -> bool:
        """Return whether the values cannot be converted to the new type."""
        return self.detail is not None


@dataclass(frozen=True)
class TypeSerializerSnapshot:
    """A declared type, as it is stored beside the values.

    Attributes:
        type: The type.
    """

    type: StateType

    @classmethod
    def read(cls, text: str) -> TypeSerializerSnapshot:
        """Return the snapshot that `write` wrote.

        Raises:
            SerializationError: The text is malformed, or its format is later than this version of
                penstock supports.
        """
        return cls(read_type(text))

    def write(self) -> str:
        """Return the snapshot as text, which is always the same for a type."""
        return written_type(self.type)

    def get_current_version(self) -> int:
        """Return the version of the text's format."""
        return self.type.version

    def has_time_to_live(self) -> bool:
        """Return whether the values carry the time of their last use."""
        return self.type.ttl

    def resolve_schema_compatibility(
        self, old: TypeSerializerSnapshot
    ) -> TypeSerializerSchemaCompatibility:
        """Return whether values that were written under ``old`` are values of this type.

        A time to live may be added or removed, since functions see the same values.
        """
        if self == old:
            return TypeSerializerSchemaCompatibility()
        try:
            return TypeSerializerSchemaCompatibility(migration(old.type, self.type))
        except IncompatibleTypesError as error:
            return TypeSerializerSchemaCompatibility(detail=error.detail)

    def migration_from(
        self, old: TypeSerializerSnapshot, state: str
    ) -> Callable[[Any], Any] | None:
        """Return the conversion from values that ``old`` describes; None if none is needed.

        Args:
            old: The snapshot that was kept beside the values.
            state: Names the state in errors.

        Raises:
            InvalidProgramError: The values cannot be converted; the message names both types.
        """
        found = self.resolve_schema_compatibility(old)
        if found.is_incompatible():
            raise InvalidProgramError(
                f"{state} was written as {old}, and is declared as {self} now: {found.detail}; "
                "give the state another name to begin without its values"
            )
        return found.migrate

    def __str__(self) -> str:
        return str(self.type)


class TypeSerializer(Generic[T]):
    """Converts values of one declared type to self-describing bytes and back."""

    def __init__(self, type_info: TypeInformation | None = None, *, ttl: bool = False) -> None:
        """Create the serializer of a type.

        Args:
            type_info: The declared type; None for any value.
            ttl: Whether the values have a time to live.
        """
        self._type_info = type_info
        self._ttl = ttl
        codec = self._codec()
        #: Returns the bytes of a value; raises SerializationError, which names the value.
        self.serialize: Callable[[T], bytes] = codec.encode
        #: Returns the value of exactly these bytes; raises CorruptStreamError if they are
        #: malformed.
        self.deserialize = cast("Callable[[bytes], T]", codec.decode)

    def _codec(self) -> Codec:
        return codec_for(None)

    @cached_property
    def _snapshot(self) -> TypeSerializerSnapshot:
        return TypeSerializerSnapshot(recorded_type(self._type_info, ttl=self._ttl))

    def snapshot_configuration(self) -> TypeSerializerSnapshot:
        """Return the configuration that is stored beside the values."""
        return self._snapshot


class JobTypeSerializer(TypeSerializer[T]):
    """Serializer of one declared type for values that tasks of a job exchange.

    The bytes are those of the type's own codec: they are shorter, and readable only with the same
    type.  Use a `TypeSerializer` for data that outlives the job.
    """

    def _codec(self) -> Codec:
        return codec_for(self._type_info)

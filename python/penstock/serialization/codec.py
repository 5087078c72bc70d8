"""Codecs of the active runtime, which convert values to bytes and back."""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.runtime import runtime
from penstock.serialization.type_schema import TypeSchema, schema_of

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation


class Codec(Protocol):
    """Encodes and decodes values of one type; native and pure codecs write the same bytes."""

    @property
    def schema(self) -> TypeSchema:
        """The compiled type."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value.

        Raises:
            SerializationError: The value is not of the type; names value, type and field.
        """

    def certainly_writes(self, value: Any) -> bool:
        """Return whether `encode` is known to accept a value, without encoding it."""

    def decode(self, data: bytes) -> Any:
        """Return the value of exactly these bytes.

        Raises:
            CorruptStreamError: The bytes are not those of one value of the type.
        """

    def encode_batch(self, values: Iterable[Any]) -> bytes:
        """Return the values one after the other, each with its length as in a record buffer."""

    def decode_batch(self, data: bytes) -> list[Any]:
        """Return the values that :meth:`encode_batch` wrote.

        Raises:
            CorruptStreamError: the bytes are not those of whole values of the type.
        """


def codec_for(type_info: "TypeInformation | None") -> Codec:
    """Return a type's codec; for None and ``Types.PICKLED_BYTE_ARRAY()`` the self-describing one.

    Raises:
        SerializationError: the type has no codec.
    """
    return codec_of(schema_of(type_info))


def codec_of(schema: TypeSchema) -> Codec:
    """Return the codec of a compiled type."""
    return _codec_of(schema, runtime())


#: Types whose codecs are remembered: more than a job has, unless it creates types.
_CACHED_CODECS: Final = 1024


@lru_cache(maxsize=_CACHED_CODECS)
def _codec_of(schema: TypeSchema, kind: str) -> Codec:
    if kind == "native":
        from penstock._native.codecs.codec import Codec as NativeCodec

        return NativeCodec(schema)
    from penstock.serialization.pure.codec import Codec as PureCodec

    return PureCodec(schema)

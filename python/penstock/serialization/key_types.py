"""The declared type of keys: the check of values, and the conversion of others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import SerializationError
from penstock.runtime import load
from penstock.serialization.codec import codec_for, codec_of
from penstock.serialization.type_schema import ANY, TypeSchema, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation
    from penstock.serialization.codec import Codec
    from penstock.serialization.pure.keys import ExactType

_CLASSES: dict[str, type] = {
    "STRING": str,
    "BOOLEAN": bool,
    "BYTE": int,
    "SHORT": int,
    "INT": int,
    "LONG": int,
    "BIG_INT": int,
    "DOUBLE": float,
    "BYTES": bytes,
}
_BITS = {"BYTE": 8, "SHORT": 16, "INT": 32, "LONG": 64}
#: Classes whose equal instances have equal bytes.
_PLAIN = (str, bool, int, bytes)


@dataclass(frozen=True)
class KeyType:
    """The type of the keys of a stream, declared or not.

    Attributes:
        kind: Its kind, on which the key hash depends; None if it is not declared.
        exact: The class of keys that already have the type, if they fit into ``bits``.
        plain: The class whose instances are their own identity; for an undeclared type, the most
            frequent class.
        bits: The size of its integers; 0 without a bound.
        convert: Converts a key to the type; None if every key has it already.
    """

    kind: str | None = None
    exact: type | None = None
    plain: type | None = str
    bits: int = 0
    convert: Callable[[Any], Any] | None = None


UNDECLARED = KeyType()


def key_type_of(type_info: TypeInformation | None) -> KeyType:
    """Return the key type of a declared type; None without one.

    Raises:
        SerializationError: The type has no codec.
    """
    return _key_type(schema_of(type_info))


def sent_key_type(
    type_info: TypeInformation | None, elements: TypeInformation | None, position: int | None
) -> tuple[KeyType, Codec | None]:
    """Return the key type with which a sender computes the key that the receiver will use.

    Args:
        type_info: The declared type of the keys.
        elements: The declared type of the records.
        position: The field that is the key; None if the key is not exactly one field.

    Returns:
        The type of the keys, and the codec of records that must be converted before their key is
        selected; None if no conversion is needed.
    """
    key_type, schema = key_type_of(type_info), schema_of(elements)
    if schema == ANY:
        return key_type, None
    if schema.kind != "TUPLE" or position is None or position >= len(schema.fields):
        return key_type, codec_for(elements)
    field = _key_type(schema.fields[position])
    if field.convert is None:
        return key_type, None
    if key_type.convert is None:
        return replace(field, kind=None), None
    is_same = field.exact is key_type.exact
    return (
        KeyType(
            kind=key_type.kind,
            exact=key_type.exact if is_same else None,
            bits=min(field.bits or 64, key_type.bits or 64) if field.bits or key_type.bits else 0,
            convert=_composed(field.convert, key_type.convert),
        ),
        None,
    )


def _key_type(schema: TypeSchema) -> KeyType:
    if schema == ANY:
        return UNDECLARED
    cls = _CLASSES.get(schema.kind)
    return KeyType(
        kind=schema.kind,
        exact=cls,
        plain=cls if cls in _PLAIN else None,
        bits=_BITS.get(schema.kind, 0),
        convert=_conversion(schema),
    )


def _conversion(schema: TypeSchema) -> Callable[[Any], Any]:
    codec = codec_of(schema)

    def convert(key: Any) -> Any:
        try:
            return codec.decode(codec.encode(key))
        except SerializationError as error:
            msg = f"a key is not of the declared type: {error}"
            raise SerializationError(msg) from error

    made: Callable[[Any], Any] = load("KeyConversion")(exact_type(schema), convert)
    return made


def _composed(first: Callable[[Any], Any], then: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda key: then(first(key))


def exact_type(schema: TypeSchema, cls: type[ExactType] | None = None) -> ExactType:
    """Return the check for values that do not change when they are sent as a type.

    Args:
        schema: The type.
        cls: The class of the result; the runtime's if it is None.
    """
    if cls is None:
        cls = load("ExactType")
    if schema.kind == "TUPLE":
        return cls(tuple, 0, tuple(exact_type(field, cls) for field in schema.fields))
    return cls(_CLASSES.get(schema.kind), _BITS.get(schema.kind, 0), ())

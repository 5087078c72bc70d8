"""The base of all messages of the control plane, and their encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from penstock.common.values.decoders import msgpack_decoder
from penstock.errors import CorruptStreamError, MessageTooLargeError
from penstock.rpc.frames import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

M = TypeVar("M")


class Message(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Base of all messages: tagged with the name of its class."""


class MessageDecoder(Generic[M]):
    """Decodes the messages of one direction; every failure is a `CorruptStreamError`."""

    def __init__(self, union: Any) -> None:
        self._decode: Callable[[bytes], M] = msgpack_decoder(union).decode

    def decode(self, body: bytes) -> M:
        """Return the message in ``body``.

        Raises:
            CorruptStreamError: the bytes are not a message of this direction.
        """
        try:
            return self._decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CorruptStreamError(f"not a message of this connection: {error}") from None


def encode_message(message: Message) -> bytes:
    """Return the bytes of one message, which fit a frame.

    Lone surrogates in its texts, which no encoding has, are escaped.

    Raises:
        MessageTooLargeError: The message is larger than a frame may be.
    """
    try:
        body = msgspec.msgpack.encode(message)
    except UnicodeEncodeError:
        body = msgspec.msgpack.encode(_escaped(message))
    if len(body) > MAX_FRAME_BYTES:
        raise MessageTooLargeError(
            f"a message {type(message).__name__} of {len(body)} bytes; one has at most "
            f"{MAX_FRAME_BYTES}"
        )
    return body


def encode_messages(messages: Sequence[Message]) -> list[bytes]:
    """Return the bytes of each message."""
    return list(map(encode_message, messages))


def _escaped(value: Any) -> Any:
    """Return the value with its texts escaped so that UTF-8 can encode them."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, msgspec.Struct):
        fields = {name: _escaped(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, dict):
        return {_escaped(key): _escaped(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_escaped, value))
    return value

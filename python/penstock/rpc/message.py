"""The base of all messages of the control plane, and how one becomes bytes and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from penstock.errors import CorruptStreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

M = TypeVar("M")


class Message(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Base of all messages: tagged with the name of its class."""


class MessageDecoder(Generic[M]):
    """Decodes the messages of one direction; every failure is a `CorruptStreamError`."""

    def __init__(self, union: Any) -> None:
        self._decode: Callable[[bytes], M] = msgspec.msgpack.Decoder(union).decode

    def decode(self, body: bytes) -> M:
        """Returns the message in ``body``.

        Raises:
            CorruptStreamError: the bytes are no message of this direction.
        """
        try:
            return self._decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CorruptStreamError(f"not a message of this connection: {error}") from None


def encode_message(message: Message) -> bytes:
    """Returns the bytes of one message."""
    return msgspec.msgpack.encode(message)


def encode_messages(messages: Sequence[Message]) -> list[bytes]:
    """Returns the bytes of each message."""
    return list(map(encode_message, messages))

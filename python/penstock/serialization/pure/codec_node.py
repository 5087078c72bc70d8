"""The base of the plain codec nodes, and the error with which a node rejects a value."""

from typing import Any

from penstock.common.exception_deadline import repr_in_time
from penstock.errors import SerializationError
from penstock.serialization.pure.value_bytes import Reader
from penstock.serialization.type_schema import TypeSchema


class Misfit(SerializationError):
    """A value does not fit its type; the error collects the path to it while it propagates."""

    def __init__(self, value: Any, type_name: str, reason: str) -> None:
        super().__init__(value, type_name, reason)
        self.value = value
        self.type_name = type_name
        self.reason = reason
        self.path = ""

    def within(self, step: str) -> "Misfit":
        """Return the error with the path extended by the enclosing container."""
        self.path = step + self.path
        return self

    def message(self, whole: str) -> str:
        """Return the message for the user."""
        where = f" at {self.path} of {whole}" if self.path else ""
        return f"{shown(self.value)} is not of type {self.type_name}{where}: {self.reason}"


def shown(value: Any) -> str:
    """Return a value and its class for an error message, shortened."""
    text = repr_in_time(value)
    return f"{text[:97] + '…' if len(text) > 100 else text} ({type(value).__name__})"


class Node:
    """Encodes and decodes values of one declared type."""

    def __init__(self, schema: TypeSchema) -> None:
        self.name = schema.name

    def encode_into(self, out: bytearray, value: Any) -> None:
        """Append a value that is not None.

        Raises:
            Misfit: The value is not of this type.
        """
        raise NotImplementedError

    def decode_from(self, reader: Reader) -> Any:
        """Return the next value.

        Raises:
            CorruptStreamError: the bytes are not those of a value of this type.
        """
        raise NotImplementedError

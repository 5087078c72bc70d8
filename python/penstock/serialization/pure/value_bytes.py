"""Reading and writing of bytes, shared by all pure codecs.

docs/formats/codec.md gives the byte tables.  Decoding trusts no input: it checks every read against
the end of the record, and every count against the remaining bytes.
"""

import struct
from typing import Any, Final

from penstock.errors import CorruptStreamError, SerializationError

#: The depth of nested containers in a value of undeclared type.  Both runtimes reject more.
MAX_DEPTH: Final = 200

#: Bytes of one record without its length field; the length is a signed 32-bit number.
MAX_RECORD_BYTES: Final = 2**31 - 1

I8: Final = struct.Struct(">b")
I16: Final = struct.Struct(">h")
I32: Final = struct.Struct(">i")
I64: Final = struct.Struct(">q")
U32: Final = struct.Struct(">I")
F32: Final = struct.Struct(">f")
F64: Final = struct.Struct(">d")


class JobBytes(bytearray):
    """Bytes that stay within the job, whose classes have numbers in them."""


class Reader:
    """The bytes of one record, and the position up to which they were read."""

    __slots__ = ("data", "depth", "end", "position")

    def __init__(self, data: bytes | bytearray | memoryview, position: int = 0) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.depth = 0

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes.

        Raises:
            CorruptStreamError: Fewer bytes remain.
        """
        start = self.position
        stop = start + size
        if stop > self.end:
            raise CorruptStreamError(f"a value needs {size} bytes, {self.end - start} are left")
        self.position = stop
        return bytes(self.data[start:stop])

    def unpack(self, form: struct.Struct) -> Any:
        """Return the next number of the given form."""
        start = self.position
        stop = start + form.size
        if stop > self.end:
            raise CorruptStreamError(
                f"a value needs {form.size} bytes, {self.end - start} are left"
            )
        self.position = stop
        return form.unpack_from(self.data, start)[0]

    def byte(self) -> int:
        """Return the next byte."""
        if self.position >= self.end:
            raise CorruptStreamError("a value needs 1 bytes, 0 are left")
        value = self.data[self.position]
        self.position += 1
        return value

    def varint(self) -> int:
        """Return a length: unsigned LEB128 of at most 31 bits."""
        value = self.byte()
        if value < 0x80:
            return value
        value &= 0x7F
        for shift in (7, 14, 21, 28):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > MAX_RECORD_BYTES:
                    break
                return value
        raise CorruptStreamError("a length of more than 31 bits")

    def count(self) -> int:
        """Return a number of elements, each of which takes at least one bit."""
        value = self.varint()
        if value > 8 * (self.end - self.position):
            raise CorruptStreamError("more elements than bytes can hold")
        return value

    def descend(self) -> None:
        """Enter a container of an undeclared value; the caller decrements ``depth`` afterwards."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise CorruptStreamError(f"a value nests deeper than {MAX_DEPTH}")


def write_varint(out: bytearray, value: int) -> None:
    """Append a length as unsigned LEB128."""
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_sized(out: bytearray, data: bytes | bytearray | memoryview) -> None:
    """Append the length of ``data`` and ``data``.

    Raises:
        SerializationError: The record would exceed its maximum size.
    """
    if len(out) + len(data) > MAX_RECORD_BYTES:
        raise SerializationError(f"a record of more than {MAX_RECORD_BYTES} bytes")
    write_varint(out, len(data))
    out += data


def encode_text(value: str) -> bytes:
    """Return UTF-8; a lone surrogate is written as three bytes, so that every ``str`` is valid."""
    return value.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Return the text that :func:`encode_text` wrote.

    Raises:
        CorruptStreamError: The bytes are not UTF-8.
    """
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptStreamError(f"text is not UTF-8: {error}") from error

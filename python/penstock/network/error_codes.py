"""The kinds of errors of the data plane: numbers on the wire and between Rust and Python.

Rust knows the numbers (``ErrorCode`` in ``rust/network/src/error.rs``), not the classes; both
runtimes write them into an ``ErrorResponse``.  Append only: a number never changes its meaning.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from penstock.errors import (
    AuthenticationError,
    CancelTaskError,
    CorruptStreamError,
    IllegalStateError,
    InsufficientBuffersError,
    NetworkError,
    PartitionConnectionError,
    PartitionNotFoundError,
    PenstockError,
    ProducerFailedError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class ErrorCode(IntEnum):
    """Code of an error."""

    INSUFFICIENT_BUFFERS = 1
    CANCEL_TASK = 2
    PARTITION_CONNECTION = 3
    PARTITION_NOT_FOUND = 4
    PRODUCER_FAILED = 5
    CORRUPT_STREAM = 6
    AUTHENTICATION = 7
    ILLEGAL_STATE = 8
    IO = 9


CLASSES: Final[Mapping[int, type[PenstockError]]] = MappingProxyType(
    {
        ErrorCode.INSUFFICIENT_BUFFERS: InsufficientBuffersError,
        ErrorCode.CANCEL_TASK: CancelTaskError,
        ErrorCode.PARTITION_CONNECTION: PartitionConnectionError,
        ErrorCode.PARTITION_NOT_FOUND: PartitionNotFoundError,
        ErrorCode.PRODUCER_FAILED: ProducerFailedError,
        ErrorCode.CORRUPT_STREAM: CorruptStreamError,
        ErrorCode.AUTHENTICATION: AuthenticationError,
        ErrorCode.ILLEGAL_STATE: IllegalStateError,
        ErrorCode.IO: NetworkError,
    }
)
"""The class of each kind."""

_CODES: Final = {kind: code for code, kind in CLASSES.items()}

_OF_THE_PRODUCER: Final = frozenset(
    {
        ErrorCode.CANCEL_TASK,
        ErrorCode.CORRUPT_STREAM,
        ErrorCode.PARTITION_NOT_FOUND,
        ErrorCode.PRODUCER_FAILED,
    }
)


def exception_of(code: int, message: str) -> PenstockError:
    """Return the exception of an error in this process, on the Rust side."""
    kind = CLASSES.get(code)
    if kind is None:
        return NetworkError(f"error {code} of the data plane: {message}")
    return kind(message)


def code_of(error: PenstockError) -> int:
    """Return the number of an error, which is that of the nearest class with a number."""
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), ErrorCode.IO)


def class_at_consumer(code: int) -> type[PenstockError]:
    """Return the consumer's exception class for an error of the producer's side.

    In any other case the exchange failed, not the producer or the connection.
    """
    return CLASSES[code] if code in _OF_THE_PRODUCER else PartitionConnectionError

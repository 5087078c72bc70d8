"""Handling of malformed bytes: an error, a skip, or a dead letter (beyond PyFlink)."""

from __future__ import annotations

import decimal
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.common.serialization import DeserializationSchema, produced_type
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row
from penstock.datastream.functions.process import ProcessFunction
from penstock.datastream.output_tag import OutputTag
from penstock.errors import InvalidProgramError, WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.datastream.functions.runtime_context import RuntimeContext

__all__ = ["DEAD_LETTER_TYPE", "DeserializeFunction", "dead_letter", "dead_letter_tag"]

#: The fields of a dead letter: the topic and partition or the file, the offset or the line number
#: from 1 (None without lines), the error, and the bytes.  The other fields are those of a Kafka
#: record, with its timestamp in ms; they are None for other sources.
DEAD_LETTER_TYPE: Final = Types.ROW_NAMED(
    [
        *("origin", "position", "error", "data"),
        *("topic", "partition", "offset", "timestamp", "key", "headers"),
    ],
    [
        *(Types.STRING(), Types.LONG(), Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
        *(Types.STRING(), Types.INT(), Types.LONG(), Types.LONG()),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.LIST(Types.TUPLE([Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())])),
    ],
)

#: The errors of decoders; `FormatError`, `UnicodeDecodeError` and the error of ``json`` are
#: subclasses.
_DECODING_ERRORS: Final = (ValueError, EOFError, struct.error, decimal.InvalidOperation)


def is_decoding_error(error: BaseException) -> bool:
    """Return whether the bytes caused an error, and not the function that reads them.

    Also detects errors of decoders such as msgspec and protobuf, which have their own classes.
    """
    if isinstance(error, _DECODING_ERRORS):
        return True
    return any(cls.__name__ in ("DecodeError", "MsgspecError") for cls in type(error).__mro__)


def dead_letter_tag(name: str) -> OutputTag:
    """Create a side output for dead letters, for sources and for `DeserializeFunction`."""
    return OutputTag(name, DEAD_LETTER_TYPE)


def dead_letter(
    origin: str,
    position: int | None,
    error: BaseException,
    data: bytes,
    *,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    timestamp: int | None = None,
    key: bytes | None = None,
    headers: list[tuple[str, bytes | None]] | None = None,
) -> Row:
    """Return the dead letter of some bytes, or of a Kafka record."""
    return Row(
        origin=origin,
        position=position,
        error=f"{type(error).__name__}: {error}",
        data=bytes(data),
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp=timestamp,
        key=key,
        headers=headers,
    )


def required_tag(where: str, tag: Any) -> OutputTag:
    """Check that the argument is a side output.

    Raises:
        InvalidProgramError: It is not an OutputTag.
    """
    if not isinstance(tag, OutputTag):
        raise InvalidProgramError(
            f"{where} takes an OutputTag, such as dead_letter_tag(name) returns, got {tag!r}"
        )
    return tag


class Policy(NamedTuple):
    """Policy for malformed input: it fails the job unless one of the attributes is set.

    Attributes:
        skips: Whether malformed input is skipped.
        tag: The side output for malformed input.
    """

    skips: bool = False
    tag: OutputTag | None = None

    @staticmethod
    def of(where: str, *, skip_malformed: bool, dead_letters: OutputTag | None) -> Policy:
        """Return the policy for a caller's arguments.

        Raises:
            InvalidProgramError: The side output is invalid, or both arguments are given.
        """
        given: Any = skip_malformed
        if not isinstance(given, bool):
            raise WrongArgumentError(
                f"{where}: skip_malformed must be True or False, got {skip_malformed!r}"
            )
        if dead_letters is not None:
            required_tag(where, dead_letters)
            if skip_malformed:
                raise InvalidProgramError("skip_malformed and dead_letters exclude each other")
        return Policy(skip_malformed, dead_letters)

    @property
    def fails(self) -> bool:
        """True if malformed input fails the job."""
        return self.tag is None and not self.skips


class DeserializeFunction(ProcessFunction):
    """Deserialises the bytes of a stream; pass it to ``process``.

    Malformed bytes fail the job, are skipped, or become dead letters; the latter two are counted in
    ``numRecordsInErrors``.
    """

    def __init__(
        self,
        schema: DeserializationSchema,
        *,
        skip_malformed: bool = False,
        dead_letters: OutputTag | None = None,
    ) -> None:
        """Create a function for a schema.

        Args:
            schema: The schema.
            skip_malformed: Whether to skip malformed bytes.
            dead_letters: The side output for malformed bytes.

        Raises:
            InvalidProgramError: An argument has the wrong type, or both policies are given.
        """
        given: Any = schema
        if not isinstance(given, DeserializationSchema):
            raise InvalidProgramError(f"expected a DeserializationSchema, got {schema!r}")
        self._schema = schema
        self._policy = Policy.of(
            "DeserializeFunction", skip_malformed=skip_malformed, dead_letters=dead_letters
        )
        self._name = ""
        self._errors: Any = None

    def get_produced_type(self) -> TypeInformation | None:
        """Return the schema's type of records, for the ``output_type`` of ``process``."""
        return produced_type(self._schema)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Register the counter."""
        self._name = runtime_context.get_task_name()
        self._errors = runtime_context.get_metrics_group().counter("numRecordsInErrors")

    def process_element(self, value: bytes, ctx: ProcessFunction.Context) -> Iterator[Any]:
        """Yield the record of the bytes, or a dead letter."""
        del ctx
        try:
            element = self._schema.deserialize(value)
        except Exception as error:
            if self._policy.fails or not is_decoding_error(error):
                raise  # also if a registry is unavailable: the bytes may be valid
            self._errors.inc()
            if self._policy.tag is not None:
                yield self._policy.tag, dead_letter(self._name, None, error, value)
            return
        if element is not None:
            yield element

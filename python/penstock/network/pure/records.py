"""Codecs, serializers and readers of the pure runtime, whichever one is selected."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from penstock.network.legacy import readers, spanning
from penstock.serialization.pure.codec import Codec
from penstock.serialization.type_schema import schema_of

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation
    from penstock.runtime import Runtime

R = TypeVar("R", bound=readers.ReadableRecord)


def codec_for(type_info: TypeInformation | None) -> Codec:
    """Return a type's codec; for None and ``Types.PICKLED_BYTE_ARRAY()`` the self-describing one.

    Raises:
        SerializationError: the type has no codec.
    """
    return Codec(schema_of(type_info))


class SpanningRecordSerializer(spanning.SpanningRecordSerializer):
    """Writes one record after the other into buffers that the caller provides."""

    _runtime: ClassVar[Runtime | None] = "pure"


class SpillingAdaptiveSpanningRecordDeserializer(
    spanning.SpillingAdaptiveSpanningRecordDeserializer
):
    """Splits the buffers of one channel into records; long ones are assembled in a file.

    Args:
        temp_directories: Directories for these files; without any, that of `tempfile.gettempdir`.
        spill_threshold_bytes: Length of the longest record that is assembled in memory, at least
            100 KiB.
    """

    _runtime: ClassVar[Runtime | None] = "pure"


class AdaptiveSpanningRecordDeserializer(spanning.AdaptiveSpanningRecordDeserializer):
    """Splits the buffers of one channel into records; long ones are assembled in memory."""

    _runtime: ClassVar[Runtime | None] = "pure"


class MutableRecordReader(readers.MutableRecordReader):
    """Fills records of the caller.

    Args:
        gate: The gate, whose partitions were requested.
        temp_directories: Directories for records of more than 5 MiB; without any, that of
            `tempfile.gettempdir`.
    """

    _deserializer_class: ClassVar = SpillingAdaptiveSpanningRecordDeserializer


class RecordReader(readers.RecordReader[R]):
    """Creates a record for each one read.

    Args:
        gate: The gate, whose partitions were requested.
        make: Creates an empty record, which then reads itself.
        temp_directories: Directories for records of more than 5 MiB; without any, that of
            `tempfile.gettempdir`.
    """

    _deserializer_class: ClassVar = SpillingAdaptiveSpanningRecordDeserializer

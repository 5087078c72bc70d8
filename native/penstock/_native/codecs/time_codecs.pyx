"""The node of declared datetimes, with the bytes of ``conversions``."""

from cpython.datetime cimport (
    datetime as Datetime, datetime_tzinfo, import_datetime,
)
from libc.stdint cimport int64_t, uint64_t

from penstock._native.codecs.scalars cimport moment_of, wall_micros
from penstock._native.wire.wire cimport Reader, Writer, get64, need, put64, reserve

import datetime

from penstock.serialization import conversions
from penstock.serialization.type_schema import TIMESTAMP_LTZ

import_datetime()

cdef object UTC = datetime.UTC
#: The mark of ``conversions``.
cdef int64_t INSTANT_MARK = conversions.INSTANT_MARK


cdef class TimestampNode(ConvertedNode):
    """SQL_TIMESTAMP and TIMESTAMP_LTZ; the conversion handles values other than plain datetimes."""

    def __cinit__(self, schema, *fields):
        self.mark = 0 if schema == TIMESTAMP_LTZ else INSTANT_MARK

    cdef int encode_into(self, Writer *writer, object value) except -1:
        cdef object zone
        cdef int64_t micros
        if type(value) is not Datetime:
            return ConvertedNode.encode_into(self, writer, value)
        zone = datetime_tzinfo(value)
        if zone is None:
            micros = wall_micros(value)
        elif zone is UTC:
            micros = wall_micros(value) + self.mark
        else:
            return ConvertedNode.encode_into(self, writer, value)
        reserve(writer, 8)
        put64(writer, <uint64_t>micros)
        return 0

    cdef object decode_from(self, Reader *reader):
        cdef object value
        cdef int64_t micros
        need(reader, 8)
        micros = <int64_t>get64(reader)
        if micros >= self.mark // 2 or not self.mark:
            value = moment_of(micros - self.mark, UTC, 0)
        else:
            value = moment_of(micros, None, 0)
        if value is None:
            reader.position -= 8
            return ConvertedNode.decode_from(self, reader)
        return value

"""The node of declared datetimes, whose bytes are those of ``conversions.epoch_micros``."""

from cpython.datetime cimport datetime as Datetime, import_datetime
from libc.stdint cimport int64_t, uint64_t

from penstock._native.scalars cimport moment_of, wall_micros
from penstock._native.wire cimport Reader, Writer, get64, need, put64, reserve

import_datetime()


cdef class TimestampNode(ConvertedNode):
    """SQL_TIMESTAMP; what is not simply a datetime is left to the conversion."""

    cdef int encode_into(self, Writer *writer, object value) except -1:
        if type(value) is not Datetime:
            return ConvertedNode.encode_into(self, writer, value)
        reserve(writer, 8)
        put64(writer, <uint64_t>wall_micros(value))
        return 0

    cdef object decode_from(self, Reader *reader):
        cdef object value
        need(reader, 8)
        value = moment_of(<int64_t>get64(reader), None, 0)
        if value is None:
            reader.position -= 8
            return ConvertedNode.decode_from(self, reader)
        return value

# Computed records that get timestamps in front of an exchange; see stamped_records.pyx.

cimport cython

from penstock._native.evaluator.expression cimport Expression, ExpressionIterator
from penstock._native.records.record_writer cimport RecordWriter


@cython.final
cdef class StampedRecords:
    cdef RecordWriter writer
    cdef Expression stamps
    cdef ExpressionIterator values
    cdef long long timestamp
    cdef readonly Py_ssize_t count
    cdef readonly long long latest
